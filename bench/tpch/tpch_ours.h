/* SPDX-License-Identifier: BSD-2-Clause */
/* A query of `fathom bench tpch` in this engine, in a process of its own whose memory is limited. */
#ifndef FTH_BENCH_TPCH_OURS_H
#define FTH_BENCH_TPCH_OURS_H

#include "tpch_rival.h"

#include <stdbool.h>

struct tpch_ours {
	const char *database;
	const char *sql;
	const char *answer; /* path of the file for the rows */
	uint64_t budget;
	uint64_t threads;
	bool soft; /* the engine alone keeps the budget; the kernel does not enforce it */
};

struct tpch_ours_result {
	struct tpch_figures took[TPCH_RUNS];
	uint64_t charged; /* bytes, the most that the engine counted at a time */
};

/*
 * Run it TPCH_RUNS times. Unless it is soft, the process's address space is limited (RLIMIT_AS) to what it had before the
 * database was opened, a stack for each thread, and the budget; the engine is told an eighth less, since the
 * SQL parser and the C library need memory as well. Returns 0 or the engine's error with its text.
 */
int tpch_ours_run(const struct tpch_ours *ours, struct tpch_ours_result *out);

#endif
