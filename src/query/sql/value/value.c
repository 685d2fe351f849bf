/* SPDX-License-Identifier: BSD-2-Clause */
/* Text and order of values. */
#include "query/sql/value/value.h"

#include "scalar/calendar.h"
#include "scalar/num.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define YEAR_MIN (-4713) /* of a date that months are added to */

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

bool sql_date_add(int32_t days, int32_t months, int32_t add_days, int32_t *result)
{
	int64_t sum;

	if (months && (fth_add_months(days, months, &days) < 0 || days < fth_days(YEAR_MIN, 1, 1)))
		return false;
	sum = (int64_t)days + add_days;
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

static struct fth_str str_of(const char *text, size_t length)
{
	return (struct fth_str){text, (uint32_t)length, 0};
}

/* What is wrong with a text, by the result of its parser; NULL for 0. */
static const char *reason(int rc)
{
	return rc == 0 ? NULL : rc == -ERANGE ? out_of_range : bad_syntax;
}

static const char *parse_integer(const char *text, size_t length, fth_i128 low, fth_i128 high,
				 struct sql_value *value)
{
	const char *why = reason(fth_int_parse(str_of(text, length), &value->integer));

	return !why && (value->integer < low || value->integer > high) ? out_of_range : why;
}

static int digit_count(fth_i128 value)
{
	int n = 1;

	for (value = value < 0 ? -(value / 10) : value / 10; value; value /= 10)
		n++;
	return n;
}

static const char *parse_decimal(const char *text, size_t length, struct sql_type *type,
				 struct sql_value *value)
{
	struct fth_str s = str_of(text, length);
	bool typed = type->precision;
	int places, rc = fth_dec_places(s, &places);

	if (rc == 0 && !typed)
		type->scale = places < 0 ? 0 : places;
	if (rc == 0)
		rc = type->scale > SQL_PRECISION_MAX
			     ? -ERANGE
			     : fth_dec_parse(s, (unsigned)type->scale, &value->integer);
	if (rc < 0)
		return reason(rc);
	if (!typed) {
		int n = digit_count(value->integer);

		type->precision = n > type->scale ? n : type->scale;
	} else if (digit_count(value->integer) > type->precision && value->integer) {
		return "numeric field overflow";
	}
	return NULL;
}

static const char *parse_date(const char *text, size_t length, struct sql_value *value)
{
	size_t digits = 0;
	int32_t days;
	int rc = fth_date_parse(str_of(text, length), &days);

	value->integer = days;
	while (digits < length && isdigit((unsigned char)text[digits]))
		digits++;
	if (rc == -EINVAL && digits > 0 && digits < 3 && digits < length && text[digits] == '-')
		return "invalid input syntax (a year has three digits or more)";
	return rc == -ERANGE ? "date/time field value out of range" : reason(rc);
}

static const char *parse_bool(const char *text, size_t length, struct sql_value *value)
{
	bool truth = false;
	int rc = fth_bool_parse(str_of(text, length), &truth);

	value->integer = truth;
	return reason(rc);
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
		return reason(fth_f64_parse(str_of(text, length), &value->real));
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

bool sql_rescale(fth_i128 value, int from, int to, fth_i128 *result)
{
	if (to >= from)
		return fth_dec_scale_up(value, (unsigned)(to - from), result) == 0;
	*result = fth_dec_round(value, (unsigned)(from - to));
	return true;
}

static size_t print_number(struct sql_type type, const struct sql_value *value, char *to)
{
	switch (type.kind) {
	case SQL_BOOL:
		to[0] = value->integer ? 't' : 'f';
		return 1;
	case SQL_DATE:
		return fth_date_text((int32_t)value->integer, to);
	case SQL_DOUBLE:
		return fth_f64_text(value->real, to);
	case SQL_INTERVAL:
		return (size_t)sprintf(to, "%d months %d days", value->months, value->days);
	default:
		return fth_dec_text(value->integer,
				    type.kind == SQL_DECIMAL ? (unsigned)type.scale : 0, to);
	}
}

size_t sql_value_print(struct sql_type type, const struct sql_value *value, char to[SQL_VALUE_TEXT])
{
	size_t length = print_number(type, value, to);

	to[length] = '\0';
	return length;
}

static int compare_bytes(const struct sql_value *a, const struct sql_value *b)
{
	size_t shorter = a->length < b->length ? a->length : b->length;
	int order = shorter ? memcmp(a->text, b->text, shorter) : 0;

	return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Of two decimals with different scales: whole parts first, so that nothing overflows. */
static int compare_scaled(fth_i128 a, int a_scale, fth_i128 b, int b_scale)
{
	fth_i128 a_power = fth_pow10((unsigned)a_scale), b_power = fth_pow10((unsigned)b_scale);
	fth_i128 a_whole = a / a_power, b_whole = b / b_power;
	int scale = a_scale > b_scale ? a_scale : b_scale;

	if (a_whole != b_whole)
		return a_whole < b_whole ? -1 : 1;
	a = (a % a_power) * fth_pow10((unsigned)(scale - a_scale));
	b = (b % b_power) * fth_pow10((unsigned)(scale - b_scale));
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
