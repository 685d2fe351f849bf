/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing dirty lines. Whoever writes a batch owns the write-back of each line in it (rule 4 of
 * fathom/detail/hd/line.h); lines are sorted by place so that neighbours share a request.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

void cache_unref_changed(struct fth_cache *cache, uint64_t *word)
{
	if (fth_line_unref_still_dirty(word))
		return;
	cache_dirty_raise(cache);
	if (fth_line_unref_dirty(word))
		cache_line_dirtied(cache);
	else
		cache_dirty_lower(cache); /* another thread was quicker, and has counted it */
}

bool cache_write_own(struct fth_cache *cache, uint64_t *word, struct cache_dirty *out)
{
	uint64_t tag;

	if (!fth_line_start_write(word))
		return false;
	cache_dirty_lower(cache);
	/*
	 * Only now is it sure which line this is: before, a compact cache's frame may have got
	 * another one. With a reference held, the tag is more than a hint.
	 */
	out->part.word = word;
	out->part.frame = cache_frame_of_word(cache, fth_load_relaxed_dev64(word));
	tag = fth_load_relaxed_dev64(&cache->frames[out->part.frame].tag);
	out->part.line = tag & (CACHE_LINES_MAX - 1);
	out->range = cache_range_of_tag(cache, tag);
	return true;
}

/* The write-back of a line has ended; if it failed the line is dirty again. */
static void end_write(struct fth_cache *cache, uint64_t *word, bool ok)
{
	if (!ok)
		cache_dirty_raise(cache);
	if (!fth_line_end_write(word, ok) && !ok)
		cache_dirty_lower(cache); /* it was changed meanwhile, and counted then */
}

void cache_write_done(struct cache_loan *loan, struct fth_cache_range *range,
		      const struct cache_part *part, int result)
{
	struct fth_cache *cache = range->cache;

	end_write(cache, part->word, result == 0);
	/* relaxed: it only serves to tell why no frame gets clean. */
	fth_store_relaxed_dev32(&cache->write_error, (uint32_t)-result);
	if (result == 0) {
		cache_count(cache, FTH_CACHE_WRITE_BACKS, 1);
		return;
	}
	cache_count(cache, FTH_CACHE_ERRORS, 1);
	if (loan->error == 0)
		loan->error = result;
}

/* By device, then by place in its device. */
static int by_place(const void *a, const void *b)
{
	const struct cache_dirty *x = a, *y = b;
	uint64_t at_x, at_y;

	if (x->range->device != y->range->device)
		return (uintptr_t)x->range->device < (uintptr_t)y->range->device ? -1 : 1;
	at_x = cache_line_offset(x->range, x->part.line);
	at_y = cache_line_offset(y->range, y->part.line);
	return at_x < at_y ? -1 : at_x > at_y;
}

/* No loan for them: they stay dirty. */
static void give_up(struct fth_cache *cache, struct cache_dirty *lines, size_t n)
{
	for (size_t i = 0; i < n; i++)
		end_write(cache, lines[i].part.word, false);
}

/* Lines of one device. What a timeout leaves in flight ends on a parked loan. */
static int write_to_device(struct fth_cache *cache, struct cache_dirty *lines, size_t n)
{
	uint64_t timeout = cache->timeout_ns;
	struct cache_loan *loan;
	int rc = cache_loan_borrow(lines[0].range->device, false, &loan);
	size_t i;

	if (rc < 0) {
		give_up(cache, lines, n);
		return rc;
	}
	for (i = 0; i < n && rc == 0; i++)
		while (!cache_loan_add(loan, lines[i].range, FTH_DEV_WRITE, &lines[i].part)) {
			cache_loan_submit(loan);
			rc = cache_loan_reap(loan, 1, fth_deadline_ns(timeout));
			if (rc < 0) {
				give_up(cache, lines + i, n - i);
				break;
			}
		}
	cache_loan_submit(loan);
	while (loan->in_flight && rc == 0)
		rc = cache_loan_reap(loan, 1, fth_deadline_ns(timeout));
	rc = loan->error ? loan->error : rc;
	cache_loan_return(loan);
	if (rc == -ETIME)
		rc = fth_fail(ETIMEDOUT, "cache: a write-back did not complete in %llu ms",
			      (unsigned long long)timeout / 1000000);
	return rc;
}

int cache_write_lines(struct fth_cache *cache, struct cache_dirty *lines, size_t n)
{
	size_t from = 0;
	int error = 0;

	qsort(lines, n, sizeof(*lines), by_place);
	while (from < n) {
		size_t to = from + 1;
		int rc;

		while (to < n && lines[to].range->device == lines[from].range->device)
			to++;
		rc = write_to_device(cache, lines + from, to - from);
		if (error == 0)
			error = rc;
		from = to;
	}
	return error;
}

/* Is there a dirty line in this frame that nobody uses? Then own its write-back. */
static bool collect_frame(struct fth_cache *cache, uint32_t frame, struct cache_dirty *out)
{
	uint64_t tag = fth_load_relaxed_dev64(&cache->frames[frame].tag), *word, now;
	struct fth_cache_range *range;

	if (tag == CACHE_NO_TAG)
		return false;
	range = cache_range_of_tag(cache, tag);
	if (!range || fth_load_relaxed_dev32(&range->discard))
		return false;
	word = cache_dir_word(cache, frame, tag);
	if (!word)
		return false;
	now = fth_load_relaxed_dev64(word);
	return fth_line_ready(now) && !fth_line_count(now) && (now & FTH_LINE_DIRTY) &&
	       cache_write_own(cache, word, out);
}

size_t cache_collect_ahead(struct fth_cache *cache, struct cache_dirty *lines, size_t max)
{
	uint64_t from = fth_load_relaxed_dev64(&cache->hand);
	size_t n = 0;

	for (uint32_t i = 0; i < cache->trial_count && n < max; i++) {
		uint32_t frame = cache_policy_next(cache, i);

		n += frame != CACHE_NO_FRAME && collect_frame(cache, frame, &lines[n]);
	}
	for (uint64_t i = 0; i < cache->frame_count && n < max; i++)
		n += collect_frame(cache, (uint32_t)((from + i) % cache->frame_count), &lines[n]);
	return n;
}
