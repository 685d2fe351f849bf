/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench NAME: replaces this process by fathom-bench, which has the benchmarks and their
 * rivals (bench/).
 */
#include "commands.h"
#include "complete.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "fathom-bench"

/* The folder of this program, with a slash at the end; "" if the system does not tell. */
static void own_folder(char folder[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	folder[length < 0 ? 0 : length] = '\0';
	slash = strrchr(folder, '/');
	if (slash)
		slash[1] = '\0';
	else
		folder[0] = '\0';
}

/* Start the one in `folder`/`below`; returns if it is not there. */
static void start_in(const char *folder, const char *below, char **argv)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s%s" PROGRAM, folder, below);

	if (length < (int)sizeof(path))
		execv(path, argv);
}

/* What fathom-bench gets: our arguments, and --json or --complete, which were taken out of them. */
static char **bench_arguments(int argc, char **argv)
{
	static char program[] = PROGRAM, option[] = "--json", complete[] = FTH_COMPLETE_OPTION;
	char **out = calloc((size_t)argc + 4, sizeof(*out));
	int n = 0;

	if (!out)
		return NULL;
	out[n++] = program;
	if (fth_cli_json())
		out[n++] = option;
	if (fth_complete_word())
		out[n++] = complete;
	for (int i = 1; i < argc; i++)
		out[n++] = argv[i];
	out[n] = (char *)fth_complete_word();
	return out;
}

static int run(int argc, char **argv)
{
	char folder[PATH_MAX], **arguments = bench_arguments(argc, argv);

	if (!arguments) {
		fth_cli_error("bench: %s", strerror(ENOMEM));
		return FTH_EXIT_FAILED;
	}
	own_folder(folder);
	if (fth_cli_stopped()) /* by a signal that the new program would not know of */
		return FTH_EXIT_INTERRUPTED;
	if (folder[0]) {
		start_in(folder, "", arguments);
		start_in(folder, FTH_LIBEXEC_FROM_BIN "/", arguments);
	}
	execvp(PROGRAM, arguments);
	fth_cli_error("bench: cannot start " PROGRAM
		      " (%s): it is not in %s, %s" FTH_LIBEXEC_FROM_BIN " or PATH",
		      strerror(errno), folder, folder);
	free(arguments);
	return FTH_EXIT_FAILED;
}

const struct fth_command fth_cmd_bench = {
	.name = "bench",
	.summary = "measure against a peer, in the same run",
	.run = run,
};
