/* SPDX-License-Identifier: BSD-2-Clause */
/* Single elements, with a reference to their line. */
#include "internal.h"

int fth_array_get_slow(struct fth_array *array, uint64_t i, void *out)
{
	size_t size = fth_array_size(array);
	struct fth_cache_pin pin;
	int rc;

	if (i >= array->count)
		return fth_array_out_of_range(array, i);
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
	int rc;

	if (size != fth_array_size(array))
		return fth_fail(EINVAL, "a value of %zu bytes for elements of %zu", size,
				fth_array_size(array));
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
