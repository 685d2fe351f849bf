/* SPDX-License-Identifier: BSD-2-Clause */
/* The median of a few runs. */
#ifndef FTH_BENCH_MEDIAN_H
#define FTH_BENCH_MEDIAN_H

#include <stdlib.h>
#include <string.h>

#define FTH_ROUNDS_MAX 99

static inline int fth_median_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* n is 1 to FTH_ROUNDS_MAX. */
static inline double fth_median(const double *values, unsigned n)
{
	double sorted[FTH_ROUNDS_MAX];

	memcpy(sorted, values, n * sizeof(double));
	qsort(sorted, n, sizeof(double), fth_median_compare);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

#endif
