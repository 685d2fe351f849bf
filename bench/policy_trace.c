/* SPDX-License-Identifier: BSD-2-Clause */
/* The traces of `fathom bench policy` that need no graph. */
#include "policy.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

void fth_policy_trace_add(struct fth_policy_trace *trace, uint64_t line)
{
	if (trace->n == trace->room) {
		size_t room = trace->room ? 2 * trace->room : 65536;
		uint32_t *lines = realloc(trace->lines, room * sizeof(*lines));

		if (!lines) {
			trace->error = -ENOMEM;
			return;
		}
		trace->lines = lines;
		trace->room = room;
	}
	trace->lines[trace->n++] = (uint32_t)line;
	if (line >= trace->universe)
		trace->universe = (uint32_t)line + 1;
}

void fth_policy_trace_free(struct fth_policy_trace *trace)
{
	free(trace->lines);
	*trace = (struct fth_policy_trace){0};
}

/* ---- zipf ---- */

/* Ranks 0 .. n-1 with probability proportional to 1 / (rank + 1)^s. */
struct zipf {
	double *sums;
	uint32_t n;
};

static bool zipf_init(struct zipf *zipf, uint32_t n, double s)
{
	double sum = 0;

	zipf->n = n;
	zipf->sums = malloc(n * sizeof(*zipf->sums));
	if (!zipf->sums)
		return false;
	for (uint32_t i = 0; i < n; i++)
		zipf->sums[i] = sum += pow(i + 1, -s);
	return true;
}

static uint32_t zipf_rank(const struct zipf *zipf, struct fth_rng *rng)
{
	double x = fth_rng_unit(rng) * zipf->sums[zipf->n - 1];
	uint32_t low = 0, high = zipf->n - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (zipf->sums[middle] > x)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/*
 * Popularity over ten times the cache. `kind` is the exponent; a negative one means that which
 * lines are popular changes eight times.
 */
static void make_zipf(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
		      double kind)
{
	struct fth_rng rng = {scale->seed};
	struct zipf zipf;
	uint32_t data = 10 * scale->frames;
	size_t phase = kind < 0 ? scale->accesses / 8 + 1 : scale->accesses;

	if (!zipf_init(&zipf, data, fabs(kind))) {
		trace->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < scale->accesses; i++) {
		uint64_t moved = zipf_rank(&zipf, &rng) + i / phase * (data / 8);

		fth_policy_trace_add(trace, moved % data);
	}
	free(zipf.sums);
}

/* ---- scans and loops ---- */

/*
 * Half of the accesses are popular (zipf 0.99 over as many lines as fit), the others scan eight
 * times as much. `kind` is how often the scan touches each line, close together.
 */
static void make_scan_hot(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			  double kind)
{
	struct fth_rng rng = {scale->seed};
	struct zipf zipf;
	size_t repeat = (size_t)kind;

	if (!zipf_init(&zipf, scale->frames, 0.99)) {
		trace->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < scale->accesses / 2; i++) {
		fth_policy_trace_add(trace, zipf_rank(&zipf, &rng));
		fth_policy_trace_add(trace, scale->frames + i / repeat % (8 * scale->frames));
	}
	free(zipf.sums);
}

/* Round and round over `kind` times as much as fits. */
static void make_loop(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
		      double kind)
{
	size_t lines = (size_t)(kind * scale->frames);

	for (size_t i = 0; i < scale->accesses; i++)
		fth_policy_trace_add(trace, i % lines);
}

/* Any line of four times as much as fits, touched `kind` times: reads, or reads and writes. */
static void make_uniform(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			 double kind)
{
	struct fth_rng rng = {scale->seed};

	for (size_t i = 0; i < scale->accesses / (size_t)kind; i++) {
		uint64_t line = fth_rng_below(&rng, 4 * (uint64_t)scale->frames);

		for (unsigned k = 0; k < (unsigned)kind; k++)
			fth_policy_trace_add(trace, line);
	}
}

/* Programs that follow each other on different data: a loop over 2 x, popular lines, another loop.
 */
static void make_phases(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			double kind)
{
	struct fth_policy_scale third = *scale;
	size_t begin[4] = {0};

	third.accesses /= 3;
	for (unsigned i = 0; i < 3; i++) {
		if (i == 1)
			make_zipf(trace, &third, 0.99);
		else
			make_loop(trace, &third, kind);
		begin[i + 1] = trace->n;
		for (size_t k = begin[i]; k < trace->n; k++)
			trace->lines[k] += i * 10 * scale->frames;
	}
	trace->universe = 30 * scale->frames;
}

/* ---- taxi ---- */

#define TAXI_COLUMNS 6
#define TAXI_ROWS    512 /* per line: 8-byte values, lines of 4 KiB */

/*
 * Queries Q0 to Q5, twice: each scans the distance column and, where a row is selected, reads one
 * column more than the query before. The same rows are selected each time. A quarter of all columns
 * fits. `kind` is the share of the rows that is selected.
 */
static void make_taxi(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
		      double kind)
{
	uint64_t lines = 4 * (uint64_t)scale->frames / TAXI_COLUMNS;
	double untouched = pow(1 - kind, TAXI_ROWS);

	for (unsigned q = 0; q < 2 * TAXI_COLUMNS; q++) {
		for (uint64_t line = 0; line < lines; line++) {
			struct fth_rng rng = {fth_mix64(scale->seed + line)};

			fth_policy_trace_add(trace, line);
			if (fth_rng_unit(&rng) < untouched)
				continue;
			for (unsigned column = 1; column <= q % TAXI_COLUMNS; column++)
				fth_policy_trace_add(trace, column * lines + line);
		}
	}
}

const struct fth_policy_workload fth_policy_workloads[] = {
	{"zipf 0.8", "popular lines among 10 x the cache", make_zipf, 0.8},
	{"zipf 0.99", "the same, steeper", make_zipf, 0.99},
	{"zipf 1.2", "the same, steeper still", make_zipf, 1.2},
	{"zipf drift", "zipf 0.99 whose popular lines change 8 times", make_zipf, -0.99},
	{"scan + hot", "half zipf over 1 x, half a scan of 8 x the cache", make_scan_hot, 1},
	{"slow scan", "the same, the scan touches each line 4 times", make_scan_hot, 4},
	{"loop 1.1", "round and round over 1.1 x the cache", make_loop, 1.1},
	{"loop 2", "2 x", make_loop, 2},
	{"loop 4", "4 x", make_loop, 4},
	{"phases", "a loop over 2 x, zipf 0.99, another loop", make_phases, 2},
	{"uniform", "any line of 4 x the cache", make_uniform, 1},
	{"gups", "any line of 4 x the cache, read and written", make_uniform, 2},
	{"bfs", "edge lines, 8 searches of a Kronecker graph, cache 1/4", fth_policy_make_bfs, 8},
	{"pagerank", "edge lines, 10 rounds, cache 1/4", fth_policy_make_pagerank, 0},
	{"pagerank all", "edge and rank lines, cache 1/4 of the edges", fth_policy_make_pagerank,
	 1},
	{"taxi 20", "Q0 to Q5, 0.47 % of the rows, cache 1/4", make_taxi, 0.0047},
	{"taxi 30", "Q0 to Q5, 0.03 % of the rows, cache 1/4", make_taxi, 0.0003},
	{0},
};
const unsigned fth_policy_workload_count =
	sizeof(fth_policy_workloads) / sizeof(fth_policy_workloads[0]) - 1;
