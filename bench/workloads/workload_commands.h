/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands below the benchmarks gups, taxi and vectoradd: they make data, or run a workload once on
 * given devices.
 */
#ifndef FTH_BENCH_WORKLOAD_COMMANDS_H
#define FTH_BENCH_WORKLOAD_COMMANDS_H

#include "cli.h"

#include "workloads/taxi/taxi.h"

extern const struct fth_command gups_run_command;
extern const struct fth_command taxi_check_command;
extern const struct fth_command taxi_generate_command;
extern const struct fth_command taxi_load_command;
extern const struct fth_command taxi_query_command;
extern const struct fth_command vectoradd_run_command;

/* Write a table of made-up trips, with progress; ends with -EINTR when the program is stopped. */
int taxi_write_generated(struct fth_dev *dev, uint64_t rows, uint64_t seed,
			 struct fth_taxi_table *table);

/* Bytes read for each that the query needed; 0 if it needed none. */
double taxi_amplification(const struct fth_taxi_answer *answer);

/* The help texts of taxi share it. */
#define TAXI_NOTE "This is a benchmark: for data of your own use `fathom sql`."

#endif
