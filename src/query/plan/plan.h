/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The planner: from a logical tree (sql/tree.h) and the facts of its tables to a set of Table
 * Tasks.
 */
#ifndef FTH_QUERY_PLAN_H
#define FTH_QUERY_PLAN_H

#include "query/sql/tree/tree.h"
#include "query/task/task.h"

struct plan_options {
	struct fth_qmem *mem; /* programs are compiled there for their ranges, and freed */
	/* The open snapshot of a table of the catalog. */
	struct fth_table *(*open)(void *self, const struct sql_table *table);
	void *self;
};

/*
 * Plan a query. The task set lives in the arena. Returns 0; -ENOMEM; -EOPNOTSUPP, with a text, for
 * what the executor cannot do; an error of a constant expression.
 */
int plan_query(const struct sql_query *query, const struct plan_options *options,
	       struct fth_arena *arena, struct task_set *out);

#endif
