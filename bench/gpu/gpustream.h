/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench gputaxi`, `gpuvector` and `gpupattern` measure with: workloads over arrays on
 * a GPU, through a cache and by their peers. gputaxi.cu, gpuvector.cu and gpupattern.cu where there
 * is CUDA, gpustream_none.c where not. Each runs everything, checks every answer, and returns 0,
 * -EOPNOTSUPP when there is no GPU or no CUDA in this build, -EILSEQ for a wrong answer, -EINTR, or
 * another error with a text. Times are medians, in seconds.
 */
#ifndef FTH_BENCH_GPUSTREAM_H
#define FTH_BENCH_GPUSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUSTREAM_ROUNDS_MAX 9
#define GPUSTREAM_NAME	     64

/* What all three are told. */
struct gpustream_setup {
	uint64_t cache; /* bytes of GPU memory */
	uint32_t line;
	uint32_t queues;
	uint32_t blocks, ahead; /* of the kernels; see apps/micro/gpu_work.h */
	unsigned rounds;
	unsigned threads; /* of the CPU, where it has work */
	bool (*stopped)(void);
};

/* ---- taxi ---- */

#define GPUTAXI_QUERIES 6
#define GPUTAXI_BOUNDS	2
#define GPUTAXI_CELLS	(GPUTAXI_QUERIES * GPUTAXI_BOUNDS)

struct gputaxi_setup {
	struct gpustream_setup base; /* cache and line: of the columns that are looked at rarely */
	uint64_t scan_cache;
	uint32_t scan_line;
	uint64_t rows, seed;
	uint64_t tile; /* rows that the peer moves at once */
};

struct gputaxi_cell {
	unsigned query;
	double miles;
	uint64_t trips;
	double dollars_per_mile;
	double ours, whole; /* through the cache; whole columns moved by the copy engine */
	double staged;	  /* whole columns, copied to pinned memory by the CPU first; 0: not run */
	double zero_copy; /* our kernel straight on host memory */
	uint64_t bytes_useful, bytes_read, requests, bytes_whole;
};

struct gputaxi_result {
	char gpu[GPUSTREAM_NAME];
	int registers;
	struct gputaxi_cell cells[GPUTAXI_CELLS];
};

int gputaxi_run(const struct gputaxi_setup *setup, struct gputaxi_result *result);

/* ---- vectors ---- */

enum gpuvector_job { GPUVECTOR_ADD, GPUVECTOR_REDUCE, GPUVECTOR_SCAN, GPUVECTOR_JOBS };

struct gpuvector_setup {
	struct gpustream_setup base;
	uint64_t bytes; /* of each vector */
	uint64_t tile;	/* bytes that the peer moves at once */
};

struct gpuvector_cell {
	double ours, tiled, zero_copy;
	uint64_t bytes_read, bytes_written; /* by ours */
	uint64_t bytes_least_read, bytes_least_written;
	int registers;
};

struct gpuvector_result {
	char gpu[GPUSTREAM_NAME];
	struct gpuvector_cell cells[GPUVECTOR_JOBS];
};

int gpuvector_run(const struct gpuvector_setup *setup, struct gpuvector_result *result);

/* ---- patterns ---- */

#define GPUPATTERN_PATTERNS 4

struct gpupattern_setup {
	struct gpustream_setup base;
	uint64_t medium; /* bytes that cold accesses choose from */
	uint64_t hot;	 /* bytes that hot ones choose from; fits into the cache */
	uint64_t cold_accesses, hot_accesses;
	uint64_t stride; /* bytes */
};

struct gpupattern_cell {
	uint64_t accesses;
	double ours, zero_copy;
	double plain; /* the same in GPU memory; 0 for cold ones */
	uint64_t lines_read;
};

struct gpupattern_result {
	char gpu[GPUSTREAM_NAME];
	int registers;
	struct gpupattern_cell cold[GPUPATTERN_PATTERNS], hot[GPUPATTERN_PATTERNS];
};

int gpupattern_run(const struct gpupattern_setup *setup, struct gpupattern_result *result);

#ifdef __cplusplus
}
#endif
#endif
