/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flush, evict, and emptying a range.
 *
 * A flush writes every line that was dirty when it began, once, and waits for writes that
 * other threads had in flight at that time: such a line may be neither DIRTY nor on the medium. A
 * flush need not write lines that become dirty again after it began.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH	     1024u
#define PIN_GRACE_NS 100000000u /* a reference that lasts longer is a pin */

/* Lines of a range to look at: [first, end). */
struct sweep {
	struct fth_cache_range *range;
	uint64_t first, end;
	struct cache_dirty *dirty; /* [BATCH] owned, to be written */
	size_t dirty_count;
	uint64_t *in_flight; /* [BATCH] lines that others are writing */
	size_t in_flight_count;
	int error;
};

static void note(struct sweep *s, int rc)
{
	if (rc < 0 && s->error == 0)
		s->error = rc;
}

static void write_owned(struct sweep *s)
{
	if (s->dirty_count)
		note(s, cache_write_lines(s->range->cache, s->dirty, s->dirty_count));
	s->dirty_count = 0;
}

static bool own(struct sweep *s, uint64_t *word)
{
	if (!cache_write_own(s->range->cache, word, &s->dirty[s->dirty_count]))
		return false;
	if (++s->dirty_count == BATCH)
		write_owned(s);
	return true;
}

/* Another thread writes it: wait until that has ended, and write what came after it. */
static void wait_written(struct sweep *s, uint64_t line)
{
	uint64_t timeout = s->range->cache->timeout_ns, deadline = fth_deadline_ns(timeout);
	struct fth_backoff backoff = {0};

	for (;;) {
		uint64_t *word = cache_dir_peek(s->range, line), now;

		if (!word)
			return;
		/* acquire: its end is seen with all that went before. */
		now = fth_load_acquire_dev64(word);
		if (!(now & FTH_LINE_VALID) || !(now & (FTH_LINE_DIRTY | FTH_LINE_WRITING)))
			return;
		if (!(now & FTH_LINE_WRITING) && own(s, word))
			return;
		cache_loans_help(s->range->cache, CACHE_HELP_NS);
		if (cache_pause_expired(&backoff, deadline)) {
			note(s, fth_fail(ETIMEDOUT,
					 "cache: the write-back of line %llu did not complete in "
					 "%llu ms",
					 (unsigned long long)line,
					 (unsigned long long)timeout / 1000000));
			return;
		}
	}
}

static void wait_in_flight(struct sweep *s)
{
	write_owned(s); /* not held while waiting for others, who may be waiting for us */
	/* Once one has run out of time the others are not waited for as well. */
	for (size_t i = 0; i < s->in_flight_count && s->error != -ETIMEDOUT; i++)
		wait_written(s, s->in_flight[i]);
	s->in_flight_count = 0;
	write_owned(s);
}

static void sweep_word(struct sweep *s, uint64_t line, uint64_t *word)
{
	/* acquire: if it is clean, what was written of it has been before our flush of the device.
	 */
	uint64_t now = fth_load_acquire_dev64(word);

	if (!fth_line_ready(now) || own(s, word))
		return;
	/* DIRTY: the write that was in flight a moment ago has failed. */
	if (!(fth_load_acquire_dev64(word) & (FTH_LINE_DIRTY | FTH_LINE_WRITING)))
		return;
	if (s->in_flight_count == BATCH)
		wait_in_flight(s);
	s->in_flight[s->in_flight_count++] = line;
}

/* The line of this range in a frame, if it is one of the sweep's. */
static bool line_in_frame(const struct sweep *s, uint32_t frame, uint64_t *line)
{
	/* acquire: if its line is gone, it was written before. */
	uint64_t tag = fth_load_acquire_dev64(&s->range->cache->frames[frame].tag);

	if (tag == CACHE_NO_TAG || tag >> CACHE_TAG_SHIFT != s->range->number)
		return false;
	*line = tag & (CACHE_LINES_MAX - 1);
	return *line >= s->first && *line < s->end;
}

typedef void (*sweep_fn)(struct sweep *s, uint64_t line, uint64_t *word);

/* Go through the lines, or through the frames if those are fewer. */
static void sweep(struct sweep *s, sweep_fn fn)
{
	struct fth_cache *cache = s->range->cache;
	uint64_t line, *word;

	if (s->end - s->first <= cache->frame_count) {
		for (line = s->first; line < s->end; line++)
			if ((word = cache_dir_peek(s->range, line)))
				fn(s, line, word);
		return;
	}
	for (uint32_t f = 0; f < cache->frame_count; f++)
		if (line_in_frame(s, f, &line))
			fn(s, line,
			   s->range->words ? &s->range->words[line] : &cache->frame_words[f]);
}

static int sweep_init(struct sweep *s, struct fth_cache_range *range, uint64_t first,
		      uint64_t count)
{
	*s = (struct sweep){.range = range, .first = first, .end = range->lines};
	if (first > range->lines)
		s->first = range->lines;
	if (count < s->end - s->first)
		s->end = s->first + count;
	s->dirty = malloc(BATCH * sizeof(*s->dirty));
	s->in_flight = malloc(BATCH * sizeof(*s->in_flight));
	return s->dirty && s->in_flight ? 0 : -ENOMEM;
}

static void sweep_release(struct sweep *s)
{
	free(s->dirty);
	free(s->in_flight);
}

static int write_back(struct fth_cache_range *range, uint64_t first, uint64_t count)
{
	struct sweep s;
	int rc = sweep_init(&s, range, first, count);

	if (rc == 0) {
		sweep(&s, sweep_word);
		wait_in_flight(&s);
		rc = s.error;
	}
	sweep_release(&s);
	return rc;
}

static int flush_device(struct cache_device *device, const struct fth_cache *cache)
{
	return cache_device_flush(device, fth_deadline_ns(cache->timeout_ns));
}

int fth_cache_flush(struct fth_cache_range *range, uint64_t first, uint64_t count)
{
	int rc = range->readonly ? 0 : write_back(range, first, count);

	if (rc < 0 || range->readonly)
		return rc;
	return flush_device(range->device, range->cache);
}

/* One device: all its ranges, then one flush. */
static int flush_dev(struct fth_cache *cache, struct cache_device *device,
		     struct fth_cache_range *const *ranges, uint32_t n)
{
	bool any = false;
	int error = 0;

	for (uint32_t i = 0; i < n; i++) {
		int rc;

		if (ranges[i]->device != device || ranges[i]->readonly)
			continue;
		any = true;
		rc = write_back(ranges[i], 0, ranges[i]->lines);
		if (error == 0)
			error = rc;
	}
	return any && error == 0 ? flush_device(device, cache) : error;
}

int fth_cache_flush_all(struct fth_cache *cache)
{
	struct fth_cache_range **ranges;
	uint32_t n = 0;
	int error = 0;

	/* Held: ranges that other threads remove meanwhile stay until we are through. */
	ranges = cache_ranges_hold(cache, &n);
	if (!ranges)
		return -ENOMEM;
	for (struct cache_device *device = NULL; (device = cache_device_next(cache, device));) {
		int rc = flush_dev(cache, device, ranges, n);

		if (error == 0)
			error = rc;
	}
	for (uint32_t i = 0; i < n; i++)
		cache_range_put(ranges[i]);
	free(ranges);
	return error;
}

/* ---- dropping lines ---- */

static void drop_word(struct sweep *s, uint64_t line, uint64_t *word)
{
	struct fth_cache *cache = s->range->cache;
	uint64_t now = fth_load_relaxed_dev64(word);
	uint32_t frame = cache_frame_of_word(cache, now);

	(void)line;
	if (!fth_line_evictable(now) || !cache_dir_evict(cache, frame, word, now))
		return;
	cache_frame_put(cache, frame);
	cache_count(cache, FTH_CACHE_EVICTIONS, 1);
}

int fth_cache_evict(struct fth_cache_range *range, uint64_t first, uint64_t count)
{
	struct sweep s;
	int rc = range->readonly ? 0 : write_back(range, first, count);

	if (rc < 0)
		return rc;
	rc = sweep_init(&s, range, first, count);
	if (rc == 0)
		sweep(&s, drop_word);
	sweep_release(&s);
	return rc;
}

/* Take a line out of the cache that nobody uses; if its changes are discarded, a dirty one, too. */
static bool take_out(struct fth_cache *cache, uint32_t frame, uint64_t *word, uint64_t seen,
		     bool discard)
{
	if (cache_left_over(cache, seen))
		return cache_dir_reclaim(cache, frame, seen);
	if (!fth_line_evictable(discard ? seen & ~FTH_LINE_DIRTY : seen) ||
	    !cache_dir_evict(cache, frame, word, seen))
		return false;
	if (seen & FTH_LINE_DIRTY)
		cache_dirty_lower(cache);
	return true;
}

/* What is in this frame of the range: 0 nothing now, -EBUSY a pin, -EAGAIN something under way. */
static int drop_frame(const struct sweep *s, uint32_t frame, bool discard)
{
	struct fth_cache *cache = s->range->cache;
	uint64_t line, *word, now;

	if (!line_in_frame(s, frame, &line))
		return 0;
	word = s->range->words ? &s->range->words[line] : &cache->frame_words[frame];
	now = fth_load_relaxed_dev64(word);
	if (fth_line_ready(now) && cache_frame_of_word(cache, now) != frame)
		return -EAGAIN; /* the line has moved; the thread that took it out will say so here
				 */
	if (take_out(cache, frame, word, now, discard)) {
		cache_frame_put(cache, frame);
		return 0;
	}
	if ((now & FTH_LINE_VALID) && fth_line_count(now) && !(now & FTH_LINE_WRITING))
		return -EBUSY;
	return -EAGAIN;
}

static int drop_range(struct fth_cache_range *range, bool discard)
{
	struct sweep s = {.range = range, .end = range->lines};
	int left = 0;

	for (uint32_t f = 0; f < range->cache->frame_count; f++) {
		int rc = drop_frame(&s, f, discard);

		if (rc == -EBUSY)
			return rc;
		if (rc < 0)
			left = rc;
	}
	return left;
}

static int write_and_drop(struct fth_cache_range *range, bool discard)
{
	int rc = range->readonly || discard ? 0 : write_back(range, 0, range->lines);

	return rc < 0 ? rc : drop_range(range, discard);
}

int cache_empty_range(struct fth_cache_range *range, bool discard, uint64_t deadline)
{
	struct fth_backoff backoff = {0};
	uint64_t grace = 0; /* when what looks like a pin is one; 0: nothing does */

	/* A reference may be a pin, or the last moment of a fetch, or a mistaken look-up. */
	for (;;) {
		bool idle = cache_devices_idle(range->cache), pinned;
		int rc = write_and_drop(range, discard);

		if (rc != -EAGAIN && rc != -EBUSY)
			return rc;
		/*
		 * A line that is BUSY while no thread fetches anything is pinned to be overwritten.
		 */
		pinned = rc == -EBUSY || idle;
		if (!pinned)
			grace = 0;
		else if (!grace)
			grace = fth_deadline_ns(PIN_GRACE_NS);
		else if (fth_now_ns() >= grace)
			return fth_fail(EBUSY, "cache: lines of the range are pinned");
		cache_loans_help(range->cache, CACHE_HELP_NS);
		if (cache_pause_expired(&backoff, deadline) && !pinned)
			return fth_fail(ETIMEDOUT,
					"cache: requests of the device did not complete in %llu ms",
					(unsigned long long)range->cache->timeout_ns / 1000000);
	}
}
