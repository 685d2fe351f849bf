/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferred text that many rows need. To fetch it costs a read of some block for almost every row,
 * again and again where rows come in another order than those of the table. If the text of the
 * whole column fits into memory it is read once instead, into a map by row number, and rows look
 * it up there.
 */
#include "query/plan/plan_internal.h"
#include "query/task/slot.h"

/* Fewer rows are fetched in one or two batches, in the order of the table. */
#define CARRY_ROWS 8192.0
/* Rows that need the text, in parts of the table's: for fewer the whole column is not read. */
#define CARRY_PART 2.0
/* All such maps of a query together take at most this part of the memory. */
#define CARRY_SHARE 8

static bool is_worth_it(const struct pipe *pipe, const struct binding *b)
{
	return pipe->rows >= CARRY_ROWS &&
	       pipe->rows * CARRY_PART >= (double)fth_table_rows(b->table);
}

/* The column as a map by row number: a task of its own. */
static uint32_t build_map(struct planner *p, const struct binding *b, const struct task_slot *text)
{
	struct pipe *pipe = pipe_new(p, fth_table_name(b->table));
	struct task_slot number = task_slot_of_row(b->table);
	struct task_source_column *column = plan_alloc(p, sizeof(*column));
	unsigned *keys = plan_alloc(p, 2 * sizeof(*keys));
	struct task *t;

	if (!pipe || !column || !keys)
		return TASK_NONE;
	t = pipe->task;
	t->source.kind = TASK_TABLE;
	t->source.table = b->table;
	t->source.row_slot = pipe_add_slot(p, pipe, &number);
	*column = (struct task_source_column){b->ordinal, pipe_add_slot(p, pipe, text)};
	t->source.column_count = 1;
	t->source.columns = column;
	pipe->rows = pipe->rows_most = (double)fth_table_rows(b->table);
	keys[0] = t->source.row_slot;
	keys[1] = column->slot;
	t->reduce.kind = TASK_MAP;
	t->reduce.key_count = t->reduce.column_count = 1;
	t->reduce.keys = keys;
	t->reduce.columns = keys + 1;
	return pipe_close(p, pipe);
}

static int look_up_text(struct planner *p, struct pipe *pipe, uint32_t task, uint32_t row,
			uint32_t text)
{
	bool nullable = pipe->task->slots[row].nullable;
	struct task_lookup lookup = {.task = task,
				     .match = nullable ? TASK_LEFT : TASK_INNER,
				     .key_count = 1,
				     .payload_count = 1};
	struct task_step *step = pipe_add_step(p, pipe, TASK_LOOKUP);

	lookup.keys = plan_alloc(p, sizeof(*lookup.keys));
	lookup.payload = plan_alloc(p, sizeof(*lookup.payload));
	lookup.slots = plan_alloc(p, sizeof(*lookup.slots));
	if (!step || p->error != 0)
		return p->error;
	lookup.keys[0] = row;
	lookup.slots[0] = text;
	step->lookup = lookup;
	return 0;
}

bool plan_carry_text(struct planner *p, struct pipe *pipe, const struct binding *b,
		     const struct task_slot *slot, uint32_t *out)
{
	struct task_slot text = *slot;
	uint64_t need = task_text_memory(b->table, b->ordinal);
	uint64_t most = fth_qmem_available(p->options->mem) / CARRY_SHARE;
	uint32_t task;

	if (!is_worth_it(pipe, b) || need > most || p->carried > most - need)
		return false;
	p->carried += need;
	task = build_map(p, b, &text);
	text.nullable |= pipe->task->slots[b->row_slot].nullable;
	*out = p->error != 0 ? TASK_NONE : pipe_add_slot(p, pipe, &text);
	if (p->error == 0)
		look_up_text(p, pipe, task, b->row_slot, *out);
	return true;
}
