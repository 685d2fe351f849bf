/* SPDX-License-Identifier: BSD-2-Clause */
/* Graphs made by a GPU: the edges of graph/gen_edge.h, put into lists without a sort. */
#ifndef FTH_BENCH_GPUGRAPH_MAKE_H
#define FTH_BENCH_GPUGRAPH_MAKE_H

#include "apps/graph/gen.h"

#include <cuda_runtime_api.h>

struct gpugraph_lists {
	uint64_t vertices, edges;
	uint64_t *offsets;		 /* vertices + 1; all in GPU memory */
	uint32_t *edges_at, *weights_at; /* weights_at may be NULL */
};

/*
 * Edge e of `count` goes in both directions; loops are dropped, duplicates stay. lists->edges_at
 * and weights_at have room for 2 * count, offsets for vertices + 1. Lists are in no order.
 */
int gpugraph_make_lists(const struct fth_graph_gen *gen, uint64_t count, uint64_t seed,
			struct gpugraph_lists *lists, cudaStream_t stream);

#endif
