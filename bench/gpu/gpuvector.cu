/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of `fathom bench gpuvector`: vectorAdd, a sum and a prefix sum over vectors in host
 * memory, through a cache in GPU memory; against tiles that are copied ahead, with CUB on them; and
 * by the same kernels straight on host memory.
 */
#include "gpustage.h"
#include "median.h"

#include "apps/team.h"
#include "fathom/hd/wait.h"

#include <cub/cub.cuh>
#include <string.h>

#define VECTORS	  3u
#define PER_BLOCK 256u
#define SPOILT	  0xa5
#define SMALL	  ((1u << 24) - 1) /* integers that doubles add up exactly */

struct gpuvector {
	const struct gpuvector_setup *setup;
	struct gpustage stage;
	struct fth_gpu_cache *cache;
	struct fth_gpu_source cached[VECTORS], plain[VECTORS];
	uint64_t n;	 /* elements of a vector */
	void *temporary; /* CUB's, for each tile */
	size_t temporary_bytes;
	uint64_t *carry;   /* of each tile: the sum of all up to its end */
	uint64_t *sums;	   /* of tiles, one each */
	uint64_t *staged;  /* pinned: the same for the host */
	uint64_t *checked; /* by thread of the CPU: the sum of its elements */
};

/* ---- data: vector 0 and 1 hold doubles that are small integers; as bits they are summed up ----
 */

FTH_HD double value_of(unsigned vector, uint64_t i)
{
	return (double)(fth_mix64(2 * i + vector + 1) & SMALL);
}

FTH_HD uint64_t bits_of(unsigned vector, uint64_t i)
{
	double value = value_of(vector, i);
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static double *vector_of(const struct gpuvector *b, unsigned vector)
{
	return (double *)(b->stage.medium.host + vector * b->setup->bytes);
}

static int fill_part(void *context, unsigned thread)
{
	struct gpuvector *b = (struct gpuvector *)context;
	uint64_t first, end, sum = 0;

	fth_team_part(b->n, 1, b->setup->base.threads, thread, &first, &end);
	for (uint64_t i = first; i < end; i++) {
		vector_of(b, 0)[i] = value_of(0, i);
		vector_of(b, 1)[i] = value_of(1, i);
		vector_of(b, 2)[i] = 0;
		sum += bits_of(0, i);
	}
	b->checked[thread] = sum;
	return 0;
}

/* ---- checks, on the host: what a kernel says of its own work is no proof ---- */

static int check_add_part(void *context, unsigned thread)
{
	struct gpuvector *b = (struct gpuvector *)context;
	uint64_t first, end;

	fth_team_part(b->n, 1, b->setup->base.threads, thread, &first, &end);
	for (uint64_t i = first; i < end; i++)
		if (vector_of(b, 2)[i] != vector_of(b, 0)[i] + vector_of(b, 1)[i])
			return fth_fail(EILSEQ, "element %llu of the sum is wrong",
					(unsigned long long)i);
	memset(vector_of(b, 2) + first, SPOILT, (end - first) * 8);
	return 0;
}

static int check_scan_part(void *context, unsigned thread)
{
	struct gpuvector *b = (struct gpuvector *)context;
	const uint64_t *from = (const uint64_t *)vector_of(b, 0);
	uint64_t *to = (uint64_t *)vector_of(b, 2), first, end, sum = 0;

	for (unsigned t = 0; t < thread; t++)
		sum += b->checked[t];
	fth_team_part(b->n, 1, b->setup->base.threads, thread, &first, &end);
	for (uint64_t i = first; i < end; i++) {
		sum += from[i];
		if (to[i] != sum)
			return fth_fail(EILSEQ, "element %llu of the prefix sum is wrong",
					(unsigned long long)i);
	}
	memset(to + first, SPOILT, (end - first) * 8);
	return 0;
}

static int check_sum(const struct gpuvector *b, uint64_t sum)
{
	for (unsigned t = 0; t < b->setup->base.threads; t++)
		sum -= b->checked[t];
	return sum == 0 ? 0 : fth_fail(EILSEQ, "the sum is wrong");
}

/* ---- through the cache, and straight on host memory ---- */

static int run_kernels(struct gpuvector *b, enum gpuvector_job job,
		       const struct fth_gpu_source *from, uint64_t *sum)
{
	struct fth_gpu_work *work = b->stage.work;

	switch (job) {
	case GPUVECTOR_ADD:
		return fth_gpu_vector_add(work, &from[0], &from[1], &from[2]);
	case GPUVECTOR_REDUCE:
		return fth_gpu_reduce(work, &from[0], sum);
	default:
		return fth_gpu_scan(work, &from[0], &from[2]);
	}
}

static int run_cached(struct gpuvector *b, enum gpuvector_job job, uint64_t *sum)
{
	int rc = run_kernels(b, job, b->cached, sum);

	return rc < 0 || job == GPUVECTOR_REDUCE ? rc : fth_gpu_cache_flush(b->cache);
}

static int run_plain(struct gpuvector *b, enum gpuvector_job job, uint64_t *sum)
{
	return run_kernels(b, job, b->plain, sum);
}

/* ---- tiles ---- */

static __global__ void add_tile(const double2 *a, const double2 *b, double2 *c, uint64_t n)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
		c[i] = make_double2(a[i].x + b[i].x, a[i].y + b[i].y);
}

/* Add what all tiles before come to, and tell what this one makes of it. */
static __global__ void add_carry(uint64_t *to, uint64_t n, const uint64_t *before, uint64_t *after)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x, carry = before ? *before : 0;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
		uint64_t value = to[i] + carry;

		to[i] = value;
		if (i == n - 1)
			*after = value;
	}
}

/* One tile: what comes in, what is done, what goes out; all on its stream. */
struct tile {
	unsigned slot;
	uint64_t number, first, n; /* elements */
	cudaStream_t stream;
	char *memory;
};

static int copy_in(struct gpuvector *b, const struct tile *t, unsigned vector)
{
	return fth_gpu_check(cudaMemcpyAsync(t->memory + vector * b->setup->tile,
					     vector_of(b, vector) + t->first, t->n * 8,
					     cudaMemcpyHostToDevice, t->stream),
			     "copying a tile");
}

static int copy_out(struct gpuvector *b, const struct tile *t)
{
	return fth_gpu_check(cudaMemcpyAsync(vector_of(b, 2) + t->first,
					     t->memory + 2 * b->setup->tile, t->n * 8,
					     cudaMemcpyDeviceToHost, t->stream),
			     "copying a tile");
}

static int tile_add(struct gpuvector *b, const struct tile *t)
{
	char *at = t->memory;
	int rc = copy_in(b, t, 0);

	if (rc == 0)
		rc = copy_in(b, t, 1);
	if (rc < 0)
		return rc;
	add_tile<<<1024, PER_BLOCK, 0, t->stream>>>((const double2 *)at,
						    (const double2 *)(at + b->setup->tile),
						    (double2 *)(at + 2 * b->setup->tile), t->n / 2);
	TRY(rc, cudaGetLastError());
	return rc < 0 ? rc : copy_out(b, t);
}

static void *temporary_of(const struct gpuvector *b, const struct tile *t)
{
	return (char *)b->temporary + t->slot * b->temporary_bytes;
}

static int tile_reduce(struct gpuvector *b, const struct tile *t)
{
	size_t bytes = b->temporary_bytes;
	int rc = copy_in(b, t, 0);

	TRY(rc, cub::DeviceReduce::Sum(temporary_of(b, t), bytes, (const uint64_t *)t->memory,
				       b->sums + t->number, (int)t->n, t->stream));
	return rc;
}

static int tile_scan(struct gpuvector *b, const struct tile *t)
{
	uint64_t *to = (uint64_t *)(t->memory + 2 * b->setup->tile);
	unsigned before = (t->slot + GPUSTAGE_TILES - 1) % GPUSTAGE_TILES;
	size_t bytes = b->temporary_bytes;
	int rc = copy_in(b, t, 0);

	TRY(rc,
	    cub::DeviceScan::InclusiveSum(temporary_of(b, t), bytes, (const uint64_t *)t->memory,
					  to, (int)t->n, t->stream));
	if (t->number > 0)
		TRY(rc, cudaStreamWaitEvent(t->stream, b->stage.events[before], 0));
	if (rc < 0)
		return rc;
	add_carry<<<1024, PER_BLOCK, 0, t->stream>>>(to, t->n, t->number ? b->carry + before : NULL,
						     b->carry + t->slot);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaEventRecord(b->stage.events[t->slot], t->stream));
	return rc < 0 ? rc : copy_out(b, t);
}

static int add_sums(struct gpuvector *b, uint64_t tiles, uint64_t *sum)
{
	cudaStream_t s = b->stage.streams[0];
	int rc = 0;

	TRY(rc, cudaMemcpyAsync(b->staged, b->sums, tiles * 8, cudaMemcpyDeviceToHost, s));
	TRY(rc, cudaStreamSynchronize(s));
	*sum = 0;
	for (uint64_t i = 0; rc == 0 && i < tiles; i++)
		*sum += b->staged[i];
	return rc;
}

static int run_tiled(struct gpuvector *b, enum gpuvector_job job, uint64_t *sum)
{
	static int (*const jobs[GPUVECTOR_JOBS])(struct gpuvector *, const struct tile *) = {
		tile_add, tile_reduce, tile_scan};
	uint64_t each = b->setup->tile / 8;
	struct tile t = {};
	int rc = 0;

	for (; rc == 0 && t.first < b->n; t.first += each, t.number++) {
		t.slot = t.number % GPUSTAGE_TILES;
		t.n = b->n - t.first < each ? b->n - t.first : each;
		t.stream = b->stage.streams[t.slot];
		t.memory = b->stage.tiles[t.slot];
		rc = jobs[job](b, &t);
	}
	if (rc == 0)
		rc = gpustage_finish(&b->stage);
	return rc == 0 && job == GPUVECTOR_REDUCE ? add_sums(b, t.number, sum) : rc;
}

/* ---- measuring ---- */

typedef int way(struct gpuvector *b, enum gpuvector_job job, uint64_t *sum);

static int measure(struct gpuvector *b, way *how, enum gpuvector_job job, double *seconds)
{
	unsigned threads = b->setup->base.threads;
	uint64_t sum = 0, begin;
	int rc = gpustage_stopped(&b->stage);

	if (rc < 0)
		return rc;
	begin = fth_now_ns();
	rc = how(b, job, &sum);
	*seconds = (double)(fth_now_ns() - begin) * 1e-9;
	if (rc < 0)
		return rc;
	if (job == GPUVECTOR_REDUCE)
		return check_sum(b, sum);
	return fth_team_run(threads, job == GPUVECTOR_ADD ? check_add_part : check_scan_part, b);
}

static int measure_cell(struct gpuvector *b, enum gpuvector_job job, struct gpuvector_cell *cell)
{
	double ours[GPUSTREAM_ROUNDS_MAX], tiled[GPUSTREAM_ROUNDS_MAX];
	struct fth_gpu_cache_stats before = {}, after = {};
	int rc = 0;

	for (unsigned r = 0; rc == 0 && r < b->setup->base.rounds; r++) {
		rc = fth_gpu_cache_empty(b->cache);
		if (rc == 0)
			rc = fth_gpu_cache_stats(b->cache, &before);
		if (rc == 0)
			rc = measure(b, run_cached, job, &ours[r]);
		if (rc == 0)
			rc = fth_gpu_cache_stats(b->cache, &after);
		if (rc == 0)
			rc = measure(b, run_tiled, job, &tiled[r]);
	}
	if (rc == 0)
		rc = measure(b, run_plain, job, &cell->zero_copy);
	if (rc < 0)
		return rc;
	cell->ours = fth_median(ours, b->setup->base.rounds);
	cell->tiled = fth_median(tiled, b->setup->base.rounds);
	cell->bytes_read = after.bytes_read - before.bytes_read;
	cell->bytes_written = after.bytes_written - before.bytes_written;
	cell->bytes_least_read = (job == GPUVECTOR_ADD ? 2 : 1) * b->setup->bytes;
	cell->bytes_least_written = job == GPUVECTOR_REDUCE ? 0 : b->setup->bytes;
	return 0;
}

/* ---- all of it ---- */

/* CUB says how much it wants if it is given nothing. */
static int alloc_tiled(struct gpuvector *b)
{
	uint64_t tiles = (b->setup->bytes + b->setup->tile - 1) / b->setup->tile;
	int each = (int)(b->setup->tile / 8), rc = 0;
	size_t reduce = 0, scan = 0;
	uint64_t *none = NULL;

	TRY(rc, cub::DeviceReduce::Sum(NULL, reduce, none, none, each));
	TRY(rc, cub::DeviceScan::InclusiveSum(NULL, scan, none, none, each));
	b->temporary_bytes = ((reduce > scan ? reduce : scan) + 255) / 256 * 256;
	TRY(rc, cudaMalloc(&b->temporary, GPUSTAGE_TILES * b->temporary_bytes));
	TRY(rc, cudaMalloc((void **)&b->carry, GPUSTAGE_TILES * 8));
	TRY(rc, cudaMalloc((void **)&b->sums, tiles * 8));
	TRY(rc, cudaMallocHost((void **)&b->staged, tiles * 8));
	return rc;
}

static int open_all(struct gpuvector *b)
{
	int rc;

	b->checked = (uint64_t *)calloc(b->setup->base.threads, sizeof(*b->checked));
	if (!b->checked)
		return -ENOMEM;
	rc = fth_team_run(b->setup->base.threads, fill_part, b);
	if (rc == 0)
		rc = alloc_tiled(b);
	if (rc == 0)
		rc = gpustage_start(&b->stage, VECTORS * b->setup->tile);
	if (rc == 0)
		rc = gpustage_cache(&b->stage, &b->cache);
	for (unsigned i = 0; rc == 0 && i < VECTORS; i++) {
		b->plain[i] = fth_gpu_source_plain(b->stage.medium.mapped + i * b->setup->bytes,
						   b->n, 8, b->setup->base.line);
		rc = gpustage_array(b->cache, i * b->setup->bytes, b->n, i < 2, &b->cached[i]);
	}
	return rc;
}

static void close_all(struct gpuvector *b)
{
	(void)fth_gpu_cache_close(b->cache);
	gpustage_close(&b->stage);
	(void)cudaFree(b->temporary);
	(void)cudaFree(b->carry);
	(void)cudaFree(b->sums);
	(void)cudaFreeHost(b->staged);
	free(b->checked);
}

int gpuvector_run(const struct gpuvector_setup *setup, struct gpuvector_result *result)
{
	static const enum fth_gpu_work_kernel kernels[GPUVECTOR_JOBS] = {
		FTH_GPU_WORK_ADD, FTH_GPU_WORK_REDUCE, FTH_GPU_WORK_SCAN};
	struct gpuvector b = {};
	int rc;

	memset(result, 0, sizeof(*result));
	b.setup = setup;
	b.n = setup->bytes / 8;
	rc = gpustage_open(&setup->base, VECTORS * setup->bytes, result->gpu, &b.stage);
	if (rc < 0)
		return rc;
	rc = open_all(&b);
	for (int job = 0; rc == 0 && job < GPUVECTOR_JOBS; job++) {
		rc = measure_cell(&b, (enum gpuvector_job)job, &result->cells[job]);
		result->cells[job].registers = fth_gpu_work_registers(kernels[job]);
	}
	close_all(&b);
	return rc;
}
