/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task sets as text: task_read.h reads it back, and has the grammar. In brief, as EXPLAIN prints
 * them, types and ranges of slots and what the planner expects are left out; the reader finds types
 * and ranges in the tables.
 */
#ifndef FTH_QUERY_TASK_SHOW_H
#define FTH_QUERY_TASK_SHOW_H

#include <stdio.h>

#include "query/task/task.h"

void task_show_expr(FILE *out, const struct task *task, const struct fth_expr *expr);
/* One task of the set, in brief. */
void task_show_task(FILE *out, const struct task_set *set, unsigned number);
/* All tasks, in brief. */
void task_show(FILE *out, const struct task_set *set);
/* Everything: reading it gives the same set. */
void task_print(FILE *out, const struct task_set *set);

#endif
