/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_plain.h"

#include <stdbool.h>

static uint64_t degree(const struct graph_plain *graph, uint64_t v)
{
	return graph->offsets[v + 1] - graph->offsets[v];
}

/* ---- PageRank: each vertex pulls what its neighbours give ---- */

static double pull(const struct graph_plain *graph, uint64_t v, const float *give)
{
	double sum = 0;

	for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++)
		sum += (double)give[graph->neighbours[i]];
	return sum;
}

/* Returns the rank if the vertex has no neighbours, which is spread over all. */
static double settle(const struct graph_plain *graph, uint64_t v, double rank, double *ranks,
		     float *give)
{
	uint64_t n = degree(graph, v);

	ranks[v] = rank;
	give[v] = n ? (float)(rank / (double)n) : 0;
	return n ? 0 : rank;
}

void graph_plain_pagerank(const struct graph_plain *graph, unsigned iterations, double damping,
			  double *rank, float *give, float *next)
{
	double n = (double)graph->vertices, loose = 0;

	for (uint64_t v = 0; v < graph->vertices; v++)
		loose += settle(graph, v, 1 / n, rank, give);
	while (iterations-- > 0) {
		double base = (1 - damping) / n + damping * loose / n;
		float *swap = give;

		loose = 0;
		for (uint64_t v = 0; v < graph->vertices; v++)
			loose +=
				settle(graph, v, base + damping * pull(graph, v, give), rank, next);
		give = next;
		next = swap;
	}
}

/* ---- components: the smallest label spreads ---- */

static uint32_t smallest(const struct graph_plain *graph, uint64_t v, const uint32_t *label)
{
	uint32_t least = label[v];

	for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++) {
		uint32_t other = label[graph->neighbours[i]];

		least = other < least ? other : least;
	}
	return least;
}

unsigned graph_plain_components(const struct graph_plain *graph, uint32_t *label)
{
	unsigned sweeps = 0;
	bool changed = true;

	for (uint64_t v = 0; v < graph->vertices; v++)
		label[v] = (uint32_t)v;
	for (; changed; sweeps++) {
		changed = false;
		for (uint64_t v = 0; v < graph->vertices; v++) {
			uint32_t least = smallest(graph, v, label);

			if (least < label[v]) {
				label[v] = least;
				changed = true;
			}
		}
	}
	return sweeps;
}
