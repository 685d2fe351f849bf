/* SPDX-License-Identifier: BSD-2-Clause */
/* Single elements, with a reference to their line. */
#include "internal.h"

/* Without a reference after all: in a cache too large for the inline way, or where the word has
 * changed meanwhile, but not the line's place. */
static bool peeked(const struct fth_array *array, uint64_t i, void *out)
{
	size_t size = fth_array_size(array);
	uint64_t value;

	if (i >= array->peekable || !fth_array_peek(array, i, size, &value))
		return false;
	fth_array_store_value(out, value, size);
	fth_stats_count(array->look.peeks, 1);
	return true;
}

int fth_array_get_slow(struct fth_array *array, uint64_t i, void *out)
{
	size_t size = fth_array_size(array);
	struct fth_cache_pin pin;
	int rc;

	if (i >= array->count)
		return fth_array_out_of_range(array, i);
	if (peeked(array, i, out))
		return 0;
	rc = fth_array_pin_line(array, fth_array_line_of(array, i), FTH_CACHE_READ, &pin);
	if (rc < 0)
		return rc;
	fth_array_copy_out(out, pin.data + fth_array_offset_of(array, i), size, size);
	fth_cache_unpin(&pin, false);
	fth_cache_wanted(array->cache, size);
	return 0;
}

int fth_array_set(struct fth_array *array, uint64_t i, const void *value, size_t size)
{
	struct fth_cache_pin pin;
	int rc = fth_array_check_size(array, size);

	if (rc < 0)
		return rc;
	if (i >= array->count)
		return fth_array_out_of_range(array, i);
	rc = fth_array_pin_line(array, fth_array_line_of(array, i), FTH_CACHE_WRITE, &pin);
	if (rc < 0)
		return rc;
	fth_array_copy_in(pin.data + fth_array_offset_of(array, i), value, size, size);
	fth_cache_unpin(&pin, true);
	fth_cache_wanted(array->cache, size);
	return 0;
}
