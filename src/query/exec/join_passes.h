/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures that do not fit are built part by part, and the task that looks up in them runs once
 * for each part (task.h, key ranges). If it looks up in several such structures, it runs once for
 * each combination.
 */
#ifndef FTH_QUERY_JOIN_PASSES_H
#define FTH_QUERY_JOIN_PASSES_H

#include "query/exec/runner.h"

#include <errno.h>

/* Run a task; of a structure, build the part that begins with the number `from`. In exec.c. */
int exec_task(struct exec *e, unsigned number, uint64_t from);
void exec_release(struct exec *e, unsigned number);
/* The task of the set that exec_run() was given. */
uint32_t exec_origin(const struct exec *e, uint32_t number);

/*
 * Make everything ready that the task needs: results that were released are made again, structures
 * begin with their first part. If parts forbid what the task does, it is changed: see
 * join_passes.c.
 */
int pass_prepare(struct exec *e, unsigned number);
/*
 * Structures that the task looks up in go back to their first parts, so that it can run once more.
 */
int pass_restart(struct exec *e, unsigned number);
/*
 * Go on to the next combination of parts. Returns 1, 0 if there is none, or a negative errno:
 * PASS_TOO_MANY if the parts of several structures multiply and the query can still be run in
 * another way.
 */
#define PASS_TOO_MANY (-ETOOMANYREFS) /* which nothing else returns */
int pass_next(struct exec *e, unsigned number);
/* Whether the task looks up in a structure of which only a part is there. */
bool pass_uses_parts(const struct exec *e, unsigned number);
/*
 * Hold less of the largest structure that the task looks up in, if it takes more than `least`
 * bytes. Returns 0 or -ENOMEM: they are small already.
 */
int pass_shrink(struct exec *e, unsigned number, uint64_t least);

/*
 * Build what is nested in the task before it runs, since the rows for one of its row groups may be
 * too many. Returns 0, or -ENOMEM: nothing is nested.
 */
int pass_unnest(struct exec *e, unsigned number);

/*
 * Whether rows are to be held in front of a step that looks up in parts: see held_rows.c. Then
 * split the task there, and run the first half; returns 1, 0 if that is not possible after all, or
 * a negative errno.
 */
bool hold_wanted(const struct exec *e, unsigned number, unsigned *at);
int hold_split(struct exec *e, unsigned number, unsigned at);

/*
 * The last number of the part that begins with `from`, as far as it can be told before the part is
 * built.
 */
uint64_t pass_to(const struct exec *e, unsigned number, uint64_t from);
/* The bytes that the structure of a task may take. */
uint64_t pass_room(const struct exec *e, unsigned number);
/* The task after which a result is not needed any more, or TASK_NONE. */
uint32_t pass_last_user(const struct exec *e, unsigned number);

#endif
