/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernels of `fathom bench gpucache`. Element i of the medium is gpu_word(i, 0), and every
 * read is checked.
 */
#ifndef FTH_BENCH_GPUCACHE_KERNELS_H
#define FTH_BENCH_GPUCACHE_KERNELS_H

#include "gpu_data.h"

#include "fathom/gpu/array.h"

#define EACH 16u /* elements that a thread gathers */

struct gpucache_report {
	unsigned long long wrong, failed;
	int rc;
};

FTH_HD uint64_t gpucache_value(uint64_t i)
{
	return gpu_word(i, 0);
}

static __device__ __forceinline__ uint64_t gpucache_thread(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint64_t gpucache_threads(void)
{
	return (uint64_t)gridDim.x * blockDim.x;
}

static __device__ __forceinline__ void gpucache_tell(struct gpucache_report *report, uint64_t wrong,
						     int rc)
{
	if (wrong)
		atomicAdd(&report->wrong, 1);
	if (rc < 0) {
		atomicAdd(&report->failed, 1);
		report->rc = rc;
	}
}

/* ---- data ---- */

static __global__ void gpucache_fill(uint64_t *data, uint64_t n)
{
	for (uint64_t i = gpucache_thread(); i < n; i += gpucache_threads())
		data[i] = gpucache_value(i);
}

/* ---- hot: through the cache ---- */

static __global__ void __launch_bounds__(256, 8)
	gpucache_sequential(fth_gpu_array<uint64_t> a, struct gpucache_report *report)
{
	uint64_t wrong = 0, v = 0;
	int rc = 0;

	for (uint64_t i = gpucache_thread(); i < a.count && rc == 0; i += gpucache_threads()) {
		rc = fth_gpu_get(a, i, &v);
		wrong |= v ^ gpucache_value(i);
	}
	gpucache_tell(report, wrong, rc);
}

/* A warp per line. */
template <uint32_t line_bytes>
static __global__ void __launch_bounds__(256, 6)
	gpucache_cursor(fth_gpu_array<uint64_t> a, struct gpucache_report *report)
{
	uint64_t lines = a.count >> (a.line_shift - 3), wrong = 0;
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	uint32_t lane = threadIdx.x % 32;
	int rc = 0;

	for (uint64_t line = gpucache_thread() / 32; line < lines;
	     line += gpucache_threads() / 32) {
		const ulonglong2 *data = (const ulonglong2 *)fth_gpu_cursor_line(a, &cursor, line,
										 FTH_GPU_READ, &rc);
		uint64_t first = line << (a.line_shift - 3);

		if (!data)
			break;
#pragma unroll
		for (uint32_t k = 0; k < line_bytes / 512; k++) {
			ulonglong2 v = data[32 * k + lane];
			uint64_t i = first + 64 * k + 2 * lane;

			wrong |= (v.x ^ gpucache_value(i)) | (v.y ^ gpucache_value(i + 1));
		}
	}
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_READ);
	gpucache_tell(report, wrong, rc);
}

/* A cheap generator: the same work beside the cache and without it. */
static __device__ __forceinline__ uint64_t gpucache_next(uint64_t *state, uint64_t mask)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 24 & mask;
}

static __global__ void __launch_bounds__(256, 6)
	gpucache_random(fth_gpu_array<uint64_t> a, uint64_t seed, struct gpucache_report *report)
{
	uint64_t state = (gpucache_thread() + seed) * 0x9e3779b97f4a7c15ull, wrong = 0, v = 0;
	int rc = 0;

	for (uint32_t k = 0; k < EACH && rc == 0; k++) {
		uint64_t i = gpucache_next(&state, a.count - 1);

		rc = fth_gpu_get(a, i, &v);
		wrong |= v ^ gpucache_value(i);
	}
	gpucache_tell(report, wrong, rc);
}

/* ---- the same in plain GPU memory ---- */

static __global__ void gpucache_stream(const ulonglong2 *data, uint64_t n,
				       struct gpucache_report *report)
{
	uint64_t wrong = 0, step = gpucache_threads();

#pragma unroll 4
	for (uint64_t i = gpucache_thread(); i < n / 2; i += step) {
		ulonglong2 v = data[i];

		wrong |= (v.x ^ gpucache_value(2 * i)) | (v.y ^ gpucache_value(2 * i + 1));
	}
	gpucache_tell(report, wrong, 0);
}

static __global__ void gpucache_raw_gather(const uint64_t *data, uint64_t n, uint64_t seed,
					   struct gpucache_report *report)
{
	uint64_t state = (gpucache_thread() + seed) * 0x9e3779b97f4a7c15ull, wrong = 0;

#pragma unroll 4
	for (uint32_t k = 0; k < EACH; k++) {
		uint64_t i = gpucache_next(&state, n - 1);

		wrong |= data[i] ^ gpucache_value(i);
	}
	gpucache_tell(report, wrong, 0);
}

/* ---- cold ---- */

/* A permutation of [0, mask]: multiplications by odd numbers and shifts are reversible. */
FTH_HD uint64_t gpucache_shuffle(uint64_t n, uint64_t mask)
{
	n = n * 0x9e3779b97f4a7c15ull & mask;
	n ^= n >> 10;
	n = n * 0xbf58476d1ce4e5b9ull & mask;
	n ^= n >> 9;
	return n * 0x94d049bb133111ebull & mask;
}

/* One element each of n lines, that nobody has read for long. */
static __global__ void __launch_bounds__(256, 6)
	gpucache_cold_lines(fth_gpu_array<uint64_t> a, uint64_t first, uint64_t n,
			    struct gpucache_report *report)
{
	uint32_t shift = a.line_shift - 3;
	uint64_t mask = (a.count >> shift) - 1, wrong = 0, v = 0;
	int rc = 0;

	for (uint64_t c = gpucache_thread(); c < n && rc == 0; c += gpucache_threads()) {
		uint64_t line = gpucache_shuffle(first + c, mask);
		uint64_t i = (line << shift) + (c & ((1u << shift) - 1));

		rc = fth_gpu_get(a, i, &v);
		wrong |= v ^ gpucache_value(i);
	}
	gpucache_tell(report, wrong, rc);
}

#endif
