/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/slot_use.h"

#include <string.h>

void expr_uses(const struct fth_expr *e, bool *used)
{
	if (e->kind == FTH_EXPR_COLUMN)
		used[e->column] = true;
	for (unsigned i = 0; i < e->nargs && e->kind == FTH_EXPR_CALL; i++)
		expr_uses(e->args[i], used);
}

static void mark_slots(const unsigned *slots, unsigned n, bool *used)
{
	for (unsigned i = 0; i < n; i++)
		used[slots[i]] = true;
}

static void mark_aggregates(const struct task_aggregate *a, unsigned n, bool *used)
{
	for (unsigned i = 0; i < n; i++)
		if (a[i].slot != TASK_NONE)
			used[a[i].slot] = true;
}

void reduce_uses(const struct task_reduce *r, bool *used)
{
	mark_slots(r->keys, r->key_count, used);
	mark_slots(r->columns, r->column_count, used);
	mark_aggregates(r->aggregates, r->aggregate_count, used);
	for (unsigned i = 0; i < r->order_count; i++)
		used[r->order[i].slot] = true;
}

void step_uses(const struct task_step *s, bool *used)
{
	switch (s->kind) {
	case TASK_SELECT:
		expr_uses(s->predicate, used);
		break;
	case TASK_COMPUTE:
		expr_uses(s->compute.value, used);
		break;
	case TASK_LOOKUP:
		mark_slots(s->lookup.keys, s->lookup.key_count, used);
		if (s->lookup.condition)
			expr_uses(s->lookup.condition, used);
		break;
	case TASK_FETCH:
		used[s->fetch.row_slot] = true;
		break;
	case TASK_RUNS:
		mark_slots(s->runs.keys, s->runs.key_count, used);
		mark_aggregates(s->runs.aggregates, s->runs.aggregate_count, used);
		break;
	}
}

static void mark_columns(const struct task_source_column *columns, unsigned n, bool *there)
{
	for (unsigned i = 0; i < n; i++)
		there[columns[i].slot] = true;
}

void source_makes(const struct task_source *s, bool *there)
{
	mark_columns(s->columns, s->column_count, there);
	if (s->kind == TASK_TABLE && s->row_slot != TASK_NONE)
		there[s->row_slot] = true;
}

void step_makes(const struct task_step *s, unsigned slot_count, bool *there)
{
	switch (s->kind) {
	case TASK_SELECT:
		break;
	case TASK_COMPUTE:
		there[s->compute.slot] = true;
		break;
	case TASK_LOOKUP:
		mark_slots(s->lookup.slots, s->lookup.payload_count, there);
		break;
	case TASK_FETCH:
		mark_columns(s->fetch.columns, s->fetch.column_count, there);
		break;
	case TASK_RUNS:
		memset(there, 0, slot_count);
		mark_slots(s->runs.key_slots, s->runs.key_count, there);
		mark_slots(s->runs.slots, s->runs.aggregate_count, there);
		break;
	}
}
