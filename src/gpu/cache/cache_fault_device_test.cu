/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes wrong under a cache in GPU memory reaches the kernel and the host as the right error,
 * in time, and leaves both usable. Skipped (77) without a GPU.
 */
#include "cache_fixture.h"

#include <stddef.h>

__global__ static void read_line(fth_gpu_array<uint64_t> a, uint64_t line, struct report *report)
{
	uint64_t i = line * 512 + bed_thread() % 512, v = 0;
	int rc = fth_gpu_get(a, i, &v);

	bed_tell(report, rc, v == bed_value(i));
}

static struct report run_read(struct bed *bed, uint64_t line)
{
	bed_clear(bed);
	read_line<<<2, 128, 0, bed->stream>>>(bed->a, line, bed->report);
	return bed_finish(bed);
}

/* ---- a range beyond the drive ---- */

static void set_first_block(struct bed *bed, uint64_t block)
{
	CHECK(cudaMemcpyAsync((char *)bed->a.cache +
				      offsetof(struct fth_gpu_cache_state, ranges[0].first_block),
			      &block, sizeof(block), cudaMemcpyHostToDevice, bed->stream));
	CHECK(cudaStreamSynchronize(bed->stream));
}

static void test_beyond(void)
{
	struct bed_opts opts = bed_defaults();
	struct bed bed = bed_open(&opts);
	struct fth_gpu_cache_stats stats;
	struct fth_gpu_failure failure;
	struct report report;

	set_first_block(&bed, opts.bytes / 512 - 8);
	report = run_read(&bed, 3);
	MUST(report.failed == 256 && report.rc == -ERANGE);
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 1);
	MUST(failure.error == -ERANGE && failure.line == 3 && failure.array == 0);
	MUST(fth_nvme_status_errno(failure.status) == -ERANGE && !failure.write);
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 0);
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	MUST(stats.count[FTH_GPU_ERRORS] == 256 && stats.count[FTH_GPU_READS] == 0);
	/* The line that is there is read, and nothing was lost. */
	set_first_block(&bed, 0);
	report = run_read(&bed, 3);
	BED_ALL_WELL(report);
	bed_close(&bed);
	printf("beyond: line and status came back\n");
}

/* ---- a drive that is stopped ---- */

__global__ static void set_line(fth_gpu_array<uint64_t> a, uint64_t line, struct report *report)
{
	uint64_t i = line * 512 + bed_thread() % 512;

	bed_tell(report, fth_gpu_set(a, i, ~bed_value(i)), true);
}

static void test_stopped(void)
{
	struct bed_opts opts = bed_defaults();
	struct bed bed = bed_open(&opts);
	struct fth_gpu_failure failure;
	struct report report;

	bed_clear(&bed);
	set_line<<<2, 256, 0, bed.stream>>>(bed.a, 5, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_drive_stop(bed.drive));
	report = run_read(&bed, 9);
	MUST(report.failed == 256 && report.rc == -ESHUTDOWN);
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 1);
	MUST(failure.error == -ESHUTDOWN && failure.line == 9 && failure.status == 0);
	/* What is dirty can not be written now, and is not forgotten. */
	MUST(fth_gpu_cache_flush(bed.cache) == -ESHUTDOWN);
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 1);
	MUST(failure.write && failure.line == 5);
	bed_pull(&bed);
	MUST(*bed_on_medium(&bed, 5 * 512, 0) == bed_value(5 * 512));
	OK(fth_gpu_drive_start(bed.drive));
	report = run_read(&bed, 9);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_flush(bed.cache));
	bed_pull(&bed);
	for (uint64_t i = 5 * 512; i < 6 * 512; i++)
		MUST(*bed_on_medium(&bed, i, 0) == ~bed_value(i));
	bed_close(&bed);
	printf("stopped: told as it is, and all was there afterwards\n");
}

/* ---- a drive that is too slow ---- */

static void test_slow(void)
{
	static const struct fth_dev_model slow = {"slow",    "", "", {1000000000u, 0, 0},
						  {0, 0, 0}, 0};
	struct bed_opts opts = bed_defaults();
	struct fth_gpu_cache_stats stats;
	struct fth_gpu_failure failure;
	struct report report;
	struct bed bed;

	opts.timeout_ms = 50;
	opts.model = &slow;
	bed = bed_open(&opts);
	report = run_read(&bed, 4);
	MUST(report.failed == 256 && (report.rc == -ETIME || report.rc == -ETIMEDOUT));
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 1 && failure.line == 4);
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	MUST(stats.count[FTH_GPU_LOST_FRAMES] >= 1);
	bed_close(&bed);
	printf("slow: every wait ended, with %llu frames lost\n",
	       (unsigned long long)stats.count[FTH_GPU_LOST_FRAMES]);
}

/* ---- frames that stay in use ---- */

/* Warps 0 to 7 hold the cache's eight frames until warp 8 was told that there is none. */
__global__ static void hold_all(fth_gpu_array<uint64_t> a, struct report *report, uint32_t *told)
{
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	uint64_t deadline = fth_deadline_ns(PATIENCE_NS), v = 0;
	uint32_t warp = threadIdx.x / 32;
	int rc = 0;

	if (warp < 8)
		fth_gpu_cursor_line(a, &cursor, warp, FTH_GPU_READ, &rc);
	bed_tell(report, rc, true);
	__syncthreads();
	if (warp == 8) {
		bed_tell(report, 0, fth_gpu_get(a, 512 * 20 + threadIdx.x, &v) == -ENOBUFS);
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			fth_store_release_dev32(told, 1);
	} else {
		while (!fth_load_acquire_dev32(told) && fth_now_ns() < deadline)
			__nanosleep(1000);
		__syncwarp();
		fth_gpu_cursor_close(a, &cursor, FTH_GPU_READ);
	}
}

static void test_no_frame(void)
{
	struct bed_opts opts = bed_defaults();
	struct fth_gpu_failure failure;
	struct report report;
	struct bed bed;

	opts.cache = 8 * 4096;
	opts.timeout_ms = 100;
	bed = bed_open(&opts);
	bed_clear(&bed);
	CHECK(cudaMemsetAsync(bed.scratch, 0, 4, bed.stream));
	hold_all<<<1, 288, 0, bed.stream>>>(bed.a, bed.report, (uint32_t *)bed.scratch);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 1);
	MUST(failure.error == -ENOBUFS && failure.line == 20);
	report = run_read(&bed, 20);
	BED_ALL_WELL(report);
	bed_close(&bed);
	printf("no frame: told in time, and there were some afterwards\n");
}

/* ---- a kernel that fails ---- */

__global__ static void fail(void)
{
	__trap();
}

/* Last: the GPU is lost to this process afterwards; the host's memory is not. */
static void test_failed_kernel(void)
{
	struct bed_opts opts = bed_defaults();
	struct bed bed = bed_open(&opts);

	fail<<<1, 1, 0, bed.stream>>>();
	MUST(cudaStreamSynchronize(bed.stream) != cudaSuccess);
	MUST(fth_gpu_cache_flush(bed.cache) == -EIO);
	bed_pull(&bed);
	for (uint64_t i = 0; i < bed.a.count; i++)
		MUST(*bed_on_medium(&bed, i, 0) == bed_value(i));
	MUST(fth_gpu_cache_close(bed.cache) == -EIO);
	MUST(fth_gpu_drive_close(bed.drive) == -EIO);
	printf("failure: a failed kernel is told, and the medium is whole\n");
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	test_beyond();
	test_stopped();
	test_slow();
	test_no_frame();
	if (!bed_asked.no_failure)
		test_failed_kernel();
	return 0;
}
