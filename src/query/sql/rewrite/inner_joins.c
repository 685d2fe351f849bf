/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inner joins that touch form a cluster: leaves and one list of conjuncts. Here equality classes
 * spread constants, each conjunct goes to the leaf or the join where its columns meet, an OR over
 * several leaves gives each leaf what it implies for it, and the joins are put together again,
 * connected leaves first.
 */
#include "query/sql/rewrite/rewrite.h"
#include "query/sql/bind/typing.h"

#include <string.h>

struct cluster {
	struct sql_ctx *ctx;
	struct sql_list leaves;	   /* struct sql_rel */
	struct sql_list conjuncts; /* struct sql_expr */
	struct sql_set *columns;   /* of each leaf */
	struct sql_list *filters;  /* for each leaf */
	int *parent;		   /* equality classes, by column: union-find */
	bool empty;		   /* a conjunct is never true */
	struct sql_set used, both; /* of one question each, which are asked very often */
};

static void gather(struct cluster *c, struct sql_rel *rel)
{
	if (rel->kind == SQL_FILTER) {
		sql_conjuncts(c->ctx, sql_simplify(c->ctx, rel->predicate), &c->conjuncts);
		gather(c, rel->left);
	} else if (rel->kind == SQL_JOIN && rel->join.kind == SQL_INNER) {
		if (rel->join.condition)
			sql_conjuncts(c->ctx, sql_simplify(c->ctx, rel->join.condition),
				      &c->conjuncts);
		gather(c, rel->left);
		gather(c, rel->right);
	} else {
		sql_list_add(c->ctx, &c->leaves, rel);
	}
}

static int class_of(struct cluster *c, int column)
{
	while (c->parent[column] != column)
		column = c->parent[column] = c->parent[c->parent[column]];
	return column;
}

static bool is_column_pair(const struct sql_expr *e)
{
	return sql_is_call(e, SQL_EQ) && e->args[0]->kind == SQL_COLUMN &&
	       e->args[1]->kind == SQL_COLUMN;
}

static bool is_column_constant(const struct sql_expr *e)
{
	return sql_is_call(e, SQL_EQ) && e->args[0]->kind == SQL_COLUMN && sql_is_const(e->args[1]);
}

static void add_conjunct(struct cluster *c, struct sql_expr *e)
{
	for (unsigned i = 0; i < c->conjuncts.count; i++) {
		if (sql_equal(c->conjuncts.items[i], e))
			return;
	}
	sql_list_add(c->ctx, &c->conjuncts, e);
}

/* a = b and b = 1: a = 1. Two constants that differ: no rows. */
static void spread_constants(struct cluster *c)
{
	unsigned n = c->conjuncts.count, columns = c->ctx->column_count;

	c->parent = SQL_ARRAY(c->ctx, int, columns);
	for (unsigned i = 0; i < columns; i++)
		c->parent[i] = (int)i;
	for (unsigned i = 0; i < n; i++) {
		struct sql_expr *e = c->conjuncts.items[i];

		if (is_column_pair(e))
			c->parent[class_of(c, e->args[0]->column)] =
				class_of(c, e->args[1]->column);
	}
	for (unsigned i = 0; i < n; i++) {
		struct sql_expr *e = c->conjuncts.items[i];

		if (!is_column_constant(e))
			continue;
		for (unsigned j = 0; j < n; j++) {
			struct sql_expr *other = c->conjuncts.items[j];

			if (is_column_pair(other) && class_of(c, other->args[0]->column) ==
							     class_of(c, e->args[0]->column)) {
				for (int side = 0; side < 2; side++)
					add_conjunct(c,
						     sql_compare(c->ctx, SQL_EQ, other->args[side],
								 e->args[1], -1));
			} else if (is_column_constant(other) &&
				   other->args[0]->type.kind == e->args[0]->type.kind &&
				   class_of(c, other->args[0]->column) ==
					   class_of(c, e->args[0]->column) &&
				   sql_is_false_or_null(sql_compare(c->ctx, SQL_EQ, other->args[1],
								    e->args[1], -1))) {
				c->empty = true;
			}
		}
	}
}

/* The columns of e; valid until the next call. */
static const struct sql_set *columns_of(struct cluster *c, const struct sql_expr *e)
{
	sql_set_clear(&c->used);
	sql_expr_columns(c->ctx, e, &c->used);
	return &c->used;
}

/* The leaf that has all columns of e; -1: several, -2: it uses none. */
static int only_leaf(struct cluster *c, const struct sql_expr *e)
{
	const struct sql_set *used = columns_of(c, e);

	if (sql_set_empty(used))
		return -2;
	for (unsigned i = 0; i < c->leaves.count; i++) {
		if (sql_set_within(used, &c->columns[i]))
			return (int)i;
	}
	return -1;
}

/* What an OR implies for one leaf: each branch must say something about it alone. */
static struct sql_expr *implied_or(struct cluster *c, const struct sql_expr *e, int leaf)
{
	struct sql_list branches = {0};

	for (unsigned i = 0; i < e->count; i++) {
		struct sql_list all = {0}, own = {0};
		struct sql_expr *branch;

		sql_conjuncts(c->ctx, e->args[i], &all);
		for (unsigned j = 0; j < all.count; j++) {
			if (only_leaf(c, all.items[j]) == leaf)
				sql_list_add(c->ctx, &own, all.items[j]);
		}
		branch = sql_and_list(c->ctx, &own);
		if (!branch)
			return NULL;
		sql_list_add(c->ctx, &branches, branch);
	}
	return sql_simplify(c->ctx, sql_or_list(c->ctx, &branches));
}

/* Conjuncts of one leaf go to it; the others stay. */
static void distribute(struct cluster *c)
{
	struct sql_list rest = {0};

	for (unsigned i = 0; i < c->conjuncts.count; i++) {
		struct sql_expr *e = c->conjuncts.items[i];
		int leaf = only_leaf(c, e);

		if (leaf >= 0) {
			sql_list_add(c->ctx, &c->filters[leaf], e);
			continue;
		}
		if (leaf == -2 && sql_is_false_or_null(e))
			c->empty = true;
		sql_list_add(c->ctx, &rest, e);
		for (unsigned j = 0; sql_is_call(e, SQL_OR) && j < c->leaves.count; j++) {
			struct sql_expr *implied = implied_or(c, e, (int)j);

			if (implied)
				sql_conjuncts(c->ctx, implied, &c->filters[j]);
		}
	}
	c->conjuncts = rest;
}

/* The conjuncts that can be checked once `seen` is there, taken out of the list. */
static struct sql_expr *take_ready(struct cluster *c, const struct sql_set *seen)
{
	struct sql_list ready = {0};
	unsigned left = 0;

	for (unsigned i = 0; i < c->conjuncts.count; i++) {
		struct sql_expr *e = c->conjuncts.items[i];

		if (sql_set_within(columns_of(c, e), seen))
			sql_list_add(c->ctx, &ready, e);
		else
			c->conjuncts.items[left++] = e;
	}
	c->conjuncts.count = left;
	return sql_and_list(c->ctx, &ready);
}

/*
 * Whether an equality (or any conjunct) ties the leaf to what has been seen, and to nothing else.
 */
static bool connects(struct cluster *c, unsigned leaf, const struct sql_set *seen, bool equality)
{
	sql_set_clear(&c->both);
	sql_set_join(c->ctx, &c->both, seen);
	sql_set_join(c->ctx, &c->both, &c->columns[leaf]);
	for (unsigned i = 0; i < c->conjuncts.count; i++) {
		const struct sql_expr *e = c->conjuncts.items[i];
		const struct sql_set *used;

		if (equality && !sql_is_call(e, SQL_EQ) && !sql_is_call(e, SQL_IS_NOT_DISTINCT))
			continue;
		used = columns_of(c, e);
		if (sql_set_within(used, &c->both) && sql_set_meets(used, &c->columns[leaf]) &&
		    sql_set_meets(used, seen))
			return true;
	}
	return false;
}

static unsigned next_leaf(struct cluster *c, const bool *done, const struct sql_set *seen)
{
	unsigned first = c->leaves.count;

	for (int equality = 1; equality >= 0; equality--) {
		for (unsigned i = 0; i < c->leaves.count; i++) {
			if (done[i])
				continue;
			if (first == c->leaves.count)
				first = i;
			if (connects(c, i, seen, equality))
				return i;
		}
	}
	return first;
}

static struct sql_rel *join_leaves(struct cluster *c)
{
	bool *done = SQL_ARRAY(c->ctx, bool, c->leaves.count);
	struct sql_set seen = {0};
	struct sql_rel *rel = c->leaves.items[0];

	sql_set_join(c->ctx, &seen, &c->columns[0]);
	done[0] = true;
	for (unsigned n = 1; n < c->leaves.count; n++) {
		unsigned leaf = next_leaf(c, done, &seen);

		done[leaf] = true;
		sql_set_join(c->ctx, &seen, &c->columns[leaf]);
		rel = sql_join_rel(c->ctx, SQL_INNER, rel, c->leaves.items[leaf],
				   take_ready(c, &seen));
	}
	/* what is left uses columns of an outer query, or none */
	return sql_filter(c->ctx, rel, sql_and_list(c->ctx, &c->conjuncts));
}

struct sql_rel *sql_push_inner(struct sql_ctx *ctx, struct sql_rel *rel,
			       struct sql_list *predicates)
{
	struct cluster c = {.ctx = ctx, .conjuncts = *predicates};

	gather(&c, rel);
	c.columns = SQL_ARRAY(ctx, struct sql_set, c.leaves.count);
	c.filters = SQL_ARRAY(ctx, struct sql_list, c.leaves.count);
	for (unsigned i = 0; i < c.leaves.count; i++)
		sql_set_add_outputs(ctx, &c.columns[i], c.leaves.items[i]);
	spread_constants(&c);
	distribute(&c);
	if (c.empty)
		return sql_no_rows(ctx, rel->width, rel->columns);
	for (unsigned i = 0; i < c.leaves.count; i++)
		c.leaves.items[i] = sql_push(ctx, c.leaves.items[i], &c.filters[i]);
	return join_leaves(&c);
}
