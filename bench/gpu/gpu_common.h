/* SPDX-License-Identifier: BSD-2-Clause */
/* What the benchmarks of GPU threads share: the GPU, host memory that it reaches, and a clock. */
#ifndef FTH_BENCH_GPU_COMMON_H
#define FTH_BENCH_GPU_COMMON_H

#include "gpu/cuda_error.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stddef.h>

/* Go on only while nothing has failed. */
#define TRY(rc, call)                                      \
	do {                                               \
		if ((rc) == 0)                             \
			(rc) = fth_gpu_check(call, #call); \
	} while (0)

/* Pinned memory of the host. */
struct gpu_pinned {
	char *host;
	char *mapped; /* as kernels see it */
	size_t bytes;
	bool registered;
	double seconds; /* that pinning took */
};

/*
 * The first GPU. Call it before anything else of CUDA: kernels can not be loaded while a drive's
 * controller runs, so all are loaded at once. -EOPNOTSUPP where there is none.
 */
int gpu_find(struct cudaDeviceProp *gpu);

/* Take memory, and pin it. After a failure gpu_unpin() is needed as well; it takes what is there. */
int gpu_map(struct gpu_pinned *p, size_t bytes);
int gpu_pin(struct gpu_pinned *p);
void gpu_unpin(struct gpu_pinned *p);

/* What a benchmark of kernels begins with: a GPU, pinned memory as the medium, and a clock. */
struct gpu_rig {
	struct cudaDeviceProp gpu;
	struct gpu_pinned medium;
	cudaStream_t stream;
	cudaEvent_t begin, end;
};

/* After a failure gpu_rig_close() is needed as well; it takes what is there. */
int gpu_rig_open(struct gpu_rig *rig, size_t medium);
void gpu_rig_close(struct gpu_rig *rig);

/* Wait for what was launched since `begin` was recorded on the stream, and say how long it took. */
int gpu_rig_elapsed(struct gpu_rig *rig, double *seconds);

#endif
