/* SPDX-License-Identifier: BSD-2-Clause */
/* Task sets as text, for people: what EXPLAIN prints. */
#ifndef FTH_QUERY_SHOW_H
#define FTH_QUERY_SHOW_H

#include <stdio.h>

#include "query/task/task.h"

void task_show_expr(FILE *out, const struct task *task, const struct fth_expr *expr);
/* One task of the set. */
void task_show_task(FILE *out, const struct task_set *set, unsigned number);
void task_show(FILE *out, const struct task_set *set);

#endif
