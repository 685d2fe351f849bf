/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpuvector`: vectorAdd, a sum and a prefix sum over vectors in host
 * memory, through a cache in GPU memory; against tiles that are copied ahead, with CUB on them; and
 * by the same kernels straight on host memory.
 */
#include "cub_error.h"

#include "base/team.h"
#include "fathom/base/rng.h"

#include <cub/cub.cuh>
#include <string.h>

#define VECTORS	  3u
#define PER_BLOCK 256u
#define SPOILT	  0xa5
#define SMALL	  ((1u << 24) - 1) /* integers that doubles add up exactly */

enum job { ADD, REDUCE, SCAN, JOBS };

struct gpuvector {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	char *tiles[GPU_TILES];
	struct fth_gpu_cache *cache;
	struct fth_gpu_source cached[VECTORS], plain[VECTORS];
	uint64_t n;	 /* elements of a vector */
	char *temporary; /* CUB's, for each tile */
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
	return (double)(fth_mix64(gpu_word(i, vector)) & SMALL);
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
	return (double *)(b->setup->medium.host + vector * b->s->vector);
}

static int fill_part(void *context, unsigned thread)
{
	struct gpuvector *b = (struct gpuvector *)context;
	uint64_t first, end, sum = 0;

	fth_team_part(b->n, 1, (unsigned)b->s->threads, thread, &first, &end);
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

	fth_team_part(b->n, 1, (unsigned)b->s->threads, thread, &first, &end);
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
	fth_team_part(b->n, 1, (unsigned)b->s->threads, thread, &first, &end);
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
	for (unsigned t = 0; t < (unsigned)b->s->threads; t++)
		sum -= b->checked[t];
	return sum == 0 ? 0 : fth_fail(EILSEQ, "the sum is wrong");
}

/* ---- through the cache, and straight on host memory ---- */

static int run_kernels(struct gpuvector *b, enum job job, const struct fth_gpu_source *from,
		       uint64_t *sum)
{
	struct fth_gpu_work *work = b->setup->work;

	switch (job) {
	case ADD:
		return fth_gpu_vector_add(work, &from[0], &from[1], &from[2]);
	case REDUCE:
		return fth_gpu_reduce(work, &from[0], sum);
	default:
		return fth_gpu_scan(work, &from[0], &from[2]);
	}
}

static int run_cached(struct gpuvector *b, enum job job, uint64_t *sum)
{
	int rc = run_kernels(b, job, b->cached, sum);

	return rc < 0 || job == REDUCE ? rc : fth_gpu_cache_flush(b->cache);
}

static int run_plain(struct gpuvector *b, enum job job, uint64_t *sum)
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
	return fth_gpu_check(cudaMemcpyAsync(t->memory + vector * b->s->tile,
					     vector_of(b, vector) + t->first, t->n * 8,
					     cudaMemcpyHostToDevice, t->stream),
			     "copying a tile");
}

static int copy_out(struct gpuvector *b, const struct tile *t)
{
	return fth_gpu_check(cudaMemcpyAsync(vector_of(b, 2) + t->first, t->memory + 2 * b->s->tile,
					     t->n * 8, cudaMemcpyDeviceToHost, t->stream),
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
						    (const double2 *)(at + b->s->tile),
						    (double2 *)(at + 2 * b->s->tile), t->n / 2);
	TRY(rc, cudaGetLastError());
	return rc < 0 ? rc : copy_out(b, t);
}

static void *temporary_of(const struct gpuvector *b, const struct tile *t)
{
	return b->temporary + t->slot * b->temporary_bytes;
}

static int tile_reduce(struct gpuvector *b, const struct tile *t)
{
	size_t bytes = b->temporary_bytes;
	int rc = copy_in(b, t, 0);

	TRY_CUB(rc, cub::DeviceReduce::Sum(temporary_of(b, t), bytes, (const uint64_t *)t->memory,
					   b->sums + t->number, (int)t->n, t->stream));
	return rc;
}

static int tile_scan(struct gpuvector *b, const struct tile *t)
{
	uint64_t *to = (uint64_t *)(t->memory + 2 * b->s->tile);
	unsigned before = (t->slot + GPU_TILES - 1) % GPU_TILES;
	size_t bytes = b->temporary_bytes;
	int rc = copy_in(b, t, 0);

	TRY_CUB(rc, cub::DeviceScan::InclusiveSum(temporary_of(b, t), bytes,
						  (const uint64_t *)t->memory, to, (int)t->n,
						  t->stream));
	if (t->number > 0)
		TRY(rc, cudaStreamWaitEvent(t->stream, b->setup->events[before], 0));
	if (rc < 0)
		return rc;
	add_carry<<<1024, PER_BLOCK, 0, t->stream>>>(to, t->n, t->number ? b->carry + before : NULL,
						     b->carry + t->slot);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaEventRecord(b->setup->events[t->slot], t->stream));
	return rc < 0 ? rc : copy_out(b, t);
}

static int add_sums(struct gpuvector *b, uint64_t tiles, uint64_t *sum)
{
	cudaStream_t s = b->setup->streams[0];
	int rc = 0;

	TRY(rc, cudaMemcpyAsync(b->staged, b->sums, tiles * 8, cudaMemcpyDeviceToHost, s));
	TRY(rc, cudaStreamSynchronize(s));
	*sum = 0;
	for (uint64_t i = 0; rc == 0 && i < tiles; i++)
		*sum += b->staged[i];
	return rc;
}

static int run_tiled(struct gpuvector *b, enum job job, uint64_t *sum)
{
	static int (*const jobs[JOBS])(struct gpuvector *,
				       const struct tile *) = {tile_add, tile_reduce, tile_scan};
	uint64_t each = b->s->tile / 8;
	struct tile t = {};
	int rc = 0;

	for (; rc == 0 && t.first < b->n; t.first += each, t.number++) {
		t.slot = t.number % GPU_TILES;
		t.n = b->n - t.first < each ? b->n - t.first : each;
		t.stream = b->setup->streams[t.slot];
		t.memory = b->tiles[t.slot];
		rc = jobs[job](b, &t);
	}
	if (rc == 0)
		rc = gpu_setup_finish(b->setup);
	return rc == 0 && job == REDUCE ? add_sums(b, t.number, sum) : rc;
}

/* ---- measuring ---- */

typedef int way_function(struct gpuvector *b, enum job job, uint64_t *sum);

static int measure(struct gpuvector *b, way_function *way, enum job job, double *seconds)
{
	uint64_t sum = 0;
	int rc = gpu_timed([&] { return way(b, job, &sum); }, seconds);

	if (rc < 0)
		return rc;
	if (job == REDUCE)
		return check_sum(b, sum);
	return fth_team_run((unsigned)b->s->threads, job == ADD ? check_add_part : check_scan_part,
			    b);
}

/* Bytes that have to be moved, in both directions. */
static double least_of(const struct gpuvector *b, enum job job)
{
	return (double)b->s->vector * (job == ADD ? 3 : job == SCAN ? 2 : 1);
}

/* Seconds of ours, of tiles, and of zero copy; `read` and `written` are bytes of ours. */
static void tell(const struct gpuvector *b, struct gpu_report *report, enum job job,
		 const double seconds[3], uint64_t read, uint64_t written)
{
	static const char *const names[JOBS] = {"add", "reduce", "scan"};
	static const enum fth_gpu_work_kernel kernels[JOBS] = {
		FTH_GPU_WORK_ADD, FTH_GPU_WORK_REDUCE, FTH_GPU_WORK_SCAN};
	double least = least_of(b, job);

	gpu_case(report);
	gpu_text(report, "job", names[job]);
	gpu_number(report, "ours", least / seconds[0]);
	gpu_number(report, "tiled", least / seconds[1]);
	gpu_number(report, "zero_copy", least / seconds[2]);
	gpu_number(report, "ratio", seconds[1] / seconds[0]);
	/*
	 * No cache can be faster than the same loads and stores without one, where the kernel reads
	 * each element once, and not a second time from what would be a cache.
	 */
	gpu_number(report, "bound", job == SCAN ? 0 : seconds[1] / seconds[2]);
	gpu_count(report, "bytes_read", read);
	gpu_count(report, "bytes_written", written);
	gpu_number(report, "amplification", (double)(read + written) / least);
	gpu_count(report, "registers", (uint64_t)fth_gpu_work_registers(kernels[job]));
	gpu_case_end(report);
	if (job == ADD)
		gpu_sum(report, least / seconds[0], least / seconds[1]);
}

static int measure_job(struct gpuvector *b, enum job job, struct gpu_report *report)
{
	struct fth_gpu_cache_stats before = {}, after = {};
	double seconds[3];
	int rc = gpu_rounds(b->s, 2, seconds, [&](unsigned way, unsigned, double *value) {
		int rc = 0;

		if (way == 1)
			return measure(b, run_tiled, job, value);
		DO(rc, fth_gpu_cache_empty(b->cache));
		DO(rc, fth_gpu_cache_stats(b->cache, &before));
		DO(rc, measure(b, run_cached, job, value));
		DO(rc, fth_gpu_cache_stats(b->cache, &after));
		return rc;
	});

	DO(rc, measure(b, run_plain, job, &seconds[2]));
	if (rc == 0)
		tell(b, report, job, seconds, after.bytes_read - before.bytes_read,
		     after.bytes_written - before.bytes_written);
	return rc;
}

/* ---- all of it ---- */

/* CUB says how much it wants if it is given nothing. */
static int alloc_tiled(struct gpuvector *b)
{
	uint64_t tiles = (b->s->vector + b->s->tile - 1) / b->s->tile;
	int each = (int)(b->s->tile / 8), rc = 0;
	size_t reduce = 0, scan = 0;
	uint64_t *none = NULL;

	TRY_CUB(rc, cub::DeviceReduce::Sum(NULL, reduce, none, none, each));
	TRY_CUB(rc, cub::DeviceScan::InclusiveSum(NULL, scan, none, none, each));
	b->temporary_bytes = ((reduce > scan ? reduce : scan) + 255) / 256 * 256;
	DO(rc, gpu_setup_alloc(b->setup, &b->temporary, GPU_TILES * b->temporary_bytes));
	DO(rc, gpu_setup_alloc(b->setup, &b->carry, GPU_TILES));
	DO(rc, gpu_setup_alloc(b->setup, &b->sums, tiles));
	DO(rc, gpu_setup_alloc_host(b->setup, &b->staged, tiles));
	for (unsigned t = 0; t < GPU_TILES; t++)
		DO(rc, gpu_setup_alloc(b->setup, &b->tiles[t], VECTORS * b->s->tile));
	return rc;
}

static int open_all(struct gpuvector *b)
{
	const struct gpu_settings *s = b->s;
	int rc = gpu_setup_map(b->setup, VECTORS * s->vector);

	DO(rc, gpu_setup_alloc_host(b->setup, &b->checked, s->threads));
	DO(rc, fth_team_run((unsigned)s->threads, fill_part, b));
	DO(rc, alloc_tiled(b));
	DO(rc, gpu_setup_pin(b->setup));
	DO(rc, gpu_setup_work(b->setup, s));
	DO(rc, gpu_setup_drive(b->setup, s->queues, 0));
	DO(rc, gpu_setup_cache(b->setup, s->cache, s->line, &b->cache));
	for (unsigned i = 0; rc == 0 && i < VECTORS; i++) {
		b->plain[i] = fth_gpu_source_plain(b->setup->medium.mapped + i * s->vector, b->n, 8,
						   (uint32_t)s->line);
		rc = gpu_setup_source(b->cache, i * s->vector, b->n, i < 2, &b->cached[i]);
	}
	return rc;
}

int gpuvector_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gpuvector b = {};
	int rc;

	b.s = s;
	b.setup = setup;
	b.n = s->vector / 8;
	rc = open_all(&b);
	for (int job = 0; rc == 0 && job < JOBS; job++)
		rc = measure_job(&b, (enum job)job, report);
	return rc;
}
