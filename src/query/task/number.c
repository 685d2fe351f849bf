/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/number.h"
#include "query/task/rows.h"

#include "fathom/base/checksum.h"
#include "fathom/base/rng.h"

#include "query/set/rows.h"

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

/* ---- packed ---- */

static bool is_narrow(fth_i128 lo, fth_i128 hi)
{
	return lo >= INT64_MIN && hi <= INT64_MAX;
}

/* Values in 64 bits: a difference out of [0, span] wraps to something larger. */
static void add_narrow(uint64_t lo, uint64_t span, unsigned width, bool first,
		       const int64_t *values, unsigned n, uint64_t *numbers, uint64_t *none)
{
	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		unsigned end = n - w * 64 < 64 ? n - w * 64 : 64;
		uint64_t out = 0;

		for (unsigned j = 0; j < end; j++) {
			uint64_t x = (uint64_t)values[w * 64 + j] - lo;

			out |= (uint64_t)(x > span) << j;
			numbers[w * 64 + j] = first ? x : numbers[w * 64 + j] << width | x;
		}
		none[w] |= out;
	}
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
	fth_vec_to_i64(work, v, sel->n);
	add_narrow((uint64_t)k->lo[key], (uint64_t)(k->hi[key] - k->lo[key]), k->width[key],
		   key == 0, work, sel->n, numbers, none);
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
		for (unsigned w = 0; w < words && keys[i]->nulls != NULL; w++)
			none[w] |= keys[i]->nulls[w];
	for (unsigned i = 0; i < k->count; i++) {
		if (k->exact)
			add_packed(k, i, keys[i], sel, numbers, none, work);
		else
			add_hashed(&k->keys[i], keys[i], sel, numbers, none);
	}
}
