/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom flat: plain pointers over DRAM and flash, for programs as they are. */
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>

/* The same as `fathom bench flat`. */
static int run_bench(int argc, char **argv)
{
	char **out = calloc((size_t)argc + 2, sizeof(*out));
	static char bench[] = "bench", flat[] = "flat";
	int status;

	if (!out)
		return FTH_EXIT_FAILED;
	out[0] = bench;
	out[1] = flat;
	for (int i = 1; i < argc; i++)
		out[i + 1] = argv[i];
	status = fth_cmd_bench.run(argc + 1, out);
	free(out);
	return status;
}

static const struct fth_command flat_bench = {
	.name = "bench",
	.summary = "the same as `fathom bench flat`",
	.run = run_bench,
};

static const struct fth_command *const subcommands[] = {
	&flat_bench,
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
