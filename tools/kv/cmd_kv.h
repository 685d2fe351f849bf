/* SPDX-License-Identifier: BSD-2-Clause */
/* The subcommands of `fathom kv`. */
#ifndef FTH_TOOLS_CMD_KV_H
#define FTH_TOOLS_CMD_KV_H

#include "commands.h"

extern const struct fth_command fth_cmd_kv_bench;
extern const struct fth_command fth_cmd_kv_check;
extern const struct fth_command fth_cmd_kv_dump;
extern const struct fth_command fth_cmd_kv_load;
extern const struct fth_command fth_cmd_kv_serve;
extern const struct fth_command fth_cmd_kv_stat;
extern const struct fth_command fth_cmd_kv_top;

#endif
