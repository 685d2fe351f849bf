/* SPDX-License-Identifier: BSD-2-Clause */
/* Making and walking nodes of the tree. All fail by sql_no_memory() only. */
#ifndef QUERY_SQL_TREE_BUILD_H
#define QUERY_SQL_TREE_BUILD_H

#include "query/sql/context.h"

#define SQL_TYPE_BOOL  ((struct sql_type){.kind = SQL_BOOL})
#define SQL_TYPE_INT32 ((struct sql_type){.kind = SQL_INT32})
#define SQL_TYPE_INT64 ((struct sql_type){.kind = SQL_INT64})
#define SQL_TYPE_TEXT  ((struct sql_type){.kind = SQL_VARCHAR})

struct sql_expr *sql_column_expr(struct sql_ctx *ctx, int column, int at);
struct sql_expr *sql_constant(struct sql_ctx *ctx, struct sql_type type, struct sql_value value,
			      int at);
struct sql_expr *sql_null(struct sql_ctx *ctx, struct sql_type type);
struct sql_expr *sql_bool(struct sql_ctx *ctx, bool truth);
struct sql_expr *sql_integer(struct sql_ctx *ctx, struct sql_type type, int64_t value);
struct sql_expr *sql_call(struct sql_ctx *ctx, enum sql_op op, struct sql_type type, unsigned count,
			  struct sql_expr **args, int at);
struct sql_expr *sql_call1(struct sql_ctx *ctx, enum sql_op op, struct sql_type type,
			   struct sql_expr *a);
struct sql_expr *sql_call2(struct sql_ctx *ctx, enum sql_op op, struct sql_type type,
			   struct sql_expr *a, struct sql_expr *b);
struct sql_expr *sql_cast_expr(struct sql_ctx *ctx, struct sql_expr *arg, struct sql_type type);
struct sql_expr *sql_case_expr(struct sql_ctx *ctx, struct sql_type type, unsigned count,
			       struct sql_expr **args, int at);
/* AND of all that are not NULL; NULL if none is. Flattens; simplifies true and false. */
struct sql_expr *sql_and(struct sql_ctx *ctx, struct sql_expr *a, struct sql_expr *b);
struct sql_expr *sql_and_list(struct sql_ctx *ctx, const struct sql_list *conjuncts);
struct sql_expr *sql_or_list(struct sql_ctx *ctx, const struct sql_list *disjuncts);
/* Adds the conjuncts of e, which may be NULL, to list. */
void sql_conjuncts(struct sql_ctx *ctx, struct sql_expr *e, struct sql_list *list);
/* The negation of e, pushed inwards. */
struct sql_expr *sql_negate(struct sql_ctx *ctx, struct sql_expr *e);

bool sql_is_const(const struct sql_expr *e);
bool sql_is_true(const struct sql_expr *e);
bool sql_is_false_or_null(const struct sql_expr *e);
bool sql_is_call(const struct sql_expr *e, enum sql_op op);
bool sql_equal(const struct sql_expr *a, const struct sql_expr *b);
bool sql_same_type(struct sql_type a, struct sql_type b);
enum sql_op sql_swapped(enum sql_op comparison);
bool sql_is_comparison(const struct sql_expr *e);

/* The columns that e uses; of a subquery in it, those that it does not make itself. */
void sql_expr_columns(struct sql_ctx *ctx, const struct sql_expr *e, struct sql_set *set);
/* The columns of outside that rel uses. */
void sql_free_columns(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_set *set);
bool sql_has_subquery(const struct sql_expr *e);
/* Might raise an error for some row. */
bool sql_may_fail(const struct sql_expr *e);

/*
 * A copy of e in which replace(), called for each node from the top, has put something else in the
 * place of nodes for which it did not return NULL. Descends into subqueries' relations.
 */
typedef struct sql_expr *sql_replace_fn(struct sql_ctx *ctx, void *arg, struct sql_expr *e);
struct sql_expr *sql_expr_map(struct sql_ctx *ctx, struct sql_expr *e, sql_replace_fn *replace,
			      void *arg);
/* The same for all expressions of a tree of relations, in place. */
void sql_rel_map(struct sql_ctx *ctx, struct sql_rel *rel, sql_replace_fn *replace, void *arg);

/* Substitution: column -> expression, by arrays of equal length. */
struct sql_binding {
	unsigned count;
	const int *columns;
	struct sql_expr **exprs;
};
struct sql_expr *sql_substitute(struct sql_ctx *ctx, struct sql_expr *e,
				const struct sql_binding *binding);

/* Relations are changed in place, so that arrays of columns are not shared between them. */
int *sql_copy_columns(struct sql_ctx *ctx, unsigned count, const int *columns);
struct sql_rel *sql_new_rel(struct sql_ctx *ctx, enum sql_rel_kind kind, struct sql_rel *left,
			    struct sql_rel *right, unsigned width);
/* input unless predicate is NULL. */
struct sql_rel *sql_filter(struct sql_ctx *ctx, struct sql_rel *input, struct sql_expr *predicate);
struct sql_rel *sql_join_rel(struct sql_ctx *ctx, enum sql_join_kind kind, struct sql_rel *left,
			     struct sql_rel *right, struct sql_expr *condition);
struct sql_rel *sql_project(struct sql_ctx *ctx, struct sql_rel *input, unsigned width,
			    const int *columns, struct sql_expr **exprs);
/* One row without columns. */
struct sql_rel *sql_one_row(struct sql_ctx *ctx);
/* No row, with these columns. */
struct sql_rel *sql_no_rows(struct sql_ctx *ctx, unsigned width, const int *columns);
/* DISTINCT on all columns of input. */
struct sql_rel *sql_distinct(struct sql_ctx *ctx, struct sql_rel *input);
/* A copy with new numbers for all columns that it makes; *columns are renumbered as well. */
struct sql_rel *sql_clone(struct sql_ctx *ctx, const struct sql_rel *rel, unsigned count,
			  int *columns);
bool sql_outputs(const struct sql_rel *rel, int column);

#endif
