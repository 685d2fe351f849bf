/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/pm/job.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC	  0x6b726f77706d6766u /* "fgmpwork" */
#define STAGING	  (64u << 20)
#define ITEMS_MAX (UINT64_C(1) << 34) /* no product of sizes overflows */

static const struct fth_pmw_workload *const workloads[] = {
	&pmw_kvs_workload,	 &pmw_kvs_mixed_workload, &pmw_db_insert_workload,
	&pmw_db_update_workload, &pmw_cfd_workload,	  &pmw_bfs_workload,
	&pmw_prefix_workload,
};
#define COUNT (sizeof(workloads) / sizeof(workloads[0]))

const struct fth_pmw_workload *fth_pmw_find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(workloads[i]->name, name) == 0)
			return workloads[i];
	fth_fail(ENOENT, "no such workload");
	return NULL;
}

const struct fth_pmw_workload *fth_pmw_next(const struct fth_pmw_workload *workload)
{
	if (!workload)
		return workloads[0];
	for (size_t i = 0; i + 1 < COUNT; i++)
		if (workloads[i] == workload)
			return workloads[i + 1];
	return NULL;
}

const char *fth_pmw_name(const struct fth_pmw_workload *workload)
{
	return workload->name;
}

enum fth_pmw_kind fth_pmw_kind(const struct fth_pmw_workload *workload)
{
	return workload->kind;
}

uint64_t fth_pmw_every(const struct fth_pmw_workload *workload)
{
	return workload->every;
}

/* ---- sizes ---- */

static uint64_t items_of(const struct fth_pmw_workload *w, const struct fth_pmw_options *o)
{
	return o->items ? o->items : o->paper ? w->paper_items : w->items;
}

static uint64_t steps_of(const struct fth_pmw_workload *w, const struct fth_pmw_options *o)
{
	return o->steps ? o->steps : o->paper ? w->paper_steps : w->steps;
}

uint64_t fth_pmw_bytes(const struct fth_pmw_workload *workload,
		       const struct fth_pmw_options *options)
{
	uint64_t bytes = workload->bytes(items_of(workload, options), steps_of(workload, options));

	return PMW_ALIGN + (bytes + PMW_ALIGN - 1) / PMW_ALIGN * PMW_ALIGN;
}

static uint64_t shape_of(const struct pmw_job *job)
{
	uint64_t words[] = {job->items, job->steps, job->every, job->options->seed,
			    (uint64_t)job->options->style};

	return fth_checksum(words, sizeof(words),
			    fth_checksum(job->workload->name, strlen(job->workload->name), MAGIC));
}

/* ---- opening ---- */

static int open_machine(struct pmw_job *job)
{
	if (job->options->machine)
		return job->options->machine(&job->machine);
	return pmw_machine_cpu(job->options->threads, &job->machine);
}

static int open_file(struct pmw_job *job)
{
	if (job->options->style != FTH_PMW_ASSISTED_FILE)
		return 0;
	if (!job->options->file)
		return fth_fail(EINVAL, "options.file is missing");
	job->file = open(job->options->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (job->file < 0)
		return fth_fail(errno, "%s: %s", job->options->file, strerror(errno));
	job->staging = malloc(STAGING);
	return job->staging ? 0 : fth_fail(ENOMEM, "no memory to copy through");
}

static int arm_stop(struct pmw_job *job)
{
	if (!job->options->stop_fences)
		return 0;
#if defined(FTH_PM_STOP) || defined(FTH_PM_TRACE)
	job->host_view.control->stop_after = job->options->stop_fences;
	return 0;
#else
	return fth_fail(EOPNOTSUPP, "this build cannot stop at a fence");
#endif
}

static int map_memory(struct pmw_job *job)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;

	options.flags = FTH_PM_CREATE;
	options.tag = MAGIC;
	return fth_pm_map(job->options->memory, fth_pmw_bytes(job->workload, job->options),
			  &options, &job->pm);
}

static int open_memory(struct pmw_job *job)
{
	int rc = 0;

	job->pm = job->options->pm;
	if (!job->pm)
		rc = map_memory(job);
	if (rc < 0)
		return rc;
	job->result->guarantee = fth_pm_guarantee(job->pm);
	job->host_view = fth_pm_view(job->pm);
	rc = job->machine->ops->attach(job->machine, job->pm, &job->view);
	if (rc < 0)
		return rc;
	if (job->options->style != FTH_PMW_DIRECT)
		job->view.mode = FTH_PM_MODE_NONE;
	else if (job->options->flush && job->view.mode == FTH_PM_MODE_FENCE)
		job->view.mode = FTH_PM_MODE_FLUSH;
	job->state = fth_pm_base(job->pm);
	job->taken = PMW_ALIGN;
	return arm_stop(job);
}

/* Is the memory ours, or new? */
static int check_state(struct pmw_job *job)
{
	uint64_t shape = shape_of(job);
	int rc;

	if (job->state->magic == MAGIC && job->state->shape != shape)
		return fth_fail(EINVAL,
				"%s: belongs to a different workload, or to one of a different "
				"size, seed or style",
				job->options->pm ? fth_pm_name(job->pm) : job->options->memory);
	job->fresh = job->state->magic != MAGIC || job->options->style != FTH_PMW_DIRECT;
	if (!job->fresh)
		return 0;
	rc = pmw_set_state(job, &job->state->shape, shape);
	if (rc == 0)
		rc = pmw_set_state(job, &job->state->active, 0);
	if (rc == 0)
		rc = pmw_set_state(job, &job->state->done, 0);
	return rc;
}

/* What begins it is durable; from now on the memory is ours. */
static int begin_state(struct pmw_job *job)
{
	return job->fresh ? pmw_set_state(job, &job->state->magic, MAGIC) : 0;
}

static int check_options(const struct pmw_job *job)
{
	if (job->items == 0 || job->items > ITEMS_MAX || job->steps == 0 || job->steps > UINT32_MAX)
		return fth_fail(EINVAL, "items must be 1 to 2^34, and steps 1 to 2^32 - 1");
	return job->workload->check ? job->workload->check(job->items) : 0;
}

static int open_job(struct pmw_job *job)
{
	int rc = check_options(job);

	if (rc == 0)
		rc = open_machine(job);
	if (rc == 0)
		rc = open_file(job);
	if (rc == 0)
		rc = open_memory(job);
	if (rc == 0)
		rc = check_state(job);
	if (rc == 0)
		rc = job->workload->open(job);
	return rc ? rc : begin_state(job);
}

static void close_job(struct pmw_job *job)
{
	if (job->workload->close)
		job->workload->close(job);
	for (unsigned i = 0; i < job->memory_count; i++)
		job->machine->ops->release(job->machine, job->memories[i]);
	if (job->checkpoint)
		fth_pm_checkpoint_close(job->checkpoint);
	if (job->pm) {
		job->machine->ops->detach(job->machine);
		if (!job->options->pm)
			fth_pm_unmap(job->pm);
	}
	if (job->machine)
		job->machine->ops->close(job->machine);
	if (job->file >= 0)
		close(job->file);
	free(job->staging);
	free(job->own);
}

/* ---- running ---- */

static int run_steps(struct pmw_job *job)
{
	uint64_t first = job->workload->done(job);
	double begin = pmw_seconds();
	int rc = 0;

	job->result->resumed = first;
	for (uint64_t step = first; rc == 0 && step < job->steps; step++) {
		if (job->options->stopped && job->options->stopped())
			rc = fth_fail(EINTR,
				      "stopped after %llu of %llu steps; run it again to continue",
				      (unsigned long long)step, (unsigned long long)job->steps);
		else if (job->options->stop_steps && step - first == job->options->stop_steps)
			rc = fth_fail(ECANCELED, "stopped after %llu steps, as requested",
				      (unsigned long long)step);
		else if (job->options->stop_before_end && job->every && step == job->steps - 1)
			rc = fth_fail(ECANCELED,
				      "stopped before the last checkpoint, as requested");
		else
			rc = job->workload->step(job, step);
		job->result->ran += rc == 0;
		if (rc == 0 && job->options->progress)
			job->options->progress(job->options->context, step + 1, job->steps);
	}
	job->result->seconds = pmw_seconds() - begin;
	return rc;
}

int fth_pmw_run(const struct fth_pmw_workload *workload, const struct fth_pmw_options *options,
		struct fth_pmw_result *result)
{
	struct pmw_job job = {
		.workload = workload, .options = options, .result = result, .file = -1};
	int rc;

	memset(result, 0, sizeof(*result));
	result->items = job.items = items_of(workload, options);
	result->steps = job.steps = steps_of(workload, options);
	job.every = options->every ? options->every : workload->every;
	job.own = calloc(1, workload->own);
	rc = job.own ? open_job(&job) : fth_fail(ENOMEM, "no memory for a workload");
	if (rc == 0)
		rc = run_steps(&job);
	if (rc == 0)
		rc = workload->finish(&job);
	close_job(&job);
	return rc;
}
