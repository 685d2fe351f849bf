/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench gpugraph` measures with: a graph made on the GPU, its edges in pinned host
 * memory, read through a cache or straight. gpugraph.cu where there is CUDA, gpugraph_none.c where
 * not.
 */
#ifndef FTH_BENCH_GPUGRAPH_H
#define FTH_BENCH_GPUGRAPH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUGRAPH_ROUNDS_MAX 9

enum gpugraph_kind { GPUGRAPH_KRONECKER, GPUGRAPH_UNIFORM, GPUGRAPH_KINDS };

enum gpugraph_algorithm {
	GPUGRAPH_BFS_PUSH, /* as EMOGI and BaM */
	GPUGRAPH_BFS,	   /* in either direction */
	GPUGRAPH_CC,
	GPUGRAPH_PAGERANK,
	GPUGRAPH_SSSP,
	GPUGRAPH_ALGORITHMS
};

struct gpugraph_setup {
	unsigned scale;	 /* 2^scale vertices */
	unsigned degree; /* edges per vertex; each goes in both directions */
	uint32_t line;	 /* bytes; 0: what suits the algorithm */
	uint32_t queues, warps;
	unsigned share;	     /* the cache has 1 / share of the bytes */
	unsigned rounds;     /* medians are of */
	unsigned iterations; /* of PageRank */
	bool weighted;	     /* shortest paths as well */
};

/* Seconds; medians. */
struct gpugraph_result {
	double cached, zero_copy;
	double hbm;	     /* edges in GPU memory: what computing takes */
	double hot;	     /* through a cache that holds everything, once it does */
	uint32_t line;	     /* bytes */
	uint64_t cache;	     /* bytes */
	uint64_t bytes_read; /* by one run through the cache */
	uint64_t bytes;	     /* that the edges have, with weights if they are read */
	uint64_t rounds;     /* levels, sweeps, iterations of it */
	uint64_t answer;     /* vertices reached, or components */
};

struct gpugraph;

/* 0; -EOPNOTSUPP when there is no GPU or no CUDA in this build; other errors with a text. */
int gpugraph_open(const struct gpugraph_setup *setup, struct gpugraph **bench);
void gpugraph_close(struct gpugraph *bench);
const char *gpugraph_gpu(const struct gpugraph *bench);

/* Make a graph, in place of the last one. */
int gpugraph_make(struct gpugraph *bench, enum gpugraph_kind kind);
uint64_t gpugraph_edges(const struct gpugraph *bench);

/* Measure one; -EILSEQ when results differ between the ways to get edges. */
int gpugraph_run(struct gpugraph *bench, enum gpugraph_algorithm algorithm,
		 struct gpugraph_result *result);

/* Registers per thread of its kernel. */
int gpugraph_registers(enum gpugraph_algorithm algorithm);

#ifdef __cplusplus
}
#endif
#endif
