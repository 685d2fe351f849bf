/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of `fathom bench gpugraph` share: gpugraph_make.cu makes graphs, gpugraph_check.cu
 * checks answers, gpugraph.cu measures. */
#ifndef FTH_BENCH_GPUGRAPH_H
#define FTH_BENCH_GPUGRAPH_H

#include "gpu/gpu_setup.h"

#include "graph/build/gen.h"

enum gpugraph_algorithm {
	GPUGRAPH_BFS_PUSH, /* as EMOGI and BaM */
	GPUGRAPH_BFS,	   /* in either direction */
	GPUGRAPH_CC,
	GPUGRAPH_PAGERANK,
	GPUGRAPH_SSSP,
	GPUGRAPH_ALGORITHMS
};

struct gpugraph_lists {
	uint64_t vertices, edges;
	uint64_t *offsets;		 /* vertices + 1; all in GPU memory */
	uint32_t *edges_at, *weights_at; /* weights_at may be NULL */
};

/*
 * The edges of graph/gen_edge.h, put into lists by the GPU without a sort. Edge e of `count` goes
 * in both directions; loops are dropped, duplicates stay. lists->edges_at and weights_at have room
 * for
 * 2 * count, offsets for vertices + 1. Lists are in no order.
 */
int gpugraph_make_lists(const struct fth_graph_gen *gen, uint64_t count, uint64_t seed,
			struct gpugraph_lists *lists, cudaStream_t stream);

/*
 * Is an answer right, by what must hold for every edge? No algorithm of ours is asked. `values` are
 * in GPU memory, the graph is undirected, `count` is a word of GPU memory to count in. -EILSEQ with
 * a text. Ranks are not checked here.
 */
int gpugraph_check(const struct gpugraph_lists *lists, enum gpugraph_algorithm algorithm,
		   const void *values, uint64_t source, unsigned long long *count,
		   cudaStream_t stream);

#endif
