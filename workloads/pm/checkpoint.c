/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checkpoints of the workloads' buffers. DIRECT: the library's. ASSISTED: the CPU copies all
 * buffers to one of two places in the mapped memory or in the file, and persists them there.
 */
#include "workloads/pm/job.h"

#include "fathom/base/error.h"

#include <errno.h>

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + PMW_ALIGN - 1) / PMW_ALIGN * PMW_ALIGN;
}

static struct fth_pm_checkpoint_shape shape_of(const uint64_t *bytes, unsigned count)
{
	struct fth_pm_checkpoint_shape shape = {.groups = 1, .buffers = count};

	for (unsigned i = 0; i < count; i++)
		shape.bytes += rounded(bytes[i]);
	return shape;
}

uint64_t pmw_checkpoint_bytes(const uint64_t *bytes, unsigned count)
{
	struct fth_pm_checkpoint_shape shape = shape_of(bytes, count);

	return fth_pm_checkpoint_bytes(&shape);
}

static int open_checkpoint(struct pmw_job *job, void *const *buffers, const uint64_t *bytes,
			   unsigned count)
{
	struct fth_pm_checkpoint_shape shape = shape_of(bytes, count);
	int rc;

	if (job->fresh)
		rc = fth_pm_checkpoint_create(job->pm, job->taken, &shape, &job->checkpoint);
	else
		rc = fth_pm_checkpoint_open(job->pm, job->taken, &job->checkpoint);
	for (unsigned i = 0; rc == 0 && i < count; i++)
		rc = fth_pm_checkpoint_register(job->checkpoint, 0, buffers[i], bytes[i]);
	return rc;
}

int pmw_checkpoint_open(struct pmw_job *job, void *const *buffers, const uint64_t *bytes,
			unsigned count)
{
	if (count > PMW_BUFFERS)
		return fth_fail(EINVAL, "a checkpoint has at most %u buffers", PMW_BUFFERS);
	for (unsigned i = 0; i < count; i++) {
		job->buffers[i].kernel = buffers[i];
		job->buffers[i].bytes = bytes[i];
		job->saved_bytes += rounded(bytes[i]);
	}
	job->buffer_count = count;
	return job->options->style == FTH_PMW_DIRECT ? open_checkpoint(job, buffers, bytes, count)
						     : 0;
}

static int save_assisted(struct pmw_job *job, uint64_t number)
{
	uint64_t offset = job->taken + number % 2 * job->saved_bytes;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < job->buffer_count; i++) {
		job->buffers[i].offset = offset;
		offset += rounded(job->buffers[i].bytes);
		rc = pmw_persist_area(job, &job->buffers[i], 0, job->buffers[i].bytes, 0);
	}
	return rc ? rc : pmw_set_state(job, &job->state->done, number);
}

static int save_direct(struct pmw_job *job)
{
	uint64_t before = fth_pm_checkpoint_written(job->checkpoint);
	double begin = pmw_seconds();
	int rc = job->machine->ops->save(job->machine, job->checkpoint,
					 job->options->incremental ? FTH_PM_CHECKPOINT_INCREMENTAL
								   : 0);

	job->result->persist_seconds += pmw_seconds() - begin;
	job->result->persisted += fth_pm_checkpoint_written(job->checkpoint) - before;
	return rc;
}

int pmw_checkpoint_after(struct pmw_job *job, uint64_t step)
{
	if ((step + 1) % job->every != 0)
		return 0;
	return job->options->style == FTH_PMW_DIRECT ? save_direct(job)
						     : save_assisted(job, (step + 1) / job->every);
}

int pmw_checkpoint_restore(struct pmw_job *job, uint64_t *done)
{
	double begin = pmw_seconds();
	int rc;

	*done = 0;
	if (!job->checkpoint || fth_pm_checkpoint_version(job->checkpoint, 0) == 0)
		return 0;
	*done = fth_pm_checkpoint_version(job->checkpoint, 0) * job->every;
	if (*done > job->steps)
		return fth_fail(EILSEQ, "the checkpoint is of step %llu, the run has only %llu",
				(unsigned long long)*done, (unsigned long long)job->steps);
	rc = job->machine->ops->restore(job->machine, job->checkpoint);
	job->result->restore_seconds += pmw_seconds() - begin;
	/* The steps after an older checkpoint are done again. */
	return rc == FTH_PM_CHECKPOINT_OLDER ? 0 : rc;
}
