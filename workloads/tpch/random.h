/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The random numbers of the reference generator.
 *
 * Each column draws from a sequence of its own: seed = 16807 * seed mod 2^31 - 1 (Lehmer's
 * generator with the constants of S. Park and K. Miller, "Random number generators: good ones are
 * hard to find", CACM 31(10), 1988). A row takes a fixed number of draws from each, used or not, so
 * that row n of a column begins at a seed that one modular power finds.
 *
 * Keys of tables with more than 2^31 rows come from another sequence: seed = 6364136223846793005 *
 * seed + 1 mod 2^64.
 */
#ifndef FTH_WORKLOADS_TPCH_RANDOM_H
#define FTH_WORKLOADS_TPCH_RANDOM_H

#include <stdint.h>

/*
 * For functions that touch nothing but their arguments and constant tables: ThreadSanitizer has
 * nothing to find there, and takes 20 s for the text of 300 MiB otherwise.
 */
#define TPCH_PRIVATE __attribute__((no_sanitize("thread")))

#define TPCH_MULTIPLIER 16807u
#define TPCH_MODULUS	2147483647u

/* a * b mod 2^31 - 1, for a and b below it. */
TPCH_PRIVATE static inline uint32_t tpch_multiply(uint32_t a, uint32_t b)
{
	uint64_t product = (uint64_t)a * b;
	uint32_t sum = (uint32_t)(product & TPCH_MODULUS) + (uint32_t)(product >> 31);

	return sum >= TPCH_MODULUS ? sum - TPCH_MODULUS : sum;
}

/* What `steps` draws multiply a seed by. */
static inline uint32_t tpch_power(uint64_t steps)
{
	uint32_t power = 1, square = TPCH_MULTIPLIER;

	for (; steps; steps >>= 1) {
		if (steps & 1)
			power = tpch_multiply(power, square);
		square = tpch_multiply(square, square);
	}
	return power;
}

/*
 * Draw a number from low to high. The reference generator computes seed / modulus * range in double
 * and truncates. For a range below 2^20 this is the exact quotient: the modulus is a prime, so the
 * exact value is at least 1 / modulus away from every integer, and the error of the two roundings
 * is smaller. Then integers do, which takes a quarter of the time.
 */
TPCH_PRIVATE static inline int64_t tpch_draw(uint32_t *seed, int64_t low, int64_t high)
{
	int64_t range = high - low + 1;
	uint64_t product;

	*seed = tpch_multiply(*seed, TPCH_MULTIPLIER);
	if (range < 0 || range > 1 << 20)
		return low + (int64_t)((double)*seed / 2147483647.0 * (double)range);
	/* Divided by 2^31 - 1. */
	product = *seed * (uint64_t)range;
	return low + (int64_t)((product + (product >> 31) + 1) >> 31);
}

/* ---- 64 bits ---- */

#define TPCH_MULTIPLIER64 UINT64_C(6364136223846793005)

static inline int64_t tpch_draw64(uint64_t *seed, int64_t low, int64_t high)
{
	int64_t value;

	*seed = *seed * TPCH_MULTIPLIER64 + 1;
	value = (int64_t)(*seed >> 63 ? 0 - *seed : *seed);
	return low + value % (high - low + 1);
}

/* The seed after `steps` draws: x -> a x + c, squared as often as needed. */
static inline uint64_t tpch_advance64(uint64_t seed, uint64_t steps)
{
	uint64_t a = TPCH_MULTIPLIER64, c = 1;

	for (; steps; steps >>= 1) {
		if (steps & 1)
			seed = seed * a + c;
		c *= a + 1;
		a *= a;
	}
	return seed;
}

/*
 * Leave out `steps` draws of a 64-bit sequence at the end of a row. The reference generator uses
 * the arithmetic of 31 bits here, on 64-bit numbers with a sign that overflow.
 */
static inline uint64_t tpch_leave_out64(uint64_t seed, uint64_t steps)
{
	uint32_t square = TPCH_MULTIPLIER;

	for (; steps; steps >>= 1) {
		if (steps & 1)
			seed = (uint64_t)((int64_t)(seed * square) % (int64_t)TPCH_MODULUS);
		square = tpch_multiply(square, square);
	}
	return seed;
}

#endif
