/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside a fth_gpu_work: its memory, and how kernels are launched. */
#ifndef FTH_WORKLOADS_GPU_WORK_INTERNAL_H
#define FTH_WORKLOADS_GPU_WORK_INTERNAL_H

#include "workloads/gpu_lines.h"

#include "workloads/taxi/gpu.h"
#include "base/cuda_error.h"

/* A chunk of a prefix sum. */
struct scan_chunk {
	uint64_t sum;	 /* of its elements */
	uint64_t prefix; /* of all up to its end */
	uint32_t told;	 /* enum scan_told: what of the two is there */
	uint32_t reserved;
};

/* A warp's part of the answer to a taxi query. */
struct taxi_part_sum {
	uint64_t trips;
	double columns[6];
};

struct fth_gpu_work {
	struct fth_gpu_work_options opts;
	cudaStream_t stream;
	struct work_state *state;	/* in GPU memory, as those below */
	struct work_state *taxi_states; /* of each slot */
	struct scan_chunk *chunks;
	struct taxi_part_sum *sums; /* of every warp, for each slot */
	void *stage;		    /* pinned: the state, or the sums */
	uint32_t warps;		    /* that there is room for in sums, for each slot, */
	uint32_t taxi_warps[FTH_GPU_TAXI_SLOTS]; /* and that have added to them */
};

/* Clear the state, launch, wait, and see whether a warp failed. */
int work_begin(struct fth_gpu_work *work);
int work_end(struct fth_gpu_work *work, const char *what, uint64_t *sum);

/* -EINVAL unless the arrays are as doc says: elements of 8 bytes, lines that suit. */
int work_check_source(const struct fth_gpu_source *source);

/*
 * The same for one that is written from another. Through a cache they are two: a line that is to be
 * overwritten is not there to be read, and the warp that waits for it has it.
 */
int work_check_target(const struct fth_gpu_source *to, const struct fth_gpu_source *from);

/* The kernels that use a cache, for their registers. */
const void *work_add_kernel(void);
const void *work_reduce_kernel(void);
const void *work_scan_kernel(void);
const void *work_pattern_kernel(void);
const void *work_taxi_kernel(void);

/* After work_check_source(). */
template <typename T>
static inline fth_gpu_direct<T> work_plain(const struct fth_gpu_source *source)
{
	return fth_gpu_direct_of<T>(source->plain, source->count * sizeof(T), source->line);
}

/* An empty handle for a source in plain memory. */
template <typename T>
static inline int work_cached(const struct fth_gpu_source *source, fth_gpu_array<T> *out)
{
	*out = fth_gpu_array<T>();
	return source->plain ? 0 : fth_gpu_array_wrap(source->array, out);
}

#endif
