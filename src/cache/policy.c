/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replacement: a clock whose hand ages lines, after RRIP (Jaleel et al., ISCA 2010).
 *
 * Each frame has an age, the prediction of when its line is used again: 0 soon, CACHE_AGE_MAX not
 * for long. Users only set HOT in the line's word. The hand turns HOT into age 0, adds one to other
 * ages, and takes what is at the maximum. The policies differ in the age a new line begins with.
 *
 *	FIFO	takes the next one; no ages, HOT is not looked at (BaM, 6.3)
 *	CLOCK	begins at the maximum; HOT gives another round
 *	SRRIP	begins one below the maximum: gone after the second pass unless used
 *	BRRIP	begins at the maximum, but for one line in 32: of a loop that does not fit, a part
 *stays DRRIP	SRRIP and BRRIP each rule a 32nd of all lines for good; a counter of the misses on
 *		either side decides for the others
 *
 * Ages are written without care for other writers: a lost one costs a pass of the hand.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <string.h>

#define DUEL_SHARE  32u
#define BRRIP_SHARE 32u
#define DUEL_LIMIT  512u /* the counter runs from 0 to twice this; above it SRRIP misses more */

static const char *const names[FTH_CACHE_POLICY_COUNT] = {"default", "fifo",  "clock",
							  "srrip",   "brrip", "drrip"};

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
			"%s: no such policy; there are default, fifo, clock, srrip, brrip, drrip",
			name);
}

static uint32_t srrip_age(void)
{
	return CACHE_AGE_MAX - 1;
}

static uint32_t brrip_age(struct fth_cache *cache, uint64_t hash)
{
	/* The hand's place makes the choice differ each time the line comes. */
	uint64_t dice = fth_mix64(hash ^ fth_load_relaxed_dev64(&cache->hand));

	return dice % BRRIP_SHARE == 0 ? CACHE_AGE_MAX - 1 : CACHE_AGE_MAX;
}

/* relaxed, and updates may get lost: it is a sample. */
static void duel_move(struct fth_cache *cache, bool srrip_missed)
{
	uint32_t now = fth_load_relaxed_dev32(&cache->duel);

	if (srrip_missed && now < 2 * DUEL_LIMIT)
		fth_store_relaxed_dev32(&cache->duel, now + 1);
	else if (!srrip_missed && now > 0)
		fth_store_relaxed_dev32(&cache->duel, now - 1);
}

static uint32_t drrip_age(struct fth_cache *cache, uint64_t hash)
{
	uint32_t side = (uint32_t)(hash >> 32) % DUEL_SHARE;

	if (side <= 1)
		duel_move(cache, side == 0);
	if (side == 0)
		return srrip_age();
	if (side == 1 || fth_load_relaxed_dev32(&cache->duel) > DUEL_LIMIT)
		return brrip_age(cache, hash);
	return srrip_age();
}

uint32_t cache_policy_insert(struct fth_cache *cache, uint64_t tag)
{
	uint64_t hash;

	switch (cache->policy) {
	case FTH_CACHE_SRRIP:
		return srrip_age();
	case FTH_CACHE_BRRIP:
		return brrip_age(cache, fth_mix64(tag + 1));
	case FTH_CACHE_DRRIP:
		hash = fth_mix64(tag + 1);
		return drrip_age(cache, hash);
	default:
		return CACHE_AGE_MAX;
	}
}

bool cache_policy_pass(struct fth_cache *cache, struct cache_frame *frame, bool was_hot)
{
	uint32_t age = fth_load_relaxed_dev32(&frame->age);

	switch (cache->policy) {
	case FTH_CACHE_FIFO:
		return true;
	case FTH_CACHE_CLOCK:
		return !was_hot;
	default:
		if (was_hot)
			age = 0;
		else if (age >= CACHE_AGE_MAX)
			return true;
		else
			age++;
		fth_store_relaxed_dev32(&frame->age, age);
		return false;
	}
}
