/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of `fathom bench graph`: breadth-first search and PageRank over a plain pointer, which
 * leads into a mapped file. The algorithms are those of src/graph: the same sets of vertices, taken
 * in the same order by as many threads, the same sums.
 */
#ifndef FTH_BENCH_GRAPH_PEER_H
#define FTH_BENCH_GRAPH_PEER_H

#include "fathom/graph.h"

struct graph_peer {
	uint64_t vertices, edges;
	unsigned threads;
	uint64_t *offsets;	    /* in memory */
	const uint32_t *neighbours; /* mapped */
	void *map;
	size_t map_bytes;
};

/* Map the file of a graph. random: MADV_RANDOM, else the kernel's default. */
int graph_peer_open(struct graph_peer *peer, const char *path, const struct fth_graph_info *info,
		    bool random, unsigned threads);
/* Accepts a zeroed one. */
void graph_peer_close(struct graph_peer *peer);

/* Results as those of fth_graph_bfs() and fth_graph_pagerank(): free them the same way. */
int graph_peer_bfs(struct graph_peer *peer, uint32_t source, struct fth_graph_bfs *out);
int graph_peer_pagerank(struct graph_peer *peer, unsigned iterations,
			struct fth_graph_pagerank *out);

#endif
