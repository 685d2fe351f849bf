/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Roots, powers and logarithms, with the results and the errors of PostgreSQL. Functions that can
 * fail return NULL, or the text of the error.
 */
#ifndef SCALAR_MATH_H
#define SCALAR_MATH_H

#include "scalar/scalar.h"

enum fth_math { FTH_MATH_SQRT, FTH_MATH_EXP, FTH_MATH_LN, FTH_MATH_LOG10, FTH_MATH_POWER };

/* Of a, or of a and b for FTH_MATH_POWER. */
const char *fth_f64_math(enum fth_math what, double a, double b, double *out);

/*
 * The square root of a decimal, rounded half away from zero to scale `to`; scale <= 2 * to, and
 * 2 * to - scale <= 38.
 */
const char *fth_dec_sqrt(fth_i128 a, unsigned scale, unsigned to, fth_i128 *out);

#endif
