/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpupm`: persistence from inside kernels. Each part of it is a function in a file of
 * its own, and a row of the table in gpupm.cu.
 */
#ifndef FTH_BENCH_GPUPM_H
#define FTH_BENCH_GPUPM_H

#include "gpu/gpu_setup.h"

#include "fathom/pm/gpu.h"

/* Persistent memory that a GPU uses. Zeroed before. */
struct gpupm_memory {
	struct fth_pm *pm;
	struct fth_gpu_pm *gpu;
	char name[64]; /* of shared memory; empty for memory of the process */
};

/*
 * So many bytes, registered: shared memory, or, where that is too small, memory of the process (the
 * setup's medium), which is the same to a GPU. Release it also after a failure.
 */
int gpupm_map(struct gpupm_memory *m, const struct gpu_settings *s, struct gpu_setup *setup,
	      uint64_t bytes);
int gpupm_unmap(struct gpupm_memory *m);

/* What a part tells the whole: the worst ratio to its peer. */
struct gpupm_worst {
	double ours, peer; /* 0: none yet */
};

void gpupm_note(struct gpupm_worst *worst, double ours, double peer);

/*
 * Logs: plain stores, HCL and conventional. Sums up to the worst ratio of HCL to conventional
 * logging as GPM has it.
 */
int gpupm_log_part(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report,
		   struct gpupm_worst *worst);

#endif
