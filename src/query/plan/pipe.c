/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/plan/plan_internal.h"
#include "query/task/slot.h"

#include <errno.h>
#include <string.h>

struct pipe *pipe_new(struct planner *p, const char *name)
{
	struct pipe *pipe = plan_alloc(p, sizeof(*pipe));
	struct task *task = plan_alloc(p, sizeof(*task));

	if (!pipe || !task)
		return NULL;
	task->name = name;
	task->source.row_slot = TASK_NONE;
	task->parent = TASK_NONE;
	task->reduce.limit = UINT64_MAX;
	pipe->task = task;
	pipe->keys_task = TASK_NONE;
	return pipe;
}

uint32_t pipe_add_slot(struct planner *p, struct pipe *pipe, const struct task_slot *slot)
{
	struct task *t = pipe->task;

	t->slots = plan_grow(p, t->slots, t->slot_count, &pipe->slot_room, sizeof(*t->slots));
	if (!t->slots)
		return TASK_NONE;
	t->slots[t->slot_count] = *slot;
	return t->slot_count++;
}

struct task_step *pipe_add_step(struct planner *p, struct pipe *pipe, enum task_step_kind kind)
{
	struct task *t = pipe->task;

	t->steps = plan_grow(p, t->steps, t->step_count, &pipe->step_room, sizeof(*t->steps));
	if (!t->steps)
		return NULL;
	t->steps[t->step_count].kind = kind;
	t->steps[t->step_count].rows = pipe->rows;
	return &t->steps[t->step_count++];
}

int pipe_bind(struct planner *p, struct pipe *pipe, const struct binding *binding)
{
	struct binding *old = pipe_find(pipe, binding->column);

	if (old) {
		*old = *binding;
		return 0;
	}
	pipe->bindings = plan_grow(p, pipe->bindings, pipe->binding_count, &pipe->binding_room,
				   sizeof(*pipe->bindings));
	if (!pipe->bindings)
		return p->error;
	pipe->bindings[pipe->binding_count++] = *binding;
	return 0;
}

struct binding *pipe_find(struct pipe *pipe, int column)
{
	for (unsigned i = 0; i < pipe->binding_count; i++)
		if (pipe->bindings[i].column == column)
			return &pipe->bindings[i];
	return NULL;
}

/* ---- sources ---- */

static int add_source_column(struct planner *p, struct pipe *pipe, unsigned column, uint32_t slot)
{
	struct task_source *s = &pipe->task->source;

	s->columns =
		plan_grow(p, s->columns, s->column_count, &pipe->column_room, sizeof(*s->columns));
	if (!s->columns || slot == TASK_NONE)
		return p->error;
	s->columns[s->column_count++] = (struct task_source_column){column, slot};
	return 0;
}

static struct task_slot slot_of_column(struct planner *p, int column, struct fth_table *table,
				       unsigned ordinal)
{
	const struct sql_column *c = &p->query->columns[column];
	struct task_slot slot = task_slot_of_column(table, ordinal);

	slot.type = plan_type(c->type);
	slot.name = c->name;
	return slot;
}

static uint32_t row_number_slot(struct planner *p, struct pipe *pipe)
{
	struct task_source *s = &pipe->task->source;

	if (s->row_slot == TASK_NONE) {
		struct task_slot slot = task_slot_of_row(s->table);

		s->row_slot = pipe_add_slot(p, pipe, &slot);
	}
	return s->row_slot;
}

/*
 * Strings that have no dictionary for the whole table are bound deferred: what needs them at once
 * gets them from the source (pipe_slot()), what only carries them along carries the row number.
 */
static bool is_wide(struct fth_table *table, unsigned ordinal)
{
	const struct fth_table_column *c = &fth_table_schema(table)->column[ordinal];

	return fth_table_kind(c) == FTH_TABLE_KIND_STRING &&
	       (fth_table_facts(table, ordinal)->flags & FTH_TABLE_ALL_CODES) == 0;
}

struct pipe *pipe_of_table(struct planner *p, const struct sql_rel *scan)
{
	struct fth_table *table = p->options->open(p->options->self, scan->scan.table);
	struct pipe *pipe;

	if (!table) {
		plan_fail(p, -ENOENT);
		return NULL;
	}
	pipe = pipe_new(p, scan->scan.table->name);
	if (!pipe)
		return NULL;
	pipe->task->source.kind = TASK_TABLE;
	pipe->task->source.table = table;
	pipe->scan = scan;
	pipe->rows = pipe->rows_most = (double)fth_table_rows(table);
	for (unsigned i = 0; i < scan->width; i++) {
		struct binding b = {.column = scan->columns[i],
				    .slot = TASK_NONE,
				    .row_slot = TASK_NONE,
				    .table = table,
				    .ordinal = scan->scan.ordinals[i]};

		if (!is_wide(table, b.ordinal)) {
			struct task_slot slot = slot_of_column(p, b.column, table, b.ordinal);

			b.slot = pipe_add_slot(p, pipe, &slot);
			add_source_column(p, pipe, b.ordinal, b.slot);
		}
		pipe_bind(p, pipe, &b);
	}
	return p->error != 0 ? NULL : pipe;
}

struct pipe *pipe_of_results(struct planner *p, const uint32_t *tasks, unsigned count,
			     const struct binding *bindings, unsigned binding_count)
{
	struct pipe *pipe = pipe_new(p, "rows");
	const struct task *first = p->tasks[tasks[0]];
	uint32_t *inputs = plan_alloc(p, count * sizeof(*inputs));
	uint32_t *slots = plan_alloc(p, (first->result_count + 1) * sizeof(*slots));

	if (!pipe || !inputs || !slots)
		return NULL;
	memcpy(inputs, tasks, count * sizeof(*inputs));
	pipe->task->source.kind = TASK_ROWS;
	pipe->task->source.input_count = count;
	pipe->task->source.inputs = inputs;
	for (unsigned i = 0; i < first->result_count; i++) {
		slots[i] = pipe_add_slot(p, pipe, &first->result[i]);
		add_source_column(p, pipe, i, slots[i]);
	}
	for (unsigned i = 0; i < binding_count && p->error == 0; i++) {
		struct binding b = bindings[i];

		if (b.slot != TASK_NONE)
			b.slot = slots[b.slot];
		else
			b.row_slot = slots[b.row_slot];
		pipe_bind(p, pipe, &b);
	}
	return p->error != 0 ? NULL : pipe;
}

/* ---- columns and expressions ---- */

/* A column that the source has not read yet: nothing was deferred past a step. */
static bool is_of_source(const struct pipe *pipe, const struct binding *b)
{
	return b->row_slot == TASK_NONE && pipe->task->source.kind == TASK_TABLE &&
	       pipe->task->source.table == b->table;
}

static int fetch(struct planner *p, struct pipe *pipe, struct binding *b)
{
	struct task_slot slot = slot_of_column(p, b->column, b->table, b->ordinal);
	struct task_step *step;
	struct task_source_column *column;

	if (plan_carry_text(p, pipe, b, &slot, &b->slot))
		return p->error;
	column = plan_alloc(p, sizeof(*column));
	slot.nullable |= pipe->task->slots[b->row_slot].nullable;
	b->slot = pipe_add_slot(p, pipe, &slot);
	step = pipe_add_step(p, pipe, TASK_FETCH);
	if (!step || !column || b->slot == TASK_NONE)
		return p->error;
	*column = (struct task_source_column){b->ordinal, b->slot};
	step->fetch = (struct task_fetch){b->table, b->row_slot, 1, column};
	return 0;
}

uint32_t pipe_slot(struct planner *p, struct pipe *pipe, int column)
{
	struct binding *b = pipe_find(pipe, column);

	if (!b) {
		plan_fail(p, -EINVAL);
		return TASK_NONE;
	}
	if (b->slot != TASK_NONE)
		return b->slot;
	if (is_of_source(pipe, b)) {
		struct task_slot slot = slot_of_column(p, column, b->table, b->ordinal);

		b->slot = pipe_add_slot(p, pipe, &slot);
		add_source_column(p, pipe, b->ordinal, b->slot);
	} else {
		fetch(p, pipe, b);
	}
	return p->error != 0 ? TASK_NONE : b->slot;
}

uint32_t pipe_compute(struct planner *p, struct pipe *pipe, const struct sql_expr *expr)
{
	struct task_slot slot = {0};
	struct task_step *step;
	struct fth_expr *value;
	uint32_t made;

	if (expr->kind == SQL_COLUMN)
		return pipe_slot(p, pipe, expr->column);
	value = plan_expr(p, pipe, expr);
	if (!value || plan_range(p, value, &slot) < 0)
		return TASK_NONE;
	made = pipe_add_slot(p, pipe, &slot);
	step = pipe_add_step(p, pipe, TASK_COMPUTE);
	if (!step || made == TASK_NONE)
		return TASK_NONE;
	step->compute.slot = made;
	step->compute.value = value;
	return made;
}

int pipe_select(struct planner *p, struct pipe *pipe, const struct sql_expr *predicate)
{
	struct fth_expr *value = plan_expr(p, pipe, predicate);
	struct task_step *step = value ? pipe_add_step(p, pipe, TASK_SELECT) : NULL;

	if (!step)
		return p->error;
	step->predicate = value;
	pipe->rows *= expr_selectivity(p, predicate);
	return 0;
}

/* ---- closing ---- */

static int pack_slot(struct planner *p, struct cargo *cargo, uint32_t slot, uint32_t *index)
{
	for (unsigned i = 0; i < cargo->slot_count; i++)
		if (cargo->slots[i] == slot) {
			*index = i;
			return 0;
		}
	cargo->slots = plan_grow(p, cargo->slots, cargo->slot_count, &cargo->slot_room,
				 sizeof(*cargo->slots));
	if (!cargo->slots)
		return p->error;
	*index = cargo->slot_count;
	cargo->slots[cargo->slot_count++] = slot;
	return 0;
}

int pipe_pack(struct planner *p, struct pipe *pipe, const int *columns, unsigned count,
	      struct cargo *cargo)
{
	memset(cargo, 0, sizeof(*cargo));
	cargo->count = count;
	cargo->in = plan_alloc(p, (count + 1) * sizeof(*cargo->in));
	for (unsigned i = 0; i < count && p->error == 0; i++) {
		struct binding *b = pipe_find(pipe, columns[i]);

		if (!b)
			return plan_fail(p, -EINVAL);
		if (b->slot == TASK_NONE && is_of_source(pipe, b))
			b->row_slot = row_number_slot(p, pipe);
		cargo->in[i] = *b;
		pack_slot(p, cargo, b->slot != TASK_NONE ? b->slot : b->row_slot,
			  b->slot != TASK_NONE ? &cargo->in[i].slot : &cargo->in[i].row_slot);
	}
	return p->error;
}

static void adopt_nested(struct planner *p, const struct task *task, uint32_t number)
{
	for (unsigned i = 0; i < task->step_count; i++)
		if (task->steps[i].kind == TASK_LOOKUP &&
		    p->tasks[task->steps[i].lookup.task]->nested)
			p->tasks[task->steps[i].lookup.task]->parent = number;
}

uint32_t pipe_close(struct planner *p, struct pipe *pipe)
{
	if (p->error != 0)
		return TASK_NONE;
	if (task_describe_result(p->arena, pipe->task) < 0) {
		plan_fail(p, -ENOMEM);
		return TASK_NONE;
	}
	p->tasks = plan_grow(p, p->tasks, p->task_count, &p->task_room, sizeof(*p->tasks));
	if (!p->tasks)
		return TASK_NONE;
	pipe->task->estimate.rows = pipe->rows;
	pipe->task->estimate.rows_most = pipe->rows_most;
	p->tasks[p->task_count] = pipe->task;
	adopt_nested(p, pipe->task, p->task_count);
	return p->task_count++;
}
