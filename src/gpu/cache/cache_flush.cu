/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernels that a cache needs for its host's side. */
#include "cache.h"

#include "base/cuda_error.h"
#include "fathom/gpu/flush.h"

#define FLUSH_BLOCKS  128u
#define FLUSH_THREADS 128u

__global__ static void __launch_bounds__(FLUSH_THREADS)
	write_lines(struct fth_gpu_cache_state *state, int32_t *rc)
{
	uint32_t warps = FLUSH_BLOCKS * FLUSH_THREADS / 32;
	int mine = fth_gpu_flush_part(state, fth_gpu_warp_(), warps);

	if (mine < 0 && fth_warp_lane() == 0)
		atomicCAS(rc, 0, mine);
}

__global__ static void flush_drive(struct fth_gpu_cache_state *state, int32_t *rc)
{
	int mine = fth_gpu_flush_drive(state);

	if (mine < 0 && fth_warp_lane() == 0)
		atomicCAS(rc, 0, mine);
}

/* All frames are free. Their versions go on, so that no reader takes a new line for an old one. */
__global__ static void free_frames(struct fth_gpu_cache_state *state)
{
	uint64_t f = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	for (; f < state->frames; f += (uint64_t)gridDim.x * blockDim.x)
		state->tags[f] = fth_gpu_tag_(
			FTH_GPU_TAG_FREE, (uint32_t)(state->tags[f] >> FTH_GPU_TAG_VERSION) + 1, 0);
}

/* Nothing can be loaded while the drive runs. */
int fth_gpu_cache_load_kernels(void)
{
	struct cudaFuncAttributes attributes;
	int rc = fth_gpu_check(cudaFuncGetAttributes(&attributes, write_lines), "loading kernels");

	if (rc == 0)
		rc = fth_gpu_check(cudaFuncGetAttributes(&attributes, flush_drive),
				   "loading kernels");
	if (rc == 0)
		rc = fth_gpu_check(cudaFuncGetAttributes(&attributes, free_frames),
				   "loading kernels");
	return rc;
}

cudaError_t fth_gpu_cache_launch_flush(struct fth_gpu_cache_state *state, int32_t *rc,
				       cudaStream_t stream)
{
	cudaError_t err;

	write_lines<<<FLUSH_BLOCKS, FLUSH_THREADS, 0, stream>>>(state, rc);
	err = cudaGetLastError();
	if (err != cudaSuccess)
		return err;
	flush_drive<<<1, 32, 0, stream>>>(state, rc);
	return cudaGetLastError();
}

cudaError_t fth_gpu_cache_launch_reset(struct fth_gpu_cache_state *state, cudaStream_t stream)
{
	free_frames<<<256, 256, 0, stream>>>(state);
	return cudaGetLastError();
}
