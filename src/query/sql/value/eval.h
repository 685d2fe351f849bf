/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The value of an expression, one row at a time. Used to fold constants, and by the reference
 * interpreter of the tests; it defines what an operator means.
 */
#ifndef QUERY_SQL_EVAL_H
#define QUERY_SQL_EVAL_H

#include "query/sql/sql_arena.h"
#include "query/sql/tree/tree.h"

struct sql_env {
	struct sql_arena *arena; /* for strings that are made */
	const int *slots;	 /* where in `row` a column is; NULL if there are none */
	const struct sql_value *row;
	const char *error; /* of the latest failure */
};

/* 0; -ERANGE or -EINVAL with env->error; -ENOMEM. */
int sql_eval(struct sql_env *env, const struct sql_expr *expr, struct sql_value *value);

/* Casts a value, which may be NULL; same results. */
int sql_eval_cast(struct sql_env *env, struct sql_type from, const struct sql_value *value,
		  struct sql_type to, struct sql_value *result);

/* a / b for decimals, at scale, rounded half away from zero. */
int sql_eval_divide(struct sql_env *env, fth_i128 a, int a_scale, fth_i128 b, int b_scale,
		    int scale, fth_i128 *result);

#endif
