/* SPDX-License-Identifier: BSD-2-Clause */
/* Aggregates: as a step where the source is clustered by a key, otherwise as the end of a pipe. */
#include "query/plan/plan_internal.h"
#include "query/task/slot.h"

#include <errno.h>
#include <string.h>

bool slot_has_runs(const struct pipe *pipe, uint32_t slot)
{
	const struct task_source *s = &pipe->task->source;

	for (unsigned i = 0; i < s->column_count && s->kind == TASK_TABLE; i++)
		if (s->columns[i].slot == slot)
			return (fth_table_facts(s->table, s->columns[i].column)->flags &
				FTH_TABLE_WHOLE_RUNS) != 0;
	return false;
}

struct task_aggregate plan_aggregate_of(const struct pipe *pipe, enum task_aggregate_op op,
					bool distinct, uint32_t slot, struct fth_type type)
{
	struct task_aggregate a = {.op = op, .distinct = distinct, .slot = slot};

	/* The front end has refused arguments of wrong types. */
	(void)task_slot_of_aggregate(op, slot == TASK_NONE ? NULL : &pipe->task->slots[slot],
				     pipe->rows_most, &a.result);
	a.result.type = type;
	return a;
}

static bool any_distinct(const struct grouping *g)
{
	for (unsigned i = 0; i < g->aggregate_count; i++)
		if (g->aggregates[i].distinct)
			return true;
	return false;
}

/* The key that is clustered comes first. */
static bool clustered_first(const struct pipe *pipe, const struct grouping *g, unsigned *order)
{
	for (unsigned i = 0; i < g->key_count; i++)
		if (slot_has_runs(pipe, g->keys[i])) {
			for (unsigned k = 0; k < g->key_count; k++)
				order[k] = k;
			order[0] = i;
			order[i] = 0;
			return true;
		}
	return false;
}

static struct pipe *group_runs(struct planner *p, struct pipe *pipe, struct grouping *g,
			       const unsigned *order)
{
	struct task_runs runs = {.key_count = g->key_count,
				 .aggregate_count = g->aggregate_count,
				 .aggregates = g->aggregates};
	struct task_step *step;

	runs.keys = plan_alloc(p, g->key_count * sizeof(*runs.keys));
	runs.key_slots = plan_alloc(p, g->key_count * sizeof(*runs.key_slots));
	runs.slots = g->slots;
	for (unsigned i = 0; i < g->key_count && p->error == 0; i++) {
		struct task_slot slot = pipe->task->slots[g->keys[order[i]]];

		runs.keys[i] = g->keys[order[i]];
		runs.key_slots[i] = pipe_add_slot(p, pipe, &slot);
		g->key_slots[order[i]] = runs.key_slots[i];
	}
	for (unsigned i = 0; i < g->aggregate_count && p->error == 0; i++)
		g->slots[i] = pipe_add_slot(p, pipe, &g->aggregates[i].result);
	step = p->error != 0 ? NULL : pipe_add_step(p, pipe, TASK_RUNS);
	if (!step)
		return NULL;
	step->runs = runs;
	pipe->binding_count = 0;
	pipe->rows /= 3;
	return pipe;
}

struct pipe *plan_group(struct planner *p, struct pipe *pipe, struct grouping *g)
{
	unsigned *order = plan_alloc(p, (g->key_count + 1) * sizeof(*order));
	struct task_reduce *r = &pipe->task->reduce;
	struct pipe *next;
	uint32_t task;

	g->key_slots = plan_alloc(p, (g->key_count + 1) * sizeof(*g->key_slots));
	g->slots = plan_alloc(p, (g->aggregate_count + 1) * sizeof(*g->slots));
	if (p->error != 0)
		return NULL;
	if (!any_distinct(g) && clustered_first(pipe, g, order))
		return group_runs(p, pipe, g, order);
	r->kind = TASK_GROUP;
	r->key_count = g->key_count;
	r->keys = g->keys;
	r->aggregate_count = g->aggregate_count;
	r->aggregates = g->aggregates;
	r->grouped = g->grouped;
	pipe->rows = g->key_count == 0 ? 1 : pipe->rows / 3;
	task = pipe_close(p, pipe);
	next = task == TASK_NONE ? NULL : pipe_of_results(p, &task, 1, NULL, 0);
	if (!next)
		return NULL;
	next->rows = pipe->rows;
	next->rows_most = g->key_count == 0 ? 1 : pipe->rows_most;
	for (unsigned i = 0; i < g->key_count; i++)
		g->key_slots[i] = next->task->source.columns[i].slot;
	for (unsigned i = 0; i < g->aggregate_count; i++)
		g->slots[i] = next->task->source.columns[g->key_count + i].slot;
	return next;
}

/* ---- from the tree ---- */

static enum task_aggregate_op op_of(enum sql_agg_op op)
{
	static const enum task_aggregate_op table[] = {
		[SQL_COUNT_ROWS] = TASK_COUNT_ROWS,
		[SQL_COUNT] = TASK_COUNT,
		[SQL_SUM] = TASK_SUM,
		[SQL_AVG] = TASK_AVG,
		[SQL_MIN] = TASK_MIN,
		[SQL_MAX] = TASK_MAX,
	};

	return table[op];
}

void plan_aggregate_from(struct planner *p, struct pipe *pipe, const struct sql_agg *a,
			 struct task_aggregate *out)
{
	uint32_t slot = a->arg ? pipe_compute(p, pipe, a->arg) : TASK_NONE;
	struct fth_type type = plan_type(p->query->columns[a->column].type);

	if (p->error == 0)
		*out = plan_aggregate_of(pipe, op_of(a->op), a->distinct, slot, type);
}

/* Keys that depend on the others are carried along: one value of each group. */
static int carry(struct planner *p, struct pipe *pipe, const struct cargo *cargo,
		 struct grouping *g)
{
	for (unsigned i = 0; i < cargo->slot_count; i++) {
		uint32_t slot = cargo->slots[i];

		g->aggregates[g->aggregate_count++] = plan_aggregate_of(
			pipe, TASK_ANY, false, slot, pipe->task->slots[slot].type);
	}
	return p->error;
}

static int bind_results(struct planner *p, struct pipe *pipe, const struct sql_rel *rel,
			const struct grouping *g, const struct cargo *cargo)
{
	unsigned determinants = rel->agg.determinant_count;

	for (unsigned i = 0; i < determinants; i++)
		pipe_bind(p, pipe,
			  &(struct binding){.column = rel->columns[i], .slot = g->key_slots[i]});
	for (unsigned i = 0; i < rel->agg.agg_count; i++)
		pipe_bind(
			p, pipe,
			&(struct binding){.column = rel->agg.aggs[i].column, .slot = g->slots[i]});
	for (unsigned i = 0; i < cargo->count && p->error == 0; i++) {
		struct binding b = cargo->in[i];

		if (b.slot != TASK_NONE)
			b.slot = g->slots[rel->agg.agg_count + b.slot];
		else
			b.row_slot = g->slots[rel->agg.agg_count + b.row_slot];
		pipe_bind(p, pipe, &b);
	}
	return p->error;
}

struct pipe *plan_aggregate(struct planner *p, const struct sql_rel *rel)
{
	struct pipe *pipe = plan_eager(p, rel);
	unsigned determinants = rel->agg.determinant_count;
	struct grouping g = {.key_count = determinants, .grouped = rel->agg.grouped};
	struct cargo cargo;

	if (pipe || p->error != 0)
		return pipe;
	pipe = plan_rel(p, rel->left);
	if (!pipe || pipe_pack(p, pipe, rel->columns + determinants,
			       rel->agg.key_count - determinants, &cargo) < 0)
		return NULL;
	g.keys = plan_alloc(p, (determinants + 1) * sizeof(*g.keys));
	g.aggregates =
		plan_alloc(p, (rel->agg.agg_count + cargo.slot_count + 1) * sizeof(*g.aggregates));
	for (unsigned i = 0; i < determinants && p->error == 0; i++)
		g.keys[i] = pipe_slot(p, pipe, rel->columns[i]);
	for (unsigned i = 0; i < rel->agg.agg_count && p->error == 0; i++)
		plan_aggregate_from(p, pipe, &rel->agg.aggs[i], &g.aggregates[g.aggregate_count++]);
	if (p->error != 0 || carry(p, pipe, &cargo, &g) < 0)
		return NULL;
	pipe = plan_group(p, pipe, &g);
	return !pipe || bind_results(p, pipe, rel, &g, &cargo) < 0 ? NULL : pipe;
}
