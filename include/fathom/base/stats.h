/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics counters that cost a plain add when counted and something only when read.
 *
 * A counter set is split into shards. Each thread owns one shard index for its life, so adding
 * is an unshared load and store, without a locked instruction and without a call. Threads beyond
 * the last private shard share one, and use an atomic add there. Reading sums the shards: a reader
 * sees every add that happened before its call, and a monotonic value after that.
 */
#ifndef FATHOM_BASE_STATS_H
#define FATHOM_BASE_STATS_H

#include "fathom/hd/atomic.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FTH_STATS_SHARDS 64 /* the last one is the shared one */

/* A set of counters, numbered 0 .. n-1 by its user. Here for fth_stats_add(); not to be touched. */
struct fth_stats {
	unsigned counters;
	unsigned stride; /* counters per shard, padded to whole cache lines */
	uint64_t *values;
};

/* A set of n counters, all zero; NULL when memory is short. */
struct fth_stats *fth_stats_new(unsigned n);
void fth_stats_free(struct fth_stats *stats);

/*
 * The calling thread's private shard, or FTH_STATS_SHARDS - 1 or more while it has none.
 * initial-exec: found with one load, in a shared library too.
 */
extern __thread unsigned fth_stats_shard __attribute__((tls_model("initial-exec")));

/* What fth_stats_add() leaves: threads without a private shard, counters that are not there. */
void fth_stats_add_slow(struct fth_stats *stats, unsigned counter, uint64_t amount);

/* Add to one counter. Any thread, never blocks. A NULL set counts nothing. */
static inline void fth_stats_add(struct fth_stats *stats, unsigned counter, uint64_t amount)
{
	unsigned shard = fth_stats_shard;
	uint64_t *value;

	if (__builtin_expect(shard >= FTH_STATS_SHARDS - 1 || !stats || counter >= stats->counters,
			     0)) {
		fth_stats_add_slow(stats, counter, amount);
		return;
	}
	/* Nobody else writes here; relaxed, since readers look at any time. */
	value = &stats->values[(size_t)shard * stats->stride + counter];
	fth_store_relaxed_dev64(value, fth_load_relaxed_dev64(value) + amount);
}

/*
 * For the hottest paths: where a counter is, looked up once, so that adding to it is a handful of
 * instructions. Valid as long as the set.
 */
struct fth_stats_counter {
	uint64_t *first; /* in shard 0 */
	uint64_t stride; /* from shard to shard */
	struct fth_stats *stats;
	unsigned counter;
};

static inline void fth_stats_count(const struct fth_stats_counter *at, uint64_t amount)
{
	uint64_t shard = fth_stats_shard, *value;

	if (__builtin_expect(shard >= FTH_STATS_SHARDS - 1, 0)) {
		fth_stats_add_slow(at->stats, at->counter, amount);
		return;
	}
	/* As above. */
	value = at->first + shard * at->stride;
	fth_store_relaxed_dev64(value, fth_load_relaxed_dev64(value) + amount);
}

/* Look up a counter that is there. */
static inline void fth_stats_counter_init(struct fth_stats_counter *at, struct fth_stats *stats,
					  unsigned counter)
{
	at->first = &stats->values[counter];
	at->stride = stats->stride;
	at->stats = stats;
	at->counter = counter;
}

/* The present sum of one counter. Any thread. */
uint64_t fth_stats_read(const struct fth_stats *stats, unsigned counter);

#ifdef __cplusplus
}
#endif
#endif
