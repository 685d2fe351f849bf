/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of 128 bits, which NVMe counts with. */
#ifndef FTH_TOOLS_U128_H
#define FTH_TOOLS_U128_H

#include <stdint.h>

#define FTH_U128_MAX 40 /* 39 digits and the end */

/* Decimal digits of words[0] + 2^64 * words[1], into buf; returns buf. */
const char *fth_u128_text(char buf[FTH_U128_MAX], const uint64_t words[2]);

#endif
