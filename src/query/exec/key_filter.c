/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys before structures. The steps in front of the first look-up in a nested structure may remove
 * most rows of a row group. They run for the whole group first, and the rows that are left are
 * gathered into one batch. The keys of these are a bitmap, and the nested tasks leave out all other
 * keys. Then the batch goes on.
 *
 * A row group with more rows than one batch takes runs as if there was no sieve.
 *
 * Invariants:
 *  - The steps before `end` work in frame 0. Behind them only carried slots are used, and all are
 *    gathered.
 *  - The bitmap holds a bit for every key of a gathered row; one bit may stand for several keys, so
 *    that it stays small. Rows of nested tasks without their bit have a key that nobody looks up.
 */
#include "query/exec/gathered_rows.h"

#include "query/vec/kern/kern.h"

#include <errno.h>

#define SIEVE_BITS (1u << 19)
/* If too many rows are left in so many groups one after the other, it is not worth it. */
#define SIEVE_USELESS 2u

struct sieve {
	unsigned end;		      /* the first look-up in a nested structure */
	unsigned parent_column, slot; /* whose keys they are */
	unsigned useless;
	bool full; /* more rows are left than there is room for, or they cannot be gathered */
	struct gathered_rows rows;
	int64_t min;
	unsigned shift; /* keys for each bit */
	uint64_t last;	/* bit */
	int64_t keys[FTH_BATCH];
	uint64_t bits[SIEVE_BITS / 64];
};

/* ---- opening ---- */

static bool removes_rows(const struct task_step *s)
{
	return s->kind == TASK_SELECT || (s->kind == TASK_LOOKUP && s->lookup.match != TASK_LEFT &&
					  s->lookup.match != TASK_SINGLE);
}

/* Whether the steps before the first nested look-up remove rows, and are all in frame 0. */
static bool is_useful(const struct runner *r, unsigned *end)
{
	bool removes = false;

	for (*end = 0; *end < r->task->step_count; ++*end) {
		const struct task_step *s = &r->task->steps[*end];

		if (r->steps[*end].nested)
			return removes;
		if (r->steps[*end].next || s->kind == TASK_RUNS || s->kind == TASK_FETCH)
			return false;
		removes |= removes_rows(s);
	}
	return false;
}

/* The slot of a column of the source, if it is carried beyond a step; or TASK_NONE. */
static uint32_t carried_slot(const struct runner *r, unsigned column, unsigned step)
{
	const struct task_source *s = &r->task->source;

	for (unsigned i = 0; i < s->column_count; i++)
		if (s->columns[i].column == column && r->steps[step].carried[s->columns[i].slot])
			return s->columns[i].slot;
	return TASK_NONE;
}

static int alloc_sieve(struct runner *r, unsigned end)
{
	struct sieve *s = fth_qmem_alloc(r->mem, sizeof(*s));

	r->sieve = s;
	if (!s)
		return -ENOMEM;
	s->end = end;
	s->useless = 0;
	return gathered_init(&s->rows, r);
}

int sieve_open(struct runner *r)
{
	unsigned end, column;
	uint32_t slot;
	int rc;

	if (r->task->source.kind != TASK_TABLE || !is_useful(r, &end))
		return 0;
	column = r->steps[end].nested->task->parent_column;
	slot = carried_slot(r, column, end - 1);
	if (slot == TASK_NONE)
		return 0;
	rc = alloc_sieve(r, end);
	for (unsigned i = 0; i < r->task->slot_count && rc == 0; i++) {
		if (!r->steps[end - 1].carried[i])
			continue;
		r->sieve->rows.values[i] = fth_qmem_alloc(r->mem, FTH_BATCH * 16);
		r->sieve->rows.nulls[i] = fth_qmem_alloc(r->mem, FTH_BATCH / 8);
		rc = r->sieve->rows.values[i] && r->sieve->rows.nulls[i] ? 0 : -ENOMEM;
	}
	if (rc < 0)
		return rc;
	r->sieve->parent_column = column;
	r->sieve->slot = slot;
	return 0;
}

void sieve_close(struct runner *r)
{
	struct sieve *s = r->sieve;
	struct gathered_rows *g;

	if (!s)
		return;
	g = &s->rows;
	for (unsigned i = 0; i < r->task->slot_count && g->values && g->nulls; i++) {
		fth_qmem_free(r->mem, g->values[i], FTH_BATCH * 16);
		fth_qmem_free(r->mem, g->nulls[i], FTH_BATCH / 8);
	}
	fth_qmem_free(r->mem, s, sizeof(*s));
	r->sieve = NULL;
}

/* ---- gathering ---- */

/*
 * Behind the rows that are there. Returns false for a vector that is of another kind than theirs.
 */
static bool gather_slot(struct runner *r, unsigned slot, const uint16_t *rows, unsigned n)
{
	struct gathered_rows *g = &r->sieve->rows;
	const struct fth_vec *from = &r->frame.vecs[slot];
	struct fth_vec *to = &g->frame.vecs[slot];

	if (from->type == FTH_STR)
		return false; /* its bytes go with the batch */
	if (!g->frame.have[slot]) {
		*to = *from;
		to->data = g->values[slot];
		to->nulls = NULL;
		g->frame.have[slot] = true;
		gathered_clear_nulls(g, slot);
	}
	if (to->type != from->type || to->base != from->base || to->dict != from->dict)
		return false;
	gathered_copy(g, slot, from, rows, n);
	if (from->nulls)
		to->nulls = g->nulls[slot];
	return true;
}

static int gather_rows(struct runner *r)
{
	struct sieve *s = r->sieve;
	unsigned n = r->frame.sel.count;
	const uint16_t *rows = fth_sel_rows(&r->frame.sel);
	int rc = 0;

	for (unsigned i = 0; i < r->task->slot_count && rc == 0; i++) {
		if (!r->steps[s->end - 1].carried[i] || !runner_has(r, &r->frame, i))
			continue;
		rc = runner_need(r, &r->frame, i);
		if (rc == 0 && !gather_slot(r, i, rows, n))
			s->full = true;
	}
	s->rows.count += n;
	return rc;
}

bool sieve_wanted(const struct runner *r)
{
	return r->sieve && r->sieve->useless < SIEVE_USELESS;
}

void sieve_begin(struct runner *r)
{
	r->sieve->rows.count = 0;
	r->sieve->full = false;
	memset(r->sieve->rows.frame.have, 0, r->task->slot_count);
}

int sieve_batch(struct runner *r)
{
	struct sieve *s = r->sieve;
	int rc = s->full ? 0 : runner_steps_until(r, &r->frame, s->end);

	if (rc < 0 || s->full || r->frame.sel.count == 0)
		return rc;
	if (s->rows.count + r->frame.sel.count > FTH_BATCH) {
		s->full = true;
		return 0;
	}
	return gather_rows(r);
}

/* The bits of the keys of the gathered rows. */
static void set_bits(struct runner *r)
{
	struct sieve *s = r->sieve;
	const struct fth_table_chunk *chunk =
		fth_table_chunk(r->task->source.table, s->parent_column, r->group->group);
	uint64_t span = (uint64_t)chunk->max - (uint64_t)chunk->min;

	s->min = chunk->min;
	for (s->shift = 0; span >> s->shift >= SIEVE_BITS;)
		s->shift++;
	s->last = span >> s->shift;
	memset(s->bits, 0, (s->last / 64 + 1) * sizeof(uint64_t));
	fth_vec_to_i64(s->keys, &s->rows.frame.vecs[s->slot], s->rows.count);
	for (unsigned i = 0; i < s->rows.count; i++) {
		uint64_t at = ((uint64_t)s->keys[i] - (uint64_t)s->min) >> s->shift;

		s->bits[at / 64] |= (uint64_t)1 << at % 64;
	}
}

bool sieve_end(struct runner *r)
{
	struct sieve *s = r->sieve;

	s->useless = s->full ? s->useless + 1 : 0;
	if (s->full)
		return false;
	if (s->rows.count > 0)
		set_bits(r);
	return true;
}

unsigned sieve_count(const struct runner *r)
{
	return r->sieve->rows.count;
}

int sieve_run(struct runner *r)
{
	fth_sel_all(&r->sieve->rows.frame.sel, r->sieve->rows.count);
	return runner_steps(r, &r->sieve->rows.frame, r->sieve->end);
}

/* ---- in the nested task ---- */

const struct sieve *sieve_for(const struct runner *r, const struct task *nested)
{
	return r->sieve && r->sieve->parent_column == nested->parent_column ? r->sieve : NULL;
}

int sieve_keys(struct runner *r)
{
	const struct sieve *s = r->keys_of;
	unsigned slot = r->task->source.columns[r->key_source].slot;
	uint64_t bits[FTH_BATCH_WORDS] = {0};
	int rc = runner_need(r, &r->frame, slot);
	const struct fth_vec *v;

	if (rc < 0)
		return rc;
	v = &r->frame.vecs[slot];
	if (s->shift == 0 && v->type <= FTH_I32) { /* a bit for each key: as in an index */
		fth_kern()->member[v->type](bits, v->data,
					    (int64_t)((uint64_t)v->base - (uint64_t)s->min),
					    s->bits, s->last + 1, r->frame.sel.n);
		fth_sel_and(&r->frame.sel, bits);
		return 0;
	}
	fth_vec_to_i64(r->nested_keys, v, r->frame.sel.n);
	for (unsigned i = 0; i < r->frame.sel.n; i++) {
		uint64_t at = ((uint64_t)r->nested_keys[i] - (uint64_t)s->min) >> s->shift;

		/* Rows that are not selected may be out of the range. */
		at = at <= s->last ? at : 0;
		bits[i / 64] |= (s->bits[at / 64] >> at % 64 & 1) << i % 64;
	}
	fth_sel_and(&r->frame.sel, bits);
	return 0;
}
