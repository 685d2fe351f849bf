/* SPDX-License-Identifier: BSD-2-Clause */
#include "script.h"

#include "find_program.h"

#include "complete.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERPRETER "python3"

static void tell_paths(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length > 0) {
		path[length] = '\0';
		setenv("FTH_BENCH_PROGRAM", path, 1);
	}
	bench_find_fathom(path);
	setenv("FTH_BENCH_FATHOM", path, 1);
}

/* Those of the script; NULL ends them. */
static char **script_arguments(char *script, int argc, char **argv)
{
	static char program[] = INTERPRETER, no_bytecode[] = "-B", json[] = "--json",
		    complete[] = FTH_COMPLETE_OPTION;
	char **out = calloc((size_t)argc + 6, sizeof(*out));
	int n = 0;

	if (!out)
		return NULL;
	out[n++] = program;
	out[n++] =
		no_bytecode; /* the directory may not be writable, and stays as it was installed */
	out[n++] = script;
	if (fth_complete_word())
		out[n++] = complete;
	else if (fth_cli_json())
		out[n++] = json;
	for (int i = 1; i < argc; i++)
		out[n++] = argv[i];
	out[n] = (char *)fth_complete_word();
	return out;
}

/* Signals wait until bench_cli.py catches them: Python would die of one while it starts. */
static void hold_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int bench_script_run(int argc, char **argv)
{
	char name[64], path[PATH_MAX], **arguments;
	int error;

	snprintf(name, sizeof(name), "bench_%s.py", argv[0]);
	if (!bench_find_beside(name, path)) {
		fth_cli_error("bench %s: %s is not in the directory of fathom-bench", argv[0],
			      name);
		return FTH_EXIT_FAILED;
	}
	arguments = script_arguments(path, argc, argv);
	if (fth_cli_stopped()) /* by a signal that the script would not know of */
		return FTH_EXIT_INTERRUPTED;
	tell_paths();
	hold_signals();
	fth_cli_restore_signals();
	if (arguments)
		execvp(INTERPRETER, arguments);
	error = errno; /* messages change it */
	fth_cli_error("bench %s: cannot start " INTERPRETER ": %s", argv[0], strerror(error));
	free(arguments);
	return error == ENOENT ? FTH_EXIT_IMPOSSIBLE : FTH_EXIT_FAILED;
}
