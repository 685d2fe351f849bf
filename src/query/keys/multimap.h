/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps from a key to many values, as compressed sparse rows: where the values of each slot begin, and the values
 * one after the other. Building takes the keys three times:
 *
 *	1. fth_map_add() into .map, by all threads; fth_multimap_seal_keys() by one
 *	2. fth_multimap_count(), by all threads; fth_multimap_seal_counts() by one
 *	3. fth_multimap_put(), by all threads
 *
 * The values of a key are in no order if several threads put them.
 */
#ifndef FTH_QUERY_MULTIMAP_H
#define FTH_QUERY_MULTIMAP_H

#include "query/keys/map.h"

struct fth_multimap {
	struct fth_qmem *mem;
	struct fth_map map;
	uint64_t rows;
	uint32_t *start; /* of each slot and one more; while building, atomic */
	uint32_t *values;
};

/* For `rows` values; facts of the distinct keys. Below 2^32 values. */
uint64_t fth_multimap_bound(enum fth_map_kind kind, const struct fth_map_facts *facts,
			    uint64_t rows);
int fth_multimap_init(struct fth_multimap *m, struct fth_qmem *mem, enum fth_map_kind kind,
		      const struct fth_map_facts *facts);
void fth_multimap_release(struct fth_multimap *m);

int fth_multimap_seal_keys(struct fth_multimap *m);
void fth_multimap_count(struct fth_multimap *m, const int64_t *keys, unsigned n,
			const uint64_t *rows);
int fth_multimap_seal_counts(struct fth_multimap *m);
void fth_multimap_put(struct fth_multimap *m, const int64_t *keys, const uint32_t *values,
		      unsigned n, const uint64_t *rows);

/* Hits and slots as fth_map_find(). The values of slot s are [start[s], start[s + 1]). */
static inline uint32_t fth_multimap_values(const struct fth_multimap *m, uint32_t slot,
					   const uint32_t **values)
{
	*values = m->values + m->start[slot];
	return m->start[slot + 1] - m->start[slot];
}

#endif
