/* SPDX-License-Identifier: BSD-2-Clause */
#include "latency.h"

/*
 * Values below FTH_LATENCY_SUB have a bucket each. Above, the highest bit says the row and the bits
 * after it the bucket in the row.
 */
static unsigned bucket_of(uint64_t ns)
{
	unsigned row, shift;

	if (ns < FTH_LATENCY_SUB)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - 6;
	row = shift + 1;
	if (row >= FTH_LATENCY_POWERS)
		return FTH_LATENCY_BUCKETS - 1;
	return row * FTH_LATENCY_SUB + (unsigned)(ns >> shift) % FTH_LATENCY_SUB;
}

/* The middle of a bucket. */
static uint64_t bucket_value(unsigned bucket)
{
	unsigned row = bucket / FTH_LATENCY_SUB;
	uint64_t sub = bucket % FTH_LATENCY_SUB;

	if (row == 0)
		return sub;
	return ((FTH_LATENCY_SUB + sub) << (row - 1)) + ((UINT64_C(1) << (row - 1)) >> 1);
}

void fth_latency_add(struct fth_latency *latency, uint64_t ns)
{
	latency->count++;
	latency->buckets[bucket_of(ns)]++;
}

void fth_latency_merge(struct fth_latency *into, const struct fth_latency *from)
{
	into->count += from->count;
	for (unsigned i = 0; i < FTH_LATENCY_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

uint64_t fth_latency_quantile(const struct fth_latency *latency, double share)
{
	double want = share * (double)latency->count;
	uint64_t seen = 0;

	for (unsigned i = 0; i < FTH_LATENCY_BUCKETS; i++) {
		seen += latency->buckets[i];
		if (seen && (double)seen >= want)
			return bucket_value(i);
	}
	return 0;
}
