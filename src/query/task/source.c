/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the rows of a task come from: row groups of a table, rows of earlier results, constants. */
#include "query/task/runner.h"

#include "fathom/base/error.h"

#include <errno.h>

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

static struct index_spec spec_of(const struct task *t, struct task_slot *columns)
{
	unsigned slots[256];
	unsigned n = result_columns(t, slots);

	for (unsigned i = 0; i < n; i++)
		columns[i] = t->slots[slots[i]];
	return (struct index_spec){t->reduce.key_count, columns, n, columns,
				   t->reduce.kind == TASK_MAP};
}

/* Build the structure of a nested task for one row group of its parent. */
static int build_nested(struct runner *r, unsigned at)
{
	struct step_state *s = &r->steps[at];
	struct runner *n = s->nested;
	const struct fth_table_chunk *chunk =
		fth_table_chunk(r->task->source.table, n->task->parent_column, r->group->group);
	struct group_walk walk =
		groups_within(n->task->source.table, n->task->key_column, chunk->min, chunk->max);
	struct index_spec spec;
	struct index *index;
	struct rows *rows;
	int rc;

	index_free((struct index *)s->index);
	s->index = NULL;
	if (n->column_slots == NULL) {
		n->column_slots = fth_arena_alloc(&n->arena, 256 * sizeof(*n->column_slots), 16);
		if (n->column_slots == NULL)
			return -ENOMEM;
	}
	spec = spec_of(n->task, n->column_slots);
	rc = rows_new(r->mem, spec.columns, spec.column_count, &rows);
	if (rc < 0)
		return rc;
	n->range_lo = chunk->min;
	n->range_hi = chunk->max;
	rc = rows_writer_open(rows, &n->writer);
	if (rc == 0)
		rc = runner_table(n, next_in_walk, &walk);
	rows_writer_close(n->writer);
	n->writer = NULL;
	if (rc < 0) {
		rows_free(rows);
		return rc;
	}
	rc = index_build(r->mem, &spec, rows, &index);
	s->index = index;
	return rc;
}

static int build_all_nested(struct runner *r)
{
	int rc = 0;

	for (unsigned i = 0; i < r->task->step_count && rc == 0; i++)
		if (r->steps[i].nested != NULL)
			rc = build_nested(r, i);
	return rc;
}

/* ---- tables ---- */

/* Of a nested task: only rows whose key is in the range. */
static int restrict_range(struct runner *r)
{
	unsigned slot = r->task->source.columns[r->key_source].slot;
	uint64_t bits[FTH_BATCH_WORDS] = {0};
	const struct fth_vec *v = &r->frame.vecs[slot];
	int rc = runner_need(r, &r->frame, slot);

	for (unsigned i = 0; i < r->frame.sel.n && rc == 0; i++) {
		fth_i128 x = fth_vec_int(v, i);

		if (x >= r->range_lo && x <= r->range_hi)
			fth_bit_set(bits, i);
	}
	fth_sel_and(&r->frame.sel, bits);
	return rc;
}

static int run_group(struct runner *r)
{
	int rc = build_all_nested(r);

	r->stats.groups_read++;
	r->stats.source_rows += r->group->rows;
	for (r->from = 0; r->from < r->group->rows && rc == 0; r->from = r->to) {
		r->to = r->group->rows - r->from < FTH_BATCH ? r->group->rows : r->from + FTH_BATCH;
		memset(r->frame.have, 0, r->task->slot_count * sizeof(bool));
		fth_sel_all(&r->frame.sel, r->to - r->from);
		if (r->task->nested)
			rc = restrict_range(r);
		if (rc == 0)
			rc = runner_steps(r, &r->frame, 0);
	}
	return rc < 0 ? rc : runner_flush(r);
}

static int begin_more(struct runner *r, uint32_t (*next)(void *user), void *user, bool *more)
{
	while (*more && scan_room(r->reader)) {
		uint32_t group = next(user);
		int rc;

		*more = group != UINT32_MAX;
		rc = *more ? scan_begin(r->reader, group) : 0;
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
		if (atomic_load_explicit(&r->exec->stop, memory_order_relaxed)) {
			rc = fth_fail(ECANCELED, "the query was canceled");
			break;
		}
		rc = run_group(r);
		scan_done(r->reader, r->group);
		if (rc < 0)
			break;
	}
	r->stats.bytes = scan_bytes(r->reader);
	r->stats.chunks = scan_chunks(r->reader);
	return rc;
}

/* ---- rows and values ---- */

int runner_block(struct runner *r, const struct fth_vec *columns, unsigned n)
{
	const struct task_source *s = &r->task->source;

	memset(r->frame.have, 0, r->task->slot_count * sizeof(bool));
	for (unsigned i = 0; i < s->column_count; i++) {
		r->frame.vecs[s->columns[i].slot] = columns[s->columns[i].column];
		r->frame.have[s->columns[i].slot] = true;
	}
	fth_sel_all(&r->frame.sel, n);
	r->stats.source_rows += n;
	return runner_steps(r, &r->frame, 0);
}

/* One row: each cell is computed by itself. */
static int run_row(struct runner *r, unsigned row)
{
	const struct task_source *s = &r->task->source;
	struct fth_prog *prog = NULL;
	struct fth_prog_run *run = NULL;
	struct fth_vec *columns = fth_qmem_zalloc(r->mem, (s->column_count + 1) * sizeof(*columns));
	int rc = columns == NULL ? -ENOMEM : 0;

	if (rc == 0 && s->column_count > 0)
		rc = fth_prog_compile(r->mem, s->values + (size_t)row * s->column_count,
				      s->column_count, &prog);
	if (rc == 0 && prog != NULL)
		rc = fth_prog_run_new(prog, r->mem, &run);
	if (rc == 0 && run != NULL)
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
