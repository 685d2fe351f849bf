/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of numbers of up to 128 bits: the values that distinct aggregates have seen. An open hash
 * table of the numbers themselves, in the narrowest of 4, 8 and 16 bytes that holds them. It
 * belongs to one thread.
 */
#ifndef FTH_QUERY_DISTINCT_H
#define FTH_QUERY_DISTINCT_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

struct distinct_set {
	struct fth_qmem *mem;
	unsigned width; /* of a slot in bytes */
	uint32_t slots; /* a power of two */
	uint64_t count;
	void *table; /* number + 1; 0: free */
	bool zero;   /* the number whose successor is 0 is there */
};

/* Numbers of up to `bits` bits are expected. Returns 0 or -ENOMEM. */
int distinct_set_init(struct distinct_set *d, struct fth_qmem *mem, unsigned bits);
void distinct_set_release(struct distinct_set *d);
/* Forget the numbers and keep the memory. */
void distinct_set_clear(struct distinct_set *d);

/* Room for `more` numbers of up to `bits` bits. Returns 0, or -ENOMEM with nothing lost. */
int distinct_set_reserve(struct distinct_set *d, unsigned bits, uint32_t more);
/*
 * Enter the numbers of selected rows; bit i of `fresh` is set if row i is selected and its number
 * was not there. Room must have been reserved. `fresh` may be `rows`.
 */
void distinct_set_add(struct distinct_set *d, const fth_u128 *numbers, unsigned n,
		      const uint64_t *rows, uint64_t *fresh);
/*
 * The next numbers from *at on, which is 0 at first and moves on; at most n. Returns how many, 0 at
 * the end.
 */
unsigned distinct_set_next(const struct distinct_set *d, uint64_t *at, fth_u128 *numbers,
			   unsigned n);

#endif
