/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers, one at a time, and their text. A decimal is an integer that counts units of 10^-scale,
 * at most 38 digits. Functions that can fail return 0 or a negative errno without a text: -ERANGE
 * for a result that does not fit, -EDOM for a division by zero, -EINVAL for text that is no number.
 */
#ifndef SCALAR_NUM_H
#define SCALAR_NUM_H

#include "scalar/scalar.h"

#define FTH_DEC_DIGITS 38
/* A decimal of so many digits is only compared: what 38 digits do not hold is 10^38 or -10^38. */
#define FTH_DEC_COMPARED 39

/* 10^n, n <= 38. */
fth_i128 fth_pow10(unsigned n);
/* The greatest decimal: 10^38 - 1. */
fth_i128 fth_dec_max(void);

/* a / 10^digits, rounded half away from zero. */
fth_i128 fth_dec_round(fth_i128 a, unsigned digits);
/* a / 10^digits, rounded down, or up; digits <= 38. */
fth_i128 fth_dec_floor(fth_i128 a, unsigned digits, bool up);
/* (a / 10^sa) / (b / 10^sb) with scale `scale` >= sa, rounded half away from zero. */
int fth_dec_div(fth_i128 a, unsigned sa, fth_i128 b, unsigned sb, unsigned scale, fth_i128 *out);
/* a * 10^digits. */
int fth_dec_scale_up(fth_i128 a, unsigned digits, fth_i128 *out);
/* The scale of a quotient of scales sa and sb. */
unsigned fth_dec_div_scale(unsigned sa, unsigned sb);

/* Decimal and double: the nearest double; a double's 15 significant digits, as PostgreSQL does. */
double fth_dec_to_f64(fth_i128 a, unsigned scale);
int fth_f64_to_dec(double x, unsigned scale, fth_i128 *out);
/* To the nearest integer, half to even. */
int fth_f64_to_int(double x, fth_i128 lo, fth_i128 hi, fth_i128 *out);

/*
 * A number whose order, as an integer, is PostgreSQL's order of doubles: -0 = 0, NaN = NaN above
 * all.
 */
int64_t fth_f64_order(double x);

/* Text of a value; `out` has room for FTH_NUM_TEXT bytes, and the length is returned. */
#define FTH_NUM_TEXT 64
unsigned fth_dec_text(fth_i128 a, unsigned scale, char *out);
unsigned fth_f64_text(double x, char *out);
/* And back; blanks around a value are ignored. */
int fth_dec_parse(struct fth_str s, unsigned scale, fth_i128 *out);
/*
 * The digits behind the point that a number in text has, its exponent applied; below 0: zeroes in
 * front of it.
 */
int fth_dec_places(struct fth_str s, int *places);
int fth_int_parse(struct fth_str s, fth_i128 *out);
int fth_f64_parse(struct fth_str s, double *out);
int fth_bool_parse(struct fth_str s, bool *out);

#endif
