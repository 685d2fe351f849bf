/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Made-up taxi trips. Which rows are long is decided by selection sampling (Knuth, The Art of
 * Computer Programming, vol. 2, 3.4.2, algorithm S): one pass, exact counts, every choice of rows
 * equally likely.
 */
#include "workloads/taxi/taxi.h"
#include "fathom/base/rng.h"

#include <math.h>

#define MEAN_SHORT_TRIP 2.6  /* miles; about the mean of the published trips */
#define MEAN_BEYOND_30	9.0  /* by how much a very long trip is longer than that */
#define LONGEST		99.9 /* miles */

static uint64_t share(uint64_t rows, uint64_t per_ten_thousand)
{
	/* In two parts, so that no number of rows overflows. */
	return rows / 10000 * per_ten_thousand + (rows % 10000 * per_ten_thousand + 5000) / 10000;
}

uint64_t fth_taxi_long_trips(uint64_t rows)
{
	return share(rows, 47);
}

uint64_t fth_taxi_very_long_trips(uint64_t rows)
{
	return share(rows, 3);
}

void fth_taxi_generator_init(struct fth_taxi_generator *generator, uint64_t rows, uint64_t seed)
{
	generator->state = fth_mix64(seed + 1);
	generator->left = rows;
	generator->left_long = fth_taxi_long_trips(rows);
	generator->left_very_long = fth_taxi_very_long_trips(rows);
}

/* Money and miles are published with two digits. */
static double hundredths(double value)
{
	return floor(value * 100 + 0.5) / 100;
}

static double below(double value, double bound)
{
	return value < bound ? value : bound - 0.01;
}

static double exponential(struct fth_rng *rng, double mean)
{
	return -mean * log(1 - fth_rng_unit(rng));
}

static double draw_miles(struct fth_taxi_generator *generator, struct fth_rng *rng)
{
	uint64_t draw = fth_rng_below(rng, generator->left--);

	if (draw >= generator->left_long)
		return below(hundredths(exponential(rng, MEAN_SHORT_TRIP)), FTH_TAXI_LONG);
	draw = fth_rng_below(rng, generator->left_long--);
	if (draw >= generator->left_very_long)
		return below(hundredths(FTH_TAXI_LONG + 10 * fth_rng_unit(rng)),
			     FTH_TAXI_VERY_LONG);
	generator->left_very_long--;
	return below(hundredths(FTH_TAXI_VERY_LONG + exponential(rng, MEAN_BEYOND_30)), LONGEST);
}

static bool chance(struct fth_rng *rng, double p)
{
	return fth_rng_unit(rng) < p;
}

/* The tariff of 2019: who is long on the road pays tolls more often. */
void fth_taxi_generate(struct fth_taxi_generator *generator, struct fth_taxi_trip *out)
{
	struct fth_rng rng = {generator->state};
	double miles = draw_miles(generator, &rng), fare, tip, sum;
	double *column = out->column;

	fare = hundredths(2.5 + 2.5 * miles + exponential(&rng, 2));
	column[FTH_TAXI_DISTANCE] = miles;
	column[FTH_TAXI_SURCHARGES] =
		0.3 + (chance(&rng, 0.5) ? 0.5 : 0) + (chance(&rng, 0.9) ? 2.5 : 0);
	column[FTH_TAXI_HAIL_FEE] = chance(&rng, 0.1) ? 2.75 : 0;
	column[FTH_TAXI_TOLLS] = chance(&rng, miles < 10 ? 0.02 : 0.5) ? 5.76 : 0;
	column[FTH_TAXI_TAXES] = chance(&rng, 0.99) ? 0.5 : 0;
	tip = chance(&rng, 0.6) ? hundredths(fare * 0.2) : 0;
	sum = fare + tip;
	for (unsigned c = FTH_TAXI_SURCHARGES; c <= FTH_TAXI_TAXES; c++)
		sum += column[c];
	column[FTH_TAXI_TOTAL] = hundredths(sum);
	generator->state = rng.state;
}
