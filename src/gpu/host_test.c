/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host does with CUDA, on a stand-in for it: every call is made to fail in turn, while
 * drives, caches and arrays are opened, used and closed; the caller gets each error, and no
 * resource leaks. Needs no GPU.
 */
#include "fake_cuda_fixture.h"

#include "fathom/base/error.h"
#include "fathom/gpu/cache.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 30u

static struct fth_gpu_drive_options small(void)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	opts.queues = 2;
	opts.entries = 16;
	opts.bytes = 1u << 16;
	opts.timeout_ms = PATIENCE_MS;
	return opts;
}

/* A drive, and a cache on it. */
struct rig {
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *cache;
};

static struct rig open_rig(const char *uri, uint32_t timeout_ms)
{
	struct fth_gpu_cache_options cache_opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_drive_options opts = small();
	struct rig rig;

	cache_opts.bytes = 1u << 14;
	cache_opts.timeout_ms = timeout_ms;
	fake_cuda_reset(0);
	assert_int_equal(fth_gpu_drive_open_uri(uri, &opts, &rig.drive), 0);
	assert_int_equal(fth_gpu_cache_open(rig.drive, &cache_opts, &rig.cache), 0);
	return rig;
}

static void close_rig(struct rig *rig)
{
	assert_int_equal(fth_gpu_cache_close(rig->cache), 0);
	assert_int_equal(fth_gpu_drive_close(rig->drive), 0);
	assert_true(fake_cuda_clean());
}

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

/* ---- every failure in turn ---- */

/* Why opening failed, not what came of that. */
static void check_text(int rc)
{
	static const char *const later[] = {"freeing", "unpinning", "unregistering", "stream",
					    "a stream: timed out"};

	for (unsigned i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (strncmp(fth_error_text(rc), later[i], strlen(later[i])) == 0)
			fail_msg("%s", fth_error_text(rc));
}

/* Opens, uses and closes: the first error. */
static int use_drive(const char *uri)
{
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_drive_stats stats;
	struct fth_gpu_drive *drive = NULL;
	int rc = fth_gpu_drive_open_uri(uri, &opts, &drive);

	if (rc < 0) {
		assert_null(drive);
		check_text(rc);
		return rc;
	}
	rc = fth_gpu_drive_stats(drive, &stats);
	rc = first_error(rc, fth_gpu_drive_stop(drive));
	if (rc == 0)
		rc = fth_gpu_drive_start(drive);
	return first_error(rc, fth_gpu_drive_close(drive));
}

static int use_cache_on(struct fth_gpu_drive *drive)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_cache_stats stats;
	struct fth_gpu_failure failure;
	struct fth_gpu_cache *cache = NULL;
	struct fth_gpu_array_base a;
	int rc;

	opts.bytes = 1u << 14;
	opts.timeout_ms = PATIENCE_MS;
	rc = fth_gpu_cache_open(drive, &opts, &cache);
	if (rc < 0) {
		assert_null(cache);
		check_text(rc);
		return rc;
	}
	for (unsigned i = 0; rc == 0 && i < 2; i++)
		rc = fth_gpu_cache_array(cache, 8, NULL, &a);
	if (rc == 0)
		rc = fth_gpu_cache_empty(cache);
	if (rc == 0)
		rc = fth_gpu_cache_stats(cache, &stats);
	if (rc == 0)
		rc = fth_gpu_cache_failure(cache, &failure);
	return first_error(rc, fth_gpu_cache_close(cache));
}

static int use_cache(const char *uri)
{
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_drive *drive = NULL;
	int rc = fth_gpu_drive_open_uri(uri, &opts, &drive);

	if (rc == 0)
		rc = use_cache_on(drive);
	return first_error(rc, fth_gpu_drive_close(drive));
}

static void fail_each(int (*use)(const char *), const char *uri)
{
	unsigned n = 0;
	int rc;

	do {
		fake_cuda_reset(++n);
		rc = use(uri);
		if (!fake_cuda_clean())
			print_message("%s, call %u of CUDA: %s; %u pieces of memory, %u pinned, "
				      "%u registered, %u streams, %u controllers, %u hangs\n",
				      uri, n, fth_error_text(rc), fake_cuda.memory,
				      fake_cuda.pinned, fake_cuda.registered, fake_cuda.streams,
				      fake_cuda.controllers, fake_cuda.hangs);
		assert_true(fake_cuda_clean());
		if (fake_cuda.calls >= n)
			assert_true(rc < 0);
	} while (fake_cuda.calls >= n);
	assert_int_equal(rc, 0);
	assert_true(n > 3);
}

static void test_drives(void **state)
{
	(void)state;
	fail_each(use_drive, "gpu:host");
	fail_each(use_drive, "gpu:hbm?ssds=2");
	fail_each(use_drive, "gpu:none?model=p5800x");
	fail_each(use_drive, "mem:1M");
}

static void test_caches(void **state)
{
	(void)state;
	fail_each(use_cache, "gpu:host");
	fail_each(use_cache, "mem:1M");
}

static void test_start(void **state)
{
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_drive *drive = NULL;

	(void)state;
	fake_cuda_reset(0);
	fake_cuda.never_up = true;
	assert_int_equal(fth_gpu_drive_open(&opts, &drive), -ETIME);
	assert_non_null(strstr(fth_error_text(-ETIME), "only 0 of 32 warps"));
	assert_true(fake_cuda_clean());
	fake_cuda.never_up = fake_cuda.never_ends = true;
	assert_int_equal(fth_gpu_drive_open(&opts, &drive), -ETIME);
	assert_null(drive);
	assert_int_equal(fake_cuda.hangs, 0);
}

/* Starting has an end on a GPU that is full of others' kernels. */
static void test_full(void **state)
{
	static const char *const uris[] = {"gpu:host", "mem:1M"};
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_drive *drive;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fake_cuda_reset(0);
		assert_int_equal(fth_gpu_drive_open_uri(uris[i], &opts, &drive), 0);
		assert_int_equal(fth_gpu_drive_stop(drive), 0);
		fake_cuda.full = true;
		assert_int_equal(fth_gpu_drive_start(drive), -ETIME);
		fake_cuda.full = false;
		assert_int_equal(fth_gpu_drive_close(drive), 0);
		assert_true(fake_cuda_clean());
	}
}

/* One that still runs is neither taken for a new one nor for none. */
static void test_end(void **state)
{
	struct rig rig = open_rig("gpu:host?bytes=64K", PATIENCE_MS);
	struct fth_gpu_array_base a;

	(void)state;
	fake_cuda.never_ends = true;
	assert_int_equal(fth_gpu_cache_array(rig.cache, 8, NULL, &a), -ETIME);
	assert_int_equal(fth_gpu_drive_stop(rig.drive), -ETIME);
	assert_int_equal(fth_gpu_drive_start(rig.drive), -ETIME);
	assert_int_equal(fth_gpu_drive_close(rig.drive), -ETIME);
	fake_cuda.never_ends = false;
	assert_int_equal(fth_gpu_drive_start(rig.drive), 0);
	assert_int_equal(fake_cuda.controllers, 1);
	assert_int_equal(fth_gpu_cache_array(rig.cache, 8, NULL, &a), 0);
	close_rig(&rig);
}

/* A cache that was opened while its drive could not start again. */
static void test_cache_start(void **state)
{
	struct fth_gpu_cache_options cache_opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_cache *cache = NULL;
	struct fth_gpu_drive *drive;

	(void)state;
	cache_opts.bytes = 1u << 14;
	fake_cuda_reset(0);
	assert_int_equal(fth_gpu_drive_open(&opts, &drive), 0);
	fake_cuda.never_up = true;
	assert_int_equal(fth_gpu_cache_open(drive, &cache_opts, &cache), -ETIME);
	assert_null(cache);
	assert_non_null(strstr(fth_error_text(-ETIME), "only 0 of 32 warps"));
	assert_int_equal(fth_gpu_drive_close(drive), 0);
	assert_true(fake_cuda_clean());
}

/* ---- a flush that takes long ---- */

static struct {
	struct fth_gpu_cache_state *cache;
	uint64_t end;
	bool writes;
} flush;

static bool flushing(void)
{
	if (flush.writes)
		flush.cache->stats[7][FTH_GPU_WRITE_BACKS]++;
	return fth_now_ns() < flush.end;
}

/* As long as lines are written it is waited for, and not for longer. */
static void test_flush(void **state)
{
	struct rig rig = open_rig("mem:1M", 10);
	struct fth_gpu_array_base a;

	(void)state;
	assert_int_equal(fth_gpu_cache_array(rig.cache, 8, NULL, &a), 0);
	fake_cuda.slow = flushing;
	flush.cache = a.cache; /* GPU memory is memory here */
	flush.writes = true;
	flush.end = fth_deadline_ns(200000000);
	assert_int_equal(fth_gpu_cache_flush(rig.cache), 0);
	flush.writes = false;
	flush.end = fth_deadline_ns(20000000000);
	assert_int_equal(fth_gpu_cache_flush(rig.cache), -ETIME);
	assert_true(fth_now_ns() < flush.end);
	flush.end = 0;
	close_rig(&rig);
}

/* Frames that the drive may still come to are used again only after it was stopped. */
static void test_empty(void **state)
{
	struct rig rig = open_rig("gpu:host?bytes=64K", PATIENCE_MS);
	struct fth_gpu_array_base a;
	unsigned before;

	(void)state;
	assert_int_equal(fth_gpu_cache_array(rig.cache, 8, NULL, &a), 0);
	before = fake_cuda.starts;
	assert_int_equal(fth_gpu_cache_empty(rig.cache), 0);
	assert_int_equal(fake_cuda.starts, before);
	a.cache->stats[3][FTH_GPU_LOST_FRAMES] = 1;
	a.words[0] = 1;
	fake_cuda.never_ends = true;
	assert_int_equal(fth_gpu_cache_empty(rig.cache), -ETIME);
	assert_int_equal(a.words[0], 1);
	fake_cuda.never_ends = false;
	assert_int_equal(fth_gpu_drive_start(rig.drive), 0);
	before = fake_cuda.starts;
	assert_int_equal(fth_gpu_cache_empty(rig.cache), 0);
	assert_int_equal(fake_cuda.starts, before + 1);
	assert_int_equal(a.words[0], 0);
	close_rig(&rig);
}

/* ---- options ---- */

static int open_error(const char *uri, struct fth_gpu_drive_options opts)
{
	struct fth_gpu_drive *drive = NULL;
	int rc;

	fake_cuda_reset(0);
	rc = fth_gpu_drive_open_uri(uri, &opts, &drive);
	assert_null(drive);
	assert_true(fake_cuda_clean());
	return rc;
}

static void test_options(void **state)
{
	static const char *const uris[] = {"gpu:host", "mem:1M"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_gpu_drive_options o = small();

		o.timeout_ms = 0;
		assert_int_equal(open_error(uris[i], o), -EINVAL);
		o = small();
		o.queues = 0;
		assert_int_equal(open_error(uris[i], o), -EINVAL);
		o.queues = FTH_GPU_QUEUES_MAX + 1;
		assert_int_equal(open_error(uris[i], o), -EINVAL);
		o = small();
		o.entries = 24;
		assert_int_equal(open_error(uris[i], o), -EINVAL);
		o = small();
		o.size--;
		assert_int_equal(open_error(uris[i], o), -EINVAL);
	}
	assert_int_equal(open_error("gpu:host?bytes=0", small()), -EINVAL);
	assert_int_equal(open_error("gpu:host?bytes=5000", small()), -EINVAL);
	assert_int_equal(open_error("gpu:host?bytes=4096&block=8192", small()), -EINVAL);
	assert_int_equal(open_error("gpu:host?bytes=18446744073709547520&ssds=2", small()),
			 -EINVAL);
	assert_int_equal(open_error("gpu:host?bytes=1048576T", small()), -ENOMEM);
	assert_int_equal(open_error("gpu:host?nosuch=1", small()), -EINVAL);
	assert_int_equal(open_error("gpu:host?queues=2&ssds=3", small()), -EINVAL);
	assert_int_equal(open_error("gpu:host?model=nosuch", small()), -EINVAL);
	assert_int_equal(open_error("gpu:", small()), -EINVAL);
	assert_int_equal(open_error("gpu:none?queues=33&warps=16", small()), -ENOSPC);
	assert_int_equal(open_error("softnvme(mem:1M)?queues=2&nosuch=1", small()), -EINVAL);
	assert_int_equal(open_error("mem:0", small()), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_drives),	cmocka_unit_test(test_caches),
		cmocka_unit_test(test_start),	cmocka_unit_test(test_full),
		cmocka_unit_test(test_end),	cmocka_unit_test(test_cache_start),
		cmocka_unit_test(test_options), cmocka_unit_test(test_flush),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
