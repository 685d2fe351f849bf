/* SPDX-License-Identifier: BSD-2-Clause */
#include "answer.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>

/* Sums are kept with twice the digits of a double and rounded once: this is generous. */
#define SAME 1e-12

void taxi_tally_add(struct taxi_tally *to, const struct taxi_tally *more)
{
	to->trips += more->trips;
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++) {
		taxi_sum_add(&to->columns[c], more->columns[c].sum);
		to->columns[c].lost += more->columns[c].lost;
	}
}

void taxi_answer_set(struct fth_taxi_answer *answer, const struct fth_taxi_query *query,
		     const struct fth_taxi_table *table, const struct taxi_tally *tally)
{
	double dollars;

	answer->trips = tally->trips;
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		answer->sums[c] = tally->columns[c].sum + tally->columns[c].lost;
	answer->bytes_useful =
		sizeof(double) * (table->rows + (uint64_t)query->query * tally->trips);
	dollars = answer->sums[FTH_TAXI_TOTAL];
	for (unsigned c = FTH_TAXI_SURCHARGES; c <= query->query; c++)
		dollars -= answer->sums[c];
	answer->dollars_per_mile = 0;
	if (query->query > 0 && answer->sums[FTH_TAXI_DISTANCE] > 0)
		answer->dollars_per_mile = dollars / answer->sums[FTH_TAXI_DISTANCE];
}

int taxi_query_check(const struct fth_taxi_query *query)
{
	if (query->query >= FTH_TAXI_QUERIES)
		return fth_fail(EINVAL, "query %u does not exist: expected 0 to %u", query->query,
				FTH_TAXI_QUERIES - 1);
	if (isnan(query->miles))
		return fth_fail(EINVAL, "the bound in miles is not a number");
	return 0;
}

bool fth_taxi_same_answer(const struct fth_taxi_answer *a, const struct fth_taxi_answer *b)
{
	if (a->trips != b->trips)
		return false;
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		if (!(fabs(a->sums[c] - b->sums[c]) <= SAME * fabs(a->sums[c])))
			return false;
	return true;
}
