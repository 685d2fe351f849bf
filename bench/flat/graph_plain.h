/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PageRank and connected components as a program has them whose graph fits into memory: one thread,
 * plain pointers.
 */
#ifndef FTH_BENCH_GRAPH_PLAIN_H
#define FTH_BENCH_GRAPH_PLAIN_H

#include <stdint.h>

/* An undirected graph: each edge is there in both directions. */
struct graph_plain {
	uint64_t vertices;
	const uint64_t *offsets; /* vertices + 1 */
	const uint32_t *neighbours;
};

/* rank, give and next have an element for each vertex; the latter two are for its own use. */
void graph_plain_pagerank(const struct graph_plain *graph, unsigned iterations, double damping,
			  double *rank, float *give, float *next);

/* Each label becomes the smallest vertex of the component. Returns the number of sweeps. */
unsigned graph_plain_components(const struct graph_plain *graph, uint32_t *label);

#endif
