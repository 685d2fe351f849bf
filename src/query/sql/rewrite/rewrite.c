/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of the rewrites. */
#include "query/sql/rewrite/rewrite.h"
#include "query/sql/bind/bind.h"
#include "query/sql/rewrite/unnest.h"

/* Predicates twice: where one goes may turn an outer join into an inner one, and free others. */
static struct sql_rel *push_all(struct sql_ctx *ctx, struct sql_rel *rel)
{
	for (int round = 0; round < 2; round++) {
		struct sql_list none = {0};

		rel = sql_push(ctx, rel, &none);
	}
	return rel;
}

/* Results that are columns under another name are those columns. */
static void drop_renames(struct sql_ctx *ctx, struct sql_bound *bound)
{
	struct sql_rel *rel = bound->rel;

	if (rel->kind != SQL_PROJECT)
		return;
	bound->columns = sql_copy_columns(ctx, bound->count, bound->columns);
	for (unsigned i = 0; i < rel->width; i++) {
		struct sql_expr *e = rel->exprs[i];

		if (e->kind != SQL_COLUMN || e->column == rel->columns[i] ||
		    sql_outputs(rel, e->column))
			continue;
		for (unsigned j = 0; j < bound->count; j++) {
			if (bound->columns[j] == rel->columns[i])
				bound->columns[j] = e->column;
		}
		rel->columns[i] = e->column;
	}
}

static struct sql_set needed_columns(struct sql_ctx *ctx, const struct sql_bound *bound)
{
	struct sql_set needed = {0};

	for (unsigned i = 0; i < bound->count; i++)
		sql_set_add(ctx, &needed, bound->columns[i]);
	return needed;
}

static void simplify_bound(struct sql_ctx *ctx, struct sql_bound *bound)
{
	struct sql_set needed = needed_columns(ctx, bound);

	sql_simplify_tree(ctx, bound->rel);
	bound->rel = push_all(ctx, bound->rel);
	sql_annotate(ctx, bound->rel);
	bound->rel = sql_reduce(ctx, bound->rel);
	bound->rel = sql_prune(ctx, bound->rel, &needed);
	/* keys and joins that are gone may have stood in the way */
	bound->rel = push_all(ctx, bound->rel);
	drop_renames(ctx, bound);
	needed = needed_columns(ctx, bound);
	bound->rel = sql_prune(ctx, bound->rel, &needed);
}

struct sql_bound sql_rewrite(struct sql_ctx *ctx, struct sql_bound bound, bool simplify)
{
	bound.rel = sql_unnest(ctx, bound.rel);
	if (simplify)
		simplify_bound(ctx, &bound);
	sql_annotate(ctx, bound.rel);
	return bound;
}
