/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller's kernel, and what the host needs of it. ctrl_work.h is what it does. */
#include "ctrl_work.h"

__global__ static void __launch_bounds__(32 * FTH_GPU_CTRL_WARPS_MAX) run(struct fth_gpu_ctrl ctrl)
{
	static __shared__ struct shared shared;
	struct worker w = {};

	if (threadIdx.x == 0) {
		shared.claimed = 0;
		shared.consumed = 0;
		shared.heads = 0;
	}
	__syncthreads();
	w.ctrl = &ctrl;
	w.queue = ctrl.queues[blockIdx.x];
	w.ssd = &ctrl.ssds[w.queue.ssd];
	w.shared = &shared;
	w.lane = threadIdx.x % 32;
	w.number = blockIdx.x * ctrl.warps + threadIdx.x / 32;
	if (w.lane == 0)
		fth_add_relaxed_dev32(&ctrl.control->up, 1);
	work(&w);
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
