/* SPDX-License-Identifier: BSD-2-Clause */
/* What all benchmarks share: options, and how their JSON line begins. */
#ifndef FTH_BENCH_REPORT_H
#define FTH_BENCH_REPORT_H

#include "cli.h"
#include "json.h"
#include "median.h"

/* In a table of options. */
#define FTH_BENCH_ROUNDS(rounds)                                                      \
	{                                                                             \
		"rounds", FTH_CLI_U64, rounds, 1, FTH_ROUNDS_MAX, "runs of each side" \
	}
#define FTH_BENCH_SMALLEST(smallest)                                                    \
	{                                                                               \
		"smallest", FTH_CLI_FLAG, smallest, 0, 0, "a second's worth, for tests" \
	}

/* Open it on standard output; parameters and details follow, then fth_json_finish(). */
static inline void fth_bench_json(struct fth_json *j, const char *bench, double ours, double peer,
				  double ratio)
{
	fth_json_begin(j, stdout);
	fth_json_string(j, "bench", bench);
	fth_json_double(j, "ours", ours);
	fth_json_double(j, "peer", peer);
	fth_json_double(j, "ratio", ratio);
}

#endif
