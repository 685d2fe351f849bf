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

/*
 * YYYY-MM-DD, and BC behind it where that is so; `out` has room for FTH_DATE_TEXT bytes. Returns
 * the length.
 */
#define FTH_DATE_TEXT 64
unsigned fth_date_text(int32_t days, char *out);
/* And back, also from YYYYMMDD; blanks around a date are ignored. */
int fth_date_parse(struct fth_str s, int32_t *out);

#endif
