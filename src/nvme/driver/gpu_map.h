/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Let a GPU use the queue pairs of a drive itself: kernels put commands into the rings, ring the
 * doorbells and poll for completions with fathom/detail/nvme/queue.h, and no CPU is involved. For that
 * the GPU must reach the rings, which are host memory, and the doorbells, which are registers of
 * another PCI device. doc/gpu-nvme.md tells what else it takes.
 *
 * UNTESTED ON HARDWARE: it has been compiled, and never used with a drive. A test has GPU threads
 * use the software controller, whose doorbells are memory, and is skipped where there is no GPU.
 *
 * Built where nvcc is, as part of libfathom_cuda. Drives for GPU kernels (fathom/gpu.h) stand on
 * it.
 */
#ifndef FTH_NVME_GPU_MAP_H
#define FTH_NVME_GPU_MAP_H

#include "nvme/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A range of this process that CUDA knows, and where the GPU sees it. Zeroed: none. */
struct fth_nvme_gpu_range {
	void *host; /* page-aligned */
	size_t len;
	void *device;
};

/*
 * Make memory (`io` false: rings, PRP lists, buffers) or registers (`io` true: the doorbells of a
 * mapped BAR) reachable by the GPU. Widened to whole pages; range->device stands for `addr`
 * itself. 0; -EOPNOTSUPP where the GPU, its driver or the IOMMU can not; -EBUSY if CUDA knows part
 * of the range already; -ENOMEM; -EIO. Blocks. Any thread, with the device current that is to use
 * it.
 */
int fth_nvme_gpu_map(void *addr, size_t len, bool io, struct fth_nvme_gpu_range *range);

/* End that. No kernel uses it any more. Accepts a zeroed range. 0 or a negative errno. */
int fth_nvme_gpu_unmap(struct fth_nvme_gpu_range *range);

/* One queue pair as the GPU sees it, and what was registered for that. */
struct fth_nvme_gpu_qp {
	struct fth_nvme_qp *device; /* for kernels; in GPU memory */
	struct fth_nvme_gpu_range sq, cq, doorbells;
	void *memory; /* slots and ids, in GPU memory */
};

/*
 * Hand a queue pair of an open driver to the GPU: rings and doorbells are mapped, and a new host
 * side of it (ids, slots, ring positions) is made in GPU memory. From then on the CPU must leave
 * this queue pair alone; it must never have been used, so use drivers without a device on top.
 * `io`: its doorbells are registers of a drive, not memory. 0 or as above.
 *
 * A failure of the controller that the driver notices does not reach the GPU by itself: cancel.
 */
int fth_nvme_gpu_qp_open(const struct fth_nvme_qp *qp, bool io, struct fth_nvme_gpu_qp *gpu);

/* End every wait of kernels on it with -err, also while they run. Disable the controller first. */
int fth_nvme_gpu_qp_cancel(struct fth_nvme_gpu_qp *gpu, int err);

/* No kernel uses it any more. Accepts a zeroed one. 0, or the first error. */
int fth_nvme_gpu_qp_close(struct fth_nvme_gpu_qp *gpu);

#ifdef __cplusplus
}
#endif
#endif
