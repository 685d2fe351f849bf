/* SPDX-License-Identifier: BSD-2-Clause */
/* Pins: one line, held for as long as the caller likes. */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>

static void fill_pin(struct fth_cache_pin *pin, struct fth_cache_range *range, uint64_t line,
		     enum fth_cache_mode mode, uint64_t *word, uint32_t frame)
{
	pin->data = cache_frame_data(range->cache, frame);
	pin->word = word;
	pin->range = range;
	pin->line = line;
	pin->mode = mode;
	pin->fresh = false;
}

/* Fetch one line on a loan that has nothing else to do; keeps one reference if it returns 0. */
static int fetch_one(struct cache_loan *loan, struct fth_cache_range *range,
		     const struct cache_part *part, uint64_t deadline)
{
	int error = 0, rc;

	fth_line_ref(part->word, 1); /* ours: the fetch drops its own when it ends */
	cache_loan_add(loan, range, FTH_DEV_READ, part);
	cache_loan_submit(loan);
	rc = cache_loan_reap(loan, 1, deadline);
	if (rc < 0) {
		fth_line_unref(part->word, 1);
		return rc == -ETIME ? -ETIMEDOUT : rc;
	}
	return cache_dir_look(range, part, &error) == CACHE_READY ? 0 : -error;
}

/* The frame of a line that is referenced and in the cache. */
static uint32_t frame_of(const struct fth_cache *cache, uint64_t *word)
{
	return cache_frame_of_word(cache, fth_load_relaxed_dev64(word));
}

static enum cache_found pin_miss(struct cache_loan *loan, struct fth_cache_pin *pin,
				 struct cache_part *part, enum cache_found found, uint64_t deadline,
				 int *error)
{
	struct fth_cache_range *range = pin->range;
	int rc;

	found = cache_prepare(range, found, loan, deadline, part, error);
	if (found != CACHE_OWNED)
		return found;
	cache_count(range->cache, FTH_CACHE_MISSES, 1);
	if (pin->mode == FTH_CACHE_OVERWRITE) {
		fill_pin(pin, range, pin->line, pin->mode, part->word, part->frame);
		pin->fresh = true;
		return CACHE_OWNED;
	}
	rc = fetch_one(loan, range, part, deadline);
	*error = -rc;
	if (rc < 0)
		return CACHE_FAILED;
	/* Not part->frame: if our fetch failed another thread's may have succeeded since. */
	fill_pin(pin, range, pin->line, pin->mode, part->word, frame_of(range->cache, part->word));
	return CACHE_OWNED;
}

/* The line is there, or being fetched by another thread. CACHE_ABSENT: look it up anew. */
static enum cache_found pin_found(struct fth_cache_pin *pin, struct cache_part *part,
				  enum cache_found found, uint64_t deadline, int *error)
{
	struct fth_cache *cache = pin->range->cache;

	if (found == CACHE_BUSY) {
		cache_count(cache, FTH_CACHE_MERGED, 1);
		found = cache_wait_for(pin->range, part, deadline, error);
		if (found != CACHE_READY)
			return found;
	} else {
		cache_count(cache, FTH_CACHE_HITS, 1);
		fth_line_use(part->word, fth_load_relaxed_dev64(part->word));
	}
	fill_pin(pin, pin->range, pin->line, pin->mode, part->word, frame_of(cache, part->word));
	return CACHE_READY;
}

/* Bring in a line that is not there. */
static enum cache_found pin_absent(struct fth_cache_pin *pin, struct cache_part *part,
				   enum cache_found found, uint64_t deadline, int *error)
{
	struct cache_loan *loan;
	int rc = cache_loan_borrow(pin->range->device, false, &loan);

	if (rc < 0) {
		if (found == CACHE_OWNED)
			cache_dir_abandon(pin->range, part->word, CACHE_NO_FRAME, 0);
		*error = -rc;
		return CACHE_FAILED;
	}
	found = pin_miss(loan, pin, part, found, deadline, error);
	cache_loan_return(loan);
	if (found == CACHE_OWNED)
		return CACHE_READY;
	/* In a compact cache another thread may have been quicker. */
	return found == CACHE_READY || found == CACHE_BUSY
		       ? pin_found(pin, part, found, deadline, error)
		       : found;
}

int fth_cache_pin(struct fth_cache_range *range, uint64_t line, enum fth_cache_mode mode,
		  uint64_t deadline, struct fth_cache_pin *out)
{
	struct cache_part part = {.line = line};
	int error = 0, rc = cache_check_line(range, line, mode);

	if (rc < 0)
		return rc;
	out->range = range;
	out->line = line;
	out->mode = mode;
	for (;;) {
		enum cache_found found = cache_dir_acquire(range, &part, &error);

		/* The clock is read only where it may be needed: a hit is over before that. */
		if (found != CACHE_READY)
			deadline = cache_deadline(range->cache, deadline);
		if (found == CACHE_READY || found == CACHE_BUSY)
			found = pin_found(out, &part, found, deadline, &error);
		else if (found != CACHE_FAILED)
			found = pin_absent(out, &part, found, deadline, &error);
		if (found == CACHE_READY)
			return 0;
		if (found == CACHE_FAILED)
			return -error;
		/* Another thread gave up the fetch that this one waited for, or moved the line. */
		if (fth_now_ns() >= deadline)
			return fth_fail(
				ETIMEDOUT,
				"cache: line %llu kept changing its state until the deadline",
				(unsigned long long)line);
	}
}

static void unpin_fresh(struct fth_cache_pin *pin, bool changed)
{
	struct fth_cache *cache = pin->range->cache;
	struct cache_part part = {
		.word = pin->word,
		.line = pin->line,
		.frame = (uint32_t)((uint64_t)(pin->data - cache->data) >> cache->line_shift),
	};

	if (!changed) {
		/* Whoever waits for it goes on to fetch it. */
		cache_dir_abandon(pin->range, pin->word, part.frame, 0);
		return;
	}
	cache_line_arrived(pin->range, &part, FTH_LINE_DIRTY);
	fth_line_unref(pin->word, 1);
	cache_line_dirtied(cache);
}

void fth_cache_unpin(struct fth_cache_pin *pin, bool changed)
{
	if (pin->fresh)
		unpin_fresh(pin, changed);
	else if (!changed || pin->mode == FTH_CACHE_READ)
		fth_line_unref(pin->word, 1);
	else
		cache_unref_changed(pin->range->cache, pin->word);
	pin->data = NULL;
	pin->word = NULL;
}
