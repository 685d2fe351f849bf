/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files for GPUs in this folder share. gpu.cu says which file does what. */
#ifndef FTH_PM_GPU_INTERNAL_H
#define FTH_PM_GPU_INTERNAL_H

#include "base/cuda_error.h"
#include "fathom/pm/gpu.h"
#include "log_internal.h"
#include "pm_internal.h"

/* Host memory that CUDA knows. */
struct pm_gpu_range {
	uint8_t *host, *device;
	uint64_t bytes;
};

struct fth_gpu_pm {
	struct fth_pm *pm;
	struct pm_gpu_range memory; /* header and all */
	struct pm_gpu_range door;   /* and marks */
	struct fth_pm_relay *relay; /* GPU memory */
	struct fth_pm_view view;    /* for kernels */
	uint64_t *scratch;	    /* GPU memory: checksums of checkpoints */
	uint64_t scratch_bytes;
};

#endif
