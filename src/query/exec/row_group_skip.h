/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which row groups need not be read: the smallest and largest values of their columns show that a
 * predicate is false or null for all their rows.
 */
#ifndef FTH_QUERY_ROW_GROUP_SKIP_H
#define FTH_QUERY_ROW_GROUP_SKIP_H

#include "query/task/task.h"

/* Whether no row of the group gets through the task's selections. The source is a table. No I/O. */
bool skip_group(const struct task *t, uint32_t group);

/* The column of the source that is in a slot, or TASK_NONE. */
uint32_t skip_column(const struct task *t, unsigned slot);

#endif
