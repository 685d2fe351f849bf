/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files for GPUs in this folder share. gpu.cu says which file does what. */
#ifndef FATHOM_SRC_PM_GPU_GPU_INTERNAL_H
#define FATHOM_SRC_PM_GPU_GPU_INTERNAL_H

#include "base/cuda_error.h"
#include "fathom/pm/gpu.h"
#include "pm/areas/log_internal.h"
#include "pm/pm_internal.h"

/* Host memory that CUDA knows. */
struct pm_gpu_range {
	uint8_t *host, *device;
	uint64_t bytes;
};

struct fth_gpu_pm {
	struct fth_pm *pm;
	struct pm_gpu_range memory;	/* header and all */
	struct pm_gpu_range control;	/* and marks */
	struct fth_pm_mirror *mirror;	/* GPU memory */
	struct fth_pm_view view;	/* for kernels */
	pthread_mutex_t lock;		/* guards scratch */
	struct pm_gpu_scratch *scratch; /* that no checkpoint uses now */
};

/*
 * GPU memory for the checksums of a checkpoint. A save or restore has one for itself while it runs.
 */
struct pm_gpu_scratch {
	struct pm_gpu_scratch *next;
	uint64_t *sums;
	uint64_t bytes;
};

/* Release all scratch memory; the first error. */
int pm_gpu_scratch_free(struct fth_gpu_pm *gpu);

#endif
