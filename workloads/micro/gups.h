/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GUPS: random read-modify-write of 8-byte words, as in the RandomAccess part of the HPC Challenge
 * benchmark (P. Luszczek et al., 2005): T[r mod words] ^= r for a sequence of numbers r.
 *
 * Doing the same updates twice takes them back, so a table checks itself; updates are atomic, so
 * none gets lost, where HPCC allows 1 % of them to.
 */
#ifndef FTH_WORKLOADS_GUPS_H
#define FTH_WORKLOADS_GUPS_H

#include "fathom/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* HPCC's sequence: powers of x modulo x^64 + x^2 + x + 1 over GF(2). The one that follows r. */
static inline uint64_t fth_gups_next(uint64_t r)
{
	return r << 1 ^ (r >> 63 ? 7 : 0);
}

/* Its nth number. Takes a few microseconds. */
uint64_t fth_gups_nth(uint64_t n);

/* Zero-initialise for the defaults. */
struct fth_gups_options {
	uint64_t words;	       /* a power of two; default the most that the array holds */
	uint64_t updates;      /* default 4 * words */
	uint64_t first;	       /* where in the sequence to begin */
	unsigned threads;      /* default 1 */
	uint32_t batch;	       /* updates under way at once, per thread; default and at most 1024 */
	bool (*stopped)(void); /* ends it with -EINTR; NULL: never */
};

/* The options with every default filled in, or -EINVAL with a text. */
int fth_gups_settle(const struct fth_array *table, const struct fth_gups_options *options,
		    struct fth_gups_options *out);

/* Set T[i] = i. */
int fth_gups_fill(struct fth_array *table, const struct fth_gups_options *options);

/* Do the updates, then flush: they are durable when it returns 0. The elements are 8 bytes. */
int fth_gups_run(struct fth_array *table, const struct fth_gups_options *options);

/* How many words are not as fth_gups_fill() left them. */
int fth_gups_check(struct fth_array *table, const struct fth_gups_options *options,
		   uint64_t *wrong);

#ifdef __cplusplus
}
#endif
#endif
