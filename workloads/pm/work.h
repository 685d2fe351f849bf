/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Five workloads of GPM (Pandey et al., ASPLOS 2022, table 1), on the CPU or a GPU. A run finds out
 * from the persistent memory how far an earlier run came, recovers what it left, and does the rest:
 *
 *	struct fth_pmw_options options = FTH_PMW_OPTIONS_INIT;
 *	struct fth_pmw_result result;
 *
 *	options.memory = "shm:store";
 *	rc = fth_pmw_run(fth_pmw_find("kvs"), &options, &result);
 *
 * Three ways to persist (enum fth_pmw_style): the kernels themselves do it (DIRECT), or they
 * compute in memory that does not survive and the CPU persists their results, into the mapped
 * memory or into a file (GPM, section 3: CAP-mm, CAP-fs). Only DIRECT runs recover.
 */
#ifndef FTH_WORKLOADS_PM_WORK_H
#define FTH_WORKLOADS_PM_WORK_H

#include "fathom/pm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pmw_machine;

enum fth_pmw_style { FTH_PMW_DIRECT, FTH_PMW_ASSISTED_MAP, FTH_PMW_ASSISTED_FILE };

enum fth_pmw_kind { FTH_PMW_TRANSACTIONAL, FTH_PMW_CHECKPOINTED, FTH_PMW_NATIVE };

/* Start from FTH_PMW_OPTIONS_INIT. */
struct fth_pmw_options {
	const char *memory; /* persistent memory (fathom/pm.h) */
	struct fth_pm *pm;  /* the same, mapped already; NULL: map `memory` */
	const char *file;   /* for ASSISTED_FILE */
	enum fth_pmw_style style;
	/* What to compute on: pmw_machine_gpu(); NULL: threads of the CPU. */
	int (*machine)(struct pmw_machine **machine);
	unsigned threads;      /* of the CPU; 0: all */
	uint64_t items, steps; /* 0: small ones, or the paper's with `paper` */
	bool paper;
	uint64_t every;	     /* steps between checkpoints; 0: the workload's */
	uint64_t stop_steps; /* end after so many steps of this run, as if killed; 0: do not */
	/* end when the last step, or checkpoint, has done its work and has not been committed */
	bool stop_before_end;
	bool flush;	      /* write cache lines back even where the guarantee does not need it */
	uint64_t stop_fences; /* die at this fence, in builds with FTH_PM_STOP; 0: do not */
	bool incremental;     /* checkpoints write changed blocks only */
	uint64_t seed;
	void (*progress)(void *context, uint64_t done, uint64_t steps); /* may be NULL */
	bool (*stopped)(void); /* may be NULL; ends with -EINTR */
	void *context;
};
#define FTH_PMW_OPTIONS_INIT                                                                     \
	{                                                                                        \
		"mem:64M", NULL, NULL, FTH_PMW_DIRECT, NULL, 0, 0, 0, false, 0, 0, false, false, \
			0, false, 1, NULL, NULL, NULL                                            \
	}

struct fth_pmw_result {
	uint64_t items, steps; /* as chosen */
	uint64_t resumed;      /* steps that earlier runs had done */
	uint64_t ran;	       /* steps of this run that did something */
	uint64_t undone;       /* transactions that were rolled back */
	/* of the result; equal for equal items, steps and seed on one kind of machine */
	uint64_t digest;
	uint64_t persisted;	/* bytes that had to be made persistent */
	double seconds;		/* of the steps, persistence included */
	double persist_seconds; /* of it, what the CPU or checkpoints took to persist */
	double restore_seconds; /* to undo, or to restore a checkpoint, after an interrupted run */
	enum fth_pm_guarantee guarantee;
};

struct fth_pmw_workload;

/* By name; NULL with an error text if there is none. */
const struct fth_pmw_workload *fth_pmw_find(const char *name);
/* One after the other, from NULL to NULL. */
const struct fth_pmw_workload *fth_pmw_next(const struct fth_pmw_workload *workload);
const char *fth_pmw_name(const struct fth_pmw_workload *workload);
enum fth_pmw_kind fth_pmw_kind(const struct fth_pmw_workload *workload);
/* Steps between checkpoints; 0: none. */
uint64_t fth_pmw_every(const struct fth_pmw_workload *workload);

/* Bytes of persistent memory that a run with these options needs. */
uint64_t fth_pmw_bytes(const struct fth_pmw_workload *workload,
		       const struct fth_pmw_options *options);

/*
 * Run it to its end, or go on where an earlier run stopped, and check the result. The memory is
 * made if it is not there. -EINVAL if it belongs to something else; -EILSEQ if the result is wrong;
 * -EINTR if it was stopped; -ECANCELED after stop_steps.
 */
int fth_pmw_run(const struct fth_pmw_workload *workload, const struct fth_pmw_options *options,
		struct fth_pmw_result *result);

#ifdef __cplusplus
}
#endif
#endif
