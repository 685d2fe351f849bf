/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of the rewrites. */
#include "query/sql/rewrite.h"
#include "query/sql/bind.h"
#include "query/sql/unnest.h"

/* Predicates twice: where one goes may turn an outer join into an inner one, and free others. */
static struct sql_rel *push_all(struct sql_ctx *ctx, struct sql_rel *rel)
{
	for (int round = 0; round < 2; round++) {
		struct sql_list none = {0};

		rel = sql_push(ctx, rel, &none);
	}
	return rel;
}

struct sql_bound sql_rewrite(struct sql_ctx *ctx, struct sql_bound bound, bool simplify)
{
	struct sql_set needed = {0};
	struct sql_rel *rel = sql_unnest(ctx, bound.rel);

	for (unsigned i = 0; i < bound.count; i++)
		sql_set_add(ctx, &needed, bound.columns[i]);
	if (simplify) {
		sql_simplify_tree(ctx, rel);
		rel = push_all(ctx, rel);
		sql_annotate(ctx, rel);
		rel = sql_reduce(ctx, rel);
		rel = sql_prune(ctx, rel, &needed);
		/* keys and joins that are gone may have stood in the way */
		rel = push_all(ctx, rel);
		rel = sql_prune(ctx, rel, &needed);
	}
	sql_annotate(ctx, rel);
	bound.rel = rel;
	return bound;
}
