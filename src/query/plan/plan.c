/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/plan/plan_internal.h"
#include "query/task/slot.h"
#include "query/task/slot_use.h"

#include <errno.h>
#include <string.h>

int plan_fail(struct planner *p, int rc)
{
	if (p->error == 0)
		p->error = rc;
	return p->error;
}

void *plan_alloc(struct planner *p, size_t size)
{
	void *memory = p->error != 0 ? NULL : fth_arena_alloc(p->arena, size, 16);

	if (!memory) {
		plan_fail(p, -ENOMEM);
		return NULL;
	}
	return memset(memory, 0, size);
}

void *plan_grow(struct planner *p, void *array, unsigned count, unsigned *room, size_t size)
{
	void *larger;

	if (count < *room)
		return array;
	*room = *room == 0 ? 8 : *room * 2;
	larger = plan_alloc(p, *room * size);
	if (larger && count > 0)
		memcpy(larger, array, count * size);
	return larger;
}

/* Columns of a table that nothing uses are not read. */
static int prune_source(struct planner *p, struct task *t)
{
	bool *used = plan_alloc(p, t->slot_count + 1);
	unsigned n = 0;

	if (!used)
		return p->error;
	reduce_uses(&t->reduce, used);
	for (unsigned i = 0; i < t->step_count; i++)
		step_uses(&t->steps[i], used);
	for (unsigned i = 0; i < t->source.column_count; i++) {
		struct task_source_column *c = &t->source.columns[i];

		if (used[c->slot] || (t->nested && c->column == t->key_column))
			t->source.columns[n++] = *c;
	}
	t->source.column_count = n;
	return 0;
}

static int gather_tasks(struct planner *p, struct task_set *out)
{
	out->task_count = p->task_count;
	out->tasks = plan_alloc(p, p->task_count * sizeof(*out->tasks));
	if (!out->tasks)
		return p->error;
	for (unsigned t = 0; t < p->task_count; t++) {
		out->tasks[t] = *p->tasks[t];
		if (out->tasks[t].source.kind == TASK_TABLE && prune_source(p, &out->tasks[t]) < 0)
			return p->error;
	}
	if (plan_share(p, out) < 0)
		return p->error;
	task_set_last_users(out);
	out->output_count = p->query->output_count;
	out->names = p->query->output_names;
	return 0;
}

/* The last task gives the columns of the result in order. */
static int close_result(struct planner *p, struct pipe *pipe)
{
	const struct sql_query *q = p->query;
	struct task_reduce *reduce;
	unsigned *slots = plan_alloc(p, (q->output_count + 1) * sizeof(*slots));

	if (!slots)
		return p->error;
	for (unsigned i = 0; i < q->output_count; i++)
		slots[i] = pipe_slot(p, pipe, q->outputs[i]);
	reduce = &pipe->task->reduce;
	reduce->kind = TASK_OUTPUT;
	reduce->column_count = q->output_count;
	reduce->columns = slots;
	pipe_close(p, pipe);
	return p->error;
}

int plan_query(const struct sql_query *query, const struct plan_options *options,
	       struct fth_arena *arena, struct task_set *out)
{
	struct planner p = {.query = query, .options = options, .arena = arena};
	struct pipe *pipe = plan_rel(&p, query->root);

	memset(out, 0, sizeof(*out));
	if (!pipe || close_result(&p, pipe) < 0 || gather_tasks(&p, out) < 0)
		return p.error;
	return task_check(out);
}
