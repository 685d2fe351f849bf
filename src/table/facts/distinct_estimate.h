/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An estimate of the number of distinct values: HyperLogLog (Flajolet et al. 2007) with
 * SKETCH_REGISTERS registers of one byte, standard error 3.3 %.
 */
#ifndef TABLE_DISTINCT_ESTIMATE_H
#define TABLE_DISTINCT_ESTIMATE_H

#include "table/format.h"

#include "fathom/base/rng.h"

#include <stddef.h>
#include <stdint.h>

static inline void sketch_add(uint8_t *sketch, uint64_t hash)
{
	uint8_t rank = (uint8_t)(__builtin_ctzll(hash >> 10 | (uint64_t)1 << 54) + 1);
	uint8_t *slot = &sketch[hash % SKETCH_REGISTERS];

	*slot = rank > *slot ? rank : *slot;
}

void sketch_add_ints(uint8_t *sketch, const int64_t *values, uint32_t n);
uint64_t string_hash(const char *bytes, size_t length);
void sketch_merge(uint8_t *to, const uint8_t *from);
uint64_t sketch_estimate(const uint8_t *sketch);

#endif
