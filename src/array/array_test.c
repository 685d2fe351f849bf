/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening, closing, bounds, single elements, typed use. */
#include "array_fixture.h"
#include "internal.h"

#include <errno.h>

typedef FTH_ARRAY(uint32_t) u32_array;

struct point {
	double x, y;
};

static struct fth_cache *small_cache(bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache *cache;

	options.memory = 64 << 10;
	options.compact = compact;
	assert_ok(fth_cache_open(&options, &cache));
	return cache;
}

static void elements_are_a_power_of_two_up_to_a_line(void **state)
{
	static const size_t bad[] = {0, 3, 6, 8192, SIZE_MAX};
	struct fth_cache *cache = small_cache(false);
	struct fth_array *array;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fth_array_open(cache, "mem:1M", bad[i], NULL, &array), -EINVAL);
		assert_null(array);
	}
	for (size_t size = 1; size <= 4096; size *= 2) {
		assert_ok(fth_array_open(cache, "mem:1M", size, NULL, &array));
		assert_int_equal(fth_array_element(array), size);
		assert_int_equal(fth_array_count(array), (1 << 20) / size);
		assert_ok(fth_array_close(array));
	}
	assert_ok(fth_cache_close(cache));
}

static void what_does_not_fit_is_refused(void **state)
{
	struct fth_cache *cache = small_cache(false);
	const struct fth_array_options none = {.size = sizeof(struct fth_array_options),
					       .offset = 1 << 20};
	const struct fth_array_options beyond = {.size = sizeof(struct fth_array_options),
						 .offset = 2 << 20};
	const struct fth_array_options crooked = {.size = sizeof(struct fth_array_options),
						  .offset = 100};
	const struct fth_array_options many = {.size = sizeof(struct fth_array_options),
					       .count = (1 << 17) + 1};
	const struct fth_array_options huge = {.size = sizeof(struct fth_array_options),
					       .count = UINT64_MAX};
	struct fth_array *array;

	(void)state;
	assert_int_equal(fth_array_open(cache, "mem:1M", 8, &none, &array), -ERANGE);
	assert_int_equal(fth_array_open(cache, "mem:1M", 8, &beyond, &array), -EINVAL);
	assert_int_equal(fth_array_open(cache, "mem:1M", 8, &crooked, &array), -EINVAL);
	assert_int_equal(fth_array_open(cache, "mem:1M", 8, &many, &array), -ERANGE);
	assert_int_equal(fth_array_open(cache, "mem:1M", 8, &huge, &array), -ERANGE);
	assert_int_equal(fth_array_open(cache, "nothing:1M", 8, NULL, &array), -EINVAL);
	assert_null(array);
	assert_ok(fth_array_close(NULL));
	assert_ok(fth_cache_close(cache));
}

static void every_call_checks_bounds(void **state)
{
	struct fth_cache *cache = small_cache(false);
	struct fth_array_options options = {.size = sizeof(struct fth_array_options),
					    .count = 1000};
	const struct fth_span outside[] = {{0, 1}, {999, 2}}, wraps = {2, UINT64_MAX};
	uint64_t value[2] = {0}, indices[] = {5, 1000};
	struct fth_array_pin pin;
	struct fth_cursor cursor;
	struct fth_array *a;

	(void)state;
	assert_ok(fth_array_open(cache, "mem:1M", 8, &options, &a));
	assert_int_equal(fth_array_get(a, 1000, value, 8), -ERANGE);
	assert_int_equal(fth_array_get(a, UINT64_MAX, value, 8), -ERANGE);
	assert_int_equal(fth_array_set(a, 1000, value, 8), -ERANGE);
	assert_int_equal(fth_array_set(a, 1, value, 4), -EINVAL);
	assert_int_equal(fth_array_read(a, 999, 2, value), -ERANGE);
	assert_int_equal(fth_array_read(a, 2, UINT64_MAX, value), -ERANGE);
	assert_int_equal(fth_array_write(a, 1001, 0, value), -ERANGE);
	assert_int_equal(fth_array_write(a, UINT64_MAX, UINT64_MAX, value), -ERANGE);
	assert_int_equal(fth_array_fill(a, 1000, 1, value), -ERANGE);
	assert_int_equal(fth_array_flush(a, 1001, FTH_ARRAY_ALL), -ERANGE);
	assert_int_equal(fth_array_flush(a, 0, 1001), -ERANGE);
	assert_int_equal(fth_array_gather(a, indices, 2, value), -ERANGE);
	assert_int_equal(fth_array_scatter(a, indices, 2, value), -ERANGE);
	assert_int_equal(fth_array_xor64_many(a, indices, 2, value), -ERANGE);
	assert_int_equal(fth_array_walk(a, outside, 2, NULL, NULL), -ERANGE);
	assert_int_equal(fth_array_walk(a, &wraps, 1, NULL, NULL), -ERANGE);
	assert_int_equal(fth_array_pin(a, 1000, FTH_CACHE_READ, &pin), -ERANGE);
	fth_array_unpin(&pin, false);
	fth_cursor_open(&cursor, a, FTH_CACHE_READ);
	assert_int_equal(fth_cursor_move(&cursor, 1000, 8), -ERANGE);
	fth_cursor_close(&cursor);
	assert_int_equal(fth_array_add64(a, 1000, 1, NULL), -ERANGE);
	assert_int_equal(fth_array_min64(a, 1000, 1, NULL), -ERANGE);
	assert_int_equal(fth_array_cas64(a, 1000, value, 1), -ERANGE);
	fth_array_prefetch(a, 1000, 1);
	fth_array_prefetch(a, UINT64_MAX, UINT64_MAX);
	/* What is empty and inside is nothing to do. */
	assert_ok(fth_array_read(a, 1000, 0, value));
	assert_ok(fth_array_gather(a, indices, 0, value));
	assert_ok(fth_array_walk(a, outside, 0, NULL, NULL));
	/* No call has touched the device. */
	assert_int_equal(fth_cache_stat(cache, FTH_CACHE_MISSES), 0);
	assert_ok(fth_array_close(a));
	assert_ok(fth_cache_close(cache));
}

static void typed_use_needs_no_cast(void **state)
{
	struct fth_cache *cache = small_cache(false);
	FTH_ARRAY(struct point) points;
	FTH_CURSOR(uint32_t) c;
	u32_array a;
	uint32_t v = 0, some[3], three[] = {7, 8, 9};
	const uint64_t indices[] = {3, 1, 2};
	struct point p;
	int error;

	(void)state;
	assert_ok(fth_open(&a, cache, "mem:64K", NULL));
	assert_ok(fth_set(a, 12, 34));
	assert_ok(fth_get(a, 12, &v));
	assert_int_equal(v, 34);
	assert_ok(fth_write(a, 1, 3, three));
	assert_ok(fth_gather(a, indices, 3, some));
	assert_int_equal(some[0], 9);
	assert_ok(fth_scatter(a, indices, 3, three));
	assert_ok(fth_read(a, 1, 3, some));
	assert_int_equal(some[0], 8);
	assert_ok(fth_fill(a, 4, 3, 5));
	fth_start(&c, a, FTH_CACHE_WRITE);
	assert_ok(fth_cursor_get(&c, 6, &v));
	assert_int_equal(v, 5);
	assert_ok(fth_cursor_set(&c, 6, v + 1));
	assert_int_equal(*fth_at(&c, 6, &error), 6);
	fth_cursor_close(&c.base);
	assert_ok(fth_array_close(a.base));

	assert_ok(fth_open(&points, cache, "mem:64K", NULL));
	assert_ok(fth_set(points, 100, 1.5, 2.5));
	assert_ok(fth_get(points, 100, &p));
	assert_true(p.x == 1.5 && p.y == 2.5);
	assert_ok(fth_array_close(points.base));
	assert_ok(fth_cache_close(cache));
}

static void a_readonly_array_takes_no_changes(void **state)
{
	struct fth_cache *cache = small_cache(false);
	struct fth_array_options options = {.size = sizeof(struct fth_array_options),
					    .readonly = true};
	uint64_t value = 1, index = 0, expected = 0;
	struct fth_array_pin pin;
	struct fth_array *a;

	(void)state;
	assert_ok(fth_array_open(cache, "mem:64K", 8, &options, &a));
	assert_ok(fth_array_get(a, 0, &value, 8));
	assert_int_equal(fth_array_set(a, 0, &value, 8), -EROFS);
	assert_int_equal(fth_array_write(a, 0, 1, &value), -EROFS);
	assert_int_equal(fth_array_fill(a, 0, 8192, &value), -EROFS);
	assert_int_equal(fth_array_scatter(a, &index, 1, &value), -EROFS);
	assert_int_equal(fth_array_xor64_many(a, &index, 1, &value), -EROFS);
	assert_int_equal(fth_array_add64(a, 0, 1, NULL), -EROFS);
	assert_int_equal(fth_array_min64(a, 0, 0, NULL), -EROFS);
	assert_int_equal(fth_array_cas64(a, 0, &expected, 1), -EROFS);
	assert_int_equal(fth_array_pin(a, 0, FTH_CACHE_WRITE, &pin), -EROFS);
	assert_ok(fth_array_close(a));
	assert_ok(fth_cache_close(cache));
}

/*
 * A size that is not the element's is refused, and nothing is written past the caller's variable.
 */
static void another_size_is_refused(void **state)
{
	static const size_t elements[] = {1, 2, 4, 8, 64};

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++)
		for (unsigned e = 0; e < 5; e++) {
			struct fth_cache *cache = small_cache(compact);
			struct fth_cursor cursor;
			struct fth_array *a;
			uint8_t value[128], untouched[128];
			int error = 0;

			memset(value, 0xaa, sizeof(value));
			memset(untouched, 0xaa, sizeof(untouched));
			assert_ok(fth_array_open(cache, "mem:64K", elements[e], NULL, &a));
			for (unsigned hot = 0; hot < 2; hot++)
				for (size_t size = 0; size <= 128; size++) {
					if (size == elements[e])
						continue;
					assert_int_equal(fth_array_get(a, 0, value, size), -EINVAL);
					assert_int_equal(fth_array_set(a, 0, value, size), -EINVAL);
					memset(value, 0xaa, size);
					assert_memory_equal(value, untouched, sizeof(value));
					/* The second time the line is in the cache, and hot. */
					for (unsigned i = 0; hot == 0 && i < 3; i++) {
						uint8_t right[64];

						assert_ok(fth_array_get(a, 0, right, elements[e]));
					}
				}
			fth_cursor_open(&cursor, a, FTH_CACHE_WRITE);
			assert_null(fth_cursor_at(&cursor, 0, 2 * elements[e], &error));
			assert_int_equal(error, -EINVAL);
			assert_int_equal(fth_cursor_store(&cursor, 0, value, 2 * elements[e]),
					 -EINVAL);
			assert_ok(fth_cursor_store(&cursor, 0, value, elements[e]));
			fth_cursor_close(&cursor);
			assert_ok(fth_array_close(a));
			assert_ok(fth_cache_close(cache));
		}
}

/* In caches of 32 GiB and more gets are not inlined; here such a cache is a small one. */
static void gets_that_are_not_inlined_read_and_count_the_same(void **state)
{
	uint64_t before = fth_array_look_bytes;

	(void)state;
	for (unsigned large = 0; large < 2; large++) {
		struct fth_cache *cache = small_cache(false);
		FTH_ARRAY(uint64_t) a;
		uint64_t value;

		fth_array_look_bytes = large ? 1 : before;
		assert_ok(fth_open(&a, cache, "mem:64K", NULL));
		assert_true((a.base->look.words == a.base->words) == !large);
		for (uint64_t i = 0; i < 8; i++)
			assert_ok(fth_set(a, i, i + 1));
		for (uint64_t i = 0; i < 1000; i++) {
			assert_ok(fth_get(a, i % 8, &value));
			assert_int_equal(value, i % 8 + 1);
		}
		assert_int_equal(fth_get(a, fth_count(a), &value), -ERANGE);
		assert_int_equal(fth_cache_stat(cache, FTH_CACHE_HITS) +
					 fth_cache_stat(cache, FTH_CACHE_MISSES),
				 1008);
		assert_ok(fth_array_close(a.base));
		assert_ok(fth_cache_close(cache));
	}
	fth_array_look_bytes = before;
}

static void closing_waits_for_no_pin(void **state)
{
	struct fth_cache *cache = small_cache(false);
	struct fth_array_pin pin;
	struct fth_array *a;
	uint64_t value;

	(void)state;
	assert_ok(fth_array_open(cache, "mem:64K", 8, NULL, &a));
	assert_ok(fth_array_pin(a, 5, FTH_CACHE_READ, &pin));
	assert_int_equal(fth_array_close(a), -EBUSY);
	assert_ok(fth_array_get(a, 5, &value, 8));
	fth_array_unpin(&pin, false);
	assert_ok(fth_array_close(a));
	assert_ok(fth_cache_close(cache));
}

/* Each get counts as a hit or a miss, and what it wanted, whichever way it went. */
static void single_gets_are_counted(void **state)
{
	(void)state;
	for (int compact = 0; compact < 2; compact++) {
		struct fth_cache *cache = small_cache(compact);
		uint64_t gets = 1000, value;
		struct fth_array *a;

		assert_ok(fth_array_open(cache, "mem:32K", 8, NULL, &a));
		for (uint64_t i = 0; i < gets; i++)
			assert_ok(fth_array_get(a, i, &value, 8));
		assert_int_equal(fth_cache_stat(cache, FTH_CACHE_MISSES), 2);
		assert_int_equal(fth_cache_stat(cache, FTH_CACHE_HITS), gets - 2);
		assert_int_equal(fth_cache_stat(cache, FTH_CACHE_BYTES_WANTED), gets * 8);
		assert_ok(fth_array_close(a));
		assert_ok(fth_cache_close(cache));
	}
}

/* The inline way has a load for each size, and counts each read. */
#define GETS_OF_SIZE(type, cache_)                                                       \
	do {                                                                             \
		FTH_ARRAY(type) a_;                                                      \
		FTH_ARRAY(type) again_;                                                  \
		uint64_t hits_;                                                          \
		type v_ = 0;                                                             \
                                                                                         \
		assert_ok(fth_open(&a_, cache_, "mem:64K", NULL));                       \
		assert_int_equal(fth_count(a_), 65536 / sizeof(type));                   \
		assert_ok(fth_wrap(&again_, a_.base));                                   \
		for (uint64_t i = 0; i < fth_count(a_); i++)                             \
			assert_ok(fth_set(a_, i, (type)fth_mix64(i)));                   \
		for (unsigned round = 0; round < 3; round++) {                           \
			hits_ = fth_cache_stat(cache_, FTH_CACHE_HITS);                  \
			for (uint64_t i = 0; i < fth_count(a_); i++) {                   \
				assert_ok(fth_get(a_, i, &v_));                          \
				assert_true(v_ == (type)fth_mix64(i));                   \
				assert_ok(fth_get(again_, i, &v_));                      \
				assert_true(v_ == (type)fth_mix64(i));                   \
				assert_ok(fth_array_get(a_.base, i, &v_, sizeof(v_)));   \
				assert_true(v_ == (type)fth_mix64(i));                   \
			}                                                                \
			assert_int_equal(fth_cache_stat(cache_, FTH_CACHE_HITS) - hits_, \
					 3 * fth_count(a_));                             \
		}                                                                        \
		assert_int_equal(fth_get(a_, fth_count(a_), &v_), -ERANGE);              \
		assert_int_equal(fth_get(a_, UINT64_MAX, &v_), -ERANGE);                 \
		assert_ok(fth_array_close(a_.base));                                     \
	} while (0)

static void gets_of_all_sizes_are_right_and_counted(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++)
		for (uint32_t line = 512; line <= 65536; line *= 8) {
			struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
			struct fth_cache *cache;

			options.line = line;
			options.memory = 1 << 20;
			options.compact = compact;
			assert_ok(fth_cache_open(&options, &cache));
			GETS_OF_SIZE(uint8_t, cache);
			GETS_OF_SIZE(uint16_t, cache);
			GETS_OF_SIZE(uint32_t, cache);
			GETS_OF_SIZE(uint64_t, cache);
			assert_ok(fth_cache_close(cache));
		}
}

static void a_handle_of_another_size_is_refused(void **state)
{
	FTH_ARRAY(uint64_t) wide;
	struct fth_cache *cache;
	u32_array a;

	(void)state;
	assert_ok(fth_cache_open(NULL, &cache));
	assert_ok(fth_open(&a, cache, "mem:64K", NULL));
	assert_int_equal(fth_wrap(&wide, a.base), -EINVAL);
	assert_null(wide.base);
	assert_ok(fth_array_close(a.base));
	assert_ok(fth_cache_close(cache));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_are_a_power_of_two_up_to_a_line),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(every_call_checks_bounds),
		cmocka_unit_test(typed_use_needs_no_cast),
		cmocka_unit_test(a_readonly_array_takes_no_changes),
		cmocka_unit_test(another_size_is_refused),
		cmocka_unit_test(gets_that_are_not_inlined_read_and_count_the_same),
		cmocka_unit_test(closing_waits_for_no_pin),
		cmocka_unit_test(single_gets_are_counted),
		cmocka_unit_test(gets_of_all_sizes_are_right_and_counted),
		cmocka_unit_test(a_handle_of_another_size_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
