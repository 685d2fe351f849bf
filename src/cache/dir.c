/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory: from a line to its word.
 *
 * Full: every range has a table with one word per line, as BaM has. A look-up is an index.
 *
 * Compact: the word belongs to the frame, and lines are found by a hash: heads[], and chains
 * through cache_frame.next. A head is the first frame + 1 and, in its top bit, the chain's lock.
 * Invariants of the compact one
 * 1. A frame is linked and unlinked, and chains are searched for good, under the chain's lock.
 *    Nothing that waits happens under it.
 * 2. Finding takes no lock: it follows the chain, takes a reference on the frame's word and only
 *    then looks at the tag. A frame that was reused meanwhile has another tag, or a word that is
 *    neither VALID nor BUSY; a search that was led astray finds nothing, and is repeated under
 *    the lock.
 * 3. So the count of any frame's word may be raised for a moment by someone who is mistaken.
 *    Whoever holds a frame alone changes its word by adding, never by storing.
 * 4. The word of a frame that is not linked is BUSY. So a word that is neither VALID nor BUSY
 *    means: linked, and left over from a fetch that failed or was given up. Searches skip it; its
 *    waiters look at it and leave. Once the count is 0, the thread that swaps the word for BUSY
 *    takes the frame over.
 */
#include "cache_internal.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>

#define HEAD_LOCK   ((uint32_t)1 << 31)
#define CHAIN_LIMIT 64 /* steps without the lock, before it is taken */

struct fth_cache_range *cache_range_of_tag(const struct fth_cache *cache, uint64_t tag)
{
	/* acquire: the range's fields were written before it was put there. */
	return __atomic_load_n(&cache->ranges[tag >> CACHE_TAG_SHIFT], __ATOMIC_ACQUIRE);
}

int cache_dir_init(struct fth_cache *cache, bool compact)
{
	uint32_t heads = 1;

	if (!compact)
		return 0;
	while (heads < cache->frame_count)
		heads *= 2;
	cache->head_mask = heads - 1;
	cache->heads = calloc(heads, sizeof(*cache->heads));
	cache->frame_words = calloc(cache->frame_count, sizeof(*cache->frame_words));
	if (!cache->heads || !cache->frame_words)
		return -ENOMEM;
	for (uint32_t f = 0; f < cache->frame_count; f++)
		cache->frame_words[f] = FTH_LINE_BUSY;
	return 0;
}

void cache_dir_release(struct fth_cache *cache)
{
	free(cache->heads);
	free(cache->frame_words);
}

uint64_t cache_dir_bytes(const struct fth_cache *cache)
{
	if (!cache->frame_words)
		return 0;
	return (uint64_t)(cache->head_mask + 1) * sizeof(*cache->heads) +
	       (uint64_t)cache->frame_count * sizeof(*cache->frame_words);
}

/* ---- chains of the compact directory ---- */

static uint32_t *head_of(struct fth_cache *cache, uint64_t tag)
{
	return &cache->heads[fth_mix64(tag + 1) & cache->head_mask];
}

/* Ends: the holder only follows a chain. */
static uint32_t lock_head(uint32_t *head)
{
	struct fth_backoff backoff = {0};
	uint32_t old = fth_or_acqrel_dev32(head, HEAD_LOCK);

	while (old & HEAD_LOCK) {
		fth_backoff_pause(&backoff);
		old = fth_or_acqrel_dev32(head, HEAD_LOCK);
	}
	return old;
}

static void unlock_head(uint32_t *head, uint32_t first)
{
	/* release: links are visible before the lock is free. */
	fth_store_release_dev32(head, first);
}

static void unlink_frame(struct fth_cache *cache, uint32_t frame, uint64_t tag)
{
	uint32_t *head = head_of(cache, tag), first = lock_head(head), at = first, next;

	next = fth_load_relaxed_dev32(&cache->frames[frame].next);
	if (first == frame + 1) {
		unlock_head(head, next);
		return;
	}
	while (fth_load_relaxed_dev32(&cache->frames[at - 1].next) != frame + 1)
		at = fth_load_relaxed_dev32(&cache->frames[at - 1].next);
	fth_store_release_dev32(&cache->frames[at - 1].next, next);
	unlock_head(head, first);
}

static bool holds(struct fth_cache *cache, uint32_t frame, uint64_t tag)
{
	/* acquire: read after the reference on the word was taken. */
	return fth_load_acquire_dev64(&cache->frames[frame].tag) == tag;
}

/* Does this word say something about the line of its frame? Not if the frame is left over. */
static bool in_use(uint64_t now)
{
	return (now & (FTH_LINE_VALID | FTH_LINE_BUSY)) != 0;
}

/* A frame that says it has this line and is not left over; frame + 1, or 0. */
static uint32_t search(struct fth_cache *cache, uint32_t at, uint64_t tag, unsigned limit)
{
	while (at && limit--) {
		uint64_t now = fth_load_relaxed_dev64(&cache->frame_words[at - 1]);

		if (holds(cache, at - 1, tag) && in_use(now))
			return at;
		/* acquire: the next frame's tag was written before it was linked. */
		at = fth_load_acquire_dev32(&cache->frames[at - 1].next);
	}
	return 0;
}

/* ---- acquiring ---- */

/* With a new reference on a word that is the line's: what to do about it. */
static enum cache_found judge(struct cache_part *part, uint64_t now, int *error)
{
	if (fth_line_count(now) >= FTH_LINE_COUNT_LIMIT) {
		fth_line_unref(part->word, 1);
		*error = EUSERS;
		return CACHE_FAILED;
	}
	if (fth_line_ready(now))
		return CACHE_READY;
	part->turn = fth_line_turn(now);
	if (now & FTH_LINE_BUSY)
		return CACHE_BUSY;
	fth_line_unref(part->word, 1);
	return CACHE_ABSENT;
}

/* A reference on what a search found, if that is still the line. */
static enum cache_found ref_found(struct fth_cache *cache, uint32_t frame, uint64_t tag,
				  struct cache_part *part, int *error)
{
	uint64_t now;

	part->word = &cache->frame_words[frame];
	now = fth_line_ref(part->word, 1);
	if (!holds(cache, frame, tag)) {
		fth_line_unref(part->word, 1);
		return CACHE_ABSENT;
	}
	return judge(part, now, error);
}

static enum cache_found acquire_full(struct cache_part *part, int *error)
{
	uint64_t now = fth_line_ref(part->word, 1);

	if (fth_line_ready(now) && fth_line_count(now) < FTH_LINE_COUNT_LIMIT)
		return CACHE_READY;
	now = fth_line_try_own(part->word);
	if (now & (FTH_LINE_VALID | FTH_LINE_BUSY))
		return judge(part, now, error);
	part->turn = fth_line_turn(now);
	return CACHE_OWNED;
}

enum cache_found cache_dir_acquire(struct fth_cache_range *range, struct cache_part *part,
				   int *error)
{
	struct fth_cache *cache = range->cache;
	uint64_t tag;
	uint32_t at;

	if (range->words) {
		part->word = &range->words[part->line];
		return acquire_full(part, error);
	}
	tag = cache_tag(range, part->line);
	/* acquire: the first frame's tag was written before it was linked. */
	at = fth_load_acquire_dev32(head_of(cache, tag)) & ~HEAD_LOCK;
	at = search(cache, at, tag, CHAIN_LIMIT);
	return at ? ref_found(cache, at - 1, tag, part, error) : CACHE_ABSENT;
}

enum cache_found cache_dir_insert(struct fth_cache_range *range, struct cache_part *part,
				  int *error)
{
	struct fth_cache *cache = range->cache;
	uint64_t tag = cache_tag(range, part->line);
	uint32_t frame = part->frame;
	uint32_t *head = head_of(cache, tag), first = lock_head(head);
	uint32_t at = search(cache, first, tag, UINT32_MAX);

	if (at) {
		enum cache_found found = ref_found(cache, at - 1, tag, part, error);

		unlock_head(head, first);
		return found;
	}
	cache_frame_set(cache, frame, tag);
	part->word = &cache->frame_words[frame];
	part->turn = fth_line_turn(fth_line_ref(part->word, 1)); /* it is BUSY already */
	fth_store_relaxed_dev32(&cache->frames[frame].next, first);
	unlock_head(head, frame + 1);
	return CACHE_OWNED;
}

enum cache_found cache_dir_look(struct fth_cache_range *range, const struct cache_part *part,
				int *error)
{
	struct fth_cache *cache = range->cache;
	uint64_t *word = part->word;
	/* acquire: the line's data is read after this. */
	uint64_t now = fth_load_acquire_dev64(word);
	bool moved = cache->frame_words && !holds(cache, (uint32_t)(word - cache->frame_words),
						  cache_tag(range, part->line));

	if (!moved && fth_line_ready(now))
		return CACHE_READY;
	if (!moved && fth_line_failed(now, part->turn)) {
		*error = fth_line_error(now);
		fth_line_unref(word, 1);
		return CACHE_FAILED;
	}
	if (!moved && (now & FTH_LINE_BUSY))
		return CACHE_BUSY;
	fth_line_unref(word, 1);
	return CACHE_ABSENT;
}

void cache_dir_abandon(struct fth_cache_range *range, uint64_t *word, uint32_t frame, int error)
{
	struct fth_cache *cache = range->cache;

	/*
	 * A compact cache's frame stays linked until the hand finds it left over: others may wait
	 * on its word.
	 */
	if (frame != CACHE_NO_FRAME && !cache->frame_words)
		cache_frame_put(cache, frame);
	if (error)
		fth_line_fail(word, error);
	else
		fth_line_disown(word);
	fth_line_unref(word, 1);
}

/* ---- without a reference ---- */

uint64_t *cache_dir_peek(struct fth_cache_range *range, uint64_t line)
{
	struct fth_cache *cache = range->cache;
	uint64_t tag = cache_tag(range, line);
	uint32_t *head, first, at;

	if (range->words)
		return &range->words[line];
	head = head_of(cache, tag);
	first = lock_head(head);
	at = search(cache, first, tag, UINT32_MAX);
	unlock_head(head, first);
	return at ? &cache->frame_words[at - 1] : NULL;
}

uint64_t *cache_dir_word(struct fth_cache *cache, uint32_t frame, uint64_t tag)
{
	struct fth_cache_range *range;

	if (cache->frame_words)
		return &cache->frame_words[frame];
	range = cache_range_of_tag(cache, tag);
	return range ? &range->words[tag & (CACHE_LINES_MAX - 1)] : NULL;
}

/* The caller holds the frame alone: its word is BUSY. */
static void take_out(struct fth_cache *cache, uint32_t frame)
{
	struct cache_frame *f = &cache->frames[frame];

	unlink_frame(cache, frame, fth_load_relaxed_dev64(&f->tag));
	/* release: a flush that sees the line gone comes after its last write. */
	fth_store_release_dev64(&f->tag, CACHE_NO_TAG);
}

bool cache_dir_evict(struct fth_cache *cache, uint32_t frame, uint64_t *word, uint64_t seen)
{
	if (!cache->frame_words) {
		if (!fth_line_evict(word, seen))
			return false;
		/* release: a flush that sees the line gone comes after its last write. */
		fth_store_release_dev64(&cache->frames[frame].tag, CACHE_NO_TAG);
		return true;
	}
	if (!fth_cas_acqrel_dev64(word, &seen, FTH_LINE_BUSY))
		return false;
	take_out(cache, frame);
	return true;
}

bool cache_dir_reclaim(struct fth_cache *cache, uint32_t frame, uint64_t seen)
{
	if (!fth_cas_acqrel_dev64(&cache->frame_words[frame], &seen, FTH_LINE_BUSY))
		return false;
	take_out(cache, frame);
	return true;
}
