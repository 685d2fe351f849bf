/* SPDX-License-Identifier: BSD-2-Clause */
/* The order of the rewrites. */
#include "query/sql/bind.h"
#include "query/sql/unnest.h"

struct sql_bound sql_rewrite(struct sql_ctx *ctx, struct sql_bound bound, bool simplify)
{
	(void)simplify;
	bound.rel = sql_unnest(ctx, bound.rel);
	return bound;
}
