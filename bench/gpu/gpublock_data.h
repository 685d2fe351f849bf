/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which blocks the benchmarks of GPU threads move, and what is in them, for CPU and GPU: every word
 * follows from its address, so that data is checked where it is.
 */
#ifndef FTH_BENCH_GPUBLOCK_DATA_H
#define FTH_BENCH_GPUBLOCK_DATA_H

#include "fathom/base/rng.h"

/* A permutation of [0, mask]: multiplications by odd numbers and shifts are reversible. */
FTH_HD uint64_t gpublock_shuffle(uint64_t n, uint64_t mask)
{
	uint32_t half = 0;

	while (mask >> half > (1ull << half))
		half++;
	for (int i = 0; i < 2; i++) {
		n = n * 0x9e3779b97f4a7c15ull & mask;
		n ^= n >> half;
	}
	return n * 0xbf58476d1ce4e5b9ull & mask;
}

/* Word i of a 512-byte sector; `stamp` 0 is what the medium holds to begin with. */
FTH_HD uint64_t gpublock_word(uint64_t sector, uint32_t stamp, uint32_t i)
{
	return fth_mix64(sector ^ (uint64_t)stamp << 40) + i;
}

#endif
