/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver redisload: the clients of `fathom bench flatredis` (redis_load.h). It
 * remembers what was written, prints {} when it is ready, and then does what the lines on standard
 * input say, each with a line of JSON as its answer:
 *
 *	fill			write all records: {}
 *	run b|d OPS SEED	a load: {"ops_per_s":...}
 */
#include "redis_load.h"

#include "app_options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct driver {
	struct redis_plan plan;
	uint64_t value, clients;
	struct redis_data *data;
};

static void print_nothing(void)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_finish(&j);
}

static void print_result(const struct redis_result *r)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_double(&j, "ops_per_s", r->ops_per_s);
	fth_json_double(&j, "p50_us", (double)r->p50_ns / 1000);
	fth_json_double(&j, "p99_us", (double)r->p99_ns / 1000);
	fth_json_double(&j, "p999_us", (double)r->p999_ns / 1000);
	fth_json_finish(&j);
}

static int obey(struct driver *d, const char *line)
{
	unsigned long long ops, seed;
	struct redis_result result;
	char workload;
	int rc;

	if (strcmp(line, "fill\n") == 0) {
		rc = redis_fill(&d->plan, d->data);
		if (rc == 0)
			print_nothing();
		return rc;
	}
	if (sscanf(line, "run %c %llu %llu", &workload, &ops, &seed) != 3)
		return fth_fail(EINVAL, "cannot parse: %s", line);
	d->plan.ops = ops;
	d->plan.seed = seed;
	rc = redis_run(&d->plan, d->data, workload == 'b' ? REDIS_B : REDIS_D, &result);
	if (rc == 0)
		print_result(&result);
	return rc;
}

static int execute(struct driver *d)
{
	char line[128];
	int rc = 0;

	d->plan.value = (uint32_t)d->value;
	d->plan.clients = (unsigned)d->clients;
	d->plan.stopped = fth_cli_stopped;
	d->data = redis_data_new(&d->plan);
	if (!d->data)
		return -ENOMEM;
	print_nothing();
	while (rc == 0 && !fth_cli_stopped() && fgets(line, sizeof(line), stdin))
		rc = obey(d, line);
	redis_data_free(d->data);
	return rc;
}

static int run(int argc, char **argv)
{
	struct driver d = {.plan = {.socket = "socket", .records = 1, .ops = 1}};
	const struct fth_cli_option options[] = {
		{"socket", FTH_CLI_STRING, &d.plan.socket, 0, 0, "of the server"},
		{"records", FTH_CLI_U64, &d.plan.records, 1, (uint64_t)1 << 40, "loaded"},
		{"value", FTH_CLI_U64, &d.value, 32, 32768, "bytes of a value"},
		{"ops", FTH_CLI_U64, &d.plan.ops, 1, (uint64_t)1 << 32, "most requests of a run"},
		{"clients", FTH_CLI_U64, &d.clients, 1, 64, "connections"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver redisload [options]",
		.text = "Loads like YCSB's for a redis-server, as standard input says.",
		.options = options,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	return rc != FTH_CLI_GO_ON ? rc : fth_app_exit("redis", execute(&d));
}

const struct fth_command fth_driver_redisload = {
	.name = "redisload",
	.summary = "the clients of the benchmark flatredis",
	.run = run,
};
