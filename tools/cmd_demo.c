/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom demo: a script over the tool and its benchmarks (bench/demo), which fathom-bench starts.
 */
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int run(int argc, char **argv)
{
	static char bench[] = "bench", demo[] = "demo";
	char **words = calloc((size_t)argc + 2, sizeof(*words));
	int status;

	if (!words) {
		fth_cli_error("demo: %s", strerror(ENOMEM));
		return FTH_EXIT_FAILED;
	}
	words[0] = bench;
	words[1] = demo;
	memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof(*words));
	status = fth_cmd_bench.run(argc + 1, words);
	free(words);
	return status;
}

const struct fth_command fth_cmd_demo = {
	.name = "demo",
	.summary = "compare each way in with its usual alternative, in a minute",
	.run = run,
};
