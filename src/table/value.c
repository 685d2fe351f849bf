/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of values, and dates. */
#include "fathom/base/error.h"
#include "fathom/table/schema.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int64_t fth_table_double_key(double value)
{
	int64_t bits;

	if (isnan(value))
		return INT64_MAX;
	if (value == 0)
		return 0;
	memcpy(&bits, &value, sizeof(bits));
	/* Negative numbers order against their bits, and -0 would be -1: so that 0 is the one zero. */
	return bits < 0 ? (int64_t)((uint64_t)INT64_MIN - (uint64_t)bits) : bits;
}

double fth_table_double_of_key(int64_t key)
{
	double value;

	if (key == INT64_MAX)
		return NAN;
	if (key < 0)
		key = (int64_t)((uint64_t)INT64_MIN - (uint64_t)key);
	memcpy(&value, &key, sizeof(value));
	return value;
}

int64_t fth_table_string_key(const char *bytes, size_t length)
{
	uint64_t key = 0;

	if (length)
		memcpy(&key, bytes, length < sizeof(key) ? length : sizeof(key));
	/* The first byte counts most; the sign is moved so that signed comparison orders unsigned keys. */
	return (int64_t)(__builtin_bswap64(key) ^ (uint64_t)INT64_MIN);
}

/*
 * Days from civil dates and back, by eras of 400 years that begin in March: H. Hinnant, "chrono-Compatible
 * Low-Level Date Algorithms", 2013.
 */
static int32_t days_of(unsigned year, unsigned month, unsigned day)
{
	unsigned y = month <= 2 ? year - 1 : year, era = y / 400, of_era = y % 400;
	unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	unsigned days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;

	return (int32_t)(era * 146097 + days) - 719468;
}

void fth_table_date_split(int32_t days, unsigned *year, unsigned *month, unsigned *day)
{
	int64_t shifted = (int64_t)days + 719468;
	int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	unsigned of_era = (unsigned)(shifted - era * 146097);
	unsigned years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned of_year = of_era - (365 * years + years / 4 - years / 100);
	unsigned from_march = (5 * of_year + 2) / 153;

	*day = of_year - (153 * from_march + 2) / 5 + 1;
	*month = from_march < 10 ? from_march + 3 : from_march - 9;
	*year = (unsigned)((int64_t)years + era * 400 + (*month <= 2));
}

int fth_table_date_days(unsigned year, unsigned month, unsigned day, int32_t *days)
{
	static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 ||
	    day > lengths[month - 1] + (unsigned)(month == 2 && leap))
		return -EINVAL;
	*days = days_of(year, month, day);
	return 0;
}
