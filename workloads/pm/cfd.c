/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Euler solver: items is cells of the channel, whose rows are a power of two long, about as
 * long as it is high.
 */
#include "workloads/pm/cfd_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

struct cfd {
	struct pmw_cfd p;
	uint64_t done;
};

static uint64_t width_of(uint64_t items)
{
	uint64_t width = 8;

	while (4 * width * width <= 2 * items)
		width *= 2;
	return width;
}

static uint64_t cfd_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return pmw_checkpoint_bytes((const uint64_t[]){items * PMW_CFD_VARS * sizeof(float)}, 1);
}

static int cfd_check(uint64_t items)
{
	return items >= 64 && items <= 1u << 30 && items % width_of(items) == 0
		       ? 0
		       : fth_fail(EINVAL, "items (cells) must be 64 to 2^30 and a multiple of %llu",
				  (unsigned long long)width_of(items));
}

static int cfd_memory(struct pmw_job *job, struct cfd *w)
{
	uint64_t cells = job->items * sizeof(float);
	int rc = pmw_take(job, cells * PMW_CFD_VARS, &w->p.now);

	if (rc == 0)
		rc = pmw_take(job, cells * PMW_CFD_VARS, &w->p.old);
	if (rc == 0)
		rc = pmw_take(job, cells * PMW_CFD_VARS, &w->p.flux);
	if (rc == 0)
		rc = pmw_take(job, cells, &w->p.step);
	if (rc == 0)
		rc = pmw_take(job, cells * PMW_CFD_FACES, &w->p.neighbours);
	if (rc == 0)
		rc = pmw_take(job, cells * PMW_CFD_FACES * 2, &w->p.normals);
	if (rc == 0)
		rc = pmw_take(job, cells, &w->p.areas);
	return rc;
}

static int cfd_open(struct pmw_job *job)
{
	struct cfd *w = job->own;
	int rc = cfd_memory(job, w);

	w->p.cells = job->items;
	w->p.width = width_of(job->items);
	w->p.seed = job->options->seed;
	if (rc == 0)
		rc = pmw_launch(job, PMW_CFD_MESH, &w->p, pmw_groups(job->items, PMW_CFD_ITEM));
	if (rc == 0)
		rc = pmw_launch(job, PMW_CFD_FILL, &w->p, pmw_groups(job->items, PMW_CFD_ITEM));
	if (rc == 0)
		rc = pmw_checkpoint_open(
			job, (void *const[]){w->p.now},
			(const uint64_t[]){job->items * PMW_CFD_VARS * sizeof(float)}, 1);
	return rc ? rc : pmw_checkpoint_restore(job, &w->done);
}

static uint64_t cfd_done(struct pmw_job *job)
{
	return ((struct cfd *)job->own)->done;
}

static int cfd_step(struct pmw_job *job, uint64_t step)
{
	struct cfd *w = job->own;
	int rc = pmw_launch(job, PMW_CFD_BEGIN, &w->p, pmw_groups(job->items, PMW_CFD_ITEM));

	for (w->p.stage = 0; rc == 0 && w->p.stage < 3; w->p.stage++) {
		rc = pmw_launch(job, PMW_CFD_FLUX, &w->p, pmw_groups(job->items, PMW_CFD_ITEM));
		if (rc == 0)
			rc = pmw_launch(job, PMW_CFD_ADVANCE, &w->p,
					pmw_groups(job->items, PMW_CFD_ITEM));
	}
	return rc ? rc : pmw_checkpoint_after(job, step);
}

/* A gas stays one: density and pressure are positive; and the bump has done something to it. */
static int cfd_finish(struct pmw_job *job)
{
	struct cfd *w = job->own;
	uint64_t bytes = job->items * PMW_CFD_VARS * sizeof(float);
	float *values = malloc(bytes), least = INFINITY, most = 0;
	struct pmw_cfd p = w->p;
	int rc = values ? pmw_download(job, values, w->p.now, bytes)
			: fth_fail(ENOMEM, "no memory to check the result");

	p.now = values;
	for (uint64_t i = 0; rc == 0 && i < job->items; i++) {
		struct pmw_cfd_state s = pmw_cfd_cell(&p, i);

		if (!(s.density > 0.1f && s.density < 14 && s.pressure > 0.05f && s.pressure < 20))
			rc = fth_fail(EILSEQ, "cfd: cell %llu has density %g and pressure %g",
				      (unsigned long long)i, (double)s.density, (double)s.pressure);
		least = s.pressure < least ? s.pressure : least;
		most = s.pressure > most ? s.pressure : most;
	}
	if (rc == 0 && !(most - least > 0.05f))
		rc = fth_fail(EILSEQ, "cfd: the pressure is %g everywhere", (double)most);
	free(values);
	return rc ? rc : pmw_digest(job, w->p.now, bytes);
}

const struct fth_pmw_workload pmw_cfd_workload = {
	.name = "cfd",
	.kind = FTH_PMW_CHECKPOINTED,
	.items = 2048,
	.steps = 200,
	.paper_items = 200 << 10,
	.paper_steps = 5000,
	.every = 10,
	.own = sizeof(struct cfd),
	.bytes = cfd_bytes,
	.check = cfd_check,
	.open = cfd_open,
	.done = cfd_done,
	.step = cfd_step,
	.finish = cfd_finish,
};
