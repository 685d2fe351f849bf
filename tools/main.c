/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include "complete.h"

#include "fathom/base/version.h"

#include <stdio.h>
#include <string.h>

static const struct fth_command *const commands[] = {
	&fth_cmd_bench, &fth_cmd_demo, &fth_cmd_dev,  &fth_cmd_flat, &fth_cmd_gpu,
	&fth_cmd_graph, &fth_cmd_kv,   &fth_cmd_nvme, &fth_cmd_pm,
#ifdef FTH_TABLE
	&fth_cmd_sql,
#endif
	&fth_cmd_vol,	NULL,
};

static const struct fth_moved moved[] = {
	{"dev info", "dev stat"},
	{"flat bench", "bench flat"},
	{"gpu info", "gpu ls"},
	{"graph info", "graph stat"},
	{"gups", "bench gups run"},
	{"nvme info", "nvme stat"},
	{"nvme list", "nvme ls"},
	{"pm run", "bench pmwork run"},
	{"storaged", "sql serve-tasks"},
	{"table", "sql"},
	{"taxi", "bench taxi"},
	{"tpch gen", "bench tpch generate"},
	{"tpch", "bench tpch"},
	{"vectoradd", "bench vectoradd run"},
	{0},
};

static int help(void)
{
	printf("usage: fathom [--json] COMMAND [ARGUMENTS]\n\n"
	       "Work on data that is larger than memory, on flash.\n\n");
	fth_cli_list(commands);
	printf("\n"
	       "  --json        print one line of JSON instead of text\n"
	       "  --version     print the version\n"
	       "  --help        print this; `fathom help COMMAND` says more\n");
	return FTH_EXIT_OK;
}

static int run(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (fth_complete_word())
		return fth_cli_dispatch("fathom", commands, argc, argv);
	if (!word) {
		fth_cli_error("missing command");
		fprintf(stderr, "try: fathom --help\n");
		return FTH_EXIT_USAGE;
	}
	if (strcmp(word, "--version") == 0) {
		printf("fathom %s\n", fth_version());
		return FTH_EXIT_OK;
	}
	if (argc == 2 &&
	    (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0))
		return help();
	if (fth_cli_moved(moved, argc, argv))
		return FTH_EXIT_USAGE;
	return fth_cli_dispatch("fathom", commands, argc, argv);
}

int main(int argc, char **argv)
{
	argc = fth_cli_start(argc, argv);
	return fth_cli_finish(run(argc, argv));
}
