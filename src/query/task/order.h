/* SPDX-License-Identifier: BSD-2-Clause */
/* Sorting the rows of a result. */
#ifndef FTH_QUERY_ORDER_H
#define FTH_QUERY_ORDER_H

#include "query/task/rows.h"

struct order_key {
	unsigned column; /* of the rows */
	bool descending, nulls_first;
};

/*
 * The numbers of all rows in order, into an array of *count elements that the caller frees. Rows that compare
 * equal are in any order. Returns 0 or -ENOMEM.
 */
int order_rows(struct fth_qmem *mem, const struct rows_block *const *blocks, uint32_t block_count,
	       const struct task_slot *columns, const struct order_key *keys, unsigned key_count,
	       uint32_t **numbers, uint64_t *count);

#endif
