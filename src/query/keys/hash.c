/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table that threads fill together. A slot goes from 0 to its key by one compare-and-swap and never
 * changes again; so a thread that finds its key, or puts it there, has its slot. At most half of the slots
 * are used: a search ends at a free one. Rows are hashed and their homes prefetched a group at a time, so
 * that misses overlap.
 */
#include "query/keys/hash.h"
#include "query/keys/bit_rows.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>

#define AHEAD 16u
/* So many that free slots are left even if every thread adds one key too many. */
#define MIN_SLOTS 1024u

uint32_t fth_hash_slots(uint64_t count)
{
	uint64_t slots = MIN_SLOTS;

	while (slots < 2 * count)
		slots *= 2;
	return slots > (uint64_t)1 << 31 ? 0 : (uint32_t)slots + 1;
}

uint64_t fth_hash_bound(uint64_t count)
{
	uint32_t slots = fth_hash_slots(count);

	return slots ? fth_qmem_cost(slots * sizeof(uint64_t)) : UINT64_MAX;
}

int fth_hash_init(struct fth_hash *h, struct fth_qmem *mem, uint64_t count)
{
	*h = (struct fth_hash){.mem = mem, .room = count, .slots = fth_hash_slots(count)};
	if (h->slots == 0)
		return fth_fail(ENOMEM, "hash table: %llu keys, the limit is 2^30",
				(unsigned long long)count);
	h->shift = 64 - (unsigned)__builtin_ctz(h->slots - 1);
	h->keys = fth_qmem_zalloc(mem, h->slots * sizeof(uint64_t));
	return h->keys ? 0 : -ENOMEM;
}

void fth_hash_release(struct fth_hash *h)
{
	fth_qmem_free(h->mem, h->keys, h->slots * sizeof(uint64_t));
	h->keys = NULL;
}

static uint32_t home_of(const struct fth_hash *h, uint64_t key)
{
	return (uint32_t)(fth_mix64(key) >> h->shift);
}

/* Relaxed but for the count: a slot holds nothing but its key, and payload is written after threads were
 * joined or by the thread that has the row. */
static int insert_key(struct fth_hash *h, uint64_t key, uint32_t home, uint32_t *slot, bool *again)
{
	uint32_t mask = h->slots - 2;

	if (key == 0) {
		*slot = mask + 1;
		*again = fth_or_relaxed_dev32(&h->zero, 1) & 1;
		if (!*again)
			fth_add_relaxed_dev64(&h->count, 1);
		return 0;
	}
	for (uint32_t at = home;; at = (at + 1) & mask) {
		uint64_t there = fth_load_relaxed_dev64(&h->keys[at]);

		if (there == 0) {
			/*
			 * Threads that look at the same time may each add one more. Acquire: who sees the last
			 * key counted sees it in its slot, which may be this one.
			 */
			if (fth_load_acquire_dev64(&h->count) >= h->room) {
				there = fth_load_relaxed_dev64(&h->keys[at]);
				if (there == 0)
					return -ENOSPC;
			} else if (fth_cas_relaxed_dev64(&h->keys[at], &there, key)) {
				fth_add_release_dev64(&h->count, 1);
				*slot = at;
				*again = false;
				return 0;
			}
		}
		if (there == key) {
			*slot = at;
			*again = true;
			return 0;
		}
	}
}

/* Rows of a word, a few at a time. */
static unsigned next_rows(uint64_t *bits, unsigned first, uint16_t *out)
{
	unsigned n = 0;

	for (; *bits && n < AHEAD; *bits &= *bits - 1)
		out[n++] = (uint16_t)(first + (unsigned)__builtin_ctzll(*bits));
	return n;
}

static void find_homes(const struct fth_hash *h, const int64_t *keys, const uint16_t *row,
		       unsigned n, uint32_t *homes)
{
	for (unsigned i = 0; i < n; i++) {
		homes[i] = home_of(h, (uint64_t)keys[row[i]]);
		__builtin_prefetch(&h->keys[homes[i]]);
	}
}

int fth_hash_insert(struct fth_hash *h, const int64_t *keys, unsigned n, const uint64_t *rows,
		    uint32_t *slots, uint64_t *again)
{
	uint32_t homes[AHEAD];
	uint16_t row[AHEAD];
	int rc = 0;

	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		uint64_t bits = rows[w];

		while (bits) {
			unsigned count = next_rows(&bits, w * 64, row);

			find_homes(h, keys, row, count, homes);
			for (unsigned i = 0; i < count; i++) {
				bool seen = false;

				slots[row[i]] = FTH_HASH_NONE;
				if (insert_key(h, (uint64_t)keys[row[i]], homes[i], &slots[row[i]],
					       &seen) < 0)
					rc = -ENOSPC;
				if (again && seen)
					fth_bit_set(again, row[i]);
			}
		}
	}
	return rc;
}

static uint32_t find_key(const struct fth_hash *h, uint64_t key, uint32_t home)
{
	uint32_t mask = h->slots - 2;

	if (key == 0)
		return h->zero ? mask + 1 : FTH_HASH_NONE;
	for (uint32_t at = home;; at = (at + 1) & mask) {
		if (h->keys[at] == key)
			return at;
		if (h->keys[at] == 0)
			return FTH_HASH_NONE;
	}
}

void fth_hash_probe(const struct fth_hash *h, const int64_t *keys, unsigned n, const uint64_t *rows,
		    uint64_t *hits, uint32_t *slots)
{
	uint32_t homes[AHEAD];
	uint16_t row[AHEAD];

	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		uint64_t bits = rows[w], out = 0;

		while (bits) {
			unsigned count = next_rows(&bits, w * 64, row);

			find_homes(h, keys, row, count, homes);
			for (unsigned i = 0; i < count; i++) {
				uint32_t slot = find_key(h, (uint64_t)keys[row[i]], homes[i]);

				slots[row[i]] = slot;
				out |= (uint64_t)(slot != FTH_HASH_NONE) << row[i] % 64;
			}
		}
		hits[w] = out;
	}
}

bool fth_hash_key(const struct fth_hash *h, uint32_t slot, int64_t *key)
{
	bool last = slot == h->slots - 1;

	*key = last ? 0 : (int64_t)h->keys[slot];
	return last ? h->zero : h->keys[slot] != 0;
}
