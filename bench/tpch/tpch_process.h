/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes of `fathom bench tpch`: what each run of a query is measured in. */
#ifndef FTH_BENCH_TPCH_PROCESS_H
#define FTH_BENCH_TPCH_PROCESS_H

#include "fathom/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* What a piece of work took, as the kernel counts it for the whole process. */
struct tpch_figures {
	double cpu, wall; /* seconds */
	uint64_t read,
		written; /* bytes, from and to storage; those written by a query are spilled */
	uint64_t rss;	 /* the most resident memory of the process so far */
};

/* Figures of this process: call it before and after some work, then subtract. Leaves rss of `from` out. */
void tpch_figures_now(struct tpch_figures *out);
void tpch_figures_since(struct tpch_figures *out, const struct tpch_figures *from);

/*
 * Run fn(context, result) in a child, a copy of this process, and wait for it. What fn writes to its result is copied
 * to `result`. Returns what fn does, with its error text, -EINTR when the user stopped it, or -ECHILD with a text when
 * the child died. Call it while this process has one thread.
 */
int tpch_in_child(int (*fn)(void *context, void *result), void *context, void *result, size_t size);

/*
 * Run a program and wait for it, as tpch_in_child(); its standard output goes to the file `output` (NULL: to nowhere).
 * Returns 0, -ENOENT if there is no such program, -ENOTSUP if it exits with 77, or -ECHILD with its last line
 * on standard error as the text if it fails. took may be NULL.
 */
int tpch_run_program(char *const argv[], const char *output, struct tpch_figures *took);

#endif
