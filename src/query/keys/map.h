/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps from a unique key to a slot, which indexes packed payload arrays; and the choice of their structure by
 * the number of keys, their range and the memory, in one place. The planner asks for the bound beforehand.
 *
 *	dense	a slot for every value of the range; a bitmap of those that are there
 *	ranked	a bitmap, and slots by rank
 *	hash	for ranges that are sparse
 *
 * Building: (1) threads add all keys; (2) one thread seals; (3) threads find the slots of their rows
 * and scatter payload. Dense and hash maps know the slots in step 1 as well, but not ranked ones.
 */
#ifndef FTH_QUERY_MAP_H
#define FTH_QUERY_MAP_H

#include "query/keys/hash.h"
#include "query/keys/keyset.h"
#include "query/keys/packed.h"

enum fth_map_kind { FTH_MAP_DENSE, FTH_MAP_RANKED, FTH_MAP_HASH, FTH_MAP_KINDS };

/* What is known before: at most `count` keys in [min, max], with so many bits of payload each. */
struct fth_map_facts {
	uint64_t count;
	int64_t min, max;
	unsigned payload_bits;
};

struct fth_map_choice {
	enum fth_map_kind kind;
	uint64_t slots; /* of payload arrays */
	uint64_t bytes; /* with payload; UINT64_MAX: impossible */
};

/* What a map of this kind takes. */
struct fth_map_choice fth_map_cost(enum fth_map_kind kind, const struct fth_map_facts *facts);
/*
 * The fastest that fits into `budget`: dense where at least a quarter of the range is used or it is small,
 * then ranked, then hash; else the smallest, which does not fit: its `bytes` say so.
 */
struct fth_map_choice fth_map_choose(const struct fth_map_facts *facts, uint64_t budget);

struct fth_map {
	enum fth_map_kind kind;
	struct fth_keyset set; /* dense, ranked */
	struct fth_hash hash;
	uint64_t slots;
	uint64_t duplicates; /* atomic: keys that came again */
};

int fth_map_init(struct fth_map *m, struct fth_qmem *mem, enum fth_map_kind kind,
		 const struct fth_map_facts *facts);
void fth_map_release(struct fth_map *m);

/* Step 1. Returns 0, -ENOSPC if more keys came than facts said, or -ERANGE for a key out of [min, max]. */
int fth_map_add(struct fth_map *m, const int64_t *keys, unsigned n, const uint64_t *rows);
/* Step 2. Returns 0, -ENOMEM, or -EEXIST if a key came twice and `unique`. */
int fth_map_seal(struct fth_map *m, bool unique);
/* Step 3 and use: bit i of hits: row i is selected and its key is in the map, with slots[i]. */
void fth_map_find(const struct fth_map *m, const int64_t *keys, unsigned n, const uint64_t *rows,
		  uint64_t *hits, uint32_t *slots);
/* Membership alone. */
void fth_map_probe(const struct fth_map *m, const int64_t *keys, unsigned n, const uint64_t *rows,
		   uint64_t *hits);
/* Keys in the map, after sealing. */
uint64_t fth_map_count(const struct fth_map *m);

#endif
