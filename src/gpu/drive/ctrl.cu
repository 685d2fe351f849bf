/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller's kernel, and what the host needs of it. ctrl_work.h is what it does. */
#include "ctrl_work.h"

__global__ static void __launch_bounds__(32 * FTH_GPU_CTRL_WARPS_MAX) run(struct fth_gpu_ctrl ctrl)
{
	serve_queue(&ctrl, blockIdx.x);
}

/* ---- for the host ---- */

cudaError_t fth_gpu_ctrl_load(void)
{
	struct cudaFuncAttributes attributes;

	return cudaFuncGetAttributes(&attributes, run);
}

cudaError_t fth_gpu_ctrl_capacity(const struct fth_gpu_ctrl *ctrl, int device, uint32_t *blocks)
{
	int each = 0, processors = 0;
	cudaError_t err = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, run,
									(int)(32 * ctrl->warps), 0);

	if (err == cudaSuccess)
		err = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
	*blocks = (uint32_t)(each * processors);
	return err;
}

cudaError_t fth_gpu_ctrl_launch(const struct fth_gpu_ctrl *ctrl, cudaStream_t stream)
{
	run<<<ctrl->queue_count, 32 * ctrl->warps, 0, stream>>>(*ctrl);
	return cudaGetLastError();
}
