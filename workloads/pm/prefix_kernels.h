/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prefix sums of many arrays, resumed where they stopped (GPM, section 5.4). An array is cut into
 * pieces. First each piece gets the sums within it, then the sums of the pieces before it are
 * added. Both results are persistent, and so is a word for each piece that says that its sums are:
 * a piece whose word is there is not computed again.
 */
#ifndef FTH_WORKLOADS_PM_PREFIX_KERNELS_H
#define FTH_WORKLOADS_PM_PREFIX_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#define PMW_PREFIX_PIECE 1024u	     /* elements */
#define PMW_PREFIX_DONE	 0x646f6e65u /* "done" */

struct pmw_prefix {
	struct fth_pm_view view;
	uint32_t *within, *sums;	   /* persistent: elements */
	uint32_t *within_done, *sums_done; /* persistent: pieces */
	uint32_t *input;		   /* elements */
	uint32_t *copy;			   /* of `within`, where reading is cheap */
	uint32_t *before; /* pieces: the sum of the pieces before, in the same array */
	uint64_t pieces;  /* of an array */
	uint64_t seed;
};

/* Item: a piece. Makes the input, which is not persistent. */
FTH_HD void pmw_prefix_fill(const struct pmw_prefix *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_PREFIX_PIECE + lane; i < (item + 1) * PMW_PREFIX_PIECE;
	     i += PMW_LANES)
		p->input[i] = (uint32_t)fth_mix64(p->seed + i);
}

/* The elements of a piece become durable, and then the word that says so. */
FTH_HD void pmw_prefix_finish(const struct pmw_prefix *p, const uint32_t *sums, uint32_t *done,
			      uint64_t item, uint32_t lane)
{
	if (PMW_LANES == 1)
		fth_pm_flush_range(&p->view, sums + item * PMW_PREFIX_PIECE,
				   PMW_PREFIX_PIECE * sizeof(*sums));
	else
		for (uint64_t i = lane; i < PMW_PREFIX_PIECE; i += PMW_LANES)
			fth_pm_flush_range(&p->view, sums + item * PMW_PREFIX_PIECE + i,
					   sizeof(*sums));
	fth_pm_fence(&p->view);
	pmw_meet();
	if (lane != 0)
		return;
	fth_pm_put32(&p->view, done + item, PMW_PREFIX_DONE);
	fth_pm_persist_range(&p->view, done + item, sizeof(*done));
}

/* Item: a piece. */
FTH_HD void pmw_prefix_within(const struct pmw_prefix *p, uint64_t item, uint32_t lane)
{
	uint64_t first = item * PMW_PREFIX_PIECE;
	uint32_t carry = 0;

	if (fth_load_relaxed_sys32(p->within_done + item) == PMW_PREFIX_DONE) {
		for (uint64_t i = first + lane; i < first + PMW_PREFIX_PIECE; i += PMW_LANES)
			p->copy[i] = p->within[i];
		return;
	}
	for (uint64_t i = first + lane; i < first + PMW_PREFIX_PIECE; i += PMW_LANES) {
		uint32_t sum = carry + pmw_scan(p->input[i], lane);

		fth_pm_put32(&p->view, p->within + i, sum);
		p->copy[i] = sum;
		carry = pmw_last(sum);
	}
	pmw_prefix_finish(p, p->within, p->within_done, item, lane);
}

/* Item: an array. Its pieces' last sums, added up. */
FTH_HD void pmw_prefix_before(const struct pmw_prefix *p, uint64_t item, uint32_t lane)
{
	uint64_t first = item * p->pieces;
	uint32_t carry = 0;

	for (uint64_t base = 0; base < p->pieces; base += PMW_LANES) {
		uint64_t piece = first + base + lane;
		bool mine = base + lane < p->pieces;
		uint32_t value = mine ? p->copy[(piece + 1) * PMW_PREFIX_PIECE - 1] : 0;
		uint32_t sum = carry + pmw_scan(value, lane);

		if (mine)
			p->before[piece] = sum - value;
		carry = pmw_last(sum);
	}
}

/* Item: a piece. */
FTH_HD void pmw_prefix_add(const struct pmw_prefix *p, uint64_t item, uint32_t lane)
{
	uint64_t first = item * PMW_PREFIX_PIECE;

	if (fth_load_relaxed_sys32(p->sums_done + item) == PMW_PREFIX_DONE)
		return;
	for (uint64_t i = first + lane; i < first + PMW_PREFIX_PIECE; i += PMW_LANES)
		fth_pm_put32(&p->view, p->sums + i, p->copy[i] + p->before[item]);
	pmw_prefix_finish(p, p->sums, p->sums_done, item, lane);
}

#endif
