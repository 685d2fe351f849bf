/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom flat: plain pointers over DRAM and flash, for programs as they are. */
#include "commands.h"

static const struct fth_command *const subcommands[] = {
	&fth_cmd_flat_run,
	&fth_cmd_flat_stat,
	NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom flat", subcommands, argc, argv);
}

const struct fth_command fth_cmd_flat = {
	.name = "flat",
	.summary = "run unmodified programs in more memory than DRAM, on flash",
	.run = run,
};
