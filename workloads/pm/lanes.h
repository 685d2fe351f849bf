/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the kernels of the persistent workloads are written: once, for both processors.
 *
 * A kernel is a function of (parameters, item, lane). An item is a piece of work of a warp; the
 * warp's PMW_LANES lanes share it, each taking every PMW_LANES-th element. A CPU thread is a warp
 * of one lane, so the loops over elements are plain loops there. What lanes tell each other goes
 * through the functions below.
 */
#ifndef FTH_WORKLOADS_PM_LANES_H
#define FTH_WORKLOADS_PM_LANES_H

#include "fathom/detail/pm/view.h"
#include "fathom/hd/atomic.h"

#define PMW_WARP 32u /* elements that are next to each other in an item of 32 */

#if defined(__CUDA_ARCH__) || defined(FTH_WARP_ON_HOST)
#define PMW_LANES 32u

/* All lanes come here, and see what the others stored before. */
FTH_HD void pmw_meet(void)
{
	__syncwarp();
}

/* The sum of `value` over this lane and those before it. */
FTH_HD uint32_t pmw_scan(uint32_t value, uint32_t lane)
{
	for (uint32_t step = 1; step < PMW_LANES; step *= 2) {
		uint32_t other = __shfl_sync(~0u, value, (int)(lane >= step ? lane - step : lane));

		if (lane >= step)
			value += other;
	}
	return value;
}

/* What the last lane has. */
FTH_HD uint32_t pmw_last(uint32_t value)
{
	return __shfl_sync(~0u, value, (int)PMW_LANES - 1);
}
#else
#define PMW_LANES 1u

FTH_HD void pmw_meet(void)
{
}

FTH_HD uint32_t pmw_scan(uint32_t value, uint32_t lane)
{
	(void)lane;
	return value;
}

FTH_HD uint32_t pmw_last(uint32_t value)
{
	return value;
}
#endif

#endif
