/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Left, semi, anti and single joins: the left side streams, the right side is built into a
 * structure.
 *
 * "There is a row with the same key and another value" (EXISTS with a <> besides equalities) needs
 * no search among the rows of the key: it is so if the smallest or the largest value of the key
 * differs.
 */
#include "query/plan/plan_internal.h"

#include <errno.h>

struct split {
	struct join_key *keys;
	unsigned key_count;
	const struct sql_expr **rest; /* over both sides */
	unsigned rest_count;
	const struct sql_expr **right, **left; /* over one side only */
	unsigned right_count, left_count;
	bool null_aware;
};

static bool is_key(const struct sql_expr *e, const struct sql_rel *rel, struct join_key *key)
{
	if (e->kind != SQL_CALL || e->op != SQL_EQ)
		return false;
	for (unsigned i = 0; i < 2; i++)
		if (expr_within(e->args[i], rel->left) && expr_within(e->args[1 - i], rel->right) &&
		    !expr_within(e->args[i], rel->right) &&
		    !expr_within(e->args[1 - i], rel->left)) {
			key->probe = e->args[i];
			key->build = e->args[1 - i];
			return true;
		}
	return false;
}

static int split_condition(struct planner *p, const struct sql_rel *rel, struct split *s)
{
	const struct sql_expr **parts;
	unsigned n = join_conjuncts(p, rel->join.condition, &parts);
	size_t bytes = (n + 2) * sizeof(void *);

	s->keys = plan_alloc(p, (n + 2) * sizeof(*s->keys));
	s->rest = plan_alloc(p, bytes);
	s->right = plan_alloc(p, bytes);
	s->left = plan_alloc(p, bytes);
	for (unsigned i = 0; i < n && p->error == 0; i++) {
		if (is_key(parts[i], rel, &s->keys[s->key_count]))
			s->key_count++;
		else if (expr_within(parts[i], rel->right))
			s->right[s->right_count++] = parts[i];
		else if (expr_within(parts[i], rel->left))
			s->left[s->left_count++] = parts[i];
		else
			s->rest[s->rest_count++] = parts[i];
	}
	return p->error;
}

static struct sql_expr *make_call(struct planner *p, enum sql_op op, const struct sql_expr **args,
				  unsigned n)
{
	struct sql_expr *e = plan_alloc(p, sizeof(*e));

	if (!e)
		return NULL;
	*e = (struct sql_expr){.kind = SQL_CALL,
			       .type = {.kind = SQL_BOOL},
			       .nullable = true,
			       .at = -1,
			       .op = op,
			       .count = n,
			       .args = (struct sql_expr **)args};
	return e;
}

/*
 * NOT IN: a match is also where the comparison is null. As a key if neither side can be; as a
 * null-aware key if there is nothing else that a match depends on.
 */
static int add_null_condition(struct planner *p, const struct sql_rel *rel, struct split *s)
{
	const struct sql_expr *e = rel->join.null_condition;
	const struct sql_expr **args;

	if (!e)
		return 0;
	if (!e->nullable && is_key(e, rel, &s->keys[s->key_count])) {
		s->key_count++;
		return 0;
	}
	if (rel->join.kind == SQL_ANTI && s->key_count == 0 && s->rest_count == 0 &&
	    s->left_count == 0 && is_key(e, rel, &s->keys[0])) {
		s->key_count = 1;
		s->null_aware = true;
		return 0;
	}
	args = plan_alloc(p, 3 * sizeof(*args));
	if (!args)
		return p->error;
	args[0] = e;
	args[2] = e;
	args[1] = make_call(p, SQL_IS_NULL, args + 2, 1);
	s->rest[s->rest_count++] = make_call(p, SQL_OR, args, 2);
	return p->error;
}

/* The predicates that are left to be tested on each match. */
static const struct sql_expr *residual(struct planner *p, const struct split *s,
				       enum sql_join_kind kind)
{
	const struct sql_expr **all =
		plan_alloc(p, (s->rest_count + s->left_count + 1) * sizeof(*all));
	unsigned n = 0;

	for (unsigned i = 0; i < s->rest_count && all; i++)
		all[n++] = s->rest[i];
	/* On the left side alone: filters a semi join, but a left join keeps the row. */
	for (unsigned i = 0; i < s->left_count && all && kind != SQL_SEMI; i++)
		all[n++] = s->left[i];
	if (n == 0)
		return NULL;
	return n == 1 ? all[0] : make_call(p, SQL_AND, all, n);
}

static bool in_expr(const struct sql_expr *e, int column)
{
	if (!e)
		return false;
	if (e->kind == SQL_COLUMN)
		return e->column == column;
	for (unsigned i = 0; i < e->count; i++)
		if (in_expr(e->args[i], column))
			return true;
	return false;
}

static unsigned payload_of(struct planner *p, const struct sql_rel *rel,
			   const struct sql_expr *condition, int **out)
{
	unsigned n = 0;

	*out = plan_alloc(p, (rel->right->width + 1) * sizeof(**out));
	for (unsigned i = 0; i < rel->right->width && *out; i++) {
		int c = rel->right->columns[i];

		if (rel_has(rel, c) || in_expr(condition, c))
			(*out)[n++] = c;
	}
	return n;
}

/* ---- another value with the same key ---- */

static bool is_other_value(const struct split *s, const struct sql_expr *condition,
			   const struct sql_rel *rel, unsigned *right)
{
	if (!condition || condition->kind != SQL_CALL || condition->op != SQL_NE ||
	    s->key_count == 0 || sql_is_string(condition->args[0]->type.kind) ||
	    condition->args[0]->type.kind == SQL_DOUBLE)
		return false;
	for (*right = 0; *right < 2; ++*right)
		if (expr_within(condition->args[*right], rel->right) &&
		    expr_within(condition->args[1 - *right], rel->left))
			return true;
	return false;
}

static struct fth_expr *slot_expr(struct planner *p, const struct pipe *pipe, uint32_t slot)
{
	const struct task_slot *s = &pipe->task->slots[slot];

	return fth_expr_column(p->arena, slot, s->type, s->lo, s->hi, s->nullable);
}

/*
 * Look up smallest and largest, and keep the rows for which one of them differs (or, for anti,
 * not).
 */
static int look_up_ends(struct planner *p, struct pipe *probe, struct pipe *ends,
			const struct grouping *g, const struct split *s,
			const struct sql_expr *value, bool anti)
{
	struct task_reduce *r = &ends->task->reduce;
	struct task_lookup lookup = {.match = anti ? TASK_LEFT : TASK_INNER,
				     .key_count = s->key_count};
	unsigned *columns = plan_alloc(p, 2 * sizeof(*columns));
	struct fth_expr *x, *differs, *args[3];
	struct task_step *step;
	uint32_t slot;

	lookup.keys = plan_alloc(p, s->key_count * sizeof(*lookup.keys));
	lookup.payload = plan_alloc(p, 2 * sizeof(*lookup.payload));
	lookup.slots = plan_alloc(p, 2 * sizeof(*lookup.slots));
	if (p->error != 0)
		return p->error;
	columns[0] = g->slots[0];
	columns[1] = g->slots[1];
	r->kind = TASK_MAP;
	r->key_count = s->key_count;
	r->keys = g->key_slots;
	r->column_count = 2;
	r->columns = columns;
	plan_nest(p, probe, ends, s->keys, s->key_count);
	lookup.task = pipe_close(p, ends);
	for (unsigned i = 0; i < s->key_count; i++)
		lookup.keys[i] =
			pipe_compute(p, probe, plan_key(p, s->keys[i].probe, s->keys[i].build));
	slot = pipe_compute(p, probe, value);
	lookup.payload_count = 2;
	for (unsigned i = 0; i < 2 && p->error == 0; i++) {
		struct task_slot made = p->tasks[lookup.task]->result[i];

		made.nullable |= anti;
		lookup.payload[i] = i;
		lookup.slots[i] = pipe_add_slot(p, probe, &made);
	}
	step = p->error != 0 ? NULL : pipe_add_step(p, probe, TASK_LOOKUP);
	if (!step)
		return p->error;
	step->lookup = lookup;
	x = slot_expr(p, probe, slot);
	differs = fth_expr_call2(
		p->arena, FTH_OP_OR,
		fth_expr_call2(p->arena, FTH_OP_NE, slot_expr(p, probe, lookup.slots[0]), x),
		fth_expr_call2(p->arena, FTH_OP_NE, slot_expr(p, probe, lookup.slots[1]), x));
	args[0] = differs;
	args[1] = fth_expr_bool(p->arena, false);
	args[2] = fth_expr_bool(p->arena, true);
	step = pipe_add_step(p, probe, TASK_SELECT);
	if (!step)
		return p->error;
	step->predicate = anti ? fth_expr_call(p->arena, FTH_OP_CASE, 3, args) : differs;
	if (!step->predicate)
		return plan_fail(p, -ENOMEM);
	probe->rows *= 0.5;
	return 0;
}

static int other_value(struct planner *p, struct pipe *probe, struct pipe *build,
		       const struct split *s, const struct sql_expr *condition, unsigned right,
		       bool anti)
{
	struct grouping g = {.key_count = s->key_count, .aggregate_count = 2, .grouped = true};
	struct pipe *ends;
	uint32_t value;

	if (s->key_count == 1 && plan_wanted_keys(p, probe, build, &s->keys[0]) < 0)
		return p->error;
	value = pipe_compute(p, build, condition->args[right]);
	g.keys = plan_alloc(p, s->key_count * sizeof(*g.keys));
	g.aggregates = plan_alloc(p, 2 * sizeof(*g.aggregates));
	for (unsigned i = 0; i < s->key_count && p->error == 0; i++)
		g.keys[i] = pipe_compute(p, build, plan_key(p, s->keys[i].build, s->keys[i].probe));
	if (p->error != 0)
		return p->error;
	g.aggregates[0] =
		plan_aggregate_of(build, TASK_MIN, false, value, build->task->slots[value].type);
	g.aggregates[1] =
		plan_aggregate_of(build, TASK_MAX, false, value, build->task->slots[value].type);
	ends = plan_group(p, build, &g);
	if (!ends)
		return p->error;
	return look_up_ends(p, probe, ends, &g, s, condition->args[1 - right], anti);
}

/* ---- the join ---- */

static bool build_unique(struct planner *p, const struct sql_rel *rel, const struct split *s)
{
	int *columns = plan_alloc(p, (s->key_count + 1) * sizeof(*columns));
	unsigned n = 0;

	for (unsigned i = 0; i < s->key_count && columns; i++)
		if (s->keys[i].build->kind == SQL_COLUMN)
			columns[n++] = s->keys[i].build->column;
	return columns && rel_unique(rel->right, columns, n);
}

int plan_outer_on(struct planner *p, struct pipe *probe, const struct sql_rel *rel)
{
	static const enum task_match match[] = {[SQL_LEFT_OUTER] = TASK_LEFT,
						[SQL_SEMI] = TASK_SEMI,
						[SQL_ANTI] = TASK_ANTI,
						[SQL_SINGLE] = TASK_SINGLE};
	enum sql_join_kind kind = rel->join.kind;
	struct pipe *build = plan_rel(p, rel->right);
	struct join_spec spec = {.match = match[kind]};
	struct split s = {0};
	unsigned right;
	int *payload;

	if (!build || split_condition(p, rel, &s) < 0 || add_null_condition(p, rel, &s) < 0)
		return p->error;
	for (unsigned i = 0; i < s.right_count; i++)
		pipe_select(p, build, s.right[i]);
	for (unsigned i = 0; i < s.left_count && kind == SQL_SEMI; i++)
		pipe_select(p, probe, s.left[i]);
	spec.condition = residual(p, &s, kind);
	if ((kind == SQL_SEMI || kind == SQL_ANTI) &&
	    is_other_value(&s, spec.condition, rel, &right))
		return other_value(p, probe, build, &s, spec.condition, right, kind == SQL_ANTI);
	spec.null_aware = s.null_aware;
	spec.key_count = s.key_count;
	spec.keys = s.keys;
	spec.unique = build_unique(p, rel, &s);
	spec.payload_count = payload_of(p, rel, spec.condition, &payload);
	spec.payload = payload;
	return p->error != 0 ? p->error : plan_lookup(p, probe, build, &spec);
}

struct pipe *plan_outer(struct planner *p, const struct sql_rel *rel)
{
	struct pipe *probe = plan_rel(p, rel->left);

	return !probe || plan_outer_on(p, probe, rel) < 0 ? NULL : probe;
}
