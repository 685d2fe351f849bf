/* SPDX-License-Identifier: BSD-2-Clause */
/* Maps from unique keys to slots, and the choice of their structure. */
#include "query/keys/map.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>

/* Dense slots that are not used cost memory; up to so many bits that does not matter. */
#define SMALL_DENSE_BITS ((uint64_t)64 << 13)

static uint64_t span_of(const struct fth_map_facts *f)
{
	return (uint64_t)f->max - (uint64_t)f->min;
}

static uint64_t payload_bytes(uint64_t slots, unsigned bits)
{
	return bits ? fth_qmem_cost((slots * bits / 64 + 2) * sizeof(uint64_t)) : 0;
}

struct fth_map_choice fth_map_cost(enum fth_map_kind kind, const struct fth_map_facts *f)
{
	struct fth_map_choice c = {.kind = kind, .bytes = UINT64_MAX};
	uint64_t base = UINT64_MAX, span = span_of(f);

	if (kind == FTH_MAP_HASH) {
		c.slots = fth_hash_slots(f->count);
		base = fth_hash_bound(f->count);
	} else if (f->max >= f->min && span < UINT32_MAX) {
		c.slots = kind == FTH_MAP_DENSE || f->count > span + 1 ? span + 1 : f->count;
		base = fth_keyset_bound(f->min, f->max, kind == FTH_MAP_RANKED);
	} else if (f->max >= f->min && kind == FTH_MAP_RANKED) {
		c.slots = f->count;
		base = f->count < UINT32_MAX ? fth_keyset_bound(f->min, f->max, true) : UINT64_MAX;
	}
	if (base != UINT64_MAX)
		c.bytes = base + payload_bytes(c.slots, f->payload_bits);
	return c;
}

static bool dense_is_worth_it(const struct fth_map_facts *f)
{
	return span_of(f) / 4 <= f->count || span_of(f) <= SMALL_DENSE_BITS / (f->payload_bits + 1);
}

struct fth_map_choice fth_map_choose(const struct fth_map_facts *f, uint64_t budget)
{
	struct fth_map_choice dense = fth_map_cost(FTH_MAP_DENSE, f),
			      ranked = fth_map_cost(FTH_MAP_RANKED, f),
			      hash = fth_map_cost(FTH_MAP_HASH, f), best;

	if (dense.bytes <= budget && dense_is_worth_it(f))
		return dense;
	/* A bitmap in the processor's cache is worth more than it costs, a huge one of few keys is not. */
	if (ranked.bytes <= budget && (ranked.bytes <= 8 * hash.bytes || hash.bytes > budget))
		return ranked;
	if (hash.bytes <= budget)
		return hash;
	best = ranked.bytes < hash.bytes ? ranked : hash;
	return dense.bytes < best.bytes ? dense : best;
}

int fth_map_init(struct fth_map *m, struct fth_qmem *mem, enum fth_map_kind kind,
		 const struct fth_map_facts *facts)
{
	*m = (struct fth_map){.kind = kind, .slots = fth_map_cost(kind, facts).slots};
	if (kind == FTH_MAP_HASH)
		return fth_hash_init(&m->hash, mem, facts->count);
	return fth_keyset_init(&m->set, mem, facts->min, facts->max);
}

void fth_map_release(struct fth_map *m)
{
	if (m->kind == FTH_MAP_HASH)
		fth_hash_release(&m->hash);
	else
		fth_keyset_release(&m->set);
}

int fth_map_add(struct fth_map *m, const int64_t *keys, unsigned n, const uint64_t *rows)
{
	uint64_t again[FTH_BATCH_WORDS] = {0}, outside = 0;
	uint32_t slots[FTH_BATCH];
	int rc = 0;

	if (m->kind == FTH_MAP_HASH)
		rc = fth_hash_insert(&m->hash, keys, n, rows, slots, again);
	else
		fth_keyset_add(&m->set, keys, n, rows, &outside, again);
	fth_add_relaxed_dev64(&m->duplicates, fth_bits_count(again, n));
	if (rc < 0)
		return fth_fail(ENOSPC, "map: more keys than the %llu planned",
				(unsigned long long)m->hash.room);
	if (outside > 0)
		return fth_fail(ERANGE, "map: a key is outside %lld to %lld", (long long)m->set.min,
				(long long)m->set.max);
	return 0;
}

int fth_map_seal(struct fth_map *m, bool unique)
{
	if (unique && m->duplicates > 0)
		return fth_fail(EEXIST, "map: %llu duplicate keys",
				(unsigned long long)m->duplicates);
	return m->kind == FTH_MAP_RANKED ? fth_keyset_seal(&m->set) : 0;
}

void fth_map_find(const struct fth_map *m, const int64_t *keys, unsigned n, const uint64_t *rows,
		  uint64_t *hits, uint32_t *slots)
{
	if (m->kind == FTH_MAP_HASH) {
		fth_hash_probe(&m->hash, keys, n, rows, hits, slots);
		return;
	}
	fth_keyset_probe(&m->set, keys, n, rows, hits);
	if (m->kind == FTH_MAP_RANKED) {
		fth_keyset_ranks(&m->set, keys, n, hits, slots);
		return;
	}
	/* Rows that are no hits get a number that nobody looks at. */
	for (unsigned i = 0; i < n; i++)
		slots[i] = (uint32_t)((uint64_t)keys[i] - (uint64_t)m->set.min);
}

void fth_map_probe(const struct fth_map *m, const int64_t *keys, unsigned n, const uint64_t *rows,
		   uint64_t *hits)
{
	uint32_t slots[FTH_BATCH];

	if (m->kind == FTH_MAP_HASH)
		fth_hash_probe(&m->hash, keys, n, rows, hits, slots);
	else
		fth_keyset_probe(&m->set, keys, n, rows, hits);
}

uint64_t fth_map_count(const struct fth_map *m)
{
	return m->kind == FTH_MAP_HASH ? m->hash.count : fth_keyset_count(&m->set);
}
