/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/join/key_number.h"
#include "query/spill/result_rows.h"

#include "fathom/base/checksum.h"
#include "fathom/base/rng.h"

#include "query/keys/bit_rows.h"
#include "query/vec/kern/kern.h"

static unsigned bits_of(fth_u128 span)
{
	unsigned bits = 0;

	while (bits < 128 && span >> bits != 0)
		bits++;
	return bits;
}

bool number_range(const struct task_slot *slot, fth_i128 *lo, fth_i128 *hi)
{
	*lo = slot->lo;
	*hi = slot->hi;
	if (!fth_type_is_int(slot->type))
		return false;
	if (slot->lo <= slot->hi)
		return true;
	switch (rows_phys(slot)) {
	case FTH_I32:
		*lo = INT32_MIN;
		*hi = INT32_MAX;
		return true;
	case FTH_I64:
		*lo = INT64_MIN;
		*hi = INT64_MAX;
		return true;
	default:
		return false;
	}
}

void numbering_init(struct numbering *n, const struct task_slot *keys, unsigned count)
{
	unsigned total = 0;

	*n = (struct numbering){.exact = count <= NUMBER_KEYS_MAX, .count = count, .keys = keys};
	for (unsigned i = 0; i < count && n->exact; i++) {
		n->exact = number_range(&keys[i], &n->lo[i], &n->hi[i]);
		if (n->exact)
			n->width[i] = bits_of((fth_u128)n->hi[i] - (fth_u128)n->lo[i]);
		total += n->width[i];
	}
	n->exact = n->exact && total <= 64;
	n->last = n->exact && total < 64 ? ((uint64_t)1 << total) - 1 : UINT64_MAX;
	if (n->exact && count == 1) /* no need to round up to a power of two */
		n->last = (uint64_t)(n->hi[0] - n->lo[0]);
}

struct fth_str number_text(const struct task_slot *slot, const struct fth_vec *v, unsigned i)
{
	struct fth_str s = rows_text(v, i);

	while (slot->type.kind == FTH_T_CHAR && s.len > 0 && s.data[s.len - 1] == ' ')
		s.len--;
	return s;
}

uint64_t number_double(double x)
{
	uint64_t bits;

	if (x != x)
		return UINT64_C(0x7ff8000000000000);
	x = x == 0 ? 0 : x;
	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/* ---- packed ---- */

static bool is_narrow(fth_i128 lo, fth_i128 hi)
{
	return lo >= INT64_MIN && hi <= INT64_MAX;
}

/* Bit i of none: x[i] > span. */
static void mark_outside(const uint64_t *x, uint64_t span, unsigned n, uint64_t *none)
{
	uint64_t in[FTH_BATCH_WORDS];

	if (span > INT64_MAX) { /* kernels compare signed numbers */
		for (unsigned i = 0; i < n; i++)
			none[i / 64] |= (uint64_t)(x[i] > span) << i % 64;
		return;
	}
	fth_kern()->between[FTH_I64](in, x, 0, (int64_t)span, n);
	for (unsigned w = 0; w < fth_bits_words(n); w++)
		none[w] |= ~in[w];
	if (n % 64 != 0)
		none[n / 64] &= ((uint64_t)1 << n % 64) - 1;
}

/* Values in 64 bits: a difference out of [0, span] wraps to something larger. */
static void add_narrow(const struct numbering *k, unsigned key, const struct fth_vec *v, unsigned n,
		       uint64_t *numbers, uint64_t *none, uint64_t *work)
{
	uint64_t lo = (uint64_t)k->lo[key], span = (uint64_t)k->hi[key] - lo;
	uint64_t *out = key == 0 ? numbers : work;

	fth_kern()->convert[FTH_I64][v->type](out, v->data, (int64_t)((uint64_t)v->base - lo), n);
	mark_outside(out, span, n, none);
	for (unsigned i = 0; i < n && key > 0; i++)
		numbers[i] = numbers[i] << k->width[key] | work[i];
}

static void add_wide(const struct numbering *k, unsigned key, const struct fth_vec *v,
		     const struct fth_sel *sel, uint64_t *numbers, uint64_t *none)
{
	FTH_FOR_ROWS(sel->bits, sel->n, i)
	{
		fth_i128 x = fth_vec_int(v, (unsigned)i);

		if (x < k->lo[key] || x > k->hi[key])
			fth_bit_set(none, (unsigned)i);
		x -= k->lo[key];
		numbers[i] = (key == 0 ? 0 : numbers[i] << k->width[key]) | (uint64_t)x;
	}
}

static void add_packed(const struct numbering *k, unsigned key, const struct fth_vec *v,
		       const struct fth_sel *sel, uint64_t *numbers, uint64_t *none, int64_t *work)
{
	if (v->type >= FTH_I128 || !is_narrow(k->lo[key], k->hi[key])) {
		add_wide(k, key, v, sel, numbers, none);
		return;
	}
	add_narrow(k, key, v, sel->n, numbers, none, (uint64_t *)work);
}

/* ---- hashed ---- */

static uint64_t hash_value(const struct task_slot *slot, const struct fth_vec *v, unsigned i)
{
	fth_i128 x;

	if (fth_type_is_text(slot->type)) {
		struct fth_str s = number_text(slot, v, i);

		return fth_checksum(s.data, s.len, 0);
	}
	if (v->type == FTH_BITS)
		return fth_bit(v->data, i);
	if (v->type == FTH_F64)
		return number_double(((const double *)v->data)[i]);
	x = fth_vec_int(v, i);
	return (uint64_t)x ^ fth_mix64((uint64_t)(x >> 64));
}

static void add_hashed(const struct task_slot *slot, const struct fth_vec *v,
		       const struct fth_sel *sel, uint64_t *numbers, const uint64_t *none)
{
	FTH_FOR_ROWS(sel->bits, sel->n, i)
	{
		if (!fth_bit(none, (unsigned)i))
			numbers[i] = fth_mix64(numbers[i] ^ hash_value(slot, v, (unsigned)i));
	}
}

void numbering_run(const struct numbering *k, struct fth_vec *const *keys,
		   const struct fth_sel *sel, uint64_t *numbers, uint64_t *none, int64_t *work)
{
	unsigned words = fth_bits_words(sel->n);

	memset(none, 0, words * sizeof(*none));
	if (!k->exact || k->count == 0)
		memset(numbers, 0, sel->n * sizeof(*numbers));
	for (unsigned i = 0; i < k->count; i++)
		for (unsigned w = 0; w < words && keys[i]->nulls; w++)
			none[w] |= keys[i]->nulls[w];
	for (unsigned i = 0; i < k->count; i++) {
		if (k->exact)
			add_packed(k, i, keys[i], sel, numbers, none, work);
		else
			add_hashed(&k->keys[i], keys[i], sel, numbers, none);
	}
}
