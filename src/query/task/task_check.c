/* SPDX-License-Identifier: BSD-2-Clause */
/* Verifying the invariants of a task set (task.h). */
#include "query/task/task.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the executor. */
#define KEYS_MAX    64u
#define COLUMNS_MAX 256u

struct check {
	const struct task_set *set;
	unsigned number;
	const struct task *task;
	bool *made;  /* by slot */
	bool *there; /* made, and not gone since */
};

static int broken(const struct check *c, const char *what)
{
	return fth_fail(EINVAL, "task %u (%s): %s", c->number, c->task->name, what);
}

static int make(struct check *c, uint32_t slot)
{
	if (slot >= c->task->slot_count)
		return broken(c, "slot number out of range");
	if (c->made[slot])
		return broken(c, "a slot is assigned twice");
	c->made[slot] = c->there[slot] = true;
	return 0;
}

static int use(struct check *c, uint32_t slot)
{
	if (slot >= c->task->slot_count)
		return broken(c, "slot number out of range");
	return c->there[slot] ? 0 : broken(c, "a slot is used before it is assigned");
}

static int use_all(struct check *c, const unsigned *slots, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = use(c, slots[i]);
	return rc;
}

static int use_expr(struct check *c, const struct fth_expr *e)
{
	int rc = 0;

	if (!e)
		return broken(c, "an expression is missing");
	if (e->kind == FTH_EXPR_COLUMN)
		return use(c, e->column);
	for (unsigned i = 0; i < e->nargs && e->kind == FTH_EXPR_CALL && rc == 0; i++)
		rc = use_expr(c, e->args[i]);
	return rc;
}

static int check_source(struct check *c)
{
	const struct task_source *s = &c->task->source;
	int rc = 0;

	if (s->kind == TASK_ROWS && s->input_count == 0)
		return broken(c, "its list of input tasks is empty");
	for (unsigned i = 0; i < s->input_count; i++) {
		if (s->inputs[i] >= c->number)
			return broken(c, "it reads the result of a later task");
		if (task_builds_structure(&c->set->tasks[s->inputs[i]]))
			return broken(c, "it reads a set or map as rows");
	}
	for (unsigned i = 0; i < s->column_count && rc == 0; i++) {
		for (unsigned k = 0; k < s->input_count; k++)
			if (s->columns[i].column >= c->set->tasks[s->inputs[k]].result_count)
				return broken(
					c, "it reads a column that the input result does not have");
		if (s->kind == TASK_TABLE &&
		    s->columns[i].column >= fth_table_schema(s->table)->columns)
			return broken(c, "it reads a column that the table does not have");
		rc = make(c, s->columns[i].slot);
	}
	return rc < 0 || s->row_slot == TASK_NONE ? rc : make(c, s->row_slot);
}

/* Both are integers of one scale, text, or of one other type. */
static bool same_keys(struct fth_type a, struct fth_type b)
{
	unsigned a_scale = a.kind == FTH_T_DECIMAL ? a.scale : 0;
	unsigned b_scale = b.kind == FTH_T_DECIMAL ? b.scale : 0;

	if (fth_type_is_int(a) && fth_type_is_int(b))
		return a_scale == b_scale;
	return a.kind == b.kind || (fth_type_is_text(a) && fth_type_is_text(b));
}

static int check_lookup(struct check *c, const struct task_lookup *l)
{
	const struct task *built;
	int rc;

	if (l->task >= c->number)
		return broken(c, "it looks up in the result of a later task");
	built = &c->set->tasks[l->task];
	if (!task_builds_structure(built))
		return broken(c, "it looks up in a result that is not a set or map");
	if (built->reduce.key_count != l->key_count)
		return broken(c, "a look-up has a different number of keys than its structure");
	if (built->reduce.kind == TASK_SET && l->condition)
		return broken(c, "a look-up in a set has a condition");
	if (l->null_aware &&
	    (l->match != TASK_ANTI || l->key_count != 1 || l->condition || built->nested))
		return broken(c, "a look-up other than NOT IN matches nulls");
	if (built->nested && built->parent != c->number)
		return broken(c, "it looks up in a task that is nested in another task");
	rc = use_all(c, l->keys, l->key_count);
	for (unsigned i = 0; i < l->key_count && rc == 0; i++)
		if (!same_keys(c->task->slots[l->keys[i]].type,
			       built->slots[built->reduce.keys[i]].type))
			return broken(c,
				      "a look-up has keys of different types than its structure");
	for (unsigned i = 0; i < l->payload_count && rc == 0; i++) {
		if (l->payload[i] >= built->result_count)
			return broken(c, "a look-up reads a payload column that its structure does "
					 "not have");
		rc = make(c, l->slots[i]);
	}
	return rc < 0 || !l->condition ? rc : use_expr(c, l->condition);
}

static int check_aggregates(struct check *c, const struct task_aggregate *a, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++)
		if (a[i].op != TASK_COUNT_ROWS)
			rc = use(c, a[i].slot);
	return rc;
}

/* A column of the source's table with a fact, in this slot. */
static bool is_proved(const struct task *t, unsigned slot, uint32_t fact)
{
	const struct task_source *s = &t->source;

	for (unsigned i = 0; i < s->column_count && s->kind == TASK_TABLE; i++)
		if (s->columns[i].slot == slot)
			return (fth_table_facts(s->table, s->columns[i].column)->flags & fact) != 0;
	return false;
}

static int check_runs(struct check *c, const struct task_runs *r)
{
	int rc = use_all(c, r->keys, r->key_count);

	if (rc == 0 && (r->key_count == 0 || !is_proved(c->task, r->keys[0], FTH_TABLE_WHOLE_RUNS)))
		return broken(c, "runs are grouped by a key whose runs may cross row groups");
	for (unsigned i = 0; i < r->aggregate_count; i++)
		if (r->aggregates[i].distinct)
			return broken(c, "DISTINCT aggregates over runs are not supported");
	if (rc == 0)
		rc = check_aggregates(c, r->aggregates, r->aggregate_count);
	/* Slots from before the RUNS step have no value any more, but stay assigned. */
	memset(c->there, 0, c->task->slot_count * sizeof(*c->there));
	for (unsigned i = 0; i < r->key_count && rc == 0; i++)
		rc = make(c, r->key_slots[i]);
	for (unsigned i = 0; i < r->aggregate_count && rc == 0; i++)
		rc = make(c, r->slots[i]);
	return rc;
}

static int check_step(struct check *c, const struct task_step *s)
{
	int rc;

	switch (s->kind) {
	case TASK_SELECT:
		return use_expr(c, s->predicate);
	case TASK_COMPUTE:
		rc = use_expr(c, s->compute.value);
		return rc < 0 ? rc : make(c, s->compute.slot);
	case TASK_LOOKUP:
		return check_lookup(c, &s->lookup);
	case TASK_FETCH:
		rc = use(c, s->fetch.row_slot);
		for (unsigned i = 0; i < s->fetch.column_count && rc == 0; i++)
			rc = make(c, s->fetch.columns[i].slot);
		return rc;
	case TASK_RUNS:
		return check_runs(c, &s->runs);
	}
	return broken(c, "a step has an unknown kind");
}

static int check_reduce(struct check *c)
{
	const struct task_reduce *r = &c->task->reduce;
	int rc = use_all(c, r->keys, r->key_count);

	if (rc == 0)
		rc = use_all(c, r->columns, r->column_count);
	if (rc == 0)
		rc = check_aggregates(c, r->aggregates, r->aggregate_count);
	for (unsigned i = 0; i < r->order_count && rc == 0; i++)
		rc = use(c, r->order[i].slot);
	return rc;
}

static bool is_sorted(const struct task *t, unsigned column)
{
	return t->source.kind == TASK_TABLE &&
	       column < fth_table_schema(t->source.table)->columns &&
	       (fth_table_facts(t->source.table, column)->flags & FTH_TABLE_SORTED) != 0;
}

/* How many look-ups of a task are in the structure of another one. */
static unsigned lookups_in(const struct task *t, unsigned structure)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->step_count; i++)
		n += t->steps[i].kind == TASK_LOOKUP && t->steps[i].lookup.task == structure;
	return n;
}

static bool reads_column(const struct task *t, unsigned column)
{
	for (unsigned i = 0; i < t->source.column_count; i++)
		if (t->source.columns[i].column == column)
			return true;
	return false;
}

static int check_nested(const struct check *c)
{
	const struct task *t = c->task, *parent;

	if (!t->nested)
		return 0;
	if (t->source.kind != TASK_TABLE || !task_builds_structure(t))
		return broken(c, "a nested task does not build a structure from a table");
	if (t->parent <= c->number || t->parent >= c->set->task_count)
		return broken(c, "it is nested in an earlier task or in none of this set");
	parent = &c->set->tasks[t->parent];
	if (parent->nested || lookups_in(parent, c->number) != 1)
		return broken(c, "it is nested in a task that does not look up in it exactly once");
	if (!is_sorted(t, t->key_column) || !is_sorted(parent, t->parent_column))
		return broken(c, "a nested task has a key that is not proved to be sorted");
	if (!reads_column(t, t->key_column))
		return broken(c, "a nested task does not read its key");
	return 0;
}

static int check_counts(const struct check *c)
{
	const struct task *t = c->task;
	const struct task_reduce *r = &t->reduce;
	bool last = c->number + 1 == c->set->task_count;

	if (last && (r->kind != TASK_OUTPUT || t->nested))
		return broken(c, "the last task does not end with output");
	if (r->key_count > KEYS_MAX)
		return broken(c, "it has more than 64 keys");
	if (t->source.column_count > COLUMNS_MAX ||
	    r->key_count + r->column_count + r->order_count + r->aggregate_count > COLUMNS_MAX)
		return broken(c, "it has more than 256 columns");
	return 0;
}

static int check_task(struct check *c)
{
	int rc = check_counts(c);

	if (rc == 0)
		rc = check_nested(c);
	if (rc == 0)
		rc = check_source(c);
	for (unsigned i = 0; i < c->task->step_count && rc == 0; i++)
		rc = check_step(c, &c->task->steps[i]);
	return rc < 0 ? rc : check_reduce(c);
}

int task_check(const struct task_set *set)
{
	int rc = 0;

	if (set->task_count == 0)
		return fth_fail(EINVAL, "the task set has no tasks");
	for (unsigned t = 0; t < set->task_count && rc == 0; t++) {
		struct check c = {set, t, &set->tasks[t], NULL, NULL};

		c.made = calloc(2 * (size_t)c.task->slot_count + 2, sizeof(*c.made));
		if (!c.made)
			return -ENOMEM;
		c.there = c.made + c.task->slot_count + 1;
		rc = check_task(&c);
		free(c.made);
	}
	return rc;
}
