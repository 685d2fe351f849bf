/* SPDX-License-Identifier: BSD-2-Clause */
/* Which slots of a task its source and its steps make, and which its steps and its reducer use. */
#ifndef FTH_QUERY_SLOT_USE_H
#define FTH_QUERY_SLOT_USE_H

#include "query/task/task.h"

/* Set used[slot] for the slots that an expression, a step or a reducer uses; others stay as is. */
void expr_uses(const struct fth_expr *e, bool *used);
void step_uses(const struct task_step *s, bool *used);
void reduce_uses(const struct task_reduce *r, bool *used);

/* Set there[slot] for the slots that a source or a step makes. A RUNS step leaves no others. */
void source_makes(const struct task_source *s, bool *there);
void step_makes(const struct task_step *s, unsigned slot_count, bool *there);

#endif
