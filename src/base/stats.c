/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants
 * 1. A private shard index is held by at most one live thread at a time.
 * 2. Only its holder writes to a private shard, so a load and a store do instead of an atomic
 *    add. They are atomic accesses (relaxed) because readers look at them at any time.
 * 3. An index passes from an ended thread to a new one through `taken` with release and acquire,
 *    so the new holder continues from the old one's last value.
 * 4. A thread's tallies are in the list of threads from before they hold anything until it ends.
 *    Only their thread changes n. key and counter change under the lock only, by their thread or by
 *    whoever frees the counter. So with the lock held what is in tallies stays there.
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

/* A counter gets a tally when it was not there so often: whoever counts two in turns pays little.
 */
#define ADOPT_AFTER 64u

struct thread {
	struct thread *next, **link; /* in the list; under the lock, since neighbours change them */
	struct fth_stats_tally *tallies;
	unsigned missed[FTH_STATS_TALLIES];
	bool joined;	 /* it is in the list */
	bool no_tallies; /* it is ending, or there is no way to know when it does */
};

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *threads;
static pthread_key_t tally_key;
static pthread_once_t tally_once = PTHREAD_ONCE_INIT;
static bool have_tally_key;
static __thread struct thread self;
__thread struct fth_stats_tally fth_stats_tallies[FTH_STATS_TALLIES];

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

/* ---- tallies ---- */

/* With the lock held: count what a tally of this thread holds. */
static void settle(struct fth_stats_tally *tally)
{
	uint64_t n = tally->n;

	fth_store_relaxed_dev64(&tally->n, 0);
	if (tally->key && n)
		fth_stats_count(tally->counter, n);
	__atomic_store_n(&tally->key, NULL, __ATOMIC_RELAXED);
}

static void leave(void *thread_)
{
	struct thread *thread = thread_;

	pthread_mutex_lock(&threads_lock);
	for (unsigned i = 0; i < FTH_STATS_TALLIES; i++)
		settle(&thread->tallies[i]);
	*thread->link = thread->next;
	if (thread->next)
		thread->next->link = thread->link;
	thread->joined = false;
	thread->no_tallies = true;
	pthread_mutex_unlock(&threads_lock);
}

static void make_tally_key(void)
{
	have_tally_key = pthread_key_create(&tally_key, leave) == 0;
}

/* With the lock held: put this thread into the list. */
static void join(void)
{
	pthread_once(&tally_once, make_tally_key);
	if (!have_tally_key || pthread_setspecific(tally_key, &self) != 0) {
		self.no_tallies = true;
		return;
	}
	self.tallies = fth_stats_tallies;
	self.next = threads;
	self.link = &threads;
	if (threads)
		threads->link = &self.next;
	threads = &self;
	self.joined = true;
}

void fth_stats_tally_slow(unsigned which, const void *key, uint64_t *counter)
{
	struct fth_stats_tally *tally = &fth_stats_tallies[which];

	fth_stats_count(counter, 1);
	if (self.no_tallies || (self.joined && ++self.missed[which] < ADOPT_AFTER))
		return;
	self.missed[which] = 0;
	pthread_mutex_lock(&threads_lock);
	if (!self.joined)
		join();
	if (self.joined) {
		settle(tally);
		tally->counter = counter;
		__atomic_store_n(&tally->key, key, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&threads_lock);
}

/* What all threads hold of a counter, with the lock held. */
static uint64_t tallied(const uint64_t *counter)
{
	uint64_t sum = 0;

	for (const struct thread *thread = threads; thread; thread = thread->next)
		for (unsigned i = 0; i < FTH_STATS_TALLIES; i++)
			if (thread->tallies[i].key && thread->tallies[i].counter == counter)
				sum += fth_load_relaxed_dev64(&thread->tallies[i].n);
	return sum;
}

/* Nobody counts in this set any more: take it out of all tallies. */
static void forget(const struct fth_stats *stats)
{
	size_t groups = (stats->counters + FTH_STATS_GROUP - 1) / FTH_STATS_GROUP;
	uintptr_t first = (uintptr_t)stats->values;
	uintptr_t end = first + groups * FTH_STATS_SHARDS * FTH_STATS_STEP;

	pthread_mutex_lock(&threads_lock);
	for (struct thread *thread = threads; thread; thread = thread->next)
		for (unsigned i = 0; i < FTH_STATS_TALLIES; i++) {
			struct fth_stats_tally *tally = &thread->tallies[i];
			uintptr_t at = (uintptr_t)tally->counter;

			/* relaxed: its thread compares it with the keys of other counters. */
			if (at >= first && at < end)
				__atomic_store_n(&tally->key, NULL, __ATOMIC_RELAXED);
		}
	pthread_mutex_unlock(&threads_lock);
}

/* ---- children of fork() ---- */

/*
 * A child has one thread, whatever its parent has: the shards and tallies of all others belong to
 * nobody.
 */
static void stats_forked(void)
{
	pthread_mutex_init(&threads_lock, NULL);
	threads = self.joined ? &self : NULL;
	self.next = NULL;
	self.link = &threads;
	if (taken != UINT64_MAX) /* there is a key */
		taken = fth_stats_place < FTH_STATS_PRIVATE
				? (uint64_t)1 << fth_stats_place / FTH_STATS_STEP
				: 0;
}

__attribute__((constructor)) static void stats_watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, stats_forked);
}

/* ---- sets ---- */

void fth_stats_free(struct fth_stats *stats)
{
	if (!stats)
		return;
	forget(stats);
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
	/* Held, so that nothing goes from a tally to a shard meanwhile. */
	pthread_mutex_lock(&threads_lock);
	for (size_t shard = 0; shard < FTH_STATS_SHARDS; shard++)
		sum += fth_load_relaxed_dev64(first + shard * FTH_STATS_GROUP);
	sum += tallied(first);
	pthread_mutex_unlock(&threads_lock);
	return sum;
}
