/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom dev stress: random I/O on a device, every block checked. */
#include "commands.h"
#include "json.h"
#include "workload.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct stress {
	struct fth_workload workload;
	uint64_t threads, depth, commands, block, run_max, span;
	bool errors_allowed, overwrite;
};

static void print_result(const struct stress *stress, const struct fth_workload_result *r)
{
	double seconds = (double)r->elapsed_ns / 1e9;

	printf("commands     %llu (%llu reads, %llu writes) in %.1f s, %.0f per second\n",
	       (unsigned long long)(r->reads + r->writes), (unsigned long long)r->reads,
	       (unsigned long long)r->writes, seconds,
	       seconds > 0 ? (double)(r->reads + r->writes) / seconds : 0);
	printf("threads      %llu, each with %llu in flight, 1 to %llu blocks of %llu bytes\n",
	       (unsigned long long)stress->threads, (unsigned long long)stress->depth,
	       (unsigned long long)stress->run_max, (unsigned long long)stress->block);
	printf("errors       %llu\n", (unsigned long long)r->errors);
	printf("checked      %llu blocks, %llu wrong\n", (unsigned long long)r->checked,
	       (unsigned long long)r->wrong);
}

static void print_json(const struct stress *stress, const char *uri,
		       const struct fth_workload_result *r)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", uri);
	fth_json_u64(&j, "threads", stress->threads);
	fth_json_u64(&j, "depth", stress->depth);
	fth_json_u64(&j, "block", stress->block);
	fth_json_u64(&j, "run_max", stress->run_max);
	fth_json_u64(&j, "reads", r->reads);
	fth_json_u64(&j, "writes", r->writes);
	fth_json_u64(&j, "errors", r->errors);
	fth_json_u64(&j, "checked", r->checked);
	fth_json_u64(&j, "wrong", r->wrong);
	fth_json_double(&j, "seconds", (double)r->elapsed_ns / 1e9);
	fth_json_finish(&j);
}

/* Fit the workload to the device. */
static int plan(struct stress *stress)
{
	struct fth_workload *w = &stress->workload;
	const struct fth_dev_info *info = fth_dev_info(w->dev);

	if (stress->block < info->block)
		stress->block = info->block;
	if (stress->span > info->size)
		stress->span = info->size;
	w->block = (uint32_t)stress->block;
	w->blocks = stress->span / stress->block;
	w->run_max = (uint32_t)stress->run_max;
	w->threads = (unsigned)stress->threads;
	w->depth = (unsigned)stress->depth;
	w->ops = (stress->commands + stress->threads - 1) / stress->threads;
	w->generations = calloc(w->blocks ? w->blocks : 1, sizeof(w->generations[0]));
	return w->generations ? 0 : -ENOMEM;
}

static int stress_device(struct stress *stress, const char *uri)
{
	struct fth_workload_result result = {0};
	int rc = fth_dev_open(uri, &stress->workload.dev);

	if (rc == 0)
		rc = plan(stress);
	if (rc == 0)
		rc = fth_workload_run(&stress->workload, &result);
	if (rc == 0)
		rc = fth_workload_verify(&stress->workload, &result);
	free(stress->workload.generations);
	fth_dev_close(stress->workload.dev);
	if (rc < 0) {
		fth_cli_error("%s: %s", uri, fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	if (fth_cli_json())
		print_json(stress, uri, &result);
	else
		print_result(stress, &result);
	if (result.wrong || (result.errors && !stress->errors_allowed))
		return FTH_EXIT_FAILED;
	return fth_cli_stopped() ? FTH_EXIT_INTERRUPTED : FTH_EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct stress stress = {.workload = {.seed = 1, .write_share = 0.5},
				.threads = 4,
				.depth = 16,
				.commands = 100000,
				.block = 512,
				.run_max = 16,
				.span = 64u << 20};
	const struct fth_cli_option table[] = {
		{"overwrite", FTH_CLI_FLAG, &stress.overwrite, 0, 0, "yes, its contents may go"},
		{"threads", FTH_CLI_U64, &stress.threads, 1, 1024, "how many"},
		{"depth", FTH_CLI_U64, &stress.depth, 1, 65535, "requests in flight per thread"},
		{"commands", FTH_CLI_U64, &stress.commands, 1, UINT64_MAX, "in all"},
		{"block", FTH_CLI_SIZE, &stress.block, 16, 1u << 20, "bytes that carry an address"},
		{"run-max", FTH_CLI_U64, &stress.run_max, 1, 65536, "blocks per request at most"},
		{"span", FTH_CLI_SIZE, &stress.span, 1, UINT64_MAX, "bytes of the device to use"},
		{"writes", FTH_CLI_DOUBLE, &stress.workload.write_share, 0, 1, "share of writes"},
		{"seed", FTH_CLI_U64, &stress.workload.seed, 0, UINT64_MAX, "of everything random"},
		{"errors-allowed", FTH_CLI_FLAG, &stress.errors_allowed, 0, 0,
		 "failed requests are no failure, wrong data is"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "dev stress --overwrite [OPTION]... URI",
		.text = "Write and read random runs of blocks from many threads and check every "
			"block\nthat is read: each carries its own address and generation. This "
			"OVERWRITES the\ndevice.",
		.options = table,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!stress.overwrite) {
		fth_cli_error("this overwrites %s: say --overwrite if that is meant", args[0]);
		return FTH_EXIT_USAGE;
	}
	return stress_device(&stress, args[0]);
}

const struct fth_command fth_cmd_dev_stress = {
	.name = "stress",
	.summary = "random I/O from many threads, every block checked",
	.run = run,
};
