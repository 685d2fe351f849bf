/* SPDX-License-Identifier: BSD-2-Clause */
#include "scalar/math.h"

#include "scalar/num.h"

#include <math.h>

/* Why PostgreSQL refuses the arguments, or NULL. */
static const char *refused(enum fth_math what, double a, double b)
{
	switch (what) {
	case FTH_MATH_SQRT:
		return a < 0 ? "cannot take square root of a negative number" : NULL;
	case FTH_MATH_LN:
	case FTH_MATH_LOG10:
		return a == 0  ? "cannot take logarithm of zero"
		       : a < 0 ? "cannot take logarithm of a negative number"
			       : NULL;
	case FTH_MATH_POWER:
		if (a == 0 && b < 0)
			return "zero raised to a negative power is undefined";
		if (a < 0 && isfinite(b) && floor(b) != b)
			return "a negative number raised to a non-integer power yields a complex "
			       "result";
		return NULL;
	default:
		return NULL;
	}
}

static double compute(enum fth_math what, double a, double b)
{
	switch (what) {
	case FTH_MATH_SQRT:
		return sqrt(a);
	case FTH_MATH_EXP:
		return exp(a);
	case FTH_MATH_LN:
		return log(a);
	case FTH_MATH_LOG10:
		return log10(a);
	default:
		return pow(a, b);
	}
}

const char *fth_f64_math(enum fth_math what, double a, double b, double *out)
{
	const char *why = refused(what, a, b);
	bool finite = isfinite(a) && (what != FTH_MATH_POWER || isfinite(b));

	if (why)
		return why;
	*out = compute(what, a, b);
	if (finite && isinf(*out))
		return "value out of range: overflow";
	if (finite && *out == 0 && (what == FTH_MATH_EXP || (what == FTH_MATH_POWER && a != 0)))
		return "value out of range: underflow";
	return NULL;
}

/* a * b in 256 bits. */
static void multiply(fth_u128 a, fth_u128 b, fth_u128 *high, fth_u128 *low)
{
	fth_u128 mask = UINT64_MAX, a0 = a & mask, a1 = a >> 64, b0 = b & mask, b1 = b >> 64;
	fth_u128 low0 = a0 * b0, mid = a1 * b0 + (low0 >> 64), mid2 = a0 * b1 + (mid & mask);

	*low = (mid2 << 64) | (low0 & mask);
	*high = a1 * b1 + (mid >> 64) + (mid2 >> 64);
}

/* Bit by bit: two bits of the radicand give one of the root. The radicand is below 2^253. */
static fth_u128 root_of(fth_u128 high, fth_u128 low)
{
	fth_u128 root = 0, rest = 0;

	for (int i = 127; i >= 0; i--) {
		fth_u128 half = i >= 64 ? high : low, trial = root << 2 | 1;

		rest = rest << 2 | (half >> (2 * (i & 63)) & 3);
		root <<= 1;
		if (rest >= trial) {
			rest -= trial;
			root |= 1;
		}
	}
	return root + (rest > root); /* (root + 1/2)^2 = root^2 + root + 1/4 */
}

const char *fth_dec_sqrt(fth_i128 a, unsigned scale, unsigned to, fth_i128 *out)
{
	fth_u128 high, low;

	if (a < 0)
		return "cannot take square root of a negative number";
	multiply((fth_u128)a, (fth_u128)fth_pow10(2 * to - scale), &high, &low);
	*out = (fth_i128)root_of(high, low);
	return NULL;
}
