/* SPDX-License-Identifier: BSD-2-Clause */
#include "scalar/calendar.h"

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Monday is 0. */
static int64_t weekday(int64_t days)
{
	return days + 3 - 7 * floor_div(days + 3, 7);
}

static int64_t year_of(int64_t days)
{
	int64_t year;
	unsigned month, day;

	fth_civil(days, &year, &month, &day);
	return year;
}

/* There is no year 0: 1 BC is -1. */
static int64_t year_as_written(int64_t year)
{
	return year > 0 ? year : year - 1;
}

/* Centuries and millennia begin with year 1 of them; those before year 1 are negative. */
static int64_t period(int64_t year, int64_t length)
{
	return year > 0 ? (year + length - 1) / length : -((length - 1 - (year - 1)) / length);
}

/* The Thursday of a week is in the year that the week belongs to. */
static int64_t iso_year(int64_t days)
{
	return year_of(days - weekday(days) + 3);
}

static int64_t iso_week(int64_t days)
{
	return (days - weekday(days) + 3 - fth_days(iso_year(days), 1, 1)) / 7 + 1;
}

static int64_t first_day(enum fth_date_part part, int64_t days)
{
	int64_t year;
	unsigned month, day;

	fth_civil(days, &year, &month, &day);
	switch (part) {
	case FTH_DATE_FIRST_OF_WEEK:
		return days - weekday(days);
	case FTH_DATE_FIRST_OF_MONTH:
		return fth_days(year, month, 1);
	case FTH_DATE_FIRST_OF_QUARTER:
		return fth_days(year, (month - 1) / 3 * 3 + 1, 1);
	case FTH_DATE_FIRST_OF_YEAR:
		return fth_days(year, 1, 1);
	case FTH_DATE_FIRST_OF_DECADE:
		return fth_days(floor_div(year, 10) * 10, 1, 1);
	case FTH_DATE_FIRST_OF_CENTURY:
		return fth_days(floor_div(year - 1, 100) * 100 + 1, 1, 1);
	default:
		return fth_days(floor_div(year - 1, 1000) * 1000 + 1, 1, 1);
	}
}

int64_t fth_date_part(enum fth_date_part part, int64_t days)
{
	switch (part) {
	case FTH_DATE_DOW:
		return (weekday(days) + 1) % 7;
	case FTH_DATE_ISODOW:
		return weekday(days) + 1;
	case FTH_DATE_DOY:
		return days - fth_days(year_of(days), 1, 1) + 1;
	case FTH_DATE_WEEK:
		return iso_week(days);
	case FTH_DATE_ISOYEAR:
		return year_as_written(iso_year(days));
	case FTH_DATE_DECADE:
		return floor_div(year_of(days), 10);
	case FTH_DATE_CENTURY:
		return period(year_of(days), 100);
	case FTH_DATE_MILLENNIUM:
		return period(year_of(days), 1000);
	case FTH_DATE_JULIAN:
		return days + 2440588;
	default:
		return first_day(part, days);
	}
}
