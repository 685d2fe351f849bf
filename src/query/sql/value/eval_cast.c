/* SPDX-License-Identifier: BSD-2-Clause */
/* Casts between types, as PostgreSQL's explicit casts. */
#include "query/sql/value/eval_internal.h"

#include "scalar/num.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_text(struct sql_env *env, const struct sql_value *value, struct sql_type to,
		      struct sql_value *result)
{
	struct sql_value text = *value;
	char name[40], *message;
	const char *why = sql_value_parse(text.text, text.length, &to, result);
	size_t size;

	if (!why)
		return 0;
	size = strlen(why) + 80;
	message = sql_arena_alloc(env->arena, size + text.length);
	if (!message)
		return -ENOMEM;
	to.precision = 0;
	snprintf(message, size + text.length, "%s for type %s: \"%.*s\"", why,
		 to.kind == SQL_DECIMAL ? "decimal" : sql_type_name(to, name),
		 text.length < 40 ? (int)text.length : 40, text.text);
	return sql_eval_fail(env, EINVAL, message);
}

/* To char(n) or varchar(n): longer text is cut. */
static int cast_string(struct sql_env *env, struct sql_type from, struct sql_value value,
		       struct sql_type to, struct sql_value *result)
{
	if (!sql_is_string(from.kind) && from.kind != SQL_UNKNOWN) {
		char *text = sql_arena_alloc(env->arena, SQL_VALUE_TEXT);

		if (!text)
			return -ENOMEM;
		if (from.kind == SQL_BOOL)
			strcpy(text, value.integer ? "true" : "false");
		else
			sql_value_print(from, &value, text);
		value.text = text;
		value.length = strlen(text);
	}
	if (to.length)
		value.length = sql_utf8_prefix(value.text, value.length, (size_t)to.length);
	while (to.kind == SQL_CHAR && value.length && value.text[value.length - 1] == ' ')
		value.length--;
	*result = value;
	return 0;
}

static double decimal_to_double(struct sql_type from, const struct sql_value *value)
{
	char text[SQL_VALUE_TEXT];

	sql_value_print(from, value, text);
	return strtod(text, NULL);
}

/* By the 15 digits that a double holds for certain, as PostgreSQL does. */
static int double_to_decimal(struct sql_env *env, double real, struct sql_type to,
			     struct sql_value *result)
{
	char text[40];
	struct sql_value value = {.text = text};

	if (isnan(real) || isinf(real))
		return sql_eval_range(env, SQL_DECIMAL);
	value.length = (size_t)snprintf(text, sizeof(text), "%.15g", real);
	return parse_text(env, &value, to, result);
}

static int double_to_integer(struct sql_env *env, double real, enum sql_kind kind,
			     struct sql_value *result)
{
	double rounded = rint(real), limit = kind == SQL_INT32 ? 2147483648.0 : 0x1p63;

	if (isnan(real) || rounded < -limit || rounded >= limit)
		return sql_eval_range(env, kind);
	result->integer = (int64_t)rounded;
	return 0;
}

static int cast_decimal(struct sql_env *env, int scale, fth_i128 integer, struct sql_type to,
			struct sql_value *result)
{
	fth_i128 limit;

	if (!sql_rescale(integer, scale, to.scale, &integer))
		return sql_eval_range(env, SQL_DECIMAL);
	limit = fth_pow10((unsigned)to.precision);
	if (to.precision < SQL_PRECISION_MAX && (integer >= limit || integer <= -limit))
		return sql_eval_fail(env, ERANGE, "numeric field overflow");
	result->integer = integer;
	return 0;
}

/* From an integer-like value to another. */
static int cast_integer(struct sql_env *env, struct sql_type from, fth_i128 integer,
			struct sql_type to, struct sql_value *result)
{
	int scale = from.kind == SQL_DECIMAL ? from.scale : 0;

	if (to.kind == SQL_DECIMAL)
		return cast_decimal(env, scale, integer, to, result);
	if (!sql_rescale(integer, scale, 0, &integer))
		return sql_eval_range(env, to.kind);
	if (to.kind == SQL_BOOL)
		integer = integer != 0;
	if ((to.kind == SQL_INT32 && (integer < INT32_MIN || integer > INT32_MAX)) ||
	    (to.kind == SQL_INT64 && (integer < INT64_MIN || integer > INT64_MAX)))
		return sql_eval_range(env, to.kind);
	result->integer = integer;
	return 0;
}

int sql_eval_cast(struct sql_env *env, struct sql_type from, const struct sql_value *value,
		  struct sql_type to, struct sql_value *result)
{
	struct sql_value in = *value;

	memset(result, 0, sizeof(*result));
	if (in.null) {
		result->null = true;
		return 0;
	}
	if (sql_is_string(to.kind))
		return cast_string(env, from, in, to, result);
	if (sql_is_string(from.kind) || from.kind == SQL_UNKNOWN)
		return parse_text(env, &in, to, result);
	if (from.kind == to.kind && from.kind != SQL_DECIMAL) {
		*result = in;
		return 0;
	}
	if (to.kind == SQL_DOUBLE) {
		result->real = from.kind == SQL_DECIMAL ? decimal_to_double(from, &in)
							: (double)in.integer;
		return 0;
	}
	if (from.kind == SQL_DOUBLE)
		return to.kind == SQL_DECIMAL ? double_to_decimal(env, in.real, to, result)
					      : double_to_integer(env, in.real, to.kind, result);
	return cast_integer(env, from, in.integer, to, result);
}
