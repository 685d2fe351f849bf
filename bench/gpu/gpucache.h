/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench gpucache` measures with: kernels that use arrays through a cache in GPU
 * memory, and the same work without one. gpucache.cu where there is CUDA, gpucache_none.c where
 * not.
 */
#ifndef FTH_BENCH_GPUCACHE_H
#define FTH_BENCH_GPUCACHE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUCACHE_ROUNDS_MAX 9

struct gpucache_setup {
	uint64_t medium; /* bytes of host memory, a power of two */
	uint64_t hot;	 /* bytes that fit into the cache, a power of two */
	uint64_t cold;	 /* bytes of the cache that does not hold what is read */
	uint32_t queues, threads;
	unsigned rounds;
};

/* Kernels whose registers are told. */
enum gpucache_kernel {
	GPUCACHE_SEQUENTIAL, /* fth_gpu_get() of one element after the other */
	GPUCACHE_CURSOR,     /* whole lines, 16 bytes per lane */
	GPUCACHE_RANDOM,     /* fth_gpu_get() of elements anywhere */
	GPUCACHE_COLD,	     /* fth_gpu_get(), a line each */
	GPUCACHE_KERNELS
};

/* Elements of 8 bytes a second; medians. */
struct gpucache_hot {
	double rate[GPUCACHE_COLD]; /* by kernel */
	double stream, gather;	    /* the same bytes in plain GPU memory */
	uint64_t lines, metadata;
	uint64_t misses; /* during the runs: 0 if all was hot */
};

/* Lines a second, each of them fetched, most in place of another. */
struct gpucache_cold {
	double rate;
	uint64_t lines, evictions;
};

struct gpucache;

/* 0; -EOPNOTSUPP when there is no GPU or no CUDA in this build; other errors with a text. */
int gpucache_open(const struct gpucache_setup *setup, struct gpucache **bench);
void gpucache_close(struct gpucache *bench);
const char *gpucache_gpu(const struct gpucache *bench);
int gpucache_registers(enum gpucache_kernel kernel);

/* All check what they read; -EILSEQ when some was wrong. */
int gpucache_hot(struct gpucache *bench, uint32_t line, struct gpucache_hot *result);
int gpucache_cold(struct gpucache *bench, uint32_t line, struct gpucache_cold *result);

#ifdef __cplusplus
}
#endif
#endif
