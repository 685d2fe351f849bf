/* SPDX-License-Identifier: BSD-2-Clause */
/* The calendar, by H. Hinnant, "chrono-compatible low-level date algorithms" (2013). */
#include "scalar/calendar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

void fth_civil(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
	int64_t z = days + 719468, era = floor_div(z, 146097);
	unsigned doe = (unsigned)(z - era * 146097);
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned mp = (5 * doy + 2) / 153;

	*day = doy - (153 * mp + 2) / 5 + 1;
	*month = mp < 10 ? mp + 3 : mp - 9;
	*year = (int64_t)yoe + era * 400 + (*month <= 2);
}

int64_t fth_days(int64_t year, unsigned month, unsigned day)
{
	int64_t y = year - (month <= 2), era = floor_div(y, 400);
	unsigned yoe = (unsigned)(y - era * 400);
	unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

	return era * 146097 + (int64_t)doe - 719468;
}

unsigned fth_month_days(int64_t year, unsigned month)
{
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month_days[month - 1] + (month == 2 && leap);
}

int fth_add_months(int32_t days, int64_t months, int32_t *out)
{
	int64_t year, total, result;
	unsigned month, day, last;

	fth_civil(days, &year, &month, &day);
	if (months < -100000000 || months > 100000000)
		return -ERANGE;
	total = year * 12 + (month - 1) + months;
	year = floor_div(total, 12);
	month = (unsigned)(total - year * 12) + 1;
	last = fth_month_days(year, month);
	result = fth_days(year, month, day < last ? day : last);
	if (result < INT32_MIN || result > INT32_MAX)
		return -ERANGE;
	*out = (int32_t)result;
	return 0;
}

unsigned fth_date_text(int32_t days, char *out)
{
	int64_t year;
	unsigned month, day;

	fth_civil(days, &year, &month, &day);
	return (unsigned)snprintf(out, FTH_DATE_TEXT, "%04lld-%02u-%02u%s",
				  (long long)(year > 0 ? year : 1 - year), month, day,
				  year > 0 ? "" : " BC");
}

static int read_field(struct fth_str s, unsigned *at, unsigned most, unsigned *out)
{
	unsigned from = *at;

	*out = 0;
	for (; *at < s.len && *at - from < most && s.data[*at] >= '0' && s.data[*at] <= '9'; ++*at)
		*out = *out * 10 + (unsigned)(s.data[*at] - '0');
	return *at > from ? 0 : -EINVAL;
}

/*
 * YYYY-MM-DD, or YYYYMMDD. PostgreSQL takes a first part of one or two digits for a month or a day.
 */
int fth_date_parse(struct fth_str s, int32_t *out)
{
	unsigned at = 0, end = s.len, field[3];
	bool compact;
	int64_t days;

	while (at < end && s.data[at] == ' ')
		at++;
	while (end > at && s.data[end - 1] == ' ')
		end--;
	s.len = end;
	compact = end - at == 8 && !memchr(s.data + at, '-', 8);
	for (unsigned i = 0; i < 3; i++) {
		unsigned from;

		if (i > 0 && !compact && (at >= end || s.data[at++] != '-'))
			return -EINVAL;
		from = at;
		if (read_field(s, &at, i > 0 ? 2 : compact ? 4 : 7, &field[i]) < 0)
			return -EINVAL;
		if (i == 0 && at - from < 3)
			return -EINVAL;
	}
	if (at != end)
		return -EINVAL;
	if (field[0] < 1 || field[1] < 1 || field[1] > 12 || field[2] < 1 ||
	    field[2] > fth_month_days(field[0], field[1]))
		return -ERANGE;
	days = fth_days(field[0], field[1], field[2]);
	if (days > INT32_MAX)
		return -ERANGE;
	*out = (int32_t)days;
	return 0;
}
