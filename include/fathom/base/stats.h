/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics counters: counting is a plain add, and the cost of summing is paid by the reader.
 *
 * A counter set is split into shards. Each thread owns one shard index for its life, so adding
 * is an unshared load and store, without a locked instruction and without a call. Threads beyond
 * the last private shard share one, and use an atomic add there. Reading sums the shards: a reader
 * sees every add that happened before its call, and a monotonic value after that.
 */
#ifndef FATHOM_BASE_STATS_H
#define FATHOM_BASE_STATS_H

#include "fathom/base/decls.h"
#include "fathom/hd/atomic.h"

#include <stddef.h>
#include <stdint.h>

FTH_BEGIN_DECLS

#define FTH_STATS_SHARDS 64 /* the last one is the shared one */
/*
 * Counters of one shard that are adjacent: whole cache lines, and the same number for all sets, so
 * that a thread's offset is the same in every set.
 */
#define FTH_STATS_GROUP 32
#define FTH_STATS_STEP	(FTH_STATS_GROUP * sizeof(uint64_t)) /* bytes from shard to shard */

/*
 * A set of counters, numbered 0 .. n-1 by its user: group by group, all shards of a group before
 * the next. Defined here for fth_stats_add(); not part of the interface.
 */
struct fth_stats {
	unsigned counters;
	uint64_t *values;
};

/* Allocate a set of n counters, all zero. Returns NULL if out of memory. */
struct fth_stats *fth_stats_new(unsigned n);
void fth_stats_free(struct fth_stats *stats);

/*
 * Bytes from shard 0 to the calling thread's own, or FTH_STATS_PRIVATE or more while it has none.
 * initial-exec: found with one load, in a shared library too.
 */
extern __thread uint64_t fth_stats_place __attribute__((tls_model("initial-exec")));
#define FTH_STATS_PRIVATE ((FTH_STATS_SHARDS - 1) * FTH_STATS_STEP)

/* The address of a counter in shard 0; counter < n. Constant until the set is freed. */
static inline uint64_t *fth_stats_counter(const struct fth_stats *stats, unsigned counter)
{
	return stats->values +
	       (size_t)(counter / FTH_STATS_GROUP) * FTH_STATS_GROUP * FTH_STATS_SHARDS +
	       counter % FTH_STATS_GROUP;
}

/* The slow path of fth_stats_count(): threads without a private shard. */
void fth_stats_count_slow(uint64_t *counter, uint64_t amount);

/* Add to a counter that fth_stats_counter() found. Any thread, never blocks. */
static inline void fth_stats_count(uint64_t *counter, uint64_t amount)
{
	uint64_t place = fth_stats_place, *value;

	if (__builtin_expect(place >= FTH_STATS_PRIVATE, 0)) {
		fth_stats_count_slow(counter, amount);
		return;
	}
	value = (uint64_t *)(void *)((char *)counter + place);
	/* No other thread writes here. Readers load it at any time, so the store must not tear. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	__asm__("addq %1, %0" : "+m"(*value) : "er"(amount) : "cc");
#else
	fth_store_relaxed_dev64(value, fth_load_relaxed_dev64(value) + amount);
#endif
}

/*
 * For the most frequent counters: a thread keeps the FTH_STATS_TALLIES counters that it adds to
 * most in thread-local slots, where an add costs a comparison and an increment. `which` is the slot
 * that the counter may use. `key` identifies the counter in its slot: an address that is unique to
 * this counter until its set is freed. fth_stats_read() includes the slots. A counter that is not
 * in its slot is counted as above; if that happens often, it takes over the slot.
 */
#define FTH_STATS_TALLIES 4

struct fth_stats_tally {
	const void *key; /* NULL: nothing is counted here */
	uint64_t n;
	uint64_t *counter;
};
extern __thread struct fth_stats_tally fth_stats_tallies[FTH_STATS_TALLIES]
	__attribute__((tls_model("initial-exec")));

/* The slow path of fth_stats_tally(): the counter is not in its slot. */
void fth_stats_tally_slow(unsigned which, const void *key, uint64_t *counter);

/* Add 1 to a counter that fth_stats_counter() found. Any thread; waits for readers at most. */
static inline void fth_stats_tally(unsigned which, const void *key, uint64_t *counter)
{
	struct fth_stats_tally *tally = &fth_stats_tallies[which];

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
	if (__builtin_expect(tally->key != key, 0))
		fth_stats_tally_slow(which, key, counter);
	else
		__asm__("addq $1, %0" : "+m"(tally->n) : : "cc");
#else
	/* relaxed: a thread that frees a set may be removing its counter from this slot. */
	if (__builtin_expect(__atomic_load_n(&tally->key, __ATOMIC_RELAXED) != key, 0))
		fth_stats_tally_slow(which, key, counter);
	else
		fth_store_relaxed_dev64(&tally->n, tally->n + 1);
#endif
}

/* The same by number. Does nothing if the set is NULL or has no such counter. */
static inline void fth_stats_add(struct fth_stats *stats, unsigned counter, uint64_t amount)
{
	if (stats && counter < stats->counters)
		fth_stats_count(fth_stats_counter(stats, counter), amount);
}

/* The current sum of one counter. Any thread. */
uint64_t fth_stats_read(const struct fth_stats *stats, unsigned counter);

FTH_END_DECLS
#endif
