/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the TPC-H generator share. */
#ifndef FTH_WORKLOADS_TPCH_INTERNAL_H
#define FTH_WORKLOADS_TPCH_INTERNAL_H

#include "workloads/tpch/tpch.h"

struct tpch_prose;

#define TPCH_FIRST_DAY 8035 /* 1992-01-01 as days since 1970-01-01 */
#define TPCH_DAYS      2557 /* from there to 1998-12-31 */
#define TPCH_LINES_MAX 7    /* of an order */

struct fth_tpch {
	uint64_t thousandths; /* the scale factor */
	struct tpch_prose *prose;
	char days[TPCH_DAYS][16]; /* "1992-01-01" */
};

/* The most rows of a unit. */
unsigned tpch_rows_per_unit(enum fth_tpch_table table);

/*
 * From scale factor 30,000 on: where the 64-bit sequence of part keys is at an order. It depends on
 * how many lines every order before has, so it is followed from order to order.
 */
struct tpch_part_keys {
	uint64_t order;
	uint32_t lines_seed; /* of this order's number of lines */
	uint64_t seed;
};

bool tpch_uses_part_keys(const struct fth_tpch *tpch, enum fth_tpch_table table);
void tpch_part_keys_init(struct tpch_part_keys *keys);
/* Go on to `order`, which is not before keys->order. */
void tpch_part_keys_follow(struct tpch_part_keys *keys, uint64_t order);

/* fth_tpch_cursor_open(), with the part keys at order `first`; NULL if they are not used. */
int tpch_cursor_open_at(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			uint64_t count, const struct tpch_part_keys *keys,
			struct fth_tpch_cursor **out);

#endif
