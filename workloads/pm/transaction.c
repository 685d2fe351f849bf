/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/pm/transaction.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

static struct fth_pm_log_shape shape_of(uint64_t threads, uint32_t entry_bytes)
{
	struct fth_pm_log_shape shape = {
		.blocks = (uint32_t)((threads + PMW_UNDO_BLOCK - 1) / PMW_UNDO_BLOCK),
		.threads = PMW_UNDO_BLOCK,
		.entry_bytes = entry_bytes,
		.entries = 1,
	};

	return shape;
}

uint64_t pmw_transaction_bytes(uint64_t threads, uint32_t entry_bytes)
{
	struct fth_pm_log_shape shape = shape_of(threads, entry_bytes);

	return fth_pm_log_hcl_bytes(&shape);
}

static int open_log(struct pmw_job *job, const struct fth_pm_log_shape *shape)
{
	uint64_t offset = job->taken;
	struct fth_pm_log *log;
	int rc = 0;

	job->taken += fth_pm_log_hcl_bytes(shape);
	if (job->fresh) {
		rc = fth_pm_log_create_hcl(job->pm, offset, shape, &log);
		if (rc == 0)
			fth_pm_log_close(log);
	}
	if (rc == 0)
		rc = job->machine->ops->log_open(job->machine, offset);
	job->logs = rc == 0;
	return rc;
}

/* The log as kernels see it; it changes when it is cleared. */
static void log_view(struct pmw_job *job, struct pmw_undo *undo)
{
	memset(undo, 0, sizeof(*undo));
	undo->on = job->logs;
	undo->failed = job->failed;
	if (job->logs)
		undo->log = job->machine->ops->log_view(job->machine);
}

static int clear_log(struct pmw_job *job)
{
	return job->logs ? job->machine->ops->log_clear(job->machine) : 0;
}

static int undo_step(struct pmw_job *job,
		     int (*undo)(struct pmw_job *job, const struct pmw_undo *log))
{
	struct pmw_undo log;

	if (job->state->active <= job->state->done)
		return 0;
	job->result->undone++;
	log_view(job, &log);
	return undo(job, &log);
}

int pmw_transaction_open(struct pmw_job *job, uint64_t threads, uint32_t entry_bytes,
			 int (*undo)(struct pmw_job *job, const struct pmw_undo *log))
{
	struct fth_pm_log_shape shape = shape_of(threads, entry_bytes);
	double begin;
	int rc = pmw_take(job, sizeof(uint32_t), &job->failed);

	if (rc < 0 || job->options->style != FTH_PMW_DIRECT)
		return rc;
	rc = open_log(job, &shape);
	begin = pmw_seconds();
	if (rc == 0)
		rc = undo_step(job, undo);
	if (rc == 0)
		rc = clear_log(job);
	job->result->restore_seconds += pmw_seconds() - begin;
	return rc ? rc : pmw_set_state(job, &job->state->active, job->state->done);
}

int pmw_transaction_begin(struct pmw_job *job, uint64_t step, struct pmw_undo *undo)
{
	log_view(job, undo);
	return pmw_set_state(job, &job->state->active, step + 1);
}

int pmw_transaction_commit(struct pmw_job *job, uint64_t step)
{
	uint32_t failed = 0;
	int rc = pmw_download(job, &failed, job->failed, sizeof(failed));

	if (rc == 0 && failed)
		rc = fth_fail(EIO, "the log could not be made durable");
	if (rc == 0 && job->options->stop_before_end && step + 1 == job->steps)
		rc = fth_fail(ECANCELED, "stopped before the last commit, as requested");
	if (rc == 0)
		rc = pmw_set_state(job, &job->state->done, step + 1);
	return rc ? rc : clear_log(job);
}

uint64_t pmw_transaction_done(struct pmw_job *job)
{
	return job->state->done;
}
