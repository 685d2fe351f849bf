/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench: measurements against a peer, the program that `fathom bench` starts. bench/README.md
 * says how benchmarks behave.
 */
#include "cli.h"

/* One line per benchmark: its declaration here, its address in the table. */
extern const struct fth_command fth_bench_cache;
extern const struct fth_command fth_bench_dev;
extern const struct fth_command fth_bench_gpublock;
extern const struct fth_command fth_bench_gpucache;
extern const struct fth_command fth_bench_gpufile;
extern const struct fth_command fth_bench_gpugraph;
extern const struct fth_command fth_bench_gpupattern;
extern const struct fth_command fth_bench_gputaxi;
extern const struct fth_command fth_bench_gpuvector;
extern const struct fth_command fth_bench_graph;
extern const struct fth_command fth_bench_gups;
extern const struct fth_command fth_bench_policy;
extern const struct fth_command fth_bench_queue;
extern const struct fth_command fth_bench_taxi;
extern const struct fth_command fth_bench_vectoradd;

static const struct fth_command *const benches[] = {
	&fth_bench_cache,     &fth_bench_dev,	   &fth_bench_gpublock,	  &fth_bench_gpucache,
	&fth_bench_gpufile,   &fth_bench_gpugraph, &fth_bench_gpupattern, &fth_bench_gputaxi,
	&fth_bench_gpuvector, &fth_bench_graph,	   &fth_bench_gups,	  &fth_bench_policy,
	&fth_bench_queue,     &fth_bench_taxi,	   &fth_bench_vectoradd,  NULL,
};

int main(int argc, char **argv)
{
	argc = fth_cli_start(argc, argv);
	return fth_cli_finish(fth_cli_dispatch("fathom bench", benches, argc, argv));
}
