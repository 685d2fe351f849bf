/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The background thread: writes back while more lines are dirty than the low mark, or when
 * a thread that needs a frame asks, and now and then collects from parked loans. It starts with the
 * first range that can be written, or the first prefetch.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define BATCH_MAX     1024u
#define AFTER_FAIL_NS 10000000u /* before it tries again what failed */
#define IDLE_NS	      100000000u

static struct timespec monotonic_in(uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += (time_t)(ns / 1000000000u);
	ts.tv_nsec += (long)(ns % 1000000000u);
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_sec++;
		ts.tv_nsec -= 1000000000;
	}
	return ts;
}

static bool work_to_do(struct fth_cache *cache)
{
	return fth_load_relaxed_dev32(&cache->dirty) > cache->dirty_low ||
	       fth_load_relaxed_dev32(&cache->kicked);
}

/* One batch. The longer it is, the more neighbours meet in it; a quarter of all keeps others going.
 */
static int write_batch(struct fth_cache *cache, struct cache_dirty *lines)
{
	size_t max = cache->frame_count / 4 + 1, n;

	if (max > BATCH_MAX)
		max = BATCH_MAX;
	pthread_rwlock_rdlock(&cache->tables);
	fth_store_relaxed_dev32(&cache->kicked, 0);
	n = cache_collect_ahead(cache, lines, max);
	pthread_rwlock_unlock(&cache->tables);
	return n ? cache_write_lines(cache, lines, n) : 0;
}

static void wait_for_work(struct fth_cache *cache, uint64_t ns)
{
	struct timespec until = monotonic_in(ns);

	pthread_cond_timedwait(&cache->work, &cache->lock, &until);
}

static void *work(void *arg)
{
	struct fth_cache *cache = arg;

	pthread_mutex_lock(&cache->lock);
	while (!cache->worker_stop) {
		int rc = 0;

		if (work_to_do(cache)) {
			pthread_mutex_unlock(&cache->lock);
			rc = write_batch(cache, cache->worker_lines);
			pthread_mutex_lock(&cache->lock);
			cache->batches++;
			pthread_cond_broadcast(&cache->cleaned);
		}
		if (rc < 0)
			wait_for_work(cache, AFTER_FAIL_NS);
		else if (!work_to_do(cache))
			wait_for_work(cache, IDLE_NS);
		/* Whoever waits for a line helps itself; this is for what nobody waits for. */
		pthread_mutex_unlock(&cache->lock);
		cache_loans_help(cache, 0);
		pthread_mutex_lock(&cache->lock);
	}
	pthread_mutex_unlock(&cache->lock);
	return NULL;
}

/* With cache->lock held. */
int cache_worker_start(struct fth_cache *cache)
{
	sigset_t all, before;
	int rc;

	if (cache->worker_runs)
		return 0;
	if (!cache->worker_lines)
		cache->worker_lines = malloc(BATCH_MAX * sizeof(*cache->worker_lines));
	if (!cache->worker_lines)
		return -ENOMEM;
	/* Signals are for the program's own threads: a handler could wait for this one. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&cache->worker, NULL, work, cache);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return fth_fail(rc, "cache: cannot start the write-back thread");
	/* release: for those who look without the lock. */
	__atomic_store_n(&cache->worker_runs, true, __ATOMIC_RELEASE);
	return 0;
}

void cache_worker_stop(struct fth_cache *cache)
{
	if (!cache->worker_runs)
		return;
	pthread_mutex_lock(&cache->lock);
	cache->worker_stop = true;
	pthread_cond_broadcast(&cache->work);
	pthread_mutex_unlock(&cache->lock);
	pthread_join(cache->worker, NULL);
	cache->worker_runs = false;
}

void cache_worker_kick(struct fth_cache *cache)
{
	if (fth_load_relaxed_dev32(&cache->kicked))
		return;
	fth_store_relaxed_dev32(&cache->kicked, 1);
	pthread_mutex_lock(&cache->lock);
	pthread_cond_signal(&cache->work);
	pthread_mutex_unlock(&cache->lock);
}

void cache_worker_wait(struct fth_cache *cache, uint64_t deadline)
{
	uint64_t now = fth_now_ns(), batch;
	struct timespec until;

	if (now >= deadline)
		return;
	until = monotonic_in(deadline - now);
	pthread_mutex_lock(&cache->lock);
	batch = cache->batches;
	while (cache->worker_runs && cache->batches == batch &&
	       fth_load_relaxed_dev32(&cache->dirty) > cache->dirty_high) {
		pthread_cond_signal(&cache->work);
		if (pthread_cond_timedwait(&cache->cleaned, &cache->lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&cache->lock);
}

void cache_line_dirtied(struct fth_cache *cache)
{
	/* relaxed: a count to steer by. */
	uint32_t dirty = fth_load_relaxed_dev32(&cache->dirty);

	if (dirty <= cache->dirty_low)
		return;
	cache_worker_kick(cache);
	if (dirty > cache->dirty_high)
		cache_worker_wait(cache, fth_deadline_ns(cache->timeout_ns));
}
