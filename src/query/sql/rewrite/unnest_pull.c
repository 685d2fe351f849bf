/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pulling correlated predicates up, through filters, projections, joins and, if they are
 * equalities, aggregates: those get the inner side as one more key. (U. Dayal, "Of Nests and
 * Trees", VLDB 1987; C. Galindo-Legaria and M. Joshi, "Orthogonal Optimization of Subqueries and
 * Aggregation", SIGMOD 2001.)
 */
#include "query/sql/rewrite/unnest.h"

#include <string.h>

static bool uses(struct sql_ctx *ctx, const struct sql_expr *e, const struct sql_set *columns)
{
	struct sql_set used = {0};

	if (!e)
		return false;
	sql_expr_columns(ctx, e, &used);
	return sql_set_meets(&used, columns);
}

static bool rel_uses(struct sql_ctx *ctx, const struct sql_rel *rel, const struct sql_set *columns)
{
	struct sql_set used = {0};

	sql_free_columns(ctx, rel, &used);
	return sql_set_meets(&used, columns);
}

/* Moves the conjuncts of e that use outer columns to conditions; returns the others. */
static struct sql_expr *split_correlated(struct sql_ctx *ctx, struct sql_expr *e,
					 const struct sql_set *outer, struct sql_list *conditions)
{
	struct sql_list all = {0}, rest = {0};

	sql_conjuncts(ctx, e, &all);
	for (unsigned i = 0; i < all.count; i++)
		sql_list_add(ctx, uses(ctx, all.items[i], outer) ? conditions : &rest,
			     all.items[i]);
	return sql_and_list(ctx, &rest);
}

static struct sql_rel *pull_project(struct sql_ctx *ctx, struct sql_rel *rel,
				    const struct sql_set *outer, struct sql_list *conditions)
{
	struct sql_rel *input;
	struct sql_set needed = {0};
	struct sql_expr **exprs;
	unsigned n = rel->width;
	int *columns;

	for (unsigned i = 0; i < rel->width; i++) {
		if (uses(ctx, rel->exprs[i], outer))
			return NULL;
	}
	input = sql_pull_up(ctx, rel->left, outer, conditions);
	if (!input)
		return NULL;
	for (unsigned i = 0; i < conditions->count; i++)
		sql_expr_columns(ctx, conditions->items[i], &needed);
	exprs = SQL_ARRAY(ctx, struct sql_expr *, n + input->width);
	columns = SQL_ARRAY(ctx, int, n + input->width);
	memcpy(exprs, rel->exprs, n * sizeof(*exprs));
	memcpy(columns, rel->columns, n * sizeof(int));
	for (unsigned i = 0; i < input->width; i++) {
		if (!sql_set_has(&needed, input->columns[i]) || sql_outputs(rel, input->columns[i]))
			continue;
		columns[n] = input->columns[i];
		exprs[n++] = sql_column_expr(ctx, input->columns[i], -1);
	}
	return sql_project(ctx, input, n, columns, exprs);
}

static struct sql_rel *pull_join(struct sql_ctx *ctx, struct sql_rel *rel,
				 const struct sql_set *outer, struct sql_list *conditions)
{
	struct sql_rel *left, *right = rel->right, *copy;
	struct sql_expr *condition = rel->join.condition;
	bool inner = rel->join.kind == SQL_INNER;

	if (!inner && (rel_uses(ctx, rel->right, outer) || uses(ctx, condition, outer) ||
		       uses(ctx, rel->join.null_condition, outer)))
		return NULL;
	left = sql_pull_up(ctx, rel->left, outer, conditions);
	if (!left)
		return NULL;
	if (inner) {
		right = sql_pull_up(ctx, rel->right, outer, conditions);
		if (!right)
			return NULL;
		condition = split_correlated(ctx, condition, outer, conditions);
	}
	copy = sql_join_rel(ctx, rel->join.kind, left, right, condition);
	copy->join.null_condition = rel->join.null_condition;
	return copy;
}

bool sql_split_equality(struct sql_ctx *ctx, const struct sql_expr *condition,
			const struct sql_set *outer, struct sql_expr **inner,
			struct sql_expr **other)
{
	struct sql_set sides[2] = {{0}, {0}};
	int in;

	if (!sql_is_call(condition, SQL_EQ) && !sql_is_call(condition, SQL_IS_NOT_DISTINCT))
		return false;
	for (int i = 0; i < 2; i++)
		sql_expr_columns(ctx, condition->args[i], &sides[i]);
	in = sql_set_meets(&sides[0], outer) ? 1 : 0;
	if (sql_set_meets(&sides[in], outer) || !sql_set_within(&sides[1 - in], outer))
		return false;
	*inner = condition->args[in];
	*other = condition->args[1 - in];
	return true;
}

struct sql_rel *sql_expose_keys(struct sql_ctx *ctx, struct sql_rel *rel,
				const struct sql_set *outer, struct sql_list *conditions, int *keys)
{
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, rel->width + conditions->count);
	int *columns = SQL_ARRAY(ctx, int, rel->width + conditions->count);
	unsigned n = rel->width;

	for (unsigned i = 0; i < n; i++) {
		columns[i] = rel->columns[i];
		exprs[i] = sql_column_expr(ctx, columns[i], -1);
	}
	for (unsigned i = 0; i < conditions->count; i++) {
		struct sql_expr *condition = conditions->items[i], *inner, *other, *key;

		sql_split_equality(ctx, condition, outer, &inner, &other);
		keys[i] = inner->column;
		if (inner->kind == SQL_COLUMN)
			continue;
		keys[i] = sql_new_column(ctx, "key", inner->type, inner->nullable);
		columns[n] = keys[i];
		exprs[n++] = inner;
		key = sql_column_expr(ctx, keys[i], -1);
		conditions->items[i] = sql_call2(ctx, condition->op, SQL_TYPE_BOOL, other, key);
	}
	return n > rel->width ? sql_project(ctx, rel, n, columns, exprs) : rel;
}

static bool all_equalities(struct sql_ctx *ctx, const struct sql_list *conditions,
			   const struct sql_set *outer)
{
	struct sql_expr *inner, *other;

	for (unsigned i = 0; i < conditions->count; i++) {
		if (!sql_split_equality(ctx, conditions->items[i], outer, &inner, &other))
			return false;
	}
	return true;
}

/* An aggregate with GROUP BY: the inner sides become keys. */
static struct sql_rel *pull_aggregate(struct sql_ctx *ctx, struct sql_rel *rel,
				      const struct sql_set *outer, struct sql_list *conditions)
{
	struct sql_list own = {0};
	struct sql_rel *input, *copy;
	unsigned n = 0;
	int *keys;

	for (unsigned i = 0; i < rel->agg.agg_count; i++) {
		if (uses(ctx, rel->agg.aggs[i].arg, outer))
			return NULL;
	}
	if (!rel->agg.grouped)
		return NULL;
	input = sql_pull_up(ctx, rel->left, outer, &own);
	if (!input || !all_equalities(ctx, &own, outer))
		return NULL;
	keys = SQL_ARRAY(ctx, int, own.count);
	input = sql_expose_keys(ctx, input, outer, &own, keys);
	copy = sql_new_rel(ctx, SQL_AGGREGATE, input, NULL, rel->width + own.count);
	copy->agg = rel->agg;
	for (unsigned i = 0; i < rel->agg.key_count; i++)
		copy->columns[n++] = rel->columns[i];
	for (unsigned i = 0; i < own.count; i++) {
		bool known = false;

		for (unsigned j = 0; j < n; j++)
			known |= copy->columns[j] == keys[i];
		if (!known)
			copy->columns[n++] = keys[i];
		sql_list_add(ctx, conditions, own.items[i]);
	}
	copy->agg.key_count = copy->agg.determinant_count = n;
	for (unsigned i = 0; i < rel->agg.agg_count; i++)
		copy->columns[n++] = rel->agg.aggs[i].column;
	copy->width = n;
	return copy;
}

struct sql_rel *sql_pull_up(struct sql_ctx *ctx, struct sql_rel *rel, const struct sql_set *outer,
			    struct sql_list *conditions)
{
	struct sql_rel *input;

	if (!rel_uses(ctx, rel, outer))
		return rel;
	switch (rel->kind) {
	case SQL_FILTER:
		input = sql_pull_up(ctx, rel->left, outer, conditions);
		return input ? sql_filter(ctx, input,
					  split_correlated(ctx, rel->predicate, outer, conditions))
			     : NULL;
	case SQL_PROJECT:
		return pull_project(ctx, rel, outer, conditions);
	case SQL_JOIN:
		return pull_join(ctx, rel, outer, conditions);
	case SQL_AGGREGATE:
		return pull_aggregate(ctx, rel, outer, conditions);
	case SQL_SORT: /* nothing that we pull through depends on the order */
		return sql_pull_up(ctx, rel->left, outer, conditions);
	default:
		return NULL;
	}
}
