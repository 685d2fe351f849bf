/* SPDX-License-Identifier: BSD-2-Clause */
/* Expressions; function calls are in bind_call.c, LIKE and lists in bind_list.c. */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"
#include "query/sql/value/value.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *sql_node_string(struct sql_ctx *ctx, const PgQuery__Node *node)
{
	if (!node || node->node_case != PG_QUERY__NODE__NODE_STRING)
		sql_unsupported(ctx, -1, "this form of a name");
	return node->string->sval;
}

static struct sql_expr *bind_constant(struct sql_ctx *ctx, const PgQuery__AConst *c)
{
	struct sql_type type = {.kind = SQL_UNKNOWN};
	struct sql_value value = {0};

	if (c->isnull)
		return sql_constant(ctx, type, (struct sql_value){.null = true}, c->location);
	switch (c->val_case) {
	case PG_QUERY__A__CONST__VAL_IVAL:
		type.kind = SQL_INT32;
		value.integer = c->ival->ival;
		break;
	case PG_QUERY__A__CONST__VAL_FVAL:
		/* an integer that does not fit into 32 bits comes this way as well */
		type.kind = SQL_INT64;
		if (sql_value_parse(c->fval->fval, strlen(c->fval->fval), &type, &value)) {
			const char *why;

			type.kind = SQL_DECIMAL;
			why = sql_value_parse(c->fval->fval, strlen(c->fval->fval), &type, &value);
			if (why)
				sql_wrong(ctx, c->location, "%s for decimal: \"%.60s\"", why,
					  c->fval->fval);
		} else if (value.integer == (int32_t)value.integer) {
			type.kind = SQL_INT32; /* the grammar negates -2147483648 as text */
		}
		break;
	case PG_QUERY__A__CONST__VAL_BOOLVAL:
		type.kind = SQL_BOOL;
		value.integer = c->boolval->boolval;
		break;
	case PG_QUERY__A__CONST__VAL_SVAL:
		value.text = c->sval->sval;
		value.length = strlen(c->sval->sval);
		break;
	default:
		sql_unsupported(ctx, c->location, "a bit string constant");
	}
	return sql_constant(ctx, type, value, c->location);
}

/*
 * A parameter is a literal: of the type that it was given, else of the one that its context wants.
 */
static struct sql_expr *bind_param(struct sql_ctx *ctx, const PgQuery__ParamRef *ref)
{
	struct sql_type type = {.kind = SQL_UNKNOWN};
	struct sql_value value = {0};
	const struct sql_param *param;
	struct sql_expr *e;

	if (!ctx->params || ctx->view)
		sql_unsupported(ctx, ref->location, "a parameter ($%d)", ref->number);
	if (ref->number < 1 || (unsigned)ref->number > ctx->params->room)
		sql_wrong(ctx, ref->location, "there is no parameter $%d", ref->number);
	if (ctx->params->count < (unsigned)ref->number)
		ctx->params->count = (unsigned)ref->number;
	param = &ctx->params->params[ref->number - 1];
	value.null = !param->text;
	if (param->text) {
		value.text = param->text;
		value.length = strlen(param->text);
	}
	e = sql_constant(ctx, type, value, ref->location);
	e->param = (unsigned)ref->number;
	return param->type.kind == 0 ? e : sql_coerce(ctx, e, param->type, "a parameter");
}

static struct sql_expr *bind_column(struct sql_ctx *ctx, struct sql_scope *scope,
				    const PgQuery__ColumnRef *ref)
{
	const char *table = NULL;

	for (size_t i = 0; i < ref->n_fields; i++) {
		if (ref->fields[i]->node_case == PG_QUERY__NODE__NODE_A_STAR)
			sql_wrong(ctx, ref->location, "* is not allowed here");
	}
	if (ref->n_fields > 2)
		sql_unsupported(ctx, ref->location, "a column name with a schema");
	if (ref->n_fields == 2)
		table = sql_node_string(ctx, ref->fields[0]);
	return sql_resolve(ctx, scope, table, sql_node_string(ctx, ref->fields[ref->n_fields - 1]),
			   ref->location);
}

enum sql_op sql_comparison_op(const char *name)
{
	static const struct {
		const char *name;
		enum sql_op op;
	} ops[] = {{"=", SQL_EQ},  {"<>", SQL_NE}, {"!=", SQL_NE}, {"<", SQL_LT},
		   {"<=", SQL_LE}, {">", SQL_GT},  {">=", SQL_GE}};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (!strcmp(ops[i].name, name))
			return ops[i].op;
	}
	return SQL_OP_COUNT;
}

const char *sql_operator_name(struct sql_ctx *ctx, size_t n, PgQuery__Node **name, int at)
{
	if (n != 1)
		sql_unsupported(ctx, at, "an operator with a schema");
	return sql_node_string(ctx, name[0]);
}

/* The expressions of (a, b), or the one that node is. */
static unsigned bind_row(struct sql_ctx *ctx, struct sql_scope *scope, const PgQuery__Node *node,
			 struct sql_expr ***exprs)
{
	unsigned n = 1;

	if (node->node_case == PG_QUERY__NODE__NODE_ROW_EXPR)
		n = (unsigned)node->row_expr->n_args;
	*exprs = SQL_ARRAY(ctx, struct sql_expr *, n);
	if (node->node_case != PG_QUERY__NODE__NODE_ROW_EXPR) {
		(*exprs)[0] = sql_bind_expr(ctx, scope, node);
		return 1;
	}
	for (unsigned i = 0; i < n; i++)
		(*exprs)[i] = sql_bind_expr(ctx, scope, node->row_expr->args[i]);
	return n;
}

/* (a, b) < (c, d) is a < c or a = c and b < d. */
static struct sql_expr *order_rows(struct sql_ctx *ctx, enum sql_op op, unsigned n,
				   struct sql_expr **a, struct sql_expr **b, int at)
{
	enum sql_op strict = op == SQL_LE ? SQL_LT : op == SQL_GE ? SQL_GT : op;
	struct sql_expr *e = sql_compare(ctx, op, a[n - 1], b[n - 1], at);

	for (unsigned i = n - 1; i-- > 0;) {
		struct sql_list parts = {0};

		e = sql_and(ctx, sql_compare(ctx, SQL_EQ, a[i], b[i], at), e);
		sql_list_add(ctx, &parts, sql_compare(ctx, strict, a[i], b[i], at));
		sql_list_add(ctx, &parts, e ? e : sql_bool(ctx, true));
		e = sql_or_list(ctx, &parts);
	}
	return e;
}

/* (a, b) = (c, d), also for one column. */
static struct sql_expr *compare_rows(struct sql_ctx *ctx, enum sql_op op, unsigned n,
				     struct sql_expr **a, struct sql_expr **b, int at)
{
	struct sql_list parts = {0};

	if (n == 1)
		return sql_compare(ctx, op, a[0], b[0], at);
	if (op == SQL_LT || op == SQL_LE || op == SQL_GT || op == SQL_GE)
		return order_rows(ctx, op, n, a, b, at);
	if (op != SQL_EQ && op != SQL_NE)
		sql_unsupported(ctx, at, "IS DISTINCT FROM between rows");
	for (unsigned i = 0; i < n; i++)
		sql_list_add(ctx, &parts, sql_compare(ctx, op, a[i], b[i], at));
	if (op == SQL_NE)
		return sql_or_list(ctx, &parts);
	return sql_and_list(ctx, &parts) ? sql_and_list(ctx, &parts) : sql_bool(ctx, true);
}

static struct sql_expr *bind_comparison(struct sql_ctx *ctx, struct sql_scope *scope,
					enum sql_op op, const PgQuery__AExpr *x)
{
	struct sql_expr **left, **right;
	unsigned n = bind_row(ctx, scope, x->lexpr, &left);

	if (bind_row(ctx, scope, x->rexpr, &right) != n)
		sql_wrong(ctx, x->location, "the rows compared have different numbers of columns");
	return compare_rows(ctx, op, n, left, right, x->location);
}

static struct sql_expr *to_text(struct sql_ctx *ctx, struct sql_expr *e)
{
	e = sql_settle(ctx, e);
	if (e->type.kind == SQL_INTERVAL)
		sql_unsupported(ctx, e->at, "converting an interval to text");
	return sql_is_string(e->type.kind) ? e : sql_cast(ctx, e, SQL_TYPE_TEXT, e->at);
}

static struct sql_expr *bind_concat(struct sql_ctx *ctx, struct sql_expr *a, struct sql_expr *b,
				    int at)
{
	struct sql_expr *args[2];

	if (!sql_is_string(a->type.kind) && !sql_is_string(b->type.kind) &&
	    a->type.kind != SQL_UNKNOWN && b->type.kind != SQL_UNKNOWN)
		sql_wrong(ctx, at, "operator || needs text operands");
	args[0] = to_text(ctx, a);
	args[1] = to_text(ctx, b);
	return sql_fold(ctx, sql_call(ctx, SQL_CONCAT, SQL_TYPE_TEXT, 2, args, at));
}

static struct sql_expr *bind_sign(struct sql_ctx *ctx, const char *name, struct sql_expr *e, int at)
{
	char type[40];

	if (e->type.kind == SQL_UNKNOWN)
		e = sql_coerce(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, "an operand");
	if (!sql_is_number(e->type.kind))
		sql_wrong(ctx, at, "operator %s does not take %s", name,
			  sql_type_name(e->type, type));
	if (!strcmp(name, "+"))
		return e;
	return sql_fold(ctx, sql_call1(ctx, SQL_NEG, e->type, e));
}

static struct sql_expr *bind_operator(struct sql_ctx *ctx, struct sql_scope *scope,
				      const PgQuery__AExpr *x)
{
	static const struct {
		const char *name;
		enum sql_op op;
	} arithmetic[] = {
		{"+", SQL_ADD}, {"-", SQL_SUB}, {"*", SQL_MUL}, {"/", SQL_DIV}, {"%", SQL_MOD}};
	const char *name = sql_operator_name(ctx, x->n_name, x->name, x->location);
	struct sql_expr *a, *b;

	if (!x->lexpr) {
		if (strcmp(name, "-") && strcmp(name, "+"))
			sql_unsupported(ctx, x->location, "prefix operator %s", name);
		return bind_sign(ctx, name, sql_bind_expr(ctx, scope, x->rexpr), x->location);
	}
	if (sql_comparison_op(name) != SQL_OP_COUNT)
		return bind_comparison(ctx, scope, sql_comparison_op(name), x);
	if (strstr(name, "~~"))
		return sql_bind_like(ctx, scope, x);
	a = sql_bind_expr(ctx, scope, x->lexpr);
	b = sql_bind_expr(ctx, scope, x->rexpr);
	for (size_t i = 0; i < sizeof(arithmetic) / sizeof(arithmetic[0]); i++) {
		if (!strcmp(arithmetic[i].name, name))
			return sql_arithmetic(ctx, arithmetic[i].op, a, b, x->location);
	}
	if (!strcmp(name, "||"))
		return bind_concat(ctx, a, b, x->location);
	if (!strcmp(name, "^"))
		return sql_bind_numeric(ctx, "power", 2, (struct sql_expr *[]){a, b}, x->location);
	sql_unsupported(ctx, x->location, "operator %s", name);
}

static struct sql_expr *bind_in_rows(struct sql_ctx *ctx, struct sql_scope *scope,
				     const PgQuery__AExpr *x)
{
	struct sql_list parts = {0};
	struct sql_expr **left, **right;
	unsigned n = bind_row(ctx, scope, x->lexpr, &left);

	for (size_t i = 0; i < x->rexpr->list->n_items; i++) {
		if (bind_row(ctx, scope, x->rexpr->list->items[i], &right) != n)
			sql_wrong(ctx, x->location,
				  "the rows compared have different numbers of columns");
		sql_list_add(ctx, &parts, compare_rows(ctx, SQL_EQ, n, left, right, x->location));
	}
	return sql_or_list(ctx, &parts);
}

static struct sql_expr *bind_in_list(struct sql_ctx *ctx, struct sql_scope *scope,
				     const PgQuery__AExpr *x)
{
	const PgQuery__List *list = x->rexpr->list;
	struct sql_expr **items = SQL_ARRAY(ctx, struct sql_expr *, list->n_items);
	struct sql_expr *value = sql_bind_expr(ctx, scope, x->lexpr);

	for (size_t i = 0; i < list->n_items; i++)
		items[i] = sql_bind_expr(ctx, scope, list->items[i]);
	return sql_in_list(ctx, value, (unsigned)list->n_items, items, x->location);
}

static struct sql_expr *bind_in(struct sql_ctx *ctx, struct sql_scope *scope,
				const PgQuery__AExpr *x)
{
	struct sql_expr *e;

	if (!x->rexpr || x->rexpr->node_case != PG_QUERY__NODE__NODE_LIST)
		sql_unsupported(ctx, x->location, "this form of IN");
	if (x->lexpr->node_case == PG_QUERY__NODE__NODE_ROW_EXPR)
		e = bind_in_rows(ctx, scope, x);
	else
		e = bind_in_list(ctx, scope, x);
	if (!strcmp(sql_operator_name(ctx, x->n_name, x->name, x->location), "<>"))
		e = sql_negate(ctx, e);
	return e;
}

static struct sql_expr *bind_between(struct sql_ctx *ctx, struct sql_scope *scope,
				     const PgQuery__AExpr *x)
{
	struct sql_expr *value = sql_bind_expr(ctx, scope, x->lexpr), *bounds[2], *low, *high,
			*both;
	bool symmetric = x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN_SYM ||
			 x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN_SYM;
	bool negate = x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN ||
		      x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN_SYM;

	if (x->rexpr->node_case != PG_QUERY__NODE__NODE_LIST || x->rexpr->list->n_items != 2)
		sql_unsupported(ctx, x->location, "this form of BETWEEN");
	for (unsigned i = 0; i < 2; i++)
		bounds[i] = sql_bind_expr(ctx, scope, x->rexpr->list->items[i]);
	low = sql_compare(ctx, SQL_GE, value, bounds[0], x->location);
	high = sql_compare(ctx, SQL_LE, value, bounds[1], x->location);
	both = sql_and(ctx, low, high);
	if (!both)
		both = sql_bool(ctx, true);
	if (symmetric) {
		struct sql_list parts = {0};

		sql_list_add(ctx, &parts, both);
		both = sql_and(ctx, sql_compare(ctx, SQL_GE, value, bounds[1], x->location),
			       sql_compare(ctx, SQL_LE, value, bounds[0], x->location));
		sql_list_add(ctx, &parts, both ? both : sql_bool(ctx, true));
		both = sql_or_list(ctx, &parts);
	}
	return negate ? sql_negate(ctx, both) : both;
}

static struct sql_expr *bind_nullif(struct sql_ctx *ctx, struct sql_scope *scope,
				    const PgQuery__AExpr *x)
{
	struct sql_expr *args[2];

	args[0] = sql_bind_expr(ctx, scope, x->lexpr);
	args[1] = sql_bind_expr(ctx, scope, x->rexpr);
	sql_comparable(ctx, &args[0], &args[1], "NULLIF", x->location);
	return sql_fold(ctx, sql_call(ctx, SQL_NULLIF, args[0]->type, 2, args, x->location));
}

static struct sql_expr *bind_a_expr(struct sql_ctx *ctx, struct sql_scope *scope,
				    const PgQuery__AExpr *x)
{
	switch (x->kind) {
	case PG_QUERY__A__EXPR__KIND__AEXPR_OP:
		return bind_operator(ctx, scope, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_DISTINCT:
		return bind_comparison(ctx, scope, SQL_IS_DISTINCT, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_DISTINCT:
		return bind_comparison(ctx, scope, SQL_IS_NOT_DISTINCT, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_NULLIF:
		return bind_nullif(ctx, scope, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_IN:
		return bind_in(ctx, scope, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_LIKE:
	case PG_QUERY__A__EXPR__KIND__AEXPR_ILIKE:
		return sql_bind_like(ctx, scope, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN:
	case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN:
	case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN_SYM:
	case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN_SYM:
		return bind_between(ctx, scope, x);
	case PG_QUERY__A__EXPR__KIND__AEXPR_SIMILAR:
		sql_unsupported(ctx, x->location, "SIMILAR TO");
	case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ANY:
	case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ALL:
		return sql_bind_any_array(ctx, scope, x);
	default:
		sql_unsupported(ctx, x->location, "this operator");
	}
}

static struct sql_expr *bind_logic(struct sql_ctx *ctx, struct sql_scope *scope,
				   const PgQuery__BoolExpr *x)
{
	struct sql_list parts = {0};
	struct sql_expr *e;

	for (size_t i = 0; i < x->n_args; i++) {
		e = sql_condition(ctx, sql_bind_expr(ctx, scope, x->args[i]),
				  "an argument of AND, OR or NOT");
		sql_list_add(ctx, &parts, e);
	}
	switch (x->boolop) {
	case PG_QUERY__BOOL_EXPR_TYPE__AND_EXPR:
		e = sql_and_list(ctx, &parts);
		return e ? e : sql_bool(ctx, true);
	case PG_QUERY__BOOL_EXPR_TYPE__OR_EXPR:
		return sql_or_list(ctx, &parts);
	default:
		return sql_negate(ctx, parts.items[0]);
	}
}

static struct sql_expr *bind_case(struct sql_ctx *ctx, struct sql_scope *scope,
				  const PgQuery__CaseExpr *x)
{
	unsigned whens = (unsigned)x->n_args, n = 2 * whens + 1;
	struct sql_expr **args = SQL_ARRAY(ctx, struct sql_expr *, n);
	struct sql_expr **results = SQL_ARRAY(ctx, struct sql_expr *, whens + 1);
	struct sql_expr *value = x->arg ? sql_bind_expr(ctx, scope, x->arg) : NULL;
	struct sql_type type;

	for (unsigned i = 0; i < whens; i++) {
		const PgQuery__CaseWhen *when = x->args[i]->case_when;
		struct sql_expr *condition = sql_bind_expr(ctx, scope, when->expr);

		if (value)
			condition = sql_compare(ctx, SQL_EQ, value, condition, when->location);
		args[2 * i] = sql_condition(ctx, condition, "WHEN");
		results[i + 1] = sql_bind_expr(ctx, scope, when->result);
	}
	/* ELSE goes first: PostgreSQL lets its type decide */
	results[0] = x->defresult ? sql_bind_expr(ctx, scope, x->defresult)
				  : sql_null(ctx, (struct sql_type){.kind = SQL_UNKNOWN});
	type = sql_unify(ctx, whens + 1, results, "CASE");
	for (unsigned i = 0; i < whens; i++)
		args[2 * i + 1] = results[i + 1];
	args[n - 1] = results[0];
	return sql_fold(ctx, sql_case_expr(ctx, type, n, args, x->location));
}

static struct sql_expr *bind_choice(struct sql_ctx *ctx, struct sql_scope *scope, enum sql_op op,
				    size_t n, PgQuery__Node **nodes, int at)
{
	static const char *const names[] = {
		[SQL_COALESCE] = "COALESCE", [SQL_GREATEST] = "GREATEST", [SQL_LEAST] = "LEAST"};
	struct sql_expr **args = SQL_ARRAY(ctx, struct sql_expr *, n);
	struct sql_type type;

	for (size_t i = 0; i < n; i++)
		args[i] = sql_bind_expr(ctx, scope, nodes[i]);
	type = sql_unify(ctx, (unsigned)n, args, names[op]);
	return sql_fold(ctx, sql_call(ctx, op, type, (unsigned)n, args, at));
}

static struct sql_expr *bind_null_test(struct sql_ctx *ctx, struct sql_scope *scope,
				       const PgQuery__NullTest *x)
{
	bool null = x->nulltesttype == PG_QUERY__NULL_TEST_TYPE__IS_NULL;

	if (x->arg->node_case == PG_QUERY__NODE__NODE_ROW_EXPR)
		sql_unsupported(ctx, x->location, "IS NULL of a row");
	return sql_fold(ctx, sql_call1(ctx, null ? SQL_IS_NULL : SQL_IS_NOT_NULL, SQL_TYPE_BOOL,
				       sql_settle(ctx, sql_bind_expr(ctx, scope, x->arg))));
}

/* IS TRUE is COALESCE(x, false), and so on. */
static struct sql_expr *bind_bool_test(struct sql_ctx *ctx, struct sql_scope *scope,
				       const PgQuery__BooleanTest *x)
{
	struct sql_expr *e = sql_condition(ctx, sql_bind_expr(ctx, scope, x->arg), "IS");
	bool truth = false, negate = false;

	switch (x->booltesttype) {
	case PG_QUERY__BOOL_TEST_TYPE__IS_UNKNOWN:
		return sql_fold(ctx, sql_call1(ctx, SQL_IS_NULL, SQL_TYPE_BOOL, e));
	case PG_QUERY__BOOL_TEST_TYPE__IS_NOT_UNKNOWN:
		return sql_fold(ctx, sql_call1(ctx, SQL_IS_NOT_NULL, SQL_TYPE_BOOL, e));
	case PG_QUERY__BOOL_TEST_TYPE__IS_NOT_TRUE:
		negate = true;
		break;
	case PG_QUERY__BOOL_TEST_TYPE__IS_FALSE:
		truth = negate = true;
		break;
	case PG_QUERY__BOOL_TEST_TYPE__IS_NOT_FALSE:
		truth = true;
		break;
	default:
		break;
	}
	e = sql_fold(ctx, sql_call2(ctx, SQL_COALESCE, SQL_TYPE_BOOL, e, sql_bool(ctx, truth)));
	return negate ? sql_negate(ctx, e) : e;
}

static struct sql_expr *bind_cast(struct sql_ctx *ctx, struct sql_scope *scope,
				  const PgQuery__TypeCast *x)
{
	static const struct {
		int mask;
		const char *unit;
	} units[] = {{1 << 2, "year"}, {1 << 1, "month"}, {1 << 3, "day"}};
	struct sql_type type = sql_bind_type(ctx, x->type_name);
	struct sql_expr *e = sql_bind_expr(ctx, scope, x->arg);
	const char *unit = NULL, *why;
	struct sql_value value;

	if (type.kind != SQL_INTERVAL)
		return sql_cast(ctx, e, type, x->location);
	if (e->kind != SQL_CONST || e->type.kind != SQL_UNKNOWN)
		sql_unsupported(ctx, x->location, "an interval that is not a constant");
	if (e->value.null)
		return sql_null(ctx, type);
	if (x->type_name->n_typmods) {
		const PgQuery__Node *mask = x->type_name->typmods[0];

		for (size_t i = 0; i < 3 && mask->node_case == PG_QUERY__NODE__NODE_A_CONST; i++) {
			if (mask->a_const->val_case == PG_QUERY__A__CONST__VAL_IVAL &&
			    mask->a_const->ival->ival == units[i].mask)
				unit = units[i].unit;
		}
		if (!unit)
			sql_unsupported(ctx, x->location,
					"an interval in units other than years, months and days");
	}
	why = sql_interval_parse(e->value.text, e->value.length, unit, &value);
	if (why)
		sql_wrong(ctx, e->at, "interval \"%.*s\": %s",
			  e->value.length < 60 ? (int)e->value.length : 60, e->value.text, why);
	return sql_constant(ctx, type, value, e->at);
}

static struct sql_expr *new_subquery(struct sql_ctx *ctx, enum sql_subquery_kind kind,
				     struct sql_bound bound, unsigned count, struct sql_expr **args,
				     int at)
{
	struct sql_expr *e = sql_alloc(ctx, sizeof(*e));

	e->kind = SQL_SUBQUERY;
	e->at = at;
	e->nullable = kind != SQL_SUB_EXISTS;
	e->type = kind == SQL_SUB_SCALAR ? ctx->columns[bound.columns[0]].type : SQL_TYPE_BOOL;
	e->count = count;
	e->args = args;
	e->sub = sql_alloc(ctx, sizeof(*e->sub));
	*e->sub = (struct sql_subquery){
		.kind = kind, .rel = bound.rel, .width = bound.count, .outputs = bound.columns};
	return e;
}

/* Both sides of a comparison with a subquery's column take the same kind. */
static void match_any_types(struct sql_ctx *ctx, struct sql_bound *bound, struct sql_expr **args,
			    int at)
{
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, bound->count);
	int *columns = SQL_ARRAY(ctx, int, bound->count);
	bool changed = false;

	for (unsigned i = 0; i < bound->count; i++) {
		struct sql_expr *column = sql_column_expr(ctx, bound->columns[i], at);

		exprs[i] = column;
		sql_comparable(ctx, &args[i], &exprs[i], "IN", args[i]->at);
		columns[i] = column->column;
		if (exprs[i] != column) {
			columns[i] = sql_new_column(ctx, "in", exprs[i]->type, exprs[i]->nullable);
			changed = true;
		}
	}
	if (!changed)
		return;
	bound->rel = sql_project(ctx, bound->rel, bound->count, columns, exprs);
	bound->columns = columns;
}

static struct sql_expr *bind_any(struct sql_ctx *ctx, struct sql_scope *scope,
				 const PgQuery__SubLink *x, struct sql_bound bound)
{
	bool all = x->sub_link_type == PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK;
	enum sql_op op = SQL_EQ;
	struct sql_expr **args, *e;
	unsigned n = bind_row(ctx, scope, x->testexpr, &args);

	if (x->n_oper_name)
		op = sql_comparison_op(
			sql_operator_name(ctx, x->n_oper_name, x->oper_name, x->location));
	if (op == SQL_OP_COUNT)
		sql_unsupported(ctx, x->location, "this operator before a subquery");
	if (n != bound.count)
		sql_wrong(ctx, x->location, "the subquery has %u columns, expected %u", bound.count,
			  n);
	if (n > 1 && op != SQL_EQ)
		sql_unsupported(ctx, x->location, "comparing rows with an operator other than =");
	/* x op ALL (...) is NOT (x inverse-op ANY (...)). */
	if (all) {
		static const enum sql_op inverse[] = {
			[SQL_EQ] = SQL_NE, [SQL_NE] = SQL_EQ, [SQL_LT] = SQL_GE,
			[SQL_LE] = SQL_GT, [SQL_GT] = SQL_LE, [SQL_GE] = SQL_LT};

		if (n > 1)
			sql_unsupported(ctx, x->location, "ALL with rows");
		op = inverse[op];
	}
	match_any_types(ctx, &bound, args, x->location);
	e = new_subquery(ctx, SQL_SUB_ANY, bound, n, args, x->location);
	e->sub->op = op;
	return all ? sql_negate(ctx, e) : e;
}

static struct sql_expr *bind_subquery(struct sql_ctx *ctx, struct sql_scope *scope,
				      const PgQuery__SubLink *x)
{
	struct sql_bound bound;

	if (x->subselect->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		sql_unsupported(ctx, x->location, "this subquery");
	if (scope->in_aggregate)
		sql_unsupported(ctx, x->location, "a subquery inside an aggregate");
	bound = sql_bind_select(ctx, scope, scope->ctes, x->subselect->select_stmt);
	switch (x->sub_link_type) {
	case PG_QUERY__SUB_LINK_TYPE__EXISTS_SUBLINK:
		return new_subquery(ctx, SQL_SUB_EXISTS, bound, 0, NULL, x->location);
	case PG_QUERY__SUB_LINK_TYPE__ANY_SUBLINK:
	case PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK:
		return bind_any(ctx, scope, x, bound);
	case PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK:
		if (bound.count != 1)
			sql_wrong(ctx, x->location,
				  "a subquery used as a value has %u columns, expected 1",
				  bound.count);
		return new_subquery(ctx, SQL_SUB_SCALAR, bound, 0, NULL, x->location);
	default:
		sql_unsupported(ctx, x->location, "this kind of subquery");
	}
}

static struct sql_expr *bind_node(struct sql_ctx *ctx, struct sql_scope *scope,
				  const PgQuery__Node *node)
{
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_A_CONST:
		return bind_constant(ctx, node->a_const);
	case PG_QUERY__NODE__NODE_PARAM_REF:
		return bind_param(ctx, node->param_ref);
	case PG_QUERY__NODE__NODE_COLUMN_REF:
		return bind_column(ctx, scope, node->column_ref);
	case PG_QUERY__NODE__NODE_A_EXPR:
		return bind_a_expr(ctx, scope, node->a_expr);
	case PG_QUERY__NODE__NODE_BOOL_EXPR:
		return bind_logic(ctx, scope, node->bool_expr);
	case PG_QUERY__NODE__NODE_CASE_EXPR:
		return bind_case(ctx, scope, node->case_expr);
	case PG_QUERY__NODE__NODE_COALESCE_EXPR:
		return bind_choice(ctx, scope, SQL_COALESCE, node->coalesce_expr->n_args,
				   node->coalesce_expr->args, node->coalesce_expr->location);
	case PG_QUERY__NODE__NODE_MIN_MAX_EXPR:
		return bind_choice(ctx, scope,
				   node->min_max_expr->op == PG_QUERY__MIN_MAX_OP__IS_GREATEST
					   ? SQL_GREATEST
					   : SQL_LEAST,
				   node->min_max_expr->n_args, node->min_max_expr->args,
				   node->min_max_expr->location);
	case PG_QUERY__NODE__NODE_NULL_TEST:
		return bind_null_test(ctx, scope, node->null_test);
	case PG_QUERY__NODE__NODE_BOOLEAN_TEST:
		return bind_bool_test(ctx, scope, node->boolean_test);
	case PG_QUERY__NODE__NODE_TYPE_CAST:
		return bind_cast(ctx, scope, node->type_cast);
	case PG_QUERY__NODE__NODE_SUB_LINK:
		return bind_subquery(ctx, scope, node->sub_link);
	case PG_QUERY__NODE__NODE_GROUPING_FUNC:
		return sql_bind_grouping(ctx, scope, node->grouping_func);
	case PG_QUERY__NODE__NODE_FUNC_CALL:
		return sql_bind_function(ctx, scope, node->func_call);
	default:
		sql_unsupported(ctx, sql_node_location(node), "%s", sql_node_name(node));
	}
}

struct sql_expr *sql_bind_expr(struct sql_ctx *ctx, struct sql_scope *scope,
			       const PgQuery__Node *node)
{
	struct sql_expr *e;

	if (!node)
		sql_unsupported(ctx, -1, "an empty expression");
	sql_enter(ctx, sql_node_location(node));
	e = bind_node(ctx, scope, node);
	sql_leave(ctx);
	return e;
}
