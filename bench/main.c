/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench: measurements against a peer, the program that `fathom bench` starts.
 * bench/README.md says how benchmarks behave.
 */
#include "cli.h"
#include "common/script.h"
#include "gpu/gpu_driver.h"

#include <string.h>

/*
 * One line per benchmark: its declaration here, its address in the table. Those of GPU threads are
 * in a table of their own.
 */
extern const struct fth_command fth_bench_cache;
extern const struct fth_command fth_bench_flat;
extern const struct fth_command fth_bench_gups;
extern const struct fth_command fth_bench_pm;
extern const struct fth_command fth_bench_pmwork;
extern const struct fth_command fth_bench_queue;
extern const struct fth_command fth_bench_taxi;
extern const struct fth_command fth_bench_tpch;
extern const struct fth_command fth_bench_vec;
extern const struct fth_command fth_bench_vectoradd;

#define GPU(name) &fth_bench_gpu[GPU_##name].command

static const struct fth_command *const benches[] = {
	&fth_bench_cache,
	BENCH_SCRIPT("dev", "random reads and writes of a file, against fio"),
	&fth_bench_flat,
	BENCH_SCRIPT("flatredis",
		     "redis-server with more data than memory, against swap and a mapped file"),
	GPU(BLOCK),
	GPU(CACHE),
	GPU(FILE),
	GPU(GRAPH),
	GPU(PATTERN),
	GPU(PM),
	GPU(TAXI),
	GPU(VECTOR),
	BENCH_SCRIPT("graph", "search and PageRank on a graph, against mmap in as much memory"),
	BENCH_SCRIPT(
		"graphmem",
		"graph algorithms with all and with a quarter cached, against GAPBS in memory"),
	&fth_bench_gups,
	BENCH_SCRIPT("kv", "a cache server on flash, against memcached with extstore"),
	BENCH_SCRIPT("kvclient",
		     "requests of many threads: batched by our client, or one at a time"),
	&fth_bench_pm,
	&fth_bench_pmwork,
	&fth_bench_queue,
#ifdef FTH_SQL
	BENCH_SCRIPT("spill",
		     "queries that do not fit into memory, and joins with text, against DuckDB"),
#endif
	&fth_bench_taxi,
	&fth_bench_tpch,
#ifdef FTH_SQL
	&fth_bench_vec,
#endif
	&fth_bench_vectoradd,
	NULL,
};

/* Parts of benchmarks that are scripts. */
extern const struct fth_command fth_driver_dev;
extern const struct fth_command fth_driver_graph;
extern const struct fth_command fth_driver_graphmem;
extern const struct fth_command fth_driver_kvclient;
extern const struct fth_command fth_driver_kvload;
extern const struct fth_command fth_driver_redisload;
extern const struct fth_command fth_driver_tpch;

static const struct fth_command *const drivers[] = {
	&fth_driver_dev,
	&fth_driver_graph,
	&fth_driver_graphmem,
	&fth_driver_kvclient,
	&fth_driver_kvload,
	&fth_driver_redisload,
#ifdef FTH_SQL
	&fth_driver_tpch,
#endif
	NULL,
};

int main(int argc, char **argv)
{
	argc = fth_cli_start(argc, argv);
	if (argc > 1 && strcmp(argv[1], "demo") == 0) /* of `fathom demo`, which users see */
		return fth_cli_finish(bench_script_run(argc - 1, argv + 1));
	if (argc > 1 && strcmp(argv[1], "driver") == 0)
		return fth_cli_finish(
			fth_cli_dispatch("fathom-bench driver", drivers, argc - 1, argv + 1));
	return fth_cli_finish(fth_cli_dispatch("fathom bench", benches, argc, argv));
}
