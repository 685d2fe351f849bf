/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key sets: a bitmap over [min, max]. After sealing, the rank of a key, its place among the keys in
 * the set, takes constant time: counts per block of 128 bits. Ranks index records (record_pack.h).
 *
 * Adding is thread-safe. Sealing is one thread's, after all have added; then the set is constant.
 */
#ifndef FTH_QUERY_KEY_BITMAP_H
#define FTH_QUERY_KEY_BITMAP_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

struct key_bitmap {
	struct fth_qmem *mem;
	int64_t min, max;
	uint64_t nbits;
	uint64_t *bits;
	uint32_t *before; /* keys before each block of 2 words; NULL until sealed */
	uint64_t count;	  /* after sealing */
};

/* Bytes that a set over [min, max] takes; UINT64_MAX if there can be none. */
uint64_t key_bitmap_bound(int64_t min, int64_t max, bool ranked);

/* Returns 0 or -ENOMEM. Zero-initialise; release accepts that. */
int key_bitmap_init(struct key_bitmap *s, struct fth_qmem *mem, int64_t min, int64_t max);
void key_bitmap_release(struct key_bitmap *s);

/*
 * Add the keys of selected rows. Keys out of [min, max] are ignored and counted in *outside. With
 * `again`, bit i is set there if the key was in the set already (or came twice). Thread-safe.
 */
void key_bitmap_add(struct key_bitmap *s, const int64_t *keys, unsigned n, const uint64_t *rows,
		    uint64_t *outside, uint64_t *again);

/*
 * Make ranks; without, only membership can be asked. Returns 0, -ENOMEM, or -ERANGE above 2^32
 * keys.
 */
int key_bitmap_seal(struct key_bitmap *s);
/* Keys in the set, without ranks. */
uint64_t key_bitmap_count(const struct key_bitmap *s);

static inline bool key_bitmap_has(const struct key_bitmap *s, int64_t key)
{
	uint64_t at = (uint64_t)key - (uint64_t)s->min;

	return at < s->nbits && (s->bits[at / 64] >> at % 64 & 1);
}

/* The rank of a key in [min, max]: how many keys of the set are less. */
static inline uint32_t key_bitmap_rank(const struct key_bitmap *s, int64_t key)
{
	uint64_t at = (uint64_t)key - (uint64_t)s->min, word = at / 64;
	uint32_t rank = s->before[word / 2];

	if (word % 2 == 1)
		rank += (uint32_t)__builtin_popcountll(s->bits[word - 1]);
	return rank +
	       (uint32_t)__builtin_popcountll(s->bits[word] & (((uint64_t)1 << at % 64) - 1));
}

/* Bit i of hits: row i is selected and its key is in the set. hits may be rows. */
void key_bitmap_probe(const struct key_bitmap *s, const int64_t *keys, unsigned n,
		      const uint64_t *rows, uint64_t *hits);
/* Ranks of the rows in `hits`, which are in the set. */
void key_bitmap_ranks(const struct key_bitmap *s, const int64_t *keys, unsigned n,
		      const uint64_t *hits, uint32_t *ranks);

#endif
