/* SPDX-License-Identifier: BSD-2-Clause */
/* The traces of `fathom bench policy`. */
#include "policy.h"

#include "apps/graph/gen.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- graph ---- */

#define EDGES_PER_VERTEX 16
#define EDGES_PER_LINE	 512 /* 8-byte values, lines of 4 KiB */
#define SEARCHES	 8

struct graph {
	uint32_t vertices;
	uint64_t edges;	   /* each in both directions */
	uint64_t *offsets; /* vertices + 1 */
	uint32_t *targets, *pairs;
};

/* A Kronecker graph with the GAP benchmark's parameters; a counting sort of its edges. */
static bool graph_make(struct graph *g, const struct fth_policy_scale *scale)
{
	struct fth_graph_gen gen;

	g->vertices = (uint32_t)1 << scale->graph;
	g->edges = (uint64_t)2 * EDGES_PER_VERTEX * g->vertices;
	g->offsets = calloc((size_t)g->vertices + 1, sizeof(*g->offsets));
	g->targets = malloc(g->edges * sizeof(*g->targets));
	g->pairs = malloc(g->edges * sizeof(*g->pairs));
	if (!g->offsets || !g->targets || !g->pairs)
		return false;
	fth_graph_gen_init(&gen, FTH_GRAPH_KRONECKER, scale->graph, scale->seed);
	for (uint64_t e = 0; e < g->edges; e += 2)
		fth_graph_gen_edge(&gen, e / 2, &g->pairs[e], &g->pairs[e + 1]);
	for (uint64_t i = 0; i < g->edges; i++)
		g->offsets[g->pairs[i] + 1]++;
	for (uint32_t v = 0; v < g->vertices; v++)
		g->offsets[v + 1] += g->offsets[v];
	for (uint64_t i = 0; i < g->edges; i++)
		g->targets[g->offsets[g->pairs[i]]++] = g->pairs[i ^ 1];
	/* Each offset is now where the next one began. */
	memmove(g->offsets + 1, g->offsets, g->vertices * sizeof(*g->offsets));
	g->offsets[0] = 0;
	return true;
}

/* A vertex's edges, line by line; a line that the vertex before ended in is still in hand. */
static void touch_edges(struct fth_policy_trace *trace, const struct graph *g, uint32_t v)
{
	uint64_t first = g->offsets[v] / EDGES_PER_LINE, end = g->offsets[v + 1];

	if (g->offsets[v] == end)
		return;
	for (uint64_t line = first; line <= (end - 1) / EDGES_PER_LINE; line++)
		if (!trace->n || trace->lines[trace->n - 1] != line)
			fth_policy_trace_add(trace, line);
}

/* Top-down search from one vertex: the frontier in the order in which it was found. */
static void search(struct fth_policy_trace *trace, const struct graph *g, uint32_t root,
		   uint32_t *queue, uint8_t *seen)
{
	uint32_t head = 0, tail = 0;

	memset(seen, 0, g->vertices);
	seen[root] = 1;
	queue[tail++] = root;
	while (head < tail) {
		uint32_t v = queue[head++];

		touch_edges(trace, g, v);
		for (uint64_t e = g->offsets[v]; e < g->offsets[v + 1]; e++) {
			if (seen[g->targets[e]])
				continue;
			seen[g->targets[e]] = 1;
			queue[tail++] = g->targets[e];
		}
	}
}

/* Searches from vertices that have edges; the cache holds a quarter of the edges. */
static void make_bfs(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
		     double kind)
{
	struct fth_rng rng = {scale->seed + 1};
	struct graph g = {0};
	uint32_t *queue = NULL;
	uint8_t *seen = NULL;

	(void)kind;
	if (!graph_make(&g, scale) || !(queue = malloc(g.vertices * sizeof(*queue))) ||
	    !(seen = malloc(g.vertices)))
		trace->error = -ENOMEM;
	trace->frames = (uint32_t)(g.edges / EDGES_PER_LINE / 4);
	for (unsigned i = 0; trace->error == 0 && i < SEARCHES;) {
		uint32_t root = (uint32_t)fth_rng_below(&rng, g.vertices);

		if (g.offsets[root] == g.offsets[root + 1])
			continue;
		search(trace, &g, root, queue, seen);
		i++;
	}
	free(queue);
	free(seen);
	free(g.offsets);
	free(g.targets);
	free(g.pairs);
}

const struct fth_policy_workload fth_policy_workloads[] = {
	{"zipf", "popular lines (exponent 0.99) among 10 x the cache", make_zipf, 0.99},
	{"zipf drift", "the same; which lines are popular changes 8 times", make_zipf, -0.99},
	{"scan + hot", "half zipf over 1 x, half a scan of 8 x the cache", make_scan_hot, 1},
	{"slow scan", "the same, the scan touches each line 4 times", make_scan_hot, 4},
	{"loop 2", "round and round over 2 x the cache", make_loop, 2},
	{"loop 4", "4 x: PageRank over edges, cache 1/4", make_loop, 4},
	{"bfs", "edge lines, 8 searches of a Kronecker graph, cache 1/4", make_bfs, 0},
	{"taxi", "Q0 to Q5, 0.47 % of the rows, cache 1/4", make_taxi, 0.0047},
	{0},
};
const unsigned fth_policy_workload_count =
	sizeof(fth_policy_workloads) / sizeof(fth_policy_workloads[0]) - 1;
