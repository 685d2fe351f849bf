/* SPDX-License-Identifier: BSD-2-Clause */
/* The pieces of a device that `fathom bench gpufile` moves, for CPU and GPU. */
#ifndef FTH_BENCH_GPUFILE_DATA_H
#define FTH_BENCH_GPUFILE_DATA_H

#include "gpublock_data.h"

#include <stdbool.h>

#define GPUFILE_SECTOR 512u

/* Pieces of a power of two of sectors, all of the same size, and the order in which they come. */
struct gpufile_order {
	uint64_t first; /* number of piece 0 of a run */
	uint64_t mask;	/* pieces of the device - 1, a power of two - 1 */
	uint32_t shift; /* log2 of the sectors of a piece */
	uint32_t stamp; /* which data, see gpublock_word() */
	bool random;	/* each comes once before any comes again */
};

FTH_HD uint32_t gpufile_bytes(const struct gpufile_order *order)
{
	return GPUFILE_SECTOR << order->shift;
}

/* Which piece of the device piece c of a run is. */
FTH_HD uint64_t gpufile_piece(const struct gpufile_order *order, uint64_t c)
{
	uint64_t n = order->first + c;

	return order->random ? gpublock_shuffle(n, order->mask) : n & order->mask;
}

/* Which sector of the device sector s is, where pieces lie one behind the other from c on. */
FTH_HD uint64_t gpufile_sector(const struct gpufile_order *order, uint64_t c, uint64_t s)
{
	uint64_t within = s & (((uint64_t)1 << order->shift) - 1);

	return (gpufile_piece(order, c + (s >> order->shift)) << order->shift) + within;
}

#endif
