/* SPDX-License-Identifier: BSD-2-Clause */
/* Hotspot: items is the side of the chip, in cells. */
#include "workloads/pm/hotspot_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

struct hotspot {
	struct pmw_hotspot p;
	float *temperatures; /* what checkpoints save: the result of an even number of steps is here */
	float *other;
	uint64_t done;
};

static uint64_t hotspot_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return pmw_checkpoint_bytes((const uint64_t[]){items * items * sizeof(float)}, 1);
}

static int hotspot_check(uint64_t items)
{
	return items >= 2 && items <= 1u << 16
		       ? 0
		       : fth_fail(EINVAL, "items (side length of the chip) must be 2 to 65536");
}

static int hotspot_open(struct pmw_job *job)
{
	struct hotspot *w = job->own;
	uint64_t bytes = job->items * job->items * sizeof(float);
	int rc;

	if (job->every % 2 != 0 || job->steps % 2 != 0)
		return fth_fail(EINVAL,
				"hotspot: steps and steps between checkpoints must be even");
	rc = pmw_take(job, bytes, &w->temperatures);
	if (rc == 0)
		rc = pmw_take(job, bytes, &w->other);
	if (rc == 0)
		rc = pmw_take(job, bytes, &w->p.power);
	w->p.size = job->items;
	w->p.seed = job->options->seed;
	w->p.step = 0.9f; /* of what is stable */
	w->p.across = 0.2f;
	w->p.up = 0.01f;
	w->p.now = w->temperatures;
	if (rc == 0)
		rc = pmw_launch(job, PMW_HOTSPOT_FILL, &w->p, job->items);
	if (rc == 0)
		rc = pmw_checkpoint_open(job, (void *const[]){w->temperatures},
					 (const uint64_t[]){bytes}, 1);
	return rc ? rc : pmw_checkpoint_restore(job, &w->done);
}

static uint64_t hotspot_done(struct pmw_job *job)
{
	return ((struct hotspot *)job->own)->done;
}

static int hotspot_step(struct pmw_job *job, uint64_t step)
{
	struct hotspot *w = job->own;
	int rc;

	w->p.now = step % 2 ? w->other : w->temperatures;
	w->p.next = step % 2 ? w->temperatures : w->other;
	rc = pmw_launch(job, PMW_HOTSPOT_STEP, &w->p, job->items);
	return rc ? rc : pmw_checkpoint_after(job, step);
}

/* Temperatures stay between that of the air and the hottest at the beginning, plus what the power can add. */
static int hotspot_finish(struct pmw_job *job)
{
	struct hotspot *w = job->own;
	uint64_t count = job->items * job->items;
	float *now = malloc(count * sizeof(*now));
	double sum = 0;
	int rc = now ? pmw_download(job, now, w->temperatures, count * sizeof(*now))
		     : fth_fail(ENOMEM, "no memory to check the result");

	for (uint64_t i = 0; rc == 0 && i < count; i++) {
		sum += now[i];
		if (!(now[i] > PMW_HOTSPOT_AMBIENT && now[i] < 341))
			rc = fth_fail(EILSEQ, "hotspot: cell %llu has an invalid temperature, %g",
				      (unsigned long long)i, (double)now[i]);
	}
	if (rc == 0 && !(sum / (double)count < 330.5))
		rc = fth_fail(EILSEQ, "hotspot: the average temperature, %g, does not fall",
			      sum / (double)count);
	free(now);
	return rc ? rc : pmw_digest(job, w->temperatures, count * sizeof(float));
}

const struct fth_pmw_workload pmw_hotspot_workload = {
	.name = "hotspot",
	.about = "the temperature of a chip, with checkpoints",
	.kind = FTH_PMW_CHECKPOINTED,
	.items = 128,
	.steps = 40,
	.paper_items = 16 << 10,
	.paper_steps = 40,
	.every = 10,
	.own = sizeof(struct hotspot),
	.bytes = hotspot_bytes,
	.check = hotspot_check,
	.open = hotspot_open,
	.done = hotspot_done,
	.step = hotspot_step,
	.finish = hotspot_finish,
};
