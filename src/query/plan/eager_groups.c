/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Aggregates before a left join. "For each row of A, count (sum, ...) its rows of B": where a group
 * is one row of A and all aggregates are over B, B is grouped by the key of the join first, and A
 * looks its groups up. A key then has one row in the structure instead of many, and nothing is
 * grouped afterwards. A row of A without rows of B gets null, or 0 for a count.
 */
#include "query/plan/plan_internal.h"

#include <errno.h>

struct eager {
	const struct sql_rel *rel, *join;
	struct join_key *keys;
	unsigned key_count;
	const struct sql_expr **right; /* predicates of the right side */
	unsigned right_count;
};

static bool is_plain_key(const struct sql_expr *e, const struct sql_rel *join, struct join_key *key)
{
	if (e->kind != SQL_CALL || e->op != SQL_EQ)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const struct sql_expr *l = e->args[i], *r = e->args[1 - i];

		if (l->kind != SQL_COLUMN || r->kind != SQL_COLUMN ||
		    !rel_has(join->left, l->column) || !rel_has(join->right, r->column) ||
		    l->type.kind != r->type.kind || l->type.scale != r->type.scale ||
		    l->type.kind == SQL_DOUBLE)
			continue;
		*key = (struct join_key){l, r};
		return true;
	}
	return false;
}

/* The join's condition as keys and predicates of the right side; false if there is more. */
static bool split_eager(struct planner *p, struct eager *x)
{
	const struct sql_expr **parts;
	unsigned n = expr_conjuncts(p, x->join->join.condition, &parts);

	x->keys = plan_alloc(p, (n + 1) * sizeof(*x->keys));
	x->right = plan_alloc(p, (n + 1) * sizeof(*x->right));
	for (unsigned i = 0; i < n && p->error == 0; i++) {
		if (is_plain_key(parts[i], x->join, &x->keys[x->key_count]))
			x->key_count++;
		else if (expr_within(parts[i], x->join->right))
			x->right[x->right_count++] = parts[i];
		else
			return false;
	}
	return p->error == 0 && x->key_count > 0;
}

/* Null for a row of A without rows of B: arithmetic over columns. */
static bool is_strict(const struct sql_expr *e)
{
	bool any = false;

	if (e->kind == SQL_COLUMN)
		return true;
	if (e->kind != SQL_CAST &&
	    (e->kind != SQL_CALL || (e->op != SQL_ADD && e->op != SQL_SUB && e->op != SQL_MUL &&
				     e->op != SQL_DIV && e->op != SQL_NEG)))
		return false;
	for (unsigned i = 0; i < e->count; i++) {
		if (e->args[i]->kind != SQL_CONST && !is_strict(e->args[i]))
			return false;
		any |= e->args[i]->kind != SQL_CONST;
	}
	return any;
}

static bool is_eager(struct planner *p, struct eager *x)
{
	const struct sql_rel *rel = x->rel, *join = rel->left;

	if (join->kind != SQL_JOIN || join->join.kind != SQL_LEFT_OUTER ||
	    rel->agg.determinant_count == 0 || rel->agg.agg_count == 0)
		return false;
	for (unsigned i = 0; i < rel->agg.key_count; i++)
		if (!rel_has(join->left, rel->columns[i]))
			return false;
	for (unsigned i = 0; i < rel->agg.agg_count; i++)
		if (!rel->agg.aggs[i].arg || !is_strict(rel->agg.aggs[i].arg) ||
		    !expr_within(rel->agg.aggs[i].arg, join->right))
			return false;
	x->join = join;
	return rel_unique(join->left, rel->columns, rel->agg.determinant_count) &&
	       split_eager(p, x);
}

/* The right side, grouped by the key, as a map of the aggregates. */
static uint32_t build_groups(struct planner *p, struct pipe *probe, const struct eager *x)
{
	struct pipe *build = plan_rel(p, x->join->right), *groups;
	struct grouping g = {.key_count = x->key_count,
			     .aggregate_count = x->rel->agg.agg_count,
			     .grouped = true};
	struct task_reduce *r;

	for (unsigned i = 0; i < x->right_count && p->error == 0; i++)
		pipe_select(p, build, x->right[i]);
	g.keys = plan_alloc(p, (g.key_count + 1) * sizeof(*g.keys));
	g.aggregates = plan_alloc(p, (g.aggregate_count + 1) * sizeof(*g.aggregates));
	for (unsigned i = 0; i < g.key_count && p->error == 0; i++)
		g.keys[i] = pipe_slot(p, build, x->keys[i].build->column);
	for (unsigned i = 0; i < g.aggregate_count && p->error == 0; i++)
		plan_aggregate_from(p, build, &x->rel->agg.aggs[i], &g.aggregates[i]);
	groups = p->error != 0 ? NULL : plan_group(p, build, &g);
	if (!groups)
		return TASK_NONE;
	r = &groups->task->reduce;
	r->kind = TASK_MAP;
	r->key_count = g.key_count;
	r->keys = g.key_slots;
	r->column_count = g.aggregate_count;
	r->columns = g.slots;
	plan_nest(p, probe, groups, x->keys, x->key_count);
	return pipe_close(p, groups);
}

/* A count of no rows is 0. */
static uint32_t zero_if_null(struct planner *p, struct pipe *pipe, uint32_t slot)
{
	const struct task_slot *s = &pipe->task->slots[slot];
	struct fth_expr *args[] = {
		fth_expr_column(p->arena, slot, s->type, s->lo, s->hi, true),
		fth_expr_int(p->arena, s->type, 0),
	};
	struct fth_expr *value = fth_expr_call(p->arena, FTH_OP_COALESCE, 2, args);
	struct task_slot made;
	struct task_step *step;
	uint32_t to;

	if (!value) {
		plan_fail(p, -ENOMEM);
		return TASK_NONE;
	}
	if (plan_range(p, value, &made) < 0)
		return TASK_NONE;
	to = pipe_add_slot(p, pipe, &made);
	step = pipe_add_step(p, pipe, TASK_COMPUTE);
	if (!step || to == TASK_NONE)
		return TASK_NONE;
	step->compute.slot = to;
	step->compute.value = value;
	return to;
}

static int look_up_groups(struct planner *p, struct pipe *probe, const struct eager *x,
			  uint32_t task)
{
	unsigned n = x->rel->agg.agg_count;
	struct task_lookup lookup = {
		.task = task, .match = TASK_LEFT, .key_count = x->key_count, .payload_count = n};
	struct task_step *step;

	lookup.keys = plan_alloc(p, (x->key_count + 1) * sizeof(*lookup.keys));
	lookup.payload = plan_alloc(p, (n + 1) * sizeof(*lookup.payload));
	lookup.slots = plan_alloc(p, (n + 1) * sizeof(*lookup.slots));
	for (unsigned i = 0; i < x->key_count && p->error == 0; i++)
		lookup.keys[i] = pipe_slot(p, probe, x->keys[i].probe->column);
	for (unsigned i = 0; i < n && p->error == 0; i++) {
		struct task_slot slot = p->tasks[task]->result[i];

		slot.nullable = true;
		lookup.payload[i] = i;
		lookup.slots[i] = pipe_add_slot(p, probe, &slot);
	}
	step = p->error != 0 ? NULL : pipe_add_step(p, probe, TASK_LOOKUP);
	if (!step)
		return p->error;
	step->lookup = lookup;
	for (unsigned i = 0; i < n && p->error == 0; i++) {
		const struct sql_agg *a = &x->rel->agg.aggs[i];
		struct binding b = {.column = a->column, .slot = lookup.slots[i]};

		if (a->op == SQL_COUNT)
			b.slot = zero_if_null(p, probe, b.slot);
		pipe_bind(p, probe, &b);
	}
	return p->error;
}

struct pipe *plan_eager(struct planner *p, const struct sql_rel *rel)
{
	struct eager x = {.rel = rel};
	struct pipe *probe;
	uint32_t task;

	if (!is_eager(p, &x))
		return NULL;
	probe = plan_rel(p, x.join->left);
	task = probe ? build_groups(p, probe, &x) : TASK_NONE;
	return task == TASK_NONE || look_up_groups(p, probe, &x, task) < 0 ? NULL : probe;
}
