/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prefix sums: items are arrays of 2^20 elements, or less if they are few; one step for each half
 * of the work.
 */
#include "workloads/pm/prefix_kernels.h"

#include "workloads/pm/job.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define ARRAYS 1024u /* of the paper; items is elements of an array */

struct prefix {
	struct pmw_prefix p;
	struct pmw_area within, sums, within_done, sums_done;
	uint64_t arrays, pieces; /* pieces of all */
};

static uint64_t arrays_of(uint64_t items)
{
	return items >= 1u << 20 ? ARRAYS : 16;
}

static uint64_t prefix_bytes(uint64_t items, uint64_t steps)
{
	uint64_t elements = arrays_of(items) * items,
		 words = elements / PMW_PREFIX_PIECE * sizeof(uint32_t);

	(void)steps;
	return 2 * elements * sizeof(uint32_t) + 2 * (words + PMW_ALIGN);
}

static int prefix_check(uint64_t items)
{
	return items % PMW_PREFIX_PIECE == 0
		       ? 0
		       : fth_fail(EINVAL, "items must be a multiple of %u, the elements of a block",
				  PMW_PREFIX_PIECE);
}

static int prefix_areas(struct pmw_job *job, struct prefix *w)
{
	uint64_t elements = w->pieces * PMW_PREFIX_PIECE * sizeof(uint32_t),
		 words = w->pieces * sizeof(uint32_t);
	int rc = pmw_area(job, elements, &w->within);

	if (rc == 0)
		rc = pmw_area(job, elements, &w->sums);
	if (rc == 0)
		rc = pmw_area(job, words, &w->within_done);
	if (rc == 0)
		rc = pmw_area(job, words, &w->sums_done);
	if (rc == 0)
		rc = pmw_take(job, elements, &w->p.input);
	if (rc == 0)
		rc = pmw_take(job, elements, &w->p.copy);
	if (rc == 0)
		rc = pmw_take(job, words, &w->p.before);
	return rc;
}

static int prefix_open(struct pmw_job *job)
{
	struct prefix *w = job->own;
	int rc;

	w->arrays = arrays_of(job->items);
	w->pieces = w->arrays * job->items / PMW_PREFIX_PIECE;
	rc = prefix_areas(job, w);
	if (rc < 0)
		return rc;
	w->p.view = job->view;
	w->p.within = (uint32_t *)(void *)w->within.kernel;
	w->p.sums = (uint32_t *)(void *)w->sums.kernel;
	w->p.within_done = (uint32_t *)(void *)w->within_done.kernel;
	w->p.sums_done = (uint32_t *)(void *)w->sums_done.kernel;
	w->p.pieces = job->items / PMW_PREFIX_PIECE;
	w->p.seed = job->options->seed;
	return pmw_launch(job, PMW_PREFIX_FILL, &w->p, w->pieces);
}

/* Pieces say themselves what is done, so each run looks at all of them. */
static uint64_t prefix_done(struct pmw_job *job)
{
	(void)job;
	return 0;
}

static int prefix_step(struct pmw_job *job, uint64_t step)
{
	struct prefix *w = job->own;
	const struct pmw_area *out = step == 0 ? &w->within : &w->sums;
	int rc;

	if (step == 0) {
		rc = pmw_launch(job, PMW_PREFIX_WITHIN, &w->p, w->pieces);
	} else {
		rc = pmw_launch(job, PMW_PREFIX_BEFORE, &w->p, w->arrays);
		if (rc == 0)
			rc = pmw_launch(job, PMW_PREFIX_ADD, &w->p, w->pieces);
	}
	return rc ? rc
		  : pmw_persist_area(job, out, 0, out->bytes,
				     out->bytes + w->pieces * sizeof(uint32_t));
}

/* Add up the input once more, without any of it. */
static int check_array(struct pmw_job *job, uint64_t array, uint32_t *sums)
{
	struct prefix *w = job->own;
	uint64_t first = array * job->items;
	uint32_t sum = 0;
	int rc = pmw_download(job, sums, w->sums.kernel + first * sizeof(*sums),
			      job->items * sizeof(*sums));

	for (uint64_t i = 0; rc == 0 && i < job->items; i++) {
		sum += (uint32_t)fth_mix64(job->options->seed + first + i);
		if (sums[i] != sum)
			rc = fth_fail(
				EILSEQ, "prefix: element %llu of array %llu is %u, expected %u",
				(unsigned long long)i, (unsigned long long)array, sums[i], sum);
	}
	return rc;
}

static int prefix_finish(struct pmw_job *job)
{
	struct prefix *w = job->own;
	uint32_t *sums = malloc(job->items * sizeof(*sums));
	int rc = sums ? 0 : fth_fail(ENOMEM, "no memory to check the result");

	for (uint64_t array = 0; rc == 0 && array < w->arrays; array++)
		rc = check_array(job, array, sums);
	free(sums);
	return rc ? rc : pmw_digest(job, w->sums.kernel, w->sums.bytes);
}

const struct fth_pmw_workload pmw_prefix_workload = {
	.name = "prefix",
	.kind = FTH_PMW_NATIVE,
	.items = 16 << 10,
	.steps = 2,
	.paper_items = 1 << 20,
	.paper_steps = 2,
	.own = sizeof(struct prefix),
	.bytes = prefix_bytes,
	.check = prefix_check,
	.open = prefix_open,
	.done = prefix_done,
	.step = prefix_step,
	.finish = prefix_finish,
};
