/* SPDX-License-Identifier: BSD-2-Clause */
/* Walking over the rows of a bitmap. */
#ifndef FTH_QUERY_BIT_ROWS_H
#define FTH_QUERY_BIT_ROWS_H

#include "query/vec/vec.h"

/* The statement that follows runs for each set bit, with its number in i (a uint64_t). */
#define FTH_FOR_ROWS(rows, n, i)                                                        \
	for (unsigned w_ = 0; w_ < fth_bits_words(n); w_++)                             \
		for (uint64_t bits_ = (rows)[w_], i = 0;                                \
		     bits_ && ((i = w_ * 64 + (unsigned)__builtin_ctzll(bits_)), true); \
		     bits_ &= bits_ - 1)

#endif
