/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpKVS: a persistent key-value store of sets with 8 ways, after MegaKV (Zhang et al., PVLDB 2015).
 * A batch of SETs is a transaction: each thread logs the pair that it is about to overwrite; then
 * the new ones are written. A batch that did not commit is undone from the log.
 *
 * Pairs are written in the order of their place, by ranges of ways. In the order of the operations,
 * each of these 16-byte stores over the bus needs a translation that no other store nearby uses.
 *
 * Invariants
 * - A way is written at most once in a batch: who writes it has claimed it, by changing its stamp
 *   to the number of the batch. So the log has one entry for a way, and the order of undoing does
 *   not matter.
 * - A way is emptied by no one. A SET takes the way of its key, else an empty way, else one that no
 *   SET of this batch has claimed; if there is none it is dropped. So how many ways of a set are in
 *   use does not depend on the order of threads.
 * - Keys are not 0, and a batch sets a key at most once.
 * - All entries of a batch are durable before its first pair is written.
 */
#ifndef FTH_WORKLOADS_PM_KVS_KERNELS_H
#define FTH_WORKLOADS_PM_KVS_KERNELS_H

#include "workloads/pm/lanes.h"
#include "workloads/pm/undo.h"
#include "fathom/base/rng.h"

#define PMW_KVS_WAYS   8u
#define PMW_KVS_ITEM   PMW_WARP /* operations */
#define PMW_KVS_RANGES 65536u	/* of ways, at most */

struct pmw_kvs_pair {
	uint64_t key, value;
};

/* What a SET logs. */
struct pmw_kvs_undo {
	uint64_t way;
	struct pmw_kvs_pair pair;
};

struct pmw_kvs {
	struct fth_pm_view view;
	struct pmw_undo undo;
	struct pmw_kvs_pair *pairs; /* persistent: sets * PMW_KVS_WAYS */
	struct pmw_kvs_pair *copy;  /* of them, where reading is cheap */
	uint32_t *stamps;	    /* the batch that claimed each way last */
	uint64_t *values;	    /* what the GETs of the batch found; 0: nothing */
	uint64_t *dropped;	    /* SETs */
	uint64_t *chosen;	    /* of each operation: 1 + the way that it writes; 0: none */
	uint32_t *counts;	    /* of each range: operations that write there */
	uint32_t *starts;	    /* and the place in `order` for the next of them */
	uint32_t *order;	    /* operations, range by range */
	uint32_t *ordered;	    /* how many there are */
	uint64_t sets;
	uint64_t keys;	     /* there are so many different ones */
	uint64_t operations; /* of a batch */
	uint64_t seed;
	uint32_t batch;	      /* from 1 on */
	uint32_t set_percent; /* the first so many of each 100 operations are SETs */
	uint32_t range_shift; /* log2 of the ways in a range */
};

/* A permutation of [0, 2^bits): a batch uses a stretch of it, so its keys differ. */
FTH_HD uint64_t pmw_kvs_shuffle(uint64_t i, uint32_t bits, uint64_t seed)
{
	uint32_t low = bits / 2, high = bits - low;
	uint64_t left = i >> low, right = i & ((UINT64_C(1) << low) - 1);

	for (uint32_t round = 0; round < 4; round++) { /* unbalanced Feistel network */
		if (round % 2 == 0)
			left ^= fth_mix64(right + seed + round) & ((UINT64_C(1) << high) - 1);
		else
			right ^= fth_mix64(left + seed + round) & ((UINT64_C(1) << low) - 1);
	}
	return left << low | right;
}

FTH_HD uint32_t pmw_kvs_bits(uint64_t keys)
{
	uint32_t bits = 1;

	while ((UINT64_C(1) << bits) < keys)
		bits++;
	return bits;
}

/* The key of operation i of a batch; p->keys is a power of two. */
FTH_HD uint64_t pmw_kvs_key(const struct pmw_kvs *p, uint64_t batch, uint64_t i)
{
	uint64_t place = (batch * p->operations + i) & (p->keys - 1);

	return pmw_kvs_shuffle(place, pmw_kvs_bits(p->keys), p->seed) + 1;
}

/* The value that a batch gives a key; never 0, as batches are not. */
FTH_HD uint64_t pmw_kvs_value(uint64_t key, uint64_t batch)
{
	return fth_mix64(key) << 20 | batch;
}

FTH_HD uint64_t pmw_kvs_set_of(const struct pmw_kvs *p, uint64_t key)
{
	return fth_mix64(key * 0x9e3779b97f4a7c15u) % p->sets;
}

/* Claim a way for this batch; false if another SET of the batch has it. */
FTH_HD bool pmw_kvs_claim(const struct pmw_kvs *p, uint64_t way)
{
	uint32_t stamp = fth_load_relaxed_dev32(p->stamps + way);

	return stamp != p->batch && fth_cas_relaxed_dev32(p->stamps + way, &stamp, p->batch);
}

/* The way for a key, claimed; or that there is none. */
FTH_HD bool pmw_kvs_find(const struct pmw_kvs *p, uint64_t key, uint64_t *way)
{
	uint64_t first = pmw_kvs_set_of(p, key) * PMW_KVS_WAYS;

	for (*way = first; *way < first + PMW_KVS_WAYS; ++*way)
		if (fth_load_relaxed_dev64(&p->copy[*way].key) == key && pmw_kvs_claim(p, *way))
			return true;
	for (*way = first; *way < first + PMW_KVS_WAYS; ++*way)
		if (fth_load_relaxed_dev64(&p->copy[*way].key) == 0 && pmw_kvs_claim(p, *way))
			return true;
	for (uint64_t k = 0; k < PMW_KVS_WAYS; k++) {
		*way = first + (key + k) % PMW_KVS_WAYS;
		if (pmw_kvs_claim(p, *way))
			return true;
	}
	return false;
}

FTH_HD void pmw_kvs_write(const struct pmw_kvs *p, uint64_t way, const struct pmw_kvs_pair *pair)
{
	fth_pm_put64(&p->view, &p->pairs[way].key, pair->key);
	fth_pm_put64(&p->view, &p->pairs[way].value, pair->value);
	fth_pm_persist_range(&p->view, &p->pairs[way], sizeof(*pair));
}

/*
 * Find the way of a SET and log what is there. Returns 1 + the way, or 0: nothing is to be written.
 */
FTH_HD uint64_t pmw_kvs_choose(const struct pmw_kvs *p, uint64_t i)
{
	struct pmw_kvs_undo entry;

	if (!pmw_kvs_find(p, pmw_kvs_key(p, p->batch, i), &entry.way)) {
		fth_add_relaxed_dev64(p->dropped, 1);
		return 0;
	}
	entry.pair = p->copy[entry.way];
	if (!pmw_undo_log(&p->undo, i, &entry, sizeof(entry)))
		return 0;
	fth_add_relaxed_dev32(p->counts + (entry.way >> p->range_shift), 1);
	return entry.way + 1;
}

FTH_HD uint64_t pmw_kvs_get(const struct pmw_kvs *p, uint64_t key)
{
	uint64_t first = pmw_kvs_set_of(p, key) * PMW_KVS_WAYS;

	for (uint64_t way = first; way < first + PMW_KVS_WAYS; way++)
		if (fth_load_relaxed_dev64(&p->copy[way].key) == key)
			return fth_load_relaxed_dev64(&p->copy[way].value);
	return 0;
}

/* Item: 32 operations of the batch. GETs ask for keys of earlier batches and of this one. */
FTH_HD void pmw_kvs_batch(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_KVS_ITEM + lane;
	     i < p->operations && i < (item + 1) * PMW_KVS_ITEM; i += PMW_LANES) {
		bool sets = i % 100 < p->set_percent;

		p->chosen[i] = sets ? pmw_kvs_choose(p, i) : 0;
		if (!sets)
			p->values[i] = pmw_kvs_get(p, pmw_kvs_key(p, p->batch / 2, i));
	}
}

/*
 * Item: 32 ranges. Give each its places in `order`; ranges that are next to each other mostly stay
 * so.
 */
FTH_HD void pmw_kvs_place(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	for (uint64_t range = item * PMW_WARP + lane;
	     range < PMW_KVS_RANGES && range < (item + 1) * PMW_WARP; range += PMW_LANES) {
		p->starts[range] = fth_add_relaxed_dev32(p->ordered, p->counts[range]);
		p->counts[range] = 0;
	}
}

/* Item: 32 operations. */
FTH_HD void pmw_kvs_order(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_KVS_ITEM + lane;
	     i < p->operations && i < (item + 1) * PMW_KVS_ITEM; i += PMW_LANES) {
		uint64_t range = (p->chosen[i] - 1) >> p->range_shift;

		if (p->chosen[i] != 0)
			p->order[fth_add_relaxed_dev32(p->starts + range, 1)] = (uint32_t)i;
	}
}

/* Item: 32 operations in the order of their places. */
FTH_HD void pmw_kvs_store(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	for (uint64_t k = item * PMW_KVS_ITEM + lane;
	     k < *p->ordered && k < (item + 1) * PMW_KVS_ITEM; k += PMW_LANES) {
		uint64_t way = p->chosen[p->order[k]] - 1;
		struct pmw_kvs_pair pair;

		pair.key = pmw_kvs_key(p, p->batch, p->order[k]);
		pair.value = pmw_kvs_value(pair.key, p->batch);
		pmw_kvs_write(p, way, &pair);
		p->copy[way] = pair;
	}
}

/* One item, after the batch. */
FTH_HD void pmw_kvs_end(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	if (item == 0 && lane == 0)
		*p->ordered = 0;
}

/* Item: 32 operations of a batch that is to be undone. */
FTH_HD void pmw_kvs_undo(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	struct pmw_kvs_undo entry;

	for (uint64_t i = item * PMW_KVS_ITEM + lane;
	     i < p->operations && i < (item + 1) * PMW_KVS_ITEM; i += PMW_LANES)
		if (pmw_undo_read(&p->undo, i, &entry, sizeof(entry)) &&
		    entry.way < p->sets * PMW_KVS_WAYS)
			pmw_kvs_write(p, entry.way, &entry.pair);
}

/* Item: 32 ways. */
FTH_HD void pmw_kvs_load(const struct pmw_kvs *p, uint64_t item, uint32_t lane)
{
	for (uint64_t way = item * PMW_WARP + lane;
	     way < p->sets * PMW_KVS_WAYS && way < (item + 1) * PMW_WARP; way += PMW_LANES) {
		p->copy[way] = p->pairs[way];
		p->stamps[way] = 0;
	}
}

#endif
