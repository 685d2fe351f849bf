/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Visits: many lines, all misses in flight together.
 *
 * Invariants
 * 1. A thread waits for the fetch of another thread only after all its own have completed and their
 *    lines were delivered. So threads cannot deadlock.
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
	struct cache_loan *loan;
	int error;
	uint64_t hits, misses, merged;
	uint64_t delivered; /* lines, by which a wait sees that there is progress */
	/*
	 * Lines that a thread, perhaps this one, is fetching; a reference is held on each. A word
	 * of NULL: the fetch was given up, and the line is to be looked up anew.
	 */
	struct cache_part deferred[DEFERRED_MAX];
	unsigned deferred_count;
};

void cache_visit_note(struct cache_visit *v, int rc)
{
	if (rc < 0 && v->error == 0)
		v->error = rc;
}

void cache_visit_deliver(struct cache_visit *v, uint64_t *word, uint32_t frame, size_t which)
{
	struct fth_cache *cache = v->range->cache;
	int rc = -ECANCELED;

	v->delivered++;
	if (v->error == 0) {
		rc = v->fn(v->context, which, cache_frame_data(cache, frame));
		if (rc < 0)
			v->error = rc;
	}
	if (v->mode != FTH_CACHE_READ && rc >= 0)
		cache_unref_changed(cache, word);
	else
		fth_line_unref(word, 1);
}

/*
 * Deferred lines that have arrived meanwhile hold frames: deliver them, so that a thread that waits
 * for a frame does not wait for itself. True if one was let go. A line whose fetch was given up
 * stays in the list, without a word.
 */
bool cache_visit_settle_ready(struct cache_visit *v)
{
	unsigned kept = 0, n = v->deferred_count;

	for (unsigned i = 0; i < n; i++) {
		struct cache_part part = v->deferred[i];
		enum cache_found found = CACHE_ABSENT;
		int error = 0;

		if (part.word)
			found = cache_dir_look(v->range, &part, &error);
		if (found == CACHE_READY) {
			uint64_t now = fth_load_relaxed_dev64(part.word);

			cache_visit_deliver(v, part.word, cache_frame_of_word(v->range->cache, now),
					    part.which);
			continue;
		}
		if (found == CACHE_FAILED) {
			cache_visit_note(v, -error);
			continue;
		}
		if (found == CACHE_ABSENT)
			part.word = NULL;
		v->deferred[kept++] = part;
	}
	v->deferred_count = kept;
	return kept < n;
}

/* ---- visits ---- */

static int need_loan(struct cache_visit *v)
{
	int rc;

	if (v->loan)
		return 0;
	rc = cache_loan_borrow(v->range->device, false, &v->loan);
	if (rc == 0)
		v->loan->visit = v;
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
	v->delivered++;
	cache_line_arrived(v->range, part, FTH_LINE_DIRTY);
	fth_line_unref(part->word, 1);
	cache_line_dirtied(cache);
}

/* As long as something arrives within the timeout, a visit may take any time in all. */
static int reap(struct cache_visit *v, uint32_t min)
{
	uint64_t deadline = fth_deadline_ns(v->range->cache->timeout_ns);
	int rc = cache_loan_reap(v->loan, min, deadline);

	return rc == -ETIME ? -ETIMEDOUT : rc;
}

static int start_fetch(struct cache_visit *v, const struct cache_part *part)
{
	struct cache_loan *loan = v->loan;
	uint32_t batch = cache_batch(v->range->cache);

	while (loan->lines >= v->range->cache->line_limit ||
	       !cache_loan_add(loan, v->range, FTH_DEV_READ, part)) {
		int rc;

		cache_loan_submit(loan);
		rc = reap(v, batch);
		if (rc < 0) {
			cache_dir_abandon(v->range, part->word, part->frame, -rc);
			return rc;
		}
	}
	if (loan->batched >= batch)
		cache_loan_submit(loan);
	return 0;
}

static int defer(struct cache_visit *v, const struct cache_part *part)
{
	v->merged++;
	v->deferred[v->deferred_count++] = *part;
	return 0;
}

static int miss(struct cache_visit *v, struct cache_part *part, enum cache_found found)
{
	int error = 0, rc = need_loan(v);

	if (rc < 0) {
		if (found == CACHE_OWNED)
			cache_dir_abandon(v->range, part->word, CACHE_NO_FRAME, 0);
		return rc;
	}
	switch (cache_prepare(v->range, found, v->loan, 0, part, &error)) {
	case CACHE_OWNED:
		v->misses++;
		if (v->mode != FTH_CACHE_OVERWRITE)
			return start_fetch(v, part);
		overwrite(v, part);
		return 0;
	case CACHE_READY:
		hit(v, part->word, part->which);
		return 0;
	case CACHE_BUSY:
		return defer(v, part);
	case CACHE_FAILED:
		return -error;
	default:
		return AGAIN;
	}
}

static int visit_once(struct cache_visit *v, size_t which)
{
	struct cache_part part = {.line = v->lines[which], .which = which};
	int error = 0;
	enum cache_found found = cache_dir_acquire(v->range, &part, &error);

	switch (found) {
	case CACHE_READY:
		hit(v, part.word, which);
		return 0;
	case CACHE_BUSY:
		return defer(v, &part);
	case CACHE_FAILED:
		return -error;
	default:
		return miss(v, &part, found);
	}
}

static int visit_line(struct cache_visit *v, size_t which)
{
	uint64_t deadline = 0;
	int rc;

	while ((rc = visit_once(v, which)) == AGAIN) {
		if (!deadline)
			deadline = fth_deadline_ns(v->range->cache->timeout_ns);
		else if (fth_now_ns() >= deadline)
			return fth_fail(
				ETIMEDOUT,
				"cache: line %llu kept changing its state until the deadline",
				(unsigned long long)v->lines[which]);
	}
	return rc;
}

/* End all fetches of our own. */
static void settle_own(struct cache_visit *v)
{
	if (!v->loan)
		return;
	cache_loan_submit(v->loan);
	while (v->loan->in_flight) {
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
 * Wait for all that is under way, our own first (invariant 1), then whichever arrives: what has
 * arrived is not kept while others are waited for, since their owners may need its frame. Ends when
 * no line was delivered for the cache's timeout.
 */
static void settle(struct cache_visit *v)
{
	uint64_t timeout = v->range->cache->timeout_ns, deadline = fth_deadline_ns(timeout);
	struct fth_backoff backoff = {0};

	settle_own(v);
	while (v->deferred_count && v->error == 0) {
		uint64_t before = v->delivered;
		bool expired;

		if (cache_visit_settle_ready(v) || settle_gone(v) ||
		    cache_loans_help(v->range->cache, CACHE_HELP_NS))
			expired = fth_now_ns() >= deadline;
		else
			expired = cache_pause_expired(&backoff, deadline);
		if (v->delivered != before) {
			deadline = fth_deadline_ns(timeout);
			backoff.spins = 0;
		} else if (expired) {
			cache_visit_note(v, fth_fail(ETIMEDOUT,
						     "cache: the fetch of line %llu by another "
						     "thread did not complete in %llu ms",
						     (unsigned long long)v->deferred[0].line,
						     (unsigned long long)timeout / 1000000));
		}
	}
	drop_deferred(v);
}

static int check_lines(const struct fth_cache_range *range, enum fth_cache_mode mode,
		       const uint64_t *lines, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = cache_check_line(range, lines[i], mode);
	return rc;
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
	if (v.loan)
		cache_loan_return(v.loan);
	cache_count(cache, FTH_CACHE_HITS, v.hits);
	cache_count(cache, FTH_CACHE_MISSES, v.misses);
	cache_count(cache, FTH_CACHE_MERGED, v.merged);
	return v.error;
}
