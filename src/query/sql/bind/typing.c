/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/sql/bind/typing.h"
#include "query/sql/tree/tree_build.h"
#include "query/sql/value/eval.h"
#include "query/sql/value/value.h"

#include <string.h>

static const char *const op_texts[] = {
	[SQL_EQ] = "=",	 [SQL_NE] = "<>", [SQL_LT] = "<",  [SQL_LE] = "<=",
	[SQL_GT] = ">",	 [SQL_GE] = ">=", [SQL_ADD] = "+", [SQL_SUB] = "-",
	[SQL_MUL] = "*", [SQL_DIV] = "/", [SQL_MOD] = "%",
};

struct sql_expr *sql_fold(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_env env = {.arena = ctx->arena};
	struct sql_value value;

	if (e->kind != SQL_CALL && e->kind != SQL_CASE && e->kind != SQL_CAST)
		return e;
	for (unsigned i = 0; i < e->count; i++) {
		if (!sql_is_const(e->args[i]))
			return e;
	}
	/* What fails stays: only a row that reaches it may raise the error. */
	if (sql_eval(&env, e, &value) < 0)
		return e;
	return sql_constant(ctx, e->type, value, e->at);
}

/* The first context of a parameter without a type gives it one. */
static void infer_param(struct sql_ctx *ctx, const struct sql_expr *e, struct sql_type type)
{
	struct sql_param *param;

	if (e->param == 0)
		return;
	param = &ctx->params->params[e->param - 1];
	if (param->type.kind == 0)
		param->type = sql_is_string(type.kind) ? SQL_TYPE_TEXT : type;
}

/* Reads a quoted literal as a value of type. */
static struct sql_expr *read_literal(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type)
{
	struct sql_value value;
	const char *why;
	char name[40];

	infer_param(ctx, e, type);
	if (e->value.null)
		return sql_constant(ctx, type, e->value, e->at);
	if (sql_is_string(type.kind))
		type.length = 0;
	if (type.kind == SQL_DECIMAL)
		type.precision = 0; /* as many digits as it has */
	why = sql_value_parse(e->value.text, e->value.length, &type, &value);
	if (why)
		sql_wrong(ctx, e->at, "%s for %s: \"%.*s\"", why,
			  type.kind == SQL_DECIMAL ? "decimal" : sql_type_name(type, name),
			  e->value.length < 60 ? (int)e->value.length : 60, e->value.text);
	return sql_constant(ctx, type, value, e->at);
}

static int number_rank(enum sql_kind kind)
{
	switch (kind) {
	case SQL_INT32:
		return 1;
	case SQL_INT64:
		return 2;
	case SQL_DECIMAL:
		return 3;
	case SQL_DOUBLE:
		return 4;
	default:
		return 0;
	}
}

static struct sql_type decimal_type(int precision, int scale)
{
	return (struct sql_type){.kind = SQL_DECIMAL,
				 .precision = precision > SQL_PRECISION_MAX ? SQL_PRECISION_MAX
									    : precision,
				 .scale = scale};
}

/* A number's type as a decimal. */
static struct sql_type as_decimal(struct sql_type type)
{
	if (type.kind == SQL_INT32)
		return decimal_type(10, 0);
	if (type.kind == SQL_INT64)
		return decimal_type(19, 0);
	return type;
}

struct sql_expr *sql_coerce(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type,
			    const char *what)
{
	char from[40], to[40];

	if (e->type.kind == SQL_UNKNOWN)
		return e->kind == SQL_CONST ? read_literal(ctx, e, type)
					    : sql_cast_expr(ctx, e, type);
	if (e->type.kind == type.kind && type.kind != SQL_DECIMAL)
		return e;
	if (sql_is_string(e->type.kind) && sql_is_string(type.kind))
		return e;
	if (number_rank(e->type.kind) && number_rank(e->type.kind) <= number_rank(type.kind)) {
		if (e->type.kind == SQL_DECIMAL && type.kind == SQL_DECIMAL)
			return e;
		if (type.kind == SQL_DECIMAL)
			type = as_decimal(e->type);
		return sql_fold(ctx, sql_cast_expr(ctx, e, type));
	}
	sql_wrong(ctx, e->at, "%s must be of type %s, not %s", what, sql_type_name(type, to),
		  sql_type_name(e->type, from));
}

void sql_check_value(struct sql_ctx *ctx, const struct sql_expr *e)
{
	if (e->type.kind == SQL_INTERVAL)
		sql_unsupported(ctx, e->at, "an interval that is not added to a date");
}

struct sql_expr *sql_settle(struct sql_ctx *ctx, struct sql_expr *e)
{
	return e->type.kind == SQL_UNKNOWN ? sql_coerce(ctx, e, SQL_TYPE_TEXT, "a literal") : e;
}

struct sql_expr *sql_condition(struct sql_ctx *ctx, struct sql_expr *e, const char *what)
{
	return sql_coerce(ctx, e, SQL_TYPE_BOOL, what);
}

static bool cast_exists(enum sql_kind from, enum sql_kind to)
{
	if (from == to || from == SQL_UNKNOWN || sql_is_string(from) || sql_is_string(to))
		return true;
	if (sql_is_number(from) && sql_is_number(to))
		return true;
	return (from == SQL_BOOL && to == SQL_INT32) || (from == SQL_INT32 && to == SQL_BOOL);
}

struct sql_expr *sql_cast(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type, int at)
{
	char from[40], to[40];

	if (!cast_exists(e->type.kind, type.kind) ||
	    (e->type.kind == SQL_INTERVAL && type.kind != SQL_INTERVAL))
		sql_wrong(ctx, at, "cannot cast %s to %s", sql_type_name(e->type, from),
			  sql_type_name(type, to));
	if (e->type.kind == SQL_UNKNOWN && e->kind == SQL_CONST)
		infer_param(ctx, e, type);
	/* decimal without digits: keeps those that are there */
	if (type.kind == SQL_DECIMAL && type.precision == 0) {
		if (e->type.kind == SQL_UNKNOWN && e->kind == SQL_CONST && !e->value.null)
			return read_literal(ctx, e, type);
		type = sql_is_number(e->type.kind) && e->type.kind != SQL_DOUBLE
			       ? as_decimal(e->type)
			       : decimal_type(SQL_PRECISION_MAX, SQL_DIVISION_SCALE);
	}
	if (e->type.kind == SQL_UNKNOWN && e->kind == SQL_CONST) {
		if (type.kind == SQL_INTERVAL || type.kind == SQL_DATE || type.kind == SQL_BOOL)
			return read_literal(ctx, e, type);
		e = sql_constant(ctx, e->value.null ? type : SQL_TYPE_TEXT, e->value, e->at);
	}
	return sql_fold(ctx, sql_cast_expr(ctx, e, type));
}

/*
 * The first one decides, with room for both: as PostgreSQL does, since char, varchar and text cast
 * to each other.
 */
static struct sql_type common_string(struct sql_type a, struct sql_type b)
{
	if (a.length == 0 || b.length == 0)
		a.length = 0;
	else if (a.length < b.length)
		a.length = b.length;
	return a;
}

struct sql_type sql_common_type(struct sql_ctx *ctx, struct sql_type a, struct sql_type b,
				const char *what, int at)
{
	char left[40], right[40];

	if (a.kind == SQL_UNKNOWN)
		return b;
	if (b.kind == SQL_UNKNOWN)
		return a;
	if (number_rank(a.kind) && number_rank(b.kind)) {
		struct sql_type wide = number_rank(a.kind) > number_rank(b.kind) ? a : b;
		int whole, scale;

		if (wide.kind != SQL_DECIMAL)
			return wide;
		a = as_decimal(a);
		b = as_decimal(b);
		whole = a.precision - a.scale > b.precision - b.scale ? a.precision - a.scale
								      : b.precision - b.scale;
		scale = a.scale > b.scale ? a.scale : b.scale;
		return decimal_type(whole + scale, scale);
	}
	if (sql_is_string(a.kind) && sql_is_string(b.kind))
		return common_string(a, b);
	if (a.kind != b.kind)
		sql_wrong(ctx, at, "%s: types %s and %s do not match", what, sql_type_name(a, left),
			  sql_type_name(b, right));
	return a;
}

struct sql_type sql_unify(struct sql_ctx *ctx, unsigned count, struct sql_expr **exprs,
			  const char *what)
{
	struct sql_type type = {.kind = SQL_UNKNOWN};

	for (unsigned i = 0; i < count; i++) {
		sql_check_value(ctx, exprs[i]);
		type = sql_common_type(ctx, type, exprs[i]->type, what, exprs[i]->at);
	}
	if (type.kind == SQL_UNKNOWN)
		type = SQL_TYPE_TEXT;
	/* Literals may have more digits than the rest. */
	for (unsigned i = 0; i < count; i++) {
		if (exprs[i]->type.kind == SQL_UNKNOWN) {
			exprs[i] = sql_coerce(ctx, exprs[i], type, what);
			if (!exprs[i]->value.null)
				type = sql_common_type(ctx, type, exprs[i]->type, what,
						       exprs[i]->at);
		}
	}
	for (unsigned i = 0; i < count; i++)
		exprs[i] = sql_fold(ctx, sql_cast_expr(ctx, exprs[i], type));
	return type;
}

/*
 * Trailing blanks do not count where char meets char or varchar(n), and do count where it meets
 * text. Both sides become of one kind, so that a join by hash and a comparison row by row agree.
 */
static struct sql_type comparison_type(struct sql_ctx *ctx, struct sql_type a, struct sql_type b,
				       const char *what, int at)
{
	struct sql_type type = sql_common_type(ctx, a, b, what, at);

	if (!sql_is_string(a.kind) || !sql_is_string(b.kind) || a.kind == b.kind)
		return type;
	if (sql_is_text(a) || sql_is_text(b))
		return SQL_TYPE_TEXT;
	return (struct sql_type){.kind = SQL_CHAR};
}

struct sql_expr *sql_compared(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type,
			      const char *what)
{
	e = sql_coerce(ctx, e, type, what);
	return sql_is_string(type.kind) && e->type.kind != type.kind
		       ? sql_fold(ctx, sql_cast_expr(ctx, e, type))
		       : e;
}

void sql_comparable(struct sql_ctx *ctx, struct sql_expr **a, struct sql_expr **b, const char *what,
		    int at)
{
	struct sql_type type = comparison_type(ctx, (*a)->type, (*b)->type, what, at);

	if (type.kind == SQL_INTERVAL)
		sql_unsupported(ctx, at, "comparing intervals");
	if (type.kind == SQL_UNKNOWN)
		type = SQL_TYPE_TEXT;
	*a = sql_compared(ctx, *a, type, what);
	*b = sql_compared(ctx, *b, type, what);
}

struct sql_expr *sql_compare(struct sql_ctx *ctx, enum sql_op op, struct sql_expr *a,
			     struct sql_expr *b, int at)
{
	struct sql_expr *args[2] = {a, b};
	char what[48] = "comparison";

	if (op <= SQL_GE)
		strcat(strcat(what, " with "), op_texts[op]);
	sql_comparable(ctx, &args[0], &args[1], what, at);
	if (sql_is_const(args[0]) && !sql_is_const(args[1])) {
		struct sql_expr *constant = args[0];

		args[0] = args[1];
		args[1] = constant;
		op = sql_swapped(op);
	}
	return sql_fold(ctx, sql_call(ctx, op, SQL_TYPE_BOOL, 2, args, at));
}

/* Dates: date + int, int + date, date - int, date - date, date +- interval, interval + date. */
static struct sql_expr *date_arithmetic(struct sql_ctx *ctx, enum sql_op op, struct sql_expr *a,
					struct sql_expr *b, int at)
{
	struct sql_type date = {.kind = SQL_DATE};
	struct sql_expr *args[2];
	char left[40], right[40];

	if (op == SQL_ADD && a->type.kind != SQL_DATE) {
		struct sql_expr *other = a;

		a = b;
		b = other;
	}
	if (a->type.kind == SQL_UNKNOWN && b->type.kind == SQL_INTERVAL)
		a = sql_coerce(ctx, a, date, "a date");
	if (b->type.kind == SQL_UNKNOWN)
		b = sql_coerce(ctx, b, op == SQL_SUB ? date : SQL_TYPE_INT32, "an operand");
	args[0] = a;
	args[1] = b;
	if (a->type.kind != SQL_DATE || (op != SQL_ADD && op != SQL_SUB))
		goto wrong;
	if (b->type.kind == SQL_DATE && op == SQL_SUB)
		return sql_fold(ctx, sql_call(ctx, SQL_DATE_DIFF, SQL_TYPE_INT32, 2, args, at));
	if (b->type.kind == SQL_INT32) {
		if (op == SQL_SUB)
			args[1] = sql_fold(ctx, sql_call1(ctx, SQL_NEG, SQL_TYPE_INT32, b));
		return sql_fold(ctx, sql_call(ctx, SQL_DATE_ADD_DAYS, date, 2, args, at));
	}
	if (b->type.kind == SQL_INTERVAL && sql_is_const(b)) {
		if (op == SQL_SUB && !b->value.null) {
			struct sql_value negative = b->value;

			negative.months = -negative.months;
			negative.days = -negative.days;
			args[1] = sql_constant(ctx, b->type, negative, b->at);
		}
		if (b->value.null)
			return sql_null(ctx, date);
		return sql_fold(ctx, sql_call(ctx, SQL_DATE_ADD, date, 2, args, at));
	}
wrong:
	sql_wrong(ctx, at, "operator %s does not take %s and %s", op_texts[op],
		  sql_type_name(args[0]->type, left), sql_type_name(args[1]->type, right));
}

static struct sql_type arithmetic_type(struct sql_ctx *ctx, enum sql_op op, struct sql_type a,
				       struct sql_type b, int at)
{
	struct sql_type type = sql_common_type(ctx, a, b, op_texts[op], at);
	int scale;

	if (type.kind != SQL_DECIMAL)
		return type;
	a = as_decimal(a);
	b = as_decimal(b);
	scale = a.scale > b.scale ? a.scale : b.scale;
	switch (op) {
	case SQL_ADD:
	case SQL_SUB:
		return decimal_type(type.precision + 1, type.scale);
	case SQL_MUL:
		if (a.scale + b.scale > SQL_PRECISION_MAX)
			sql_wrong(ctx, at,
				  "the product has %d digits after the point, at most %d are "
				  "supported",
				  a.scale + b.scale, SQL_PRECISION_MAX);
		return decimal_type(a.precision + b.precision, a.scale + b.scale);
	case SQL_DIV:
		return decimal_type(SQL_PRECISION_MAX,
				    scale > SQL_DIVISION_SCALE ? scale : SQL_DIVISION_SCALE);
	default:
		return type;
	}
}

struct sql_expr *sql_arithmetic(struct sql_ctx *ctx, enum sql_op op, struct sql_expr *a,
				struct sql_expr *b, int at)
{
	struct sql_expr *args[2];
	struct sql_type type;
	char left[40], right[40];

	if (a->type.kind == SQL_DATE || b->type.kind == SQL_DATE || a->type.kind == SQL_INTERVAL ||
	    b->type.kind == SQL_INTERVAL)
		return date_arithmetic(ctx, op, a, b, at);
	if ((!sql_is_number(a->type.kind) && a->type.kind != SQL_UNKNOWN) ||
	    (!sql_is_number(b->type.kind) && b->type.kind != SQL_UNKNOWN) ||
	    (a->type.kind == SQL_UNKNOWN && b->type.kind == SQL_UNKNOWN))
		sql_wrong(ctx, at, "operator %s does not take %s and %s", op_texts[op],
			  sql_type_name(a->type, left), sql_type_name(b->type, right));
	type = sql_common_type(ctx, a->type, b->type, op_texts[op], at);
	if (op == SQL_MOD && type.kind == SQL_DOUBLE)
		sql_wrong(ctx, at, "operator %% does not take double");
	args[0] = sql_coerce(ctx, a, type, "an operand");
	args[1] = sql_coerce(ctx, b, type, "an operand");
	type = arithmetic_type(ctx, op, args[0]->type, args[1]->type, at);
	return sql_fold(ctx, sql_call(ctx, op, type, 2, args, at));
}

struct sql_type sql_agg_type(struct sql_ctx *ctx, enum sql_agg_op op, struct sql_type arg, int at)
{
	static const char *const names[] = {"count", "count", "sum", "avg", "min", "max"};
	char name[40];

	if (op == SQL_COUNT || op == SQL_COUNT_ROWS)
		return SQL_TYPE_INT64;
	if (op == SQL_MIN || op == SQL_MAX) {
		if (arg.kind == SQL_BOOL || arg.kind == SQL_INTERVAL)
			sql_wrong(ctx, at, "%s does not take %s", names[op],
				  sql_type_name(arg, name));
		return arg.kind == SQL_VARCHAR ? SQL_TYPE_TEXT : arg;
	}
	if (!sql_is_number(arg.kind))
		sql_wrong(ctx, at, "%s does not take %s", names[op], sql_type_name(arg, name));
	if (arg.kind == SQL_DOUBLE)
		return arg;
	if (op == SQL_SUM && arg.kind == SQL_INT32)
		return SQL_TYPE_INT64;
	arg = as_decimal(arg);
	if (op == SQL_AVG && arg.scale < SQL_DIVISION_SCALE)
		arg.scale = SQL_DIVISION_SCALE;
	return decimal_type(SQL_PRECISION_MAX, arg.scale);
}
