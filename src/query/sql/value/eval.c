/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Evaluation of expressions, row at a time: logic, comparison and arithmetic are here, casts in
 * eval_cast.c, strings in eval_string.c.
 */
#include "query/sql/value/eval_internal.h"

#include "scalar/calendar.h"
#include "scalar/math.h"
#include "scalar/num.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

int sql_eval_fail(struct sql_env *env, int err, const char *text)
{
	env->error = text;
	return -err;
}

int sql_eval_range(struct sql_env *env, enum sql_kind kind)
{
	static const char *const texts[] = {
		[SQL_INT32] = "integer out of range",
		[SQL_INT64] = "bigint out of range",
		[SQL_DECIMAL] = "numeric value out of range",
		[SQL_DATE] = "date out of range",
		[SQL_DOUBLE] = "double precision value out of range",
	};

	return sql_eval_fail(env, ERANGE, texts[kind]);
}

static int set_integer(struct sql_env *env, enum sql_kind kind, fth_i128 integer,
		       struct sql_value *value)
{
	if (kind == SQL_INT32 || kind == SQL_DATE) {
		if (integer < INT32_MIN || integer > INT32_MAX)
			return sql_eval_range(env, kind);
	} else if (kind == SQL_INT64 && (integer < INT64_MIN || integer > INT64_MAX)) {
		return sql_eval_range(env, kind);
	}
	value->null = false;
	value->integer = integer;
	return 0;
}

static void set_null(struct sql_value *value)
{
	memset(value, 0, sizeof(*value));
	value->null = true;
}

static void set_bool(struct sql_value *value, bool truth)
{
	memset(value, 0, sizeof(*value));
	value->integer = truth;
}

/* AND and OR: `decisive` ends it, NULL is remembered. */
static int eval_logic(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	bool decisive = e->op == SQL_OR, unknown = false;

	for (unsigned i = 0; i < e->count; i++) {
		int rc = sql_eval(env, e->args[i], value);

		if (rc < 0)
			return rc;
		if (value->null)
			unknown = true;
		else if ((value->integer != 0) == decisive)
			return 0;
	}
	if (unknown)
		set_null(value);
	else
		set_bool(value, !decisive);
	return 0;
}

static bool compare_holds(enum sql_op op, int order)
{
	switch (op) {
	case SQL_EQ:
		return order == 0;
	case SQL_NE:
		return order != 0;
	case SQL_LT:
		return order < 0;
	case SQL_LE:
		return order <= 0;
	case SQL_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

static int eval_distinct(const struct sql_expr *e, const struct sql_value *a,
			 const struct sql_value *b, struct sql_value *value)
{
	bool distinct = a->null != b->null;

	if (!a->null && !b->null)
		distinct = sql_value_compare(e->args[0]->type, a, e->args[1]->type, b) != 0;
	set_bool(value, distinct == (e->op == SQL_IS_DISTINCT));
	return 0;
}

static int eval_comparison(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value a, b;
	int rc = sql_eval(env, e->args[0], &a);

	if (rc == 0)
		rc = sql_eval(env, e->args[1], &b);
	if (rc < 0)
		return rc;
	if (e->op == SQL_IS_DISTINCT || e->op == SQL_IS_NOT_DISTINCT)
		return eval_distinct(e, &a, &b, value);
	if (a.null || b.null)
		set_null(value);
	else
		set_bool(value, compare_holds(e->op, sql_value_compare(e->args[0]->type, &a,
								       e->args[1]->type, &b)));
	return 0;
}

static int eval_in(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value x, item;
	bool unknown = false;
	int rc = sql_eval(env, e->args[0], &x);

	for (unsigned i = 1; rc == 0 && i < e->count; i++) {
		rc = sql_eval(env, e->args[i], &item);
		if (rc < 0)
			return rc;
		if (x.null || item.null) {
			unknown = true;
		} else if (sql_value_compare(e->args[0]->type, &x, e->args[i]->type, &item) == 0) {
			set_bool(value, true);
			return 0;
		}
	}
	if (unknown)
		set_null(value);
	else
		set_bool(value, false);
	return rc;
}

static int eval_case(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	for (unsigned i = 0; i + 1 < e->count; i += 2) {
		int rc = sql_eval(env, e->args[i], value);

		if (rc < 0)
			return rc;
		if (!value->null && value->integer)
			return sql_eval(env, e->args[i + 1], value);
	}
	return sql_eval(env, e->args[e->count - 1], value);
}

/* COALESCE, GREATEST, LEAST. Decimals take the scale of the result. */
static int eval_choice(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value best;
	bool found = false;

	set_null(&best);
	for (unsigned i = 0; i < e->count; i++) {
		struct sql_value item;
		int rc = sql_eval(env, e->args[i], &item), order;

		if (rc == 0 && e->type.kind == SQL_DECIMAL)
			rc = sql_eval_cast(env, e->args[i]->type, &item, e->type, &item);
		if (rc < 0)
			return rc;
		if (item.null)
			continue;
		order = found ? sql_value_compare(e->type, &item, e->type, &best) : 0;
		if (!found || (e->op == SQL_GREATEST ? order > 0 : order < 0))
			best = item;
		found = true;
		if (e->op == SQL_COALESCE)
			break;
	}
	*value = best;
	return 0;
}

static int eval_nullif(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value other;
	int rc = sql_eval(env, e->args[0], value);

	if (rc == 0)
		rc = sql_eval(env, e->args[1], &other);
	if (rc == 0 && !value->null && !other.null &&
	    sql_value_compare(e->args[0]->type, value, e->args[1]->type, &other) == 0)
		set_null(value);
	return rc;
}

int sql_eval_divide(struct sql_env *env, fth_i128 a, int a_scale, fth_i128 b, int b_scale,
		    int scale, fth_i128 *result)
{
	int rc = fth_dec_div(a, (unsigned)a_scale, b, (unsigned)b_scale, (unsigned)scale, result);

	if (rc == -EDOM)
		return sql_eval_fail(env, EINVAL, "division by zero");
	return rc < 0 ? sql_eval_range(env, SQL_DECIMAL) : 0;
}

static int eval_real(struct sql_env *env, enum sql_op op, double a, double b,
		     struct sql_value *value)
{
	double result = 0;

	if ((op == SQL_DIV || op == SQL_MOD) && b == 0)
		return sql_eval_fail(env, EINVAL, "division by zero");
	switch (op) {
	case SQL_ADD:
		result = a + b;
		break;
	case SQL_SUB:
		result = a - b;
		break;
	case SQL_MUL:
		result = a * b;
		break;
	case SQL_DIV:
		result = a / b;
		break;
	default:
		result = fmod(a, b);
	}
	if (isinf(result) && !isinf(a) && !isinf(b))
		return sql_eval_range(env, SQL_DOUBLE);
	value->real = result;
	return 0;
}

/* On integers, and on decimals where both sides have been brought to the scale of the result. */
static int eval_integer(struct sql_env *env, const struct sql_expr *e, fth_i128 a, fth_i128 b,
			struct sql_value *value)
{
	fth_i128 result = 0;
	bool overflow = false;

	if ((e->op == SQL_DIV || e->op == SQL_MOD) && b == 0)
		return sql_eval_fail(env, EINVAL, "division by zero");
	switch (e->op) {
	case SQL_ADD:
		overflow = __builtin_add_overflow(a, b, &result);
		break;
	case SQL_SUB:
		overflow = __builtin_sub_overflow(a, b, &result);
		break;
	case SQL_MUL:
		overflow = __builtin_mul_overflow(a, b, &result);
		break;
	case SQL_DIV:
		result = a / b;
		break;
	default:
		result = b == -1 ? 0 : a % b;
	}
	if (overflow)
		return sql_eval_range(env, e->type.kind);
	return set_integer(env, e->type.kind, result, value);
}

static int eval_decimal(struct sql_env *env, const struct sql_expr *e, fth_i128 a, fth_i128 b,
			struct sql_value *value)
{
	int a_scale = e->args[0]->type.scale, b_scale = e->args[1]->type.scale;

	if (e->op == SQL_DIV)
		return sql_eval_divide(env, a, a_scale, b, b_scale, e->type.scale, &value->integer);
	if (e->op != SQL_MUL && (!sql_rescale(a, a_scale, e->type.scale, &a) ||
				 !sql_rescale(b, b_scale, e->type.scale, &b)))
		return sql_eval_range(env, SQL_DECIMAL);
	return eval_integer(env, e, a, b, value);
}

static int eval_arithmetic(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value a, b;
	int rc = sql_eval(env, e->args[0], &a);

	if (rc == 0)
		rc = sql_eval(env, e->args[1], &b);
	if (rc < 0)
		return rc;
	memset(value, 0, sizeof(*value));
	if (a.null || b.null) {
		set_null(value);
		return 0;
	}
	if (e->type.kind == SQL_DOUBLE)
		return eval_real(env, e->op, a.real, b.real, value);
	if (e->type.kind == SQL_DECIMAL)
		return eval_decimal(env, e, a.integer, b.integer, value);
	return eval_integer(env, e, a.integer, b.integer, value);
}

static int eval_date_part(enum sql_op op, struct sql_value *value)
{
	int64_t year;
	unsigned month, day;

	fth_civil((int64_t)value->integer, &year, &month, &day);
	if (op == SQL_YEAR)
		value->integer = year > 0 ? year : year - 1;
	else if (op == SQL_QUARTER)
		value->integer = (month + 2) / 3;
	else
		value->integer = op == SQL_MONTH ? month : day;
	return 0;
}

/* FLOOR and CEIL; the scale of a decimal result is 0. */
static void round_towards(const struct sql_expr *e, struct sql_value *value)
{
	bool up = e->op == SQL_CEIL;

	if (e->type.kind == SQL_DOUBLE) {
		value->real = up ? ceil(value->real) : floor(value->real);
	} else if (e->args[0]->type.kind == SQL_DECIMAL) {
		value->integer =
			fth_dec_floor(value->integer, (unsigned)e->args[0]->type.scale, up);
	}
}

static int eval_negated(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	fth_i128 negated;

	if (e->type.kind == SQL_DOUBLE) {
		value->real = e->op == SQL_ABS ? fabs(value->real) : -value->real;
		return 0;
	}
	if (e->op == SQL_ABS && value->integer >= 0)
		return 0;
	if (__builtin_sub_overflow((fth_i128)0, value->integer, &negated))
		return sql_eval_range(env, e->type.kind);
	return set_integer(env, e->type.kind, negated, value);
}

/* ROUND to args[1] digits, a constant; the type of the result has that scale. */
static int eval_round(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	if (e->type.kind == SQL_DOUBLE) {
		value->real = rint(value->real);
		return 0;
	}
	if (e->args[0]->type.kind == SQL_DECIMAL) {
		int digits = (int)e->args[1]->value.integer;

		if (!sql_rescale(value->integer, e->args[0]->type.scale, digits, &value->integer) ||
		    !sql_rescale(value->integer, digits, e->type.scale, &value->integer))
			return sql_eval_range(env, SQL_DECIMAL);
	}
	return 0;
}

/* SQRT, EXP, LN, LOG10, POWER, with the first argument in *value. */
static int eval_math(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value power = {0};
	const char *why;
	int rc = e->count > 1 ? sql_eval(env, e->args[1], &power) : 0;

	if (rc < 0 || power.null) {
		*value = power;
		return rc;
	}
	if (e->type.kind == SQL_DECIMAL)
		why = fth_dec_sqrt(value->integer, (unsigned)e->args[0]->type.scale,
				   (unsigned)e->type.scale, &value->integer);
	else
		why = fth_f64_math(FTH_MATH_SQRT + (e->op - SQL_SQRT), value->real, power.real,
				   &value->real);
	return why ? sql_eval_fail(env, EINVAL, why) : 0;
}

/* Functions whose result is NULL if their first argument is, with that argument in *value. */
static int eval_first(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	struct sql_value other;
	int32_t days;
	int rc;

	switch (e->op) {
	case SQL_NOT:
		value->integer = !value->integer;
		return 0;
	case SQL_NEG:
	case SQL_ABS:
		return eval_negated(env, e, value);
	case SQL_ROUND:
		return eval_round(env, e, value);
	case SQL_FLOOR:
	case SQL_CEIL:
		round_towards(e, value);
		return 0;
	case SQL_YEAR:
	case SQL_QUARTER:
	case SQL_MONTH:
	case SQL_DAY:
		return eval_date_part(e->op, value);
	case SQL_SQRT:
	case SQL_EXP:
	case SQL_LN:
	case SQL_LOG10:
	case SQL_POWER:
		return eval_math(env, e, value);
	case SQL_DATE_PART:
	case SQL_DATE_TRUNC:
		return set_integer(env, SQL_DATE,
				   fth_date_part((enum fth_date_part)e->args[1]->value.integer,
						 (int64_t)value->integer),
				   value);
	case SQL_DATE_ADD:
		rc = sql_eval(env, e->args[1], &other);
		if (rc < 0)
			return rc;
		if (!sql_date_add((int32_t)value->integer, other.months, other.days, &days))
			return sql_eval_range(env, SQL_DATE);
		value->integer = days;
		return 0;
	case SQL_DATE_ADD_DAYS:
	case SQL_DATE_DIFF:
		rc = sql_eval(env, e->args[1], &other);
		if (rc < 0 || other.null) {
			*value = other;
			return rc;
		}
		return set_integer(env, e->type.kind,
				   e->op == SQL_DATE_DIFF ? value->integer - other.integer
							  : value->integer + other.integer,
				   value);
	default:
		return sql_eval_string(env, e, value);
	}
}

static int eval_call(struct sql_env *env, const struct sql_expr *e, struct sql_value *value)
{
	int rc;

	switch (e->op) {
	case SQL_AND:
	case SQL_OR:
		return eval_logic(env, e, value);
	case SQL_EQ:
	case SQL_NE:
	case SQL_LT:
	case SQL_LE:
	case SQL_GT:
	case SQL_GE:
	case SQL_IS_DISTINCT:
	case SQL_IS_NOT_DISTINCT:
		return eval_comparison(env, e, value);
	case SQL_IN:
		return eval_in(env, e, value);
	case SQL_ADD:
	case SQL_SUB:
	case SQL_MUL:
	case SQL_DIV:
	case SQL_MOD:
		return eval_arithmetic(env, e, value);
	case SQL_COALESCE:
	case SQL_GREATEST:
	case SQL_LEAST:
		return eval_choice(env, e, value);
	case SQL_NULLIF:
		return eval_nullif(env, e, value);
	default:
		break;
	}
	rc = sql_eval(env, e->args[0], value);
	if (rc < 0)
		return rc;
	if (e->op == SQL_IS_NULL || e->op == SQL_IS_NOT_NULL) {
		set_bool(value, value->null == (e->op == SQL_IS_NULL));
		return 0;
	}
	return value->null ? 0 : eval_first(env, e, value);
}

int sql_eval(struct sql_env *env, const struct sql_expr *expr, struct sql_value *value)
{
	int rc;

	switch (expr->kind) {
	case SQL_COLUMN:
		*value = env->row[env->slots[expr->column]];
		return 0;
	case SQL_CONST:
		*value = expr->value;
		return 0;
	case SQL_CALL:
		return eval_call(env, expr, value);
	case SQL_CASE:
		return eval_case(env, expr, value);
	case SQL_CAST:
		rc = sql_eval(env, expr->args[0], value);
		if (rc == 0)
			rc = sql_eval_cast(env, expr->args[0]->type, value, expr->type, value);
		return rc;
	case SQL_SUBQUERY:
		break;
	}
	return sql_eval_fail(env, EINVAL, "a subquery was not unnested");
}
