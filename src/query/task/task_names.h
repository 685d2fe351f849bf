/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words that task text (task_show.h, task_read.h) has for the parts of tasks, by their numbers.
 */
#ifndef FTH_QUERY_TASK_NAMES_H
#define FTH_QUERY_TASK_NAMES_H

#include "query/task/task.h"

extern const char *const task_type_names[FTH_T_COUNT];
extern const char *const task_aggregate_names[7]; /* enum task_aggregate_op */
extern const char *const task_match_names[5];	  /* enum task_match */
extern const char *const task_reduce_names[6];	  /* enum task_reduce_kind */

/* Operators between two operands; the others are written as calls. */
bool task_op_is_infix(enum fth_op op);
const char *task_op_name(enum fth_op op);

#endif
