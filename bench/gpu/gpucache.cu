/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of `fathom bench gpucache`: memory, runs, checks. gpucache_kernels.h has the kernels.
 */
#include "gpucache.h"

#include "gpu_common.h"
#include "gpucache_kernels.h"
#include "median.h"

#include <functional>
#include <stdlib.h>
#include <string.h>

#define PER_BLOCK 256u

struct gpucache {
	struct gpucache_setup setup;
	struct gpu_rig rig;
	uint64_t *plain; /* setup.hot bytes of GPU memory with the same values */
	struct gpucache_report *report;
	struct fth_gpu_drive *drive;
	uint64_t next; /* line: fresh ones for every run */
};

/* ---- memory ---- */

/* More than fit at once, so that the last ones to start are few beside all. */
static unsigned many_blocks(const struct gpucache *b)
{
	return 64 * (unsigned)b->rig.gpu.multiProcessorCount;
}

static int alloc_all(struct gpucache *b)
{
	int rc = gpu_rig_open(&b->rig, b->setup.medium);

	TRY(rc, cudaMalloc((void **)&b->plain, b->setup.hot));
	TRY(rc, cudaMalloc((void **)&b->report, sizeof(*b->report)));
	if (rc < 0)
		return rc;
	gpucache_fill<<<many_blocks(b), PER_BLOCK, 0, b->rig.stream>>>(
		(uint64_t *)b->rig.medium.mapped, b->setup.medium / 8);
	TRY(rc, cudaGetLastError());
	gpucache_fill<<<many_blocks(b), PER_BLOCK, 0, b->rig.stream>>>(b->plain, b->setup.hot / 8);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	return rc;
}

static int open_drive(struct gpucache *b)
{
	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;

	opts.bytes = b->setup.medium;
	opts.memory = b->rig.medium.host;
	opts.queues = b->setup.queues;
	return fth_gpu_drive_open(&opts, &b->drive);
}

int gpucache_open(const struct gpucache_setup *setup, struct gpucache **out)
{
	struct gpucache *b = (struct gpucache *)calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return -ENOMEM;
	b->setup = *setup;
	rc = alloc_all(b);
	if (rc == 0)
		rc = open_drive(b);
	if (rc < 0) {
		gpucache_close(b);
		return rc;
	}
	*out = b;
	return 0;
}

void gpucache_close(struct gpucache *b)
{
	if (!b)
		return;
	/* What fails here fails because the GPU has; the results were told before. */
	(void)fth_gpu_drive_close(b->drive);
	(void)cudaFree(b->plain);
	(void)cudaFree(b->report);
	gpu_rig_close(&b->rig);
	free(b);
}

const char *gpucache_gpu(const struct gpucache *b)
{
	return b->rig.gpu.name;
}

int gpucache_registers(enum gpucache_kernel kernel)
{
	static const void *const kernels[GPUCACHE_KERNELS] = {
		(const void *)gpucache_sequential,
		(const void *)gpucache_cursor<4096>,
		(const void *)gpucache_random,
		(const void *)gpucache_cold_lines,
	};
	struct cudaFuncAttributes attributes;

	if (cudaFuncGetAttributes(&attributes, kernels[kernel]) != cudaSuccess)
		return 0;
	return attributes.numRegs;
}

/* ---- one run ---- */

/* Launch, wait, and look at what the kernel told. */
static int timed(struct gpucache *b, const std::function<void()> &launch, double *seconds)
{
	struct gpucache_report report;
	int rc = 0;

	TRY(rc, cudaMemsetAsync(b->report, 0, sizeof(*b->report), b->rig.stream));
	TRY(rc, cudaEventRecord(b->rig.begin, b->rig.stream));
	if (rc < 0)
		return rc;
	launch();
	TRY(rc, cudaGetLastError());
	if (rc == 0)
		rc = gpu_rig_elapsed(&b->rig, seconds);
	TRY(rc, cudaMemcpyAsync(&report, b->report, sizeof(report), cudaMemcpyDeviceToHost,
				b->rig.stream));
	TRY(rc, cudaStreamSynchronize(b->rig.stream));
	if (rc == 0 && report.failed)
		rc = fth_fail(-report.rc, "%llu threads failed, one with %s", report.failed,
			      strerror(-report.rc));
	if (rc == 0 && report.wrong)
		rc = fth_fail(EILSEQ, "%llu threads read something wrong", report.wrong);
	return rc;
}

static int open_cache(struct gpucache *b, uint64_t bytes, uint32_t line,
		      struct fth_gpu_cache **cache)
{
	struct fth_gpu_cache_opts opts = FTH_GPU_CACHE_OPTS_INIT;

	opts.bytes = bytes;
	opts.line = line;
	return fth_gpu_cache_open(b->drive, &opts, cache);
}

static int misses(struct fth_gpu_cache *cache, uint64_t *n)
{
	struct fth_gpu_cache_stats stats;
	int rc = fth_gpu_cache_stats(cache, &stats);

	*n = stats.count[FTH_GPU_MISSES];
	return rc;
}

/* ---- hot ---- */

/* Everything that is measured on hot lines, once; seconds by kernel, then the plain two. */
#define HOT_RUNS (GPUCACHE_COLD + 2)

static int run_hot(struct gpucache *b, const struct fth_gpu_array &a, uint64_t seed,
		   double seconds[HOT_RUNS])
{
	unsigned blocks = many_blocks(b), gathering = (unsigned)(a.count / 4 / EACH / PER_BLOCK);
	struct gpucache_report *report = b->report;
	cudaStream_t s = b->rig.stream;
	const std::function<void()> runs[HOT_RUNS] = {
		[&] { gpucache_sequential<<<blocks, PER_BLOCK, 0, s>>>(a, report); },
		[&] {
			if (a.line_shift == 12)
				gpucache_cursor<4096><<<blocks, PER_BLOCK, 0, s>>>(a, report);
			else
				gpucache_cursor<512><<<blocks, PER_BLOCK, 0, s>>>(a, report);
		},
		[&] { gpucache_random<<<gathering, PER_BLOCK, 0, s>>>(a, seed, report); },
		[&] {
			gpucache_stream<<<blocks, PER_BLOCK, 0, s>>>((const ulonglong2 *)b->plain,
								     a.count, report);
		},
		[&] {
			gpucache_raw_gather<<<gathering, PER_BLOCK, 0, s>>>(b->plain, a.count,
									    seed + 2, report);
		},
	};
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < HOT_RUNS; i++)
		rc = timed(b, runs[i], &seconds[i]);
	return rc;
}

static int measure_hot(struct gpucache *b, struct fth_gpu_cache *cache,
		       const struct fth_gpu_array &a, struct gpucache_hot *result)
{
	double seconds[HOT_RUNS], rates[HOT_RUNS][GPUCACHE_ROUNDS_MAX];
	uint64_t gathered = a.count / 4 / EACH / PER_BLOCK * PER_BLOCK * EACH;
	uint64_t before = 0, after = 0;
	/* Brings all in, and shows that it is in use. */
	int rc = run_hot(b, a, 1, seconds);

	if (rc == 0)
		rc = misses(cache, &before);
	for (unsigned r = 0; rc == 0 && r < b->setup.rounds; r++) {
		rc = run_hot(b, a, (r + 2) * 0x123456789ull, seconds);
		for (unsigned i = 0; i < HOT_RUNS; i++) {
			bool random = i == GPUCACHE_RANDOM || i == HOT_RUNS - 1;

			rates[i][r] = (double)(random ? gathered : a.count) / seconds[i];
		}
	}
	if (rc == 0)
		rc = misses(cache, &after);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < GPUCACHE_COLD; i++)
		result->rate[i] = fth_median(rates[i], b->setup.rounds);
	result->stream = fth_median(rates[GPUCACHE_COLD], b->setup.rounds);
	result->gather = fth_median(rates[GPUCACHE_COLD + 1], b->setup.rounds);
	result->misses = after - before;
	return 0;
}

int gpucache_hot(struct gpucache *b, uint32_t line, struct gpucache_hot *result)
{
	struct fth_gpu_array_opts opts = FTH_GPU_ARRAY_OPTS_INIT;
	struct fth_gpu_cache *cache;
	struct fth_gpu_array a;
	int rc = open_cache(b, b->setup.hot, line, &cache), closed;

	if (rc < 0)
		return rc;
	opts.count = b->setup.hot / 8;
	opts.readonly = true;
	rc = fth_gpu_cache_array(cache, 8, &opts, &a);
	if (rc == 0)
		rc = measure_hot(b, cache, a, result);
	result->lines = b->setup.hot / line;
	result->metadata = fth_gpu_cache_metadata(cache);
	closed = fth_gpu_cache_close(cache);
	return rc < 0 ? rc : closed;
}

/* ---- cold ---- */

static int measure_cold(struct gpucache *b, struct fth_gpu_cache *cache,
			const struct fth_gpu_array &a, struct gpucache_cold *result)
{
	uint64_t lines = a.count >> (a.line_shift - 3), n = lines / 4, before = 0, after = 0;
	double seconds, rates[GPUCACHE_ROUNDS_MAX];
	struct fth_gpu_cache_stats stats;
	int rc = 0;

	for (unsigned r = 0; rc == 0 && r <= b->setup.rounds; r++) {
		rc = misses(cache, &before);
		if (rc == 0)
			rc = timed(
				b,
				[&] {
					gpucache_cold_lines<<<b->setup.threads / PER_BLOCK,
							      PER_BLOCK, 0, b->rig.stream>>>(
						a, b->next, n, b->report);
				},
				&seconds);
		if (rc == 0)
			rc = misses(cache, &after);
		if (rc == 0 && after - before != n)
			rc = fth_fail(EIO, "%llu of %llu lines were fetched",
				      (unsigned long long)(after - before), (unsigned long long)n);
		b->next += n;
		/* The first round only fills the cache. */
		if (r > 0)
			rates[r - 1] = (double)n / seconds;
	}
	if (rc == 0)
		rc = fth_gpu_cache_stats(cache, &stats);
	if (rc < 0)
		return rc;
	result->rate = fth_median(rates, b->setup.rounds);
	result->lines = n;
	result->evictions = stats.count[FTH_GPU_EVICTIONS];
	return 0;
}

int gpucache_cold(struct gpucache *b, uint32_t line, struct gpucache_cold *result)
{
	struct fth_gpu_array_opts opts = FTH_GPU_ARRAY_OPTS_INIT;
	struct fth_gpu_cache *cache;
	struct fth_gpu_array a;
	int rc = open_cache(b, b->setup.cold, line, &cache), closed;

	if (rc < 0)
		return rc;
	opts.readonly = true;
	rc = fth_gpu_cache_array(cache, 8, &opts, &a);
	if (rc == 0)
		rc = measure_cold(b, cache, a, result);
	closed = fth_gpu_cache_close(cache);
	return rc < 0 ? rc : closed;
}
