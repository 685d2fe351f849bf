/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a miss needs: a frame for the line, waiting for a fetch of another thread, and the end of a
 * fetch.
 *
 * Invariants
 * 1. Whoever owns a fetch ends it: the line arrives, or is abandoned with an error that reaches
 *    all who wait. An owner that runs out of time leaves the request to a parked loan, whose next
 *    borrower ends it.
 * 2. A thread that finds no frame first ends its own fetches, and delivers what it was waiting for
 *    and has arrived; so it gives up all frames it holds, and waits only with none of its own in
 *    flight; and only until its deadline.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define NAP_NS	  20000
#define NAP_AFTER 256 /* pauses */

/* ---- waiting ---- */

/* A pause in a wait for what another thread does: spin, yield, then sleep. */
bool cache_pause_expired(struct fth_backoff *backoff, uint64_t deadline)
{
	if (backoff->spins > NAP_AFTER)
		nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	return fth_backoff_expired(backoff, deadline);
}

enum cache_found cache_wait_for(struct fth_cache_range *range, const struct cache_part *part,
				uint64_t deadline, int *error)
{
	struct fth_backoff backoff = {0};
	enum cache_found found;

	while ((found = cache_dir_look(range, part, error)) == CACHE_BUSY) {
		bool expired = cache_loans_help(range->cache, CACHE_HELP_NS)
				       ? fth_now_ns() >= deadline
				       : cache_pause_expired(&backoff, deadline);

		if (!expired)
			continue;
		fth_line_unref(part->word, 1);
		*error = ETIMEDOUT;
		return CACHE_FAILED;
	}
	return found;
}

/* ---- frames ---- */

static int no_frame_error(struct fth_cache *cache, bool dirty)
{
	int error = (int)fth_load_relaxed_dev32(&cache->write_error);

	if (dirty && error)
		return fth_fail(error,
				"cache: no frame is free: dirty lines cannot be written back");
	return fth_fail(ENOBUFS, "cache: no frame is free: all %u are pinned or in use",
			cache->frame_count);
}

int cache_check_line(const struct fth_cache_range *range, uint64_t line, enum fth_cache_mode mode)
{
	if (mode != FTH_CACHE_READ && range->readonly)
		return fth_fail(EROFS, "cache: the range is read-only");
	if (line >= range->lines)
		return fth_fail(ERANGE,
				"cache: line %llu is out of range: the range has %llu lines",
				(unsigned long long)line, (unsigned long long)range->lines);
	return 0;
}

/* A frame, waiting for one until the deadline; 0 stands for the cache's timeout from now. */
static int get_frame(struct fth_cache *cache, struct cache_loan *loan, uint64_t deadline,
		     uint32_t *frame)
{
	struct fth_backoff backoff = {0};
	bool dirty;

	*frame = cache_frame_take(cache, &dirty);
	if (*frame != CACHE_NO_FRAME)
		return 0;
	deadline = cache_deadline(cache, deadline);
	while ((*frame = cache_frame_take(cache, &dirty)) == CACHE_NO_FRAME) {
		bool expired;

		cache_loan_submit(loan);
		if (loan->in_flight) {
			int rc = cache_loan_reap(loan, 1, deadline);

			if (rc < 0)
				return rc == -ETIME ? -ETIMEDOUT : rc;
			continue;
		}
		if (loan->visit && cache_visit_settle_ready(loan->visit))
			continue;
		if (dirty) {
			cache_worker_kick(cache);
			cache_worker_wait(cache, deadline);
		}
		expired = cache_loans_help(cache, CACHE_HELP_NS)
				  ? fth_now_ns() >= deadline
				  : cache_pause_expired(&backoff, deadline);
		if (expired)
			return no_frame_error(cache, dirty);
	}
	return 0;
}

enum cache_found cache_prepare(struct fth_cache_range *range, enum cache_found found,
			       struct cache_loan *loan, uint64_t deadline, struct cache_part *part,
			       int *error)
{
	struct fth_cache *cache = range->cache;
	int rc = get_frame(cache, loan, deadline, &part->frame);
	uint32_t frame;

	if (rc < 0) {
		if (found == CACHE_OWNED)
			cache_dir_abandon(range, part->word, CACHE_NO_FRAME, 0);
		*error = -rc;
		return CACHE_FAILED;
	}
	if (found == CACHE_OWNED) {
		cache_frame_set(cache, part->frame, cache_tag(range, part->line));
		return CACHE_OWNED;
	}
	frame = part->frame;
	found = cache_dir_insert(range, part, error);
	if (found != CACHE_OWNED)
		cache_frame_put(cache, frame);
	return found;
}

/* ---- arrival ---- */

void cache_line_arrived(struct fth_cache_range *range, const struct cache_part *part,
			uint64_t extra)
{
	struct fth_cache *cache = range->cache;
	uint32_t bytes = cache_line_bytes(range, part->line);

	/* What lies behind the end of the range reads as zeroes, never as another line's bytes. */
	if (bytes < cache->line_size)
		memset(cache_frame_data(cache, part->frame) + bytes, 0, cache->line_size - bytes);
	if (extra & FTH_LINE_DIRTY)
		cache_dirty_raise(cache);
	fth_line_publish(part->word, cache_place_of_frame(cache, part->frame),
			 cache->frames[part->frame].version, extra);
}

void cache_fetch_done(struct cache_loan *loan, struct fth_cache_range *range,
		      const struct cache_part *part, int result)
{
	struct cache_visit *v = loan->visit;

	if (result < 0) {
		cache_count(range->cache, FTH_CACHE_ERRORS, 1);
		cache_dir_abandon(range, part->word, part->frame, -result);
		if (v)
			cache_visit_note(v, result);
		return;
	}
	cache_line_arrived(range, part, loan->ahead ? FTH_LINE_AHEAD : 0);
	if (v)
		cache_visit_deliver(v, part->word, part->frame, part->which);
	else
		fth_line_unref(part->word, 1);
}
