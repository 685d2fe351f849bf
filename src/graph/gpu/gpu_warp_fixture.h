/* SPDX-License-Identifier: BSD-2-Clause */
/* What graphs on a GPU use of CUDA beside gpu/warp_fixture.h, for lanes that are CPU threads. */
#ifndef FTH_GRAPH_GPU_WARP_FIXTURE_H
#define FTH_GRAPH_GPU_WARP_FIXTURE_H

#include "gpu/warp_fixture.h"

template <typename T> static inline T atomicOr(T *at, T value)
{
	return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}

static inline double atomicAdd(double *at, double value)
{
	uint64_t *word = (uint64_t *)(void *)at, old = __atomic_load_n(word, __ATOMIC_RELAXED), now;
	double sum;

	do {
		__builtin_memcpy(&sum, &old, sizeof(sum));
		sum += value;
		__builtin_memcpy(&now, &sum, sizeof(now));
	} while (!__atomic_compare_exchange_n(word, &old, now, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return sum - value;
}

static inline uint32_t __reduce_min_sync(uint32_t mask, uint32_t value)
{
	const uint64_t *brought = fixture_meet(mask, value, MEET_REDUCE);

	for (uint32_t l = 0; l < FIXTURE_LANES; l++)
		if ((mask & 1u << l) && (uint32_t)brought[l] < value)
			value = (uint32_t)brought[l];
	return value;
}

#endif
