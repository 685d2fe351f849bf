/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants
 * 1. A private shard index is held by at most one live thread at a time.
 * 2. Only its holder writes to a private shard, so a load and a store do instead of an atomic
 *    add. They are atomic accesses (relaxed) because readers look at them at any time.
 * 3. An index passes from an ended thread to a new one through `taken` with release and acquire,
 *    so the new holder continues from the old one's last value.
 */
#include "fathom/base/stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SHARED	   (FTH_STATS_SHARDS - 1)
#define UNASSIGNED UINT64_MAX /* a place that is none: this thread has not counted yet */
#define LINE	   64

static uint64_t taken; /* bit i: shard i is held; bit SHARED is never handed out */
__thread uint64_t fth_stats_place = UNASSIGNED;
static pthread_key_t exit_key;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void give_back(void *index_plus_one)
{
	unsigned shard = (unsigned)((uintptr_t)index_plus_one - 1);

	/* Later destructors of this thread may still count: they use the shared shard. */
	fth_stats_place = FTH_STATS_PRIVATE;
	fth_and_acqrel_dev64(&taken, ~((uint64_t)1 << shard));
}

static void make_exit_key(void)
{
	/* Without a key no shard is ever private; counting stays right, only slower. */
	if (pthread_key_create(&exit_key, give_back) != 0)
		taken = UINT64_MAX;
}

static unsigned take_shard(void)
{
	uint64_t now, free_mask = ~((uint64_t)1 << SHARED);

	pthread_once(&exit_once, make_exit_key);
	now = fth_load_relaxed_dev64(&taken);
	while (~now & free_mask) {
		unsigned shard = (unsigned)__builtin_ctzll(~now & free_mask);

		if (!fth_cas_acqrel_dev64(&taken, &now, now | ((uint64_t)1 << shard)))
			continue;
		if (pthread_setspecific(exit_key, (void *)(uintptr_t)(shard + 1)) == 0)
			return shard;
		fth_and_acqrel_dev64(&taken, ~((uint64_t)1 << shard));
		break;
	}
	return SHARED;
}

struct fth_stats *fth_stats_new(unsigned n)
{
	struct fth_stats *stats = malloc(sizeof(*stats));
	size_t groups = n ? (n + FTH_STATS_GROUP - 1) / FTH_STATS_GROUP : 1;
	size_t bytes = groups * FTH_STATS_SHARDS * FTH_STATS_STEP;

	if (!stats)
		return NULL;
	stats->counters = n;
	stats->values = aligned_alloc(LINE, bytes);
	if (!stats->values) {
		free(stats);
		return NULL;
	}
	memset(stats->values, 0, bytes);
	return stats;
}

void fth_stats_free(struct fth_stats *stats)
{
	if (!stats)
		return;
	free(stats->values);
	free(stats);
}

void fth_stats_count_slow(uint64_t *counter, uint64_t amount)
{
	if (fth_stats_place == UNASSIGNED)
		fth_stats_place = take_shard() * FTH_STATS_STEP;
	if (fth_stats_place < FTH_STATS_PRIVATE)
		fth_stats_count(counter, amount);
	else
		fth_add_relaxed_dev64(counter + (size_t)SHARED * FTH_STATS_GROUP, amount);
}

uint64_t fth_stats_read(const struct fth_stats *stats, unsigned counter)
{
	uint64_t sum = 0, *first;

	if (!stats || counter >= stats->counters)
		return 0;
	first = fth_stats_counter(stats, counter);
	for (size_t shard = 0; shard < FTH_STATS_SHARDS; shard++)
		sum += fth_load_relaxed_dev64(first + shard * FTH_STATS_GROUP);
	return sum;
}
