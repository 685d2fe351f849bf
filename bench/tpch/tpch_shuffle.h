/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines of a text file in random order, in bounded memory. */
#ifndef FTH_BENCH_TPCH_SHUFFLE_H
#define FTH_BENCH_TPCH_SHUFFLE_H

#include <stdint.h>

/*
 * Write the lines of the file `from`, which all end with a newline, to a new file `to`, every order equally likely; the order depends on the
 * seed alone. Needs about 32 MiB of memory, and room beside `to` for a second copy. `to` appears when it is
 * complete. Returns 0 or a negative errno with a text.
 */
int tpch_shuffle_lines(const char *from, const char *to, uint64_t seed);

#endif
