/* SPDX-License-Identifier: BSD-2-Clause */
/* What both ways to answer a taxi query share: adding up, and the answer. */
#ifndef FTH_WORKLOADS_TAXI_ANSWER_H
#define FTH_WORKLOADS_TAXI_ANSWER_H

#include "workloads/taxi/taxi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sum and what rounding took from it (Neumaier, 1974): as if added up with twice the digits. */
struct taxi_sum {
	double sum, lost;
};

static inline void taxi_sum_add(struct taxi_sum *to, double value)
{
	double sum = to->sum + value;

	if (__builtin_fabs(to->sum) >= __builtin_fabs(value))
		to->lost += to->sum - sum + value;
	else
		to->lost += value - sum + to->sum;
	to->sum = sum;
}

/* One thread's share of an answer. Zero-initialise. */
struct taxi_tally {
	uint64_t trips;
	struct taxi_sum columns[FTH_TAXI_COLUMNS];
};

void taxi_tally_add(struct taxi_tally *to, const struct taxi_tally *more);

/* Set all that follows from the tally; the caller has the rest. */
void taxi_answer_set(struct fth_taxi_answer *answer, const struct fth_taxi_query *query,
		     const struct fth_taxi_table *table, const struct taxi_tally *tally);

/* 0, or -EINVAL with a text. */
int taxi_query_check(const struct fth_taxi_query *query);

#ifdef __cplusplus
}
#endif
#endif
