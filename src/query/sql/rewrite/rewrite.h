/* SPDX-License-Identifier: BSD-2-Clause */
/* The simplifications of a tree without subqueries. Each returns the tree to use from then on. */
#ifndef QUERY_SQL_REWRITE_H
#define QUERY_SQL_REWRITE_H

#include "query/sql/tree/tree_build.h"

/*
 * push_predicates.c: predicates, a list of expressions on rel's columns, go as far down as they
 * may.
 */
struct sql_rel *sql_push(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_list *predicates);

/* inner_joins.c: inner joins that touch, with the predicates on them. */
struct sql_rel *sql_push_inner(struct sql_ctx *ctx, struct sql_rel *rel,
			       struct sql_list *predicates);

/* simplify.c: an expression, from the leaves up. */
struct sql_expr *sql_simplify(struct sql_ctx *ctx, struct sql_expr *e);
void sql_simplify_tree(struct sql_ctx *ctx, struct sql_rel *rel);
/* Whether e is never true when all columns of set are NULL. */
bool sql_rejects_nulls(const struct sql_expr *e, const struct sql_set *set);

/* dependencies.c: functional dependencies. */
struct sql_facts {
	struct sql_list rules; /* struct sql_rule */
};
void sql_collect_facts(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_facts *facts);
/* Adds to set all columns that it determines. */
void sql_close(struct sql_ctx *ctx, const struct sql_facts *facts, struct sql_set *set);
/* Whether no two rows of rel agree on the columns of a set that has been closed. */
bool sql_unique(struct sql_ctx *ctx, const struct sql_rel *rel, const struct sql_set *closed);
/* Whether a row of the left side has at most one match in the right. */
bool sql_one_match(struct sql_ctx *ctx, const struct sql_rel *join);

/* use_uniqueness.c: group keys, needless DISTINCTs and joins. */
struct sql_rel *sql_reduce(struct sql_ctx *ctx, struct sql_rel *rel);

/* prune_columns.c: leaves the columns of needed, and those that are used on the way. */
struct sql_rel *sql_prune(struct sql_ctx *ctx, struct sql_rel *rel, const struct sql_set *needed);

/* mark_nullable.c: nullability of expressions, where they stand. */
void sql_annotate(struct sql_ctx *ctx, struct sql_rel *rel);

#endif
