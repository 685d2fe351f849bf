/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The temperature of a chip from the power of its parts (Skadron et al., ISCA 2003; the explicit step and the constants
 * are those of the workload in Rodinia). The temperatures are saved by checkpoints.
 */
#ifndef FTH_WORKLOADS_PM_HOTSPOT_KERNELS_H
#define FTH_WORKLOADS_PM_HOTSPOT_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#define PMW_HOTSPOT_AMBIENT 80.0f

struct pmw_hotspot {
	float *now, *next; /* size * size temperatures */
	float *power;
	uint64_t size;
	uint64_t seed;
	float step, across,
		up; /* step over capacity; 1 over the resistances within the chip and upwards */
};

/* Item: a row. */
FTH_HD void pmw_hotspot_fill(const struct pmw_hotspot *p, uint64_t item, uint32_t lane)
{
	for (uint64_t x = lane; x < p->size; x += PMW_LANES) {
		struct fth_rng rng = {p->seed + item * p->size + x};

		p->now[item * p->size + x] = 320 + 20 * (float)fth_rng_unit(&rng);
		p->power[item * p->size + x] =
			(item / 64 + x / 64) % 3 ? 0 : 0.008f * (float)fth_rng_unit(&rng);
	}
}

/* Item: a row. */
FTH_HD void pmw_hotspot_step(const struct pmw_hotspot *p, uint64_t item, uint32_t lane)
{
	const float *row = p->now + item * p->size;

	for (uint64_t x = lane; x < p->size; x += PMW_LANES) {
		float here = row[x];
		float north = item > 0 ? row[x - p->size] : here;
		float south = item + 1 < p->size ? row[x + p->size] : here;
		float west = x > 0 ? row[x - 1] : here;
		float east = x + 1 < p->size ? row[x + 1] : here;
		float flow = (north + south + west + east - 4 * here) * p->across +
			     (PMW_HOTSPOT_AMBIENT - here) * p->up + p->power[item * p->size + x];

		p->next[item * p->size + x] = here + p->step * flow;
	}
}

#endif
