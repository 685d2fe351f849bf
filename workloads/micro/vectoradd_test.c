/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/micro/vectoradd.h"

#include "fathom/dev/crash.h"
#include "fth_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SEED 7

/* Three vectors, one after the other on a device, in lines of 4 KiB or so. */
struct vectors {
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_array *arrays[3];
};

static void open_vectors(struct vectors *v, const char *uri, uint64_t count, uint32_t line,
			 bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.memory = 64 * line;
	options.line = line;
	options.compact = compact;
	assert_ok(fth_dev_open(uri, &v->dev));
	assert_ok(fth_cache_open(&options, &v->cache));
	for (unsigned i = 0; i < 3; i++) {
		struct fth_array_options how = {.size = sizeof(struct fth_array_options),
						.offset = i * (1 << 20),
						.count = count};

		assert_ok(fth_array_open_dev(v->cache, v->dev, 8, &how, &v->arrays[i]));
	}
}

static void close_vectors(struct vectors *v)
{
	for (unsigned i = 0; i < 3; i++)
		assert_ok(fth_array_close(v->arrays[i]));
	assert_ok(fth_cache_close(v->cache));
	fth_dev_close(v->dev);
}

static int try_fill(struct vectors *v, const struct fth_vectoradd_options *how)
{
	int rc = fth_vectoradd_fill(v->arrays[0], SEED, 0, how);

	return rc < 0 ? rc : fth_vectoradd_fill(v->arrays[1], SEED, 1, how);
}

static void fill(struct vectors *v, const struct fth_vectoradd_options *how)
{
	assert_ok(try_fill(v, how));
}

static int add(struct vectors *v, const struct fth_vectoradd_options *how)
{
	return fth_vectoradd_run(v->arrays[0], v->arrays[1], v->arrays[2], how);
}

static void sums_are_right(void **state)
{
	static const uint64_t counts[] = {1, 511, 512, 513, 60000, 131072};

	(void)state;
	for (unsigned i = 0; i < 4 * sizeof(counts) / sizeof(counts[0]); i++) {
		struct fth_vectoradd_options how = {.threads = 1 + i % 3};
		uint64_t count = counts[i / 4], wrong;
		struct vectors v;

		open_vectors(&v, "mem:3M", count, i % 2 ? 512 : 4096, i % 4 > 1);
		fill(&v, &how);
		assert_ok(fth_vectoradd_check(v.arrays[2], SEED, &how, &wrong));
		assert_int_equal(wrong, count);
		assert_ok(add(&v, &how));
		assert_ok(fth_vectoradd_check(v.arrays[2], SEED, &how, &wrong));
		assert_int_equal(wrong, 0);
		/* Straight from the device: it was flushed. */
		for (uint64_t at = 0; at < count; at += 997) {
			double block[64], expected = fth_vectoradd_value(SEED, 0, at) +
						     fth_vectoradd_value(SEED, 1, at);

			assert_ok(fth_dev_read(v.dev, block, 512, (2 << 20) + at / 64 * 512,
					       FTH_DEV_TIMEOUT));
			assert_true(block[at % 64] == expected);
		}
		close_vectors(&v);
	}
}

static void nothing_of_the_output_is_fetched(void **state)
{
	struct fth_vectoradd_options how = {.threads = 2};
	struct vectors v;

	(void)state;
	open_vectors(&v, "mem:3M", 131072, 4096, false);
	fill(&v, &how);
	assert_ok(fth_cache_evict(fth_array_range(v.arrays[0]), 0, UINT64_MAX));
	assert_ok(fth_cache_evict(fth_array_range(v.arrays[1]), 0, UINT64_MAX));
	assert_int_equal(fth_cache_stat(v.cache, FTH_CACHE_BYTES_READ), 0);
	assert_ok(add(&v, &how));
	/* Each input once, unless a line that came too early had to go and come again. */
	assert_in_range(fth_cache_stat(v.cache, FTH_CACHE_BYTES_READ), 2 << 20, 5 << 19);
	close_vectors(&v);
}

static void what_was_added_survives_power_loss(void **state)
{
	struct vectors v;
	uint64_t wrong;

	(void)state;
	open_vectors(&v, "crash(mem:3M)", 131072, 4096, false);
	fill(&v, NULL);
	assert_ok(add(&v, NULL));
	assert_ok(fth_dev_crash_power_loss(v.dev, 5));
	assert_ok(fth_dev_crash_restart(v.dev));
	assert_ok(fth_cache_evict(fth_array_range(v.arrays[2]), 0, UINT64_MAX));
	assert_ok(fth_vectoradd_check(v.arrays[2], SEED, NULL, &wrong));
	assert_int_equal(wrong, 0);
	close_vectors(&v);
}

static void arrays_that_do_not_match_are_refused(void **state)
{
	struct vectors v, w;

	(void)state;
	open_vectors(&v, "mem:3M", 1000, 4096, false);
	open_vectors(&w, "mem:3M", 1001, 512, false);
	assert_int_equal(fth_vectoradd_run(v.arrays[0], w.arrays[1], v.arrays[2], NULL), -EINVAL);
	close_vectors(&w);
	open_vectors(&w, "mem:3M", 1000, 512, false);
	assert_int_equal(fth_vectoradd_run(v.arrays[0], w.arrays[1], v.arrays[2], NULL), -EINVAL);
	close_vectors(&w);
	close_vectors(&v);
}

/* Whichever read, write or flush fails once: an error, or (a write that is tried again) a result.
 */
static void a_failure_is_an_error_or_is_made_good(void **state)
{
	static const char *const kinds[] = {"read", "write", "flush"};
	struct fth_vectoradd_options how = {.threads = 2, .ahead = 16384};

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		struct vectors v;
		uint64_t wrong;
		char uri[96];
		int rc;

		snprintf(uri, sizeof(uri), "fault(mem:3M)?kind=%s&nth=%u&from=%u", kinds[i % 3],
			 i / 3 + 1, i % 3 ? 2 << 20 : 0);
		open_vectors(&v, uri, 30000, 4096, false);
		if (try_fill(&v, &how) < 0) /* the fault came early, and only once */
			fill(&v, &how);
		rc = add(&v, &how);
		if (rc < 0) {
			assert_int_equal(rc, -EIO);
			rc = add(&v, &how);
		}
		assert_ok(rc);
		assert_ok(fth_vectoradd_check(v.arrays[2], SEED, &how, &wrong));
		assert_int_equal(wrong, 0);
		close_vectors(&v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_right),
		cmocka_unit_test(nothing_of_the_output_is_fetched),
		cmocka_unit_test(what_was_added_survives_power_loss),
		cmocka_unit_test(arrays_that_do_not_match_are_refused),
		cmocka_unit_test(a_failure_is_an_error_or_is_made_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
