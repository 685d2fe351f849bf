/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of fathom/array.h that must be inlined: reading an element of a hot line without a
 * reference. Included by it; not for direct use.
 */
#ifndef FATHOM_ARRAY_INLINE_H
#define FATHOM_ARRAY_INLINE_H

#include "fathom/base/stats.h"
#include "fathom/cache.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fixed when the array is opened. Not part of the interface. */
struct fth_array {
	struct fth_cache_view view;
	uint64_t count;
	uint32_t shift; /* log2 of the element's size */
	uint32_t hits;	/* the number of this counter in stats */
	struct fth_stats *stats;
	struct fth_cache_range *range;
	struct fth_dev *own_dev; /* to be closed with the array; NULL if it is the caller's */
};

/* The way with a reference, for all that the inline one leaves. */
int fth_array_get_slow(struct fth_array *array, uint64_t i, void *out);

#ifdef __SANITIZE_THREAD__
/* Races with a refill of the frame on purpose; the second look at the word decides. */
__attribute__((no_sanitize_thread, noinline))
#endif
static inline uint64_t
fth_array_peek_bytes(const uint8_t *at, size_t size)
{
	/* acquire: keeps the second look at the word after the data. */
	switch (size) {
	case 1:
		return __atomic_load_n(at, __ATOMIC_ACQUIRE);
	case 2:
		return __atomic_load_n((const uint16_t *)at, __ATOMIC_ACQUIRE);
	case 4:
		return __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
	default:
		return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
	}
}

static inline void fth_array_store_value(void *out, uint64_t value, size_t size)
{
	uint8_t v8 = (uint8_t)value;
	uint16_t v16 = (uint16_t)value;
	uint32_t v32 = (uint32_t)value;

	switch (size) {
	case 1:
		memcpy(out, &v8, 1);
		break;
	case 2:
		memcpy(out, &v16, 2);
		break;
	case 4:
		memcpy(out, &v32, 4);
		break;
	default:
		memcpy(out, &value, 8);
		break;
	}
}

/* True if element i was in a line that is HOT, and is now in out. size is at most 8. */
static inline bool fth_array_peek(const struct fth_array *array, uint64_t i, void *out, size_t size)
{
	const struct fth_cache_view *view = &array->view;
	uint64_t at = i * size, mask = ((uint64_t)1 << view->line_shift) - 1;
	uint64_t *word, before, value;

	if (!view->words)
		return false;
	word = &view->words[at >> view->line_shift];
	/* acquire: keeps the data's load after this one. */
	before = fth_load_acquire_dev64(word);
	/* A line that is not HOT is read with a reference, which makes it so. */
	if ((before & (FTH_LINE_VALID | FTH_LINE_HOT)) != (FTH_LINE_VALID | FTH_LINE_HOT))
		return false;
	value = fth_array_peek_bytes(
		view->frames + ((uint64_t)fth_line_frame(before) << view->line_shift) + (at & mask),
		size);
	if (!fth_line_same_place(before, fth_load_relaxed_dev64(word)))
		return false;
	fth_array_store_value(out, value, size);
	return true;
}

static inline int fth_array_get(struct fth_array *array, uint64_t i, void *out, size_t size)
{
	if (size <= 8 && __builtin_expect(i < array->count, 1) &&
	    __builtin_expect(fth_array_peek(array, i, out, size), 1)) {
		fth_stats_add(array->stats, array->hits, 1);
		return 0;
	}
	return fth_array_get_slow(array, i, out);
}

#ifdef __cplusplus
}
#endif
#endif
