/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that runs out: the Nth allocation fails, for N = 1, 2, ... until all goes well. Nothing
 * may be lost, which the build with the address sanitizer sees.
 */
#include "model_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static uint32_t countdown; /* 0: none fails. Atomic: the cache's worker allocates as well. */

static bool fails(void)
{
	uint32_t now = fth_load_relaxed_dev32(&countdown);

	while (now > 0)
		if (fth_cas_acqrel_dev32(&countdown, &now, now - 1))
			return now == 1;
	return false;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : __real_mmap(addr, len, prot, flags, fd, offset);
}

static void a_cache_is_opened_whole_or_not_at_all(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
		struct fth_cache *cache;
		uint32_t n = 0;
		int rc;

		options.compact = compact;
		options.memory = 1 << 20;
		do {
			fth_store_release_dev32(&countdown, ++n);
			rc = fth_cache_open(&options, &cache);
			assert_true(rc == 0 || rc == -ENOMEM);
			assert_true((rc == 0) == (cache != NULL));
		} while (rc < 0 && n < 100);
		assert_true(fth_load_acquire_dev32(&countdown) > 0); /* none failed */
		fth_store_release_dev32(&countdown, 0);
		assert_true(n > 3);
		assert_ok(fth_cache_close(cache));
	}
}

static void a_range_is_added_whole_or_not_at_all(void **state)
{
	struct fth_dev *dev = model_open_dev("mem:64K");

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
		struct fth_cache_range *range;
		struct fth_cache *cache;
		uint32_t n = 0;
		uint64_t value;
		int rc;

		options.compact = compact;
		assert_ok(fth_cache_open(&options, &cache));
		do {
			fth_store_release_dev32(&countdown, ++n);
			rc = fth_cache_add(cache, dev, 0, FTH_CACHE_TO_END, 0, &range);
			assert_true(rc == 0 || rc == -ENOMEM);
			assert_true((rc == 0) == (range != NULL));
		} while (rc < 0 && n < 100);
		assert_true(fth_load_acquire_dev32(&countdown) > 0);
		fth_store_release_dev32(&countdown, 0);
		assert_true(n > 1);
		assert_ok(model_get(range, 700, &value));
		assert_ok(fth_cache_close(cache));
	}
	fth_dev_close(dev);
}

static int touch(void *context, size_t which, uint8_t *data)
{
	(void)context;
	(void)which;
	(void)data;
	return 0;
}

/*
 * Set, visit and flush, a range and then all, with the nth allocation from now failing; the first
 * error.
 */
static int use_with_failure(struct fth_cache_range *range, uint32_t n, uint64_t generation)
{
	const uint64_t lines[3] = {1, 5, 9};
	int rc;

	fth_store_release_dev32(&countdown, n);
	rc = fth_cache_visit(range, FTH_CACHE_READ, lines, 3, touch, NULL);
	if (rc == 0)
		rc = model_set(range, 700, model_value(700, generation));
	if (rc == 0)
		rc = fth_cache_flush(range, 0, FTH_CACHE_TO_END);
	if (rc == 0)
		rc = model_set(range, 900, model_value(900, generation));
	if (rc == 0)
		rc = fth_cache_flush_all(fth_cache_of(range));
	return rc;
}

static void a_call_without_memory_fails_and_may_be_repeated(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		uint32_t n = 0, left;

		do {
			struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
			struct fth_dev *dev = model_open_dev("mem:64K");
			struct fth_cache_range *range;
			uint64_t value;
			int rc;

			options.line = 512;
			options.compact = compact;
			range = model_open_cache(dev, &options, 8);
			rc = use_with_failure(range, ++n, 1);
			left = fth_load_acquire_dev32(&countdown);
			fth_store_release_dev32(&countdown, 0);
			assert_true(rc == 0 || rc == -ENOMEM);
			assert_true(rc == 0 || left == 0);
			/* A flush without memory does not count as one. */
			if (rc == 0)
				assert_int_equal(model_on_medium(dev, 900), model_value(900, 1));
			assert_ok(use_with_failure(range, 0, 2));
			assert_ok(model_get(range, 700, &value));
			assert_int_equal(value, model_value(700, 2));
			assert_int_equal(model_on_medium(dev, 700), model_value(700, 2));
			assert_ok(fth_cache_close(fth_cache_of(range)));
			fth_dev_close(dev);
		} while (left == 0 && n < 100);
		assert_true(n > 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cache_is_opened_whole_or_not_at_all),
		cmocka_unit_test(a_range_is_added_whole_or_not_at_all),
		cmocka_unit_test(a_call_without_memory_fails_and_may_be_repeated),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
