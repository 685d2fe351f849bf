/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits and keys of values, and dates. */
#include "table/value.h"

#include "scalar/calendar.h"
#include "scalar/num.h"

#include "fathom/base/error.h"

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
	/*
	 * Negative numbers order against their bits, and -0 would be -1: so that 0 is the one zero.
	 */
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
	/*
	 * The first byte counts most; the sign is moved so that signed comparison orders unsigned
	 * keys.
	 */
	return (int64_t)(__builtin_bswap64(key) ^ (uint64_t)INT64_MIN);
}

void fth_table_date_split(int32_t days, unsigned *year, unsigned *month, unsigned *day)
{
	int64_t of_era;

	fth_civil(days, &of_era, month, day);
	*year = (unsigned)of_era;
}

int fth_table_date_days(unsigned year, unsigned month, unsigned day, int32_t *days)
{
	if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 ||
	    day > fth_month_days(year, month))
		return -EINVAL;
	*days = (int32_t)fth_days(year, month, day);
	return 0;
}

struct value_limits value_limits(const struct fth_table_column *column)
{
	struct value_limits limits = {INT64_MIN, INT64_MAX};

	switch (column->type) {
	case FTH_TABLE_BOOL:
		limits = (struct value_limits){0, 1};
		break;
	case FTH_TABLE_INT32:
		limits = (struct value_limits){INT32_MIN, INT32_MAX};
		break;
	case FTH_TABLE_DATE:
		limits = (struct value_limits){-719162, 2932896}; /* 0001-01-01 to 9999-12-31 */
		break;
	case FTH_TABLE_DECIMAL:
		if (fth_table_kind(column) == FTH_TABLE_KIND_INT) {
			limits.max = (int64_t)fth_pow10(column->precision) - 1;
			limits.min = -limits.max;
		}
		break;
	default:
		break;
	}
	return limits;
}

bool value_wide_fits(const struct fth_table_wide *value, unsigned precision)
{
	fth_u128 size = (fth_u128)(uint64_t)value->high << 64 | value->low;

	return (value->high < 0 ? -size : size) < (fth_u128)fth_pow10(precision);
}
