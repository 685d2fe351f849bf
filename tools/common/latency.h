/* SPDX-License-Identifier: BSD-2-Clause */
/* A histogram of latencies: buckets of 1.6 % of their value, from nanoseconds to minutes. */
#ifndef FTH_TOOLS_LATENCY_H
#define FTH_TOOLS_LATENCY_H

#include <stdint.h>

#define FTH_LATENCY_SUB	    64u /* buckets from one power of two to the next */
#define FTH_LATENCY_POWERS  32u
#define FTH_LATENCY_BUCKETS (FTH_LATENCY_SUB * FTH_LATENCY_POWERS)

/* Zero-initialise. One thread at a time. */
struct fth_latency {
	uint64_t count;
	uint64_t buckets[FTH_LATENCY_BUCKETS];
};

void fth_latency_add(struct fth_latency *latency, uint64_t ns);
void fth_latency_merge(struct fth_latency *into, const struct fth_latency *from);

/* The latency below which this share (0 to 1) of all are, in ns; 0 if there are none. */
uint64_t fth_latency_quantile(const struct fth_latency *latency, double share);

#endif
