/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics on elements: one instruction on the element, under a pin for writing. They promise
 * sequential consistency, which the accessors of fathom/hd/atomic.h do not have, so the builtins
 * are used as they are. A line is let go as changed only if the element was.
 */
#include "internal.h"

/* Pin the line of an element of `size` bytes; its address in *at. */
static int pin_element(struct fth_array *array, uint64_t i, size_t size, struct fth_cache_pin *pin,
		       void **at)
{
	int rc = fth_array_check_size(array, size);

	if (rc < 0)
		return rc;
	if (i >= array->count)
		return fth_array_out_of_range(array, i);
	rc = fth_array_pin_line(array, fth_array_line_of(array, i), FTH_CACHE_WRITE, pin);
	if (rc < 0)
		return rc;
	*at = pin->data + fth_array_offset_of(array, i);
	fth_cache_wanted(array->cache, size);
	return 0;
}

/* An operation that changes nothing when its operand is 0. */
#define DEFINE_FETCH(name, type, fetch)                                        \
	int name(struct fth_array *array, uint64_t i, type operand, type *old) \
	{                                                                      \
		struct fth_cache_pin pin;                                      \
		void *at;                                                      \
		type was;                                                      \
		int rc = pin_element(array, i, sizeof(was), &pin, &at);        \
                                                                               \
		if (rc < 0)                                                    \
			return rc;                                             \
		was = fetch((type *)at, operand, __ATOMIC_SEQ_CST);            \
		fth_cache_unpin(&pin, operand != 0);                           \
		if (old)                                                       \
			*old = was;                                            \
		return 0;                                                      \
	}

DEFINE_FETCH(fth_array_add32, uint32_t, __atomic_fetch_add)
DEFINE_FETCH(fth_array_add64, uint64_t, __atomic_fetch_add)
DEFINE_FETCH(fth_array_xor64, uint64_t, __atomic_fetch_xor)

/* ---- minimum ---- */

/* Set *at to value if that is less; what was there before. */
static uint32_t lower32(uint32_t *at, uint32_t value)
{
	uint32_t was = __atomic_load_n(at, __ATOMIC_SEQ_CST);

	while (value < was && !__atomic_compare_exchange_n(at, &was, value, false, __ATOMIC_SEQ_CST,
							   __ATOMIC_SEQ_CST))
		;
	return was;
}

static uint64_t lower64(uint64_t *at, uint64_t value)
{
	uint64_t was = __atomic_load_n(at, __ATOMIC_SEQ_CST);

	while (value < was && !__atomic_compare_exchange_n(at, &was, value, false, __ATOMIC_SEQ_CST,
							   __ATOMIC_SEQ_CST))
		;
	return was;
}

/* Most minimums of a search change nothing; a look at the hot line says so. */
static bool is_no_less(struct fth_array *array, uint64_t i, uint64_t value, uint64_t *seen)
{
	if (i >= array->peekable || fth_cache_readonly(array->range) ||
	    !fth_array_peek(array, i, fth_array_size(array), seen) || value < *seen)
		return false;
	fth_stats_count(array->look.peeks, 1);
	return true;
}

/* For elements of both sizes; *was is what was there before. */
static inline int lower(struct fth_array *array, uint64_t i, size_t size, uint64_t value,
			uint64_t *was)
{
	struct fth_cache_pin pin;
	void *at;
	int rc;

	if (size == fth_array_size(array) && is_no_less(array, i, value, was))
		return 0;
	rc = pin_element(array, i, size, &pin, &at);
	if (rc < 0)
		return rc;
	*was = size == 4 ? lower32(at, (uint32_t)value) : lower64(at, value);
	fth_cache_unpin(&pin, value < *was);
	return 0;
}

int fth_array_min32(struct fth_array *array, uint64_t i, uint32_t value, uint32_t *old)
{
	uint64_t was;
	int rc = lower(array, i, sizeof(value), value, &was);

	if (rc == 0 && old)
		*old = (uint32_t)was;
	return rc;
}

int fth_array_min64(struct fth_array *array, uint64_t i, uint64_t value, uint64_t *old)
{
	uint64_t was;
	int rc = lower(array, i, sizeof(value), value, &was);

	if (rc == 0 && old)
		*old = was;
	return rc;
}

/* ---- compare and swap ---- */

#define DEFINE_CAS(name, type)                                                              \
	int name(struct fth_array *array, uint64_t i, type *expected, type desired)         \
	{                                                                                   \
		struct fth_cache_pin pin;                                                   \
		void *at;                                                                   \
		bool swapped;                                                               \
		int rc = pin_element(array, i, sizeof(desired), &pin, &at);                 \
                                                                                            \
		if (rc < 0)                                                                 \
			return rc;                                                          \
		swapped = __atomic_compare_exchange_n((type *)at, expected, desired, false, \
						      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
		fth_cache_unpin(&pin, swapped);                                             \
		return swapped;                                                             \
	}

DEFINE_CAS(fth_array_cas32, uint32_t)
DEFINE_CAS(fth_array_cas64, uint64_t)
