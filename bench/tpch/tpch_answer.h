/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparing the answers of two engines. */
#ifndef FTH_BENCH_TPCH_ANSWER_H
#define FTH_BENCH_TPCH_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Compare two files of rows, a line each, fields separated by '|'. Fields are equal if their bytes are, blanks at the
 * end aside, or if both are numbers that differ by at most 1e-9 of the larger: one engine has averages as decimals, another
 * one as doubles. Rows may be in any order, since rows of equal sort key are. skip: lines at the top of `expected`
 * that are no rows. Returns 0, -EBADMSG with a text that has the first difference, or an error of reading.
 */
int tpch_answer_compare(const char *got, const char *expected, unsigned skip);

/* Whether digests of the 22 answers are kept for this scale factor. */
bool tpch_answer_known(double scale);
/*
 * Compare a file of rows with the digest of the answer of a query, 1 to 22, at a known scale factor. The digests are
 * of our answers after they had been compared with DuckDB's on the same tables and, at scale factor 1, with the
 * published ones. Rows may be in any order. Returns 0, -EBADMSG with a text, or an error of reading.
 */
int tpch_answer_verify(const char *got, double scale, unsigned query);

#endif
