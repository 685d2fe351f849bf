/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a result is right, by what must hold for every edge: no algorithm of ours is asked. */
#ifndef FTH_BENCH_GPUGRAPH_CHECK_H
#define FTH_BENCH_GPUGRAPH_CHECK_H

#include "gpugraph.h"
#include "gpugraph_make.h"

/*
 * `values` of an algorithm in GPU memory, for an undirected graph; `count` is a word of GPU memory
 * to count in. -EILSEQ with a text. Ranks are not checked here.
 */
int gpugraph_check(const struct gpugraph_lists *lists, enum gpugraph_algorithm algorithm,
		   const void *values, uint64_t source, unsigned long long *count,
		   cudaStream_t stream);

#endif
