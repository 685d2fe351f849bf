/* SPDX-License-Identifier: BSD-2-Clause */
/* One join: the build side becomes a structure, the probing side looks rows up in it. */
#include "query/plan/plan_internal.h"
#include "query/task/slot.h"
#include "scalar/num.h"

#include <errno.h>
#include <string.h>

const struct sql_expr *plan_key(struct planner *p, const struct sql_expr *e,
				const struct sql_expr *other)
{
	struct sql_expr *cast, **args;

	if (e->type.kind != SQL_DECIMAL || e->type.scale >= other->type.scale)
		return e;
	cast = plan_alloc(p, sizeof(*cast));
	args = plan_alloc(p, sizeof(*args));
	if (!cast || !args)
		return e;
	args[0] = (struct sql_expr *)e;
	*cast = (struct sql_expr){.kind = SQL_CAST,
				  .type = {SQL_DECIMAL, FTH_DEC_COMPARED, other->type.scale, 0},
				  .nullable = e->nullable,
				  .at = -1,
				  .count = 1,
				  .args = args};
	return cast;
}

static unsigned *key_slots(struct planner *p, struct pipe *pipe, const struct join_spec *spec,
			   bool build)
{
	unsigned *slots = plan_alloc(p, (spec->key_count + 1) * sizeof(*slots));

	for (unsigned i = 0; i < spec->key_count && p->error == 0; i++) {
		const struct join_key *k = &spec->keys[i];

		slots[i] = build ? pipe_compute(p, pipe, plan_key(p, k->build, k->probe))
				 : pipe_compute(p, pipe, plan_key(p, k->probe, k->build));
	}
	return slots;
}

/* ---- nested builds ---- */

/* The table column of a key that is a sorted column of integers of the pipe's source. */
static bool sorted_column(struct planner *p, const struct pipe *pipe, const struct sql_expr *key,
			  unsigned *ordinal)
{
	const struct fth_table_facts *facts;

	if (!pipe->scan || key->kind != SQL_COLUMN || !rel_has(pipe->scan, key->column))
		return false;
	facts = column_facts(p, key->column);
	*ordinal = p->query->columns[key->column].ordinal;
	return facts && (facts->flags & FTH_TABLE_SORTED) != 0 &&
	       fth_table_kind(&fth_table_schema(pipe->task->source.table)->column[*ordinal]) ==
		       FTH_TABLE_KIND_INT;
}

bool keys_sorted(struct planner *p, const struct join_key *keys, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct sql_expr *sides[] = {keys[i].probe, keys[i].build};
		unsigned sorted = 0;

		for (unsigned k = 0; k < 2; k++) {
			const struct fth_table_facts *f =
				sides[k]->kind == SQL_COLUMN ? column_facts(p, sides[k]->column)
							     : NULL;

			sorted += f && (f->flags & FTH_TABLE_SORTED) != 0;
		}
		if (sorted == 2)
			return true;
	}
	return false;
}

static bool has_nested(struct planner *p, const struct pipe *pipe)
{
	for (unsigned i = 0; i < pipe->task->step_count; i++)
		if (pipe->task->steps[i].kind == TASK_LOOKUP &&
		    p->tasks[pipe->task->steps[i].lookup.task]->nested)
			return true;
	return false;
}

void plan_nest(struct planner *p, const struct pipe *probe, const struct pipe *build,
	       const struct join_key *keys, unsigned key_count)
{
	struct task *t = build->task;
	unsigned parent_column, key_column;

	if (build->rows < NESTED_ROWS || has_nested(p, build))
		return;
	for (unsigned i = 0; i < key_count && !t->nested; i++)
		if (keys[i].probe->type.scale == keys[i].build->type.scale &&
		    sorted_column(p, probe, keys[i].probe, &parent_column) &&
		    sorted_column(p, build, keys[i].build, &key_column)) {
			t->nested = true;
			t->parent_column = parent_column;
			t->key_column = key_column;
		}
}

/* ---- the structure ---- */

static uint32_t close_build(struct planner *p, struct pipe *build, const struct join_spec *spec,
			    unsigned *keys, const struct cargo *cargo)
{
	struct task_reduce *r = &build->task->reduce;
	bool only_exists = spec->match == TASK_SEMI || spec->match == TASK_ANTI;

	r->key_count = spec->key_count;
	r->keys = keys;
	r->column_count = cargo->slot_count;
	r->columns = cargo->slots;
	/* A set knows no matches, of which a condition could be asked. */
	if (cargo->slot_count == 0 && spec->key_count > 0 && (only_exists || spec->unique) &&
	    !spec->condition)
		r->kind = TASK_SET;
	else
		r->kind = spec->unique && spec->key_count > 0 ? TASK_MAP : TASK_MULTIMAP;
	return pipe_close(p, build);
}

/*
 * Whether the build side's column has the value of the probing side's key wherever they are equal.
 * Not so doubles: -0 equals 0.
 */
static bool is_same_value(const struct join_key *k)
{
	return k->build->kind == SQL_COLUMN && k->build->type.kind == k->probe->type.kind &&
	       k->build->type.kind != SQL_DOUBLE && k->build->type.scale == k->probe->type.scale;
}

/* Columns of the build side whose value is that of the probing side's key need not be carried. */
static int bind_keys(struct planner *p, struct pipe *probe, const struct join_spec *spec,
		     const unsigned *slots)
{
	for (unsigned i = 0; i < spec->key_count && spec->match == TASK_INNER; i++) {
		const struct join_key *k = &spec->keys[i];
		struct binding b = {.slot = slots[i]};

		if (!is_same_value(k))
			continue;
		b.column = k->build->column;
		pipe_bind(p, probe, &b);
	}
	return p->error;
}

static bool is_bound_key(const struct join_spec *spec, int column)
{
	for (unsigned i = 0; i < spec->key_count && spec->match == TASK_INNER; i++) {
		const struct join_key *k = &spec->keys[i];

		if (is_same_value(k) && k->build->column == column)
			return true;
	}
	return false;
}

static unsigned carried_columns(struct planner *p, const struct join_spec *spec, int **out)
{
	unsigned n = 0;

	*out = plan_alloc(p, (spec->payload_count + 1) * sizeof(**out));
	for (unsigned i = 0; i < spec->payload_count && *out; i++)
		if (!is_bound_key(spec, spec->payload[i]))
			(*out)[n++] = spec->payload[i];
	return n;
}

/*
 * Slots of the probing pipe for the payload, and bindings for the columns in it. `row` is the slot
 * of the row number, if that is not in the payload.
 */
static int bind_payload(struct planner *p, struct pipe *probe, const struct join_spec *spec,
			const struct cargo *cargo, const struct task *built, uint32_t row,
			struct task_lookup *lookup)
{
	lookup->payload_count = cargo->slot_count;
	lookup->payload = plan_alloc(p, (cargo->slot_count + 1) * sizeof(*lookup->payload));
	lookup->slots = plan_alloc(p, (cargo->slot_count + 1) * sizeof(*lookup->slots));
	for (unsigned i = 0; i < cargo->slot_count && p->error == 0; i++) {
		struct task_slot slot = built->result[i];

		slot.nullable |= spec->match == TASK_LEFT || spec->match == TASK_SINGLE;
		lookup->payload[i] = i;
		lookup->slots[i] = pipe_add_slot(p, probe, &slot);
	}
	for (unsigned i = 0; i < cargo->count && p->error == 0; i++) {
		struct binding b = cargo->in[i];

		if (b.slot != TASK_NONE)
			b.slot = lookup->slots[b.slot];
		else
			b.row_slot = b.row_slot == TASK_NONE ? row : lookup->slots[b.row_slot];
		pipe_bind(p, probe, &b);
	}
	return p->error;
}

/* ---- keys that are row numbers ---- */

/*
 * A column of integers that grows by one with each row gives the number of its row: the key less
 * the smallest. So a structure by such a key need not hold row numbers, from which deferred columns
 * are fetched. If then nothing is to be carried, no row of the build side was removed and the
 * probing key is always one of its keys, the join does nothing.
 */

/* The key whose build side is such a column; -1: none. */
static int row_key(struct planner *p, const struct pipe *build, const struct join_spec *spec)
{
	const uint32_t needed = FTH_TABLE_STRICT | FTH_TABLE_DENSE | FTH_TABLE_NO_NULLS;

	for (unsigned i = 0; i < spec->key_count && build->scan; i++) {
		const struct join_key *k = &spec->keys[i];
		const struct fth_table_facts *f;

		if (k->build->kind != SQL_COLUMN || !rel_has(build->scan, k->build->column) ||
		    (k->build->type.kind != SQL_INT32 && k->build->type.kind != SQL_INT64) ||
		    (k->probe->type.kind != SQL_INT32 && k->probe->type.kind != SQL_INT64))
			continue;
		f = column_facts(p, k->build->column);
		if (f && (f->flags & needed) == needed)
			return (int)i;
	}
	return -1;
}

/* Take the row number out of what is carried. Returns false if it is not there. */
static bool drop_row(const struct pipe *build, struct cargo *cargo)
{
	unsigned at = 0;

	while (at < cargo->slot_count && cargo->slots[at] != build->task->source.row_slot)
		at++;
	if (build->task->source.kind != TASK_TABLE || at == cargo->slot_count)
		return false;
	cargo->slot_count--;
	memmove(cargo->slots + at, cargo->slots + at + 1,
		(cargo->slot_count - at) * sizeof(*cargo->slots));
	for (unsigned i = 0; i < cargo->count; i++) {
		struct binding *b = &cargo->in[i];
		uint32_t *slot = b->slot != TASK_NONE ? &b->slot : &b->row_slot;

		if (b->slot == TASK_NONE && *slot == at)
			*slot = TASK_NONE;
		else
			*slot -= *slot > at;
	}
	return true;
}

/* Make the row number from the probing key, for rows that have a match. */
static int row_from_key(struct planner *p, struct pipe *probe, const struct sql_expr *column,
			uint32_t key, uint32_t row)
{
	const struct task_slot *s = &probe->task->slots[key];
	struct task_step *step = pipe_add_step(p, probe, TASK_COMPUTE);

	if (!step)
		return p->error;
	step->compute.slot = row;
	step->compute.value =
		fth_expr_call2(p->arena, FTH_OP_SUB,
			       fth_expr_column(p->arena, key, s->type, s->lo, s->hi, s->nullable),
			       fth_expr_int(p->arena, fth_type(FTH_T_INT64),
					    column_facts(p, column->column)->min));
	return !step->compute.value ? plan_fail(p, -ENOMEM) : 0;
}

/* Every row of the probing side has exactly one match, of which nothing is wanted. */
static bool is_total(struct planner *p, const struct pipe *probe, const struct pipe *build,
		     const struct join_spec *spec, const struct cargo *cargo, int row,
		     const unsigned *keys)
{
	const struct task_slot *s;
	const struct fth_table_facts *f;

	if (row < 0 || spec->key_count != 1 || cargo->slot_count > 0 || spec->condition ||
	    build->task->step_count > 0 || build->task->source.kind != TASK_TABLE ||
	    (spec->match != TASK_INNER && spec->match != TASK_SEMI))
		return false;
	s = &probe->task->slots[keys[0]];
	f = column_facts(p, spec->keys[0].build->column);
	return !s->nullable && s->lo <= s->hi && s->lo >= f->min && s->hi <= f->max;
}

/* ---- estimates ---- */

/* Matches of one probing row, on average. */
static double matches_expected(struct planner *p, const struct pipe *build,
			       const struct join_spec *spec)
{
	double domain = 1;

	for (unsigned i = 0; i < spec->key_count; i++) {
		const struct sql_expr *key = spec->keys[i].build;
		const struct fth_table_facts *f =
			key->kind == SQL_COLUMN ? column_facts(p, key->column) : NULL;

		domain *= f && f->distinct > 0 ? (double)f->distinct : 100;
	}
	return build->rows / domain;
}

static void estimate(struct pipe *probe, const struct pipe *build, const struct join_spec *spec,
		     double matches)
{
	double hit = matches < 1 ? matches : 1;

	if (spec->condition)
		matches *= 0.5;
	if (spec->match == TASK_SEMI)
		probe->rows *= hit;
	else if (spec->match == TASK_ANTI)
		probe->rows *= hit < 0.9 ? 1 - hit : 0.1;
	else if (spec->match == TASK_INNER)
		probe->rows *= spec->unique ? hit : matches;
	else if (!spec->unique && spec->match == TASK_LEFT && matches > 1)
		probe->rows *= matches;
	if ((spec->match == TASK_INNER || spec->match == TASK_LEFT) && !spec->unique) {
		probe->multiplied = true;
		probe->rows_most *= build->rows_most > 1 ? build->rows_most : 1;
	}
}

/*
 * The condition sees matches inside the look-up, where nothing can be fetched: the build side
 * carries its columns.
 */
static int read_condition(struct planner *p, struct pipe *build, const struct sql_expr *e)
{
	if (e->kind == SQL_COLUMN && pipe_find(build, e->column))
		pipe_slot(p, build, e->column);
	for (unsigned i = 0; i < e->count && p->error == 0; i++)
		read_condition(p, build, e->args[i]);
	return p->error;
}

/* The step and what it makes known. */
static int add_lookup(struct planner *p, struct pipe *probe, const struct join_spec *spec,
		      struct task_lookup *lookup)
{
	struct task_step *step;

	if (spec->condition) {
		/* Whatever it needs of the probing side must be there before the look-up. */
		lookup->condition = plan_expr(p, probe, spec->condition);
		if (!lookup->condition)
			return p->error;
	}
	step = pipe_add_step(p, probe, TASK_LOOKUP);
	if (!step)
		return p->error;
	step->lookup = *lookup;
	return 0;
}

int plan_lookup(struct planner *p, struct pipe *probe, struct pipe *build,
		const struct join_spec *spec)
{
	double matches = matches_expected(p, build, spec);
	struct task_lookup lookup = {
		.match = spec->match, .key_count = spec->key_count, .null_aware = spec->null_aware};
	unsigned *build_keys = key_slots(p, build, spec, true);
	int key = row_key(p, build, spec), *carried;
	unsigned count = carried_columns(p, spec, &carried);
	uint32_t row = TASK_NONE;
	struct cargo cargo;
	bool total;

	if (p->error == 0 && spec->condition)
		read_condition(p, build, spec->condition);
	if (p->error != 0 || pipe_pack(p, build, carried, count, &cargo) < 0)
		return p->error;
	lookup.keys = key_slots(p, probe, spec, false);
	if (p->error != 0)
		return p->error;
	if (key >= 0 && spec->match == TASK_INNER && !spec->condition && drop_row(build, &cargo)) {
		struct task_slot slot = task_slot_of_row(build->task->source.table);

		row = pipe_add_slot(p, probe, &slot);
	}
	total = is_total(p, probe, build, spec, &cargo, key, lookup.keys);
	if (!total) {
		/* A null of any row counts, not only of those near a row group's keys. */
		if (!spec->null_aware)
			plan_nest(p, probe, build, spec->keys, spec->key_count);
		lookup.task = close_build(p, build, spec, build_keys, &cargo);
	}
	if (p->error != 0 || bind_keys(p, probe, spec, lookup.keys) < 0 ||
	    bind_payload(p, probe, spec, &cargo, total ? NULL : p->tasks[lookup.task], row,
			 &lookup) < 0)
		return p->error;
	if (!total && add_lookup(p, probe, spec, &lookup) < 0)
		return p->error;
	if (row != TASK_NONE &&
	    row_from_key(p, probe, spec->keys[key].build, lookup.keys[key], row) < 0)
		return p->error;
	estimate(probe, build, spec, matches);
	return 0;
}
