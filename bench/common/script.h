/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Benchmarks that are scripts. Their parts in C are commands of `fathom-bench driver`, which users
 * do not see.
 */
#ifndef FTH_BENCH_SCRIPT_H
#define FTH_BENCH_SCRIPT_H

#include "cli.h"

/*
 * Replace this process by the Python script bench_NAME.py, which is in the directory of this
 * program, where NAME is argv[0]. The script gets the arguments, --json and the word to complete,
 * and in its environment the paths of this program (FTH_BENCH_PROGRAM) and of `fathom`
 * (FTH_BENCH_FATHOM). Returns the exit status if it cannot be started.
 */
int bench_script_run(int argc, char **argv);

/* A row of the table of benchmarks. */
#define BENCH_SCRIPT(title, text)                                           \
	&(const struct fth_command)                                         \
	{                                                                   \
		.name = (title), .summary = (text), .run = bench_script_run \
	}

#endif
