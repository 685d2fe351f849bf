/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics counters that cost a plain add when counted and something only when read.
 *
 * A counter set is split into shards. Each thread owns one shard index for its life, so adding
 * is an unshared load and store, without a locked instruction. Threads beyond the last private
 * shard share one, and use an atomic add there. Reading sums the shards: a reader sees every add
 * that happened before its call, and a monotonic value after that.
 */
#ifndef FATHOM_BASE_STATS_H
#define FATHOM_BASE_STATS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FTH_STATS_SHARDS 64 /* the last one is the shared one */

struct fth_stats; /* a set of counters, numbered 0 .. n-1 by its user */

/* A set of n counters, all zero; NULL when memory is short. */
struct fth_stats *fth_stats_new(unsigned n);
void fth_stats_free(struct fth_stats *stats);

/* Add to one counter. Any thread, never blocks. A NULL set counts nothing. */
void fth_stats_add(struct fth_stats *stats, unsigned counter, uint64_t amount);

/* The present sum of one counter. Any thread. */
uint64_t fth_stats_read(const struct fth_stats *stats, unsigned counter);

#ifdef __cplusplus
}
#endif
#endif
