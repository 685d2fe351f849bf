/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/remote/split_tasks.h"

#include "query/task/slot.h"

#include <errno.h>
#include <string.h>

static void *take(struct fth_arena *arena, size_t count, size_t size)
{
	void *memory = fth_arena_alloc(arena, (count + 1) * size, 16);

	return memory ? memset(memory, 0, (count + 1) * size) : NULL;
}

/* Whether `user` reads the result of task t. */
static bool uses(const struct task *user, unsigned t)
{
	for (unsigned i = 0; i < user->source.input_count; i++)
		if (user->source.inputs[i] == t)
			return true;
	for (unsigned i = 0; i < user->step_count; i++)
		if (user->steps[i].kind == TASK_LOOKUP && user->steps[i].lookup.task == t)
			return true;
	return false;
}

bool split_is_needed(const struct task_set *set, const bool *at_storage, unsigned t)
{
	for (unsigned i = t + 1; i < set->task_count; i++)
		if (!at_storage[i] && uses(&set->tasks[i], t))
			return true;
	return false;
}

/* ---- a part ---- */

/* A copy whose tasks have other numbers. */
static int copy_task(const struct task *from, const uint32_t *renumbered, struct fth_arena *arena,
		     struct task *to)
{
	*to = *from;
	if (from->nested)
		to->parent = renumbered[from->parent];
	to->source.inputs = take(arena, from->source.input_count, sizeof(*to->source.inputs));
	to->steps = take(arena, from->step_count, sizeof(*to->steps));
	if (!to->source.inputs || !to->steps)
		return -ENOMEM;
	for (unsigned i = 0; i < from->source.input_count; i++)
		to->source.inputs[i] = renumbered[from->source.inputs[i]];
	for (unsigned i = 0; i < from->step_count; i++) {
		to->steps[i] = from->steps[i];
		if (to->steps[i].kind == TASK_LOOKUP)
			to->steps[i].lookup.task = renumbered[from->steps[i].lookup.task];
	}
	return 0;
}

/* Rows instead of a structure: keys, then columns. */
static int unbuild(struct task *t, struct fth_arena *arena)
{
	struct task_reduce *r = &t->reduce;
	unsigned n = r->key_count + r->column_count;
	unsigned *columns = take(arena, n, sizeof(*columns));

	if (!columns)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		columns[i] = i < r->key_count ? r->keys[i] : r->columns[i - r->key_count];
	*r = (struct task_reduce){
		.kind = TASK_OUTPUT, .column_count = n, .columns = columns, .limit = UINT64_MAX};
	return task_describe_result(arena, t);
}

/* Source columns and slots for the columns of a result. */
static int make_slots(struct task *t, const struct task_slot *slots, unsigned n,
		      struct fth_arena *arena)
{
	t->source.row_slot = TASK_NONE;
	t->parent = TASK_NONE;
	t->source.column_count = t->slot_count = n;
	t->source.columns = take(arena, n, sizeof(*t->source.columns));
	t->slots = take(arena, n, sizeof(*t->slots));
	if (!t->source.columns || !t->slots)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		t->source.columns[i] = (struct task_source_column){i, i};
		t->slots[i] = slots[i];
	}
	return 0;
}

static int all_columns(struct task *t, unsigned from, unsigned n, struct fth_arena *arena)
{
	t->reduce.limit = UINT64_MAX;
	t->reduce.column_count = n;
	t->reduce.columns = take(arena, n, sizeof(*t->reduce.columns));
	for (unsigned i = 0; i < n && t->reduce.columns; i++)
		t->reduce.columns[i] = from + i;
	return t->reduce.columns ? 0 : -ENOMEM;
}

/* A task that puts out the rows of task `input`. */
static int put_out(const struct task *made, uint32_t input, struct fth_arena *arena, struct task *t)
{
	int rc;

	*t = (struct task){.name = "rows"};
	t->source.kind = TASK_ROWS;
	t->source.inputs = take(arena, 1, sizeof(*t->source.inputs));
	if (!t->source.inputs)
		return -ENOMEM;
	t->source.inputs[0] = input;
	t->source.input_count = 1;
	rc = make_slots(t, made->result, made->result_count, arena);
	if (rc == 0)
		rc = all_columns(t, 0, made->result_count, arena);
	return rc < 0 ? rc : task_describe_result(arena, t);
}

static void mark(const struct task_set *set, unsigned t, bool *wanted)
{
	wanted[t] = true;
	for (unsigned i = t; i-- > 0;)
		if (!wanted[i] && uses(&set->tasks[t], i))
			mark(set, i, wanted);
}

static int name_columns(struct task_set *set, struct fth_arena *arena)
{
	const struct task *last = &set->tasks[set->task_count - 1];

	set->output_count = last->result_count;
	set->names = take(arena, last->result_count, sizeof(char *));
	for (unsigned i = 0; i < last->result_count && set->names; i++)
		set->names[i] = last->result[i].name ? last->result[i].name : "value";
	return set->names ? 0 : -ENOMEM;
}

int split_part(const struct task_set *set, unsigned t, struct fth_arena *arena,
	       struct task_set *out, uint32_t *numbers)
{
	bool *wanted = take(arena, set->task_count, sizeof(*wanted));
	uint32_t *renumbered = take(arena, set->task_count, sizeof(*renumbered));
	struct task *last;
	int rc = 0;

	*out = (struct task_set){.tasks = take(arena, t + 2, sizeof(*out->tasks))};
	if (!wanted || !renumbered || !out->tasks)
		return -ENOMEM;
	mark(set, t, wanted);
	for (unsigned i = 0; i <= t; i++)
		if (wanted[i]) {
			renumbered[i] = out->task_count;
			numbers[out->task_count++] = i;
		}
	for (unsigned i = 0; i < out->task_count && rc == 0; i++)
		rc = copy_task(&set->tasks[numbers[i]], renumbered, arena, &out->tasks[i]);
	if (rc < 0)
		return rc;
	last = &out->tasks[out->task_count - 1];
	if (task_builds_structure(last)) {
		rc = unbuild(last, arena);
	} else if (last->reduce.kind != TASK_OUTPUT) {
		rc = put_out(last, out->task_count - 1, arena, last + 1);
		numbers[out->task_count++] = TASK_NONE;
	}
	task_set_last_users(out);
	return rc < 0 ? rc : name_columns(out, arena);
}

/* ---- the rest ---- */

/* The rows of a structure come as keys and columns, those of others as they are. */
static int make_given(const struct task *from, struct fth_arena *arena, struct task *t)
{
	const struct task_reduce *r = &from->reduce;
	unsigned keys = task_builds_structure(from) ? r->key_count : 0;
	unsigned n = task_builds_structure(from) ? keys + r->column_count : from->result_count;
	struct task_slot *slots = take(arena, n, sizeof(*slots));
	int rc;

	*t = (struct task){.name = from->name, .estimate = from->estimate};
	if (!slots)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		slots[i] = !task_builds_structure(from) ? from->result[i]
			   : i < keys			? from->slots[r->keys[i]]
							: from->slots[r->columns[i - keys]];
	t->source.kind = TASK_GIVEN;
	t->reduce.kind = task_builds_structure(from) ? r->kind : TASK_OUTPUT;
	rc = make_slots(t, slots, n, arena);
	if (rc == 0)
		rc = all_columns(t, keys, n - keys, arena);
	t->reduce.key_count = keys;
	t->reduce.keys = take(arena, keys, sizeof(*t->reduce.keys));
	if (rc < 0 || !t->reduce.keys)
		return -ENOMEM;
	for (unsigned i = 0; i < keys; i++)
		t->reduce.keys[i] = i;
	return task_describe_result(arena, t);
}

static int make_empty(const struct task *from, struct fth_arena *arena, struct task *t)
{
	*t = (struct task){.name = from->name, .parent = TASK_NONE};
	t->source.kind = TASK_VALUES;
	t->source.row_slot = TASK_NONE;
	t->reduce.limit = UINT64_MAX;
	t->slots = take(arena, 1, sizeof(*t->slots));
	return t->slots ? task_describe_result(arena, t) : -ENOMEM;
}

int split_rest(const struct task_set *set, const bool *at_storage, struct fth_arena *arena,
	       struct task_set *out)
{
	int rc = 0;

	*out = *set;
	out->tasks = take(arena, set->task_count, sizeof(*out->tasks));
	if (!out->tasks)
		return -ENOMEM;
	for (unsigned i = 0; i < set->task_count && rc == 0; i++) {
		out->tasks[i] = set->tasks[i];
		if (at_storage[i])
			rc = split_is_needed(set, at_storage, i)
				     ? make_given(&set->tasks[i], arena, &out->tasks[i])
				     : make_empty(&set->tasks[i], arena, &out->tasks[i]);
	}
	task_set_last_users(out);
	return rc < 0 ? rc : task_check(out);
}
