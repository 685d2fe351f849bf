/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One kernel, a template over its array: on a cache and on plain memory it finds the same.
 * Skipped (77) without a GPU.
 */
#include "gpu/cache/cache_fixture.h"
#include "fathom/gpu/direct.h"

#define RUN 600u

/* Everything that both kinds of array offer for reading. */
template <typename A>
__global__ static void read_all_ways(A a, uint64_t *scratch, struct report *report)
{
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	uint64_t *mine = scratch + blockIdx.x * RUN, first = blockIdx.x * 1777 + 6, v = 0;
	uint32_t lane = threadIdx.x % 32, each = 1u << (a.line_shift - 3);
	int rc = 0;

	for (uint64_t i = bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x) {
		bed_tell(report, fth_gpu_prefetch(a, i), true);
		rc = fth_gpu_get(a, i, &v);
		bed_tell(report, rc, v == bed_value(i));
	}
	bed_tell(report, 0, fth_gpu_get(a, a.count, &v) == -ERANGE);
	__syncwarp();
	for (uint64_t line = bed_thread() / 32; line < a.count / each;
	     line += gridDim.x * blockDim.x / 32) {
		const uint64_t *data = fth_gpu_cursor_line(a, &cursor, line, FTH_GPU_READ, &rc);

		for (uint32_t k = lane; data && k < each; k += 32)
			bed_tell(report, 0, data[k] == bed_value(line * each + k));
		bed_tell(report, rc, true);
	}
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_READ);
	bed_tell(report, fth_gpu_block_read(a, first, RUN, mine), true);
	for (uint32_t k = threadIdx.x; k < RUN; k += blockDim.x)
		bed_tell(report, 0, mine[k] == bed_value(first + k));
	__syncthreads();
	if (threadIdx.x >= 32)
		return;
	bed_tell(report, fth_gpu_warp_read(a, first + 1, RUN, mine), true);
	__syncwarp();
	for (uint32_t k = lane; k < RUN; k += 32)
		bed_tell(report, 0, mine[k] == bed_value(first + 1 + k));
	bed_tell(report, 0, fth_gpu_warp_read(a, a.count, 1, mine) == -ERANGE);
}

template <typename A> static void check_reads(struct bed *bed, A a, const char *what)
{
	struct report report;

	bed_clear(bed);
	read_all_ways<<<4, 128, 0, bed->stream>>>(a, bed->scratch, bed->report);
	report = bed_finish(bed);
	BED_ALL_WELL(report);
	printf("%s: all was there\n", what);
}

__global__ static void change(fth_gpu_direct<uint64_t> a, struct report *report)
{
	uint64_t run[4] = {1, 2, 3, 4};

	if (bed_thread() < 32)
		bed_tell(report, fth_gpu_warp_write(a, 100, 4, run), true);
	for (uint64_t i = 200 + bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x)
		bed_tell(report, fth_gpu_set(a, i, ~bed_value(i)), true);
}

static void fill(uint64_t *words, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		words[i] = bed_value(i);
}

static void test_memory(struct bed *bed)
{
	uint64_t bytes = bed->opts.bytes, *words;
	fth_gpu_direct<uint64_t> a;
	struct report report;

	CHECK(cudaHostAlloc((void **)&words, bytes, cudaHostAllocMapped));
	fill(words, bytes / 8);
	a = fth_gpu_direct_of<uint64_t>(words, bytes, 4096);
	MUST(a.count == bytes / 8);
	check_reads(bed, a, "pinned memory");
	bed_clear(bed);
	change<<<2, 64, 0, bed->stream>>>(a, bed->report);
	report = bed_finish(bed);
	BED_ALL_WELL(report);
	MUST(words[99] == bed_value(99) && words[103] == 4 && words[104] == bed_value(104));
	for (uint64_t i = 200; i < a.count; i++)
		MUST(words[i] == ~bed_value(i));
	a.readonly = 1;
	change<<<1, 32, 0, bed->stream>>>(a, bed->report);
	report = bed_finish(bed);
	MUST(report.failed == a.count - 200 + 32 && report.rc == -EROFS);
	CHECK(cudaFreeHost(words));
}

static void test_gpu_memory(struct bed *bed)
{
	uint64_t bytes = 1u << 20;
	uint64_t *words = (uint64_t *)malloc(bytes);
	void *hbm;

	fill(words, bytes / 8);
	CHECK(cudaMalloc(&hbm, bytes));
	CHECK(cudaMemcpy(hbm, words, bytes, cudaMemcpyHostToDevice));
	check_reads(bed, fth_gpu_direct_of<uint64_t>(hbm, bytes, 8192), "GPU memory");
	CHECK(cudaFree(hbm));
	free(words);
}

int main(void)
{
	struct bed_opts opts = bed_defaults();
	struct bed bed;

	skip_without_gpu();
	bed_asked.service = true; /* nothing is in the way of allocating */
	opts.cache = 512u << 10;
	bed = bed_open(&opts);
	check_reads(&bed, bed.a, "a cache");
	test_memory(&bed);
	test_gpu_memory(&bed);
	bed_close(&bed);
	return 0;
}
