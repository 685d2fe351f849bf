/* SPDX-License-Identifier: BSD-2-Clause */
/* Typed handles of arrays as the host makes them, on a stand-in for CUDA's runtime. */
extern "C" {
#include "fake_cuda_fixture.h"
}

#include "fathom/base/error.h"
#include "fathom/gpu/cache.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

struct rig {
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *cache;
};

static struct rig open_rig(void)
{
	struct fth_gpu_cache_options cache = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_drive_options drive = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct rig rig = {};

	fake_cuda_reset(0);
	drive.queues = 2;
	drive.entries = 16;
	cache.bytes = 1u << 14;
	assert_int_equal(fth_gpu_drive_open_uri("mem:1M", &drive, &rig.drive), 0);
	assert_int_equal(fth_gpu_cache_open(rig.drive, &cache, &rig.cache), 0);
	return rig;
}

static void close_rig(struct rig *rig)
{
	assert_int_equal(fth_gpu_cache_close(rig->cache), 0);
	assert_int_equal(fth_gpu_drive_close(rig->drive), 0);
	assert_true(fake_cuda_clean());
}

/* A handle whose elements have another size than the array's is refused, and stays as it was. */
static void test_wrap(void **)
{
	struct rig rig = open_rig();
	struct fth_gpu_array_base untyped;
	fth_gpu_array<uint64_t> wide = {};
	fth_gpu_array<float> narrow = {};

	assert_int_equal(fth_gpu_cache_array(rig.cache, 4, NULL, &untyped), 0);
	assert_int_equal(fth_gpu_array_wrap(untyped, &wide), -EINVAL);
	assert_string_equal(fth_error_text(-EINVAL),
			    "gpu array: element size 8, but the array has elements of 4 bytes");
	assert_null(wide.words);
	assert_int_equal(fth_gpu_array_wrap(untyped, &narrow), 0);
	assert_ptr_equal(narrow.words, untyped.words);
	assert_int_equal(narrow.count, (1u << 20) / 4);
	assert_memory_equal(&narrow, &untyped, sizeof(untyped));
	close_rig(&rig);
}

/* Opening by the type asks for its size. */
static void test_open(void **)
{
	struct fth_gpu_array_options opts = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct rig rig = open_rig();
	fth_gpu_array<uint16_t> shorts = {};
	fth_gpu_array<double> doubles = {};

	assert_int_equal(fth_gpu_array_open(rig.cache, NULL, &shorts), 0);
	assert_int_equal(shorts.count, (1u << 20) / 2);
	assert_int_equal(shorts.base().element_shift, 1);
	opts.count = 100;
	assert_int_equal(fth_gpu_array_open(rig.cache, &opts, &doubles), 0);
	assert_int_equal(doubles.count, 100);
	assert_int_equal(doubles.base().element_shift, 3);
	opts.offset = 1u << 20;
	assert_int_equal(fth_gpu_array_open(rig.cache, &opts, &doubles), -ERANGE);
	assert_int_equal(doubles.count, 100);
	close_rig(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
