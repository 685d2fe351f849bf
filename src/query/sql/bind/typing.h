/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL's typing: which operator is meant, what is cast to what, and what comes out. */
#ifndef QUERY_SQL_TYPING_H
#define QUERY_SQL_TYPING_H

#include "query/sql/context.h"

/*
 * e as a value of type, if it is so implicitly: a quoted literal is read as that type, numbers
 * widen, strings are strings. `what` names the place in the error.
 */
struct sql_expr *sql_coerce(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type,
			    const char *what);

/* An explicit cast. */
struct sql_expr *sql_cast(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type, int at);

/* Refuses an interval: it is an operand of + and - only. */
void sql_check_value(struct sql_ctx *ctx, const struct sql_expr *e);

/* A quoted literal that nothing gave a type becomes text. */
struct sql_expr *sql_settle(struct sql_ctx *ctx, struct sql_expr *e);

/* The type that all of exprs can be, and they are cast to it. `what` is "CASE", "UNION", ... */
struct sql_type sql_unify(struct sql_ctx *ctx, unsigned count, struct sql_expr **exprs,
			  const char *what);
/* The same without casting, for one more type. */
struct sql_type sql_common_type(struct sql_ctx *ctx, struct sql_type a, struct sql_type b,
				const char *what, int at);

/* sql_coerce() for an operand of a comparison: char and varchar are different types. */
struct sql_expr *sql_compared(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type,
			      const char *what);

/* Casts *a and *b to the type in which they are compared. `what` names the place in the error. */
void sql_comparable(struct sql_ctx *ctx, struct sql_expr **a, struct sql_expr **b, const char *what,
		    int at);

/* a op b, for SQL_EQ .. SQL_IS_NOT_DISTINCT, cast and folded. */
struct sql_expr *sql_compare(struct sql_ctx *ctx, enum sql_op op, struct sql_expr *a,
			     struct sql_expr *b, int at);

/* a op b for + - * / %, also of dates. */
struct sql_expr *sql_arithmetic(struct sql_ctx *ctx, enum sql_op op, struct sql_expr *a,
				struct sql_expr *b, int at);

/* Whether a condition; fails if not. */
struct sql_expr *sql_condition(struct sql_ctx *ctx, struct sql_expr *e, const char *what);

/* e, or the constant that it is. Arguments are folded already. */
struct sql_expr *sql_fold(struct sql_ctx *ctx, struct sql_expr *e);

/* The type of an aggregate. */
struct sql_type sql_agg_type(struct sql_ctx *ctx, enum sql_agg_op op, struct sql_type arg, int at);

#endif
