/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpupattern`: GPU threads that read single elements, one after the other, with a
 * stride, anywhere, and some much more often than others; cold and hot, through a cache in GPU
 * memory, against reading host memory directly, and against blocks that are copied with no cache.
 */
#include "gpu_setup.h"

#include "base/team.h"

#define PATTERNS 4

struct gpupattern {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	double raw; /* lines a second that are copied with no cache */
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
		mine += gpu_word(fth_gpu_access_index(&accesses, j), 0) ^ j;
	atomicAdd(sum, (unsigned long long)mine);
}

static int expected(struct gpupattern *b, const struct fth_gpu_accesses *accesses, uint64_t *sum)
{
	cudaStream_t s = b->setup->stream;
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
	uint64_t *data = (uint64_t *)b->setup->medium.host, first, end;

	fth_team_part(b->s->medium / 8, 1, (unsigned)b->s->threads, thread, &first, &end);
	for (uint64_t i = first; i < end; i++)
		data[i] = gpu_word(i, 0);
	return 0;
}

/* ---- measuring ---- */

static int measure(struct gpupattern *b, const struct fth_gpu_source *from,
		   const struct fth_gpu_accesses *accesses, uint64_t known, double *seconds)
{
	uint64_t sum = 0;
	int rc = gpu_timed([&] { return fth_gpu_access_run(b->setup->work, from, accesses, &sum); },
			   seconds);

	if (rc == 0 && sum != known)
		rc = fth_fail(EILSEQ, "pattern %d: the data read differs from the data written",
			      (int)accesses->pattern);
	return rc;
}

/* Hot: everything is brought in and looked at before. Cold: nothing of it is there. */
static int prepare(struct gpupattern *b, bool hot)
{
	struct fth_gpu_accesses all = {FTH_GPU_SEQUENTIAL, b->s->hot / 8, b->s->hot / 8, 1, 0};
	int rc = fth_gpu_cache_empty(b->cache);
	uint64_t sum;

	for (unsigned i = 0; rc == 0 && hot && i < 2; i++)
		rc = fth_gpu_access_run(b->setup->work, &b->cached, &all, &sum);
	return rc;
}

/* Seconds of ours, zero copy and, if hot, plain GPU memory. */
static void tell(struct gpupattern *b, struct gpu_report *report, enum fth_gpu_pattern pattern,
		 bool hot, uint64_t n, uint64_t lines, const double *seconds)
{
	static const char *const names[PATTERNS] = {"sequential", "strided", "uniform", "zipf"};

	gpu_case(report);
	gpu_text(report, "pattern", names[pattern]);
	gpu_text(report, "how", hot ? "hot" : "cold");
	gpu_number(report, "ours", (double)n / seconds[0]);
	gpu_number(report, "zero_copy", (double)n / seconds[1]);
	gpu_number(report, "plain", hot ? (double)n / seconds[2] : 0);
	gpu_number(report, "ratio", seconds[1] / seconds[0]);
	/* What the lines that were read would have taken as raw blocks, over what they took. */
	gpu_number(report, "of_raw", (double)lines / seconds[0] / b->raw);
	gpu_number(report, "amplification", (double)(lines * b->s->line) / ((double)n * 8));
	gpu_count(report, "accesses", n);
	gpu_count(report, "bytes_read", lines * b->s->line);
	gpu_case_end(report);
	if (hot && pattern == PATTERNS - 1)
		gpu_sum(report, (double)n / seconds[0], (double)n / seconds[1]);
}

static int measure_case(struct gpupattern *b, enum fth_gpu_pattern pattern, bool hot,
			struct gpu_report *report)
{
	const struct gpu_settings *s = b->s;
	struct fth_gpu_accesses accesses = {pattern, hot ? s->hot_accesses : s->cold_accesses,
					    (hot ? s->hot : s->medium) / 8, s->stride / 8, 0};
	const struct fth_gpu_source *const from[] = {&b->cached, &b->zero_copy, &b->plain};
	struct fth_gpu_cache_stats before = {}, after = {};
	uint64_t known = 0;
	double seconds[3];
	int rc;

	/* Neighbours share lines: as many accesses as for the others would be over at once. */
	if (!hot && pattern == FTH_GPU_SEQUENTIAL)
		accesses.n = s->hot_accesses;
	rc = gpu_rounds(s, hot ? 3 : 2, seconds, [&](unsigned way, unsigned round, double *value) {
		int rc = 0;

		accesses.seed = (round + 1) * 0x123456789ull;
		if (way == 0) {
			DO(rc, expected(b, &accesses, &known));
			DO(rc, prepare(b, hot));
			DO(rc, fth_gpu_cache_stats(b->cache, &before));
		}
		DO(rc, measure(b, from[way], &accesses, known, value));
		if (way == 0)
			DO(rc, fth_gpu_cache_stats(b->cache, &after));
		return rc;
	});
	if (rc == 0)
		tell(b, report, pattern, hot, accesses.n,
		     after.count[FTH_GPU_READS] - before.count[FTH_GPU_READS], seconds);
	return rc;
}

/* ---- all of it ---- */

static int open_all(struct gpupattern *b)
{
	const struct gpu_settings *s = b->s;
	char *hot = NULL;
	int rc = gpu_setup_map(b->setup, s->medium);

	DO(rc, fth_team_run((unsigned)s->threads, fill_part, b));
	DO(rc, gpu_setup_alloc(b->setup, &b->sum, 1));
	DO(rc, gpu_setup_alloc_host(b->setup, &b->staged, 1));
	DO(rc, gpu_setup_pin(b->setup));
	/* The hot part once more, plainly. */
	DO(rc, gpu_setup_alloc(b->setup, &hot, s->hot));
	TRY(rc, cudaMemcpyAsync(hot, b->setup->medium.host, s->hot, cudaMemcpyHostToDevice,
				b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	DO(rc, gpu_setup_work(b->setup, s));
	DO(rc, gpu_setup_drive(b->setup, s->queues, 0));
	DO(rc, gpu_setup_cache(b->setup, s->cache, s->line, &b->cache));
	DO(rc, gpu_setup_source(b->cache, 0, s->medium / 8, true, &b->cached));
	b->zero_copy =
		fth_gpu_source_plain(b->setup->medium.mapped, s->medium / 8, 8, (uint32_t)s->line);
	b->plain = fth_gpu_source_plain(hot, s->hot / 8, 8, (uint32_t)s->line);
	return rc;
}

int gpupattern_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gpupattern b = {};
	double raw[2];
	int rc = gpublock_limits(s->medium, s->cache, raw);

	b.s = s;
	b.setup = setup;
	/* Longer lines take as long as their 4 KiB do. */
	b.raw = s->line > 512 ? raw[1] * 4096 / (double)s->line : raw[0];
	DO(rc, open_all(&b));
	for (int i = 0; rc == 0 && i < 2 * PATTERNS; i++)
		rc = measure_case(&b, (enum fth_gpu_pattern)(i / 2), i % 2, report);
	if (rc < 0)
		return rc;
	gpu_number(report, "raw_blocks_512", raw[0]);
	gpu_number(report, "raw_blocks_4096", raw[1]);
	gpu_count(report, "registers", (uint64_t)fth_gpu_work_registers(FTH_GPU_WORK_PATTERN));
	return 0;
}
