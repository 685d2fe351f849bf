/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL's grammar, by libpg-query, with its tree in the arena. */
#ifndef QUERY_SQL_PARSE_H
#define QUERY_SQL_PARSE_H

#include "query/sql/context.h"

/*
 * The generated header declares things that C++ and -Wpedantic dislike; only .c files include this.
 */
#include <pg_query/pg_query.pb-c.h>

/* The statements of a text. Fails with a position if it does not parse or nests too deeply. */
PgQuery__ParseResult *sql_parse(struct sql_ctx *ctx, const char *text);

#endif
