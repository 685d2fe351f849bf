/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the evaluator share. */
#ifndef QUERY_SQL_EVAL_INTERNAL_H
#define QUERY_SQL_EVAL_INTERNAL_H

#include "query/sql/value/eval.h"
#include "query/sql/value/value.h"

/* Remembers text and returns -err. */
int sql_eval_fail(struct sql_env *env, int err, const char *text);

/* The failure of a value that its type cannot hold. */
int sql_eval_range(struct sql_env *env, enum sql_kind kind);

/* A string function whose first argument, not NULL, is in *value. */
int sql_eval_string(struct sql_env *env, const struct sql_expr *e, struct sql_value *value);

/* Characters of a string, `count` of them (>= 0) from number `from` on. */
void sql_eval_substring(struct sql_value *value, int64_t from, int64_t count);

#endif
