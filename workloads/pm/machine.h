/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the persistent workloads compute on: threads of the CPU, or a GPU. A machine has memory that
 * its kernels use and that does not survive, launches kernels, and makes persistent memory usable
 * for them. One thread at a time uses a machine. Functions return 0 or a negative errno with a
 * text.
 */
#ifndef FTH_WORKLOADS_PM_MACHINE_H
#define FTH_WORKLOADS_PM_MACHINE_H

#include "workloads/pm/kernels.h"
#include "fathom/pm.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pmw_machine;

struct pmw_machine_ops {
	const char *name;
	/* Memory for kernels, zeroed. */
	int (*allocate)(struct pmw_machine *machine, uint64_t bytes, void **memory);
	void (*release)(struct pmw_machine *machine, void *memory);
	/* Between it, or persistent memory as kernels see it, and the memory of the CPU. */
	int (*upload)(struct pmw_machine *machine, void *to, const void *from, uint64_t bytes);
	int (*download)(struct pmw_machine *machine, void *to, const void *from, uint64_t bytes);
	/* Run a kernel for items [0, items), and wait for it. */
	int (*launch)(struct pmw_machine *machine, enum pmw_kernel kernel, const void *parameters,
		      uint64_t items);
	/* Make persistent memory usable for kernels, one at a time; *view is how they see it. */
	int (*attach)(struct pmw_machine *machine, struct fth_pm *pm, struct fth_pm_view *view);
	/* Close the log, if there is one, and undo attach. */
	void (*detach)(struct pmw_machine *machine);
	/*
	 * Open the log at `offset` of that memory, one at a time. Its view changes when it is
	 * cleared.
	 */
	int (*log_open)(struct pmw_machine *machine, uint64_t offset);
	struct fth_pm_log_view (*log_view)(struct pmw_machine *machine);
	int (*log_clear)(struct pmw_machine *machine);
	/* Save or restore group 0, whose buffers are the machine's memory. */
	int (*save)(struct pmw_machine *machine, struct fth_pm_checkpoint *checkpoint,
		    uint32_t flags);
	int (*restore)(struct pmw_machine *machine, struct fth_pm_checkpoint *checkpoint);
	void (*close)(struct pmw_machine *machine);
};

struct pmw_machine {
	const struct pmw_machine_ops *ops;
};

/* So many threads; 0: as many as there are processors. */
int pmw_machine_cpu(unsigned threads, struct pmw_machine **machine);
/* The current CUDA device. In libfathom_cuda's workloads only. */
int pmw_machine_gpu(struct pmw_machine **machine);

#ifdef __cplusplus
}
#endif
#endif
