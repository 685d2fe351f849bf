/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpucache`: arrays seen through a cache in GPU memory. Hot lines against plain GPU
 * memory, cold ones against random blocks that are copied with no cache and no queue, in the same
 * run. gpucache_kernels.h has the kernels.
 */
#include "gpucache_kernels.h"
#include "gpu_setup.h"

#include <stdlib.h>
#include <string.h>

#define PER_BLOCK 256u
#define LINES	  2

/* Kernels through the cache, and the same on plain memory. */
enum { SEQUENTIAL, CURSOR, RANDOM, STREAM, GATHER, HOT_RUNS };

static const uint64_t line_sizes[LINES] = {4096, 512};

struct gpucache {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	uint64_t *plain; /* s->hot bytes of GPU memory with the same values */
	struct gpucache_report *report;
	uint64_t next; /* line: fresh ones for every run */
};

/* ---- memory ---- */

/* More than fit at once, so that the last ones to start are few beside all. */
static unsigned many_blocks(const struct gpucache *b)
{
	return 64 * (unsigned)b->setup->gpu.multiProcessorCount;
}

static int open_all(struct gpucache *b)
{
	int rc = gpu_setup_map(b->setup, b->s->medium);

	DO(rc, gpu_setup_pin(b->setup));
	DO(rc, gpu_setup_alloc(b->setup, &b->plain, b->s->hot / 8));
	DO(rc, gpu_setup_alloc(b->setup, &b->report, 1));
	if (rc < 0)
		return rc;
	gpucache_fill<<<many_blocks(b), PER_BLOCK, 0, b->setup->stream>>>(
		(uint64_t *)b->setup->medium.mapped, b->s->medium / 8);
	TRY(rc, cudaGetLastError());
	gpucache_fill<<<many_blocks(b), PER_BLOCK, 0, b->setup->stream>>>(b->plain, b->s->hot / 8);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	DO(rc, gpu_setup_drive(b->setup, b->s->queues, 0));
	return rc;
}

static void tell_registers(struct gpu_report *report)
{
	static const struct {
		const char *key;
		const void *kernel;
	} kernels[] = {{"registers_sequential", (const void *)gpucache_sequential},
		       {"registers_cursor", (const void *)gpucache_cursor<4096>},
		       {"registers_random", (const void *)gpucache_random},
		       {"registers_cold", (const void *)gpucache_cold_lines}};

	for (const auto &k : kernels) {
		struct cudaFuncAttributes attributes;

		if (cudaFuncGetAttributes(&attributes, k.kernel) == cudaSuccess)
			gpu_count(report, k.key, (uint64_t)attributes.numRegs);
	}
}

/* ---- one run ---- */

/* Launch, wait, and look at what the kernel told. */
static int timed(struct gpucache *b, const std::function<void()> &launch, double *seconds)
{
	struct gpucache_report report;
	int rc = 0;

	TRY(rc, cudaMemsetAsync(b->report, 0, sizeof(*b->report), b->setup->stream));
	TRY(rc, cudaEventRecord(b->setup->begin, b->setup->stream));
	if (rc < 0)
		return rc;
	launch();
	TRY(rc, cudaGetLastError());
	if (rc == 0)
		rc = gpu_setup_elapsed(b->setup, seconds);
	TRY(rc, cudaMemcpyAsync(&report, b->report, sizeof(report), cudaMemcpyDeviceToHost,
				b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	if (rc == 0 && report.failed)
		rc = fth_fail(-report.rc, "%llu threads failed, one with %s", report.failed,
			      strerror(-report.rc));
	if (rc == 0 && report.wrong)
		rc = fth_fail(EILSEQ, "%llu threads read wrong data", report.wrong);
	return rc;
}

static int misses(struct fth_gpu_cache *cache, uint64_t *n)
{
	struct fth_gpu_cache_stats stats;
	int rc = fth_gpu_cache_stats(cache, &stats);

	*n = stats.count[FTH_GPU_MISSES];
	return rc;
}

/* ---- hot ---- */

/* One kernel over hot lines, or its peer. */
static int run_hot(struct gpucache *b, const fth_gpu_array<uint64_t> &a, uint64_t seed,
		   unsigned which, double *seconds)
{
	unsigned blocks = many_blocks(b), gathering = (unsigned)(a.count / 4 / EACH / PER_BLOCK);
	struct gpucache_report *report = b->report;
	cudaStream_t s = b->setup->stream;
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

	return timed(b, runs[which], seconds);
}

/* Elements of 8 bytes a second. */
static int measure_hot(struct gpucache *b, struct fth_gpu_cache *cache,
		       const fth_gpu_array<uint64_t> &a, struct gpu_report *report)
{
	static const char *const names[HOT_RUNS] = {"sequential", "cursor", "random", "stream",
						    "raw_gather"};
	uint64_t gathered = a.count / 4 / EACH / PER_BLOCK * PER_BLOCK * EACH;
	double rates[HOT_RUNS], ignored[HOT_RUNS];
	uint64_t before = 0, after = 0, line = 1u << a.line_shift;
	int rc = 0;

	/* Brings all in, and shows that it is in use. */
	for (unsigned i = 0; rc == 0 && i < HOT_RUNS; i++)
		rc = run_hot(b, a, 1, i, &ignored[i]);
	DO(rc, misses(cache, &before));
	DO(rc, gpu_rounds(b->s, HOT_RUNS, rates, [&](unsigned i, unsigned round, double *rate) {
		   double seconds = 0;
		   int rc = run_hot(b, a, (round + 2) * 0x123456789ull, i, &seconds);

		   *rate = (double)(i == RANDOM || i == GATHER ? gathered : a.count) / seconds;
		   return rc;
	   }));
	DO(rc, misses(cache, &after));
	if (rc < 0)
		return rc;
	gpu_case(report);
	gpu_text(report, "case", "hot");
	gpu_count(report, "line", line);
	for (unsigned i = 0; i < HOT_RUNS; i++)
		gpu_number(report, names[i], rates[i]);
	gpu_number(report, "cursor_of_stream", rates[CURSOR] / rates[STREAM]);
	gpu_number(report, "random_of_raw", rates[RANDOM] / rates[GATHER]);
	gpu_count(report, "misses_while_hot", after - before);
	gpu_number(report, "metadata_per_line",
		   (double)fth_gpu_cache_metadata(cache) / (double)(b->s->hot / line));
	gpu_case_end(report);
	return 0;
}

/* ---- cold ---- */

/* Lines that nobody has read for long, each fetched, most in place of another. */
static int run_cold(struct gpucache *b, struct fth_gpu_cache *cache,
		    const fth_gpu_array<uint64_t> &a, uint64_t n, double *rate)
{
	uint64_t before = 0, after = 0;
	double seconds = 0;
	int rc = misses(cache, &before);

	DO(rc, timed(
		       b,
		       [&] {
			       gpucache_cold_lines<<<(unsigned)b->s->threads / PER_BLOCK, PER_BLOCK,
						     0, b->setup->stream>>>(a, b->next, n,
									    b->report);
		       },
		       &seconds));
	DO(rc, misses(cache, &after));
	if (rc == 0 && after - before != n)
		rc = fth_fail(EIO, "%llu of %llu lines were fetched",
			      (unsigned long long)(after - before), (unsigned long long)n);
	b->next += n;
	*rate = (double)n / seconds;
	return rc;
}

static int measure_cold(struct gpucache *b, struct fth_gpu_cache *cache,
			const fth_gpu_array<uint64_t> &a, double limit, struct gpu_report *report,
			double *rate)
{
	uint64_t n = (a.count >> (a.line_shift - 3)) / 4;
	struct fth_gpu_cache_stats stats;
	/* The first round only fills the cache. */
	int rc = run_cold(b, cache, a, n, rate);

	DO(rc, gpu_rounds(b->s, 1, rate, [&](unsigned, unsigned, double *value) {
		   return run_cold(b, cache, a, n, value);
	   }));
	DO(rc, fth_gpu_cache_stats(cache, &stats));
	if (rc < 0)
		return rc;
	gpu_case(report);
	gpu_text(report, "case", "cold");
	gpu_count(report, "line", 1u << a.line_shift);
	gpu_number(report, "cold", *rate);
	gpu_number(report, "raw_blocks", limit);
	gpu_number(report, "cold_of_raw", *rate / limit);
	gpu_count(report, "lines", n);
	gpu_count(report, "evictions", stats.count[FTH_GPU_EVICTIONS]);
	gpu_case_end(report);
	return 0;
}

/* ---- all of it ---- */

/* An array of `count` elements, 0: of all, through a new cache. */
static int open_array(struct gpucache *b, uint64_t bytes, uint64_t line, uint64_t count,
		      struct fth_gpu_cache **cache, fth_gpu_array<uint64_t> *a)
{
	struct fth_gpu_array_options opts = FTH_GPU_ARRAY_OPTIONS_INIT;
	int rc = gpu_setup_cache(b->setup, bytes, line, cache);

	opts.count = count;
	opts.readonly = true;
	return rc < 0 ? rc : fth_gpu_array_open(*cache, &opts, a);
}

static int measure_line(struct gpucache *b, uint64_t line, double limit, struct gpu_report *report,
			double *cold)
{
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint64_t> a;
	int rc = open_array(b, b->s->cold, line, 0, &cache, &a);

	DO(rc, measure_cold(b, cache, a, limit, report, cold));
	DO(rc, gpu_setup_close_caches(b->setup));
	DO(rc, open_array(b, b->s->hot, line, b->s->hot / 8, &cache, &a));
	DO(rc, measure_hot(b, cache, a, report));
	DO(rc, gpu_setup_close_caches(b->setup));
	return rc;
}

int gpucache_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gpucache b = {s, setup};
	double limits[2], cold[LINES];
	int rc = gpublock_limits(s->medium, s->cold, limits);

	DO(rc, open_all(&b));
	for (int i = 0; rc == 0 && i < LINES; i++)
		rc = measure_line(&b, line_sizes[i], limits[line_sizes[i] == 4096], report,
				  &cold[i]);
	if (rc < 0)
		return rc;
	tell_registers(report);
	gpu_sum(report, cold[0], limits[1]);
	return 0;
}
