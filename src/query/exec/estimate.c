/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes. A task over a table reads the chunks of its columns in the row groups that skip_group()
 * leaves, once. A nested task reads those that meet row groups of its parent, and the first one
 * again in each range of groups that a thread takes (exec_claim()). A fetch reads chunks of its
 * columns for each batch, unless its reader holds all of them. Where a structure may not fit its
 * share of the budget, all that is read as often as there may be passes.
 *
 * Memory is a sum of upper bounds: readers, decoders and registers of each thread, the structure
 * that the task makes from as many rows as there can be, and the results that are still needed.
 * What does not fit the budget is spilled or made in passes, so the bound never is above the
 * budget.
 */
#include "query/exec/estimate.h"
#include "query/spill/sort.h"
#include "query/exec/decode.h"
#include "query/exec/runner.h"
#include "query/exec/row_group_skip.h"
#include "query/task/slot.h"
#include "query/vec/prog/prog.h"

#include <math.h>
#include <stdlib.h>

#define TEXT_BLOCK    (256u << 10)
#define VECTOR	      (FTH_BATCH * 16.0 + FTH_BATCH / 8.0)
#define FETCH_GROUPS  2u	      /* that the reader of a fetch holds */
#define LOOKUP_FIXED  (256.0 * 1024)  /* scratch of one look-up */
#define RUNNER_FIXED  (128.0 * 1024)  /* frames, arena, channels */
#define GROUPER_FIXED (512.0 * 1024)  /* of a grouper, without groups */
#define BUILD_FIXED   (1024.0 * 1024) /* of a structure, without keys */

struct estimator {
	struct task_set *set;
	const struct estimate_options *options;
};

/* ---- rows ---- */

/* The most values of a slot, null included; infinite if nothing is known. */
static double most_values(const struct task *t, unsigned slot)
{
	const struct task_slot *s = &t->slots[slot];
	uint32_t column = t->source.kind == TASK_TABLE ? skip_column(t, slot) : TASK_NONE;
	const struct fth_table_facts *f;

	if (fth_type_is_int(s->type) && s->lo <= s->hi)
		return (double)(s->hi - s->lo) + 2;
	if (column == TASK_NONE)
		return INFINITY;
	f = fth_table_facts(t->source.table, column);
	return (f->flags & FTH_TABLE_ALL_CODES) != 0 ? f->dictionary + 1.0 : INFINITY;
}

/* The most groups that there can be: rows, or combinations of key values. */
static double most_groups(const struct task *t, const unsigned *keys, unsigned n, double rows)
{
	double combinations = 1;

	for (unsigned i = 0; i < n; i++)
		combinations *= most_values(t, keys[i]);
	return combinations < rows ? combinations : rows;
}

static bool multiplies(const struct task_set *set, const struct task *t)
{
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP &&
		    set->tasks[t->steps[i].lookup.task].reduce.kind == TASK_MULTIMAP)
			return true;
	return false;
}

/* Expected and most rows of the source; then the most rows of the result. */
static void estimate_rows(struct task_set *set, struct task *t, double *most)
{
	*most = t->source.kind == TASK_VALUES ? t->source.value_rows : 0;
	t->estimate.source_rows = *most;
	for (unsigned i = 0; i < t->source.input_count; i++) {
		*most += set->tasks[t->source.inputs[i]].estimate.rows_most;
		t->estimate.source_rows += set->tasks[t->source.inputs[i]].estimate.rows;
	}
	if (t->source.kind != TASK_TABLE && !multiplies(set, t) && *most < t->estimate.rows_most)
		t->estimate.rows_most = *most;
	if (t->reduce.kind == TASK_GROUP)
		t->estimate.rows_most =
			most_groups(t, t->reduce.keys, t->reduce.key_count, t->estimate.rows_most);
	if (t->estimate.rows > t->estimate.rows_most)
		t->estimate.rows = t->estimate.rows_most;
}

/* ---- bytes ---- */

static double group_bytes(const struct task *t, uint32_t group)
{
	double bytes = 0;

	for (unsigned i = 0; i < t->source.column_count; i++)
		bytes +=
			fth_table_chunk(t->source.table, t->source.columns[i].column, group)->bytes;
	return bytes;
}

static void table_bytes(const struct task *t, double *bytes, double *rows)
{
	const struct fth_table *table = t->source.table;

	for (uint32_t g = 0; g < fth_table_groups(table); g++) {
		if (skip_group(t, g))
			continue;
		*bytes += group_bytes(t, g);
		*rows += fth_table_group(table, g)->rows;
	}
}

/* Whether a row group of a nested task meets one of its parent. */
static bool is_met(const struct task *t, const struct task *parent, uint32_t group)
{
	const struct fth_table_chunk *mine = fth_table_chunk(t->source.table, t->key_column, group);

	for (uint32_t g = 0; g < fth_table_groups(parent->source.table); g++) {
		const struct fth_table_chunk *other =
			fth_table_chunk(parent->source.table, t->parent_column, g);

		if (other->min <= mine->max && mine->min <= other->max && !skip_group(parent, g))
			return true;
	}
	return false;
}

static void nested_bytes(const struct estimator *e, const struct task *t, double *bytes,
			 double *rows)
{
	const struct task *parent = &e->set->tasks[t->parent];
	uint32_t groups = fth_table_groups(parent->source.table);
	uint32_t claim = exec_claim(exec_threads(e->options->threads, groups), groups);
	double largest = 0;

	for (uint32_t g = 0; g < fth_table_groups(t->source.table); g++) {
		double of_group;

		if (skip_group(t, g) || !is_met(t, parent, g))
			continue;
		of_group = group_bytes(t, g);
		largest = of_group > largest ? of_group : largest;
		*bytes += of_group;
		*rows += fth_table_group(t->source.table, g)->rows;
	}
	*bytes += largest * (groups / claim);
}

static double fetch_bytes(const struct estimator *e, const struct task *t,
			  const struct task_fetch *f, double most)
{
	double column = 0, batches = ceil(most / FTH_BATCH) + 1;
	unsigned threads =
		t->source.kind != TASK_TABLE
			? 1
			: exec_threads(e->options->threads, fth_table_groups(t->source.table));

	for (unsigned i = 0; i < f->column_count; i++)
		column += (double)fth_table_facts(f->table, f->columns[i].column)->bytes;
	if (fth_table_groups(f->table) <= FETCH_GROUPS)
		return column * threads;
	return column * batches;
}

static void estimate_bytes(const struct estimator *e, struct task *t)
{
	double bytes = 0, rows = 0, most;

	estimate_rows(e->set, t, &most);
	if (t->source.kind == TASK_TABLE && t->nested)
		nested_bytes(e, t, &bytes, &rows);
	else if (t->source.kind == TASK_TABLE)
		table_bytes(t, &bytes, &rows);
	if (t->source.kind == TASK_TABLE)
		t->estimate.source_rows = most = rows;
	if (multiplies(e->set, t))
		most = INFINITY;
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_FETCH)
			bytes += fetch_bytes(e, t, &t->steps[i].fetch, most);
	t->estimate.bytes = bytes < 1e18 ? (uint64_t)bytes : UINT64_MAX;
}

/* ---- memory ---- */

/* Bytes of a value in a structure. */
static double slot_width(const struct task_slot *s)
{
	enum fth_phys type = FTH_I64;

	if (fth_type_is_text(s->type))
		return 32;
	if (fth_type_is_int(s->type))
		type = s->lo <= s->hi ? fth_phys_for(s->lo, s->hi) : FTH_I128;
	return fth_phys_width(type) + 1.0;
}

static double slots_width(const struct task *t, const unsigned *slots, unsigned n)
{
	double width = 0;

	for (unsigned i = 0; i < n; i++)
		width += slot_width(&t->slots[slots[i]]);
	return width;
}

static double decoder_bytes(const struct fth_table *table, unsigned column)
{
	const struct fth_table_facts *f = fth_table_facts(table, column);
	double bytes = (double)decoder_memory(table, column);

	/* Two blocks and the next one, with room to grow, and where each string begins. */
	if (fth_table_kind(&fth_table_schema(table)->column[column]) == FTH_TABLE_KIND_STRING)
		bytes += 4.0 * (TEXT_BLOCK + f->max_length) +
			 4.0 * FTH_TABLE_GROUP_ROWS * sizeof(uint32_t) +
			 FTH_TABLE_GROUP_ROWS / 6.0 * sizeof(struct fth_str);
	return bytes;
}

static double reader_bytes(struct fth_table *table, const struct task_source_column *columns,
			   unsigned n, unsigned depth)
{
	struct scan_spec spec = {.table = table, .count = n, .early = n, .depth = depth};
	unsigned *ordinals = malloc((n + 1) * sizeof(*ordinals));
	double bytes;

	if (!ordinals)
		return INFINITY;
	for (unsigned i = 0; i < n; i++)
		ordinals[i] = columns[i].column;
	spec.columns = ordinals;
	bytes = (double)scan_memory(&spec);
	for (unsigned i = 0; i < n; i++)
		bytes += decoder_bytes(table, columns[i].column);
	free(ordinals);
	return bytes;
}

static double program_bytes(const struct estimator *e, struct fth_expr *expr)
{
	struct fth_prog *prog;
	double bytes;

	if (!expr)
		return 0;
	if (fth_prog_compile(e->options->mem, &expr, 1, &prog) < 0)
		return INFINITY;
	bytes = (double)fth_prog_run_bound(prog) + 1024.0 * fth_prog_length(prog) + TEXT_BLOCK;
	fth_prog_free(prog);
	return bytes;
}

static double groups_bytes(const struct task *t, const struct task_aggregate *aggregates,
			   unsigned aggregate_count, const unsigned *keys, unsigned key_count,
			   double groups)
{
	double width = 24 + 2 * slots_width(t, keys, key_count);

	for (unsigned i = 0; i < aggregate_count; i++)
		width += 32 + slot_width(&aggregates[i].result);
	return GROUPER_FIXED + VECTOR * 4 * (key_count + aggregate_count) + 2 * groups * width;
}

/* Everything that one thread has for a step. */
static double step_bytes(const struct estimator *e, const struct task *t, const struct task_step *s)
{
	switch (s->kind) {
	case TASK_SELECT:
		return program_bytes(e, s->predicate);
	case TASK_COMPUTE:
		return program_bytes(e, s->compute.value);
	case TASK_LOOKUP:
		return LOOKUP_FIXED + program_bytes(e, s->lookup.condition) +
		       VECTOR * t->slot_count;
	case TASK_FETCH:
		return reader_bytes(s->fetch.table, s->fetch.columns, s->fetch.column_count,
				    FETCH_GROUPS) +
		       VECTOR * (s->fetch.column_count + 2) + (double)wait_bytes(t) +
		       FTH_BATCH * 1.0 *
			       fth_table_facts(s->fetch.table, s->fetch.columns[0].column)
				       ->max_length;
	case TASK_RUNS:
		return groups_bytes(t, s->runs.aggregates, s->runs.aggregate_count, s->runs.keys,
				    s->runs.key_count, FTH_TABLE_GROUP_ROWS);
	}
	return 0;
}

/* Rows and keys of a structure: as packed records, and while they are sorted in. */
static double structure_bytes(const struct task *t, double rows)
{
	const struct task_reduce *r = &t->reduce;
	double record =
		slots_width(t, r->keys, r->key_count) + slots_width(t, r->columns, r->column_count);

	return BUILD_FIXED + 2 * rows * (record + 16) + (double)task_payload_text(t);
}

static unsigned threads_of(const struct estimator *e, const struct task *t)
{
	return t->source.kind != TASK_TABLE
		       ? 1
		       : exec_threads(e->options->threads, fth_table_groups(t->source.table));
}

/* Rows in order; with a small limit each thread keeps as many as that. */
static double sort_bytes(const struct estimator *e, const struct task *t)
{
	const struct task_reduce *r = &t->reduce;
	double rows = t->estimate.rows_most, first = (double)r->limit + (double)r->offset;
	double record = slots_width(t, r->columns, r->column_count) + 16.0 * r->order_count;

	if (r->limit != UINT64_MAX && first <= SORTER_TOP_ROWS)
		return BUILD_FIXED +
		       threads_of(e, t) * (double)topk_bound((uint32_t)first, (uint32_t)record);
	return BUILD_FIXED + 3 * (first < rows ? first : rows) * (record + 16);
}

static double result_bytes(const struct estimator *e, const struct task *t)
{
	const struct task_reduce *r = &t->reduce;
	double rows = t->estimate.rows_most;

	switch (r->kind) {
	case TASK_GROUP:
		return groups_bytes(t, r->aggregates, r->aggregate_count, r->keys, r->key_count,
				    rows);
	case TASK_SORT:
		return sort_bytes(e, t);
	case TASK_OUTPUT:
		return BUILD_FIXED + rows * slots_width(t, r->columns, r->column_count);
	default:
		return structure_bytes(t, rows);
	}
}

static double thread_bytes(const struct estimator *e, const struct task *t);

/* A nested task, with the structure for one row group of its parent. */
static double nested_memory(const struct estimator *e, const struct task *t)
{
	double rows = 4.0 * FTH_TABLE_GROUP_ROWS, all = t->estimate.rows_most;

	return thread_bytes(e, t) + structure_bytes(t, rows < all ? rows : all);
}

static double thread_bytes(const struct estimator *e, const struct task *t)
{
	double bytes = RUNNER_FIXED + VECTOR * t->slot_count;

	if (t->source.kind == TASK_TABLE)
		bytes += reader_bytes(t->source.table, t->source.columns, t->source.column_count,
				      SCAN_DEPTH);
	for (unsigned i = 0; i < t->step_count; i++) {
		const struct task_step *s = &t->steps[i];

		bytes += step_bytes(e, t, s);
		if (s->kind == TASK_LOOKUP && e->set->tasks[s->lookup.task].nested)
			bytes += nested_memory(e, &e->set->tasks[s->lookup.task]);
	}
	return bytes;
}

/* Results of earlier tasks that this one or a later one uses. */
static double kept_bytes(const struct estimator *e, unsigned number)
{
	double bytes = 0;

	for (unsigned i = 0; i < number; i++) {
		const struct task *t = &e->set->tasks[i];

		if (!t->nested && (t->last_user == TASK_NONE || t->last_user >= number))
			bytes += result_bytes(e, t);
	}
	return bytes;
}

static void estimate_memory(const struct estimator *e, unsigned number)
{
	struct task *t = &e->set->tasks[number];
	unsigned threads = threads_of(e, t);
	double result = result_bytes(e, t), bytes;
	double rows = t->estimate.rows / (t->estimate.rows_most > 0 ? t->estimate.rows_most : 1);

	if (t->nested)
		bytes = nested_memory(e, t);
	else
		bytes = (double)e->options->base + threads * thread_bytes(e, t) + result +
			(t->reduce.kind == TASK_GROUP ? (threads - 1) * result : 0) +
			kept_bytes(e, number);
	t->estimate.memory =
		bytes < (double)e->options->budget ? (uint64_t)bytes : e->options->budget;
	/* Groups and sorts of the rows that are expected, beyond half of the budget. */
	result *= rows < 1 ? rows : 1;
	t->estimate.spill = 0;
	if ((t->reduce.kind == TASK_GROUP || t->reduce.kind == TASK_SORT) &&
	    result > (double)e->options->budget / 2 && result < 1e18)
		t->estimate.spill = (uint64_t)result;
}

/* ---- the least memory ---- */

/* The bytes that a look-up allocates when it opens: numbers of keys, places, pairs. */
#define LOOKUP_LEAST (FTH_BATCH * (8.0 + 8 + 4 + 4 + 2 + 4 + 4))

static double reader_least(struct fth_table *table, const struct task_source_column *columns,
			   unsigned n, unsigned depth)
{
	struct scan_spec spec = {.table = table, .count = n, .early = n, .depth = depth};
	unsigned *ordinals = malloc((n + 1) * sizeof(*ordinals));
	double bytes;

	if (!ordinals)
		return 0;
	for (unsigned i = 0; i < n; i++)
		ordinals[i] = columns[i].column;
	spec.columns = ordinals;
	bytes = (double)scan_memory(&spec);
	for (unsigned i = 0; i < n; i++)
		bytes += (double)decoder_memory(table, columns[i].column);
	free(ordinals);
	return bytes;
}

/* The bytes that one thread allocates before the first row, nested tasks included. */
static double task_least(const struct estimator *e, const struct task *t)
{
	double bytes = 0;

	if (t->source.kind == TASK_TABLE)
		bytes +=
			reader_least(t->source.table, t->source.columns, t->source.column_count, 1);
	for (unsigned i = 0; i < t->step_count; i++) {
		const struct task_step *s = &t->steps[i];

		if (s->kind == TASK_FETCH)
			bytes += reader_least(s->fetch.table, s->fetch.columns,
					      s->fetch.column_count, FETCH_GROUPS);
		if (s->kind != TASK_LOOKUP)
			continue;
		bytes += LOOKUP_LEAST;
		if (e->set->tasks[s->lookup.task].nested)
			bytes += task_least(e, &e->set->tasks[s->lookup.task]);
	}
	return bytes;
}

uint64_t estimate_least(const struct task_set *set, uint64_t base)
{
	struct estimator e = {(struct task_set *)set, NULL};
	double most = 0;

	for (unsigned i = 0; i < set->task_count; i++) {
		double bytes = task_least(&e, &set->tasks[i]);

		most = bytes > most ? bytes : most;
	}
	return base + (uint64_t)most;
}

/* ---- passes ---- */

/* Structures of the whole query that are there while a task's is: they share half of the budget. */
static unsigned structures_with(const struct estimator *e, unsigned number)
{
	uint32_t user = e->set->tasks[number].last_user;
	unsigned n = 0;

	for (unsigned i = 0; i < e->set->task_count; i++) {
		const struct task *t = &e->set->tasks[i];

		if (task_builds_structure(t) && !t->nested && i < user && t->last_user >= number)
			n++;
	}
	return n == 0 ? 1 : n;
}

/*
 * The parts in which a structure is built, at most: each is at least half of what its room allows.
 */
static double parts_of(const struct estimator *e, unsigned number)
{
	const struct task *t = &e->set->tasks[number];
	double half = ((double)e->options->budget - (double)e->options->base) / 2, need;
	struct task_slot columns[256];
	struct index_spec spec;

	if (t->nested || !task_builds_structure(t) || half <= 0)
		return 1;
	spec = result_index(t, columns);
	spec.room = (uint64_t)(half / structures_with(e, number));
	need = build_need(&spec, t->estimate.rows_most,
			  exec_threads(e->options->threads, UINT32_MAX)) +
	       (double)task_payload_text(t);
	return need <= (double)spec.room ? 1 : ceil(2 * need / (double)spec.room);
}

/* The rows of a structure that may be made by rank are read twice. */
static double runs_of(const struct estimator *e, unsigned number)
{
	const struct task *t = &e->set->tasks[number];
	double half = ((double)e->options->budget - (double)e->options->base) / 2;
	struct task_slot columns[256];
	struct index_spec spec;

	if (t->nested || !task_builds_structure(t) || half <= 0)
		return 1;
	spec = result_index(t, columns);
	spec.room = (uint64_t)(half / structures_with(e, number) / 2);
	return build_runs_twice(&spec, t->estimate.rows_most,
				exec_threads(e->options->threads, UINT32_MAX))
		       ? 2
		       : 1;
}

/* The product of the parts of everything that the task, or one nested in it, looks up in. */
static double passes_of(const struct estimator *e, const struct task *t)
{
	double passes = 1;

	for (unsigned i = 0; i < t->step_count; i++) {
		unsigned d = t->steps[i].lookup.task;

		if (t->steps[i].kind == TASK_LOOKUP)
			passes *= e->set->tasks[d].nested ? passes_of(e, &e->set->tasks[d])
							  : parts_of(e, d);
	}
	return passes;
}

static uint64_t times(uint64_t bytes, double n)
{
	double all = (double)bytes * n;

	return n <= 1 ? bytes : all < 1e18 ? (uint64_t)all : UINT64_MAX;
}

/* A structure is built again, and with it what is nested in its task. */
static void repeat_build(const struct estimator *e, struct task *t, double passes)
{
	t->estimate.bytes = times(t->estimate.bytes, passes);
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP &&
		    e->set->tasks[t->steps[i].lookup.task].nested)
			repeat_build(e, &e->set->tasks[t->steps[i].lookup.task], passes);
}

/*
 * A task reads everything once for each pass, and so do nested ones and those that build the parts.
 */
static void repeat_reads(const struct estimator *e, struct task *t, double passes)
{
	t->estimate.bytes = times(t->estimate.bytes, passes);
	t->estimate.passes = passes < UINT32_MAX ? (unsigned)passes : UINT32_MAX;
	for (unsigned i = 0; i < t->step_count; i++) {
		struct task *d = &e->set->tasks[t->steps[i].lookup.task];

		if (t->steps[i].kind != TASK_LOOKUP)
			continue;
		if (d->nested)
			repeat_reads(e, d, passes);
		else if (parts_of(e, t->steps[i].lookup.task) > 1)
			repeat_build(e, d, passes);
	}
}

int estimate_tasks(struct task_set *set, const struct estimate_options *options)
{
	struct estimator e = {set, options};

	for (unsigned i = 0; i < set->task_count; i++)
		estimate_bytes(&e, &set->tasks[i]);
	for (unsigned i = 0; i < set->task_count; i++)
		estimate_memory(&e, i);
	for (unsigned i = 0; i < set->task_count; i++)
		set->tasks[i].estimate.passes = 1;
	for (unsigned i = 0; i < set->task_count; i++)
		if (!set->tasks[i].nested)
			repeat_reads(&e, &set->tasks[i], passes_of(&e, &set->tasks[i]));
	for (unsigned i = 0; i < set->task_count; i++)
		repeat_build(&e, &set->tasks[i], runs_of(&e, i));
	return 0;
}
