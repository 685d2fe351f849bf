/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom kv: a key-value cache on flash. Each subcommand is in a file of its own. */
#include "cmd_kv.h"

static const struct fth_command *const subcommands[] = {
	&fth_cmd_kv_bench, &fth_cmd_kv_check, &fth_cmd_kv_dump, &fth_cmd_kv_load,
	&fth_cmd_kv_serve, &fth_cmd_kv_stat,  &fth_cmd_kv_top,	NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom kv", subcommands, argc, argv);
}

const struct fth_command fth_cmd_kv = {
	.name = "kv",
	.summary = "a key-value cache on flash with the memcached protocol",
	.run = run,
};
