/* SPDX-License-Identifier: BSD-2-Clause */
/* Casts between types, as PostgreSQL's explicit casts. */
#include "query/sql/value/eval_internal.h"

#include "scalar/num.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
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
		sql_eval_substring(&value, 1, to.length);
	while (to.kind == SQL_CHAR && value.length && value.text[value.length - 1] == ' ')
		value.length--;
	*result = value;
	return 0;
}

/* Whether a decimal has the digits of its type. */
static int check_digits(struct sql_env *env, struct sql_type to, fth_i128 integer,
			struct sql_value *result)
{
	fth_i128 limit = fth_pow10((unsigned)to.precision);

	if (to.precision < SQL_PRECISION_MAX && (integer >= limit || integer <= -limit))
		return sql_eval_fail(env, ERANGE, "numeric field overflow");
	result->integer = integer;
	return 0;
}

static int double_to_decimal(struct sql_env *env, double real, struct sql_type to,
			     struct sql_value *result)
{
	fth_i128 integer;

	if (fth_f64_to_dec(real, (unsigned)to.scale, &integer) < 0)
		return sql_eval_range(env, SQL_DECIMAL);
	return check_digits(env, to, integer, result);
}

static int double_to_integer(struct sql_env *env, double real, enum sql_kind kind,
			     struct sql_value *result)
{
	bool narrow = kind == SQL_INT32;

	if (fth_f64_to_int(real, narrow ? INT32_MIN : INT64_MIN, narrow ? INT32_MAX : INT64_MAX,
			   &result->integer) < 0)
		return sql_eval_range(env, kind);
	return 0;
}

static int cast_decimal(struct sql_env *env, int scale, fth_i128 integer, struct sql_type to,
			struct sql_value *result)
{
	if (!sql_rescale(integer, scale, to.scale, &integer))
		return sql_eval_range(env, SQL_DECIMAL);
	return check_digits(env, to, integer, result);
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
		result->real = from.kind == SQL_DECIMAL
				       ? fth_dec_to_f64(in.integer, (unsigned)from.scale)
				       : (double)in.integer;
		return 0;
	}
	if (from.kind == SQL_DOUBLE)
		return to.kind == SQL_DECIMAL ? double_to_decimal(env, in.real, to, result)
					      : double_to_integer(env, in.real, to.kind, result);
	return cast_integer(env, from, in.integer, to, result);
}
