/* SPDX-License-Identifier: BSD-2-Clause */
/* Removal of subqueries; unnest.c says how. */
#ifndef QUERY_SQL_UNNEST_H
#define QUERY_SQL_UNNEST_H

#include "query/sql/tree/tree_build.h"

/*
 * A tree without subqueries in its expressions that gives the same rows, perhaps with more columns.
 */
struct sql_rel *sql_unnest(struct sql_ctx *ctx, struct sql_rel *rel);

/*
 * unnest_pull.c: takes the conjuncts that use columns of `outer` out of rel and adds them to
 * conditions. Returns what remains, which shows the columns that the conditions use and has no
 * column of outer any more, or NULL if it cannot be done this way; rel is unchanged then.
 */
struct sql_rel *sql_pull_up(struct sql_ctx *ctx, struct sql_rel *rel, const struct sql_set *outer,
			    struct sql_list *conditions);
/*
 * For a condition key = outer expression: *inner and *other are its sides. False for anything else.
 * `outer` are the outer columns.
 */
bool sql_split_equality(struct sql_ctx *ctx, const struct sql_expr *condition,
			const struct sql_set *outer, struct sql_expr **inner,
			struct sql_expr **other);
/*
 * Makes the inner sides of equalities columns of rel, by a projection if need be; rewrites
 * conditions.
 */
struct sql_rel *sql_expose_keys(struct sql_ctx *ctx, struct sql_rel *rel,
				const struct sql_set *outer, struct sql_list *conditions,
				int *keys);

/*
 * unnest_domain.c: rel joined with its domain, the distinct values of the outer columns that it
 * uses. Returns a relation without outer columns; count pairs of columns[i], an outer one, and
 * values[i], where its value is.
 */
struct sql_domain {
	unsigned count;
	int *columns, *values;
};
struct sql_rel *sql_unnest_domain(struct sql_ctx *ctx, struct sql_rel *rel,
				  const struct sql_rel *input, struct sql_set *outer,
				  struct sql_domain *domain);
/* columns[i] IS NOT DISTINCT FROM values[i], for all. */
struct sql_expr *sql_domain_condition(struct sql_ctx *ctx, const struct sql_domain *domain);

#endif
