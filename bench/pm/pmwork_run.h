/* SPDX-License-Identifier: BSD-2-Clause */
/* The command below `fathom bench pmwork`. */
#ifndef FTH_BENCH_PMWORK_RUN_H
#define FTH_BENCH_PMWORK_RUN_H

#include "cli.h"

extern const struct fth_command pmwork_run_command;

#endif
