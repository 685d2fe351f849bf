/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows are numbered by block: number / FTH_BATCH is the block. A table of 64-bit numbers finds the first row of
 * a number, chain[] the next one with the same.
 *
 * Invariants:
 *  - Everything is constant after index_build(); any number of threads may look up.
 *  - chain[] runs from later to earlier rows, so it ends.
 *  - If numbers are exact, equal numbers are equal keys. Otherwise index_find() and index_next() skip
 *    rows whose keys differ.
 */
#include "query/task/index.h"

#include "fathom/base/error.h"
#include "fathom/base/checksum.h"
#include "fathom/base/rng.h"

#include <errno.h>

#define PACKED_MAX 8u

struct packing {
	bool exact;
	unsigned width[PACKED_MAX]; /* bits of each key */
};

struct index {
	struct fth_qmem *mem;
	struct index_spec spec;
	struct packing packing;
	struct rows *rows;
	const struct rows_block **blocks;
	uint32_t block_count;
	uint64_t *numbers; /* open addressing; heads[] is INDEX_NONE where free */
	uint32_t *heads;
	uint32_t *chain;
	unsigned bits; /* of the table's size */
};

struct index_scratch {
	struct fth_qmem *mem;
	uint64_t numbers[FTH_BATCH];
	uint64_t bad[FTH_BATCH_WORDS]; /* rows that cannot match */
};

/* ---- numbers of keys ---- */

static unsigned bits_of(fth_u128 span)
{
	unsigned bits = 0;

	while (bits < 128 && span >> bits != 0)
		bits++;
	return bits;
}

static struct packing choose_packing(const struct index_spec *spec)
{
	struct packing p = {.exact = spec->key_count <= PACKED_MAX};
	unsigned total = 0;

	for (unsigned i = 0; i < spec->key_count && p.exact; i++) {
		const struct task_slot *k = &spec->keys[i];

		p.exact = fth_type_is_int(k->type) && k->lo <= k->hi;
		if (p.exact)
			p.width[i] = bits_of((fth_u128)(k->hi - k->lo));
		total += p.width[i];
	}
	p.exact = p.exact && total <= 64;
	return p;
}

/* Blanks at the end of a char do not count. */
static struct fth_str key_text(const struct task_slot *slot, const struct fth_vec *v, unsigned i)
{
	struct fth_str s = rows_text(v, i);

	while (slot->type.kind == FTH_T_CHAR && s.len > 0 && s.data[s.len - 1] == ' ')
		s.len--;
	return s;
}

/* Add a key's bits to the numbers; values out of the range match nothing. */
static void add_packed(const struct task_slot *slot, unsigned width, const struct fth_vec *v,
		       const struct fth_sel *sel, uint64_t *numbers, uint64_t *bad)
{
	fth_i128 span = slot->hi - slot->lo;

	for (unsigned i = 0; i < sel->n; i++) {
		fth_i128 x;

		if (!fth_bit(sel->bits, i))
			continue;
		x = fth_vec_int(v, i) - slot->lo;
		if (x < 0 || x > span)
			fth_bit_set(bad, i);
		else
			numbers[i] = (width == 64 ? 0 : numbers[i] << width) | (uint64_t)x;
	}
}

static void add_hashed(const struct task_slot *slot, const struct fth_vec *v,
		       const struct fth_sel *sel, uint64_t *numbers)
{
	bool text = fth_type_is_text(slot->type);

	for (unsigned i = 0; i < sel->n; i++) {
		if (!fth_bit(sel->bits, i))
			continue;
		if (text) {
			struct fth_str s = key_text(slot, v, i);

			numbers[i] = fth_mix64(numbers[i] ^ fth_checksum(s.data, s.len, 0));
		} else if (v->type == FTH_BITS) {
			numbers[i] = fth_mix64(numbers[i] ^ fth_bit(v->data, i));
		} else {
			fth_i128 x = fth_vec_int(v, i);

			numbers[i] = fth_mix64(numbers[i] ^ (uint64_t)x ^
					       fth_mix64((uint64_t)(x >> 64)));
		}
	}
}

/* The number of each selected row; bit i of bad: the row has a null key or one that cannot be there. */
static void make_numbers(const struct index_spec *spec, const struct packing *packing,
			 struct fth_vec *const *keys, const struct fth_sel *sel, uint64_t *numbers,
			 uint64_t *bad)
{
	memset(bad, 0, FTH_BATCH_WORDS * sizeof(*bad));
	memset(numbers, 0, sel->n * sizeof(*numbers));
	for (unsigned k = 0; k < spec->key_count; k++) {
		for (unsigned w = 0; w < fth_bits_words(sel->n) && keys[k]->nulls != NULL; w++)
			bad[w] |= keys[k]->nulls[w];
		if (packing->exact)
			add_packed(&spec->keys[k], packing->width[k], keys[k], sel, numbers, bad);
		else
			add_hashed(&spec->keys[k], keys[k], sel, numbers);
	}
}

static bool keys_equal(const struct task_slot *slot, const struct fth_vec *a, unsigned i,
		       const struct fth_vec *b, unsigned k)
{
	if (fth_type_is_text(slot->type)) {
		struct fth_str x = key_text(slot, a, i), y = key_text(slot, b, k);

		return x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
	}
	if (a->type == FTH_BITS)
		return fth_bit(a->data, i) == fth_bit(b->data, k);
	return fth_vec_int(a, i) == fth_vec_int(b, k);
}

static bool is_match(const struct index *x, struct fth_vec *const *keys, unsigned row,
		     uint32_t match)
{
	const struct rows_block *b = x->blocks[match / FTH_BATCH];

	for (unsigned k = 0; k < x->spec.key_count; k++)
		if (!keys_equal(&x->spec.keys[k], keys[k], row, &b->columns[k], match % FTH_BATCH))
			return false;
	return true;
}

/* ---- building ---- */

static uint32_t home(const struct index *x, uint64_t number)
{
	return (uint32_t)(fth_mix64(number) >> (64 - x->bits));
}

/* The place of a number in the table: where it is, or a free one. */
static uint32_t place_of(const struct index *x, uint64_t number)
{
	uint32_t at = home(x, number);

	while (x->heads[at] != INDEX_NONE && x->numbers[at] != number)
		at = (at + 1) & (((uint32_t)1 << x->bits) - 1);
	return at;
}

static int add_row(struct index *x, uint64_t number, uint32_t row, struct fth_vec *const *keys,
		   unsigned i)
{
	uint32_t at = place_of(x, number);

	for (uint32_t m = x->heads[at]; m != INDEX_NONE && x->spec.unique; m = x->chain[m])
		if (x->packing.exact || is_match(x, keys, i, m))
			return fth_fail(EEXIST, "a key that was proved unique occurs twice");
	x->numbers[at] = number;
	x->chain[row] = x->heads[at];
	x->heads[at] = row;
	return 0;
}

static int add_block(struct index *x, uint32_t number_of_block, struct index_scratch *s)
{
	const struct rows_block *b = x->blocks[number_of_block];
	struct fth_vec *keys[PACKED_MAX * 8];
	struct fth_sel *sel = fth_qmem_alloc(x->mem, sizeof(*sel));
	int rc = 0;

	if (sel == NULL)
		return -ENOMEM;
	for (unsigned k = 0; k < x->spec.key_count; k++)
		keys[k] = &b->columns[k];
	fth_sel_all(sel, b->n);
	make_numbers(&x->spec, &x->packing, keys, sel, s->numbers, s->bad);
	for (unsigned i = 0; i < b->n && rc == 0; i++)
		rc = add_row(x, s->numbers[i], number_of_block * FTH_BATCH + i, keys, i);
	fth_qmem_free(x->mem, sel, sizeof(*sel));
	return rc;
}

static size_t table_size(const struct index *x)
{
	return (size_t)1 << x->bits;
}

static int make_table(struct index *x)
{
	x->bits = 4;
	while (table_size(x) < rows_count(x->rows) * 3 / 2)
		x->bits++;
	x->numbers = fth_qmem_alloc(x->mem, table_size(x) * sizeof(*x->numbers));
	x->heads = fth_qmem_alloc(x->mem, table_size(x) * sizeof(*x->heads));
	x->chain = fth_qmem_alloc(x->mem, (size_t)x->block_count * FTH_BATCH * sizeof(*x->chain));
	if (x->numbers == NULL || x->heads == NULL || x->chain == NULL)
		return -ENOMEM;
	memset(x->heads, 0xff, table_size(x) * sizeof(*x->heads));
	return 0;
}

int index_build(struct fth_qmem *mem, const struct index_spec *spec, struct rows *rows,
		struct index **out)
{
	struct index *x = fth_qmem_zalloc(mem, sizeof(*x));
	struct index_scratch *s = NULL;
	int rc;

	*out = NULL;
	if (x == NULL) {
		rows_free(rows);
		return -ENOMEM;
	}
	x->mem = mem;
	x->spec = *spec;
	x->rows = rows;
	x->packing = choose_packing(spec);
	rc = index_scratch_open(mem, &s);
	if (rc == 0)
		rc = rows_list(x->rows, &x->blocks, &x->block_count);
	if (rc == 0)
		rc = make_table(x);
	for (uint32_t b = 0; b < x->block_count && rc == 0; b++)
		rc = add_block(x, b, s);
	index_scratch_close(s);
	if (rc < 0) {
		index_free(x);
		return rc;
	}
	*out = x;
	return 0;
}

void index_free(struct index *x)
{
	if (x == NULL)
		return;
	if (x->numbers != NULL)
		fth_qmem_free(x->mem, x->numbers, table_size(x) * sizeof(*x->numbers));
	if (x->heads != NULL)
		fth_qmem_free(x->mem, x->heads, table_size(x) * sizeof(*x->heads));
	if (x->chain != NULL)
		fth_qmem_free(x->mem, x->chain,
			      (size_t)x->block_count * FTH_BATCH * sizeof(*x->chain));
	rows_unlist(x->rows, x->blocks, x->block_count);
	rows_free(x->rows);
	fth_qmem_free(x->mem, x, sizeof(*x));
}

/* ---- looking up ---- */

int index_scratch_open(struct fth_qmem *mem, struct index_scratch **out)
{
	*out = fth_qmem_alloc(mem, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	(*out)->mem = mem;
	return 0;
}

void index_scratch_close(struct index_scratch *s)
{
	if (s != NULL)
		fth_qmem_free(s->mem, s, sizeof(*s));
}

static uint32_t first_match(const struct index *x, struct fth_vec *const *keys, unsigned row,
			    uint32_t m)
{
	while (m != INDEX_NONE && !x->packing.exact && !is_match(x, keys, row, m))
		m = x->chain[m];
	return m;
}

void index_find(const struct index *x, struct index_scratch *s, struct fth_vec *const *keys,
		const struct fth_sel *sel, uint32_t *first)
{
	make_numbers(&x->spec, &x->packing, keys, sel, s->numbers, s->bad);
	for (unsigned i = 0; i < sel->n; i++) {
		first[i] = INDEX_NONE;
		if (!fth_bit(sel->bits, i) || fth_bit(s->bad, i))
			continue;
		first[i] = first_match(x, keys, i, x->heads[place_of(x, s->numbers[i])]);
	}
}

uint32_t index_next(const struct index *x, struct fth_vec *const *keys, unsigned row,
		    uint32_t match)
{
	return first_match(x, keys, row, x->chain[match]);
}

static uint32_t row_from(const struct index *x, uint32_t block)
{
	while (block < x->block_count && x->blocks[block]->n == 0)
		block++;
	return block < x->block_count ? block * FTH_BATCH : INDEX_NONE;
}

uint32_t index_row_first(const struct index *x)
{
	return row_from(x, 0);
}

uint32_t index_row_next(const struct index *x, uint32_t row)
{
	return row % FTH_BATCH + 1 < x->blocks[row / FTH_BATCH]->n
		       ? row + 1
		       : row_from(x, row / FTH_BATCH + 1);
}

void index_gather(const struct index *x, unsigned column, const uint32_t *matches, unsigned n,
		  struct fth_vec *out, void *values, uint64_t *nulls)
{
	rows_gather(x->blocks, &x->spec.columns[column], column, matches, n, out, values, nulls);
}
