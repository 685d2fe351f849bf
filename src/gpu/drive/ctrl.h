/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software controller on GPU blocks: what it is given, and its kernel. One block serves one
 * queue pair with one or more warps. README.md tells how.
 */
#ifndef FTH_GPU_CTRL_H
#define FTH_GPU_CTRL_H

#include "fathom/detail/nvme/spec.h"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

#define FTH_GPU_PIECE_SHIFT    9   /* a warp moves 512 bytes at once, 16 for each lane */
#define FTH_GPU_TRANSFER_MAX   256 /* of these pieces in one command */
#define FTH_GPU_CTRL_WARPS_MAX 16

/* One queue pair as the controller sees it. Only read. */
struct fth_gpu_ctrl_queue {
	const struct fth_nvme_sqe *sq;
	struct fth_nvme_cqe *cq;
	uint32_t *sq_doorbell;
	uint32_t *cq_doorbell;
	uint32_t sq_shift;
	uint32_t cq_shift;
	uint32_t qid;
	uint32_t ssd;
};

/* How fast one kind of command is; all 0: at once. Costs are in units of 1/16 ns. */
struct fth_gpu_ctrl_speed {
	uint64_t latency_ns;
	uint64_t cost_512;
	uint64_t cost_4k;
};

struct fth_gpu_ctrl_ssd {
	char *medium;	 /* NULL: commands are answered, and move nothing */
	uint64_t blocks; /* of 1 << block_shift bytes */
	struct fth_gpu_ctrl_speed read, write;
	uint64_t flush_ns;
	/* When the next command's turn in the rate is, in 1/16 ns; changed by all its warps. */
	uint64_t read_turn __attribute__((aligned(64)));
	uint64_t write_turn __attribute__((aligned(64)));
};

/* What one warp of the controller has done. Only that warp writes here. */
struct fth_gpu_ctrl_count {
	uint64_t commands;
	uint64_t batches;
	uint64_t blocks_read;
	uint64_t blocks_written;
	uint64_t flushes;
	uint64_t errors; /* commands that ended with a status */
} __attribute__((aligned(64)));

/* What kernel and host tell each other, in GPU memory. */
struct fth_gpu_ctrl_control {
	uint32_t stop;	 /* written by the host */
	uint32_t up;	 /* warps that have started */
	uint32_t broken; /* 0, or 1 + the queue whose doorbell made no sense */
};

struct fth_gpu_ctrl {
	const struct fth_gpu_ctrl_queue *queues;
	struct fth_gpu_ctrl_ssd *ssds;
	struct fth_gpu_ctrl_control *control;
	struct fth_gpu_ctrl_count *counts; /* per warp */
	uint32_t *late;			   /* per warp; NULL: data comes before its completion */
	uint32_t queue_count;
	uint32_t warps;	      /* per queue pair */
	uint32_t batch;	      /* commands a warp takes at once, 1 to 32 */
	uint32_t block_shift; /* of all SSDs, 9 to 13 */
	uint32_t host_medium;
	uint32_t modelled; /* speeds matter */
	uint64_t late_ns;
};

#ifdef __CUDACC__
/* Make sure that the kernel is loaded: nothing can be, once it runs. */
cudaError_t fth_gpu_ctrl_load(void);

/* How many blocks of so many warps fit into this GPU at once. */
cudaError_t fth_gpu_ctrl_capacity(const struct fth_gpu_ctrl *ctrl, int device, uint32_t *blocks);

/* Launch it; it ends after control->stop was set. */
cudaError_t fth_gpu_ctrl_launch(const struct fth_gpu_ctrl *ctrl, cudaStream_t stream);
#endif

#endif
