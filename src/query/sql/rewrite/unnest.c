/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subqueries become joins, innermost first.
 *
 *  - EXISTS and x op ANY as a conjunct of a filter: semi join; with NOT: anti join.
 *  - A scalar subquery: a left join with a group for each value of the outer columns, if it is an
 *    aggregate; else a single join. Counts of groups that are not there become 0.
 *  - EXISTS and ANY in any other place, under OR or in a select list: a left join with the distinct
 *    keys and a flag, which is NULL where nothing matches; for ANY also the counts that tell
 *    false from NULL.
 *
 * Correlated predicates are pulled out of the subquery into the join's condition (unnest_pull.c).
 * Where that is not possible the subquery is evaluated over its domain (unnest_domain.c).
 */
#include "query/sql/bind/typing.h"
#include "query/sql/rewrite/unnest.h"

#include <string.h>

/* A subquery that is being attached to an input. */
struct attach {
	struct sql_ctx *ctx;
	struct sql_rel *input;
	struct sql_expr *expr;
	struct sql_subquery *sub;
	struct sql_set outer;	    /* columns of input that the subquery uses */
	struct sql_list conditions; /* pulled out of it */
	struct sql_rel *rel;	    /* the subquery without them */
};

static struct attach begin_attach(struct sql_ctx *ctx, struct sql_rel *input, struct sql_expr *e)
{
	struct attach a = {
		.ctx = ctx, .input = input, .expr = e, .sub = e->sub, .rel = e->sub->rel};
	struct sql_set used = {0};

	sql_free_columns(ctx, a.rel, &used);
	for (unsigned i = 0; i < input->width; i++) {
		if (sql_set_has(&used, input->columns[i]))
			sql_set_add(ctx, &a.outer, input->columns[i]);
	}
	return a;
}

/* Pulls the outer columns out, one way or the other; afterwards a->conditions has them. */
static void make_independent(struct attach *a)
{
	struct sql_domain domain;
	struct sql_rel *pulled;
	struct sql_expr *condition;

	if (sql_set_empty(&a->outer))
		return;
	pulled = sql_pull_up(a->ctx, a->rel, &a->outer, &a->conditions);
	if (pulled) {
		a->rel = pulled;
		return;
	}
	a->rel = sql_unnest_domain(a->ctx, a->rel, a->input, &a->outer, &domain);
	condition = sql_domain_condition(a->ctx, &domain);
	a->conditions = (struct sql_list){0};
	sql_conjuncts(a->ctx, condition, &a->conditions);
}

/* Whether rel has exactly one row: an aggregate without GROUP BY, or VALUES of one row. */
static bool one_row(const struct sql_rel *rel)
{
	switch (rel->kind) {
	case SQL_PROJECT:
	case SQL_SORT:
		return one_row(rel->left);
	case SQL_AGGREGATE:
		return !rel->agg.grouped;
	case SQL_VALUES:
		return rel->values.row_count == 1;
	case SQL_JOIN:
		return rel->join.kind == SQL_INNER && !rel->join.condition && one_row(rel->left) &&
		       one_row(rel->right);
	default:
		return false;
	}
}

/* What does not change whether there is a row: sorting, the select list, duplicates, grouping. */
static struct sql_rel *strip_for_exists(struct sql_rel *rel)
{
	for (;;) {
		bool skip = rel->kind == SQL_SORT || rel->kind == SQL_PROJECT ||
			    (rel->kind == SQL_LIMIT && rel->limit.count != 0 &&
			     rel->limit.offset == 0) ||
			    (rel->kind == SQL_AGGREGATE && rel->agg.grouped);

		if (!skip)
			return rel;
		rel = rel->left;
	}
}

static struct sql_rel *strip_for_any(struct sql_rel *rel)
{
	while (rel->kind == SQL_SORT ||
	       (rel->kind == SQL_AGGREGATE && rel->agg.grouped && rel->agg.agg_count == 0))
		rel = rel->left;
	return rel;
}

/* args[i] op output i, all of them. */
static struct sql_expr *any_condition(struct attach *a)
{
	struct sql_expr *e = NULL;

	for (unsigned i = 0; i < a->expr->count; i++) {
		struct sql_expr *column = sql_column_expr(a->ctx, a->sub->outputs[i], -1);

		e = sql_and(a->ctx, e,
			    sql_call2(a->ctx, a->sub->op, SQL_TYPE_BOOL, a->expr->args[i], column));
	}
	return e;
}

static struct sql_rel *attach_semi(struct sql_ctx *ctx, struct sql_rel *input, struct sql_expr *e,
				   bool negated)
{
	struct attach a;
	struct sql_rel *join;
	struct sql_expr *condition, *null_condition = NULL;

	if (e->sub->kind == SQL_SUB_EXISTS)
		e->sub->rel = strip_for_exists(e->sub->rel);
	else
		e->sub->rel = strip_for_any(e->sub->rel);
	a = begin_attach(ctx, input, e);
	make_independent(&a);
	condition = sql_and_list(ctx, &a.conditions);
	if (e->sub->kind == SQL_SUB_ANY) {
		if (negated)
			null_condition = any_condition(&a);
		else
			condition = sql_and(ctx, condition, any_condition(&a));
	}
	join = sql_join_rel(ctx, negated ? SQL_ANTI : SQL_SEMI, input, a.rel, condition);
	join->join.null_condition = null_condition;
	return join;
}

static bool all_equalities(struct attach *a)
{
	struct sql_expr *inner, *other;

	for (unsigned i = 0; i < a->conditions.count; i++) {
		if (!sql_split_equality(a->ctx, a->conditions.items[i], &a->outer, &inner, &other))
			return false;
	}
	return true;
}

/* An aggregate that counts rows of rel by keys; its aggs are filled in by the caller. */
static struct sql_rel *group_by(struct sql_ctx *ctx, struct sql_rel *rel, unsigned key_count,
				const int *keys, unsigned agg_count, const struct sql_agg *aggs)
{
	struct sql_rel *groups = sql_new_rel(ctx, SQL_AGGREGATE, rel, NULL, key_count + agg_count);
	unsigned n = 0;

	for (unsigned i = 0; i < key_count; i++) {
		bool known = false;

		for (unsigned j = 0; j < n; j++)
			known |= groups->columns[j] == keys[i];
		if (!known)
			groups->columns[n++] = keys[i];
	}
	groups->agg.key_count = groups->agg.determinant_count = n;
	groups->agg.grouped = key_count > 0;
	groups->agg.agg_count = agg_count;
	groups->agg.aggs = SQL_ARRAY(ctx, struct sql_agg, agg_count);
	for (unsigned i = 0; i < agg_count; i++) {
		groups->agg.aggs[i] = aggs[i];
		groups->columns[n++] = aggs[i].column;
	}
	groups->width = n;
	return groups;
}

/* rel without outer columns, and equalities in a->conditions: pulled up, or those of its domain. */
static struct sql_rel *pull_equalities(struct attach *a, struct sql_rel *rel)
{
	struct sql_rel *pulled = sql_pull_up(a->ctx, rel, &a->outer, &a->conditions);
	struct sql_set used = {0}, outer = {0};
	struct sql_domain domain;

	if (pulled && all_equalities(a))
		return pulled;
	a->conditions = (struct sql_list){0};
	sql_free_columns(a->ctx, rel, &used);
	for (unsigned i = 0; i < a->input->width; i++) {
		if (sql_set_has(&used, a->input->columns[i]))
			sql_set_add(a->ctx, &outer, a->input->columns[i]);
	}
	rel = sql_unnest_domain(a->ctx, rel, a->input, &outer, &domain);
	sql_conjuncts(a->ctx, sql_domain_condition(a->ctx, &domain), &a->conditions);
	return rel;
}

/*
 * A scalar aggregate: [project] [filter] aggregate without GROUP BY. Groups by the inner sides of
 * the correlation; what stands above the aggregate is computed after the join. False if that is not
 * its form.
 */
static bool attach_grouped_scalar(struct attach *a, struct sql_expr **value)
{
	struct sql_rel *project = NULL, *having = NULL, *agg = a->rel, *input, *groups;
	struct sql_binding counts;
	struct sql_expr *e;
	int *keys;

	while (agg->kind == SQL_SORT)
		agg = agg->left;
	if (agg->kind == SQL_PROJECT) {
		project = agg;
		agg = agg->left;
	}
	if (agg->kind == SQL_FILTER) {
		having = agg;
		agg = agg->left;
	}
	if (agg->kind != SQL_AGGREGATE || agg->agg.grouped)
		return false;
	for (unsigned i = 0; i < agg->agg.agg_count; i++) {
		struct sql_set used = {0};

		if (agg->agg.aggs[i].arg)
			sql_expr_columns(a->ctx, agg->agg.aggs[i].arg, &used);
		if (sql_set_meets(&used, &a->outer))
			return false;
	}
	input = pull_equalities(a, agg->left);
	keys = SQL_ARRAY(a->ctx, int, a->conditions.count);
	input = sql_expose_keys(a->ctx, input, &a->outer, &a->conditions, keys);
	groups = group_by(a->ctx, input, a->conditions.count, keys, agg->agg.agg_count,
			  agg->agg.aggs);
	a->input = sql_join_rel(a->ctx, a->conditions.count ? SQL_LEFT_OUTER : SQL_INNER, a->input,
				groups, sql_and_list(a->ctx, &a->conditions));
	/* above the join: counts of groups that are not there */
	counts = (struct sql_binding){
		.exprs = SQL_ARRAY(a->ctx, struct sql_expr *, agg->agg.agg_count)};
	counts.columns =
		memcpy(SQL_ARRAY(a->ctx, int, agg->agg.agg_count),
		       groups->columns + groups->agg.key_count, agg->agg.agg_count * sizeof(int));
	counts.count = agg->agg.agg_count;
	for (unsigned i = 0; i < counts.count; i++) {
		enum sql_agg_op op = agg->agg.aggs[i].op;

		e = sql_column_expr(a->ctx, counts.columns[i], -1);
		e->nullable = true;
		if (op == SQL_COUNT || op == SQL_COUNT_ROWS)
			e = sql_call2(a->ctx, SQL_COALESCE, e->type, e,
				      sql_integer(a->ctx, e->type, 0));
		counts.exprs[i] = e;
	}
	e = sql_column_expr(a->ctx, a->sub->outputs[0], -1);
	for (unsigned i = 0; project && i < project->width; i++) {
		if (project->columns[i] == a->sub->outputs[0])
			e = project->exprs[i];
	}
	e = sql_substitute(a->ctx, e, &counts);
	if (having) {
		struct sql_expr *args[3] = {sql_substitute(a->ctx, having->predicate, &counts), e,
					    sql_null(a->ctx, e->type)};

		e = sql_case_expr(a->ctx, e->type, 3, args, -1);
	}
	*value = e;
	return true;
}

static struct sql_expr *attach_scalar(struct attach *a)
{
	struct sql_expr *value;

	if (sql_set_empty(&a->outer)) {
		a->input = sql_join_rel(a->ctx, one_row(a->rel) ? SQL_INNER : SQL_SINGLE, a->input,
					a->rel, NULL);
	} else if (attach_grouped_scalar(a, &value)) {
		return value;
	} else {
		make_independent(a);
		a->input = sql_join_rel(a->ctx, SQL_SINGLE, a->input, a->rel,
					sql_and_list(a->ctx, &a->conditions));
	}
	value = sql_column_expr(a->ctx, a->sub->outputs[0], a->expr->at);
	value->nullable = true;
	return value;
}

/*
 * Makes all correlation equalities, by the domain if need be, and exposes the inner sides as keys.
 */
static int *make_keyed(struct attach *a)
{
	int *keys;

	if (!sql_set_empty(&a->outer))
		a->rel = pull_equalities(a, a->rel);
	keys = SQL_ARRAY(a->ctx, int, a->conditions.count);
	a->rel = sql_expose_keys(a->ctx, a->rel, &a->outer, &a->conditions, keys);
	return keys;
}

static struct sql_expr *is_positive(struct sql_ctx *ctx, int count_column)
{
	struct sql_expr *count = sql_column_expr(ctx, count_column, -1);

	count->nullable = true;
	count = sql_call2(ctx, SQL_COALESCE, count->type, count, sql_integer(ctx, count->type, 0));
	return sql_call2(ctx, SQL_GT, SQL_TYPE_BOOL, count, sql_integer(ctx, count->type, 0));
}

/* EXISTS as a value: rows are counted by key, and joined. */
static struct sql_expr *attach_exists(struct attach *a)
{
	struct sql_agg count = {.op = SQL_COUNT_ROWS};
	struct sql_rel *groups;
	int *keys;

	a->rel = strip_for_exists(a->rel);
	if (a->rel->kind == SQL_AGGREGATE)
		return sql_bool(a->ctx, true);
	keys = make_keyed(a);
	count.column = sql_new_column(a->ctx, "rows", SQL_TYPE_INT64, true);
	groups = group_by(a->ctx, a->rel, a->conditions.count, keys, 1, &count);
	a->input = sql_join_rel(a->ctx, a->conditions.count ? SQL_LEFT_OUTER : SQL_INNER, a->input,
				groups, sql_and_list(a->ctx, &a->conditions));
	return is_positive(a->ctx, count.column);
}

/* CASE WHEN true_when THEN true WHEN null_when THEN NULL ELSE false END */
static struct sql_expr *three_valued(struct sql_ctx *ctx, struct sql_expr *true_when,
				     struct sql_expr *null_when)
{
	struct sql_expr *args[] = {true_when, sql_bool(ctx, true), null_when,
				   sql_null(ctx, SQL_TYPE_BOOL), sql_bool(ctx, false)};

	return sql_case_expr(ctx, SQL_TYPE_BOOL, 5, args, -1);
}

/* A projection that adds columns to all of rel's. */
static struct sql_rel *add_columns(struct sql_ctx *ctx, struct sql_rel *rel, unsigned count,
				   struct sql_expr **more, int *columns)
{
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, rel->width + count);
	int *all = SQL_ARRAY(ctx, int, rel->width + count);

	for (unsigned i = 0; i < rel->width; i++) {
		all[i] = rel->columns[i];
		exprs[i] = sql_column_expr(ctx, all[i], -1);
	}
	for (unsigned i = 0; i < count; i++) {
		columns[i] = sql_new_column(ctx, "operand", more[i]->type, more[i]->nullable);
		all[rel->width + i] = columns[i];
		exprs[rel->width + i] = more[i];
	}
	return sql_project(ctx, rel, rel->width + count, all, exprs);
}

/*
 * x op ANY (...) as a value, any operator, any number of columns: per value of x and of the outer
 * columns, the rows for which the comparison is true and those for which it is NULL are counted.
 */
static struct sql_expr *attach_any_counted(struct attach *a)
{
	struct sql_agg counts[2] = {{.op = SQL_COUNT}, {.op = SQL_COUNT}};
	struct sql_expr *compared, *when[3];
	struct sql_domain domain;
	struct sql_rel *groups;
	int *operands = SQL_ARRAY(a->ctx, int, a->expr->count);

	/* x as columns of the input, then part of the domain */
	a->input = add_columns(a->ctx, a->input, a->expr->count, a->expr->args, operands);
	for (unsigned i = 0; i < a->expr->count; i++) {
		a->expr->args[i] = sql_column_expr(a->ctx, operands[i], -1);
		sql_set_add(a->ctx, &a->outer, operands[i]);
	}
	compared = any_condition(a);
	for (int i = 0; i < 2; i++) {
		when[0] = i ? sql_call1(a->ctx, SQL_IS_NULL, SQL_TYPE_BOOL, compared) : compared;
		when[1] = sql_integer(a->ctx, SQL_TYPE_INT32, 1);
		when[2] = sql_null(a->ctx, SQL_TYPE_INT32);
		counts[i].arg = sql_case_expr(a->ctx, SQL_TYPE_INT32, 3, when, -1);
		counts[i].column =
			sql_new_column(a->ctx, i ? "unknown" : "matches", SQL_TYPE_INT64, true);
	}
	groups = group_by(a->ctx, a->rel, 0, NULL, 2, counts);
	a->rel = sql_unnest_domain(a->ctx, groups, a->input, &a->outer, &domain);
	a->input = sql_join_rel(a->ctx, SQL_LEFT_OUTER, a->input, a->rel,
				sql_domain_condition(a->ctx, &domain));
	return three_valued(a->ctx, is_positive(a->ctx, counts[0].column),
			    is_positive(a->ctx, counts[1].column));
}

/*
 * x = ANY (...) as a value: a left join with the distinct values, and, unless NULL may be taken for
 * false, another with the number of rows and of values that are not NULL.
 */
static struct sql_expr *attach_any_equal(struct attach *a, bool truth_only)
{
	int *keys, *all_keys, matched;
	struct sql_agg match = {.op = SQL_COUNT_ROWS};
	struct sql_agg counts[2] = {{.op = SQL_COUNT_ROWS}, {.op = SQL_COUNT}};
	struct sql_rel *groups, *copy;
	struct sql_expr *condition, *x = a->expr->args[0], *missing, *sides[2];
	unsigned n;
	int value = a->sub->outputs[0];
	struct sql_list pairs = {0};

	keys = make_keyed(a);
	n = a->conditions.count;
	condition = sql_and_list(a->ctx, &a->conditions);
	all_keys = SQL_ARRAY(a->ctx, int, n + 1);
	memcpy(all_keys, keys, n * sizeof(int));
	all_keys[n] = value;
	/* a copy for the counts, before the first is used up */
	copy = NULL;
	if (!truth_only) {
		int *numbers = SQL_ARRAY(a->ctx, int, n + 1);

		memcpy(numbers, all_keys, (n + 1) * sizeof(int));
		copy = sql_clone(a->ctx, a->rel, n + 1, numbers);
		counts[1].arg = sql_column_expr(a->ctx, numbers[n], -1);
		for (int i = 0; i < 2; i++)
			counts[i].column =
				sql_new_column(a->ctx, i ? "values" : "rows", SQL_TYPE_INT64, true);
		copy = group_by(a->ctx, copy, n, numbers, 2, counts);
		for (unsigned i = 0; i < n; i++) {
			struct sql_expr *inner, *other, *pair = a->conditions.items[i];

			sql_split_equality(a->ctx, pair, &a->outer, &inner, &other);
			sql_list_add(a->ctx, &pairs,
				     sql_call2(a->ctx, pair->op, SQL_TYPE_BOOL, other,
					       sql_column_expr(a->ctx, numbers[i], -1)));
		}
	}
	matched = sql_new_column(a->ctx, "matches", SQL_TYPE_INT64, true);
	match.column = matched;
	groups = group_by(a->ctx, a->rel, n + 1, all_keys, 1, &match);
	a->input = sql_join_rel(a->ctx, SQL_LEFT_OUTER, a->input, groups,
				sql_and(a->ctx, condition,
					sql_call2(a->ctx, SQL_EQ, SQL_TYPE_BOOL, x,
						  sql_column_expr(a->ctx, value, -1))));
	if (truth_only)
		return is_positive(a->ctx, matched);
	a->input = sql_join_rel(a->ctx, n ? SQL_LEFT_OUTER : SQL_INNER, a->input, copy,
				sql_and_list(a->ctx, &pairs));
	/* NULL if there are rows, none matches, and x or one of them is NULL */
	sides[0] = sql_call1(a->ctx, SQL_IS_NULL, SQL_TYPE_BOOL, x);
	sides[1] = sql_call2(a->ctx, SQL_LT, SQL_TYPE_BOOL,
			     sql_column_expr(a->ctx, counts[1].column, -1),
			     sql_column_expr(a->ctx, counts[0].column, -1));
	missing = sql_call(a->ctx, SQL_OR, SQL_TYPE_BOOL, 2, sides, -1);
	return three_valued(a->ctx, is_positive(a->ctx, matched),
			    sql_and(a->ctx, is_positive(a->ctx, counts[0].column), missing));
}

/* Replaces the subqueries of an expression; *input gets the joins that they need. */
struct attachment {
	struct sql_rel *input;
	bool truth_only; /* NULL may be taken for false */
	/* A subquery may occur twice (BETWEEN, CASE x): it is attached once. */
	struct sql_list subqueries, values;
};

static struct sql_expr *attach_value(struct sql_ctx *ctx, struct attachment *to, struct sql_expr *e)
{
	struct attach a = begin_attach(ctx, to->input, e);
	struct sql_expr *value;

	for (unsigned i = 0; i < to->subqueries.count; i++) {
		if (to->subqueries.items[i] == e->sub)
			return to->values.items[i];
	}
	switch (e->sub->kind) {
	case SQL_SUB_SCALAR:
		value = attach_scalar(&a);
		break;
	case SQL_SUB_EXISTS:
		value = attach_exists(&a);
		break;
	default:
		a.rel = strip_for_any(a.rel);
		if (e->count == 1 && a.sub->op == SQL_EQ)
			value = attach_any_equal(&a, to->truth_only);
		else
			value = attach_any_counted(&a);
	}
	to->input = a.input;
	sql_list_add(ctx, &to->subqueries, e->sub);
	sql_list_add(ctx, &to->values, value);
	return value;
}

static struct sql_expr *attach_all(struct sql_ctx *ctx, struct attachment *to, struct sql_expr *e)
{
	struct sql_expr *copy;
	bool truth_only = to->truth_only;

	if (!sql_has_subquery(e))
		return e;
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = *e;
	copy->args = SQL_ARRAY(ctx, struct sql_expr *, e->count);
	/* AND and OR of values that are taken for truth only are so as well; nothing else is. */
	if (e->kind != SQL_CALL || (e->op != SQL_AND && e->op != SQL_OR))
		to->truth_only = false;
	for (unsigned i = 0; i < e->count; i++)
		copy->args[i] = attach_all(ctx, to, e->args[i]);
	to->truth_only = truth_only;
	return e->kind == SQL_SUBQUERY ? attach_value(ctx, to, copy) : copy;
}

/* The subquery of [NOT] EXISTS or ANY, or NULL. Its operands have no subqueries. */
static struct sql_expr *plain_subquery(struct sql_expr *e, bool *negated)
{
	*negated = sql_is_call(e, SQL_NOT);
	if (*negated)
		e = e->args[0];
	if (e->kind != SQL_SUBQUERY || e->sub->kind == SQL_SUB_SCALAR)
		return NULL;
	for (unsigned i = 0; i < e->count; i++) {
		if (sql_has_subquery(e->args[i]))
			return NULL;
	}
	return e;
}

static struct sql_rel *unnest_filter(struct sql_ctx *ctx, struct sql_rel *input,
				     struct sql_expr *predicate)
{
	struct sql_list all = {0}, plain = {0}, values = {0}, done = {0};
	struct attachment to = {.truth_only = true};
	bool negated;

	sql_conjuncts(ctx, predicate, &all);
	for (unsigned i = 0; i < all.count; i++) {
		if (!sql_has_subquery(all.items[i]))
			sql_list_add(ctx, &plain, all.items[i]);
	}
	input = sql_filter(ctx, input, sql_and_list(ctx, &plain));
	for (unsigned i = 0; i < all.count; i++) {
		struct sql_expr *sub;

		if (!sql_has_subquery(all.items[i]))
			continue;
		sub = plain_subquery(all.items[i], &negated);
		if (sub)
			input = attach_semi(ctx, input, sub, negated);
		else
			sql_list_add(ctx, &values, all.items[i]);
	}
	to.input = input;
	for (unsigned i = 0; i < values.count; i++)
		sql_list_add(ctx, &done, attach_all(ctx, &to, values.items[i]));
	return sql_filter(ctx, to.input, sql_and_list(ctx, &done));
}

static struct sql_rel *unnest_project(struct sql_ctx *ctx, struct sql_rel *rel)
{
	struct attachment to = {.input = rel->left};

	for (unsigned i = 0; i < rel->width; i++)
		rel->exprs[i] = attach_all(ctx, &to, rel->exprs[i]);
	rel->left = to.input;
	return rel;
}

static struct sql_rel *unnest_join(struct sql_ctx *ctx, struct sql_rel *rel)
{
	struct sql_set used = {0}, left = {0};
	struct sql_expr *condition = rel->join.condition;
	struct attachment to = {0};
	bool on_left;

	if (!condition || !sql_has_subquery(condition))
		return rel;
	if (rel->join.kind == SQL_INNER)
		return unnest_filter(ctx, sql_join_rel(ctx, SQL_INNER, rel->left, rel->right, NULL),
				     condition);
	/* An outer join: the subqueries may use one side. */
	sql_expr_columns(ctx, condition, &used);
	sql_set_add_outputs(ctx, &left, rel->left);
	on_left = sql_set_meets(&used, &left);
	for (unsigned i = 0; on_left && i < rel->right->width; i++) {
		if (sql_set_has(&used, rel->right->columns[i]))
			sql_unsupported(
				ctx, condition->at,
				"a subquery in the ON of an outer join that uses both sides");
	}
	to.input = on_left ? rel->left : rel->right;
	condition = attach_all(ctx, &to, condition);
	return sql_join_rel(ctx, rel->join.kind, on_left ? to.input : rel->left,
			    on_left ? rel->right : to.input, condition);
}

static void unnest_inside(struct sql_ctx *ctx, struct sql_expr *e)
{
	if (!e)
		return;
	if (e->kind == SQL_SUBQUERY)
		e->sub->rel = sql_unnest(ctx, e->sub->rel);
	for (unsigned i = 0; i < e->count; i++)
		unnest_inside(ctx, e->args[i]);
}

struct sql_rel *sql_unnest(struct sql_ctx *ctx, struct sql_rel *rel)
{
	sql_enter(ctx, -1);
	if (rel->left)
		rel->left = sql_unnest(ctx, rel->left);
	if (rel->right)
		rel->right = sql_unnest(ctx, rel->right);
	switch (rel->kind) {
	case SQL_FILTER:
		unnest_inside(ctx, rel->predicate);
		if (sql_has_subquery(rel->predicate))
			rel = unnest_filter(ctx, rel->left, rel->predicate);
		break;
	case SQL_PROJECT:
		for (unsigned i = 0; i < rel->width; i++)
			unnest_inside(ctx, rel->exprs[i]);
		rel = unnest_project(ctx, rel);
		break;
	case SQL_JOIN:
		unnest_inside(ctx, rel->join.condition);
		rel = unnest_join(ctx, rel);
		break;
	default:
		break;
	}
	sql_leave(ctx);
	return rel;
}
