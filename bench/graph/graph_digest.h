/* SPDX-License-Identifier: BSD-2-Clause */
/* Results in a few numbers, so that those of two processes can be compared, by bench_graph.py. */
#ifndef FTH_BENCH_GRAPH_DIGEST_H
#define FTH_BENCH_GRAPH_DIGEST_H

#include "fathom/graph.h"

#define GRAPH_DIGEST_SAMPLES 1024

struct graph_digest {
	uint64_t depths;  /* the sum of a hash of each vertex and its depth, over all searches */
	uint64_t reached; /* vertices, over all searches */
	uint64_t bad_parents; /* vertices whose way to the source does not end */
	double weighted;      /* the sum of all ranks, each times a number of its own */
	double sum;	      /* of the ranks */
	double sample[GRAPH_DIGEST_SAMPLES];
};

/* Add a search. 0 or -ENOMEM. */
int graph_digest_bfs(struct graph_digest *digest, uint64_t vertices,
		     const struct fth_graph_bfs *tree);
void graph_digest_ranks(struct graph_digest *digest, uint64_t vertices,
			const struct fth_graph_pagerank *ranks);

#endif
