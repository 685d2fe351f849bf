/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * c = a + b over arrays of 8-byte doubles on flash: two streams in, one out (Z. Qureshi et al.,
 * ASPLOS 2023, section 5.4). What is written is written whole lines at a time, so that nothing of c
 * is fetched, and goes out while more comes in.
 */
#ifndef FTH_WORKLOADS_VECTORADD_H
#define FTH_WORKLOADS_VECTORADD_H

#include "fathom/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise for the defaults. */
struct fth_vectoradd_options {
	unsigned threads;      /* default 1 */
	uint64_t ahead;	       /* bytes of each input brought in before they are needed, per thread;
				  default a 16th of the cache's memory over all threads, and 4 MiB at
				  most */
	bool (*stopped)(void); /* ends it with -EINTR; NULL: never */
};

/*
 * Add, then flush: c is durable when it returns 0. All three have as many elements, and lines of
 * one size; c is another array than a and b.
 */
int fth_vectoradd_run(struct fth_array *a, struct fth_array *b, struct fth_array *c,
		      const struct fth_vectoradd_options *options);

/*
 * Inputs that check themselves: element i of vector `which` (0 for a, 1 for b). They are integers
 * below 2^24, so that sums are exact.
 */
double fth_vectoradd_value(uint64_t seed, unsigned which, uint64_t i);

/* Fill an input with them, and flush. */
int fth_vectoradd_fill(struct fth_array *array, uint64_t seed, unsigned which,
		       const struct fth_vectoradd_options *options);

/* How many elements of c are not the sum of what a and b were filled with. */
int fth_vectoradd_check(struct fth_array *c, uint64_t seed,
			const struct fth_vectoradd_options *options, uint64_t *wrong);

#ifdef __cplusplus
}
#endif
#endif
