/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking up. A whole batch takes each step together: numbers of the keys, bits or homes, slots,
 * records. So the loads of many rows are on their way at a time. Building is in index_build.c.
 */
#include "query/join/index_internal.h"

#include "query/keys/bit_rows.h"
#include "query/vec/kern/kern.h"

#include <errno.h>
#include <math.h>

struct index_scratch {
	struct fth_qmem *mem;
	uint64_t numbers[FTH_BATCH];
	uint64_t none[FTH_BATCH_WORDS];
	uint64_t rows[FTH_BATCH_WORDS];
	int64_t work[FTH_BATCH];
};

void index_forget(struct index *x)
{
	key_bitmap_release(&x->keys);
	if (x->heads)
		fth_qmem_free(x->mem, x->heads, ((size_t)1 << x->head_bits) * sizeof(*x->heads));
	if (x->filter)
		fth_qmem_free(x->mem, x->filter, ((size_t)1 << x->filter_bits) / 8);
	fth_qmem_free(x->mem, x->numbers, x->number_room * sizeof(*x->numbers));
	if (x->start)
		fth_qmem_free(x->mem, x->start, (x->slot_room + 1) * sizeof(*x->start));
	if (x->records)
		fth_qmem_free(x->mem, x->records, x->record_room * x->pack.stride + PACK_PAD);
	x->heads = NULL;
	x->filter = NULL;
	x->direct = false;
	x->numbers = NULL;
	x->number_room = 0;
	x->start = NULL;
	x->records = NULL;
	x->slots = 0;
}

void index_free(struct index *x)
{
	if (!x)
		return;
	index_forget(x);
	rows_free(x->list);
	pool_release(&x->pool);
	if (x->fields)
		fth_qmem_free(x->mem, x->fields, x->spec.column_count * sizeof(*x->fields));
	if (x->limited)
		fth_qmem_close(x->mem);
	fth_qmem_free(x->parent, x, sizeof(*x));
}

uint64_t index_from(const struct index *x)
{
	return x->from;
}

uint64_t index_to(const struct index *x)
{
	return x->to;
}

double index_parts(const struct index *x)
{
	if (!x || (x->from == 0 && x->to == UINT64_MAX))
		return 1;
	if (x->to >= x->numbering.last)
		return 2;
	return ceil(((double)x->numbering.last + 1) / ((double)(x->to - x->from) + 1));
}

unsigned index_key_count(const struct index *x)
{
	return x->spec.key_count;
}

bool index_has_rows(const struct index *x)
{
	return x->any;
}

bool index_has_nulls(const struct index *x)
{
	return x->nulls;
}

uint64_t index_bytes(const struct index *x)
{
	return (x->limited ? fth_qmem_used(x->mem) : 0) + (x->list ? rows_bytes(x->list) : 0);
}

/* ---- lists ---- */

struct rows *index_list(const struct index *x)
{
	return x->list;
}

static bool same_value(const struct task_slot *slot, const struct fth_vec *a, unsigned i,
		       const struct fth_vec *b, unsigned k)
{
	struct fth_str s, t;

	if (fth_type_is_text(slot->type)) {
		s = number_text(slot, a, i);
		t = number_text(slot, b, k);
		return s.len == t.len && memcmp(s.data, t.data, s.len) == 0;
	}
	if (a->type == FTH_BITS)
		return fth_bit(a->data, i) == fth_bit(b->data, k);
	if (a->type == FTH_F64)
		return number_double(((const double *)a->data)[i]) ==
		       number_double(((const double *)b->data)[k]);
	return fth_vec_int(a, i) == fth_vec_int(b, k);
}

bool index_list_same(const struct index *x, const struct fth_vec *columns, unsigned i,
		     struct fth_vec *const *keys, unsigned row)
{
	for (unsigned k = 0; k < x->spec.key_count && !x->numbering.exact; k++)
		if (!same_value(&x->spec.columns[k], &columns[k], i, keys[k], row))
			return false;
	return true;
}

/* Whether one of the bits [from, to] is set. */
static bool any_bit(const uint64_t *bits, uint64_t from, uint64_t to)
{
	for (uint64_t w = from / 64; w <= to / 64; w++) {
		uint64_t word = bits[w];

		if (w == from / 64)
			word &= ~(uint64_t)0 << from % 64;
		if (w == to / 64)
			word &= ~(uint64_t)0 >> (63 - to % 64);
		if (word != 0)
			return true;
	}
	return false;
}

bool index_meets(const struct index *x, int64_t lo, int64_t hi)
{
	const struct numbering *n = &x->numbering;
	fth_i128 first, last;

	if (x->spec.key_count != 1 || !n->exact || x->form != INDEX_BITMAP || x->keys.nbits == 0)
		return true;
	/* Numbers are keys from the smallest one on. Rows of other parts are another run's. */
	first = (fth_i128)lo - n->lo[0] - x->keys.min;
	last = (fth_i128)hi - n->lo[0] - x->keys.min;
	first = first < 0 ? 0 : first;
	last = last >= (fth_i128)x->keys.nbits ? (fth_i128)x->keys.nbits - 1 : last;
	return first <= last && any_bit(x->keys.bits, (uint64_t)first, (uint64_t)last);
}

int index_scratch_open(struct fth_qmem *mem, struct index_scratch **out)
{
	*out = fth_qmem_alloc(mem, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->mem = mem;
	return 0;
}

void index_scratch_close(struct index_scratch *s)
{
	if (s)
		fth_qmem_free(s->mem, s, sizeof(*s));
}

/* ---- hash ---- */

#define AHEAD 32u

static uint32_t hash_find(const struct index *x, uint64_t number, uint64_t home)
{
	uint64_t mask = ((uint64_t)1 << x->head_bits) - 1;

	while (x->heads[home] != INDEX_FREE && x->numbers[x->heads[home]] != number)
		home = (home + 1) & mask;
	return x->heads[home];
}

static void hash_some(const struct index *x, const uint64_t *numbers, const uint16_t *rows,
		      unsigned n, uint64_t *hits, uint32_t *slots)
{
	uint64_t homes[AHEAD];

	for (unsigned i = 0; i < n; i++) {
		homes[i] = index_home(x, numbers[rows[i]]);
		__builtin_prefetch(&x->heads[homes[i]]);
	}
	for (unsigned i = 0; i < n; i++)
		if (x->heads[homes[i]] != INDEX_FREE)
			__builtin_prefetch(&x->numbers[x->heads[homes[i]]]);
	for (unsigned i = 0; i < n; i++) {
		uint32_t slot = hash_find(x, numbers[rows[i]], homes[i]);

		if (slot == INDEX_FREE)
			continue;
		fth_bit_set(hits, rows[i]);
		slots[rows[i]] = slot;
	}
}

/* Remove rows whose hash no number has. */
static void filter_rows(const struct index *x, struct index_scratch *s, unsigned n)
{
	uint64_t maybe[FTH_BATCH_WORDS];

	fth_kern()->filter(maybe, s->numbers, INDEX_FACTOR, 64 - x->filter_bits, x->filter, n);
	for (unsigned w = 0; w < fth_bits_words(n); w++)
		s->rows[w] &= maybe[w];
}

static void find_by_hash(const struct index *x, struct index_scratch *s, unsigned n,
			 struct index_matches *out)
{
	uint16_t some[AHEAD];
	unsigned count = 0;

	memset(out->hits, 0, fth_bits_words(n) * sizeof(uint64_t));
	if (x->filter)
		filter_rows(x, s, n);
	FTH_FOR_ROWS(s->rows, n, i)
	{
		some[count++] = (uint16_t)i;
		if (count == AHEAD) {
			hash_some(x, s->numbers, some, count, out->hits, out->first);
			count = 0;
		}
	}
	hash_some(x, s->numbers, some, count, out->hits, out->first);
}

/* ---- bitmap ---- */

/* The slots of out->hits. */
static void slots_of_hits(const struct index *x, const struct index_scratch *s, unsigned n,
			  struct index_matches *out)
{
	if (!x->direct) {
		key_bitmap_ranks(&x->keys, (const int64_t *)s->numbers, n, out->hits, out->first);
		return;
	}
	FTH_FOR_ROWS(out->hits, n, i)
	{
		out->first[i] = (uint32_t)(s->numbers[i] - (uint64_t)x->keys.min);
	}
}

static void find_by_bitmap(const struct index *x, struct index_scratch *s, unsigned n,
			   bool hits_only, struct index_matches *out)
{
	key_bitmap_probe(&x->keys, (const int64_t *)s->numbers, n, s->rows, out->hits);
	if (!hits_only)
		slots_of_hits(x, s, n, out);
}

/* ---- one key in 64 bits ---- */

/*
 * Its number is a difference. A key out of the range of keys wraps to a number that no row of the
 * structure has: nothing has to be tested.
 */
static bool is_single(const struct index *x, struct fth_vec *const *keys)
{
	const struct numbering *k = &x->numbering;

	return k->exact && k->count == 1 && keys[0]->type < FTH_I128 && k->lo[0] >= INT64_MIN &&
	       k->hi[0] <= INT64_MAX;
}

/* The number to add to the values of a vector. */
static int64_t offset_of(const struct index *x, const struct fth_vec *v)
{
	return (int64_t)((uint64_t)v->base - (uint64_t)x->numbering.lo[0]);
}

static void single_numbers(const struct index *x, struct index_scratch *s, const struct fth_vec *v,
			   unsigned n)
{
	fth_kern()->convert[FTH_I64][v->type](s->numbers, v->data, offset_of(x, v), n);
}

/* The bitmap is asked with the values as they are. Returns false if kernels cannot do that. */
static bool probe_values(const struct index *x, struct index_scratch *s, const struct fth_vec *v,
			 unsigned n, struct index_matches *out)
{
	uint64_t add = (uint64_t)offset_of(x, v) - (uint64_t)x->keys.min;

	if (x->form != INDEX_BITMAP || v->type > FTH_I32 || x->keys.nbits > UINT32_MAX)
		return false;
	fth_kern()->member[v->type](out->hits, v->data, (int64_t)add, x->keys.bits, x->keys.nbits,
				    n);
	for (unsigned w = 0; w < fth_bits_words(n); w++)
		out->hits[w] &= s->rows[w];
	return true;
}

/* ---- all ---- */

static bool is_part(const struct index *x)
{
	return x->from != 0 || x->to != UINT64_MAX;
}

/*
 * Keep the rows whose number is in the index's range. Rows without a number belong to the first
 * part.
 */
static void keep_own(const struct index *x, struct index_scratch *s, struct fth_sel *sel)
{
	uint64_t last = x->to < x->numbering.last ? x->to : x->numbering.last;
	/* The first part has all but those of later ones. */
	uint64_t from = x->from == 0 ? x->to + 1 : x->from;
	uint64_t span = (x->from == 0 ? x->numbering.last : last) - from;
	uint64_t keep[FTH_BATCH_WORDS];

	if (!is_part(x))
		return;
	for (unsigned w = 0; w < fth_bits_words(sel->n); w++) {
		unsigned end = sel->n - w * 64 < 64 ? sel->n - w * 64 : 64;
		uint64_t in = 0;

		for (unsigned j = 0; j < end; j++)
			in |= (uint64_t)(s->numbers[w * 64 + j] - from <= span) << j;
		keep[w] = x->from == 0 ? ~in | s->none[w] : in & ~s->none[w];
	}
	fth_sel_and(sel, keep);
}

bool index_same(const struct index *x, struct fth_vec *const *keys, unsigned row, uint32_t record)
{
	const char *at = x->records + (size_t)record * x->pack.stride;

	for (unsigned k = 0; k < x->first_payload; k++)
		if (!pack_equals(&x->pack, k, &x->spec.columns[k], at, x->dict, keys[k], row))
			return false;
	return true;
}

/* Keys were hashed: the first record of each row becomes one with the row's keys. */
static void verify(const struct index *x, struct fth_vec *const *keys, unsigned n,
		   struct index_matches *out)
{
	FTH_FOR_ROWS(out->hits, n, i)
	{
		uint32_t at = out->first[i], end = at + out->count[i];

		while (at < end && !index_same(x, keys, (unsigned)i, at))
			at++;
		out->first[i] = at == end ? 0 : at;
		out->count[i] = end - at;
		if (at == end)
			out->hits[i / 64] &= ~((uint64_t)1 << i % 64);
	}
}

/*
 * Numbers of the rows, and which of them are looked up. Returns true if the hits are known as well.
 */
static bool prepare(const struct index *x, struct index_scratch *s, struct fth_vec *const *keys,
		    struct fth_sel *sel, struct index_matches *out)
{
	unsigned n = sel->n, words = fth_bits_words(n);
	bool single = is_single(x, keys);

	if (!single) {
		numbering_run(&x->numbering, keys, sel, s->numbers, s->none, s->work);
	} else {
		if (!keys[0]->nulls)
			memset(s->none, 0, words * sizeof(*s->none));
		else
			memcpy(s->none, keys[0]->nulls, words * sizeof(*s->none));
		if (is_part(x))
			single_numbers(x, s, keys[0], n);
	}
	keep_own(x, s, sel);
	for (unsigned w = 0; w < words; w++)
		s->rows[w] = sel->bits[w] & ~s->none[w];
	if (single && probe_values(x, s, keys[0], n, out))
		return true;
	if (single && !is_part(x))
		single_numbers(x, s, keys[0], n);
	return false;
}

/* From slots to records. */
static void find_records(const struct index *x, struct fth_vec *const *keys, unsigned n,
			 struct index_matches *out)
{
	memset(out->count, 0, n * sizeof(*out->count));
	FTH_FOR_ROWS(out->hits, n, i)
	{
		uint32_t slot = out->first[i];

		out->first[i] = x->start[slot];
		out->count[i] = x->start[slot + 1] - x->start[slot];
	}
	if (!x->numbering.exact)
		verify(x, keys, n, out);
}

/* Rows whose number is that of the list. */
static void find_in_list(const struct index *x, struct index_scratch *s,
			 struct fth_vec *const *keys, struct fth_sel *sel,
			 struct index_matches *out)
{
	numbering_run(&x->numbering, keys, sel, s->numbers, s->none, s->work);
	keep_own(x, s, sel);
	memset(out->hits, 0, fth_bits_words(sel->n) * sizeof(uint64_t));
	FTH_FOR_ROWS(sel->bits, sel->n, i)
	{
		if (x->rows > 0 && s->numbers[i] == x->from && !fth_bit(s->none, (unsigned)i))
			fth_bit_set(out->hits, (unsigned)i);
	}
}

void index_find(const struct index *x, struct index_scratch *s, struct fth_vec *const *keys,
		struct fth_sel *sel, bool hits_only, struct index_matches *out)
{
	unsigned n = sel->n;
	bool known;

	if (x->list) {
		find_in_list(x, s, keys, sel, out);
		return;
	}
	known = prepare(x, s, keys, sel, out);
	hits_only = hits_only && x->numbering.exact;
	if (!hits_only || x->form == INDEX_HASH)
		memset(out->first, 0, n * sizeof(*out->first));
	if (known && !hits_only && fth_bits_any(out->hits, n)) {
		if (!is_part(x))
			single_numbers(x, s, keys[0], n);
		slots_of_hits(x, s, n, out);
	}
	if (!known && x->form == INDEX_HASH)
		find_by_hash(x, s, n, out);
	else if (!known)
		find_by_bitmap(x, s, n, hits_only, out);
	if (x->start && !hits_only)
		find_records(x, keys, n, out);
}

void index_gather(const struct index *x, unsigned column, const uint32_t *places, unsigned n,
		  const uint16_t *rows, unsigned count, const uint64_t *missing,
		  struct fth_vec *out, void *values, uint64_t *nulls)
{
	unsigned field = x->first_payload + column;
	const struct pack_field *f = &x->pack.fields[field];

	*out = (struct fth_vec){.type = f->out, .data = values};
	if (f->kind == PACK_TEXT)
		out->dict = x->dict;
	pack_gather(&x->pack, field, x->records, places, n, rows, count, values, nulls);
	if (f->nullable || missing)
		out->nulls = nulls;
	if (!missing)
		return;
	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		nulls[w] = (f->nullable ? nulls[w] : 0) | missing[w];
		if (f->kind == PACK_BOOL) /* a bool that is null is false */
			((uint64_t *)values)[w] &= ~missing[w];
	}
}
