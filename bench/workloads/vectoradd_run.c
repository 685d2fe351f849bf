/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom bench vectoradd run: c = a + b over three devices. */
#include "workload_commands.h"

#include "app_options.h"

#include "workloads/micro/vectoradd.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>

struct asked {
	struct fth_app_options app;
	uint64_t ahead;
	bool force, fill;
	struct fth_cache *cache;
	struct fth_array *arrays[3]; /* a, b, c */
	struct fth_vectoradd_options how;
	uint64_t wrong;
	uint64_t ns;
};

static int parse(struct asked *asked, int argc, char **argv, char ***args)
{
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&asked->force, "overwrite C"),
		{"fill", FTH_CLI_FLAG, &asked->fill, 0, 0,
		 "fill A and B first, and check every element of C afterwards"},
		{"ahead", FTH_CLI_SIZE, &asked->ahead, 0, 0,
		 "bytes of A and of B on their way, per thread; default a 16th of the cache"},
		FTH_APP_OPTIONS(&asked->app),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench vectoradd run --force [options] A B C",
		.text = "Add two devices full of 8-byte floating-point numbers into a third, and\n"
			"flush. This OVERWRITES C, and with --fill also A and B. Example of one:\n"
			"'file:/data/a?create=on&size=1G'.",
		.options = options,
		.min_args = 3,
		.max_args = 3,
	};

	return fth_cli_parse(&usage, argc, argv, args);
}

static int open_arrays(struct asked *asked, char **uris)
{
	int rc = fth_app_open_cache(&asked->app, 65536, &asked->cache);

	for (unsigned i = 0; i < 3 && rc == 0; i++) {
		struct fth_array_options options = {.size = sizeof(struct fth_array_options),
						    .readonly = i < 2 && !asked->fill};

		rc = fth_array_open(asked->cache, uris[i], sizeof(double), &options,
				    &asked->arrays[i]);
		if (rc < 0)
			return fth_fail_in(rc, uris[i]);
	}
	asked->how.threads = (unsigned)asked->app.threads;
	asked->how.ahead = asked->ahead;
	asked->how.stopped = fth_cli_stopped;
	return rc;
}

static int fill(struct asked *asked)
{
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0 && asked->fill; i++) {
		fth_cli_progress("filling", i, 4);
		rc = fth_vectoradd_fill(asked->arrays[i], asked->app.seed, i, &asked->how);
	}
	return rc;
}

static int check(struct asked *asked)
{
	int rc;

	if (!asked->fill)
		return 0;
	fth_cli_progress("checking", 3, 4);
	rc = fth_vectoradd_check(asked->arrays[2], asked->app.seed, &asked->how, &asked->wrong);
	if (rc == 0 && asked->wrong)
		rc = fth_fail(EILSEQ, "%llu elements are wrong", (unsigned long long)asked->wrong);
	return rc;
}

static int add(struct asked *asked)
{
	uint64_t begin;
	int rc = fill(asked);

	fth_cli_progress("adding", 2, 4);
	begin = fth_now_ns();
	if (rc == 0)
		rc = fth_vectoradd_run(asked->arrays[0], asked->arrays[1], asked->arrays[2],
				       &asked->how);
	asked->ns = fth_now_ns() - begin;
	if (rc == 0)
		rc = check(asked);
	fth_cli_progress_end();
	return rc;
}

static void print(const struct asked *asked)
{
	uint64_t elements = fth_array_count(asked->arrays[2]);
	double seconds = (double)asked->ns / 1e9;
	char cache[FTH_CLI_BYTES_MAX];

	printf("elements       %llu of 8 bytes, lines of %u, cache %s\n",
	       (unsigned long long)elements, fth_cache_line_size(asked->cache),
	       fth_cli_bytes(cache, asked->app.cache));
	printf("time           %.3f s, %.1f MB/s in and out, flushed\n", seconds,
	       (double)elements * 24 / 1e6 / seconds);
	if (asked->fill)
		printf("wrong          %llu\n", (unsigned long long)asked->wrong);
	fth_app_print_cache(asked->cache);
}

static void print_json(const struct asked *asked)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_u64(&j, "elements", fth_array_count(asked->arrays[2]));
	fth_json_u64(&j, "threads", asked->how.threads);
	fth_json_u64(&j, "memory", asked->app.cache);
	fth_json_double(&j, "seconds", (double)asked->ns / 1e9);
	fth_json_bool(&j, "checked", asked->fill);
	fth_json_u64(&j, "wrong", asked->wrong);
	fth_app_json_cache(&j, asked->cache);
	fth_json_finish(&j);
}

static int close_all(struct asked *asked)
{
	int rc = 0, closed;

	for (unsigned i = 0; i < 3; i++) {
		closed = fth_array_finish(&asked->arrays[i]);
		rc = rc < 0 ? rc : closed;
	}
	closed = fth_cache_finish(&asked->cache);
	return rc < 0 ? rc : closed;
}

static int run(int argc, char **argv)
{
	struct asked asked = {.app = FTH_APP_DEFAULTS};
	char **args;
	int status = parse(&asked, argc, argv, &args), rc, closed;

	if (status != FTH_CLI_GO_ON)
		return status;
	status = fth_cli_take_over(args[2], asked.force);
	if (status != FTH_CLI_GO_ON)
		return status;
	rc = open_arrays(&asked, args);
	if (rc == 0)
		rc = add(&asked);
	if (rc == 0 && fth_cli_json())
		print_json(&asked);
	else if (rc == 0)
		print(&asked);
	status = fth_app_exit("bench vectoradd run", rc);
	closed = close_all(&asked);
	return status == FTH_EXIT_OK ? fth_app_exit("bench vectoradd run", closed) : status;
}

const struct fth_command vectoradd_run_command = {
	.name = "run",
	.summary = "add two devices into a third",
	.run = run,
};
