/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host's side of workloads on a GPU does with CUDA, on a stand-in for it: every call is
 * made to fail in turn, and each failure is told and leaves nothing behind. Needs no GPU.
 */
#include "gpu/fake_cuda_fixture.h"

#include "workloads/taxi/gpu.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

static int run_work(struct fth_gpu_work *work)
{
	struct fth_gpu_accesses accesses = {FTH_GPU_SEQUENTIAL, 64, 64, 1, 0};
	struct fth_taxi_query query = {1, 30};
	struct fth_taxi_table table = {.rows = 64};
	struct fth_taxi_answer answer;
	uint64_t *memory = aligned_alloc(512, 3 * 512), sum;
	struct fth_gpu_source a[3];
	struct fth_gpu_taxi_part part = {.stride = 64};
	int rc;

	assert_non_null(memory);
	memset(memory, 0, 3 * 512);
	for (unsigned i = 0; i < 3; i++)
		a[i] = fth_gpu_source_plain(memory + 64 * i, 64, 8, 512);
	part.miles = a[0];
	part.values = a[1];
	rc = fth_gpu_vector_add(work, &a[0], &a[1], &a[2]);
	rc = first_error(rc, fth_gpu_reduce(work, &a[0], &sum));
	rc = first_error(rc, fth_gpu_scan(work, &a[0], &a[1]));
	rc = first_error(rc, fth_gpu_access_run(work, &a[0], &accesses, &sum));
	rc = first_error(rc, fth_gpu_taxi_begin(work));
	rc = first_error(rc, fth_gpu_taxi_launch(work, &part, &query, 3, NULL));
	rc = first_error(rc, fth_gpu_taxi_end(work, &table, &query, &answer));
	free(memory);
	return rc;
}

static int use_work(void)
{
	struct fth_gpu_work_options opts = FTH_GPU_WORK_OPTIONS_INIT;
	struct fth_gpu_work *work = NULL;
	int rc;

	opts.chunks = 1000;
	rc = fth_gpu_work_open(&opts, &work);
	if (rc < 0) {
		assert_null(work);
		return rc;
	}
	rc = run_work(work);
	return first_error(rc, fth_gpu_work_close(work));
}

static void test_work(void **state)
{
	(void)state;
	fake_cuda_fail_each(use_work, 0);
}

static void test_options(void **state)
{
	const struct fth_gpu_work_options good = FTH_GPU_WORK_OPTIONS_INIT;
	struct fth_gpu_work_options opts = good;
	struct fth_gpu_work *work = NULL;

	(void)state;
	fake_cuda_reset(0);
	opts.ahead = FTH_GPU_AHEAD_MAX + 1;
	assert_int_equal(fth_gpu_work_open(&opts, &work), -EINVAL);
	opts = good;
	opts.chunks = UINT64_MAX / 24 + 2; /* whose bytes are few, in 64 bits */
	assert_int_equal(fth_gpu_work_open(&opts, &work), -EINVAL);
	opts = good;
	assert_int_equal(fth_gpu_work_open(&opts, &work), 0);
	/* As many blocks as 32 bits do not hold the warps of. */
	assert_int_equal(fth_gpu_work_tune(work, 1u << 29, 0), -EINVAL);
	assert_int_equal(fth_gpu_work_tune(work, 4, 2), 0);
	assert_int_equal(fth_gpu_work_close(work), 0);
	assert_int_equal(fth_gpu_work_close(NULL), 0);
	assert_true(fake_cuda_clean());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
