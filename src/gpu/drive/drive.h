/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside a GPU drive. drive.cu opens, starts, stops and closes, and has the controller on GPU
 * blocks as its back end; drive_service.cu is the other one, over service.c; drive_uri.cu chooses;
 * drive_memory.cu lays out and releases memory.
 */
#ifndef FTH_GPU_DRIVE_H
#define FTH_GPU_DRIVE_H

#include "ctrl.h"
#include "fathom/gpu.h"
#include "service.h"

/* A range of this process that CUDA knows, and where the GPU sees it. Zeroed: none. */
struct drive_range {
	void *host; /* page-aligned */
	size_t len;
	void *device;
};

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
	struct fth_gpu_ctrl_ssd ssds[FTH_GPU_SSDS_MAX];
	struct fth_nvme_qp_setup setups[FTH_GPU_QUEUES_MAX];
	struct fth_nvme_qp qps[FTH_GPU_QUEUES_MAX];
	struct fth_gpu_ctrl_count counts[FTH_GPU_QUEUES_MAX * FTH_GPU_CTRL_WARPS_MAX];
};

struct fth_gpu_drive;

/* What back ends differ in. */
struct fth_gpu_drive_ops {
	bool keeps_gpu; /* while it runs a kernel does: nothing can be allocated */
	int (*start)(struct fth_gpu_drive *drive); /* these two know whether it runs */
	int (*stop)(struct fth_gpu_drive *drive);
	void (*stats)(const struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats);
};

struct fth_gpu_drive {
	const struct fth_gpu_drive_ops *ops;
	struct fth_gpu_drive_options opts;
	uint32_t shift; /* of the rings */
	uint32_t block_shift;
	uint32_t ids;
	int device;
	bool running;
	bool stopping; /* it was told to stop, and still runs */
	struct fth_gpu_arena arena;
	struct fth_gpu_stage *stage;
	struct fth_gpu_ctrl ctrl;
	cudaStream_t run_stream;  /* the controller */
	cudaStream_t side_stream; /* all else */
	char *host;		  /* the medium in host memory, */
	size_t host_bytes;
	bool registered;		 /* known to CUDA, */
	char *mapped;			 /* and as kernels see it; or the medium in GPU memory */
	struct fth_gpu_service *service; /* NULL: on GPU blocks */
	struct drive_range *ranges;	 /* of the service's memory that CUDA knows */
	uint32_t range_count;
	struct drive_range slots;
};

/* ---- drive.cu ---- */

/* Wait for a stream with a deadline. */
int fth_gpu_drive_finish(cudaStream_t stream, uint64_t deadline, const char *what);

/* The deadline of what is asked of the drive now. */
uint64_t fth_gpu_drive_deadline(const struct fth_gpu_drive *drive);

/* Tell all waits of kernels that the drive is gone. */
int fth_gpu_drive_cancel(struct fth_gpu_drive *drive);

int fth_gpu_drive_make_streams(struct fth_gpu_drive *drive);

/*
 * Opening failed with rc, which is returned with its text: release and free everything. But a
 * controller that still runs still uses all of it: better lost than freed under it.
 */
int fth_gpu_drive_give_up(struct fth_gpu_drive *drive, int rc);

/* ---- drive_service.cu ---- */

int fth_gpu_drive_open_service(const char *uri, const struct fth_gpu_drive_options *opts,
			       struct fth_gpu_drive **out);

/* Take the service's memory from CUDA, then close it; the drive is stopped. */
int fth_gpu_drive_release_service(struct fth_gpu_drive *drive);

/* ---- drive_memory.cu ---- */

/* Where everything lies in an arena that starts at base; returns its bytes. */
size_t fth_gpu_arena_lay_out(struct fth_gpu_arena *arena, const struct fth_gpu_drive *drive,
			     char *base);

/* Both allocate for drive->opts. 0 or a negative errno; release takes what is there. */
int fth_gpu_drive_alloc_arena(struct fth_gpu_drive *drive);
int fth_gpu_drive_alloc_medium(struct fth_gpu_drive *drive);
int fth_gpu_drive_release(struct fth_gpu_drive *drive);

#endif
