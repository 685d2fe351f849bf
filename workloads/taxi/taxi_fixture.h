/* SPDX-License-Identifier: BSD-2-Clause */
/* Taxi tables for tests, and the answer that a plain loop over the trips gives. */
#ifndef FTH_WORKLOADS_TAXI_FIXTURE_H
#define FTH_WORKLOADS_TAXI_FIXTURE_H

#include "workloads/taxi/taxi.h"

#include "fth_test.h"

/* Fill a device with made-up trips. 0 or a negative errno. */
static inline int taxi_fixture_write(struct fth_dev *dev, uint64_t rows, uint64_t seed,
				     struct fth_taxi_table *table)
{
	struct fth_taxi_generator generator;
	struct fth_taxi_writer *writer;
	struct fth_taxi_trip trip;
	int rc = fth_taxi_writer_open(dev, rows, &writer);

	fth_taxi_generator_init(&generator, rows, seed);
	for (uint64_t i = 0; i < rows && rc == 0; i++) {
		fth_taxi_generate(&generator, &trip);
		rc = fth_taxi_writer_add(writer, &trip);
	}
	if (rc == 0)
		rc = fth_taxi_writer_finish(writer, table);
	fth_taxi_writer_free(writer);
	return rc;
}

/* Straight from the generator, by a loop that knows no device, in long doubles. */
static inline void taxi_fixture_answer(uint64_t rows, uint64_t seed,
				       const struct fth_taxi_query *query,
				       struct fth_taxi_answer *out)
{
	long double sums[FTH_TAXI_COLUMNS] = {0}, dollars;
	struct fth_taxi_generator generator;
	struct fth_taxi_trip trip;

	*out = (struct fth_taxi_answer){0};
	fth_taxi_generator_init(&generator, rows, seed);
	for (uint64_t i = 0; i < rows; i++) {
		fth_taxi_generate(&generator, &trip);
		if (trip.column[FTH_TAXI_DISTANCE] < query->miles)
			continue;
		out->trips++;
		for (unsigned c = 0; c <= query->query; c++)
			sums[c] += trip.column[c];
	}
	dollars = sums[FTH_TAXI_TOTAL];
	for (unsigned c = FTH_TAXI_SURCHARGES; c <= query->query; c++)
		dollars -= sums[c];
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		out->sums[c] = (double)sums[c];
	if (query->query && sums[FTH_TAXI_DISTANCE] > 0)
		out->dollars_per_mile = (double)(dollars / sums[FTH_TAXI_DISTANCE]);
}

/* Equal but for rounding. */
static inline void taxi_fixture_compare(const struct fth_taxi_answer *found,
					const struct fth_taxi_answer *expected)
{
	double difference = found->dollars_per_mile - expected->dollars_per_mile;

	assert_int_equal(found->trips, expected->trips);
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		assert_true(found->sums[c] == expected->sums[c] ||
			    (found->sums[c] / expected->sums[c] > 1 - 1e-12 &&
			     found->sums[c] / expected->sums[c] < 1 + 1e-12));
	assert_true(difference < 1e-9 && difference > -1e-9);
}

#endif
