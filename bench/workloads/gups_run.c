/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom bench gups run: random updates of a table on a device that is larger than the cache. */
#include "workload_commands.h"

#include "app_options.h"

#include "workloads/micro/gups.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>

struct asked {
	struct fth_app_options app;
	uint64_t updates, batch;
	bool force;
	struct fth_cache *cache;
	struct fth_array *table;
	struct fth_gups_options how;
	uint64_t wrong;
	uint64_t ns;
};

static int parse(struct asked *asked, int argc, char **argv, char ***args)
{
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&asked->force, "overwrite the device"),
		{"updates", FTH_CLI_SIZE, &asked->updates, 0, UINT64_MAX,
		 "number of updates; 0: four for each word"},
		{"batch", FTH_CLI_U64, &asked->batch, 1, 1024, "updates in flight per thread"},
		FTH_APP_OPTIONS(&asked->app),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gups run --force [options] URI",
		.text = "Fill a device with 8-byte words, change random ones by exclusive or, and\n"
			"flush; then do the same again, which takes every change back, and check\n"
			"every word. This OVERWRITES the device. Example of one:\n"
			"'file:/data/table?create=on&size=1G'.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return fth_cli_parse(&usage, argc, argv, args);
}

static int open_table(struct asked *asked, const char *uri)
{
	int rc = fth_app_open_cache(&asked->app, 4096, &asked->cache);

	if (rc == 0)
		rc = fth_array_open(asked->cache, uri, sizeof(uint64_t), NULL, &asked->table);
	if (rc < 0)
		return rc;
	asked->how.updates = asked->updates;
	asked->how.first = fth_mix64(asked->app.seed);
	asked->how.threads = (unsigned)asked->app.threads;
	asked->how.batch = (uint32_t)asked->batch;
	asked->how.stopped = fth_cli_stopped;
	return fth_gups_settle(asked->table, &asked->how, &asked->how);
}

static int update_twice(struct asked *asked)
{
	uint64_t begin;
	int rc;

	fth_cli_progress("filling", 0, 4);
	rc = fth_gups_fill(asked->table, &asked->how);
	begin = fth_now_ns();
	fth_cli_progress("updating", 1, 4);
	if (rc == 0)
		rc = fth_gups_run(asked->table, &asked->how);
	asked->ns = fth_now_ns() - begin;
	fth_cli_progress("updating once more", 2, 4);
	if (rc == 0)
		rc = fth_gups_run(asked->table, &asked->how);
	fth_cli_progress("checking", 3, 4);
	if (rc == 0)
		rc = fth_gups_check(asked->table, &asked->how, &asked->wrong);
	fth_cli_progress_end();
	if (rc == 0 && asked->wrong)
		rc = fth_fail(EILSEQ, "%llu of %llu words are wrong",
			      (unsigned long long)asked->wrong,
			      (unsigned long long)asked->how.words);
	return rc;
}

static void print(const struct asked *asked)
{
	double seconds = (double)asked->ns / 1e9;
	char size[FTH_CLI_BYTES_MAX], cache[FTH_CLI_BYTES_MAX];

	printf("table          %s in lines of %u bytes, cache %s\n",
	       fth_cli_bytes(size, asked->how.words * 8), fth_cache_line_size(asked->cache),
	       fth_cli_bytes(cache, asked->app.cache));
	printf("updates        %llu in %.3f s, %.0f a second, flushed\n",
	       (unsigned long long)asked->how.updates, seconds,
	       (double)asked->how.updates / seconds);
	printf("wrong words    %llu, after undoing all updates\n",
	       (unsigned long long)asked->wrong);
	fth_app_print_cache(asked->cache);
}

static void print_json(const struct asked *asked, const char *uri)
{
	double seconds = (double)asked->ns / 1e9;
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", uri);
	fth_json_u64(&j, "words", asked->how.words);
	fth_json_u64(&j, "updates", asked->how.updates);
	fth_json_u64(&j, "threads", asked->how.threads);
	fth_json_u64(&j, "memory", asked->app.cache);
	fth_json_double(&j, "seconds", seconds);
	fth_json_double(&j, "updates_per_second", (double)asked->how.updates / seconds);
	fth_json_u64(&j, "wrong", asked->wrong);
	fth_app_json_cache(&j, asked->cache);
	fth_json_finish(&j);
}

static int run(int argc, char **argv)
{
	struct asked asked = {.app = FTH_APP_DEFAULTS, .batch = 1024};
	char **args;
	int status = parse(&asked, argc, argv, &args), rc, closed;

	if (status != FTH_CLI_GO_ON)
		return status;
	status = fth_cli_take_over(args[0], asked.force);
	if (status != FTH_CLI_GO_ON)
		return status;
	rc = open_table(&asked, args[0]);
	if (rc == 0)
		rc = update_twice(&asked);
	if (rc == 0 && fth_cli_json())
		print_json(&asked, args[0]);
	else if (rc == 0)
		print(&asked);
	status = fth_app_exit(args[0], rc);
	closed = fth_array_finish(&asked.table);
	rc = fth_cache_finish(&asked.cache);
	closed = closed < 0 ? closed : rc;
	return status == FTH_EXIT_OK ? fth_app_exit(args[0], closed) : status;
}

const struct fth_command gups_run_command = {
	.name = "run",
	.summary = "update a device, undo it and check every word",
	.run = run,
};
