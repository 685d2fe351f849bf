/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside a GPU drive. drive.cu opens, starts, stops and closes; drive_memory.cu lays out and
 * releases its memory.
 */
#ifndef FTH_GPU_DRIVE_H
#define FTH_GPU_DRIVE_H

#include "ctrl.h"
#include "fathom/gpu.h"

/* Everything in GPU memory but the medium, in one piece. */
struct fth_gpu_arena {
	void *base;
	size_t bytes;
	struct fth_nvme_qp *qps;
	struct fth_gpu_order *order;
	struct fth_gpu_ctrl_queue *queues;
	struct fth_gpu_ctrl_ssd *ssds;
	struct fth_gpu_ctrl_control *control;
	struct fth_gpu_ctrl_count *counts;
	uint32_t *late;
	char *doorbells;    /* per queue pair two, each on a line of its own */
	char *memory;	    /* per queue pair: ids, slots, marks */
	size_t memory_each; /* bytes */
	char *sq, *cq;
};

/* What the side stream copies from and to: pinned, so that copies are asynchronous. */
struct fth_gpu_stage {
	struct fth_gpu_ctrl_control control;
	struct fth_gpu_order order;
	uint32_t one;
	uint32_t errors[FTH_GPU_QUEUES_MAX];
	struct fth_nvme_qp qps[FTH_GPU_QUEUES_MAX];
	struct fth_gpu_ctrl_count counts[FTH_GPU_QUEUES_MAX * FTH_GPU_CTRL_WARPS_MAX];
};

struct fth_gpu_drive {
	struct fth_gpu_drive_opts opts;
	uint32_t shift; /* of the rings */
	uint32_t ids;
	int device;
	bool running;
	struct fth_gpu_arena arena;
	struct fth_gpu_stage *stage;
	struct fth_gpu_ctrl ctrl;
	cudaStream_t run_stream;  /* the controller */
	cudaStream_t side_stream; /* all else */
	char *host;		  /* the medium in host memory, */
	size_t host_bytes;
	bool registered; /* known to CUDA, */
	char *mapped;	 /* and as kernels see it; or the medium in GPU memory */
};

/* Where everything lies in an arena that starts at base; returns its bytes. */
size_t fth_gpu_arena_lay_out(struct fth_gpu_arena *arena, const struct fth_gpu_drive *drive,
			     char *base);

/* Both allocate for drive->opts. 0 or a negative errno; release takes what is there. */
int fth_gpu_drive_alloc_arena(struct fth_gpu_drive *drive);
int fth_gpu_drive_alloc_medium(struct fth_gpu_drive *drive);
int fth_gpu_drive_release(struct fth_gpu_drive *drive);

#endif
