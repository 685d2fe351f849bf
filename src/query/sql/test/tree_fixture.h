/* SPDX-License-Identifier: BSD-2-Clause */
/* Logical trees in tests: as text, and checked. */
#ifndef QUERY_SQL_TREE_FIXTURE_H
#define QUERY_SQL_TREE_FIXTURE_H

#include "query/sql/sql_arena.h"
#include "query/sql/tree/tree.h"

/* A readable text of the tree, one relation a line; in the arena. */
const char *sql_tree_dump(const struct sql_query *query, struct sql_arena *arena);

/* 0, or -EINVAL with a text for the first invariant that does not hold. */
int sql_tree_check(const struct sql_query *query);

#endif
