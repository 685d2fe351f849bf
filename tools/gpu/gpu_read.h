/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom gpu read` computes alike on CPU and GPU: in which order lines are read, and the
 * checksum of what was. The sum is over words, each mixed with its place, so that it does not
 * depend on the order, nor on who has added up what. For errors, not against forgery.
 */
#ifndef FTH_TOOLS_GPU_READ_H
#define FTH_TOOLS_GPU_READ_H

#include "fathom/base/rng.h"

#include <stdbool.h>
#include <stddef.h>

/* The part of word i, which is at byte 8 * i. */
FTH_HD uint64_t gpu_read_sum_word(uint64_t word, uint64_t i)
{
	return fth_mix64(word + (i + 1) * 0x9e3779b97f4a7c15u);
}

/* The part of n words from word `first` on. */
FTH_HD uint64_t gpu_read_sum(const uint64_t *words, size_t n, uint64_t first)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += gpu_read_sum_word(words[i], first + i);
	return sum;
}

struct gpu_read_order {
	uint64_t lines;
	uint64_t mask; /* of the next power of two */
	uint32_t half; /* of its bits, 1 at least */
	bool random;
};

FTH_HD struct gpu_read_order gpu_read_order(uint64_t lines, bool random)
{
	struct gpu_read_order order = {lines, 1, 0, random};
	uint32_t bits = 1;

	while (order.mask < lines - 1) {
		order.mask = order.mask << 1 | 1;
		bits++;
	}
	order.half = (bits + 1) / 2;
	return order;
}

/*
 * Which line comes as number k of `lines`: each once. Multiplications by odd numbers and shifts are
 * a permutation of a power of two of numbers; one that leads outside is taken again, which ends
 * since k itself is inside and on the same cycle.
 */
FTH_HD uint64_t gpu_read_line(const struct gpu_read_order *order, uint64_t k)
{
	if (!order->random)
		return k;
	do {
		k = (k * 0x9e3779b97f4a7c15u + 0x94d049bb133111ebu) & order->mask;
		k ^= k >> order->half;
		k = k * 0xbf58476d1ce4e5b9u & order->mask;
		k ^= k >> order->half;
	} while (k >= order->lines);
	return k;
}

#endif
