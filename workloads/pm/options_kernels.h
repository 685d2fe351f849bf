/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prices of European options (Black and Scholes, Journal of Political Economy, 1973), averaged over days: each
 * step adds the prices with one day less to go. What has been added up is saved by checkpoints.
 */
#ifndef FTH_WORKLOADS_PM_OPTIONS_KERNELS_H
#define FTH_WORKLOADS_PM_OPTIONS_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#include <math.h>

#define PMW_OPTIONS_ITEM 1024u /* options */

struct pmw_options_work {
	float *call, *put; /* sums of the prices so far */
	uint64_t count;
	uint64_t seed;
	float day; /* of 1: the part of a year that has passed */
};

struct pmw_option {
	float stock, strike, years;
};

FTH_HD struct pmw_option pmw_option_of(const struct pmw_options_work *p, uint64_t i)
{
	struct fth_rng rng = {p->seed + i};
	struct pmw_option o;

	o.stock = 5 + 25 * (float)fth_rng_unit(&rng);
	o.strike = 1 + 99 * (float)fth_rng_unit(&rng);
	o.years = 1.25f + 8.75f * (float)fth_rng_unit(&rng) - p->day;
	return o;
}

/* The distribution function of the standard normal distribution. */
FTH_HD float pmw_normal(float x)
{
	return 0.5f * erfcf(-x * 0.70710678f);
}

FTH_HD void pmw_option_price(const struct pmw_option *o, float *call, float *put)
{
	const float riskless = 0.02f, volatility = 0.30f;
	float root = volatility * sqrtf(o->years);
	float d1 = (logf(o->stock / o->strike) +
		    (riskless + 0.5f * volatility * volatility) * o->years) /
		   root;
	float d2 = d1 - root;
	float discounted = o->strike * expf(-riskless * o->years);

	*call = o->stock * pmw_normal(d1) - discounted * pmw_normal(d2);
	*put = discounted * pmw_normal(-d2) - o->stock * pmw_normal(-d1);
}

/* Item: 1024 options. */
FTH_HD void pmw_options_step(const struct pmw_options_work *p, uint64_t item, uint32_t lane)
{
	uint64_t end =
		(item + 1) * PMW_OPTIONS_ITEM < p->count ? (item + 1) * PMW_OPTIONS_ITEM : p->count;

	for (uint64_t i = item * PMW_OPTIONS_ITEM + lane; i < end; i += PMW_LANES) {
		struct pmw_option o = pmw_option_of(p, i);
		float call, put;

		pmw_option_price(&o, &call, &put);
		p->call[i] += call;
		p->put[i] += put;
	}
}

#endif
