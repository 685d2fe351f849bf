/* SPDX-License-Identifier: BSD-2-Clause */
/* How the JSON line of every benchmark begins. */
#ifndef FTH_BENCH_REPORT_H
#define FTH_BENCH_REPORT_H

#include "json.h"

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
