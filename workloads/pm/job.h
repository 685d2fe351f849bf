/* SPDX-License-Identifier: BSD-2-Clause */
/* A run of a workload: its machine, its persistent memory, and what all workloads do with them. */
#ifndef FTH_WORKLOADS_PM_JOB_H
#define FTH_WORKLOADS_PM_JOB_H

#include "workloads/pm/machine.h"
#include "workloads/pm/work.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"

#define PMW_MEMORIES 24u
#define PMW_ALIGN    4096u
#define PMW_BUFFERS  4u

/* The first page of the persistent memory. Each word is stored and persisted by itself. */
struct pmw_state {
	uint64_t magic;
	uint64_t shape;	 /* digest of workload, items, steps and seed */
	uint64_t active; /* the step that was begun last, if that matters, from 1 on */
	uint64_t done;	 /* complete steps, or what the workload makes of it */
};

/* A part of the persistent memory. ASSISTED: kernels have a copy of it in the machine's memory. */
struct pmw_area {
	uint8_t *kernel; /* as kernels see it */
	uint64_t offset; /* in the persistent memory */
	uint64_t bytes;
};

struct pmw_job {
	const struct fth_pmw_workload *workload;
	const struct fth_pmw_options *options;
	struct fth_pmw_result *result;
	uint64_t items, steps, every;
	struct pmw_machine *machine;
	struct fth_pm *pm;
	/* for kernels: of the persistent memory, or of memory that is not */
	struct fth_pm_view view;
	struct fth_pm_view host_view; /* for the CPU */
	struct pmw_state *state;      /* at the CPU's address */
	bool fresh;		      /* nothing was done before this run */
	uint64_t taken;		      /* bytes of the persistent memory in use */
	void *memories[PMW_MEMORIES]; /* to release */
	unsigned memory_count;
	int file;	  /* ASSISTED_FILE */
	void *staging;	  /* for it */
	bool logs;	  /* the machine has opened a log */
	uint32_t *failed; /* of the machine: see struct pmw_undo */
	struct fth_pm_checkpoint *checkpoint;
	struct pmw_area buffers[PMW_BUFFERS]; /* that checkpoints save */
	unsigned buffer_count;
	uint64_t saved_bytes; /* of one checkpoint */
	void *own;	      /* of the workload */
};

struct fth_pmw_workload {
	const char *name;
	enum fth_pmw_kind kind;
	uint64_t items, steps; /* small */
	uint64_t paper_items, paper_steps;
	uint64_t every; /* checkpoints; 0: none */
	size_t own;	/* bytes of job->own */
	/* of persistent memory, without the first page and logs */
	uint64_t (*bytes)(uint64_t items, uint64_t steps);
	int (*check)(uint64_t items); /* NULL, or -EINVAL with a text */
	/* Take memory; recover, or begin; set job->state->done or its like. */
	int (*open)(struct pmw_job *job);
	/* How many steps are complete. */
	uint64_t (*done)(struct pmw_job *job);
	int (*step)(struct pmw_job *job, uint64_t step);
	/* After the last one: is the result right, and what is its digest? */
	int (*finish)(struct pmw_job *job);
	void (*close)(struct pmw_job *job); /* may be NULL */
};

extern const struct fth_pmw_workload pmw_kvs_workload, pmw_kvs_mixed_workload,
	pmw_db_insert_workload, pmw_db_update_workload, pmw_cfd_workload, pmw_bfs_workload,
	pmw_prefix_workload;

/* Memory of the machine, released with the job. */
int pmw_take(struct pmw_job *job, uint64_t bytes, void *memory);
/* The next part of the persistent memory. */
int pmw_area(struct pmw_job *job, uint64_t bytes, struct pmw_area *area);
/*
 * ASSISTED: the CPU persists a part of an area; DIRECT: nothing, kernels did. Counts bytes in both
 * cases.
 */
int pmw_persist_area(struct pmw_job *job, const struct pmw_area *area, uint64_t offset,
		     uint64_t bytes, uint64_t direct_bytes);
/* Store a word of the state and persist it. */
int pmw_set_state(struct pmw_job *job, uint64_t *word, uint64_t value);

/* Kernel items for n elements, if each takes `each` of them. */
static inline uint64_t pmw_groups(uint64_t n, uint64_t each)
{
	return (n + each - 1) / each;
}

int pmw_launch(struct pmw_job *job, enum pmw_kernel kernel, const void *parameters, uint64_t items);
int pmw_download(struct pmw_job *job, void *to, const void *from, uint64_t bytes);
/* The digest of memory that kernels see, added to that of the result. */
int pmw_digest(struct pmw_job *job, const void *memory, uint64_t bytes);

/* Bytes of persistent memory for checkpoints of such buffers. */
uint64_t pmw_checkpoint_bytes(const uint64_t *bytes, unsigned count);
/* Buffers of the machine that checkpoints save. */
int pmw_checkpoint_open(struct pmw_job *job, void *const *buffers, const uint64_t *bytes,
			unsigned count);
/* Save if this step is one to do so. */
int pmw_checkpoint_after(struct pmw_job *job, uint64_t step);
/* Steps that the newest checkpoint has; restores it if there is one. */
int pmw_checkpoint_restore(struct pmw_job *job, uint64_t *done);

double pmw_seconds(void);

#endif
