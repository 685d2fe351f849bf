/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table of 64-bit keys with open addressing. Its size is fixed; threads fill it together. A key's slot,
 * its place in the table, is constant and indexes payload arrays of `slots` values.
 */
#ifndef FTH_QUERY_HASH_H
#define FTH_QUERY_HASH_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

#include "fathom/base/rng.h"

#define FTH_HASH_NONE UINT32_MAX

struct fth_hash {
	struct fth_qmem *mem;
	uint64_t *keys; /* 0: free. The key 0 has the slot after the last. */
	uint32_t slots; /* with that one */
	unsigned shift; /* the high bits of a hash are its home */
	uint64_t count; /* atomic */
	uint64_t room;	/* most keys */
	uint32_t zero;	/* atomic: the key 0 is there */
};

/* Bytes and slots of a table for `count` keys; UINT64_MAX and 0 if there are too many. */
uint64_t fth_hash_bound(uint64_t count);
uint32_t fth_hash_slots(uint64_t count);

int fth_hash_init(struct fth_hash *h, struct fth_qmem *mem, uint64_t count);
void fth_hash_release(struct fth_hash *h);

/*
 * Insert the keys of selected rows; slots[i] is the place of row i's key. Bit i of `again` is set if the
 * key was there already. Thread-safe. Returns 0, or -ENOSPC if there are more keys than `count` (each
 * thread may insert one more before it is noticed): then some rows were inserted, and rows that were not have
 * FTH_HASH_NONE.
 */
int fth_hash_insert(struct fth_hash *h, const int64_t *keys, unsigned n, const uint64_t *rows,
		    uint32_t *slots, uint64_t *again);
/* Bit i of hits: row i is selected and its key is there, in slots[i]. hits may be rows. */
void fth_hash_probe(const struct fth_hash *h, const int64_t *keys, unsigned n, const uint64_t *rows,
		    uint64_t *hits, uint32_t *slots);
/* The key in a slot; false if it is free. */
bool fth_hash_key(const struct fth_hash *h, uint32_t slot, int64_t *key);

#endif
