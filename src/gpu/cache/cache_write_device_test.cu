/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changing data through a cache in GPU memory: what kernels wrote is on the medium after a flush,
 * whoever evicted what meanwhile, and atomics lose nothing. Skipped (77) without a GPU.
 */
#include "cache_fixture.h"

static uint32_t blocks = 64; /* of the kernels; fewer with --small */

/* What is on the medium, element by element. */
#define CHECK_MEDIUM(bed, i, expected)                                                            \
	bed_pull(bed);                                                                            \
	for (uint64_t i = 0; i < (bed)->a.count; i++)                                             \
		if (*bed_on_medium(bed, i, 0) != (expected)) {                                    \
			fprintf(stderr, "%s:%d: element %llu is wrong on the medium\n", __FILE__, \
				__LINE__, (unsigned long long)i);                                 \
			exit(1);                                                                  \
		}

/* ---- setting ---- */

__global__ static void __launch_bounds__(256, 6)
	set_odd(fth_gpu_array<uint64_t> a, struct report *report)
{
	for (uint64_t i = bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x)
		if (i % 2)
			bed_tell(report, fth_gpu_set(a, i, ~bed_value(i)), true);
}

__global__ static void check_odd(fth_gpu_array<uint64_t> a, struct report *report)
{
	for (uint64_t i = bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x) {
		uint64_t v = 0;
		int rc = fth_gpu_get(a, i, &v);

		bed_tell(report, rc, v == (i % 2 ? ~bed_value(i) : bed_value(i)));
	}
}

static void check_sets(const struct bed_opts *opts, const char *what)
{
	struct bed bed = bed_open(opts);
	struct fth_gpu_cache_stats stats;
	struct fth_gpu_drive_stats drive;
	struct report report;

	bed_clear(&bed);
	set_odd<<<blocks, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	check_odd<<<blocks, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_flush(bed.cache));
	CHECK_MEDIUM(&bed, i, i % 2 ? ~bed_value(i) : bed_value(i));
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	OK(fth_gpu_drive_stats(bed.drive, &drive));
	MUST(stats.count[FTH_GPU_WRITE_BACKS] >= bed.a.count * 8 / opts->line);
	MUST(stats.count[FTH_GPU_ERRORS] == 0 && drive.flushes >= opts->ssds);
	printf("%s: %llu misses, %llu write-backs\n", what,
	       (unsigned long long)stats.count[FTH_GPU_MISSES],
	       (unsigned long long)stats.count[FTH_GPU_WRITE_BACKS]);
	bed_close(&bed);
}

static void test_sets(void)
{
	struct bed_opts opts = bed_defaults();

	check_sets(&opts, "sets, lines of 4096");
	opts.line = 512;
	check_sets(&opts, "sets, lines of 512");
	opts.line = 8192;
	opts.ssds = bed_asked.service ? 1 : 2;
	opts.bytes /= 2;
	check_sets(&opts, "sets, lines of 8192");
	opts.block = 4096;
	check_sets(&opts, "sets, lines of 8192, blocks of 4096");
	opts.ssds = 1;
	opts.bytes = 128u << 10;
	opts.cache = 5 * 8192;
	check_sets(&opts, "sets, five frames");
}

/* ---- atomics ---- */

__global__ static void __launch_bounds__(256, 6)
	add_randomly(fth_gpu_array<uint64_t> a, uint32_t times, struct report *report)
{
	struct fth_rng rng = {99 + bed_thread()};

	for (uint32_t k = 0; k < times; k++)
		bed_tell(report, fth_gpu_add(a, fth_rng_below(&rng, a.count), 1, NULL), true);
}

/* Adds and reads on the way, and sums of what was found: every ticket is given once. */
__global__ static void draw_tickets(fth_gpu_array<uint64_t> a, struct report *report)
{
	uint64_t ticket = 0, v = 0;
	int rc = fth_gpu_add(a, 12345, (uint64_t)1, &ticket);

	bed_tell(report, rc, true);
	atomicAdd(&report->sum, ticket - bed_value(12345));
	rc = fth_gpu_get(a, bed_thread() % a.count, &v);
	bed_tell(report, rc, true);
}

__global__ static void compare_and_swap(fth_gpu_array<uint64_t> a, struct report *report)
{
	uint64_t i = 1000 + bed_thread() % 3, seen = 0, want;
	int rc = fth_gpu_get(a, i, &seen);

	do {
		want = seen;
		rc = rc < 0 ? rc : fth_gpu_cas(a, i, &seen, want + 1);
	} while (rc == 0 && seen != want);
	bed_tell(report, rc, true);
	rc = fth_gpu_min(a, 2000, bed_thread() + 7, NULL);
	bed_tell(report, rc, true);
	rc = fth_gpu_xor(a, 2001, (uint64_t)1 << (bed_thread() % 64), NULL);
	bed_tell(report, rc, true);
}

static void test_atomics(void)
{
	struct bed_opts opts = bed_defaults();
	uint64_t threads = blocks * 256ull, added = 0;
	struct bed bed = bed_open(&opts);
	struct report report;

	bed_clear(&bed);
	add_randomly<<<blocks, 256, 0, bed.stream>>>(bed.a, 4, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_flush(bed.cache));
	bed_pull(&bed);
	for (uint64_t i = 0; i < bed.a.count; i++) {
		added += *bed_on_medium(&bed, i, 0) - bed_value(i);
		*bed_on_medium(&bed, i, 0) = bed_value(i);
	}
	MUST(added == 4 * threads);
	bed_push(&bed);
	OK(fth_gpu_cache_empty(bed.cache));
	draw_tickets<<<blocks, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	MUST(report.sum == threads * (threads - 1) / 2);
	compare_and_swap<<<blocks, 256, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_flush(bed.cache));
	bed_pull(&bed);
	MUST(*bed_on_medium(&bed, 12345, 0) == bed_value(12345) + threads);
	for (uint64_t i = 1000, all = 0; i < 1003; i++) {
		all += *bed_on_medium(&bed, i, 0) - bed_value(i);
		MUST(i < 1002 || all == threads);
	}
	MUST(*bed_on_medium(&bed, 2000, 0) == 7);
	/* Each bit was turned the same number of times, an even one. */
	MUST(threads / 64 % 2 || *bed_on_medium(&bed, 2001, 0) == bed_value(2001));
	bed_close(&bed);
	printf("atomics: nothing was lost by %llu threads\n", (unsigned long long)threads);
}

/* ---- runs, and a flush from a kernel ---- */

__global__ static void write_runs(fth_gpu_array<uint64_t> a, uint64_t *scratch,
				  struct report *report)
{
	uint64_t *mine = scratch + blockIdx.x * 2048, first = blockIdx.x * 2000ull;
	int rc;

	for (uint32_t k = threadIdx.x; k < 2000; k += blockDim.x)
		mine[k] = ~bed_value(first + k);
	__syncthreads();
	rc = fth_gpu_block_write(a, first, 1500, mine);
	bed_tell(report, rc, true);
	if (threadIdx.x < 32)
		bed_tell(report, fth_gpu_warp_write(a, first + 1500, 500, mine + 1500), true);
}

__global__ static void flush_all(fth_gpu_array<uint64_t> a, struct report *report)
{
	bed_tell(report, fth_gpu_flush_part(a.cache, threadIdx.x / 32, blockDim.x / 32), true);
	__syncthreads();
	if (threadIdx.x < 32)
		bed_tell(report, fth_gpu_flush_drive(a.cache), true);
}

static void test_runs(void)
{
	struct bed_opts opts = bed_defaults();
	struct fth_gpu_cache_stats stats;
	struct bed bed = bed_open(&opts);
	uint64_t end = blocks * 2000ull;
	struct report report;

	bed_clear(&bed);
	write_runs<<<blocks, 128, 0, bed.stream>>>(bed.a, bed.scratch, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	flush_all<<<1, 128, 0, bed.stream>>>(bed.a, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	CHECK_MEDIUM(&bed, i, i < end ? ~bed_value(i) : bed_value(i));
	OK(fth_gpu_cache_stats(bed.cache, &stats));
	/* Whole lines were not brought in. */
	MUST(stats.count[FTH_GPU_READS] < stats.count[FTH_GPU_MISSES]);
	bed_close(&bed);
	printf("runs: %llu of %llu lines were brought in to be written\n",
	       (unsigned long long)stats.count[FTH_GPU_READS],
	       (unsigned long long)stats.count[FTH_GPU_MISSES]);
}

/* Small elements, whose neighbours other threads set. */
__global__ static void set_bytes(fth_gpu_array<uint8_t> a, struct report *report)
{
	for (uint64_t i = bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x)
		bed_tell(report, fth_gpu_set(a, i, (uint8_t)(i * 7)), true);
}

static void test_bytes(void)
{
	struct fth_gpu_array_options part = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct bed_opts opts = bed_defaults();
	fth_gpu_array<uint8_t> bytes;
	struct report report;
	struct bed bed;

	opts.cache = 16u << 10;
	bed = bed_open(&opts);
	part.count = 100000;
	OK(fth_gpu_array_open(bed.cache, &part, &bytes));
	bed_clear(&bed);
	set_bytes<<<blocks, 256, 0, bed.stream>>>(bytes, bed.report);
	report = bed_finish(&bed);
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_flush(bed.cache));
	bed_pull(&bed);
	for (uint64_t i = 0; i < part.count; i++)
		MUST(((uint8_t *)bed_on_medium(&bed, 0, 0))[i] == (uint8_t)(i * 7));
	part.readonly = true;
	OK(fth_gpu_array_open(bed.cache, &part, &bytes));
	set_bytes<<<1, 32, 0, bed.stream>>>(bytes, bed.report);
	report = bed_finish(&bed);
	MUST(report.failed == part.count && report.rc == -EROFS);
	bed_close(&bed);
	printf("bytes: neighbours stay whole, and what is read only stays so\n");
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	if (bed_asked.small)
		blocks = 4;
	test_sets();
	test_atomics();
	test_runs();
	test_bytes();
	return 0;
}
