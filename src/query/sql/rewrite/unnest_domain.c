/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general way to unnest, for whatever predicates cannot be pulled out of: the subquery is
 * evaluated for all values of its outer columns at once. D, the domain, is the distinct values of
 * these columns in the input; it is joined at the leaves that use them and its columns are carried
 * up (T. Neumann and A. Kemper, "Unnesting Arbitrary Queries", BTW 2015).
 */
#include "query/sql/rewrite/unnest.h"

#include <string.h>

struct domain_push {
	struct sql_ctx *ctx;
	struct sql_set *outer;
	unsigned count;
	const int *columns;    /* outer */
	struct sql_rel *first; /* D; used once, then copied */
	int *first_values;
	bool first_used;
};

static struct sql_rel *push_domain(struct domain_push *p, struct sql_rel *rel, int *values);

static bool depends(struct domain_push *p, const struct sql_rel *rel)
{
	struct sql_set used = {0};

	sql_free_columns(p->ctx, rel, &used);
	return sql_set_meets(&used, p->outer);
}

/* D, with columns of its own; values are their numbers. */
static struct sql_rel *another_domain(struct domain_push *p, int *values)
{
	memcpy(values, p->first_values, p->count * sizeof(int));
	if (!p->first_used) {
		p->first_used = true;
		return p->first;
	}
	return sql_clone(p->ctx, p->first, p->count, values);
}

static struct sql_rel *cross_domain(struct domain_push *p, struct sql_rel *rel, int *values)
{
	return sql_join_rel(p->ctx, SQL_INNER, another_domain(p, values), rel, NULL);
}

/* e with the domain's columns in the place of outer ones. */
static struct sql_expr *with_values(struct domain_push *p, struct sql_expr *e, const int *values)
{
	struct sql_expr **exprs = SQL_ARRAY(p->ctx, struct sql_expr *, p->count);
	struct sql_binding binding = {.count = p->count, .columns = p->columns, .exprs = exprs};

	if (!e)
		return NULL;
	for (unsigned i = 0; i < p->count; i++)
		exprs[i] = sql_column_expr(p->ctx, values[i], -1);
	return sql_substitute(p->ctx, e, &binding);
}

static struct sql_expr *same_values(struct domain_push *p, const int *a, const int *b)
{
	struct sql_expr *e = NULL;

	for (unsigned i = 0; i < p->count; i++)
		e = sql_and(p->ctx, e,
			    sql_call2(p->ctx, SQL_IS_NOT_DISTINCT, SQL_TYPE_BOOL,
				      sql_column_expr(p->ctx, a[i], -1),
				      sql_column_expr(p->ctx, b[i], -1)));
	return e;
}

static struct sql_rel *push_project(struct domain_push *p, struct sql_rel *rel, int *values)
{
	struct sql_rel *input = push_domain(p, rel->left, values);
	unsigned n = rel->width;
	struct sql_expr **exprs = SQL_ARRAY(p->ctx, struct sql_expr *, n + p->count);
	int *columns = SQL_ARRAY(p->ctx, int, n + p->count);

	for (unsigned i = 0; i < n; i++) {
		columns[i] = rel->columns[i];
		exprs[i] = with_values(p, rel->exprs[i], values);
	}
	for (unsigned i = 0; i < p->count; i++) {
		columns[n + i] = values[i];
		exprs[n + i] = sql_column_expr(p->ctx, values[i], -1);
	}
	return sql_project(p->ctx, input, n + p->count, columns, exprs);
}

static struct sql_rel *push_join(struct domain_push *p, struct sql_rel *rel, int *values)
{
	enum sql_join_kind kind = rel->join.kind;
	struct sql_rel *left = rel->left, *right = rel->right, *copy;
	struct sql_expr *condition;
	bool right_depends = depends(p, right);

	if (kind == SQL_INNER && right_depends && !depends(p, left)) {
		right = push_domain(p, right, values);
		condition = with_values(p, rel->join.condition, values);
	} else {
		int *other = SQL_ARRAY(p->ctx, int, p->count);

		left = push_domain(p, left, values);
		condition = with_values(p, rel->join.condition, values);
		if (right_depends) {
			right = push_domain(p, right, other);
			condition = sql_and(p->ctx, same_values(p, values, other), condition);
		}
	}
	copy = sql_join_rel(p->ctx, kind, left, right, condition);
	copy->join.null_condition = with_values(p, rel->join.null_condition, values);
	return copy;
}

/*
 * An aggregate without GROUP BY has a row even for values that no row has: D left join the groups,
 * with counts that are 0 instead of NULL.
 */
static struct sql_rel *fill_groups(struct domain_push *p, struct sql_rel *groups, int *values)
{
	unsigned n = groups->agg.agg_count;
	struct sql_expr **exprs = SQL_ARRAY(p->ctx, struct sql_expr *, n + p->count);
	int *columns = SQL_ARRAY(p->ctx, int, n + p->count);
	int *all = SQL_ARRAY(p->ctx, int, p->count);
	struct sql_rel *domain = another_domain(p, all);

	for (unsigned i = 0; i < n; i++) {
		struct sql_agg *agg = &groups->agg.aggs[i];
		struct sql_expr *value;

		columns[i] = agg->column;
		agg->column = sql_new_column(p->ctx, p->ctx->columns[agg->column].name,
					     p->ctx->columns[agg->column].type, true);
		groups->columns[groups->agg.key_count + i] = agg->column;
		value = sql_column_expr(p->ctx, agg->column, -1);
		if (agg->op == SQL_COUNT || agg->op == SQL_COUNT_ROWS)
			value = sql_call2(p->ctx, SQL_COALESCE, value->type, value,
					  sql_integer(p->ctx, value->type, 0));
		exprs[i] = value;
	}
	for (unsigned i = 0; i < p->count; i++) {
		columns[n + i] = all[i];
		exprs[n + i] = sql_column_expr(p->ctx, all[i], -1);
	}
	groups = sql_join_rel(p->ctx, SQL_LEFT_OUTER, domain, groups, same_values(p, all, values));
	memcpy(values, all, p->count * sizeof(int));
	return sql_project(p->ctx, groups, n + p->count, columns, exprs);
}

static struct sql_rel *push_aggregate(struct domain_push *p, struct sql_rel *rel, int *values)
{
	struct sql_rel *input = push_domain(p, rel->left, values);
	struct sql_rel *copy =
		sql_new_rel(p->ctx, SQL_AGGREGATE, input, NULL, rel->width + p->count);
	unsigned n = 0;

	copy->agg = rel->agg;
	copy->agg.grouped = true;
	copy->agg.aggs = SQL_ARRAY(p->ctx, struct sql_agg, rel->agg.agg_count);
	for (unsigned i = 0; i < rel->agg.key_count; i++)
		copy->columns[n++] = rel->columns[i];
	for (unsigned i = 0; i < p->count; i++)
		copy->columns[n++] = values[i];
	copy->agg.key_count = copy->agg.determinant_count = n;
	for (unsigned i = 0; i < rel->agg.agg_count; i++) {
		copy->agg.aggs[i] = rel->agg.aggs[i];
		copy->agg.aggs[i].arg = with_values(p, rel->agg.aggs[i].arg, values);
		copy->columns[n++] = rel->agg.aggs[i].column;
	}
	return rel->agg.grouped ? copy : fill_groups(p, copy, values);
}

static struct sql_rel *push_union(struct domain_push *p, struct sql_rel *rel, int *values)
{
	unsigned n = rel->width;
	int *left_values = SQL_ARRAY(p->ctx, int, p->count);
	int *right_values = SQL_ARRAY(p->ctx, int, p->count);
	struct sql_rel *left = push_domain(p, rel->left, left_values);
	struct sql_rel *right = push_domain(p, rel->right, right_values);
	struct sql_rel *copy = sql_new_rel(p->ctx, SQL_UNION, left, right, n + p->count);

	memcpy(copy->columns, rel->columns, n * sizeof(int));
	copy->set.left_columns = SQL_ARRAY(p->ctx, int, n + p->count);
	copy->set.right_columns = SQL_ARRAY(p->ctx, int, n + p->count);
	memcpy(copy->set.left_columns, rel->set.left_columns, n * sizeof(int));
	memcpy(copy->set.right_columns, rel->set.right_columns, n * sizeof(int));
	for (unsigned i = 0; i < p->count; i++) {
		struct sql_column from = p->ctx->columns[left_values[i]];

		values[i] = sql_new_column(p->ctx, from.name, from.type, from.nullable);
		copy->columns[n + i] = values[i];
		copy->set.left_columns[n + i] = left_values[i];
		copy->set.right_columns[n + i] = right_values[i];
	}
	return copy;
}

static struct sql_rel *push_domain(struct domain_push *p, struct sql_rel *rel, int *values)
{
	struct sql_rel *input;

	if (!depends(p, rel))
		return cross_domain(p, rel, values);
	switch (rel->kind) {
	case SQL_FILTER:
		input = push_domain(p, rel->left, values);
		return sql_filter(p->ctx, input, with_values(p, rel->predicate, values));
	case SQL_PROJECT:
		return push_project(p, rel, values);
	case SQL_JOIN:
		return push_join(p, rel, values);
	case SQL_AGGREGATE:
		return push_aggregate(p, rel, values);
	case SQL_SORT:
		return push_domain(p, rel->left, values);
	case SQL_UNION:
		return push_union(p, rel, values);
	default:
		sql_unsupported(p->ctx, -1, "LIMIT in a correlated subquery");
	}
}

struct sql_rel *sql_unnest_domain(struct sql_ctx *ctx, struct sql_rel *rel,
				  const struct sql_rel *input, struct sql_set *outer,
				  struct sql_domain *domain)
{
	struct domain_push p = {.ctx = ctx, .outer = outer};
	struct sql_expr **exprs;
	struct sql_rel *source;

	domain->count = 0;
	domain->columns = SQL_ARRAY(ctx, int, input->width);
	for (unsigned i = 0; i < input->width; i++) {
		if (sql_set_has(outer, input->columns[i]))
			domain->columns[domain->count++] = input->columns[i];
	}
	p.count = domain->count;
	p.columns = domain->columns;
	domain->values = SQL_ARRAY(ctx, int, p.count);
	p.first_values = SQL_ARRAY(ctx, int, p.count);
	memcpy(p.first_values, domain->columns, p.count * sizeof(int));
	source = sql_clone(ctx, input, p.count, p.first_values);
	exprs = SQL_ARRAY(ctx, struct sql_expr *, p.count);
	for (unsigned i = 0; i < p.count; i++)
		exprs[i] = sql_column_expr(ctx, p.first_values[i], -1);
	p.first = sql_distinct(ctx, sql_project(ctx, source, p.count, p.first_values, exprs));
	return push_domain(&p, rel, domain->values);
}

struct sql_expr *sql_domain_condition(struct sql_ctx *ctx, const struct sql_domain *domain)
{
	struct sql_expr *e = NULL;

	for (unsigned i = 0; i < domain->count; i++)
		e = sql_and(ctx, e,
			    sql_call2(ctx, SQL_IS_NOT_DISTINCT, SQL_TYPE_BOOL,
				      sql_column_expr(ctx, domain->columns[i], -1),
				      sql_column_expr(ctx, domain->values[i], -1)));
	return e;
}
