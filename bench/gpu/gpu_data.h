/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the benchmarks of GPU threads move, for CPU and GPU. Every word follows from its place on
 * the medium, so that data is checked where it is, at the cost of an instruction or two, and two
 * words are never the same.
 */
#ifndef FTH_BENCH_GPU_DATA_H
#define FTH_BENCH_GPU_DATA_H

#include "fathom/hd/atomic.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_SECTOR	 512u
#define GPU_SECTOR_WORDS 64u
#define GPU_STAMP_SHIFT	 40 /* words of the medium below, 8 TiB */

/*
 * Word i of the medium, in words of 8 bytes. `stamp` says which data it is, in 24 bits: 0 is what a
 * medium holds to begin with.
 */
FTH_HD uint64_t gpu_word(uint64_t i, uint32_t stamp)
{
	return i ^ 0x5bd1e9955bd1e995ull ^ (uint64_t)stamp << GPU_STAMP_SHIFT;
}

/* A permutation of [0, mask]: multiplications by odd numbers and shifts are reversible. */
FTH_HD uint64_t gpu_shuffle(uint64_t n, uint64_t mask)
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

/* Pieces of a power of two of sectors, all of the same size, and the order in which they come. */
struct gpufile_order {
	uint64_t first; /* number of piece 0 of a run */
	uint64_t mask;	/* pieces of the device - 1, a power of two - 1 */
	uint32_t shift; /* log2 of the sectors of a piece */
	uint32_t stamp; /* which data, see gpu_word() */
	bool random;	/* each comes once before any comes again */
};

FTH_HD uint32_t gpufile_bytes(const struct gpufile_order *order)
{
	return GPU_SECTOR << order->shift;
}

/* Which piece of the device piece c of a run is. */
FTH_HD uint64_t gpufile_piece(const struct gpufile_order *order, uint64_t c)
{
	uint64_t n = order->first + c;

	return order->random ? gpu_shuffle(n, order->mask) : n & order->mask;
}

/* Which sector of the device sector s is, where pieces lie one behind the other from c on. */
FTH_HD uint64_t gpufile_sector(const struct gpufile_order *order, uint64_t c, uint64_t s)
{
	uint64_t within = s & (((uint64_t)1 << order->shift) - 1);

	return (gpufile_piece(order, c + (s >> order->shift)) << order->shift) + within;
}

#endif
