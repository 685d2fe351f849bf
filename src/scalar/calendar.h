/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dates: days since 1970-01-01 and the civil calendar, proleptic Gregorian; year 0 is 1 BC.
 * Functions that can fail return 0, -ERANGE for a date that does not exist or does not fit, or
 * -EINVAL for text that is no date.
 */
#ifndef SCALAR_CALENDAR_H
#define SCALAR_CALENDAR_H

#include "scalar/scalar.h"

void fth_civil(int64_t days, int64_t *year, unsigned *month, unsigned *day);
int64_t fth_days(int64_t year, unsigned month, unsigned day);
/* The days of a month, from 1 to 12. */
unsigned fth_month_days(int64_t year, unsigned month);
/* The same day of the month so many months later, or the month's last day. */
int fth_add_months(int32_t days, int64_t months, int32_t *out);

/* Parts of a date, and the first day of the week, month and so on that a date lies in. */
enum fth_date_part {
	FTH_DATE_DOW,	 /* Sunday is 0 */
	FTH_DATE_ISODOW, /* Monday is 1, Sunday 7 */
	FTH_DATE_DOY,
	FTH_DATE_WEEK, /* of ISO 8601, and the year that it belongs to */
	FTH_DATE_ISOYEAR,
	FTH_DATE_DECADE,
	FTH_DATE_CENTURY,
	FTH_DATE_MILLENNIUM,
	FTH_DATE_JULIAN,
	FTH_DATE_FIRST_OF_WEEK,
	FTH_DATE_FIRST_OF_MONTH,
	FTH_DATE_FIRST_OF_QUARTER,
	FTH_DATE_FIRST_OF_YEAR,
	FTH_DATE_FIRST_OF_DECADE,
	FTH_DATE_FIRST_OF_CENTURY,
	FTH_DATE_FIRST_OF_MILLENNIUM,
	FTH_DATE_PARTS
};
int64_t fth_date_part(enum fth_date_part part, int64_t days);

/*
 * YYYY-MM-DD, and BC behind it where that is so; `out` has room for FTH_DATE_TEXT bytes. Returns
 * the length.
 */
#define FTH_DATE_TEXT 64
unsigned fth_date_text(int32_t days, char *out);
/* And back, also from YYYYMMDD; blanks around a date are ignored. */
int fth_date_parse(struct fth_str s, int32_t *out);

#endif
