/* SPDX-License-Identifier: BSD-2-Clause */
/* Misses nobody waits for: the loan is left with its requests in flight. */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>

/* One line: 1 if its fetch was started, 0 if it needs none, negative to stop. */
static int prefetch_line(struct cache_loan *loan, struct fth_cache_range *range, uint64_t line)
{
	struct fth_cache *cache = range->cache;
	struct cache_part part = {.line = line};
	enum cache_found found;
	bool dirty;
	int error = 0;

	found = cache_dir_acquire(range, &part, &error);
	if (found == CACHE_READY || found == CACHE_BUSY) {
		fth_line_unref(part.word, 1);
		return 0;
	}
	if (found == CACHE_FAILED)
		return 0;
	/* Those who wait for the line by now must not be told that a hint did not fit. */
	part.frame = cache_loan_has_room(loan, range, FTH_DEV_READ, line)
			     ? cache_frame_take(cache, &dirty)
			     : CACHE_NO_FRAME;
	if (part.frame == CACHE_NO_FRAME) {
		if (found == CACHE_OWNED)
			cache_dir_abandon(range, part.word, CACHE_NO_FRAME, 0);
		return -ENOBUFS;
	}
	if (found == CACHE_OWNED) {
		cache_frame_set(cache, part.frame, cache_tag(range, line));
	} else {
		found = cache_dir_insert(range, &part, &error);
		if (found == CACHE_READY || found == CACHE_BUSY)
			fth_line_unref(part.word, 1);
		if (found != CACHE_OWNED) {
			cache_frame_put(cache, part.frame);
			return 0;
		}
	}
	cache_loan_add(loan, range, FTH_DEV_READ, &part);
	return 1;
}

static int start_worker(struct fth_cache *cache)
{
	int rc = 0;

	/* acquire: pairs with its start. */
	if (!__atomic_load_n(&cache->worker_runs, __ATOMIC_ACQUIRE)) {
		pthread_mutex_lock(&cache->lock);
		rc = cache_worker_start(cache);
		pthread_mutex_unlock(&cache->lock);
	}
	return rc;
}

/* Lines at the start of [first, first + count) that are in memory or on their way. Without a
 * reference, so only nearly right: it is a hint. */
static uint64_t already_there(const struct fth_cache_range *range, uint64_t first, uint64_t count)
{
	uint64_t n = 0;

	if (!range->words)
		return 0;
	while (n < count &&
	       fth_load_relaxed_dev64(&range->words[first + n]) & (FTH_LINE_VALID | FTH_LINE_BUSY))
		n++;
	return n;
}

/* Lines first, first + 1, ..., or those of a list. */
static uint64_t prefetch_all(struct fth_cache_range *range, uint64_t first, const uint64_t *lines,
			     uint64_t count)
{
	struct fth_cache *cache = range->cache;
	struct cache_loan *loan;
	uint64_t started = 0;

	if (count == 0 || start_worker(cache) < 0 ||
	    cache_loan_borrow(range->device, true, &loan) < 0)
		return 0;
	if (loan->in_flight && cache_loan_reap(loan, 0, 0) < 0)
		fth_error_clear();
	loan->ahead = true;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t line = lines ? lines[i] : first + i;
		int rc = line < range->lines ? prefetch_line(loan, range, line) : 0;

		if (rc < 0)
			break;
		started += (uint64_t)rc;
	}
	cache_loan_submit(loan);
	cache_loan_return(loan);
	cache_count(cache, FTH_CACHE_PREFETCHES, started);
	return started;
}

uint64_t fth_cache_prefetch(struct fth_cache_range *range, uint64_t first, uint64_t count)
{
	uint64_t there;

	if (first >= range->lines)
		return 0;
	if (count > range->lines - first)
		count = range->lines - first;
	there = already_there(range, first, count);
	return prefetch_all(range, first + there, NULL, count - there);
}

uint64_t fth_cache_prefetch_lines(struct fth_cache_range *range, const uint64_t *lines, size_t n)
{
	return prefetch_all(range, 0, lines, n);
}
