/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside a cache in GPU memory: the host's part. */
#ifndef FTH_GPU_CACHE_INTERNAL_H
#define FTH_GPU_CACHE_INTERNAL_H

#include "gpu/drive/drive.h"
#include "fathom/gpu/cache.h"

/* Pinned: what copies come from and go to. */
struct fth_gpu_cache_stage {
	struct fth_gpu_cache_state state;
	int32_t flush_rc;
};

struct fth_gpu_cache {
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache_options opts;
	struct fth_gpu_cache_state *state; /* in GPU memory */
	void *data;			   /* the lines, before they are aligned */
	int32_t *flush_rc;		   /* there as well: the first error, or 0 */
	struct fth_gpu_cache_stage *stage;
	cudaStream_t stream;
	uint32_t arrays;
	uint64_t metadata;
	void *words[FTH_GPU_ARRAYS_MAX];
	uint64_t lines[FTH_GPU_ARRAYS_MAX];
};

/* cache_flush.cu */
int fth_gpu_cache_load_kernels(void);
cudaError_t fth_gpu_cache_launch_flush(struct fth_gpu_cache_state *state, int32_t *rc,
				       cudaStream_t stream);
cudaError_t fth_gpu_cache_launch_reset(struct fth_gpu_cache_state *state, cudaStream_t stream);

#endif
