/* SPDX-License-Identifier: BSD-2-Clause */
/* The columns of bench vec, and the peer: plain loops over them, a row at a time. */
#ifndef FTH_BENCH_VEC_PLAIN_H
#define FTH_BENCH_VEC_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#define VEC_GROUPS 6 /* three flags, two states */

/* As narrow as their values: what a decoder of packed columns leaves. */
struct vec_columns {
	size_t rows;
	int16_t *ship; /* days since VEC_SHIP_BASE */
	int8_t *quantity, *discount, *tax, *flag, *state;
	int32_t *price;
};

#define VEC_SHIP_BASE 8036

struct vec_group {
	uint64_t count;
	int64_t quantity, price, discount, discounted, charge;
};

/* TPC-H Q1: sums by flag and state of rows shipped until `until`. */
void vec_plain_q1(const struct vec_columns *c, int32_t until, struct vec_group *groups);
/*
 * TPC-H Q6: price * discount of rows shipped in [from, to), discount in [lo, hi], quantity below
 * `most`.
 */
int64_t vec_plain_q6(const struct vec_columns *c, int32_t from, int32_t to, int lo, int hi,
		     int most);

#endif
