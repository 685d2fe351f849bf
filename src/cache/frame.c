/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames that are free. policy.c frees others.
 *
 * Invariants
 * 1. A frame belongs to one of: the fresh ones, the free stack, one thread that took it, or one
 *    line, whose word names it.
 * 2. A frame's tag is set before its line's word names the frame, and by whoever holds it alone.
 *    Anyone else reads the tag as a hint: only the word decides what is in the frame.
 * 3. The free stack's head carries a count of pushes beside the top frame, so that a pop that was
 *    overtaken by a pop and a push of the same frame fails.
 */
#include "cache_internal.h"

#define FREE_TOP(head)	 ((uint32_t)(head)) /* frame + 1, or 0 */
#define FREE_COUNT(head) ((head) >> 32)

void cache_frame_put(struct fth_cache *cache, uint32_t frame)
{
	uint64_t head = fth_load_relaxed_dev64(&cache->free_head), now;

	/* release: as where a line is taken out. */
	fth_store_release_dev64(&cache->frames[frame].tag, CACHE_NO_TAG);
	fth_store_relaxed_dev32(&cache->frames[frame].trial, 0);
	do {
		fth_store_relaxed_dev32(&cache->frames[frame].next, FREE_TOP(head));
		now = (FREE_COUNT(head) + 1) << 32 | (frame + 1);
		/* release: next and what was done to the frame come before it is free. */
	} while (!fth_cas_acqrel_dev64(&cache->free_head, &head, now));
}

static uint32_t pop_free(struct fth_cache *cache)
{
	/* acquire: the top's next was written before the top showed. */
	uint64_t head = fth_load_acquire_dev64(&cache->free_head), now;
	uint32_t frame;

	do {
		if (!FREE_TOP(head))
			return CACHE_NO_FRAME;
		frame = FREE_TOP(head) - 1;
		now = FREE_COUNT(head) << 32 | fth_load_relaxed_dev32(&cache->frames[frame].next);
	} while (!fth_cas_acqrel_dev64(&cache->free_head, &head, now));
	return frame;
}

static uint32_t take_fresh(struct fth_cache *cache)
{
	uint32_t frame;

	if (fth_load_relaxed_dev32(&cache->fresh) >= cache->frame_count)
		return CACHE_NO_FRAME;
	frame = fth_add_relaxed_dev32(&cache->fresh, 1);
	if (frame < cache->frame_count) {
		if (frame % cache->slab_frames == 0)
			cache_devices_map(cache);
		return frame;
	}
	/* Overshot: take it back, so that the counter cannot wrap. */
	fth_store_relaxed_dev32(&cache->fresh, cache->frame_count);
	return CACHE_NO_FRAME;
}

uint32_t cache_frame_take(struct fth_cache *cache, bool *dirty)
{
	uint32_t frame = pop_free(cache);

	*dirty = false;
	if (frame == CACHE_NO_FRAME)
		frame = take_fresh(cache);
	if (frame == CACHE_NO_FRAME)
		frame = cache_policy_take(cache, dirty);
	if (frame != CACHE_NO_FRAME)
		cache->frames[frame].version++;
	return frame;
}

void cache_frame_set(struct fth_cache *cache, uint32_t frame, uint64_t tag)
{
	/* A hint, until the word is published (invariant 2). release: as where one is taken out. */
	fth_store_release_dev64(&cache->frames[frame].tag, tag);
}
