/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/facts/distinct_estimate.h"

#include "fathom/base/checksum.h"

#include <math.h>

void sketch_add_ints(uint8_t *sketch, const int64_t *values, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (i == 0 || values[i] != values[i - 1])
			sketch_add(sketch, fth_mix64((uint64_t)values[i] + 0x9e3779b97f4a7c15u));
}

uint64_t string_hash(const char *bytes, size_t length)
{
	return fth_checksum(bytes, length, 0);
}

void sketch_merge(uint8_t *to, const uint8_t *from)
{
	for (unsigned i = 0; i < SKETCH_REGISTERS; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

uint64_t sketch_estimate(const uint8_t *sketch)
{
	const double m = SKETCH_REGISTERS, alpha = 0.7213 / (1 + 1.079 / m);
	double sum = 0, estimate;
	unsigned zeroes = 0;

	for (unsigned i = 0; i < SKETCH_REGISTERS; i++) {
		sum += ldexp(1, -(int)sketch[i]);
		zeroes += sketch[i] == 0;
	}
	estimate = alpha * m * m / sum;
	/* Few values: count the registers that none of them hit. */
	if (estimate <= 2.5 * m && zeroes)
		estimate = m * log(m / zeroes);
	return (uint64_t)(estimate + 0.5);
}
