/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows before parts. A task that looks up in structures with parts runs once for each combination
 * of them, and would read its table each time. Where few rows reach the first such look-up, the
 * task is split there: the first half reads the table once and holds these rows, in memory and in
 * the scratch file, and the second half goes through the held rows once for each part.
 *
 * The price of a row is that of reading it from its table; a held row is written and read back once
 * for each pass. Both prices are estimates, and need to be right by a factor of two only: the
 * choice is seldom close.
 */
#include "query/exec/join_passes.h"
#include "query/task/slot_use.h"

#include <errno.h>
#include <string.h>

#define HOLD_COST \
	3.0 /* of a row that is written, against one that is read from a table and tested */
#define REREAD_COST	 1.5 /* of a held row that is read again */
#define TEXT_BYTES	 32.0
#define HOLD_COLUMNS_MAX 256

/* ---- which slots ---- */

/*
 * The slots that are there before step `at` and that it, a later one or the reducer uses. Returns
 * how many, or -ENOMEM.
 */
static int find_held(struct exec *e, const struct task *t, unsigned at, unsigned **out)
{
	bool *there = fth_arena_alloc(&e->arena, 2 * (t->slot_count + 1), 1);
	bool *used = there + t->slot_count + 1;
	unsigned *held = fth_arena_alloc(&e->arena, (t->slot_count + 1) * sizeof(*held), 16);
	int n = 0;

	if (!there || !held)
		return -ENOMEM;
	memset(there, 0, 2 * (t->slot_count + 1));
	source_makes(&t->source, there);
	for (unsigned i = 0; i < at; i++)
		step_makes(&t->steps[i], t->slot_count, there);
	reduce_uses(&t->reduce, used);
	for (unsigned i = at; i < t->step_count; i++)
		step_uses(&t->steps[i], used);
	for (unsigned i = 0; i < t->slot_count; i++)
		if (there[i] && used[i])
			held[n++] = i;
	*out = held;
	return n;
}

/* ---- whether ---- */

static bool is_nested(const struct exec *e, const struct task_step *s)
{
	return s->kind == TASK_LOOKUP && e->tasks[s->lookup.task].nested;
}

/*
 * The passes over all combinations of the parts that a task looks up in; *first is the first such
 * look-up.
 */
static double passes_ahead(const struct exec *e, const struct task *t, unsigned *first)
{
	double passes = 1;

	*first = t->step_count;
	for (unsigned i = 0; i < t->step_count; i++) {
		const struct task_step *s = &t->steps[i];
		double parts = s->kind == TASK_LOOKUP && !is_nested(e, s)
				       ? index_parts(e->results[s->lookup.task].index)
				       : 1;

		if (parts > 1 && *first == t->step_count)
			*first = i;
		passes *= parts;
	}
	return passes;
}

static double held_bytes(const struct task *t, const unsigned *held, unsigned n)
{
	double bytes = 0;

	for (unsigned i = 0; i < n; i++)
		bytes += fth_type_is_text(t->slots[held[i]].type)
				 ? TEXT_BYTES
				 : (double)fth_phys_width(rows_phys(&t->slots[held[i]]));
	return bytes;
}

/* Held rows must leave most of a scratch file that is limited to others. */
static bool has_scratch(const struct exec *e, double bytes)
{
	uint64_t limit = e->options->scratch_limit;

	return limit == 0 || bytes * 4 < (double)limit;
}

bool hold_wanted(const struct exec *e, unsigned number, unsigned *at)
{
	const struct task *t = &e->tasks[number];
	double passes, all, rows;

	if (t->source.kind != TASK_TABLE || t->nested || e->task_count == e->task_room)
		return false;
	passes = passes_ahead(e, t, at);
	if (*at == t->step_count || *at == 0)
		return false;
	for (unsigned i = *at; i < t->step_count; i++)
		if (is_nested(e, &t->steps[i])) /* it is built for a row group of the table */
			return false;
	rows = t->steps[*at].rows;
	all = (double)fth_table_rows(t->source.table);
	return rows > 0 && rows * (HOLD_COST + REREAD_COST * passes) < (passes - 1) * all;
}

/* ---- splitting ---- */

/* The second half: its source are the held rows. */
static int read_held(struct exec *e, struct task *rest, const unsigned *held, unsigned n,
		     uint32_t input)
{
	struct task_source_column *columns =
		fth_arena_alloc(&e->arena, (n + 1) * sizeof(*columns), 16);
	uint32_t *inputs = fth_arena_alloc(&e->arena, sizeof(*inputs), 16);

	if (!columns || !inputs)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		columns[i] = (struct task_source_column){i, held[i]};
	*inputs = input;
	rest->source = (struct task_source){.kind = TASK_ROWS,
					    .input_count = 1,
					    .inputs = inputs,
					    .column_count = n,
					    .columns = columns,
					    .row_slot = TASK_NONE};
	return 0;
}

/* The first half: rows instead of what the task makes of them. */
static int write_held(struct exec *e, struct task *first, unsigned *held, unsigned n)
{
	struct task_slot *result = fth_arena_alloc(&e->arena, (n + 1) * sizeof(*result), 16);

	if (!result)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		result[i] = first->slots[held[i]];
	first->reduce = (struct task_reduce){
		.kind = TASK_OUTPUT, .column_count = n, .columns = held, .limit = UINT64_MAX};
	first->result = result;
	first->result_count = n;
	return 0;
}

static bool looks_up(const struct task *t, uint32_t structure)
{
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP && t->steps[i].lookup.task == structure)
			return true;
	return false;
}

/*
 * Structures that the other half does not look up in, and no later task, leave their memory to it.
 * Those of the second half are built again when its turn comes, in fewer parts.
 */
static void release_unused(struct exec *e, const struct task *half, const struct task *other,
			   uint32_t user)
{
	for (unsigned i = 0; i < half->step_count; i++) {
		uint32_t d = half->steps[i].lookup.task;

		if (half->steps[i].kind == TASK_LOOKUP && !e->tasks[d].nested &&
		    pass_last_user(e, d) == user && !looks_up(other, d))
			exec_release(e, d);
	}
}

int hold_split(struct exec *e, unsigned number, unsigned at)
{
	struct task *t = &e->tasks[number];
	uint32_t made = e->task_count;
	struct task first = *t, rest = *t;
	unsigned *held;
	int n = find_held(e, t, at, &held), rc;

	if (n <= 0 || n > HOLD_COLUMNS_MAX ||
	    !has_scratch(e, t->steps[at].rows * held_bytes(t, held, (unsigned)n)))
		return n < 0 ? n : 0;
	first.step_count = at;
	first.last_user = number;
	first.estimate.rows = t->steps[at].rows;
	rc = write_held(e, &first, held, (unsigned)n);
	if (rc == 0)
		rc = read_held(e, &rest, held, (unsigned)n, made);
	if (rc < 0)
		return rc;
	rest.steps += at;
	rest.step_count -= at;
	for (unsigned i = 0; i < at; i++)
		if (is_nested(e, &t->steps[i]))
			e->tasks[t->steps[i].lookup.task].parent = made;
	*t = rest;
	e->tasks[made] = first;
	e->task_count++;
	release_unused(e, &rest, &first, number);
	rc = exec_task(e, made, 0);
	if (rc == 0)
		release_unused(e, &first, &rest, number);
	return rc < 0 ? rc : 1;
}
