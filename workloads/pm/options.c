/* SPDX-License-Identifier: BSD-2-Clause */
/* Black-Scholes: items is options, a step is a day. */
#include "workloads/pm/options_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define DAYS 366.0f

struct options {
	struct pmw_options_work p;
	uint64_t done;
};

static uint64_t options_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return pmw_checkpoint_bytes(
		(const uint64_t[]){items * sizeof(float), items * sizeof(float)}, 2);
}

static int options_open(struct pmw_job *job)
{
	struct options *w = job->own;
	uint64_t bytes = job->items * sizeof(float);
	int rc = pmw_take(job, bytes, &w->p.call);

	if (rc == 0)
		rc = pmw_take(job, bytes, &w->p.put);
	w->p.count = job->items;
	w->p.seed = job->options->seed;
	if (rc == 0)
		rc = pmw_checkpoint_open(job, (void *const[]){w->p.call, w->p.put},
					 (const uint64_t[]){bytes, bytes}, 2);
	return rc ? rc : pmw_checkpoint_restore(job, &w->done);
}

static uint64_t options_done(struct pmw_job *job)
{
	return ((struct options *)job->own)->done;
}

static int options_step(struct pmw_job *job, uint64_t step)
{
	struct options *w = job->own;
	int rc;

	w->p.day = (float)(step % (uint64_t)DAYS) / DAYS;
	rc = pmw_launch(job, PMW_OPTIONS_STEP, &w->p, pmw_groups(job->items, PMW_OPTIONS_ITEM));
	return rc ? rc : pmw_checkpoint_after(job, step);
}

/* Of some options, the prices once more, in double precision. */
static int check_option(const struct pmw_options_work *work, uint64_t steps, uint64_t i, float call,
			float put)
{
	struct pmw_options_work p = *work;
	double calls = 0, puts = 0;

	for (uint64_t step = 0; step < steps; step++) {
		struct pmw_option o;
		double root, d1, d2, discounted;

		p.day = (float)(step % (uint64_t)DAYS) / DAYS;
		o = pmw_option_of(&p, i);
		root = 0.30 * sqrt(o.years);
		d1 = (log((double)o.stock / o.strike) + (0.02 + 0.045) * o.years) / root;
		d2 = d1 - root;
		discounted = o.strike * exp(-0.02 * o.years);
		calls += o.stock * 0.5 * erfc(-d1 * M_SQRT1_2) -
			 discounted * 0.5 * erfc(-d2 * M_SQRT1_2);
		puts += discounted * 0.5 * erfc(d2 * M_SQRT1_2) -
			o.stock * 0.5 * erfc(d1 * M_SQRT1_2);
	}
	if (fabs(calls - call) > 1e-4 * (calls + (double)steps) ||
	    fabs(puts - put) > 1e-4 * (puts + (double)steps))
		return fth_fail(EILSEQ, "options: number %llu is %g and %g, expected %g and %g",
				(unsigned long long)i, (double)call, (double)put, calls, puts);
	return 0;
}

static int options_finish(struct pmw_job *job)
{
	struct options *w = job->own;
	int rc = 0;

	for (uint64_t n = 0; rc == 0 && n < 1000; n++) {
		uint64_t i = fth_mix64(n) % job->items;
		float call, put;

		rc = pmw_download(job, &call, w->p.call + i, sizeof(call));
		if (rc == 0)
			rc = pmw_download(job, &put, w->p.put + i, sizeof(put));
		if (rc == 0)
			rc = check_option(&w->p, job->steps, i, call, put);
	}
	if (rc == 0)
		rc = pmw_digest(job, w->p.call, job->items * sizeof(float));
	return rc ? rc : pmw_digest(job, w->p.put, job->items * sizeof(float));
}

const struct fth_pmw_workload pmw_options_workload = {
	.name = "options",
	.about = "prices of options by Black and Scholes, with checkpoints",
	.kind = FTH_PMW_CHECKPOINTED,
	.items = 1 << 14,
	.steps = 20,
	.paper_items = 1 << 28,
	.paper_steps = 20,
	.every = 5,
	.own = sizeof(struct options),
	.bytes = options_bytes,
	.open = options_open,
	.done = options_done,
	.step = options_step,
	.finish = options_finish,
};
