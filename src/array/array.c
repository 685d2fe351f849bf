/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing arrays, and what all calls share: bounds, lines.
 *
 * Siblings: element.c gets and sets single elements, inline.h those of hot lines; atomic.c changes
 * them atomically; run.c copies runs; gather.c, walk.c and rows.c go to many places at once, over
 * the lists of batch.c; cursor.c hands out pointers; copy.c moves elements whole.
 *
 * Invariants
 * 1. An array never changes after it was opened, so every thread may use it without a lock.
 * 2. Element 0 is at byte 0 of line 0, and an element's size divides the line's: no element lies
 *    in two lines.
 * 3. count * size <= bytes of the range, so an index below count is a line of the range.
 * 4. A frame's bytes are changed under a pin or visit for writing only, elements of up to 8 bytes
 *    with one store each: readers without a reference see old or new.
 */
#include "internal.h"
#include "base/options.h"
#include "dev/lock.h"

#include "fathom/dev.h"

#include <stdlib.h>

/* A frame's place in units of 8 bytes begins where its number does in a word. */
_Static_assert(FTH_CACHE_LINE_MIN == 8u << FTH_LINE_FRAME_SHIFT, "see fth_array_look_at()");

/* In caches of so much memory, and more, no get is inlined. A variable for the tests, which do not
 * have so much. */
uint64_t fth_array_look_bytes = FTH_ARRAY_LOOK_BYTES_;

/* ---- bounds and lines ---- */

int fth_array_out_of_range(const struct fth_array *array, uint64_t i)
{
	return fth_fail(ERANGE, "array: index %llu is out of range: the array has %llu elements",
			(unsigned long long)i, (unsigned long long)array->count);
}

int fth_array_check_size(const struct fth_array *array, size_t size)
{
	if (size == fth_array_size(array))
		return 0;
	return fth_fail(EINVAL, "array: element size %zu, but the array has elements of %zu bytes",
			size, fth_array_size(array));
}

int fth_array_check(const struct fth_array *array, uint64_t first, uint64_t n)
{
	if (first <= array->count && n <= array->count - first)
		return 0;
	return fth_fail(
		ERANGE, "array: %llu elements from index %llu exceed the array of %llu elements",
		(unsigned long long)n, (unsigned long long)first, (unsigned long long)array->count);
}

enum fth_cache_mode fth_array_line_mode(const struct fth_array *array, uint64_t line,
					enum fth_cache_mode mode)
{
	uint64_t end = (line + 1) << array->view.line_shift;

	if (end > array->view.bytes)
		end = array->view.bytes;
	if (mode == FTH_CACHE_OVERWRITE && array->count << array->shift < end)
		return FTH_CACHE_WRITE;
	return mode;
}

/* ---- opening ---- */

static int check_element(const struct fth_cache *cache, size_t element)
{
	uint32_t line = fth_cache_line_size(cache);

	if (element == 0 || element & (element - 1) || element > line)
		return fth_fail(
			EINVAL,
			"array: element size %zu is not a power of two from 1 to %u, the line size",
			element, line);
	return 0;
}

/* How many elements there are, and the bytes of whole blocks that hold them. */
static int measure(const struct fth_dev *dev, size_t element,
		   const struct fth_array_options *options, uint64_t *count, uint64_t *bytes)
{
	const struct fth_dev_info *info = fth_dev_info(dev);
	uint64_t fit;

	if (options->offset > info->size || options->offset % info->block)
		return fth_fail(EINVAL,
				"array: offset %llu is not a multiple of the block, %u, up to the "
				"device's size, %llu",
				(unsigned long long)options->offset, info->block,
				(unsigned long long)info->size);
	fit = (info->size - options->offset) / element;
	*count = options->count ? options->count : fit;
	if (fit == 0 || *count > fit)
		return fth_fail(ERANGE,
				"array: %llu elements of %zu bytes do not fit: the device has room "
				"for %llu",
				(unsigned long long)*count, element, (unsigned long long)fit);
	*bytes = *count * element;
	/* Up to a whole block; inside, since the device's size is a multiple of it. */
	*bytes += (info->block - *bytes % info->block) % info->block;
	return 0;
}

static void describe(struct fth_array *array, size_t element)
{
	const struct fth_cache_view *view = &array->view;

	fth_cache_view(array->range, &array->view);
	array->shift = (uint32_t)__builtin_ctzll(element);
	array->per_line = view->line_shift - array->shift;
	array->in_line = ((uint64_t)1 << array->per_line) - 1;
	array->words = view->words;
	array->frames = view->frames;
	array->peekable = view->words && element <= 8 ? array->count : 0;
	array->look.peeks =
		fth_stats_counter(view->stats, view->peeks + (array->peekable ? array->shift : 0));
}

/*
 * What typed handles get a copy of. Where elements cannot be read so, and in caches of 32 GiB and
 * more, whose frames do not fit into the lower half of a word, all elements are in one line that
 * never becomes hot: fth_array_get_slow() reads them.
 */
static void describe_look(struct fth_array *array)
{
	static uint64_t never_hot;
	struct fth_array_look *look = &array->look;
	struct fth_cache_footprint footprint;

	fth_cache_footprint(array->cache, &footprint);
	look->count = array->count;
	look->frames = array->frames;
	if (array->peekable && footprint.data_bytes < fth_array_look_bytes) {
		look->words = array->words;
		look->per_line = array->per_line;
		look->in_line = array->in_line;
	} else {
		look->words = &never_hot;
		look->per_line = 63;
		look->in_line = INT64_MAX;
	}
}

int fth_array_open_dev(struct fth_cache *cache, struct fth_dev *dev, size_t element,
		       const struct fth_array_options *options, struct fth_array **out)
{
	static const struct fth_array_options defaults = FTH_ARRAY_OPTIONS_INIT;
	struct fth_array *array;
	uint64_t bytes = 0;
	int rc;

	*out = NULL;
	options = options ? options : &defaults;
	rc = fth_options_check("array", options->size, sizeof(*options));
	if (rc == 0)
		rc = check_element(cache, element);
	if (rc < 0)
		return rc;
	array = calloc(1, sizeof(*array));
	if (!array)
		return -ENOMEM;
	array->cache = cache;
	array->lock = -1;
	rc = measure(dev, element, options, &array->count, &bytes);
	if (rc == 0)
		rc = fth_cache_add(cache, dev, options->offset, bytes,
				   options->readonly ? FTH_CACHE_READONLY : 0, &array->range);
	if (rc < 0) {
		free(array);
		return rc;
	}
	describe(array, element);
	describe_look(array);
	*out = array;
	return 0;
}

int fth_array_open(struct fth_cache *cache, const char *uri, size_t element,
		   const struct fth_array_options *options, struct fth_array **out)
{
	struct fth_dev *dev = NULL;
	int lock = -1, rc = 0;

	*out = NULL;
	/* Lock first: the channels of the device keep the lock while requests are in flight. */
	if (options && options->size == sizeof(*options) && options->lock)
		rc = fth_dev_lock_uri(uri, !options->readonly, &lock);
	if (rc == 0)
		rc = fth_dev_open(uri, &dev);
	if (rc == 0)
		rc = fth_array_open_dev(cache, dev, element, options, out);
	if (rc < 0) {
		fth_dev_close(dev);
		fth_dev_unlock(lock);
		return rc;
	}
	(*out)->own_dev = dev;
	(*out)->lock = lock;
	return 0;
}

int fth_array_open_typed(struct fth_cache *cache, const char *uri, size_t element,
			 const struct fth_array_options *options, struct fth_array **out,
			 struct fth_array_look *look)
{
	int rc = fth_array_open(cache, uri, element, options, out);

	*look = rc < 0 ? (struct fth_array_look){0} : (*out)->look;
	return rc;
}

int fth_array_wrap(struct fth_array *array, size_t element, struct fth_array **out,
		   struct fth_array_look *look)
{
	int rc = fth_array_check_size(array, element);

	*out = NULL;
	*look = (struct fth_array_look){0};
	if (rc < 0)
		return rc;
	*out = array;
	*look = array->look;
	return 0;
}

/* The range is gone, and the cache with it does not use the device any more. */
static void array_free(struct fth_array *array)
{
	fth_dev_close(array->own_dev);
	fth_dev_unlock(array->lock);
	free(array);
}

int fth_array_close(struct fth_array *array)
{
	int rc;

	if (!array)
		return 0;
	rc = fth_cache_remove(array->range);
	if (rc == 0)
		array_free(array);
	return rc;
}

int fth_array_discard(struct fth_array *array)
{
	int rc;

	if (!array)
		return 0;
	rc = fth_cache_discard_range(array->range);
	if (rc == 0)
		array_free(array);
	return rc;
}

int fth_array_finish(struct fth_array **array)
{
	int rc = fth_array_close(*array);

	if (rc == 0 || fth_array_discard(*array) == 0)
		*array = NULL;
	return rc;
}

/* ---- asking ---- */

uint64_t fth_array_count(const struct fth_array *array)
{
	return array->count;
}

size_t fth_array_element(const struct fth_array *array)
{
	return fth_array_size(array);
}

struct fth_cache *fth_array_cache(const struct fth_array *array)
{
	return array->cache;
}

struct fth_cache_range *fth_array_range(const struct fth_array *array)
{
	return array->range;
}
