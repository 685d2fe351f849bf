/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Visits: many lines, all misses in flight together.
 *
 * Invariants
 * 1. A thread waits for someone else's fetch only after all its own have ended, and a visit that
 *    does so delivers whatever has arrived first. So there is no circle of waiting.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define DEFERRED_MAX 64
#define LOOK_AHEAD   8 /* lines whose words are brought near while others are visited */
#define AGAIN	     1 /* the line has changed state: look it up anew */

struct cache_visit {
	struct fth_cache_range *range;
	enum fth_cache_mode mode;
	fth_cache_visit_fn fn;
	void *context;
	const uint64_t *lines;
	struct cache_lane *lane;
	int error;
	uint64_t hits, misses, merged;
	/* Lines that someone, perhaps this visit, is fetching; a reference is held on each. */
	struct {
		uint64_t *word;
		size_t which;
	} deferred[DEFERRED_MAX];
	unsigned deferred_count;
};

void cache_visit_note(struct cache_visit *v, int rc)
{
	if (rc < 0 && v->error == 0)
		v->error = rc;
}

static void leave(struct fth_cache *cache, uint64_t *word, bool changed)
{
	if (!changed)
		fth_line_unref(word, 1);
	else if (fth_line_unref_dirty(word))
		cache_line_dirtied(cache);
}

/* The line is in memory and referenced: show it to the visitor, and let go. */
void cache_visit_deliver(struct cache_visit *v, uint64_t *word, uint32_t frame, size_t which)
{
	struct fth_cache *cache = v->range->cache;
	int rc = -ECANCELED;

	if (v->error == 0) {
		rc = v->fn(v->context, which, cache_frame_data(cache, frame));
		if (rc < 0)
			v->error = rc;
	}
	leave(cache, word, v->mode != FTH_CACHE_READ && rc >= 0);
}

/*
 * Deferred lines that have arrived meanwhile hold frames: deliver them, so that whoever waits for a
 * frame is not waiting for itself. True if one was let go. What is gone again stays in the list,
 * without a word.
 */
bool cache_visit_settle_ready(struct cache_visit *v)
{
	unsigned kept = 0, n = v->deferred_count;

	for (unsigned i = 0; i < n; i++) {
		uint64_t *word = v->deferred[i].word;
		size_t which = v->deferred[i].which;
		enum cache_found found = CACHE_ABSENT;
		int error = 0;

		if (word)
			found = cache_dir_look(v->range, v->lines[which], word, &error);
		if (found == CACHE_READY)
			cache_visit_deliver(
				v, word,
				cache_frame_of_word(v->range->cache, fth_load_relaxed_dev64(word)),
				which);
		else if (found == CACHE_FAILED && v->error == 0)
			v->error = -error;
		if (found == CACHE_READY || found == CACHE_FAILED)
			continue;
		v->deferred[kept].word = found == CACHE_BUSY ? word : NULL;
		v->deferred[kept++].which = which;
	}
	v->deferred_count = kept;
	return kept < n;
}

/* ---- visits ---- */

static int need_lane(struct cache_visit *v)
{
	int rc;

	if (v->lane)
		return 0;
	rc = cache_lane_borrow(v->range->port, false, &v->lane);
	if (rc == 0)
		v->lane->visit = v;
	return rc;
}

static void hit(struct cache_visit *v, uint64_t *word, size_t which)
{
	uint64_t now = fth_load_relaxed_dev64(word);

	fth_line_use(word, now);
	v->hits++;
	cache_visit_deliver(v, word, cache_frame_of_word(v->range->cache, now), which);
}

/* A line of which all bytes are set by the visitor: nothing is fetched. */
static void overwrite(struct cache_visit *v, const struct cache_part *part)
{
	struct fth_cache *cache = v->range->cache;
	int rc = v->error; /* a call for another line may have ended the visit meanwhile */

	if (rc == 0)
		rc = v->fn(v->context, part->which, cache_frame_data(cache, part->frame));
	if (rc < 0) {
		v->error = rc;
		cache_dir_abandon(v->range, part->word, part->frame, 0);
		return;
	}
	cache_line_arrived(v->range, part, FTH_LINE_DIRTY);
	fth_line_unref(part->word, 1);
	cache_line_dirtied(cache);
}

/* As long as something arrives within the timeout, a visit may take any time in all. */
static int reap(struct cache_visit *v, uint32_t min)
{
	uint64_t deadline = fth_deadline_ns(v->range->cache->timeout_ns);
	int rc = cache_lane_reap(v->lane, min, deadline);

	cache_lane_rest(v->lane);
	return rc == -ETIME ? -ETIMEDOUT : rc;
}

static int start_fetch(struct cache_visit *v, const struct cache_part *part)
{
	struct cache_lane *lane = v->lane;
	uint32_t batch = cache_batch(v->range->cache);

	while (lane->lines >= v->range->cache->line_limit ||
	       !cache_lane_add(lane, v->range, FTH_DEV_READ, part)) {
		int rc;

		cache_lane_submit(lane);
		rc = reap(v, batch);
		if (rc < 0) {
			cache_dir_abandon(v->range, part->word, part->frame, -rc);
			return rc;
		}
	}
	if (lane->batched >= batch)
		cache_lane_submit(lane);
	return 0;
}

static int defer(struct cache_visit *v, uint64_t *word, size_t which)
{
	v->merged++;
	v->deferred[v->deferred_count].word = word;
	v->deferred[v->deferred_count++].which = which;
	return 0;
}

static int miss(struct cache_visit *v, size_t which, enum cache_found found, uint64_t *word)
{
	struct cache_part part = {.word = word, .which = which};
	int error = 0, rc = need_lane(v);

	if (rc < 0) {
		if (found == CACHE_OWNED)
			cache_dir_abandon(v->range, word, CACHE_NO_FRAME, 0);
		return rc;
	}
	switch (cache_prepare(v->range, v->lines[which], found, v->lane, 0, &part, &error)) {
	case CACHE_OWNED:
		v->misses++;
		if (v->mode != FTH_CACHE_OVERWRITE)
			return start_fetch(v, &part);
		overwrite(v, &part);
		return 0;
	case CACHE_READY:
		hit(v, part.word, which);
		return 0;
	case CACHE_BUSY:
		return defer(v, part.word, which);
	case CACHE_FAILED:
		return -error;
	default:
		return AGAIN;
	}
}

static int visit_line(struct cache_visit *v, size_t which)
{
	uint64_t *word;
	int error = 0, rc = AGAIN;

	while (rc == AGAIN) {
		enum cache_found found =
			cache_dir_acquire(v->range, v->lines[which], &word, &error);

		switch (found) {
		case CACHE_READY:
			hit(v, word, which);
			return 0;
		case CACHE_BUSY:
			return defer(v, word, which);
		case CACHE_FAILED:
			return -error;
		default:
			rc = miss(v, which, found, word);
		}
	}
	return rc;
}

/* End all fetches of our own. */
static void settle_own(struct cache_visit *v)
{
	if (!v->lane)
		return;
	cache_lane_submit(v->lane);
	while (v->lane->in_flight) {
		int rc = reap(v, 1);

		cache_visit_note(v, rc);
		if (rc < 0)
			break;
	}
}

/* A deferred line that is gone again: from the beginning. False if there is none. */
static bool settle_gone(struct cache_visit *v)
{
	for (unsigned i = 0; i < v->deferred_count; i++) {
		size_t which = v->deferred[i].which;

		if (v->deferred[i].word)
			continue;
		v->deferred[i] = v->deferred[--v->deferred_count];
		cache_visit_note(v, visit_line(v, which));
		settle_own(v);
		return true;
	}
	return false;
}

static void drop_deferred(struct cache_visit *v)
{
	for (unsigned i = 0; i < v->deferred_count; i++)
		if (v->deferred[i].word)
			fth_line_unref(v->deferred[i].word, 1);
	v->deferred_count = 0;
}

/*
 * Wait for all that is under way, our own first (invariant 2), then whichever arrives: what has
 * arrived is not kept while others are waited for, since their owners may need its frame.
 */
static void settle(struct cache_visit *v)
{
	uint64_t timeout = v->range->cache->timeout_ns, deadline = fth_deadline_ns(timeout);
	struct fth_backoff backoff = {0};

	settle_own(v);
	while (v->deferred_count && v->error == 0) {
		if (cache_visit_settle_ready(v) || settle_gone(v)) {
			deadline = fth_deadline_ns(timeout);
			backoff.spins = 0;
		} else if (!cache_lanes_help(v->range->cache, CACHE_HELP_NS) &&
			   cache_pause_expired(&backoff, deadline)) {
			cache_visit_note(
				v, fth_fail(ETIMEDOUT, "another thread's fetch does not end"));
		}
	}
	drop_deferred(v);
}

static int check_lines(const struct fth_cache_range *range, enum fth_cache_mode mode,
		       const uint64_t *lines, size_t n)
{
	if (mode != FTH_CACHE_READ && range->readonly)
		return fth_fail(EROFS, "the range is read-only");
	for (size_t i = 0; i < n; i++)
		if (lines[i] >= range->lines)
			return fth_fail(ERANGE, "line %llu of %llu", (unsigned long long)lines[i],
					(unsigned long long)range->lines);
	return 0;
}

int fth_cache_visit(struct fth_cache_range *range, enum fth_cache_mode mode, const uint64_t *lines,
		    size_t n, fth_cache_visit_fn fn, void *context)
{
	struct fth_cache *cache = range->cache;
	struct cache_visit v;
	int rc = check_lines(range, mode, lines, n);

	if (rc < 0)
		return rc;
	memset(&v, 0, offsetof(struct cache_visit, deferred));
	v.deferred_count = 0;
	v.range = range;
	v.mode = mode;
	v.fn = fn;
	v.context = context;
	v.lines = lines;
	for (size_t i = 0; i < n && v.error == 0; i++) {
		if (range->words && i + LOOK_AHEAD < n)
			__builtin_prefetch(&range->words[lines[i + LOOK_AHEAD]], 1);
		cache_visit_note(&v, visit_line(&v, i));
		if (v.deferred_count == DEFERRED_MAX)
			settle(&v);
	}
	settle(&v);
	if (v.lane)
		cache_lane_return(v.lane);
	cache_count(cache, FTH_CACHE_HITS, v.hits);
	cache_count(cache, FTH_CACHE_MISSES, v.misses);
	cache_count(cache, FTH_CACHE_MERGED, v.merged);
	return v.error;
}
