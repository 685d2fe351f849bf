/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A row that is looked up belongs to one part of a structure, so rows, groups and sums need not
 * know of parts. Two things do, and are changed before the task runs:
 *
 *  - Groups of a RUNS step are complete when a row group is done, but with parts a group's rows
 *    come in several passes. The task is split there: the first half groups, the second goes on
 *    with the groups.
 *  - A nested task that looks up in parts builds only a part of its rows at a time. That is right
 *    for an inner join, where each pair of rows comes in one pass, but not where the absence of
 *    rows counts. Such a task is not nested any more: it is built before its parent runs.
 */
#include "query/exec/join_passes.h"

#include "query/task/slot.h"
#include "fathom/base/error.h"

#include <errno.h>

#define ROOM_MIN (128u << 10)
/* Runs of tasks, beyond three for each, up to which passes that multiply are accepted. */
#define RUNS_FEW 16u

/* ---- what a task looks up in ---- */

/* Whether a task, or one that is nested in it, looks up in a structure. */
static bool looks_up(const struct exec *e, unsigned number, uint32_t structure)
{
	const struct task *t = &e->tasks[number];

	for (unsigned i = 0; i < t->step_count; i++) {
		uint32_t d = t->steps[i].lookup.task;

		if (t->steps[i].kind == TASK_LOOKUP &&
		    (e->tasks[d].nested ? looks_up(e, d, structure) : d == structure))
			return true;
	}
	return false;
}

/* The part of a structure that a task expects. */
struct place {
	uint32_t structure;
	uint64_t from, to; /* to: 0 if any is right */
};

/*
 * All structures of a task and of tasks nested in it, each once, in the order of their first
 * look-ups.
 */
struct places {
	unsigned count, room;
	struct place *at;
};

static unsigned count_lookups(const struct exec *e, unsigned number)
{
	const struct task *t = &e->tasks[number];
	unsigned n = 0;

	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP)
			n += e->tasks[t->steps[i].lookup.task].nested
				     ? count_lookups(e, t->steps[i].lookup.task)
				     : 1;
	return n;
}

static void add_places(const struct exec *e, unsigned number, struct places *p)
{
	const struct task *t = &e->tasks[number];

	for (unsigned i = 0; i < t->step_count; i++) {
		uint32_t d = t->steps[i].lookup.task;
		bool known = false;

		if (t->steps[i].kind != TASK_LOOKUP)
			continue;
		if (e->tasks[d].nested) {
			add_places(e, d, p);
			continue;
		}
		for (unsigned k = 0; k < p->count && !known; k++)
			known = p->at[k].structure == d;
		if (!known)
			p->at[p->count++] = (struct place){.structure = d};
	}
}

static int places_open(const struct exec *e, unsigned number, struct places *p)
{
	*p = (struct places){.room = count_lookups(e, number)};
	if (p->room == 0)
		return 0;
	p->at = fth_qmem_alloc(e->mem, p->room * sizeof(*p->at));
	if (!p->at)
		return -ENOMEM;
	add_places(e, number, p);
	return 0;
}

static void places_close(const struct exec *e, struct places *p)
{
	fth_qmem_free(e->mem, p->at, p->room * sizeof(*p->at));
}

static bool is_partial(const struct exec *e, uint32_t structure)
{
	const struct index *x = e->results[structure].index;

	return x && (index_from(x) != 0 || index_to(x) != UINT64_MAX);
}

/* Whether a step looks up in parts, by itself or in the task nested there. */
static bool step_uses_parts(const struct exec *e, const struct task_step *s)
{
	if (s->kind != TASK_LOOKUP)
		return false;
	return e->tasks[s->lookup.task].nested ? pass_uses_parts(e, s->lookup.task)
					       : is_partial(e, s->lookup.task);
}

bool pass_uses_parts(const struct exec *e, unsigned number)
{
	const struct task *t = &e->tasks[number];

	for (unsigned i = 0; i < t->step_count; i++)
		if (step_uses_parts(e, &t->steps[i]))
			return true;
	return false;
}

/* ---- memory ---- */

uint32_t pass_last_user(const struct exec *e, unsigned number)
{
	uint32_t user = e->tasks[number].last_user;

	while (user != TASK_NONE && (e->tasks[user].nested || user > e->last))
		user = e->tasks[user].nested ? e->tasks[user].parent : e->tasks[user].last_user;
	/* The inputs of a structure with parts are needed again for its next part. */
	if (user != TASK_NONE && is_partial(e, user))
		return pass_last_user(e, user);
	return user;
}

/* The bytes that a structure will take, by the planner's estimate. */
static uint64_t expected_bytes(const struct task *t)
{
	double bytes = 4096;

	for (unsigned i = 0; i < t->result_count; i++)
		bytes += t->estimate.rows * 4;
	return (uint64_t)(bytes + t->estimate.rows * 2) + task_payload_text(t);
}

uint64_t pass_room(const struct exec *e, unsigned number)
{
	uint32_t user = pass_last_user(e, number);
	uint64_t used = 0, expected = 0, left, room;
	unsigned unbuilt = 1;

	for (unsigned i = 0; i < e->task_count; i++)
		if (e->results[i].index) {
			used += index_bytes(e->results[i].index);
		} else if (i != number && user != TASK_NONE && looks_up(e, user, i)) {
			expected += expected_bytes(&e->tasks[i]);
			unbuilt++;
		}
	left = used < e->structures ? e->structures - used : 0;
	room = left / unbuilt;
	if (left > expected && left - expected > room)
		room = left - expected;
	if (e->limits[number] != 0 && room > e->limits[number])
		room = e->limits[number];
	return room < ROOM_MIN ? ROOM_MIN : room;
}

int pass_shrink(struct exec *e, unsigned number, uint64_t least)
{
	uint64_t most = least > ROOM_MIN ? least : ROOM_MIN;
	uint32_t largest = TASK_NONE;

	for (unsigned i = 0; i < e->task_count; i++) {
		const struct index *x = e->results[i].index;

		if (x && index_bytes(x) > most && looks_up(e, number, i)) {
			most = index_bytes(x);
			largest = i;
		}
	}
	if (largest == TASK_NONE)
		return -ENOMEM;
	e->limits[largest] = most / 2;
	exec_release(e, largest);
	return exec_task(e, largest, 0);
}

/* ---- parts ---- */

uint64_t pass_to(const struct exec *e, unsigned number, uint64_t from)
{
	uint64_t span = e->spans[number];

	return span == 0 || span > UINT64_MAX - from ? UINT64_MAX : from + span;
}

static int rebuild(struct exec *e, uint32_t structure, uint64_t from)
{
	exec_release(e, structure);
	return exec_task(e, structure, from);
}

static bool is_in_place(const struct exec *e, const struct place *place)
{
	const struct index *x = e->results[place->structure].index;

	return x && index_from(x) == place->from && (place->to == 0 || index_to(x) == place->to);
}

/*
 * What was built last may have been built from others of these structures, and has moved them
 * through their parts: bring them back. -ENOMEM if that is not possible: passes over other parts
 * would lose rows.
 */
static int keep_in_place(struct exec *e, const struct places *p)
{
	int rc = 0;

	for (unsigned tries = 0; tries <= p->count && rc == 0; tries++) {
		const struct place *x;
		unsigned i = 0;

		while (i < p->count && is_in_place(e, &p->at[i]))
			i++;
		if (i == p->count)
			return 0;
		x = &p->at[i];
		if (x->to != 0)
			e->spans[x->structure] = x->to - x->from;
		rc = rebuild(e, x->structure, x->from);
	}
	return rc < 0 ? rc : -ENOMEM;
}

/* ---- too many passes ---- */

static bool is_large(const struct exec *e, uint32_t structure)
{
	return e->large[exec_origin(e, structure)];
}

static void note_large(struct exec *e, const struct places *p)
{
	for (unsigned i = 0; i < p->count; i++)
		if (is_partial(e, p->at[i].structure))
			e->large[exec_origin(e, p->at[i].structure)] = true;
}

/*
 * Whether a part of one structure is followed by all parts of another: there are two, or one is
 * made from another.
 */
static bool multiplies(const struct exec *e, const struct places *p)
{
	unsigned parts = 0;

	for (unsigned i = 0; i < p->count; i++) {
		uint32_t structure = p->at[i].structure;

		if (!is_partial(e, structure))
			continue;
		parts++;
		for (unsigned k = 0; k < e->task_count; k++)
			parts += looks_up(e, structure, k) && is_large(e, k);
	}
	return parts > 1;
}

static bool is_too_many(struct exec *e, const struct places *p)
{
	note_large(e, p);
	return e->runs > 3 * e->task_count + RUNS_FEW && e->thrift != EXEC_FRUGAL && !e->emitted &&
	       !e->options->once && multiplies(e, p);
}

/*
 * Structure `at` goes on to its next part; those before it begin again, those behind it stay where
 * they are.
 */
static int next_parts(struct exec *e, const struct places *p, unsigned at)
{
	int rc = 0;

	for (unsigned i = 0; i < p->count; i++) {
		struct place *x = &p->at[i];
		const struct index *index = e->results[x->structure].index;

		x->from = i < at ? 0 : i == at ? index_to(index) + 1 : index_from(index);
		x->to = i > at ? index_to(index) : 0;
	}
	for (unsigned i = 0; i < at && rc == 0; i++)
		if (index_from(e->results[p->at[i].structure].index) != 0)
			rc = rebuild(e, p->at[i].structure, 0);
	if (rc == 0)
		rc = rebuild(e, p->at[at].structure, p->at[at].from);
	return rc < 0 ? rc : keep_in_place(e, p);
}

int pass_next(struct exec *e, unsigned number)
{
	struct places p;
	unsigned at = 0;
	int rc = places_open(e, number, &p);

	if (rc < 0)
		return rc;
	while (at < p.count && index_to(e->results[p.at[at].structure].index) == UINT64_MAX)
		at++;
	if (at < p.count)
		rc = is_too_many(e, &p) ? PASS_TOO_MANY : next_parts(e, &p, at);
	places_close(e, &p);
	return rc < 0 ? rc : at < p.count;
}

/* ---- changing a task ---- */

static int own_nested(struct exec *e, uint32_t nested)
{
	e->tasks[nested].nested = false;
	return exec_task(e, nested, 0);
}

int pass_unnest(struct exec *e, unsigned number)
{
	const struct task *t = &e->tasks[number];
	int rc = -ENOMEM;

	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP && e->tasks[t->steps[i].lookup.task].nested) {
			rc = own_nested(e, t->steps[i].lookup.task);
			if (rc < 0)
				return rc;
		}
	return rc;
}

static bool runs_after_parts(const struct exec *e, const struct task *t, unsigned *at)
{
	bool parts = t->source.kind != TASK_TABLE;

	for (*at = 0; *at < t->step_count; ++*at) {
		if (t->steps[*at].kind == TASK_RUNS && parts)
			return true;
		parts = parts || step_uses_parts(e, &t->steps[*at]);
	}
	return false;
}

static int free_nested(struct exec *e, unsigned number)
{
	const struct task *t = &e->tasks[number];
	unsigned at;
	int rc = 0;

	for (unsigned i = 0; i < t->step_count && rc == 0; i++) {
		const struct task_lookup *l = &t->steps[i].lookup;

		if (t->steps[i].kind != TASK_LOOKUP || !e->tasks[l->task].nested)
			continue;
		if (t->source.kind != TASK_TABLE ||
		    (pass_uses_parts(e, l->task) &&
		     (l->match != TASK_INNER || runs_after_parts(e, &e->tasks[l->task], &at))))
			rc = own_nested(e, l->task);
	}
	return rc;
}

/* The first half: groups instead of runs. */
static int make_grouping(struct exec *e, struct task *first, const struct task_runs *runs)
{
	unsigned n = runs->key_count + runs->aggregate_count;
	struct task_slot *result = fth_arena_alloc(&e->arena, (n + 1) * sizeof(*result), 16);

	if (!result)
		return -ENOMEM;
	first->reduce = (struct task_reduce){.kind = TASK_GROUP,
					     .key_count = runs->key_count,
					     .keys = runs->keys,
					     .aggregate_count = runs->aggregate_count,
					     .aggregates = runs->aggregates,
					     .grouped = true,
					     .limit = UINT64_MAX};
	for (unsigned i = 0; i < runs->key_count; i++)
		result[i] = first->slots[runs->keys[i]];
	for (unsigned i = 0; i < runs->aggregate_count; i++)
		result[runs->key_count + i] = runs->aggregates[i].result;
	first->result = result;
	first->result_count = n;
	return 0;
}

/* The second half: its source are the groups. */
static int make_rest(struct exec *e, struct task *rest, const struct task_runs *runs, unsigned at,
		     uint32_t input)
{
	unsigned n = runs->key_count + runs->aggregate_count;
	struct task_source_column *columns =
		fth_arena_alloc(&e->arena, (n + 1) * sizeof(*columns), 16);
	uint32_t *inputs = fth_arena_alloc(&e->arena, sizeof(*inputs), 16);

	if (!columns || !inputs)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		columns[i] = (struct task_source_column){
			i, i < runs->key_count ? runs->key_slots[i]
					       : runs->slots[i - runs->key_count]};
	*inputs = input;
	rest->source = (struct task_source){.kind = TASK_ROWS,
					    .input_count = 1,
					    .inputs = inputs,
					    .column_count = n,
					    .columns = columns,
					    .row_slot = TASK_NONE};
	rest->steps += at + 1;
	rest->step_count -= at + 1;
	return 0;
}

static int split_at(struct exec *e, unsigned number, unsigned at)
{
	struct task *t = &e->tasks[number];
	const struct task_runs *runs = &t->steps[at].runs;
	uint32_t made = e->task_count;
	struct task first = *t;
	int rc;

	if (made == e->task_room)
		return fth_fail(EOPNOTSUPP, "a task has too many grouping steps");
	first.step_count = at;
	first.nested = false;
	first.last_user = number;
	rc = make_grouping(e, &first, runs);
	for (unsigned i = 0; i < at && rc == 0; i++)
		if (t->steps[i].kind == TASK_LOOKUP && e->tasks[t->steps[i].lookup.task].nested)
			e->tasks[t->steps[i].lookup.task].parent = made;
	if (rc == 0)
		rc = make_rest(e, t, runs, at, made);
	if (rc < 0)
		return rc;
	e->tasks[made] = first;
	e->task_count++;
	return exec_task(e, made, 0);
}

/* ---- all that a task needs ---- */

static int make_inputs(struct exec *e, unsigned number)
{
	const struct task_source *s = &e->tasks[number].source;
	struct places p;
	int rc = places_open(e, number, &p);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < s->input_count && rc == 0; i++)
		if (!e->results[s->inputs[i]].done)
			rc = exec_task(e, s->inputs[i], 0);
	for (unsigned i = 0; i < p.count && rc == 0; i++) {
		uint32_t structure = p.at[i].structure;

		if (!e->results[structure].index)
			rc = exec_task(e, structure, 0);
		else if (index_from(e->results[structure].index) != 0)
			rc = rebuild(e, structure, 0);
	}
	if (rc == 0)
		rc = keep_in_place(e, &p);
	places_close(e, &p);
	return rc;
}

int pass_restart(struct exec *e, unsigned number)
{
	return make_inputs(e, number);
}

int pass_prepare(struct exec *e, unsigned number)
{
	unsigned at;
	int rc = make_inputs(e, number);

	if (rc == 0)
		rc = free_nested(e, number);
	if (rc == 0 && runs_after_parts(e, &e->tasks[number], &at)) {
		rc = split_at(e, number, at);
		return rc < 0 ? rc : pass_prepare(e, number);
	}
	if (rc == 0 && hold_wanted(e, number, &at)) {
		rc = hold_split(e, number, at);
		return rc <= 0 ? rc : pass_prepare(e, number);
	}
	return rc;
}
