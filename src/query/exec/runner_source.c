/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the rows of a task come from: row groups of a table, rows of earlier results, constants. */
#include "query/exec/runner.h"
#include "query/exec/row_group_skip.h"
#include "query/task/slot_use.h"

#include "fathom/base/error.h"

#include <errno.h>

int runner_stopped(const struct runner *r)
{
	const atomic_bool *cancel = r->exec->options->cancel;

	if (atomic_load_explicit(&r->exec->stop, memory_order_relaxed) ||
	    (cancel && atomic_load_explicit(cancel, memory_order_relaxed)))
		return fth_fail(ECANCELED, "the query was canceled");
	/* relaxed: the count orders nothing; a thread that sees it late gives a few rows more. */
	return r->limit && atomic_load_explicit(&r->limit->taken, memory_order_relaxed) >=
				       r->limit->wanted
		       ? RUNNER_ENOUGH
		       : 0;
}

bool runner_limited(const struct task *t)
{
	return t->reduce.kind == TASK_SORT && t->reduce.order_count == 0 &&
	       t->reduce.limit != UINT64_MAX;
}

/* ---- opening ---- */

/*
 * In so many row groups one after the other the late columns were used: the next is read at once.
 */
#define LATE_STREAK 3u

static bool removes_rows(const struct task_step *s)
{
	return s->kind == TASK_SELECT || (s->kind == TASK_LOOKUP && s->lookup.match != TASK_LEFT &&
					  s->lookup.match != TASK_SINGLE);
}

/*
 * The slots that the first steps use, up to the last of those that remove rows; all without such
 * steps.
 */
static void mark_early(const struct task *t, bool *early)
{
	unsigned end = 0;

	for (unsigned i = 0; i < t->step_count; i++) {
		if (removes_rows(&t->steps[i]))
			end = i + 1;
		else if (t->steps[i].kind != TASK_COMPUTE)
			break;
	}
	memset(early, end == 0, t->slot_count);
	for (unsigned i = 0; i < end; i++)
		step_uses(&t->steps[i], early);
}

/* Early columns come first in the reader. */
static int place_columns(struct runner *r, unsigned *columns)
{
	const struct task_source *s = &r->task->source;
	bool *early = fth_arena_alloc(&r->arena, r->task->slot_count + 1, 1);
	unsigned n = 0;

	if (!early)
		return -ENOMEM;
	mark_early(r->task, early);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < s->column_count; i++) {
			bool key = r->task->nested && s->columns[i].column == r->task->key_column;

			if ((early[s->columns[i].slot] || key) != (pass == 0))
				continue;
			if (key)
				r->key_source = i;
			r->positions[i] = n;
			columns[n++] = s->columns[i].column;
		}
		if (pass == 0)
			r->scan.early = n;
	}
	return 0;
}

int runner_open_source(struct runner *r)
{
	const struct task_source *s = &r->task->source;
	unsigned count = s->column_count;
	unsigned *columns = fth_arena_alloc(&r->arena, (count + 1) * sizeof(*columns), 16);
	int rc;

	r->positions = fth_arena_alloc(&r->arena, (count + 1) * sizeof(*r->positions), 16);
	r->decoders = fth_arena_alloc(&r->arena, (count + 1) * sizeof(struct decoder *), 16);
	if (!columns || !r->positions || !r->decoders)
		return -ENOMEM;
	memset(r->decoders, 0, (count + 1) * sizeof(struct decoder *));
	if (s->kind != TASK_TABLE)
		return 0;
	r->scan = (struct scan_spec){.table = s->table,
				     .count = count,
				     .columns = columns,
				     .depth = SCAN_DEPTH,
				     .cancel = {&r->exec->stop, r->exec->options->cancel}};
	rc = place_columns(r, columns);
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = decoder_open(r->mem, s->table, s->columns[i].column,
				  r->task->slots[s->columns[i].slot].type, &r->decoders[i]);
	if (rc == 0 && r->task->nested) {
		r->nested_keys = fth_qmem_alloc(r->mem, FTH_BATCH * sizeof(*r->nested_keys));
		rc = r->nested_keys ? 0 : -ENOMEM;
	}
	if (rc == 0 && s->row_slot != TASK_NONE) {
		r->row_numbers = fth_qmem_alloc(r->mem, FTH_BATCH * sizeof(*r->row_numbers));
		rc = r->row_numbers ? 0 : -ENOMEM;
	}
	/* Reading far ahead is worth no more than a part of the memory. */
	while (rc == 0 && r->scan.depth > 1 && scan_memory(&r->scan) > r->exec->structures / 6)
		r->scan.depth--;
	return rc < 0 ? rc : scan_open(&r->scan, r->mem, &r->reader);
}

int runner_decode(struct runner *r, unsigned column)
{
	unsigned slot = r->task->source.columns[column].slot, at = r->positions[column];
	int rc = 0;

	if (at >= r->scan.early) {
		r->late_used = true;
		if (!scan_has(r->group, at))
			rc = scan_late(r->reader, r->group);
	}
	if (rc == 0)
		rc = decoder_run(r->decoders[column], &r->group->pages[at], r->group->images[at],
				 r->from, r->to, &r->frame.vecs[slot]);
	r->frame.have[slot] = rc == 0;
	return rc;
}

/* ---- nested tasks ---- */

struct group_walk {
	uint32_t next, end;
};

static uint32_t next_in_walk(void *user)
{
	struct group_walk *w = user;

	return w->next < w->end ? w->next++ : UINT32_MAX;
}

/* The row groups of a table whose values of a sorted column meet [lo, hi]. */
static struct group_walk groups_within(const struct fth_table *table, unsigned column, int64_t lo,
				       int64_t hi)
{
	uint32_t n = fth_table_groups(table), from = 0, to = n;
	struct group_walk w;

	while (from < to) { /* the first whose largest value is not below lo */
		uint32_t mid = from + (to - from) / 2;

		if (fth_table_chunk(table, column, mid)->max < lo)
			from = mid + 1;
		else
			to = mid;
	}
	w.next = w.end = from;
	while (w.end < n && fth_table_chunk(table, column, w.end)->min <= hi)
		w.end++;
	return w;
}

static void narrow_slot(struct task_slot *slot, int64_t lo, int64_t hi)
{
	fth_i128 low = slot->lo > lo ? slot->lo : lo, high = slot->hi < hi ? slot->hi : hi;

	if (slot->lo > slot->hi) { /* no range was known */
		low = lo;
		high = hi;
	}
	if (low <= high) {
		slot->lo = low;
		slot->hi = high;
	}
}

/*
 * Only keys of [lo, hi] are built, so a bitmap need not be larger. A key outside of it finds
 * nothing, as its number is out of range.
 */
static void narrow_keys(const struct task *t, struct task_slot *columns, int64_t lo, int64_t hi)
{
	for (unsigned i = 0; i < t->source.column_count; i++)
		for (unsigned k = 0; k < t->reduce.key_count; k++)
			if (t->source.columns[i].column == t->key_column &&
			    t->reduce.keys[k] == t->source.columns[i].slot)
				narrow_slot(&columns[k], lo, hi);
}

/* Build the structure of a nested task for one row group of its parent. */
static int build_nested(struct runner *r, unsigned at, bool sieved)
{
	struct step_state *s = &r->steps[at];
	struct runner *n = s->nested;
	const struct fth_table_chunk *chunk =
		fth_table_chunk(r->task->source.table, n->task->parent_column, r->group->group);
	struct group_walk walk =
		groups_within(n->task->source.table, n->task->key_column, chunk->min, chunk->max);
	struct index_spec spec;
	struct index *index = NULL;
	struct build *build;
	int rc;

	index_free((struct index *)s->index);
	s->index = NULL;
	if (!n->column_slots) {
		n->column_slots = fth_arena_alloc(&n->arena, 256 * sizeof(*n->column_slots), 16);
		if (!n->column_slots)
			return -ENOMEM;
	}
	spec = result_index(n->task, n->column_slots);
	spec.alone = true;
	spec.rows = n->task->estimate.rows / fth_table_groups(r->task->source.table);
	narrow_keys(n->task, n->column_slots, chunk->min, chunk->max);
	rc = build_open(r->mem, &spec, &build);
	if (rc < 0)
		return rc;
	n->range_lo = chunk->min;
	n->range_hi = chunk->max;
	n->keys_of = sieved ? sieve_for(r, n->task) : NULL;
	rc = build_writer_open(build, &n->builder);
	if (rc == 0)
		rc = runner_table(n, next_in_walk, &walk);
	build_writer_close(n->builder);
	n->builder = NULL;
	if (rc == 0)
		rc = build_finish(build, 1, &index);
	s->index = index;
	build_free(build);
	return rc;
}

static int build_all_nested(struct runner *r, bool sieved)
{
	int rc = 0;

	for (unsigned i = 0; i < r->task->step_count && rc == 0; i++)
		if (r->steps[i].nested)
			rc = build_nested(r, i, sieved);
	return rc;
}

/* ---- tables ---- */

static int64_t nested_key(const struct runner *r, uint32_t row)
{
	return fth_table_page_int_at(&r->group->pages[r->positions[r->key_source]], row);
}

/* The first row of the group whose key is above x, or not below it. Keys are sorted. */
static uint32_t first_above(const struct runner *r, int64_t x, bool or_equal)
{
	uint32_t from = 0, to = r->group->rows;

	while (from < to) {
		uint32_t mid = from + (to - from) / 2;
		int64_t key = nested_key(r, mid);

		if (key < x || (key == x && !or_equal))
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/*
 * The rows of the group that are to be looked at: of a nested task those whose key is in the range.
 */
static void find_rows(const struct runner *r, uint32_t *begin, uint32_t *end)
{
	const struct fth_table_chunk *chunk;

	*begin = 0;
	*end = r->group->rows;
	if (!r->task->nested)
		return;
	chunk = fth_table_chunk(r->task->source.table, r->task->key_column, r->group->group);
	if (chunk->min < r->range_lo)
		*begin = first_above(r, r->range_lo, true);
	if (chunk->max > r->range_hi)
		*end = first_above(r, r->range_hi, false);
}

/* Rows of the batch that are not in [begin, end) are not selected. */
static void cut_batch(struct fth_sel *sel, uint32_t from, uint32_t begin, uint32_t end)
{
	uint64_t bits[FTH_BATCH_WORDS] = {0};
	uint32_t first = begin > from ? begin - from : 0, n = sel->n;
	uint32_t last = end < from + n ? end - from : n;

	if (first == 0 && last == n)
		return;
	for (uint32_t i = first; i < last; i++)
		fth_bit_set(bits, i);
	fth_sel_and(sel, bits);
}

/* Batches [begin, end) of the group, one after the other. */
static int run_batches(struct runner *r, uint32_t begin, uint32_t end, int (*run)(struct runner *r))
{
	int rc = 0;

	/* They begin at multiples of their size even then: blocks of rows are decoded fastest. */
	for (r->from = begin / FTH_BATCH * FTH_BATCH; r->from < end && rc == 0; r->from = r->to) {
		r->to = r->group->rows - r->from < FTH_BATCH ? r->group->rows : r->from + FTH_BATCH;
		memset(r->frame.have, 0, r->task->slot_count * sizeof(bool));
		fth_sel_all(&r->frame.sel, r->to - r->from);
		cut_batch(&r->frame.sel, r->from, begin, end);
		rc = run(r);
	}
	return rc;
}

static int run_batch(struct runner *r)
{
	int rc = 0;

	if (r->keys_of)
		rc = sieve_keys(r);
	return rc < 0 ? rc : runner_steps(r, &r->frame, 0);
}

/* Keys before structures. Returns 1 if that was not possible. */
static int run_sieved(struct runner *r)
{
	int rc;

	sieve_begin(r);
	rc = run_batches(r, 0, r->group->rows, sieve_batch);
	if (rc < 0)
		return rc;
	if (!sieve_end(r))
		return 1;
	if (sieve_count(r) == 0)
		return 0;
	rc = build_all_nested(r, true);
	return rc < 0 ? rc : sieve_run(r);
}

static int run_group(struct runner *r)
{
	uint32_t begin, end;
	int rc = 1;

	find_rows(r, &begin, &end);
	r->stats.groups_read++;
	r->stats.source_rows += end - begin;
	if (r->grouper)
		grouper_progress(r->grouper, (uint32_t)r->stats.groups_read,
				 fth_table_groups(r->task->source.table) / r->exec->threads);
	r->late_used = false;
	if (sieve_wanted(r))
		rc = run_sieved(r);
	if (rc == 1) {
		rc = build_all_nested(r, false);
		if (rc == 0)
			rc = run_batches(r, begin, end, run_batch);
	}
	r->late_streak = r->late_used ? r->late_streak + 1 : 0;
	if (!scan_has(r->group, r->scan.count - 1) && r->scan.count > 0)
		r->stats.chunks_skipped += r->scan.count - r->scan.early;
	return rc < 0 ? rc : runner_flush(r);
}

/* Whether a structure that rows must have a match in has no key of the group. */
static bool skip_by_keys(const struct runner *r, uint32_t group)
{
	const struct task *t = r->task;

	for (unsigned i = 0; i < t->step_count && t->steps[i].kind != TASK_RUNS; i++) {
		const struct task_lookup *l = &t->steps[i].lookup;
		const struct fth_table_chunk *chunk;
		uint32_t column;

		if (t->steps[i].kind != TASK_LOOKUP || l->key_count != 1 ||
		    (l->match != TASK_SEMI && l->match != TASK_INNER) || r->steps[i].nested ||
		    !r->steps[i].index || !fth_type_is_int(t->slots[l->keys[0]].type))
			continue;
		column = skip_column(t, l->keys[0]);
		if (column == TASK_NONE ||
		    fth_table_kind(&fth_table_schema(t->source.table)->column[column]) !=
			    FTH_TABLE_KIND_INT)
			continue;
		chunk = fth_table_chunk(t->source.table, column, group);
		if (chunk->min > chunk->max ||
		    !index_meets(r->steps[i].index, chunk->min, chunk->max))
			return true;
	}
	return false;
}

static int begin_more(struct runner *r, uint32_t (*next)(void *user), void *user, bool *more)
{
	while (*more && scan_room(r->reader)) {
		uint32_t group = next(user);
		int rc;

		*more = group != UINT32_MAX;
		if (*more && (skip_group(r->task, group) || skip_by_keys(r, group))) {
			r->stats.groups_skipped++;
			r->stats.chunks_skipped += r->scan.count;
			continue;
		}
		rc = *more ? scan_begin(r->reader, group, r->late_streak >= LATE_STREAK) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

int runner_table(struct runner *r, uint32_t (*next)(void *user), void *user)
{
	bool more = true;
	int rc;

	for (;;) {
		rc = begin_more(r, next, user, &more);
		if (rc == 0)
			rc = scan_next(r->reader, &r->group);
		if (rc <= 0)
			break;
		rc = runner_stopped(r);
		if (rc == 0)
			rc = run_group(r);
		scan_done(r->reader, r->group);
		if (rc < 0)
			break;
	}
	if (rc == 0)
		rc = wait_end(r);
	r->stats.bytes = r->slept_bytes + scan_bytes(r->reader);
	r->stats.chunks = r->slept_chunks + scan_chunks(r->reader);
	return rc;
}

/* ---- rows and values ---- */

int runner_block(struct runner *r, const struct fth_vec *columns, unsigned n)
{
	const struct task_source *s = &r->task->source;
	int rc;

	memset(r->frame.have, 0, r->task->slot_count * sizeof(bool));
	for (unsigned i = 0; i < s->column_count; i++) {
		r->frame.vecs[s->columns[i].slot] = columns[s->columns[i].column];
		r->frame.have[s->columns[i].slot] = true;
	}
	fth_sel_all(&r->frame.sel, n);
	r->stats.source_rows += n;
	rc = runner_stopped(r);
	return rc < 0 ? rc : runner_steps(r, &r->frame, 0);
}

/* One row: each cell is computed by itself. */
static int run_row(struct runner *r, unsigned row)
{
	const struct task_source *s = &r->task->source;
	struct fth_prog *prog = NULL;
	struct fth_prog_run *run = NULL;
	struct fth_vec *columns = fth_qmem_zalloc(r->mem, (s->column_count + 1) * sizeof(*columns));
	int rc = columns ? 0 : -ENOMEM;

	if (rc == 0 && s->column_count > 0)
		rc = fth_prog_compile(r->mem, s->values + (size_t)row * s->column_count,
				      s->column_count, &prog);
	if (rc == 0 && prog)
		rc = fth_prog_run_new(prog, r->mem, &run);
	if (rc == 0 && run)
		rc = fth_prog_exec(run, NULL, 1, NULL, columns);
	if (rc == 0)
		rc = runner_block(r, columns, 1);
	fth_prog_run_free(run);
	fth_prog_free(prog);
	fth_qmem_free(r->mem, columns, (s->column_count + 1) * sizeof(*columns));
	return rc;
}

int runner_values(struct runner *r)
{
	int rc = 0;

	for (unsigned i = 0; i < r->task->source.value_rows && rc == 0; i++)
		rc = run_row(r, i);
	return rc;
}
