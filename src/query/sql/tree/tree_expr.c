/* SPDX-License-Identifier: BSD-2-Clause */
/* Expressions: making, comparing, walking. Relations are in tree_rel.c. */
#include "query/sql/tree/tree_build.h"
#include "query/sql/value/value.h"

#include <string.h>

static struct sql_expr *new_expr(struct sql_ctx *ctx, enum sql_expr_kind kind, struct sql_type type,
				 int at)
{
	struct sql_expr *e = sql_alloc(ctx, sizeof(*e));

	e->kind = kind;
	e->type = type;
	e->at = at;
	return e;
}

struct sql_expr *sql_column_expr(struct sql_ctx *ctx, int column, int at)
{
	struct sql_expr *e = new_expr(ctx, SQL_COLUMN, ctx->columns[column].type, at);

	e->column = column;
	e->nullable = ctx->columns[column].nullable;
	return e;
}

struct sql_expr *sql_constant(struct sql_ctx *ctx, struct sql_type type, struct sql_value value,
			      int at)
{
	struct sql_expr *e = new_expr(ctx, SQL_CONST, type, at);

	e->value = value;
	e->nullable = value.null;
	return e;
}

struct sql_expr *sql_null(struct sql_ctx *ctx, struct sql_type type)
{
	return sql_constant(ctx, type, (struct sql_value){.null = true}, -1);
}

struct sql_expr *sql_bool(struct sql_ctx *ctx, bool truth)
{
	return sql_integer(ctx, SQL_TYPE_BOOL, truth);
}

struct sql_expr *sql_integer(struct sql_ctx *ctx, struct sql_type type, int64_t value)
{
	return sql_constant(ctx, type, (struct sql_value){.integer = value}, -1);
}

/* Whether the result may be NULL, by operator and arguments. */
static bool call_nullable(const struct sql_expr *e)
{
	bool any = false, all = true;

	for (unsigned i = 0; i < e->count; i++) {
		any |= e->args[i]->nullable;
		all &= e->args[i]->nullable;
	}
	switch (e->op) {
	case SQL_IS_NULL:
	case SQL_IS_NOT_NULL:
	case SQL_IS_DISTINCT:
	case SQL_IS_NOT_DISTINCT:
		return false;
	case SQL_NULLIF:
		return true;
	case SQL_COALESCE:
	case SQL_GREATEST:
	case SQL_LEAST:
		return all;
	default:
		return any;
	}
}

struct sql_expr *sql_call(struct sql_ctx *ctx, enum sql_op op, struct sql_type type, unsigned count,
			  struct sql_expr **args, int at)
{
	struct sql_expr *e = new_expr(ctx, SQL_CALL, type, at);

	e->op = op;
	e->count = count;
	e->args = SQL_ARRAY(ctx, struct sql_expr *, count);
	memcpy(e->args, args, count * sizeof(*args));
	e->nullable = call_nullable(e);
	return e;
}

struct sql_expr *sql_call1(struct sql_ctx *ctx, enum sql_op op, struct sql_type type,
			   struct sql_expr *a)
{
	return sql_call(ctx, op, type, 1, &a, a->at);
}

struct sql_expr *sql_call2(struct sql_ctx *ctx, enum sql_op op, struct sql_type type,
			   struct sql_expr *a, struct sql_expr *b)
{
	struct sql_expr *args[] = {a, b};

	return sql_call(ctx, op, type, 2, args, a->at);
}

struct sql_expr *sql_cast_expr(struct sql_ctx *ctx, struct sql_expr *arg, struct sql_type type)
{
	struct sql_expr *e;

	if (sql_same_type(arg->type, type))
		return arg;
	e = new_expr(ctx, SQL_CAST, type, arg->at);
	e->count = 1;
	e->args = SQL_ARRAY(ctx, struct sql_expr *, 1);
	e->args[0] = arg;
	e->nullable = arg->nullable;
	return e;
}

struct sql_expr *sql_case_expr(struct sql_ctx *ctx, struct sql_type type, unsigned count,
			       struct sql_expr **args, int at)
{
	struct sql_expr *e = new_expr(ctx, SQL_CASE, type, at);

	e->count = count;
	e->args = SQL_ARRAY(ctx, struct sql_expr *, count);
	memcpy(e->args, args, count * sizeof(*args));
	e->nullable = args[count - 1]->nullable;
	for (unsigned i = 1; i < count; i += 2)
		e->nullable |= args[i]->nullable;
	return e;
}

bool sql_is_const(const struct sql_expr *e)
{
	return e->kind == SQL_CONST;
}

bool sql_is_true(const struct sql_expr *e)
{
	return e->kind == SQL_CONST && !e->value.null && e->value.integer != 0;
}

bool sql_is_false_or_null(const struct sql_expr *e)
{
	return e->kind == SQL_CONST && (e->value.null || e->value.integer == 0);
}

bool sql_is_call(const struct sql_expr *e, enum sql_op op)
{
	return e->kind == SQL_CALL && e->op == op;
}

bool sql_is_comparison(const struct sql_expr *e)
{
	return e->kind == SQL_CALL && e->op >= SQL_EQ && e->op <= SQL_GE;
}

enum sql_op sql_swapped(enum sql_op op)
{
	switch (op) {
	case SQL_LT:
		return SQL_GT;
	case SQL_LE:
		return SQL_GE;
	case SQL_GT:
		return SQL_LT;
	case SQL_GE:
		return SQL_LE;
	default:
		return op;
	}
}

bool sql_same_type(struct sql_type a, struct sql_type b)
{
	if (a.kind != b.kind)
		return false;
	if (a.kind == SQL_DECIMAL)
		return a.scale == b.scale && a.precision == b.precision;
	return !sql_is_string(a.kind) || a.length == b.length;
}

static bool equal_constants(const struct sql_expr *a, const struct sql_expr *b)
{
	if (a->value.null || b->value.null)
		return a->value.null && b->value.null;
	if (a->type.kind == SQL_INTERVAL)
		return a->value.months == b->value.months && a->value.days == b->value.days;
	return sql_value_compare(a->type, &a->value, b->type, &b->value) == 0;
}

bool sql_equal(const struct sql_expr *a, const struct sql_expr *b)
{
	if (a == b)
		return true;
	if (a->kind != b->kind || a->count != b->count || !sql_same_type(a->type, b->type))
		return false;
	switch (a->kind) {
	case SQL_COLUMN:
		return a->column == b->column;
	case SQL_CONST:
		return equal_constants(a, b);
	case SQL_CALL:
		if (a->op != b->op)
			return false;
		break;
	case SQL_SUBQUERY:
		return false;
	default:
		break;
	}
	for (unsigned i = 0; i < a->count; i++) {
		if (!sql_equal(a->args[i], b->args[i]))
			return false;
	}
	return true;
}

/*
 * Among so many an operand that occurs twice is found; more would take long, and it does no harm.
 */
#define SAME_MAX 256

/* Flattens e into list; false if it decides the whole. */
static bool flatten_logic(struct sql_ctx *ctx, enum sql_op op, struct sql_expr *e,
			  struct sql_list *list)
{
	if (sql_is_call(e, op)) {
		for (unsigned i = 0; i < e->count; i++) {
			if (!flatten_logic(ctx, op, e->args[i], list))
				return false;
		}
		return true;
	}
	if (e->kind == SQL_CONST && !e->value.null)
		return (e->value.integer != 0) == (op == SQL_AND);
	for (unsigned i = 0; i < list->count && i < SAME_MAX; i++) {
		if (sql_equal(list->items[i], e))
			return true;
	}
	sql_list_add(ctx, list, e);
	return true;
}

static struct sql_expr *logic(struct sql_ctx *ctx, enum sql_op op, const struct sql_list *parts)
{
	struct sql_list flat = {0};

	for (unsigned i = 0; i < parts->count; i++) {
		if (!flatten_logic(ctx, op, parts->items[i], &flat))
			return sql_bool(ctx, op == SQL_OR);
	}
	if (flat.count == 0)
		return sql_bool(ctx, op == SQL_AND);
	if (flat.count == 1)
		return flat.items[0];
	return sql_call(ctx, op, SQL_TYPE_BOOL, flat.count, (struct sql_expr **)flat.items,
			((struct sql_expr *)flat.items[0])->at);
}

struct sql_expr *sql_and_list(struct sql_ctx *ctx, const struct sql_list *conjuncts)
{
	struct sql_expr *e = conjuncts->count ? logic(ctx, SQL_AND, conjuncts) : NULL;

	return e && sql_is_true(e) ? NULL : e;
}

struct sql_expr *sql_or_list(struct sql_ctx *ctx, const struct sql_list *disjuncts)
{
	return logic(ctx, SQL_OR, disjuncts);
}

struct sql_expr *sql_and(struct sql_ctx *ctx, struct sql_expr *a, struct sql_expr *b)
{
	struct sql_list list = {0};

	if (a)
		sql_list_add(ctx, &list, a);
	if (b)
		sql_list_add(ctx, &list, b);
	return sql_and_list(ctx, &list);
}

void sql_conjuncts(struct sql_ctx *ctx, struct sql_expr *e, struct sql_list *list)
{
	if (!e || sql_is_true(e))
		return;
	if (!sql_is_call(e, SQL_AND)) {
		sql_list_add(ctx, list, e);
		return;
	}
	for (unsigned i = 0; i < e->count; i++)
		sql_conjuncts(ctx, e->args[i], list);
}

static enum sql_op inverse_op(enum sql_op op)
{
	switch (op) {
	case SQL_EQ:
		return SQL_NE;
	case SQL_NE:
		return SQL_EQ;
	case SQL_LT:
		return SQL_GE;
	case SQL_LE:
		return SQL_GT;
	case SQL_GT:
		return SQL_LE;
	case SQL_GE:
		return SQL_LT;
	case SQL_IS_NULL:
		return SQL_IS_NOT_NULL;
	case SQL_IS_NOT_NULL:
		return SQL_IS_NULL;
	case SQL_IS_DISTINCT:
		return SQL_IS_NOT_DISTINCT;
	case SQL_IS_NOT_DISTINCT:
		return SQL_IS_DISTINCT;
	default:
		return SQL_NOT;
	}
}

struct sql_expr *sql_negate(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_list parts = {0};
	enum sql_op op;

	if (e->kind == SQL_CONST)
		return e->value.null ? e : sql_bool(ctx, e->value.integer == 0);
	if (e->kind != SQL_CALL)
		return sql_call1(ctx, SQL_NOT, SQL_TYPE_BOOL, e);
	if (e->op == SQL_NOT)
		return e->args[0];
	if (e->op == SQL_AND || e->op == SQL_OR) {
		for (unsigned i = 0; i < e->count; i++)
			sql_list_add(ctx, &parts, sql_negate(ctx, e->args[i]));
		return logic(ctx, e->op == SQL_AND ? SQL_OR : SQL_AND, &parts);
	}
	op = inverse_op(e->op);
	if (op == SQL_NOT)
		return sql_call1(ctx, SQL_NOT, SQL_TYPE_BOOL, e);
	return sql_call(ctx, op, SQL_TYPE_BOOL, e->count, e->args, e->at);
}

void sql_expr_columns(struct sql_ctx *ctx, const struct sql_expr *e, struct sql_set *set)
{
	if (e->kind == SQL_COLUMN)
		sql_set_add(ctx, set, e->column);
	else if (e->kind == SQL_SUBQUERY)
		sql_free_columns(ctx, e->sub->rel, set);
	for (unsigned i = 0; i < e->count; i++)
		sql_expr_columns(ctx, e->args[i], set);
}

bool sql_has_subquery(const struct sql_expr *e)
{
	if (e->kind == SQL_SUBQUERY)
		return true;
	for (unsigned i = 0; i < e->count; i++) {
		if (sql_has_subquery(e->args[i]))
			return true;
	}
	return false;
}

static bool call_may_fail(const struct sql_expr *e)
{
	switch (e->op) {
	case SQL_ADD:
	case SQL_SUB:
	case SQL_MUL:
	case SQL_DIV:
	case SQL_MOD:
	case SQL_NEG:
	case SQL_ABS:
	case SQL_ROUND:
	case SQL_DATE_ADD:
	case SQL_DATE_ADD_DAYS:
	case SQL_DATE_DIFF:
	case SQL_SQRT:
	case SQL_EXP:
	case SQL_LN:
	case SQL_LOG10:
	case SQL_POWER:
	case SQL_DATE_PART:
	case SQL_DATE_TRUNC:
	case SQL_REPLACE:
	case SQL_LPAD:
	case SQL_RPAD:
	case SQL_REPEAT:
		return true;
	case SQL_SUBSTRING:
		return e->count > 2 &&
		       !(sql_is_const(e->args[2]) &&
			 (e->args[2]->value.null || e->args[2]->value.integer >= 0));
	case SQL_LIKE:
		return !sql_is_const(e->args[1]);
	default:
		return false;
	}
}

/* Casts that always succeed: to text, and to a number that holds all of them. */
static bool cast_may_fail(const struct sql_expr *e)
{
	struct sql_type from = e->args[0]->type, to = e->type;

	if (sql_is_string(to.kind))
		return false;
	if (to.kind == SQL_DECIMAL) {
		int whole = from.kind == SQL_INT32   ? 10
			    : from.kind == SQL_INT64 ? 19
						     : from.precision - from.scale;

		return (from.kind != SQL_INT32 && from.kind != SQL_INT64 &&
			from.kind != SQL_DECIMAL) ||
		       to.precision - to.scale < whole;
	}
	if (to.kind == SQL_INT64)
		return from.kind != SQL_INT32;
	return to.kind != SQL_DOUBLE || !sql_is_number(from.kind);
}

bool sql_may_fail(const struct sql_expr *e)
{
	if (e->kind == SQL_CALL && call_may_fail(e))
		return true;
	if (e->kind == SQL_CAST && cast_may_fail(e))
		return true;
	for (unsigned i = 0; i < e->count; i++) {
		if (sql_may_fail(e->args[i]))
			return true;
	}
	return false;
}

/* The list of an IN, which may be long, has constants only: copies share it as long as x stays. */
static void map_in(struct sql_ctx *ctx, struct sql_expr *in, sql_replace_fn *replace, void *arg)
{
	struct sql_expr *x = sql_expr_map(ctx, in->args[0], replace, arg), **args = in->args;

	if (x == args[0])
		return;
	in->args = SQL_ARRAY(ctx, struct sql_expr *, in->count);
	memcpy(in->args, args, in->count * sizeof(*args));
	in->args[0] = x;
}

struct sql_expr *sql_expr_map(struct sql_ctx *ctx, struct sql_expr *e, sql_replace_fn *replace,
			      void *arg)
{
	struct sql_expr *other = replace(ctx, arg, e), *copy;

	if (other)
		return other;
	if (e->kind == SQL_SUBQUERY)
		sql_rel_map(ctx, e->sub->rel, replace, arg);
	if (e->count == 0)
		return e;
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = *e;
	if (sql_is_call(e, SQL_IN)) {
		map_in(ctx, copy, replace, arg);
	} else {
		copy->args = SQL_ARRAY(ctx, struct sql_expr *, e->count);
		for (unsigned i = 0; i < e->count; i++)
			copy->args[i] = sql_expr_map(ctx, e->args[i], replace, arg);
	}
	if (copy->kind == SQL_CALL)
		copy->nullable = call_nullable(copy);
	return copy;
}

static struct sql_expr *replace_bound(struct sql_ctx *ctx, void *arg, struct sql_expr *e)
{
	const struct sql_binding *binding = arg;

	(void)ctx;
	if (e->kind != SQL_COLUMN)
		return NULL;
	for (unsigned i = 0; i < binding->count; i++) {
		if (binding->columns[i] == e->column)
			return binding->exprs[i];
	}
	return NULL;
}

struct sql_expr *sql_substitute(struct sql_ctx *ctx, struct sql_expr *e,
				const struct sql_binding *binding)
{
	return sql_expr_map(ctx, e, replace_bound, (void *)binding);
}

const char *sql_op_name(enum sql_op op)
{
	static const char *const names[SQL_OP_COUNT] = {
		[SQL_AND] = "and",
		[SQL_OR] = "or",
		[SQL_NOT] = "not",
		[SQL_IS_NULL] = "is null",
		[SQL_IS_NOT_NULL] = "is not null",
		[SQL_EQ] = "=",
		[SQL_NE] = "<>",
		[SQL_LT] = "<",
		[SQL_LE] = "<=",
		[SQL_GT] = ">",
		[SQL_GE] = ">=",
		[SQL_IS_DISTINCT] = "is distinct from",
		[SQL_IS_NOT_DISTINCT] = "is not distinct from",
		[SQL_IN] = "in",
		[SQL_LIKE] = "like",
		[SQL_ADD] = "+",
		[SQL_SUB] = "-",
		[SQL_MUL] = "*",
		[SQL_DIV] = "/",
		[SQL_MOD] = "%",
		[SQL_NEG] = "neg",
		[SQL_ABS] = "abs",
		[SQL_ROUND] = "round",
		[SQL_FLOOR] = "floor",
		[SQL_CEIL] = "ceil",
		[SQL_DATE_ADD] = "date_add",
		[SQL_DATE_ADD_DAYS] = "date_add_days",
		[SQL_DATE_DIFF] = "date_diff",
		[SQL_YEAR] = "year",
		[SQL_QUARTER] = "quarter",
		[SQL_MONTH] = "month",
		[SQL_DAY] = "day",
		[SQL_CONCAT] = "||",
		[SQL_SUBSTRING] = "substring",
		[SQL_UPPER] = "upper",
		[SQL_LOWER] = "lower",
		[SQL_LENGTH] = "length",
		[SQL_TRIM] = "trim",
		[SQL_LTRIM] = "ltrim",
		[SQL_RTRIM] = "rtrim",
		[SQL_POSITION] = "position",
		[SQL_LEFT] = "left",
		[SQL_RIGHT] = "right",
		[SQL_SQRT] = "sqrt",
		[SQL_EXP] = "exp",
		[SQL_LN] = "ln",
		[SQL_LOG10] = "log10",
		[SQL_POWER] = "power",
		[SQL_DATE_PART] = "date_part",
		[SQL_DATE_TRUNC] = "date_trunc",
		[SQL_REPLACE] = "replace",
		[SQL_LPAD] = "lpad",
		[SQL_RPAD] = "rpad",
		[SQL_REPEAT] = "repeat",
		[SQL_REVERSE] = "reverse",
		[SQL_STARTS_WITH] = "starts_with",
		[SQL_COALESCE] = "coalesce",
		[SQL_NULLIF] = "nullif",
		[SQL_GREATEST] = "greatest",
		[SQL_LEAST] = "least",
	};

	return op < SQL_OP_COUNT ? names[op] : "?";
}
