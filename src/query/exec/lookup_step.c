/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Look-ups. Where a row has at most one match and nothing is to be tested, the payload is put
 * beside the rows. Otherwise pairs of a row and a match are collected and become the rows of the
 * next frame. Where the structure is a list, pairs are made with some of its rows at a time, and
 * those are the matches.
 */
#include "query/exec/runner.h"

#include "fathom/base/error.h"
#include "query/keys/bit_rows.h"

#include <errno.h>

struct lookup {
	struct runner *r;
	struct frame *f;
	unsigned at;
	const struct task_lookup *l;
	struct step_state *s;
	const struct fth_vec *listed; /* of a list: columns of the rows that pairs are made with */
};

/* ---- in place ---- */

/* Selected rows without a match. */
static void missing_of(const struct fth_sel *sel, const uint64_t *hits, uint64_t *missing)
{
	for (unsigned w = 0; w < fth_bits_words(sel->n); w++)
		missing[w] = sel->bits[w] & ~hits[w];
}

/*
 * NOT IN: rows whose comparison with some row of the structure is null are removed as those with a
 * match are.
 */
static void remove_nulls(struct lookup *x)
{
	uint64_t none[FTH_BATCH_WORDS] = {0};

	if (index_has_nulls(x->s->index))
		fth_sel_and(&x->f->sel, none);
	else if (index_has_rows(x->s->index) && x->s->keys[0]->nulls)
		fth_sel_and_not(&x->f->sel, x->s->keys[0]->nulls);
}

static int beside(struct lookup *x)
{
	struct frame *f = x->f;
	bool left = x->l->match == TASK_LEFT || x->l->match == TASK_SINGLE;
	uint64_t missing[FTH_BATCH_WORDS];
	const uint16_t *rows;

	if (x->l->null_aware)
		remove_nulls(x);
	if (x->l->match == TASK_ANTI)
		fth_sel_and_not(&f->sel, x->s->found->hits);
	else if (!left)
		fth_sel_and(&f->sel, x->s->found->hits);
	missing_of(&f->sel, x->s->found->hits, missing);
	rows = fth_sel_sparse(&f->sel) ? fth_sel_rows(&f->sel) : NULL;
	for (unsigned i = 0; i < x->l->payload_count && f->sel.count > 0; i++) {
		unsigned slot = x->l->slots[i];

		index_gather(x->s->index, x->l->payload[i], x->s->found->first, f->sel.n, rows,
			     f->sel.count, left ? missing : NULL, &f->vecs[slot],
			     x->s->values[slot], x->s->nulls[slot]);
		f->have[slot] = true;
	}
	return 0;
}

/* ---- pairs ---- */

static void carry_slot(struct lookup *x, unsigned slot)
{
	const struct fth_vec *from = &x->f->vecs[slot];
	struct fth_vec *to = &x->s->next->vecs[slot];
	unsigned n = x->s->pairs;

	*to = *from;
	to->data = x->s->values[slot];
	to->block = NULL;
	if (from->type == FTH_BITS)
		fth_bits_gather(x->s->values[slot], from->data, x->s->pair_rows, n);
	else
		fth_vec_gather(from->type, x->s->values[slot], from->data, x->s->pair_rows, n);
	if (from->nulls) {
		fth_bits_gather(x->s->nulls[slot], from->nulls, x->s->pair_rows, n);
		to->nulls = x->s->nulls[slot];
	}
	x->s->next->have[slot] = true;
}

static bool is_payload(const struct task_lookup *l, unsigned slot)
{
	for (unsigned i = 0; i < l->payload_count; i++)
		if (l->slots[i] == slot)
			return true;
	return false;
}

/* Payload column i of rows of a list, or nulls. */
static void gather_listed(struct lookup *x, unsigned i, const uint64_t *missing)
{
	static const struct fth_str none = {"", 0, 0};
	unsigned slot = x->l->slots[i], n = x->s->pairs;
	struct fth_vec *to = &x->s->next->vecs[slot];
	void *values = x->s->values[slot];
	uint16_t rows[FTH_BATCH + 64];

	if (!missing) {
		const struct fth_vec *from =
			&x->listed[index_key_count(x->s->index) + x->l->payload[i]];

		for (unsigned k = 0; k < n; k++)
			rows[k] = (uint16_t)x->s->pair_matches[k];
		*to = (struct fth_vec){
			.type = from->type, .data = values, .nulls = x->s->nulls[slot]};
		if (from->type == FTH_BITS)
			fth_bits_gather(values, from->data, rows, n);
		else
			fth_vec_gather(from->type, values, from->data, rows, n);
		fth_bits_gather(x->s->nulls[slot], from->nulls, rows, n);
		return;
	}
	*to = (struct fth_vec){.type = rows_phys(&x->r->task->slots[slot]),
			       .data = values,
			       .nulls = x->s->nulls[slot]};
	memcpy(x->s->nulls[slot], missing, fth_bits_words(n) * sizeof(*missing));
	if (to->type != FTH_STR)
		memset(values, 0,
		       to->type == FTH_BITS ? FTH_BATCH / 8 : n * fth_phys_width(to->type));
	for (unsigned k = 0; k < n && to->type == FTH_STR; k++)
		((struct fth_str *)values)[k] = none;
}

/* Fill the next frame with the pairs; with `missing`, there is no match in any of them. */
static void fill_next(struct lookup *x, const uint64_t *missing)
{
	struct frame *next = x->s->next;
	unsigned slots = x->r->task->slot_count;

	memset(next->have, 0, slots * sizeof(bool));
	for (unsigned slot = 0; slot < slots; slot++)
		if (x->s->carried[slot] && x->f->have[slot] && !is_payload(x->l, slot))
			carry_slot(x, slot);
	for (unsigned i = 0; i < x->l->payload_count; i++) {
		unsigned slot = x->l->slots[i];

		if (index_list(x->s->index))
			gather_listed(x, i, missing);
		else
			index_gather(x->s->index, x->l->payload[i], x->s->pair_matches, x->s->pairs,
				     NULL, 0, missing, &next->vecs[slot], x->s->values[slot],
				     x->s->nulls[slot]);
		next->have[slot] = true;
	}
	fth_sel_all(&next->sel, x->s->pairs);
}

static int note_match(struct lookup *x, unsigned row)
{
	fth_bit_set(x->s->matched, row);
	if (x->l->match == TASK_SINGLE && x->s->counts[row]++ > 0)
		return fth_fail(EINVAL,
				"more than one row returned by a subquery used as an expression");
	return 0;
}

/* Test the pairs; those that count go on, or are only noted. */
static int flush_pairs(struct lookup *x)
{
	struct frame *next = x->s->next;
	int rc = 0;

	if (x->s->pairs == 0)
		return 0;
	/* Cancellation is checked here, since one batch can make millions of pairs. */
	rc = runner_stopped(x->r);
	if (rc < 0)
		return rc;
	fill_next(x, NULL);
	if (x->l->condition)
		rc = fth_prog_filter(x->s->run, next->vecs, &next->sel);
	for (unsigned i = 0; i < x->s->pairs && rc == 0; i++)
		if (fth_bit(next->sel.bits, i))
			rc = note_match(x, x->s->pair_rows[i]);
	x->s->pairs = 0;
	if (rc < 0 || x->l->match == TASK_SEMI || x->l->match == TASK_ANTI)
		return rc;
	return runner_steps(x->r, next, x->at + 1);
}

static int add_pair(struct lookup *x, unsigned row, uint32_t match)
{
	x->s->pair_rows[x->s->pairs] = (uint16_t)row;
	x->s->pair_matches[x->s->pairs++] = match;
	return x->s->pairs < FTH_BATCH ? 0 : flush_pairs(x);
}

static int pair_row(struct lookup *x, unsigned row)
{
	uint32_t first = x->s->found->first[row];
	uint32_t count = x->s->one_match ? 1 : x->s->found->count[row];
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (index_same(x->s->index, x->s->keys, row, first + i))
			rc = add_pair(x, row, first + i);
	return rc;
}

/* Whether nothing depends on further matches of a row. */
static bool is_decided(const struct lookup *x, unsigned row)
{
	return (x->l->match == TASK_SEMI || x->l->match == TASK_ANTI) &&
	       fth_bit(x->s->matched, row);
}

/* All rows of the batch with some rows of a list. */
static int pair_listed(void *user, const struct fth_vec *columns, unsigned n)
{
	struct lookup *x = user;
	int rc = 0;

	x->listed = columns;
	FTH_FOR_ROWS(x->s->found->hits, x->f->sel.n, i)
	{
		for (unsigned k = 0; k < n && rc == 0 && !is_decided(x, (unsigned)i); k++)
			if (index_list_same(x->s->index, columns, k, x->s->keys, (unsigned)i))
				rc = add_pair(x, (unsigned)i, k);
	}
	return rc < 0 ? rc : flush_pairs(x);
}

static int pair_list(struct lookup *x)
{
	struct rows *list = index_list(x->s->index);
	int rc = 0;

	if (!fth_bits_any(x->s->found->hits, x->f->sel.n))
		return 0;
	for (const struct rows_block *b = rows_first(list); b && rc == 0; b = b->next)
		rc = pair_listed(x, b->columns, b->n);
	return rc < 0 ? rc : rows_read_spilled(list, pair_listed, x);
}

/* Rows without a match, with a null payload. */
static int pair_unmatched(struct lookup *x)
{
	uint64_t all[FTH_BATCH_WORDS];
	int rc = 0;

	FTH_FOR_ROWS(x->f->sel.bits, x->f->sel.n, i)
	{
		if (fth_bit(x->s->matched, (unsigned)i))
			continue;
		x->s->pair_rows[x->s->pairs] = (uint16_t)i;
		x->s->pair_matches[x->s->pairs++] = 0;
	}
	if (x->s->pairs == 0)
		return rc;
	fth_bits_fill(all, x->s->pairs);
	fill_next(x, all);
	x->s->pairs = 0;
	return runner_steps(x->r, x->s->next, x->at + 1);
}

static int by_pairs(struct lookup *x)
{
	const bool *used = x->s->carried;
	int rc = 0;

	for (unsigned slot = 0; slot < x->r->task->slot_count && rc == 0; slot++)
		if (used[slot] && !is_payload(x->l, slot) && runner_has(x->r, x->f, slot))
			rc = runner_need(x->r, x->f, slot);
	memset(x->s->matched, 0, FTH_BATCH / 8);
	memset(x->s->counts, 0, FTH_BATCH * sizeof(*x->s->counts));
	x->s->pairs = 0;
	if (rc == 0 && index_list(x->s->index)) {
		rc = pair_list(x);
	} else {
		FTH_FOR_ROWS(x->s->found->hits, x->f->sel.n, i)
		{
			if (rc == 0)
				rc = pair_row(x, (unsigned)i);
		}
	}
	if (rc == 0)
		rc = flush_pairs(x);
	if (rc < 0)
		return rc;
	if (x->l->match == TASK_SEMI)
		fth_sel_and(&x->f->sel, x->s->matched);
	else if (x->l->match == TASK_ANTI)
		fth_sel_and_not(&x->f->sel, x->s->matched);
	else if (x->l->match == TASK_LEFT || x->l->match == TASK_SINGLE)
		return pair_unmatched(x);
	return 0;
}

int runner_lookup(struct runner *r, struct frame *f, unsigned at)
{
	struct lookup x = {r, f, at, &r->task->steps[at].lookup, &r->steps[at], NULL};
	int rc = 0;

	for (unsigned i = 0; i < x.l->key_count && rc == 0; i++) {
		rc = runner_need(r, f, x.l->keys[i]);
		x.s->keys[i] = &f->vecs[x.l->keys[i]];
	}
	if (rc < 0)
		return rc;
	index_find(x.s->index, x.s->scratch, x.s->keys, &f->sel,
		   !x.s->next && x.l->payload_count == 0, x.s->found);
	return x.s->next ? by_pairs(&x) : beside(&x);
}
