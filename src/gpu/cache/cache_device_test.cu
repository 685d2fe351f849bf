/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading through a cache in GPU memory that is much smaller than the data: every element is what
 * it should be, for all sizes of lines and ways to lay them out. Skipped (77) without a GPU.
 */
#include "cache_fixture.h"

static uint32_t blocks = 64; /* of the kernels; fewer with --small */

static void check_reads(const struct bed_opts *opts, const char *what)
{
	struct fth_gpu_cache_stats stats;
	struct fth_gpu_failure failure;
	struct bed bed = bed_open(opts);
	struct report report;

	bed_clear(&bed);
	bed_read_all<<<blocks, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	bed_read_random<<<blocks, 256, 0, bed.stream>>>(bed.a, 4, 1, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	MUST(stats.count[FTH_GPU_MISSES] >= bed.a.count * 8 / opts->line);
	MUST(stats.count[FTH_GPU_READS] == stats.count[FTH_GPU_MISSES]);
	MUST(stats.count[FTH_GPU_EVICTIONS] + opts->cache / opts->line >=
	     stats.count[FTH_GPU_MISSES]);
	MUST(stats.count[FTH_GPU_WRITE_BACKS] == 0 && stats.count[FTH_GPU_ERRORS] == 0);
	MUST(fth_gpu_cache_failure(bed.cache, &failure) == 0);
	printf("%s: %llu misses, %llu merged, %llu evictions\n", what,
	       (unsigned long long)stats.count[FTH_GPU_MISSES],
	       (unsigned long long)stats.count[FTH_GPU_MERGED],
	       (unsigned long long)stats.count[FTH_GPU_EVICTIONS]);
	bed_close(&bed);
}

static void test_line_sizes(void)
{
	for (uint32_t line = 512; line <= 8192; line *= 2) {
		struct bed_opts opts = bed_defaults();
		char what[32];

		opts.line = line;
		snprintf(what, sizeof(what), "lines of %u", line);
		check_reads(&opts, what);
	}
}

static void test_layouts(void)
{
	struct bed_opts opts = bed_defaults();

	opts.ssds = 3;
	opts.bytes = 3u << 19;
	check_reads(&opts, "three SSDs, striped");
	opts.replicated = true;
	check_reads(&opts, "three SSDs, replicas");
	opts.block = 4096;
	check_reads(&opts, "three SSDs, replicas, 4 KiB blocks");
	opts.replicated = false;
	check_reads(&opts, "three SSDs, striped, 4 KiB blocks");
}

/* Lines of one block or more; one that is smaller is refused. */
static void test_block_sizes(void)
{
	struct fth_gpu_cache_options small = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_cache *cache = NULL;
	struct bed_opts opts = bed_defaults();
	struct bed bed;

	opts.block = 4096;
	check_reads(&opts, "a line is a block of 4 KiB");
	opts.line = 8192;
	check_reads(&opts, "a line is two of 4 KiB");
	opts.block = 8192;
	check_reads(&opts, "a line is one of 8 KiB");
	bed = bed_open(&opts);
	MUST(fth_gpu_drive_view(bed.drive).block_shift == 13);
	small.bytes = 1u << 20;
	MUST(fth_gpu_cache_open(bed.drive, &small, &cache) == -EINVAL && !cache);
	MUST(strstr(fth_error_text(-EINVAL), "smaller than the drive's blocks, 8192"));
	bed_close(&bed);
}

/* Fewer frames than lanes of one warp. */
static void test_tiny(void)
{
	struct bed_opts opts = bed_defaults();

	opts.bytes = 256u << 10;
	opts.cache = 3 * 4096;
	check_reads(&opts, "three frames");
}

/* ---- one line for all ---- */

__global__ static void read_one_line(fth_gpu_array<uint64_t> a, struct report *report)
{
	uint64_t i = 512 * 7 + bed_thread() % 512, v = 0;
	int rc = fth_gpu_get(a, i, &v);

	bed_tell(report, rc, v == bed_value(i));
}

static void test_one_fetch(void)
{
	struct bed_opts opts = bed_defaults();
	struct bed bed = bed_open(&opts);
	struct fth_gpu_cache_stats stats;
	struct report report;

	bed_clear(&bed);
	read_one_line<<<blocks, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	MUST(stats.count[FTH_GPU_MISSES] == 1 && stats.count[FTH_GPU_READS] == 1);
	MUST(stats.bytes_read == 4096);
	bed_close(&bed);
	printf("one line: fetched once for %u threads\n", blocks * 256);
}

/* ---- whole lines: cursors, runs, prefetch ---- */

__global__ static void walk_lines(fth_gpu_array<uint64_t> a, struct report *report)
{
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	uint32_t lane = threadIdx.x % 32, each = 1u << (a.line_shift - 3);
	uint64_t lines = a.count >> (a.line_shift - 3);
	int rc = 0;

	for (uint64_t line = bed_thread() / 32; line < lines; line += gridDim.x * blockDim.x / 32) {
		const uint64_t *data = fth_gpu_cursor_line(a, &cursor, line, FTH_GPU_READ, &rc);

		for (uint32_t k = lane; data && k < each; k += 32)
			bed_tell(report, 0, data[k] == bed_value(line * each + k));
		bed_tell(report, rc, true);
	}
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_READ);
}

__global__ static void read_runs(fth_gpu_array<uint64_t> a, uint64_t *scratch,
				 struct report *report)
{
	uint64_t *mine = scratch + blockIdx.x * 2048, first = blockIdx.x * 1777 + 5;
	int rc = fth_gpu_block_read(a, first, 1501, mine);

	bed_tell(report, rc, true);
	for (uint32_t k = threadIdx.x; k < 1501; k += blockDim.x)
		bed_tell(report, 0, mine[k] == bed_value(first + k));
	__syncthreads();
	if (threadIdx.x < 32) {
		rc = fth_gpu_warp_read(a, first + 30000, 2000, mine);
		__syncwarp();
		bed_tell(report, rc, true);
		for (uint32_t k = threadIdx.x; k < 2000; k += 32)
			bed_tell(report, 0, mine[k] == bed_value(first + 30000 + k));
	}
}

__global__ static void look_outside(fth_gpu_array<uint64_t> a, struct report *report)
{
	const uint64_t outside[] = {UINT64_MAX, (uint64_t)1 << 52, ((uint64_t)1 << 62) + 3};
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	uint64_t v = 0;
	int rc = 0;

	bed_tell(report, 0, fth_gpu_get(a, a.count, &v) == -ERANGE);
	bed_tell(report, 0, fth_gpu_get(a, UINT64_MAX / 8, &v) == -ERANGE);
	bed_tell(report, 0, fth_gpu_set(a, a.count, v) == -ERANGE);
	bed_tell(report, 0, fth_gpu_prefetch(a, a.count) == -ERANGE);
	bed_tell(report, 0, fth_gpu_warp_read(a, a.count - 1, 2, &v) == -ERANGE);
	bed_tell(report, 0, !fth_gpu_cursor_line(a, &cursor, a.count, FTH_GPU_READ, &rc));
	bed_tell(report, 0, rc == -ERANGE);
	/* Numbers whose bytes run over, and one less than none. */
	for (uint64_t line : outside) {
		rc = 0;
		bed_tell(report, 0, !fth_gpu_cursor_line(a, &cursor, line, FTH_GPU_READ, &rc));
		bed_tell(report, 0, rc == -ERANGE);
	}
	bed_tell(report, 0, fth_gpu_prefetch(a, threadIdx.x * 512) == 0);
}

static void test_runs(void)
{
	struct bed_opts opts = bed_defaults();
	struct fth_gpu_cache_stats stats;
	struct report report;
	struct bed bed;

	opts.cache = 1u << 20; /* every warp of a cursor holds a frame */
	bed = bed_open(&opts);
	bed_clear(&bed);
	look_outside<<<1, 32, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	MUST(stats.count[FTH_GPU_READS] == 32);
	walk_lines<<<blocks / 4, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	read_runs<<<blocks, 128, 0, bed.stream>>>(bed.a, bed.scratch, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	bed_close(&bed);
	printf("runs: cursors, blocks and warps read what is there\n");
}

/* ---- blocks of several rows ---- */

__global__ static void read_in_rows(fth_gpu_array<uint64_t> a, uint64_t *scratch,
				    struct report *report)
{
	uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
	uint64_t *mine = scratch + blockIdx.x * 2048, first = blockIdx.x * 1777 + 5;
	struct fth_rng rng = {blockIdx.x * 1024 + thread};
	int rc;

	for (uint32_t k = 0; k < 20; k++) {
		uint64_t i = fth_rng_below(&rng, a.count), v = 0;

		rc = fth_gpu_get(a, i, &v);
		bed_tell(report, rc, v == bed_value(i));
	}
	__syncthreads();
	rc = fth_gpu_block_read(a, first, 1501, mine);
	bed_tell(report, rc, true);
	for (uint32_t k = thread; k < 1501; k += blockDim.x * blockDim.y)
		bed_tell(report, 0, mine[k] == bed_value(first + k));
}

/* Rows that are more and less than a warp: its lanes are of two rows or more. */
static void test_rows(void)
{
	static const dim3 shapes[] = {dim3(48, 2), dim3(16, 8), dim3(96, 3)};
	struct bed_opts opts = bed_defaults();
	struct bed bed = bed_open(&opts);

	for (const dim3 &shape : shapes) {
		struct report report;

		bed_clear(&bed);
		read_in_rows<<<blocks / 4, shape, 0, bed.stream>>>(bed.a, bed.scratch, bed.report);
		report = bed_finish(&bed);
		BED_ALL_WELL(report);
		OK(fth_gpu_cache_empty(bed.cache));
	}
	bed_close(&bed);
	printf("rows: warps of several rows read what is there\n");
}

/* What the host changes is seen after the cache was emptied; what is wrong is refused. */
static void test_host(void)
{
	static const uint64_t counts[] = {1000, 0};
	struct fth_gpu_cache_options bad = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct bed_opts opts = bed_defaults();
	struct bed bed = bed_open(&opts);
	struct fth_gpu_cache *none;
	struct fth_gpu_array_base untyped;
	fth_gpu_array<uint64_t> part;
	struct report report;

	bad.line = 1000;
	MUST(fth_gpu_cache_open(bed.drive, &bad, &none) == -EINVAL);
	array.offset = opts.bytes;
	MUST(fth_gpu_array_open(bed.cache, &array, &part) == -ERANGE);
	array.offset = 100;
	MUST(fth_gpu_array_open(bed.cache, &array, &part) == -EINVAL);
	MUST(fth_gpu_cache_array(bed.cache, 12, NULL, &untyped) == -EINVAL);
	/* A handle of another type than the array's elements have. */
	OK(fth_gpu_cache_array(bed.cache, 4, NULL, &untyped));
	MUST(fth_gpu_array_wrap(untyped, &part) == -EINVAL);
	MUST(fth_gpu_cache_metadata(bed.cache) >= (opts.bytes + opts.cache) / 4096 * 8);
	bed_clear(&bed);
	read_one_line<<<1, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	for (uint64_t i = 0; i < bed.a.count; i++)
		*bed_on_medium(&bed, i, 0) = ~bed_value(i);
	bed_push(&bed);
	OK(fth_gpu_cache_empty(bed.cache));
	read_one_line<<<1, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	MUST(report.wrong == 256 && report.failed == 0);
	/* An array on part of the drive; and one to its end, which is within a line. */
	array.offset = 512 * 3;
	for (uint64_t i = 0; i < bed.a.count - 192; i++)
		*bed_on_medium(&bed, i + 192, 0) = bed_value(i);
	bed_push(&bed);
	for (uint64_t count : counts) {
		array.count = count;
		OK(fth_gpu_array_open(bed.cache, &array, &part));
		MUST(part.count == (count ? count : bed.a.count - 192));
		bed_clear(&bed);
		bed_read_all<<<4, 256, 0, bed.stream>>>(part, bed.report);
		report = bed_finish(&bed);
		BED_ALL_WELL(report);
	}
	bed_close(&bed);
	printf("host: emptying shows what the host changed\n");
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	/* CPU threads take longer for the same: three frames are waited for by all warps. */
	if (bed_asked.service)
		blocks = 16;
	if (bed_asked.small)
		blocks = 4;
	test_one_fetch();
	test_line_sizes();
	test_block_sizes();
	if (!bed_asked.service)
		test_layouts();
	test_tiny();
	test_runs();
	test_rows();
	test_host();
	return 0;
}
