/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of `fathom bench gpupattern`: elements read in patterns, cold and hot, through a cache
 * in GPU memory, straight from host memory, and from plain GPU memory.
 */
#include "gpustage.h"
#include "median.h"

#include "apps/team.h"
#include "fathom/hd/wait.h"

#include <string.h>

#define KEY 0x5bd1e9955bd1e995ull

struct gpupattern {
	const struct gpupattern_setup *setup;
	struct gpustage stage;
	struct fth_gpu_cache *cache;
	struct fth_gpu_source cached, zero_copy, plain;
	unsigned long long *sum; /* in GPU memory */
	unsigned long long *staged;
};

/* ---- what the sum of a run has to be ---- */

static __global__ void expected_kernel(struct fth_gpu_accesses accesses, unsigned long long *sum)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x, mine = 0;

	for (uint64_t j = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; j < accesses.n;
	     j += step)
		mine += fth_gpu_access_index(&accesses, j) ^ KEY ^ j;
	atomicAdd(sum, (unsigned long long)mine);
}

static int expected(struct gpupattern *b, const struct fth_gpu_accesses *accesses, uint64_t *sum)
{
	cudaStream_t s = b->stage.streams[0];
	int rc = 0;

	TRY(rc, cudaMemsetAsync(b->sum, 0, sizeof(*b->sum), s));
	if (rc < 0)
		return rc;
	expected_kernel<<<1024, 256, 0, s>>>(*accesses, b->sum);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaMemcpyAsync(b->staged, b->sum, sizeof(*b->sum), cudaMemcpyDeviceToHost, s));
	TRY(rc, cudaStreamSynchronize(s));
	*sum = *b->staged;
	return rc;
}

static int fill_part(void *context, unsigned thread)
{
	struct gpupattern *b = (struct gpupattern *)context;
	uint64_t *data = (uint64_t *)b->stage.medium.host, first, end;

	fth_team_part(b->setup->medium / 8, 1, b->setup->base.threads, thread, &first, &end);
	for (uint64_t i = first; i < end; i++)
		data[i] = i ^ KEY;
	return 0;
}

/* ---- measuring ---- */

static int measure(struct gpupattern *b, const struct fth_gpu_source *from,
		   const struct fth_gpu_accesses *accesses, uint64_t known, double *seconds)
{
	uint64_t sum = 0, begin;
	int rc = gpustage_stopped(&b->stage);

	if (rc < 0)
		return rc;
	begin = fth_now_ns();
	rc = fth_gpu_access_run(b->stage.work, from, accesses, &sum);
	*seconds = (double)(fth_now_ns() - begin) * 1e-9;
	if (rc == 0 && sum != known)
		rc = fth_fail(EILSEQ, "pattern %d: what was read is not what was written",
			      (int)accesses->pattern);
	return rc;
}

/* Hot: everything is brought in and looked at before. Cold: nothing of it is there. */
static int prepare(struct gpupattern *b, bool hot)
{
	struct fth_gpu_accesses all = {FTH_GPU_SEQUENTIAL, b->setup->hot / 8, b->setup->hot / 8, 1,
				       0};
	int rc = fth_gpu_cache_empty(b->cache);
	uint64_t sum;

	for (unsigned i = 0; rc == 0 && hot && i < 2; i++)
		rc = fth_gpu_access_run(b->stage.work, &b->cached, &all, &sum);
	return rc;
}

static int measure_cell(struct gpupattern *b, enum fth_gpu_pattern pattern, bool hot,
			struct gpupattern_cell *cell)
{
	double times[3][GPUSTREAM_ROUNDS_MAX] = {};
	const struct gpupattern_setup *s = b->setup;
	struct fth_gpu_accesses accesses = {pattern, hot ? s->hot_accesses : s->cold_accesses,
					    (hot ? s->hot : s->medium) / 8, s->stride / 8, 0};
	struct fth_gpu_cache_stats before = {}, after = {};
	uint64_t known = 0;
	int rc = 0;

	/* Neighbours share lines: as many accesses as for the others would be over at once. */
	if (!hot && pattern == FTH_GPU_SEQUENTIAL)
		accesses.n = s->hot_accesses;
	for (unsigned r = 0; rc == 0 && r < s->base.rounds; r++) {
		accesses.seed = (r + 1) * 0x123456789ull;
		rc = expected(b, &accesses, &known);
		if (rc == 0)
			rc = prepare(b, hot);
		if (rc == 0)
			rc = fth_gpu_cache_stats(b->cache, &before);
		if (rc == 0)
			rc = measure(b, &b->cached, &accesses, known, &times[0][r]);
		if (rc == 0)
			rc = fth_gpu_cache_stats(b->cache, &after);
		if (rc == 0)
			rc = measure(b, &b->zero_copy, &accesses, known, &times[1][r]);
		if (rc == 0 && hot)
			rc = measure(b, &b->plain, &accesses, known, &times[2][r]);
	}
	if (rc < 0)
		return rc;
	cell->accesses = accesses.n;
	cell->ours = fth_median(times[0], s->base.rounds);
	cell->zero_copy = fth_median(times[1], s->base.rounds);
	cell->plain = fth_median(times[2], s->base.rounds);
	cell->lines_read = after.count[FTH_GPU_READS] - before.count[FTH_GPU_READS];
	return 0;
}

/* ---- all of it ---- */

static int open_all(struct gpupattern *b)
{
	const struct gpupattern_setup *s = b->setup;
	int rc = fth_team_run(s->base.threads, fill_part, b);

	TRY(rc, cudaMalloc((void **)&b->sum, sizeof(*b->sum)));
	TRY(rc, cudaMallocHost((void **)&b->staged, sizeof(*b->staged)));
	/* The hot part once more, plainly, in place of the tiles. */
	if (rc == 0)
		rc = gpustage_start(&b->stage, s->hot);
	TRY(rc, cudaMemcpyAsync(b->stage.tiles[0], b->stage.medium.host, s->hot,
				cudaMemcpyHostToDevice, b->stage.streams[0]));
	TRY(rc, cudaStreamSynchronize(b->stage.streams[0]));
	if (rc == 0)
		rc = gpustage_cache(&b->stage, &b->cache);
	if (rc == 0)
		rc = gpustage_array(b->cache, 0, s->medium / 8, true, &b->cached);
	b->zero_copy = fth_gpu_source_plain(b->stage.medium.mapped, s->medium / 8, 8, s->base.line);
	b->plain = fth_gpu_source_plain(b->stage.tiles[0], s->hot / 8, 8, s->base.line);
	return rc;
}

static void close_all(struct gpupattern *b)
{
	(void)fth_gpu_cache_close(b->cache);
	gpustage_close(&b->stage);
	(void)cudaFree(b->sum);
	(void)cudaFreeHost(b->staged);
}

int gpupattern_run(const struct gpupattern_setup *setup, struct gpupattern_result *result)
{
	struct gpupattern b = {};
	int rc;

	memset(result, 0, sizeof(*result));
	b.setup = setup;
	rc = gpustage_open(&setup->base, setup->medium, result->gpu, &b.stage);
	if (rc < 0)
		return rc;
	rc = open_all(&b);
	for (int p = 0; rc == 0 && p < GPUPATTERN_PATTERNS; p++) {
		rc = measure_cell(&b, (enum fth_gpu_pattern)p, false, &result->cold[p]);
		if (rc == 0)
			rc = measure_cell(&b, (enum fth_gpu_pattern)p, true, &result->hot[p]);
	}
	result->registers = fth_gpu_work_registers(FTH_GPU_WORK_PATTERN);
	close_all(&b);
	return rc;
}
