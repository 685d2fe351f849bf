/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a miss needs: a frame for the line, waiting for a fetch of another thread, and the end of a
 * fetch.
 *
 * Invariants
 * 1. Whoever owns a fetch ends it: the line arrives, or is abandoned with an error that reaches
 *    all who wait. An owner that runs out of time leaves the request to a parked lane, whose next
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

enum cache_found cache_wait_for(struct fth_cache_range *range, uint64_t line, uint64_t *word,
				uint64_t deadline, int *error)
{
	struct fth_backoff backoff = {0};
	enum cache_found found;

	while ((found = cache_dir_look(range, line, word, error)) == CACHE_BUSY) {
		if (cache_lanes_help(range->cache, CACHE_HELP_NS))
			continue;
		if (!cache_pause_expired(&backoff, deadline))
			continue;
		fth_line_unref(word, 1);
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
		return fth_fail(error, "no line can be replaced: write-back fails");
	return fth_fail(ENOBUFS, "all %u lines of the cache are in use", cache->frame_count);
}

static uint64_t deadline_of(const struct fth_cache *cache, uint64_t deadline)
{
	return deadline ? deadline : fth_deadline_ns(cache->timeout_ns);
}

/* A frame, waiting for one until the deadline; 0 stands for the cache's timeout from now. */
static int get_frame(struct fth_cache *cache, struct cache_lane *lane, uint64_t deadline,
		     uint32_t *frame)
{
	struct fth_backoff backoff = {0};
	bool dirty;

	*frame = cache_frame_take(cache, &dirty);
	if (*frame != CACHE_NO_FRAME)
		return 0;
	deadline = deadline_of(cache, deadline);
	while ((*frame = cache_frame_take(cache, &dirty)) == CACHE_NO_FRAME) {
		cache_lane_submit(lane);
		if (lane->in_flight) {
			int rc = cache_lane_reap(lane, 1, deadline);

			if (rc < 0)
				return rc == -ETIME ? -ETIMEDOUT : rc;
			continue;
		}
		if (lane->visit && cache_visit_settle_ready(lane->visit))
			continue;
		if (dirty) {
			cache_worker_kick(cache);
			cache_worker_wait(cache, deadline);
		}
		if (cache_lanes_help(cache, CACHE_HELP_NS))
			continue;
		if (cache_pause_expired(&backoff, deadline))
			return no_frame_error(cache, dirty);
	}
	return 0;
}

enum cache_found cache_prepare(struct fth_cache_range *range, uint64_t line, enum cache_found found,
			       struct cache_lane *lane, uint64_t deadline, struct cache_part *part,
			       int *error)
{
	struct fth_cache *cache = range->cache;
	int rc = get_frame(cache, lane, deadline, &part->frame);

	if (rc < 0) {
		if (found == CACHE_OWNED)
			cache_dir_abandon(range, part->word, CACHE_NO_FRAME, 0);
		*error = -rc;
		return CACHE_FAILED;
	}
	part->line = line;
	if (found == CACHE_OWNED) {
		cache_frame_set(cache, part->frame, cache_tag(range, line));
		return CACHE_OWNED;
	}
	found = cache_dir_insert(range, line, part->frame, &part->word, error);
	if (found != CACHE_OWNED)
		cache_frame_put(cache, part->frame);
	return found;
}

/* ---- arrival ---- */

void cache_line_dirtied(struct fth_cache *cache)
{
	/* relaxed: a count to steer by. */
	uint32_t dirty = fth_add_relaxed_dev32(&cache->dirty, 1) + 1;

	if (dirty <= cache->dirty_low)
		return;
	cache_worker_kick(cache);
	if (dirty > cache->dirty_high)
		cache_worker_wait(cache, fth_deadline_ns(cache->timeout_ns));
}

void cache_line_arrived(struct fth_cache_range *range, const struct cache_part *part,
			uint64_t extra)
{
	struct fth_cache *cache = range->cache;
	uint32_t bytes = cache_line_bytes(range, part->line);

	/* What lies behind the end of the range reads as zeroes, never as another line's bytes. */
	if (bytes < cache->line_size)
		memset(cache_frame_data(cache, part->frame) + bytes, 0, cache->line_size - bytes);
	fth_line_publish(part->word, cache_place_of_frame(cache, part->frame),
			 cache->frames[part->frame].version, extra);
}

static void part_done(struct cache_lane *lane, struct fth_cache_range *range,
		      const struct cache_part *part, int result)
{
	struct cache_visit *v = lane->visit;

	if (result < 0) {
		cache_count(range->cache, FTH_CACHE_ERRORS, 1);
		cache_dir_abandon(range, part->word, part->frame, -result);
		if (v)
			cache_visit_note(v, result);
		return;
	}
	cache_line_arrived(range, part, lane->ahead ? FTH_LINE_AHEAD : 0);
	if (v)
		cache_visit_deliver(v, part->word, part->frame, part->which);
	else
		fth_line_unref(part->word, 1);
}

void cache_fetch_done(struct cache_lane *lane, struct cache_io *io, int result)
{
	struct fth_cache_range *range = io->range;

	for (uint32_t i = 0; i < io->count; i++) {
		const struct cache_part *part = &io->part[i];
		int rc = result;

		/* One bad block must not fail its neighbours' lines: each alone. */
		if (result < 0 && io->count > 1)
			rc = fth_dev_read(cache_port_dev(range->port),
					  cache_frame_data(range->cache, part->frame),
					  cache_line_bytes(range, part->line),
					  cache_line_offset(range, part->line), FTH_DEV_TIMEOUT);
		part_done(lane, range, part, rc);
	}
}
