/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands of the tool. The table is in main.c. */
#ifndef FTH_TOOLS_COMMANDS_H
#define FTH_TOOLS_COMMANDS_H

#include "cli.h"

extern const struct fth_command fth_cmd_bench;
extern const struct fth_command fth_cmd_demo;
extern const struct fth_command fth_cmd_dev;
extern const struct fth_command fth_cmd_dev_stress; /* under dev */
extern const struct fth_command fth_cmd_flat;
extern const struct fth_command fth_cmd_flat_run; /* under flat, as the one below */
extern const struct fth_command fth_cmd_flat_stat;
extern const struct fth_command fth_cmd_gpu;
extern const struct fth_command fth_cmd_gpu_read; /* under gpu */
extern const struct fth_command fth_cmd_graph;
extern const struct fth_command fth_cmd_kv;
extern const struct fth_command fth_cmd_nvme;
extern const struct fth_command fth_cmd_nvme_bind; /* under nvme, as those below */
extern const struct fth_command fth_cmd_nvme_smart;
extern const struct fth_command fth_cmd_nvme_stat;
extern const struct fth_command fth_cmd_nvme_unbind;
extern const struct fth_command fth_cmd_pm;
extern const struct fth_command fth_cmd_pm_dump; /* under pm, as those below */
extern const struct fth_command fth_cmd_pm_ls;
extern const struct fth_command fth_cmd_sql;
extern const struct fth_command fth_cmd_sql_check; /* under sql, as those below */
extern const struct fth_command fth_cmd_sql_dump;
extern const struct fth_command fth_cmd_sql_load;
extern const struct fth_command fth_cmd_sql_serve;
extern const struct fth_command fth_cmd_sql_serve_tasks;
extern const struct fth_command fth_cmd_sql_stat;
extern const struct fth_command *const fth_sql_commands[]; /* all under sql */
extern const struct fth_command fth_cmd_vol;
extern const struct fth_command fth_cmd_vol_check; /* under vol, as those below */
extern const struct fth_command fth_cmd_vol_export;
extern const struct fth_command fth_cmd_vol_import;
extern const struct fth_command fth_cmd_vol_mv;
extern const struct fth_command fth_cmd_vol_new;
extern const struct fth_command fth_cmd_vol_resize;
extern const struct fth_command fth_cmd_vol_rm;

#endif
