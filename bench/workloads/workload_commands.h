/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands below the benchmarks gups, taxi and vectoradd: they make data, or run a workload once on
 * given devices.
 */
#ifndef FTH_BENCH_WORKLOAD_COMMANDS_H
#define FTH_BENCH_WORKLOAD_COMMANDS_H

#include "cli.h"

extern const struct fth_command gups_run_command;
extern const struct fth_command taxi_check_command;
extern const struct fth_command taxi_generate_command;
extern const struct fth_command taxi_load_command;
extern const struct fth_command taxi_query_command;
extern const struct fth_command vectoradd_run_command;

/* The help texts of taxi share it. */
#define TAXI_NOTE "This is a benchmark: for data of your own use `fathom sql`."

#endif
