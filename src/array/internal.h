/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of this module share. */
#ifndef FTH_ARRAY_INTERNAL_H
#define FTH_ARRAY_INTERNAL_H

#include "fathom/array.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>

static inline size_t fth_array_size(const struct fth_array *array)
{
	return (size_t)1 << array->shift;
}

static inline uint64_t fth_array_line_of(const struct fth_array *array, uint64_t i)
{
	return i >> array->per_line;
}

/* Where element i is in its line, in bytes. */
static inline uint64_t fth_array_offset_of(const struct fth_array *array, uint64_t i)
{
	return (i & array->in_line) << array->shift;
}

/* The first element of a line, and the one after its last. */
static inline uint64_t fth_array_line_first(const struct fth_array *array, uint64_t line)
{
	return line << array->per_line;
}

static inline uint64_t fth_array_line_end(const struct fth_array *array, uint64_t line)
{
	uint64_t end = (line + 1) << array->per_line;

	return end < array->count ? end : array->count;
}

/*
 * Ask the processor for an element that is read a little later, if it is in memory. A load that
 * waits for memory holds up all after it; this does not, so many more are on their way at once.
 * Not in a compact cache.
 */
static inline void fth_array_touch(const struct fth_array *array, uint64_t i)
{
	/* relaxed: no data is looked at, and asking for the wrong bytes does no harm. */
	uint64_t word = fth_load_relaxed_dev64(&array->words[i >> array->per_line]);

	__builtin_prefetch(fth_array_frame(array, word) + fth_array_offset_of(array, i));
}

extern uint64_t fth_array_look_bytes;

/* -ERANGE unless [first, first + n) is inside; nothing overflows. */
int fth_array_check(const struct fth_array *array, uint64_t first, uint64_t n);
int fth_array_out_of_range(const struct fth_array *array, uint64_t i);

/* FTH_CACHE_WRITE instead of _OVERWRITE where the line has bytes that belong to no element. */
enum fth_cache_mode fth_array_line_mode(const struct fth_array *array, uint64_t line,
					enum fth_cache_mode mode);

/* Pin a line with the cache's timeout; checks nothing. */
static inline int fth_array_pin_line(struct fth_array *array, uint64_t line,
				     enum fth_cache_mode mode, struct fth_cache_pin *out)
{
	return fth_cache_pin(array->range, line, mode, FTH_CACHE_TIMEOUT, out);
}

/* ---- copying (copy.c) ---- */

/*
 * Between a frame and the caller's memory, `bytes` of elements of `size` each, elements of up to
 * 8 bytes whole. The frame's side is aligned to an element.
 */
void fth_array_copy_out(void *to, const uint8_t *frame, uint64_t bytes, size_t size);
void fth_array_copy_in(uint8_t *frame, const void *from, uint64_t bytes, size_t size);
void fth_array_copy_fill(uint8_t *frame, const void *value, uint64_t bytes, size_t size);

/* ---- lists of lines (batch.c) ---- */

#define FTH_BATCH_SMALL 128
/*
 * How many are collected before they are visited: many times the depth, since the device runs dry
 * at the end of each visit; few enough to stay in the processor's cache.
 */
#define FTH_BATCH_BITS	13
#define FTH_BATCH_LARGE (1u << FTH_BATCH_BITS)

/*
 * What is wanted, as pairs of a line and a position in the caller's list. To be visited they are
 * put in order of lines, so that all that want a line share its visit and neighbours share a
 * request.
 *
 * While collecting, keys[p] is (line << FTH_BATCH_BITS | p) and positions[p] the position, less
 * base. While visiting, lines[l] is a line, and order[starts[l] .. starts[l + 1]) are the
 * positions, less base, that want it.
 */
struct fth_batch {
	union {
		uint64_t *keys;
		uint64_t *lines;
	};
	uint64_t *spare; /* of the sort */
	uint32_t *positions;
	uint32_t *order;
	uint32_t *starts;
	uint32_t capacity;
	uint32_t count;
	uint32_t line_count; /* while visiting */
	bool sorted;
	uint64_t varying; /* bits in which some keys differ from the first */
	uint64_t base;
	void *heap; /* NULL while the memory below does */
	uint64_t small_keys[FTH_BATCH_SMALL];
	uint32_t small_positions[FTH_BATCH_SMALL];
	uint32_t small_order[FTH_BATCH_SMALL];
	uint32_t small_starts[FTH_BATCH_SMALL + 1];
};

/* Room for `want` pairs, or fewer: never fails. */
void fth_batch_init(struct fth_batch *batch, uint64_t want);
void fth_batch_release(struct fth_batch *batch);

static inline void fth_batch_clear(struct fth_batch *batch, uint64_t base)
{
	batch->count = 0;
	batch->line_count = 0;
	batch->sorted = true;
	batch->varying = 0;
	batch->base = base;
}

/* May `position` be added? */
static inline bool fth_batch_has_room(const struct fth_batch *batch, uint64_t position)
{
	return batch->count < batch->capacity && position - batch->base <= UINT32_MAX;
}

static inline void fth_batch_add(struct fth_batch *batch, uint64_t line, uint64_t position)
{
	uint32_t p = batch->count++;
	uint64_t key = line << FTH_BATCH_BITS | p;

	batch->keys[p] = key;
	batch->positions[p] = (uint32_t)(position - batch->base);
	batch->varying |= key ^ batch->keys[0];
	batch->sorted &= p == 0 || key > batch->keys[p - 1];
}

/* While visiting: the first position of the line that comes a little after `which`, if any. */
#define FTH_BATCH_AHEAD 8

static inline bool fth_batch_later(const struct fth_batch *batch, size_t which, uint64_t *position)
{
	if (which + FTH_BATCH_AHEAD >= batch->line_count)
		return false;
	*position = batch->base + batch->order[batch->starts[which + FTH_BATCH_AHEAD]];
	return true;
}

/* Visit what was added; fn is called with the number of the line in the batch. */
int fth_batch_visit(struct fth_batch *batch, struct fth_array *array, enum fth_cache_mode mode,
		    fth_cache_visit_fn fn, void *context);

#endif
