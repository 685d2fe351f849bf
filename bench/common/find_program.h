/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs and scripts that benchmarks start. */
#ifndef FTH_BENCH_BESIDE_H
#define FTH_BENCH_BESIDE_H

#include <limits.h>
#include <stdbool.h>

/* The path of a file beside this program; false if there is none. */
bool bench_find_beside(const char *name, char path[PATH_MAX]);

/*
 * The program `fathom`: beside this one in a build, or where an installation has it; else "fathom",
 * from PATH.
 */
void bench_find_fathom(char path[PATH_MAX]);

#endif
