/* SPDX-License-Identifier: BSD-2-Clause */
/* Sequences of integers in a chunk (format.h): writing, verifying, decoding. */
#ifndef TABLE_SEQUENCE_H
#define TABLE_SEQUENCE_H

#include "table/format.h"

#include "fathom/table/read.h"

#include <stdbool.h>
#include <stdint.h>

/* How to store some values, and what it takes. */
struct sequence_plan {
	bool delta;
	unsigned width;
	int64_t base;
	uint64_t factor;
	uint64_t bytes;
};

/* What a plan is made from. count > 0. */
struct sequence_stats {
	uint32_t count;
	int64_t min, max;
	uint32_t runs;		    /* of equal values */
	int64_t min_step, max_step; /* between neighbours; valid if steps */
	bool steps;		    /* no difference overflows */
};
void sequence_measure(const int64_t *values, uint32_t count, struct sequence_stats *stats);

/* The smaller of packed and, if it saves a third, delta. */
void sequence_choose(const int64_t *values, const struct sequence_stats *stats,
		     struct sequence_plan *plan);

/* Write it; to has plan->bytes bytes, a multiple of 8. */
void sequence_write(const int64_t *values, uint32_t count, const struct sequence_plan *plan,
		    unsigned char *to);

/*
 * Find a sequence of `count` values at *at of a head of `length` bytes, and move *at behind it.
 * False if its header is invalid or it does not fit.
 */
bool sequence_find(const unsigned char *head, uint64_t length, uint64_t *at, uint32_t count,
		   struct fth_table_sequence *out);

/* Values [from, to) into signed or unsigned integers of `size` bytes, truncated to that size. */
void sequence_get(const struct fth_table_sequence *sequence, uint32_t from, uint32_t to,
		  void *values, unsigned size);
int64_t sequence_at(const struct fth_table_sequence *sequence, uint32_t i);

#endif
