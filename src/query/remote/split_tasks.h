/* SPDX-License-Identifier: BSD-2-Clause */
/* Cutting a task set into what the storage daemon runs and what the host runs. */
#ifndef FTH_QUERY_SPLIT_TASKS_H
#define FTH_QUERY_SPLIT_TASKS_H

#include "query/task/task.h"

/* Whether a task on the host needs the result of task t. */
bool split_is_needed(const struct task_set *set, const bool *at_storage, unsigned t);

/*
 * The set that gives the rows of the result of task t: the tasks that it needs, and the rows as
 * output; of a structure its keys and its columns. numbers[i] is set to the number of task i of
 * `out` in `set`, TASK_NONE for one that is new; it has room for task_count + 1. Returns 0 or
 * -ENOMEM.
 */
int split_part(const struct task_set *set, unsigned t, struct fth_arena *arena,
	       struct task_set *out, uint32_t *numbers);

/*
 * The set of the host, with the same numbers: tasks at the daemon are TASK_GIVEN if they are
 * needed, else empty. Returns 0 or -ENOMEM.
 */
int split_rest(const struct task_set *set, const bool *at_storage, struct fth_arena *arena,
	       struct task_set *out);

#endif
