/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Seeded pseudo-random numbers (SplitMix64, Steele et al. 2014): one word of state, any seed is
 * good. For fault injection, tests, generators and benchmarks; not for secrets.
 */
#ifndef FATHOM_BASE_RNG_H
#define FATHOM_BASE_RNG_H

#include "fathom/hd/atomic.h"

/* Zero-initialise or set to any seed. */
struct fth_rng {
	uint64_t state;
};

/*
 * The finalizer of splitmix64: a bijection of 64-bit integers in which every input bit affects
 * every output bit.
 */
FTH_HD uint64_t fth_mix64(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* The next 64 random bits. A generator belongs to one thread at a time. */
FTH_HD uint64_t fth_rng_next(struct fth_rng *rng)
{
	rng->state += 0x9e3779b97f4a7c15u;
	return fth_mix64(rng->state);
}

/* A number in [0, n); n > 0. The bias is below n / 2^64. */
FTH_HD uint64_t fth_rng_below(struct fth_rng *rng, uint64_t n)
{
#ifdef __CUDA_ARCH__
	return __umul64hi(fth_rng_next(rng), n);
#else
	__extension__ unsigned __int128 product = (unsigned __int128)fth_rng_next(rng) * n;

	return (uint64_t)(product >> 64);
#endif
}

/* A number in [0, 1). */
FTH_HD double fth_rng_unit(struct fth_rng *rng)
{
	return (double)(fth_rng_next(rng) >> 11) * 0x1.0p-53;
}

#endif
