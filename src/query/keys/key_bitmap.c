/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key sets as bitmaps with rank. Beside it: composite_key.c several columns as one key,
 * group_table.c numbers of groups, distinct.c sets of wide numbers.
 */
#include "query/keys/key_bitmap.h"
#include "query/keys/bit_rows.h"
#include "query/vec/kern/kern.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>

#define BLOCK_WORDS 2

static uint64_t words_of(int64_t min, int64_t max)
{
	uint64_t span = (uint64_t)max - (uint64_t)min;

	return span >= (uint64_t)1 << 40 ? 0 : span / 64 + 1;
}

uint64_t key_bitmap_bound(int64_t min, int64_t max, bool ranked)
{
	uint64_t words = words_of(min, max);

	if (max < min || words == 0)
		return UINT64_MAX;
	return fth_qmem_cost(words * sizeof(uint64_t)) +
	       (ranked ? fth_qmem_cost((words / BLOCK_WORDS + 1) * sizeof(uint32_t)) : 0);
}

int key_bitmap_init(struct key_bitmap *s, struct fth_qmem *mem, int64_t min, int64_t max)
{
	uint64_t words = words_of(min, max);

	*s = (struct key_bitmap){.mem = mem, .min = min, .max = max};
	if (max < min || words == 0)
		return fth_fail(ENOMEM, "key set: the range %lld to %lld is too large for a bitmap",
				(long long)min, (long long)max);
	s->nbits = (uint64_t)max - (uint64_t)min + 1;
	s->bits = fth_qmem_zalloc(mem, words * sizeof(uint64_t));
	return s->bits ? 0 : -ENOMEM;
}

void key_bitmap_release(struct key_bitmap *s)
{
	uint64_t words = s->bits ? words_of(s->min, s->max) : 0;

	fth_qmem_free(s->mem, s->bits, words * sizeof(uint64_t));
	fth_qmem_free(s->mem, s->before, (words / BLOCK_WORDS + 1) * sizeof(uint32_t));
	s->bits = NULL;
	s->before = NULL;
}

void key_bitmap_add(struct key_bitmap *s, const int64_t *keys, unsigned n, const uint64_t *rows,
		    uint64_t *outside, uint64_t *again)
{
	FTH_FOR_ROWS(rows, n, i)
	{
		uint64_t at = (uint64_t)keys[i] - (uint64_t)s->min, bit = (uint64_t)1 << at % 64,
			 old;

		if (at >= s->nbits) {
			++*outside;
			continue;
		}
		/*
		 * Relaxed: readers look after the threads were joined. Looking first keeps lines
		 * shared.
		 */
		old = fth_load_relaxed_dev64(&s->bits[at / 64]);
		if (!(old & bit))
			old = fth_or_relaxed_dev64(&s->bits[at / 64], bit);
		if (again && (old & bit))
			fth_bit_set(again, (unsigned)i);
	}
}

/* How many bits a kernel can count at once. */
#define COUNT_WORDS ((uint64_t)1 << 20)

uint64_t key_bitmap_count(const struct key_bitmap *s)
{
	uint64_t count = 0, words = words_of(s->min, s->max);

	for (uint64_t w = 0; w < words; w += COUNT_WORDS) {
		uint64_t n = words - w < COUNT_WORDS ? words - w : COUNT_WORDS;

		count += fth_kern()->count(s->bits + w, (unsigned)n * 64);
	}
	return count;
}

int key_bitmap_seal(struct key_bitmap *s)
{
	uint64_t words = words_of(s->min, s->max);

	if (!s->before)
		s->before = fth_qmem_alloc(s->mem, (words / BLOCK_WORDS + 1) * sizeof(uint32_t));
	if (!s->before)
		return -ENOMEM;
	s->count = 0;
	for (uint64_t w = 0; w < words; w += BLOCK_WORDS) {
		unsigned n = words - w < BLOCK_WORDS ? (unsigned)(words - w) : BLOCK_WORDS;

		s->before[w / BLOCK_WORDS] = (uint32_t)s->count;
		s->count += fth_kern()->count(s->bits + w, n * 64);
	}
	return s->count > UINT32_MAX ? -ERANGE : 0;
}

void key_bitmap_probe(const struct key_bitmap *s, const int64_t *keys, unsigned n,
		      const uint64_t *rows, uint64_t *hits)
{
	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		uint64_t in = rows[w], out = 0;

		if (in == ~(uint64_t)0) { /* no branches, so that loads overlap */
			for (unsigned j = 0; j < 64; j++) {
				uint64_t at = (uint64_t)keys[w * 64 + j] - (uint64_t)s->min;
				uint64_t safe = at < s->nbits ? at : 0;

				out |= (s->bits[safe / 64] >> safe % 64 & (at < s->nbits)) << j;
			}
		} else {
			for (; in; in &= in - 1) {
				unsigned j = (unsigned)__builtin_ctzll(in);

				out |= (uint64_t)key_bitmap_has(s, keys[w * 64 + j]) << j;
			}
		}
		hits[w] = out;
	}
}

void key_bitmap_ranks(const struct key_bitmap *s, const int64_t *keys, unsigned n,
		      const uint64_t *hits, uint32_t *ranks)
{
	fth_kern()->ranks(s->bits, s->before, s->min, keys, n, hits, ranks);
}
