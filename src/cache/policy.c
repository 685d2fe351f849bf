/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replacement: which frame a new line gets.
 *
 *	FIFO	the next one that is not in use (BaM's clock, 6.3)
 *	CLOCK	the next one not used since the hand last passed: it clears HOT as it goes
 *	TRIAL	a clock, but new lines are on trial first, in a ring of a sixteenth of all
 *		frames. A miss takes the ring's next place. If the line there was used meanwhile,
 *		it stays, the clock's from then on, and the clock finds a frame; if not, its
 *		frame is taken. One in 32 stays anyway: so part of a loop that does not fit comes
 *		to stay.
 *
 * TRIAL is the small queue of S3-FIFO (Yang et al., SOSP 2023) with the bimodal insertion of BRRIP
 * (Jaleel et al., ISCA 2010) at its end. How it compares: `fathom bench policy`, doc/results.md.
 *
 * Invariants
 * 1. A place of the ring holds a frame, or NONE while someone is busy with it. The ring may have
 *    come round to it meanwhile: then two put a frame there, and the first one's is the clock's. So
 *    every frame on trial is in a place, and will be judged.
 * 2. A place is a hint: its frame may have been freed and taken meanwhile. cache_frame.trial says
 *    whether it is on trial at all, and only eviction by way of the word takes it.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIAL_SHARE 16u
#define KEEP_SHARE  32u
/* The first clears HOT, the second takes; then some for what others take meanwhile. */
#define PASSES 4u
/* Places of the ring that a miss looks at. */
#define TRIES 4u

static const char *const names[FTH_CACHE_POLICY_COUNT] = {"default", "fifo", "clock", "trial"};

const char *fth_cache_policy_name(enum fth_cache_policy policy)
{
	return (unsigned)policy < FTH_CACHE_POLICY_COUNT ? names[policy] : "?";
}

int fth_cache_policy_parse(const char *name, enum fth_cache_policy *out)
{
	for (unsigned i = 0; i < FTH_CACHE_POLICY_COUNT; i++)
		if (strcmp(name, names[i]) == 0) {
			*out = (enum fth_cache_policy)i;
			return 0;
		}
	return fth_fail(EINVAL,
			"cache: unknown policy '%s': expected default, fifo, clock or trial", name);
}

/*
 * A sixteenth, but room for what is in flight: a line whose trial ends before it has arrived would
 * stay for nothing.
 */
int cache_policy_init(struct fth_cache *cache)
{
	uint32_t places = cache->frame_count / TRIAL_SHARE;

	cache->line_limit = cache->frame_count;
	if (cache->policy != FTH_CACHE_TRIAL)
		return 0;
	if (places < 4 * cache->depth)
		places = 4 * cache->depth;
	if (places > cache->frame_count / 2)
		places = cache->frame_count / 2;
	cache->line_limit = places / 4 ? places / 4 : 1;
	cache->trial_count = places;
	cache->trial = malloc(places * sizeof(*cache->trial));
	if (!cache->trial)
		return -ENOMEM;
	for (uint32_t i = 0; i < places; i++)
		cache->trial[i] = CACHE_NO_FRAME;
	return 0;
}

/* Clear HOT, and say whether it was set. */
static bool was_used(const struct fth_cache *cache, uint64_t *word, uint64_t *now)
{
	if (!(*now & FTH_LINE_HOT) || cache->policy == FTH_CACHE_FIFO)
		return false;
	*now = fth_and_acqrel_dev64(word, ~FTH_LINE_HOT) & ~FTH_LINE_HOT;
	return true;
}

/* The word of the line in a frame, if it is there to be looked at, and nobody is using it. */
static uint64_t *idle_line(struct fth_cache *cache, uint32_t f, uint64_t *now)
{
	uint64_t tag = fth_load_relaxed_dev64(&cache->frames[f].tag), *word;

	if (tag == CACHE_NO_TAG)
		return NULL;
	word = cache_dir_word(cache, f, tag);
	if (!word)
		return NULL;
	*now = fth_load_relaxed_dev64(word);
	if (cache_left_over(cache, *now))
		return word;
	if (!fth_line_ready(*now) || cache_frame_of_word(cache, *now) != f || fth_line_count(*now))
		return NULL;
	return word;
}

static bool take_line(struct fth_cache *cache, uint32_t f, uint64_t *word, uint64_t now,
		      bool *dirty)
{
	if (cache_left_over(cache, now))
		return cache_dir_reclaim(cache, f, now);
	if (now & FTH_LINE_DIRTY)
		*dirty = true;
	return fth_line_evictable(now) && cache_dir_evict(cache, f, word, now);
}

/* The hand is at this frame: true if it is now the caller's. */
static bool try_frame(struct fth_cache *cache, uint32_t f, bool *dirty)
{
	uint64_t now, *word = idle_line(cache, f, &now);

	return word && !was_used(cache, word, &now) && take_line(cache, f, word, now, dirty);
}

static uint32_t turn_hand(struct fth_cache *cache, bool *dirty)
{
	uint64_t steps = (uint64_t)PASSES * cache->frame_count;

	while (steps--) {
		/* relaxed: it only deals out places to look at. */
		uint64_t place = fth_add_relaxed_dev64(&cache->hand, 1);
		uint32_t f = (uint32_t)(place % cache->frame_count);

		/* Lines on trial are taken from here only if there is nothing else. */
		if (steps > cache->frame_count && fth_load_relaxed_dev32(&cache->frames[f].trial))
			continue;
		if (try_frame(cache, f, dirty))
			return f;
	}
	return CACHE_NO_FRAME;
}

enum verdict {
	GOES,	 /* its frame is the caller's */
	STAYS,	 /* it is the clock's from now on */
	NOT_YET, /* it would go, but has to be written first */
};

/* End the trial of the line in this frame. */
static enum verdict end_trial(struct fth_cache *cache, uint32_t f, uint64_t ticket)
{
	uint64_t now, *word;
	bool dirty;

	if (!fth_load_relaxed_dev32(&cache->frames[f].trial))
		return STAYS;
	word = idle_line(cache, f, &now);
	if (word && !was_used(cache, word, &now) && fth_mix64(ticket) % KEEP_SHARE) {
		if (take_line(cache, f, word, now, &dirty))
			return GOES;
		if (now & (FTH_LINE_DIRTY | FTH_LINE_WRITING))
			return NOT_YET;
	}
	fth_store_relaxed_dev32(&cache->frames[f].trial, 0);
	return STAYS;
}

/* Put a frame on trial. */
static void begin_trial(struct fth_cache *cache, uint32_t *place, uint32_t f)
{
	uint32_t other;

	fth_store_relaxed_dev32(&cache->frames[f].trial, 1);
	/* acqrel: pairs with the swap that takes it out, in both directions. */
	other = fth_xchg_acqrel_dev32(place, f);
	if (other != CACHE_NO_FRAME && other != f)
		fth_store_relaxed_dev32(&cache->frames[other].trial, 0);
}

/*
 * The next place whose line goes, or has earned to stay: then the hand finds a frame for the new
 * line. Lines that have to be written first stay on trial, and are written next; where there are
 * too many of them the new line does without a trial.
 */
static uint32_t take_trial(struct fth_cache *cache, bool *dirty)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		uint64_t ticket = fth_add_relaxed_dev64(&cache->trial_ticket, 1);
		uint32_t *place = &cache->trial[ticket % cache->trial_count];
		/* acquire: what its last holder did to the frame comes before what we do. */
		uint32_t f = fth_xchg_acqrel_dev32(place, CACHE_NO_FRAME);
		enum verdict verdict = f == CACHE_NO_FRAME ? STAYS : end_trial(cache, f, ticket);

		if (verdict == NOT_YET) {
			begin_trial(cache, place, f);
			cache_worker_kick(cache);
			continue;
		}
		if (verdict == STAYS)
			f = turn_hand(cache, dirty);
		if (f != CACHE_NO_FRAME)
			begin_trial(cache, place, f);
		return f;
	}
	return turn_hand(cache, dirty);
}

uint64_t fth_cache_prefetch_limit(const struct fth_cache *cache)
{
	return cache->policy == FTH_CACHE_TRIAL ? cache->trial_count : cache->frame_count;
}

/* The frames whose lines may go next, to be written before: i-th of all that are on trial. */
uint32_t cache_policy_next(const struct fth_cache *cache, uint32_t i)
{
	uint64_t ticket = fth_load_relaxed_dev64(&cache->trial_ticket);

	return fth_load_relaxed_dev32(&cache->trial[(ticket + i) % cache->trial_count]);
}

uint32_t cache_policy_take(struct fth_cache *cache, bool *dirty)
{
	uint32_t f = cache->trial_count ? take_trial(cache, dirty) : turn_hand(cache, dirty);

	if (f != CACHE_NO_FRAME)
		cache_count(cache, FTH_CACHE_EVICTIONS, 1);
	return f;
}
