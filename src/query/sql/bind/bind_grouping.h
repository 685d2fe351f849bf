/* SPDX-License-Identifier: BSD-2-Clause */
/* GROUP BY as sets of keys. */
#ifndef QUERY_SQL_BIND_GROUPING_H
#define QUERY_SQL_BIND_GROUPING_H

#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"

#define SQL_SETS_MAX	 1000 /* of one select */
#define SQL_SET_KEYS_MAX 64   /* keys, where there are sets */
#define SQL_CUBE_MAX	 12

/* Where keys go: add() binds an expression, and returns the number of its key. */
struct sql_group_keys {
	unsigned (*add)(struct sql_group_keys *keys, const PgQuery__Node *node);
};

/* Bit i of a set is key i. Without GROUPING SETS and its like there is one set, of all keys. */
struct sql_sets {
	bool any; /* GROUPING SETS, ROLLUP or CUBE was written */
	unsigned count, room;
	uint64_t *sets;
};

/* A GROUPING(...) in an expression of the select. */
struct sql_grouping_call {
	int column, at;
	unsigned count;
	struct sql_expr **args;
};

void sql_bind_sets(struct sql_ctx *ctx, struct sql_group_keys *keys,
		   const PgQuery__SelectStmt *select, struct sql_sets *out);
/* The value of a call in rows of a set; keys are struct sql_expr. */
struct sql_expr *sql_grouping_value(struct sql_ctx *ctx, const struct sql_grouping_call *call,
				    const struct sql_list *keys, const struct sql_sets *sets,
				    uint64_t set);

#endif
