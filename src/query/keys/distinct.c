/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets of distinct numbers. A slot holds the number plus one, so that 0 is free; the one number for
 * which that wraps is kept beside the table. At most three quarters of the slots are used.
 */
#include "query/keys/distinct.h"

#include "fathom/base/rng.h"

#include <errno.h>

#define FIRST_SLOTS  128u
#define CACHED_BYTES (64u << 10) /* a larger table is not in the nearest cache */

static unsigned width_for(unsigned bits)
{
	return bits <= 32 ? 4 : bits <= 64 ? 8 : 16;
}

static bool is_full(uint64_t count, uint64_t slots)
{
	return count * 4 > slots * 3;
}

int distinct_set_init(struct distinct_set *d, struct fth_qmem *mem, unsigned bits)
{
	*d = (struct distinct_set){.mem = mem, .width = width_for(bits), .slots = FIRST_SLOTS};
	d->table = fth_qmem_zalloc(mem, (size_t)d->slots * d->width);
	return d->table ? 0 : -ENOMEM;
}

void distinct_set_release(struct distinct_set *d)
{
	if (d->mem)
		fth_qmem_free(d->mem, d->table, (size_t)d->slots * d->width);
	*d = (struct distinct_set){0};
}

void distinct_set_clear(struct distinct_set *d)
{
	if (d->count > 0)
		memset(d->table, 0, (size_t)d->slots * d->width);
	d->count = 0;
	d->zero = false;
}

static uint32_t home_of(fth_u128 key, uint32_t mask)
{
	uint64_t high = (uint64_t)(key >> 64);

	return (uint32_t)fth_mix64((uint64_t)key ^ (high == 0 ? 0 : fth_mix64(high))) & mask;
}

static fth_u128 slot_at(const struct distinct_set *d, uint64_t at)
{
	return d->width == 4   ? ((const uint32_t *)d->table)[at]
	       : d->width == 8 ? ((const uint64_t *)d->table)[at]
			       : ((const fth_u128 *)d->table)[at];
}

/*
 * Enter up to 64 numbers; which of them were new. First their places are fetched, so that the waits
 * for memory overlap.
 */
#define DEFINE_ADD(T)                                                                           \
	static uint64_t add_##T(struct distinct_set *d, const fth_u128 *numbers, uint64_t rows, \
				bool far)                                                       \
	{                                                                                       \
		uint32_t mask = d->slots - 1, homes[64];                                        \
		uint64_t fresh = 0;                                                             \
		T *table = d->table;                                                            \
                                                                                                \
		for (uint64_t bits = rows; bits; bits &= bits - 1) {                            \
			unsigned i = (unsigned)__builtin_ctzll(bits);                           \
                                                                                                \
			homes[i] = home_of(numbers[i], mask);                                   \
			if (far)                                                                \
				__builtin_prefetch(&table[homes[i]], 1);                        \
		}                                                                               \
		for (uint64_t bits = rows; bits; bits &= bits - 1) {                            \
			unsigned i = (unsigned)__builtin_ctzll(bits);                           \
			T slot = (T)((T)numbers[i] + 1);                                        \
			uint32_t at = homes[i];                                                 \
                                                                                                \
			while (slot != 0 && table[at] != 0 && table[at] != slot)                \
				at = (at + 1) & mask;                                           \
			if (slot == 0 ? d->zero : table[at] == slot)                            \
				continue;                                                       \
			if (slot == 0)                                                          \
				d->zero = true;                                                 \
			else                                                                    \
				table[at] = slot;                                               \
			fresh |= bits & -bits;                                                  \
		}                                                                               \
		d->count += (uint64_t)__builtin_popcountll(fresh);                              \
		return fresh;                                                                   \
	}
DEFINE_ADD(uint32_t)
DEFINE_ADD(uint64_t)
DEFINE_ADD(fth_u128)

static uint64_t add_word(struct distinct_set *d, const fth_u128 *numbers, uint64_t rows)
{
	bool far = (size_t)d->slots * d->width > CACHED_BYTES;

	return d->width == 4   ? add_uint32_t(d, numbers, rows, far)
	       : d->width == 8 ? add_uint64_t(d, numbers, rows, far)
			       : add_fth_u128(d, numbers, rows, far);
}

int distinct_set_reserve(struct distinct_set *d, unsigned bits, uint32_t more)
{
	struct distinct_set larger = *d;
	unsigned width = width_for(bits);
	fth_u128 numbers[64];
	uint64_t at = 0, slots = d->slots;
	unsigned n;

	while (is_full(d->count + more, slots))
		slots *= 2;
	larger.width = width > d->width ? width : d->width;
	if (slots == d->slots && larger.width == d->width)
		return 0;
	if (slots > (uint32_t)1 << 31)
		return -ENOMEM;
	larger.slots = (uint32_t)slots;
	larger.count = 0;
	larger.zero = false;
	larger.table = fth_qmem_zalloc(d->mem, slots * larger.width);
	if (!larger.table)
		return -ENOMEM;
	while ((n = distinct_set_next(d, &at, numbers, 64)) > 0)
		add_word(&larger, numbers, UINT64_MAX >> (64 - n));
	distinct_set_release(d);
	*d = larger;
	return 0;
}

void distinct_set_add(struct distinct_set *d, const fth_u128 *numbers, unsigned n,
		      const uint64_t *rows, uint64_t *fresh)
{
	for (unsigned w = 0; w < fth_bits_words(n); w++)
		fresh[w] = add_word(d, numbers + (size_t)w * 64, rows[w]);
}

unsigned distinct_set_next(const struct distinct_set *d, uint64_t *at, fth_u128 *numbers,
			   unsigned n)
{
	unsigned found = 0;

	for (; *at < d->slots && found < n; ++*at) {
		fth_u128 slot = slot_at(d, *at);

		if (slot != 0)
			numbers[found++] = slot - 1;
	}
	if (*at == d->slots && found < n) {
		++*at;
		if (d->zero)
			numbers[found++] = d->width == 4   ? UINT32_MAX
					   : d->width == 8 ? UINT64_MAX
							   : ~(fth_u128)0;
	}
	return found;
}
