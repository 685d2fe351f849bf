/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks are put into the new set in the order in which they are needed: a structure right before
 * the task that looks up in it, behind those that make the rows which are looked up. So no
 * structure is kept while other tasks run.
 *
 * Slots keep their numbers. At a cut all slots that a later step or the reducer uses, and that are
 * there, become columns of the rows. The rows of a sorted result keep their order through a cut as
 * long as one thread works and each look-up needs one pass only; where several threads work
 * (`large` is set), tasks that read such a result are not cut.
 */
#include "query/exec/cut_tasks.h"
#include "query/task/slot.h"
#include "query/task/slot_use.h"

#include <errno.h>
#include <string.h>

struct cutter {
	const struct task_set *set;
	const bool *large; /* NULL: everything is */
	struct fth_arena *arena;
	struct cut_set *out;
	unsigned room;
	uint32_t *made; /* by task of `set`: its number in the new set, or TASK_NONE */
};

/* A task that is being cut: what is left of it. */
struct rest {
	uint32_t number; /* in `set` */
	struct task task;
	bool *there;  /* slots that have a value now */
	bool was_cut; /* its source are rows of its first part */
	/* The source, or a step that is not cut off yet, needs memory, or time in each pass. */
	bool heavy;
};

static int cut_one(struct cutter *c, uint32_t number, bool nested);

/* ---- slots ---- */

/*
 * The slots that the steps from `at` on and the reducer use, of those that are there. Returns how
 * many.
 */
static unsigned find_used(const struct rest *r, unsigned at, bool *used)
{
	const struct task *t = &r->task;
	unsigned n = 0;

	memset(used, 0, t->slot_count);
	reduce_uses(&t->reduce, used);
	for (unsigned i = at; i < t->step_count; i++)
		step_uses(&t->steps[i], used);
	for (unsigned i = 0; i < t->slot_count; i++) {
		used[i] = used[i] && r->there[i];
		n += used[i];
	}
	/* Rows need a column, even if they are only counted. */
	for (unsigned i = 0; i < t->slot_count && n == 0; i++)
		if (r->there[i]) {
			used[i] = true;
			n = 1;
		}
	return n;
}

/* ---- tasks of the new set ---- */

static void add_task(struct cutter *c, const struct task *t, uint32_t origin)
{
	unsigned number = c->out->set.task_count++;

	c->out->set.tasks[number] = *t;
	c->out->origin[number] = origin;
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP)
			c->out->set.tasks[t->steps[i].lookup.task].parent = number;
}

/* The steps before `at` become a task that gives rows; the rest reads them. */
static int cut_at(struct cutter *c, struct rest *r, unsigned at)
{
	struct task first = r->task;
	struct task *t = &r->task;
	bool *used = fth_arena_alloc(c->arena, t->slot_count + 1, 1);
	unsigned n = used ? find_used(r, at, used) : 0, k = 0;
	unsigned *slots = fth_arena_alloc(c->arena, (n + 1) * sizeof(*slots), 16);
	struct task_slot *result = fth_arena_alloc(c->arena, (n + 1) * sizeof(*result), 16);
	struct task_source_column *columns =
		fth_arena_alloc(c->arena, (n + 1) * sizeof(*columns), 16);
	uint32_t *input = fth_arena_alloc(c->arena, sizeof(*input), 16);

	if (!used || !slots || !result || !columns || !input)
		return -ENOMEM;
	for (unsigned i = 0; i < t->slot_count; i++)
		if (used[i]) {
			slots[k] = i;
			result[k] = t->slots[i];
			columns[k] = (struct task_source_column){k, i};
			k++;
		}
	first.step_count = at;
	first.nested = false;
	first.reduce = (struct task_reduce){
		.kind = TASK_OUTPUT, .column_count = n, .columns = slots, .limit = UINT64_MAX};
	first.result_count = n;
	first.result = result;
	*input = c->out->set.task_count;
	add_task(c, &first, r->number);
	t->source = (struct task_source){.kind = TASK_ROWS,
					 .input_count = 1,
					 .inputs = input,
					 .column_count = n,
					 .columns = columns,
					 .row_slot = TASK_NONE};
	t->steps += at;
	t->step_count -= at;
	t->nested = false;
	memcpy(r->there, used, t->slot_count);
	r->was_cut = true;
	r->heavy = false;
	return 0;
}

/* ---- where ---- */

/* Whether a structure is large, or one that a task nested there looks up in. */
static bool is_large(const struct cutter *c, uint32_t number)
{
	const struct task *t = &c->set->tasks[number];

	if (!c->large || c->large[number])
		return true;
	for (unsigned i = 0; i < t->step_count && t->nested; i++)
		if (t->steps[i].kind == TASK_LOOKUP && is_large(c, t->steps[i].lookup.task))
			return true;
	return false;
}

/* `step` is one of the first set. */
static bool is_heavy(const struct cutter *c, const struct task_step *step)
{
	if (step->kind == TASK_LOOKUP)
		return is_large(c, step->lookup.task);
	return !c->large && (step->kind == TASK_FETCH || step->kind == TASK_RUNS);
}

static bool may_cut(const struct cutter *c, const struct task *t)
{
	return !c->large || t->source.kind != TASK_ROWS || t->source.input_count != 1 ||
	       c->set->tasks[t->source.inputs[0]].reduce.kind != TASK_SORT;
}

/* Groups and sorted rows are put together again whenever they are read. */
static bool has_heavy_source(const struct cutter *c, const struct task *t)
{
	for (unsigned i = 0; i < t->source.input_count; i++)
		if (c->set->tasks[t->source.inputs[i]].reduce.kind != TASK_OUTPUT)
			return true;
	return false;
}

/* Whether to cut in front of a step, which is one of the first set. */
static bool cuts_step(const struct cutter *c, const struct rest *r, const struct task_step *step)
{
	if (!is_heavy(c, step))
		return false;
	return r->heavy || (!c->large && !r->was_cut);
}

/*
 * Whether the reducer gets a task of its own: a structure, since it is made once for each of its
 * parts.
 */
static bool cuts_reducer(const struct cutter *c, const struct rest *r)
{
	const struct task *t = &r->task;

	if (!r->heavy || t->reduce.kind == TASK_OUTPUT)
		return false;
	return !c->large || task_builds_structure(t);
}

/* ---- one task ---- */

static int take_inputs(struct cutter *c, struct task *t)
{
	uint32_t *inputs = fth_arena_alloc(c->arena, (t->source.input_count + 1) * sizeof(*inputs),
					   sizeof(*inputs));
	int rc = inputs ? 0 : -ENOMEM;

	for (unsigned i = 0; i < t->source.input_count && rc == 0; i++) {
		rc = cut_one(c, t->source.inputs[i], false);
		inputs[i] = c->made[t->source.inputs[i]];
	}
	t->source.inputs = inputs;
	return rc;
}

static int open_rest(struct cutter *c, uint32_t number, struct rest *r)
{
	const struct task *t = &c->set->tasks[number];
	size_t bytes = t->step_count * sizeof(*t->steps);

	*r = (struct rest){.number = number, .task = *t};
	r->task.steps = fth_arena_alloc(c->arena, bytes + 1, 16);
	r->there = fth_arena_alloc(c->arena, t->slot_count + 1, 1);
	if (!r->task.steps || !r->there)
		return -ENOMEM;
	if (bytes > 0)
		memcpy(r->task.steps, t->steps, bytes);
	memset(r->there, 0, t->slot_count);
	source_makes(&t->source, r->there);
	return take_inputs(c, &r->task);
}

static int cut_one(struct cutter *c, uint32_t number, bool nested)
{
	const struct task *t = &c->set->tasks[number];
	unsigned done = 0;
	bool cuts = !nested && may_cut(c, t);
	struct rest r;
	int rc;

	if (c->made[number] != TASK_NONE)
		return 0;
	rc = open_rest(c, number, &r);
	r.task.nested = nested;
	r.heavy = has_heavy_source(c, t);
	for (unsigned i = 0; i < t->step_count && rc == 0; i++) {
		struct task_step *step = &r.task.steps[i - done];

		if (cuts && cuts_step(c, &r, &t->steps[i])) {
			rc = cut_at(c, &r, i - done);
			done = i;
			step = &r.task.steps[0];
		}
		if (rc == 0 && step->kind == TASK_LOOKUP) {
			rc = cut_one(c, step->lookup.task,
				     c->set->tasks[step->lookup.task].nested && !r.was_cut &&
					     c->large);
			step->lookup.task = c->made[step->lookup.task];
		}
		r.heavy = r.heavy || is_heavy(c, &t->steps[i]);
		step_makes(step, r.task.slot_count, r.there);
	}
	if (rc == 0 && cuts && cuts_reducer(c, &r))
		rc = cut_at(c, &r, r.task.step_count);
	if (rc < 0)
		return rc;
	c->made[number] = c->out->set.task_count;
	add_task(c, &r.task, number);
	return 0;
}

/* ---- the set ---- */

int cut_tasks(const struct task_set *set, const bool *large, struct fth_arena *arena,
	      struct cut_set *out)
{
	struct cutter c = {.set = set, .large = large, .arena = arena, .out = out};
	int rc;

	/* Each step and each reducer is at most one more task. */
	for (unsigned i = 0; i < set->task_count; i++)
		c.room += set->tasks[i].step_count + 2;
	*out = (struct cut_set){.set = *set};
	out->set.task_count = 0;
	out->set.tasks = fth_arena_alloc(arena, c.room * sizeof(*out->set.tasks), 16);
	out->origin = fth_arena_alloc(arena, c.room * sizeof(*out->origin), 16);
	c.made = fth_arena_alloc(arena, set->task_count * sizeof(*c.made), 16);
	if (!out->set.tasks || !out->origin || !c.made)
		return -ENOMEM;
	memset(c.made, 0xff, set->task_count * sizeof(*c.made));
	rc = cut_one(&c, set->task_count - 1, false);
	if (rc == 0)
		task_set_last_users(&out->set);
	return rc;
}
