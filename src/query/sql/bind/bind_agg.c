/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Aggregates. Those that the tree does not have are expressions over those that it has:
 *
 *  bool_and(x)    min(x::int)::bool, and bool_or(x) the maximum
 *  variance(x)    (n * sum(x * x) - sum(x) * sum(x)) / (n * (n - 1)), with decimals, so exactly as
 *                 PostgreSQL computes it; stddev(x) is its root
 */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"

#include <string.h>

/* What a function call means: one of the tree's aggregates, or one made of them. */
enum aggregate_kind { AGG_PLAIN, AGG_BOOL, AGG_VARIANCE };

struct aggregate {
	const char *name;
	enum aggregate_kind kind;
	enum sql_agg_op op;    /* AGG_PLAIN and AGG_BOOL */
	bool population, root; /* AGG_VARIANCE */
};

static const struct aggregate aggregates[] = {
	{"count", AGG_PLAIN, SQL_COUNT, false, false},
	{"sum", AGG_PLAIN, SQL_SUM, false, false},
	{"avg", AGG_PLAIN, SQL_AVG, false, false},
	{"min", AGG_PLAIN, SQL_MIN, false, false},
	{"max", AGG_PLAIN, SQL_MAX, false, false},
	{"bool_and", AGG_BOOL, SQL_MIN, false, false},
	{"every", AGG_BOOL, SQL_MIN, false, false},
	{"bool_or", AGG_BOOL, SQL_MAX, false, false},
	{"variance", AGG_VARIANCE, SQL_SUM, false, false},
	{"var_samp", AGG_VARIANCE, SQL_SUM, false, false},
	{"var_pop", AGG_VARIANCE, SQL_SUM, true, false},
	{"stddev", AGG_VARIANCE, SQL_SUM, false, true},
	{"stddev_samp", AGG_VARIANCE, SQL_SUM, false, true},
	{"stddev_pop", AGG_VARIANCE, SQL_SUM, true, true},
};

void sql_suggest_aggregates(struct sql_suggestion *s)
{
	for (size_t i = 0; i < sizeof(aggregates) / sizeof(aggregates[0]); i++)
		sql_suggest(s, aggregates[i].name);
}

static const struct sql_agg *find_agg(const struct sql_scope *scope, const struct sql_agg *agg)
{
	for (unsigned i = 0; i < scope->aggs.count; i++) {
		const struct sql_agg *other = scope->aggs.items[i];

		if (other->op == agg->op && other->distinct == agg->distinct &&
		    (agg->arg ? other->arg && sql_equal(other->arg, agg->arg) : !other->arg))
			return other;
	}
	return NULL;
}

/* With FILTER (WHERE c) the argument is CASE WHEN c THEN arg END. */
static void filter_agg(struct sql_ctx *ctx, struct sql_scope *scope, const PgQuery__FuncCall *call,
		       struct sql_agg *agg)
{
	struct sql_expr *args[3];

	if (!call->agg_filter)
		return;
	args[0] = sql_condition(ctx, sql_bind_expr(ctx, scope, call->agg_filter), "FILTER");
	if (agg->op == SQL_COUNT_ROWS) {
		agg->op = SQL_COUNT;
		agg->arg = sql_integer(ctx, SQL_TYPE_INT32, 1);
	}
	args[1] = agg->arg;
	args[2] = sql_null(ctx, agg->arg->type);
	agg->arg = sql_case_expr(ctx, agg->arg->type, 3, args, call->location);
}

/* All columns of an aggregate's argument belong to the select that it stands in. */
static void check_agg_columns(struct sql_ctx *ctx, const struct sql_scope *scope,
			      const struct sql_agg *agg, int at)
{
	struct sql_set used = {0}, own = {0};

	if (!agg->arg)
		return;
	sql_expr_columns(ctx, agg->arg, &used);
	for (unsigned i = 0; i < scope->columns.count; i++)
		sql_set_add(ctx, &own,
			    ((struct sql_scope_column *)scope->columns.items[i])->column);
	if (!sql_set_within(&used, &own))
		sql_unsupported(ctx, at, "an aggregate over columns of an outer query");
}

static void bind_agg_arg(struct sql_ctx *ctx, struct sql_scope *scope,
			 const PgQuery__FuncCall *call, struct sql_agg *agg)
{
	if (call->agg_star) {
		if (agg->op != SQL_COUNT)
			sql_wrong(ctx, call->location, "only count accepts *");
		agg->op = SQL_COUNT_ROWS;
	} else {
		if (call->n_args != 1)
			sql_wrong(ctx, call->location, "an aggregate takes one argument");
		agg->arg = sql_settle(ctx, sql_bind_expr(ctx, scope, call->args[0]));
	}
	agg->distinct = call->agg_distinct;
	filter_agg(ctx, scope, call, agg);
	/* min and max see the same with and without duplicates */
	if (agg->op == SQL_MIN || agg->op == SQL_MAX)
		agg->distinct = false;
}

/* The column of an aggregate; equal ones are computed once. */
static struct sql_expr *add_agg(struct sql_ctx *ctx, struct sql_scope *scope, struct sql_agg agg,
				const char *name, int at)
{
	const struct sql_agg *same = find_agg(scope, &agg);
	struct sql_agg *copy;
	struct sql_type type;

	if (same)
		return sql_column_expr(ctx, same->column, at);
	type = sql_agg_type(ctx, agg.op, agg.arg ? agg.arg->type : SQL_TYPE_INT64, at);
	agg.column =
		sql_new_column(ctx, name, type, agg.op != SQL_COUNT && agg.op != SQL_COUNT_ROWS);
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = agg;
	sql_list_add(ctx, &scope->aggs, copy);
	return sql_column_expr(ctx, agg.column, at);
}

static struct sql_expr *bool_agg(struct sql_ctx *ctx, struct sql_scope *scope, struct sql_agg agg,
				 const char *name, int at)
{
	struct sql_expr *e;

	agg.distinct = false;
	agg.arg = sql_cast(ctx, sql_coerce(ctx, agg.arg, SQL_TYPE_BOOL, name), SQL_TYPE_INT32, at);
	e = add_agg(ctx, scope, agg, name, at);
	return sql_cast(ctx, e, SQL_TYPE_BOOL, at);
}

/* The argument with room for its square. */
static struct sql_expr *wide_argument(struct sql_ctx *ctx, struct sql_expr *e, const char *name,
				      int at)
{
	char type[40];

	if (e->type.kind == SQL_DOUBLE)
		sql_unsupported(ctx, at,
				"%s of double precision (cast the argument to decimal(p,s))", name);
	if (!sql_is_number(e->type.kind))
		sql_wrong(ctx, at, "%s does not take %s", name, sql_type_name(e->type, type));
	if (e->type.kind == SQL_INT32)
		return sql_cast(ctx, e, SQL_TYPE_INT64, at);
	return sql_cast(ctx, e, (struct sql_type){.kind = SQL_DECIMAL}, at);
}

static struct sql_expr *variance(struct sql_ctx *ctx, struct sql_scope *scope,
				 const struct aggregate *a, struct sql_expr *arg, int at)
{
	struct sql_type whole = {.kind = SQL_DECIMAL, .precision = 19};
	struct sql_expr *x = wide_argument(ctx, arg, a->name, at), *args[3], *sum, *squares, *n, *e;
	struct sql_agg agg = {.op = SQL_SUM, .arg = x};

	sum = add_agg(ctx, scope, agg, "sum", at);
	agg.arg = sql_arithmetic(ctx, SQL_MUL, x, x, at);
	squares = add_agg(ctx, scope, agg, "sum", at);
	agg = (struct sql_agg){.op = SQL_COUNT, .arg = x};
	args[0] = add_agg(ctx, scope, agg, "count", at);
	n = sql_cast(ctx, args[0], whole, at);
	e = sql_arithmetic(ctx, SQL_SUB, sql_arithmetic(ctx, SQL_MUL, n, squares, at),
			   sql_arithmetic(ctx, SQL_MUL, sum, sum, at), at);
	args[1] = a->population ? n
				: sql_arithmetic(ctx, SQL_SUB, n,
						 sql_integer(ctx, SQL_TYPE_INT32, 1), at);
	e = sql_arithmetic(ctx, SQL_DIV, e, sql_arithmetic(ctx, SQL_MUL, n, args[1], at), at);
	if (a->root)
		e = sql_call1(ctx, SQL_SQRT, e->type, e);
	args[0] = sql_compare(ctx, SQL_GT, args[0],
			      sql_integer(ctx, SQL_TYPE_INT64, a->population ? 0 : 1), at);
	args[1] = e;
	args[2] = sql_null(ctx, e->type);
	return sql_case_expr(ctx, e->type, 3, args, at);
}

static void check_aggregate(struct sql_ctx *ctx, const struct sql_scope *scope,
			    const struct aggregate *a, const PgQuery__FuncCall *call)
{
	if (scope->in_aggregate)
		sql_wrong(ctx, call->location, "aggregate calls cannot be nested");
	if (!scope->aggregates_allowed)
		sql_wrong(ctx, call->location, "aggregate %s is not allowed in %s", a->name,
			  scope->clause ? scope->clause : "this clause");
	if (call->n_agg_order || call->agg_within_group)
		sql_unsupported(ctx, call->location, "ORDER BY inside an aggregate");
	if (a->kind == AGG_VARIANCE && call->agg_distinct)
		sql_unsupported(ctx, call->location, "%s(DISTINCT ...)", a->name);
}

static struct sql_expr *bind_aggregate(struct sql_ctx *ctx, struct sql_scope *scope,
				       const struct aggregate *a, const PgQuery__FuncCall *call)
{
	struct sql_agg agg = {.op = a->op};

	check_aggregate(ctx, scope, a, call);
	scope->in_aggregate = true;
	bind_agg_arg(ctx, scope, call, &agg);
	scope->in_aggregate = false;
	check_agg_columns(ctx, scope, &agg, call->location);
	if (a->kind == AGG_VARIANCE)
		return variance(ctx, scope, a, agg.arg, call->location);
	if (a->kind == AGG_BOOL)
		return bool_agg(ctx, scope, agg, a->name, call->location);
	return add_agg(ctx, scope, agg, a->name, call->location);
}

struct sql_expr *sql_bind_aggregate(struct sql_ctx *ctx, struct sql_scope *scope, const char *name,
				    const PgQuery__FuncCall *call)
{
	for (size_t i = 0; i < sizeof(aggregates) / sizeof(aggregates[0]); i++) {
		if (!strcmp(aggregates[i].name, name))
			return bind_aggregate(ctx, scope, &aggregates[i], call);
	}
	return NULL;
}
