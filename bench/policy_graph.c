/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traces of graph algorithms: which lines of the edge array a search or a rank computation touches.
 * The graph is a Kronecker graph with the GAP benchmark's parameters (Beamer, Asanovic, Patterson,
 * 2015: A 0.57, B 0.19, C 0.19, 16 edges per vertex, both directions kept), its vertices shuffled.
 */
#include "policy.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_PER_VERTEX 16
#define PER_LINE	 512 /* 8-byte values, lines of 4 KiB */
#define RANK_ROUNDS	 10

struct graph {
	uint32_t vertices;
	uint64_t edges;
	uint64_t *offsets; /* vertices + 1 */
	uint32_t *targets;
	uint32_t *pairs; /* 2 * edges / 2, while it is made */
};

static void graph_free(struct graph *g)
{
	free(g->offsets);
	free(g->targets);
	free(g->pairs);
}

static uint32_t shuffled(uint32_t vertex, unsigned scale, uint64_t seed)
{
	uint32_t mask = ((uint32_t)1 << scale) - 1;

	/* Steps that each can be undone, so two vertices never become one. */
	for (unsigned i = 0; i < 3; i++) {
		vertex = (vertex * 0x9e3779b1u + (uint32_t)fth_mix64(seed + i)) & mask;
		vertex ^= vertex >> (scale / 2 + 1);
	}
	return vertex;
}

static void make_pairs(struct graph *g, const struct fth_policy_scale *scale)
{
	struct fth_rng rng = {scale->seed};

	for (uint64_t e = 0; e < g->edges / 2; e++) {
		uint32_t from = 0, to = 0;

		for (unsigned bit = 0; bit < scale->graph; bit++) {
			uint64_t x = fth_rng_below(&rng, 100);

			from = from << 1 | (x >= 76);
			to = to << 1 | ((x >= 57 && x < 76) || x >= 95);
		}
		g->pairs[2 * e] = shuffled(from, scale->graph, scale->seed);
		g->pairs[2 * e + 1] = shuffled(to, scale->graph, scale->seed);
	}
}

/* Counting sort of the pairs, each in both directions. */
static void sort_pairs(struct graph *g)
{
	for (uint64_t i = 0; i < g->edges; i++)
		g->offsets[g->pairs[i] + 1]++;
	for (uint32_t v = 0; v < g->vertices; v++)
		g->offsets[v + 1] += g->offsets[v];
	for (uint64_t i = 0; i < g->edges; i++)
		g->targets[g->offsets[g->pairs[i]]++] = g->pairs[i ^ 1];
	/* Each offset is now where the next one began. */
	memmove(g->offsets + 1, g->offsets, g->vertices * sizeof(*g->offsets));
	g->offsets[0] = 0;
}

static bool graph_init(struct graph *g, const struct fth_policy_scale *scale)
{
	g->vertices = (uint32_t)1 << scale->graph;
	g->edges = (uint64_t)2 * EDGES_PER_VERTEX * g->vertices;
	g->offsets = calloc((size_t)g->vertices + 1, sizeof(*g->offsets));
	g->targets = malloc(g->edges * sizeof(*g->targets));
	g->pairs = malloc(g->edges * sizeof(*g->pairs));
	if (!g->offsets || !g->targets || !g->pairs)
		return false;
	make_pairs(g, scale);
	sort_pairs(g);
	return true;
}

static uint32_t quarter_of_edges(const struct graph *g)
{
	return (uint32_t)(g->edges / PER_LINE / 4);
}

/* A vertex's edges, line by line; a line that the vertex before ended in is still in hand. */
static void touch_edges(struct fth_policy_trace *trace, const struct graph *g, uint32_t v)
{
	uint64_t first = g->offsets[v] / PER_LINE, end = g->offsets[v + 1];

	if (g->offsets[v] == end)
		return;
	for (uint64_t line = first; line <= (end - 1) / PER_LINE; line++)
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

/* `kind` searches, from vertices that have edges. */
void fth_policy_make_bfs(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			 double kind)
{
	struct fth_rng rng = {scale->seed + 1};
	struct graph g = {0};
	uint32_t *queue = NULL;
	uint8_t *seen = NULL;

	if (!graph_init(&g, scale) || !(queue = malloc(g.vertices * sizeof(*queue))) ||
	    !(seen = malloc(g.vertices)))
		trace->error = -ENOMEM;
	trace->frames = quarter_of_edges(&g);
	for (unsigned i = 0; trace->error == 0 && i < (unsigned)kind;) {
		uint32_t root = (uint32_t)fth_rng_below(&rng, g.vertices);

		if (g.offsets[root] == g.offsets[root + 1])
			continue;
		search(trace, &g, root, queue, seen);
		i++;
	}
	free(queue);
	free(seen);
	graph_free(&g);
}

/*
 * Each round reads all edges in order. With `kind` 1 the ranks that the edges lead to come through
 * the cache as well, one access per edge; the rank lines follow the edge lines.
 */
void fth_policy_make_pagerank(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			      double kind)
{
	struct graph g = {0};
	uint64_t ranks;

	if (!graph_init(&g, scale))
		trace->error = -ENOMEM;
	trace->frames = quarter_of_edges(&g);
	ranks = g.edges / PER_LINE;
	for (unsigned round = 0; trace->error == 0 && round < RANK_ROUNDS; round++) {
		for (uint64_t e = 0; e < g.edges; e++) {
			if (e % PER_LINE == 0)
				fth_policy_trace_add(trace, e / PER_LINE);
			if (kind > 0 && e % 16 == 0)
				fth_policy_trace_add(trace, ranks + g.targets[e] / PER_LINE);
		}
	}
	graph_free(&g);
}
