/* SPDX-License-Identifier: BSD-2-Clause */
/* Text and order of values. The calendar is Howard Hinnant's days_from_civil algorithm. */
#include "query/sql/value/value.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define YEAR_MAX 5881580 /* what 31 bits of days hold */

static const char bad_syntax[] = "invalid input syntax";
static const char out_of_range[] = "value out of range";

char *sql_type_name(struct sql_type type, char to[40])
{
	static const char *const names[] = {
		[SQL_BOOL] = "boolean",	   [SQL_INT32] = "integer", [SQL_INT64] = "bigint",
		[SQL_DECIMAL] = "decimal", [SQL_DATE] = "date",	    [SQL_CHAR] = "char",
		[SQL_VARCHAR] = "varchar", [SQL_DOUBLE] = "double", [SQL_INTERVAL] = "interval",
		[SQL_UNKNOWN] = "unknown",
	};

	if (type.kind == SQL_DECIMAL)
		snprintf(to, 40, "decimal(%d,%d)", type.precision, type.scale);
	else if (sql_is_string(type.kind) && type.length)
		snprintf(to, 40, "%s(%d)", names[type.kind], type.length);
	else
		snprintf(to, 40, "%s", type.kind == SQL_VARCHAR ? "text" : names[type.kind]);
	return to;
}

sql_int128 sql_power10(int n)
{
	sql_int128 power = 1;

	while (n-- > 0)
		power *= 10;
	return power;
}

int32_t sql_days_of(int64_t year, int month, int day)
{
	int64_t era, year_of_era, day_of_year, day_of_era;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	year_of_era = year - era * 400;
	day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
	return (int32_t)(era * 146097 + day_of_era - 719468);
}

void sql_date_of(int32_t days, int64_t *year, int *month, int *day)
{
	int64_t z = (int64_t)days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t day_of_era = z - era * 146097;
	int64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64_t day_of_year =
		day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64_t m = (5 * day_of_year + 2) / 153;

	*day = (int)(day_of_year - (153 * m + 2) / 5 + 1);
	*month = (int)(m < 10 ? m + 3 : m - 9);
	*year = year_of_era + era * 400 + (*month <= 2);
}

static int month_length(int64_t year, int month)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return month == 2 && leap ? 29 : lengths[month - 1];
}

bool sql_date_add(int32_t days, int32_t months, int32_t add_days, int32_t *result)
{
	int64_t sum = days;

	if (months) {
		int64_t year, total;
		int month, day;

		sql_date_of(days, &year, &month, &day);
		total = year * 12 + month - 1 + months;
		year = (total >= 0 ? total : total - 11) / 12;
		month = (int)(total - year * 12) + 1;
		if (year < -4713 || year > YEAR_MAX)
			return false;
		if (day > month_length(year, month))
			day = month_length(year, month);
		sum = sql_days_of(year, month, day);
	}
	sum += add_days;
	if (sum < INT32_MIN || sum > INT32_MAX)
		return false;
	*result = (int32_t)sum;
	return true;
}

static void trim(const char **text, size_t *length)
{
	while (*length && isspace((unsigned char)**text)) {
		(*text)++;
		(*length)--;
	}
	while (*length && isspace((unsigned char)(*text)[*length - 1]))
		(*length)--;
}

static const char *parse_integer(const char *text, size_t length, sql_int128 low, sql_int128 high,
				 struct sql_value *value)
{
	bool negative = length && *text == '-';
	sql_int128 sum = 0;
	size_t i = length && (*text == '-' || *text == '+');

	if (i == length)
		return bad_syntax;
	for (; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return bad_syntax;
		sum = sum * 10 + (text[i] - '0');
		if (sum > high - low)
			return out_of_range;
	}
	sum = negative ? -sum : sum;
	if (sum < low || sum > high)
		return out_of_range;
	value->integer = sum;
	return NULL;
}

/* The digits of a number in text; *point is how many follow the point, exponent applied. */
static const char *parse_digits(const char *text, size_t length, sql_int128 *digits, int *point)
{
	sql_int128 sum = 0;
	bool negative = length && *text == '-', seen = false, fraction = false;
	size_t i = length && (*text == '-' || *text == '+');
	long exponent = 0;
	int after = 0;

	for (; i < length && text[i] != 'e' && text[i] != 'E'; i++) {
		if (text[i] == '.' && !fraction) {
			fraction = true;
			continue;
		}
		if (!isdigit((unsigned char)text[i]))
			return bad_syntax;
		seen = true;
		if (__builtin_mul_overflow(sum, (sql_int128)10, &sum) ||
		    __builtin_add_overflow(sum, (sql_int128)(text[i] - '0'), &sum))
			return out_of_range;
		after += fraction;
	}
	if (!seen || after > 1000)
		return bad_syntax;
	if (i < length) {
		struct sql_value power;
		const char *why = parse_integer(text + i + 1, length - i - 1, -1000, 1000, &power);

		if (why)
			return why;
		exponent = (long)power.integer;
	}
	*digits = negative ? -sum : sum;
	*point = after - (int)exponent;
	return NULL;
}

static int digit_count(sql_int128 value)
{
	int n = 1;

	for (value = value < 0 ? -(value / 10) : value / 10; value; value /= 10)
		n++;
	return n;
}

static const char *parse_decimal(const char *text, size_t length, struct sql_type *type,
				 struct sql_value *value)
{
	sql_int128 digits;
	int point;
	const char *why = parse_digits(text, length, &digits, &point);

	if (why)
		return why;
	if (type->precision == 0) {
		type->scale = point < 0 ? 0 : point;
		if (type->scale > SQL_PRECISION_MAX)
			return out_of_range;
	}
	if (!sql_rescale(digits, point, type->scale, &value->integer))
		return out_of_range;
	if (type->precision == 0) {
		int n = digit_count(value->integer);

		type->precision = n > type->scale ? n : type->scale;
		if (type->precision > SQL_PRECISION_MAX)
			return out_of_range;
		if (type->precision == 0)
			type->precision = 1;
	} else if (digit_count(value->integer) > type->precision && value->integer) {
		return "numeric field overflow";
	}
	return NULL;
}

/* YYYY-MM-DD, or YYYYMMDD. PostgreSQL takes a first part of one or two digits for a month or a day. */
static const char *parse_date(const char *text, size_t length, struct sql_value *value)
{
	int parts[3] = {0, 0, 0}, part = 0;
	size_t digits = 0;
	bool compact = length == 8 && !memchr(text, '-', length);

	for (size_t i = 0; i < length; i++) {
		if (compact && (i == 4 || i == 6))
			part++;
		if (text[i] == '-' && !compact) {
			if (digits == 0 || ++part > 2)
				return bad_syntax;
			if (part == 1 && digits < 3)
				return "invalid input syntax (a year has three digits or more)";
			digits = 0;
			continue;
		}
		if (!isdigit((unsigned char)text[i]) || ++digits > 8)
			return bad_syntax;
		parts[part] = parts[part] * 10 + (text[i] - '0');
	}
	if (part != 2 || digits == 0)
		return bad_syntax;
	if (parts[0] < 1 || parts[0] > YEAR_MAX || parts[1] < 1 || parts[1] > 12 || parts[2] < 1 ||
	    parts[2] > month_length(parts[0], parts[1]))
		return "date/time field value out of range";
	value->integer = sql_days_of(parts[0], parts[1], parts[2]);
	return NULL;
}

static const char *parse_bool(const char *text, size_t length, struct sql_value *value)
{
	static const char *const words[2][6] = {{"false", "f", "no", "n", "off", "0"},
						{"true", "t", "yes", "y", "on", "1"}};

	for (int truth = 0; truth < 2; truth++) {
		for (int i = 0; i < 6; i++) {
			if (strlen(words[truth][i]) == length &&
			    !strncasecmp(words[truth][i], text, length)) {
				value->integer = truth;
				return NULL;
			}
		}
	}
	return bad_syntax;
}

static const char *parse_double(const char *text, size_t length, struct sql_value *value)
{
	char copy[400], *end;

	if (length == 0 || length >= sizeof(copy))
		return bad_syntax;
	memcpy(copy, text, length);
	copy[length] = '\0';
	errno = 0;
	value->real = strtod(copy, &end);
	if (*end || strpbrk(copy, "xXpP("))
		return bad_syntax;
	if (errno == ERANGE)
		return out_of_range;
	return NULL;
}

const char *sql_value_parse(const char *text, size_t length, struct sql_type *type,
			    struct sql_value *value)
{
	memset(value, 0, sizeof(*value));
	if (!sql_is_string(type->kind))
		trim(&text, &length);
	switch (type->kind) {
	case SQL_BOOL:
		return parse_bool(text, length, value);
	case SQL_INT32:
		return parse_integer(text, length, INT32_MIN, INT32_MAX, value);
	case SQL_INT64:
		return parse_integer(text, length, INT64_MIN, INT64_MAX, value);
	case SQL_DECIMAL:
		return parse_decimal(text, length, type, value);
	case SQL_DATE:
		return parse_date(text, length, value);
	case SQL_DOUBLE:
		return parse_double(text, length, value);
	case SQL_INTERVAL:
		return sql_interval_parse(text, length, NULL, value);
	case SQL_CHAR:
		while (length && text[length - 1] == ' ')
			length--;
		/* fall through */
	case SQL_VARCHAR:
	case SQL_UNKNOWN:
		value->text = text;
		value->length = length;
		return NULL;
	}
	return bad_syntax;
}

/* Months and days of one unit; false if it is not a unit of whole days. */
static bool interval_unit(const char *unit, size_t length, int64_t *months, int64_t *days)
{
	static const struct {
		const char *name;
		int months, days;
	} units[] = {
		{"year", 12, 0},     {"years", 12, 0},	{"yr", 12, 0},	  {"yrs", 12, 0},
		{"y", 12, 0},	     {"month", 1, 0},	{"months", 1, 0}, {"mon", 1, 0},
		{"mons", 1, 0},	     {"week", 0, 7},	{"weeks", 0, 7},  {"w", 0, 7},
		{"day", 0, 1},	     {"days", 0, 1},	{"d", 0, 1},	  {"decade", 120, 0},
		{"decades", 120, 0}, {"quarter", 3, 0},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].name) == length && !strncasecmp(units[i].name, unit, length)) {
			*months = units[i].months;
			*days = units[i].days;
			return true;
		}
	}
	return false;
}

const char *sql_interval_parse(const char *text, size_t length, const char *unit,
			       struct sql_value *value)
{
	int64_t months = 0, days = 0;
	bool any = false;

	memset(value, 0, sizeof(*value));
	trim(&text, &length);
	while (length) {
		struct sql_value number;
		const char *why, *name = unit;
		size_t n = 0, name_length = unit ? strlen(unit) : 0;
		int64_t unit_months, unit_days;

		while (n < length &&
		       (isdigit((unsigned char)text[n]) || text[n] == '-' || text[n] == '+'))
			n++;
		why = parse_integer(text, n, -1000000, 1000000, &number);
		if (why)
			return why;
		text += n;
		length -= n;
		trim(&text, &length);
		n = 0;
		while (n < length && isalpha((unsigned char)text[n]))
			n++;
		if (n) {
			name = text;
			name_length = n;
		}
		if (!name)
			return "an interval needs a unit";
		if (!interval_unit(name, name_length, &unit_months, &unit_days))
			return "only intervals of years, months, weeks and days are supported";
		months += (int64_t)number.integer * unit_months;
		days += (int64_t)number.integer * unit_days;
		if (llabs(months) > INT32_MAX || llabs(days) > INT32_MAX)
			return out_of_range;
		any = true;
		text += n;
		length -= n;
		trim(&text, &length);
	}
	if (!any)
		return bad_syntax;
	value->months = (int32_t)months;
	value->days = (int32_t)days;
	return NULL;
}

bool sql_rescale(sql_int128 value, int from, int to, sql_int128 *result)
{
	sql_int128 power, half;

	if (to >= from) {
		if (to - from > SQL_PRECISION_MAX) {
			*result = 0;
			return value == 0;
		}
		return !__builtin_mul_overflow(value, sql_power10(to - from), result);
	}
	if (from - to > SQL_PRECISION_MAX) {
		*result = 0;
		return true;
	}
	power = sql_power10(from - to);
	half = value % power;
	*result = value / power;
	if (half >= power - half)
		(*result)++;
	else if (-half >= power + half)
		(*result)--;
	return true;
}

static size_t print_integer(sql_int128 value, int scale, char *to)
{
	sql_uint128 rest = value < 0 ? -(sql_uint128)value : (sql_uint128)value;
	char reversed[SQL_VALUE_TEXT];
	size_t n = 0, length = 0;

	do {
		if (scale && n == (size_t)scale)
			reversed[n++] = '.';
		reversed[n++] = (char)('0' + (int)(rest % 10));
		rest /= 10;
	} while (rest || (scale && n <= (size_t)scale + 1));
	if (value < 0)
		to[length++] = '-';
	while (n)
		to[length++] = reversed[--n];
	to[length] = '\0';
	return length;
}

/* The shortest digits that read back as the same number; with an exponent below 1e-4 and from 1e15. */
static size_t print_double(double value, char *to)
{
	int digits = 1, exponent;

	if (isnan(value))
		return (size_t)sprintf(to, "NaN");
	if (isinf(value))
		return (size_t)sprintf(to, value < 0 ? "-Infinity" : "Infinity");
	for (;; digits++) {
		snprintf(to, SQL_VALUE_TEXT, "%.*e", digits - 1, value);
		if (digits == 17 || strtod(to, NULL) == value)
			break;
	}
	exponent = atoi(strchr(to, 'e') + 1);
	if (exponent >= -4 && exponent < 15)
		snprintf(to, SQL_VALUE_TEXT, "%.*f",
			 digits - 1 > exponent ? digits - 1 - exponent : 0, value);
	return strlen(to);
}

size_t sql_value_print(struct sql_type type, const struct sql_value *value, char to[SQL_VALUE_TEXT])
{
	int64_t year;
	int month, day;

	switch (type.kind) {
	case SQL_BOOL:
		return (size_t)sprintf(to, value->integer ? "t" : "f");
	case SQL_DATE:
		sql_date_of((int32_t)value->integer, &year, &month, &day);
		if (year <= 0)
			return (size_t)sprintf(to, "%04lld-%02d-%02d BC", (long long)(1 - year),
					       month, day);
		return (size_t)sprintf(to, "%04lld-%02d-%02d", (long long)year, month, day);
	case SQL_DOUBLE:
		return print_double(value->real, to);
	case SQL_INTERVAL:
		return (size_t)sprintf(to, "%d months %d days", value->months, value->days);
	default:
		return print_integer(value->integer, type.kind == SQL_DECIMAL ? type.scale : 0, to);
	}
}

static int compare_bytes(const struct sql_value *a, const struct sql_value *b)
{
	size_t shorter = a->length < b->length ? a->length : b->length;
	int order = shorter ? memcmp(a->text, b->text, shorter) : 0;

	return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Of two decimals with different scales: whole parts first, so that nothing overflows. */
static int compare_scaled(sql_int128 a, int a_scale, sql_int128 b, int b_scale)
{
	sql_int128 a_power = sql_power10(a_scale), b_power = sql_power10(b_scale);
	sql_int128 a_whole = a / a_power, b_whole = b / b_power;
	int scale = a_scale > b_scale ? a_scale : b_scale;

	if (a_whole != b_whole)
		return a_whole < b_whole ? -1 : 1;
	a = (a % a_power) * sql_power10(scale - a_scale);
	b = (b % b_power) * sql_power10(scale - b_scale);
	return (a > b) - (a < b);
}

int sql_value_compare(struct sql_type a_type, const struct sql_value *a, struct sql_type b_type,
		      const struct sql_value *b)
{
	if (sql_is_string(a_type.kind) || a_type.kind == SQL_UNKNOWN)
		return compare_bytes(a, b);
	if (a_type.kind == SQL_DOUBLE) {
		if (isnan(a->real) || isnan(b->real))
			return isnan(a->real) - isnan(b->real);
		return (a->real > b->real) - (a->real < b->real);
	}
	if (a_type.kind == SQL_DECIMAL && a_type.scale != b_type.scale)
		return compare_scaled(a->integer, a_type.scale, b->integer, b_type.scale);
	return (a->integer > b->integer) - (a->integer < b->integer);
}
