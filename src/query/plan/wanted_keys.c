/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys before groups. A structure of groups that few rows look up in is made of wanted keys only:
 * the pipe that looks up runs twice, once for a set of its keys, and rows with other keys are not
 * grouped. That costs another scan and saves groups that do not fit, which would be spilled, built
 * in parts and looked up part by part.
 */
#include "query/plan/plan_internal.h"
#include "query/task/slot_use.h"

#include <string.h>

#define WORTH_TIMES 8.0	     /* the groups are made of so many times the rows that look up */
#define WORTH_ROWS  100000.0 /* and of so many */

/* Whether a step of a pipe can run in a second task. */
static bool can_run_twice(const struct planner *p, const struct task_step *s)
{
	return s->kind == TASK_SELECT || s->kind == TASK_COMPUTE ||
	       (s->kind == TASK_LOOKUP && !p->tasks[s->lookup.task]->nested);
}

static void *copy_of(struct planner *p, const void *array, unsigned count, size_t size)
{
	void *copy = plan_alloc(p, (count + 1) * size);

	if (copy && count > 0)
		memcpy(copy, array, count * size);
	return copy;
}

/*
 * The pipe once more, as a set of its keys; TASK_NONE, perhaps without an error, if that is not
 * possible.
 */
static uint32_t close_keys(struct planner *p, const struct pipe *pipe, unsigned key)
{
	const struct task *t = pipe->task;
	bool *used = plan_alloc(p, t->slot_count + 1);
	unsigned *keys = plan_alloc(p, sizeof(*keys));
	struct pipe *copy = pipe_new(p, t->name);
	struct task *c;
	unsigned n = 0;

	if (!used || !keys || !copy)
		return TASK_NONE;
	used[key] = true;
	for (unsigned i = 0; i < t->step_count; i++) {
		if (!can_run_twice(p, &t->steps[i]))
			return TASK_NONE;
		step_uses(&t->steps[i], used);
	}
	c = copy->task;
	c->source = t->source;
	c->slots = copy_of(p, t->slots, t->slot_count, sizeof(*t->slots));
	c->steps = copy_of(p, t->steps, t->step_count, sizeof(*t->steps));
	c->source.columns =
		copy_of(p, t->source.columns, t->source.column_count, sizeof(*t->source.columns));
	if (p->error != 0)
		return TASK_NONE;
	c->slot_count = t->slot_count;
	c->step_count = t->step_count;
	for (unsigned i = 0; i < t->source.column_count; i++)
		if (used[t->source.columns[i].slot])
			c->source.columns[n++] = t->source.columns[i];
	c->source.column_count = n;
	copy->scan = pipe->scan;
	copy->rows = pipe->rows;
	copy->rows_most = pipe->rows_most;
	keys[0] = key;
	c->reduce.kind = TASK_SET;
	c->reduce.key_count = 1;
	c->reduce.keys = keys;
	return pipe_close(p, copy);
}

int plan_wanted_keys(struct planner *p, struct pipe *probe, struct pipe *build,
		     const struct join_key *key)
{
	struct task_step *step;
	uint32_t slot, wanted;

	if (probe->task->source.kind != TASK_TABLE || keys_sorted(p, key, 1) ||
	    build->rows < WORTH_ROWS || probe->rows * WORTH_TIMES > build->rows)
		return 0;
	slot = pipe_compute(p, probe, plan_key(p, key->probe, key->build));
	if (p->error != 0)
		return p->error;
	/* Rows have only become fewer since an earlier set was made. */
	if (probe->keys_task == TASK_NONE || probe->keys_slot != slot) {
		probe->keys_task = close_keys(p, probe, slot);
		probe->keys_slot = slot;
	}
	wanted = probe->keys_task;
	if (p->error != 0 || wanted == TASK_NONE)
		return p->error;
	slot = pipe_compute(p, build, plan_key(p, key->build, key->probe));
	step = p->error != 0 ? NULL : pipe_add_step(p, build, TASK_LOOKUP);
	if (!step)
		return p->error;
	step->lookup = (struct task_lookup){.task = wanted, .match = TASK_SEMI, .key_count = 1};
	step->lookup.keys = plan_alloc(p, sizeof(*step->lookup.keys));
	if (p->error != 0)
		return p->error;
	step->lookup.keys[0] = slot;
	build->rows = build->rows / WORTH_TIMES;
	return 0;
}
