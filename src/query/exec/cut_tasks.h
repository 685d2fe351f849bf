/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A task set whose tasks need less memory at a time, at the price of more temporary files. A task
 * that looks up in several structures is cut in front of a look-up: the first part puts its rows
 * into the scratch file, the second reads them. So structures that do not fit are in memory one
 * after the other, and their passes add up instead of multiplying.
 */
#ifndef FTH_QUERY_CUT_TASKS_H
#define FTH_QUERY_CUT_TASKS_H

#include "query/mem/qmem.h"
#include "query/task/task.h"

struct cut_set {
	struct task_set set;
	uint32_t *origin; /* by task: the task of the first set that it was made of */
};

/*
 * Cut the tasks of a set so that each has at most one look-up in a large structure; large[] is by
 * task. NULL: tasks are cut in front of every look-up, fetch and RUNS step, and nothing is nested.
 * The new set is in the arena and shares expressions and slots with the first one. Returns 0 or
 * -ENOMEM.
 */
int cut_tasks(const struct task_set *set, const bool *large, struct fth_arena *arena,
	      struct cut_set *out);

#endif
