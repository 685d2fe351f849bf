/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that bind queries share. */
#ifndef QUERY_SQL_BIND_QUERY_H
#define QUERY_SQL_BIND_QUERY_H

#include "query/sql/bind/bind.h"

/*
 * Any query. With keep_unknown, quoted literals in the select list keep the type `unknown` for a
 * context that knows better; sql_retype() then gives them one.
 */
struct sql_bound sql_bind_query(struct sql_ctx *ctx, const struct sql_scope *parent,
				const struct sql_cte *ctes, const PgQuery__SelectStmt *select,
				bool keep_unknown);

/* bind_set.c */
struct sql_bound sql_bind_set(struct sql_ctx *ctx, const struct sql_scope *parent,
			      const struct sql_cte *ctes, const PgQuery__SelectStmt *select);
struct sql_bound sql_bind_values(struct sql_ctx *ctx, const struct sql_scope *parent,
				 const struct sql_cte *ctes, const PgQuery__SelectStmt *select);
/* Reads the literals of an output column that is `unknown` as values of type. */
void sql_retype(struct sql_ctx *ctx, struct sql_rel *rel, int column, struct sql_type type);

/* bind_select.c: ORDER BY on columns, one for each of its keys; LIMIT and OFFSET. */
struct sql_rel *sql_bind_sort(struct sql_ctx *ctx, struct sql_rel *rel,
			      const PgQuery__SelectStmt *select, const int *columns);
struct sql_rel *sql_bind_limit(struct sql_ctx *ctx, struct sql_rel *rel,
			       const PgQuery__SelectStmt *select);

#endif
