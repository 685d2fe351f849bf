/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom bench pmwork run: a workload of GPM, which goes on where it was killed. */
#include "pmwork_run.h"

#include "json.h"

#include "workloads/pm/machine.h"
#include "workloads/pm/work.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct asked {
	struct fth_pmw_options work;
	const struct fth_pmw_workload *workload;
	const char *style;
	uint64_t threads;
	bool gpu, fresh;
	char memory[64]; /* a name for it, if none was given */
};

static int parse(struct asked *asked, int argc, char **argv, char ***args)
{
	struct fth_pmw_options *work = &asked->work;
	const struct fth_cli_option options[] = {
		FTH_CLI_WAS("memory", "name"),
		{"name", FTH_CLI_STRING, &work->memory, 0, 0,
		 "persistent memory; default shm:fathom-WORKLOAD"},
		{"fresh", FTH_CLI_FLAG, &asked->fresh, 0, 0,
		 "remove the memory first, and begin again"},
		{"gpu", FTH_CLI_FLAG, &asked->gpu, 0, 0, "on a GPU instead of CPU threads"},
		{"threads", FTH_CLI_U64, &asked->threads, 0, 1024, "CPU threads; 0: one per CPU"},
		{"items", FTH_CLI_SIZE, &work->items, 0, 0,
		 "size of the data, in the workload's unit; 0: small"},
		{"steps", FTH_CLI_U64, &work->steps, 0, 0,
		 "steps to run; 0: chosen by the size of the data"},
		{"paper", FTH_CLI_FLAG, &work->paper, 0, 0,
		 "the paper's data and steps; takes gigabytes"},
		{"every", FTH_CLI_U64, &work->every, 0, 0,
		 "steps between checkpoints; 0: the default of the workload"},
		{"incremental", FTH_CLI_FLAG, &work->incremental, 0, 0,
		 "checkpoints write changed blocks only"},
		{"style", FTH_CLI_STRING, &asked->style, 0, 0,
		 "direct: GPU kernels persist; map or file: the CPU does, after the kernels"},
		{"file", FTH_CLI_STRING, &work->file, 0, 0, "output file of --style file"},
		{"stop-steps", FTH_CLI_U64, &work->stop_steps, 0, 0,
		 "stop after so many steps, to test a restart; 0: run to the end"},
		{"seed", FTH_CLI_U64, &work->seed, 0, 0, "of the data"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench pmwork run [options] WORKLOAD",
		.text = "Run a workload whose state is in persistent memory. A run that was "
			"stopped, by\n"
			"Ctrl-C, kill -9 or, with memory that survives it, a power loss, goes on "
			"when the\n"
			"same command is given again. The result is checked.\n"
			"\n"
			"  kvs      a key-value store of 8-way sets, batches of SETs\n"
			"  kvs95    the same store, 95 % GETs\n"
			"  insert   a table of columns, rows inserted by statements\n"
			"  update   a table of columns, one row of twenty updated by each "
			"statement\n"
			"  cfd      an Euler solver on a mesh, with checkpoints\n"
			"  bfs      breadth-first search with persistent distances and queues\n"
			"  prefix   prefix sums of many arrays, resumed by pieces",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return fth_cli_parse(&usage, argc, argv, args);
}

static int choose(struct asked *asked, const char *name)
{
	struct fth_pmw_options *work = &asked->work;

	asked->workload = fth_pmw_find(name);
	if (!asked->workload)
		return -ENOENT;
	if (strcmp(asked->style, "map") == 0)
		work->style = FTH_PMW_ASSISTED_MAP;
	else if (strcmp(asked->style, "file") == 0)
		work->style = FTH_PMW_ASSISTED_FILE;
	else if (strcmp(asked->style, "direct") != 0)
		return fth_fail(EINVAL, "--style %s: expected direct, map or file", asked->style);
#ifdef FTH_BENCH_CUDA
	if (asked->gpu)
		work->machine = pmw_machine_gpu;
#else
	if (asked->gpu)
		return fth_fail(EOPNOTSUPP, "--gpu: this fathom was built without CUDA");
#endif
	work->threads = (unsigned)asked->threads;
	if (!work->memory) {
		snprintf(asked->memory, sizeof(asked->memory), "shm:fathom-%s", name);
		work->memory = asked->memory;
	}
	if (asked->fresh) {
		int rc = fth_pm_remove(work->memory);

		return rc == -ENOENT ? 0 : rc;
	}
	return 0;
}

static void show_progress(void *context, uint64_t done, uint64_t steps)
{
	fth_cli_progress(context, done, steps);
}

static const char *guarantee_name(enum fth_pm_guarantee guarantee)
{
	return guarantee == FTH_PM_POWER  ? "a power loss"
	       : guarantee == FTH_PM_EXIT ? "the end of the process"
					  : "nothing";
}

static void print_result(const struct asked *asked, const struct fth_pmw_result *r)
{
	char bytes[FTH_CLI_BYTES_MAX];

	printf("%s: %llu of %llu steps", fth_pmw_name(asked->workload),
	       (unsigned long long)(r->steps - r->resumed), (unsigned long long)r->steps);
	if (r->resumed || r->undone)
		printf(", after %llu of an earlier run (%llu undone)",
		       (unsigned long long)r->resumed, (unsigned long long)r->undone);
	printf(": %.3f s, %.3f s to restore, %s persisted\n", r->seconds, r->restore_seconds,
	       fth_cli_bytes(bytes, r->persisted));
	printf("the result is correct; digest %016llx; persisted data survives %s\n",
	       (unsigned long long)r->digest, guarantee_name(r->guarantee));
}

static void json_result(const struct asked *asked, const struct fth_pmw_result *r)
{
	struct fth_json j;
	char digest[20];

	snprintf(digest, sizeof(digest), "%016llx", (unsigned long long)r->digest);
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "workload", fth_pmw_name(asked->workload));
	fth_json_string(&j, "machine", asked->gpu ? "gpu" : "cpu");
	fth_json_string(&j, "style", asked->style);
	fth_json_u64(&j, "items", r->items);
	fth_json_u64(&j, "steps", r->steps);
	fth_json_u64(&j, "resumed", r->resumed);
	fth_json_u64(&j, "undone", r->undone);
	fth_json_double(&j, "seconds", r->seconds);
	fth_json_double(&j, "persist_seconds", r->persist_seconds);
	fth_json_double(&j, "restore_seconds", r->restore_seconds);
	fth_json_u64(&j, "persisted", r->persisted);
	fth_json_string(&j, "digest", digest);
	fth_json_finish(&j);
}

static int exit_status(const char *name, int rc)
{
	fth_cli_progress_end();
	if (rc == 0)
		return FTH_EXIT_OK;
	fth_cli_error("%s: %s", name, fth_error_text(rc));
	return rc == -EINTR	   ? FTH_EXIT_INTERRUPTED
	       : rc == -EOPNOTSUPP ? FTH_EXIT_IMPOSSIBLE
				   : FTH_EXIT_FAILED;
}

static int run(int argc, char **argv)
{
	struct asked asked = {.work = FTH_PMW_OPTIONS_INIT, .style = "direct"};
	struct fth_pmw_result result;
	char **args;
	int status, rc;

	asked.work.memory = NULL;
	status = parse(&asked, argc, argv, &args);
	if (status != FTH_CLI_GO_ON)
		return status;
	asked.work.progress = show_progress;
	asked.work.context = args[0];
	asked.work.stopped = fth_cli_stopped;
	rc = choose(&asked, args[0]);
	if (rc == 0)
		rc = fth_pmw_run(asked.workload, &asked.work, &result);
	status = exit_status(args[0], rc);
	if (rc == 0 && fth_cli_json())
		json_result(&asked, &result);
	else if (rc == 0)
		print_result(&asked, &result);
	return status;
}

const struct fth_command pmwork_run_command = {
	.name = "run",
	.summary = "run a workload that survives being killed",
	.run = run,
};
