/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver kvload: the load generator of `fathom bench kv` for one server (kv_load.h).
 * It remembers which versions of its items the server has acknowledged, prints {} when it is ready,
 * and then does what the lines on standard input say, each with a line of JSON as its answer:
 *
 *	fill BATCH RATE		set every key once, BATCH at a time, at most RATE in a second; 0:
 *				any
 *	sweep BATCH		get every key once
 *	mix CONNECTIONS BATCH SETS ZIPF SECONDS KEYS RATE SEED
 *				random keys; a share SETS of the requests sets; until SECONDS have
 *				passed or, unless it is 0, KEYS were used
 */
#include "kv_load.h"

#include "app_options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_NS UINT64_C(30000000000) /* a machine may be slow */

struct driver {
	const char *server;
	uint64_t items, value, threads;
	struct fth_kv_data data;
};

static void print_result(const struct fth_kv_load_result *r)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_u64(&j, "ns", r->ns);
	fth_json_u64(&j, "gets", r->gets);
	fth_json_u64(&j, "hits", r->hits);
	fth_json_u64(&j, "sets", r->sets);
	fth_json_u64(&j, "stored", r->stored);
	fth_json_u64(&j, "wrong", r->wrong);
	fth_json_u64(&j, "stale", r->stale);
	fth_json_u64(&j, "timeouts", r->timeouts);
	fth_json_u64(&j, "broken", r->broken);
	fth_json_string(&j, "answer", r->answer);
	fth_json_double(&j, "p50_us", (double)fth_latency_quantile(&r->latency, 0.5) / 1e3);
	fth_json_double(&j, "p99_us", (double)fth_latency_quantile(&r->latency, 0.99) / 1e3);
	fth_json_double(&j, "p999_us", (double)fth_latency_quantile(&r->latency, 0.999) / 1e3);
	fth_json_finish(&j);
}

/* The load that a line asks for. 0 or -EINVAL with a text. */
static int read_load(const struct driver *d, const char *line, struct fth_kv_load *load)
{
	unsigned long long keys = 0, rate = 0, seed = 1;
	char word[16] = "";
	int n = 0;

	(void)sscanf(line, "%15s%n", word, &n);
	if (strcmp(word, "mix") == 0) {
		load->threads = (unsigned)d->threads;
		n = sscanf(line + n, "%u %u %lf %lf %lf %llu %llu %llu", &load->connections,
			   &load->batch, &load->set_share, &load->zipf, &load->seconds, &keys,
			   &rate, &seed) == 8;
	} else if (strcmp(word, "fill") == 0) {
		load->mode = FTH_KV_LOAD_FILL;
		n = sscanf(line + n, "%u %llu", &load->batch, &rate) == 2;
	} else {
		load->mode = FTH_KV_LOAD_SWEEP;
		n = strcmp(word, "sweep") == 0 && sscanf(line + n, "%u", &load->batch) == 1;
	}
	load->keys = keys;
	load->rate = rate;
	load->seed = seed;
	return n ? 0 : fth_fail(EINVAL, "cannot parse: %s", line);
}

static int obey(struct driver *d, const char *line)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;
	struct fth_kv_load_result result;
	int rc = read_load(d, line, &load);

	load.server = d->server;
	load.data = &d->data;
	load.timeout_ns = TIMEOUT_NS;
	if (rc == 0)
		rc = fth_kv_load_run(&load, &result);
	if (rc == 0 && !fth_cli_stopped())
		print_result(&result);
	return rc;
}

static int execute(struct driver *d)
{
	struct fth_json j;
	char line[256];
	int rc = fth_kv_data_init(&d->data, d->items, (uint32_t)d->value);

	if (rc < 0)
		return rc;
	fth_json_begin(&j, stdout);
	fth_json_finish(&j);
	while (rc == 0 && !fth_cli_stopped() && fgets(line, sizeof(line), stdin))
		rc = obey(d, line);
	fth_kv_data_release(&d->data);
	return rc;
}

static int run(int argc, char **argv)
{
	struct driver d = {.server = "127.0.0.1:11211", .items = 1, .value = 1024, .threads = 1};
	const struct fth_cli_option options[] = {
		{"server", FTH_CLI_STRING, &d.server, 0, 0, "HOST:PORT"},
		{"items", FTH_CLI_U64, &d.items, 1, (uint64_t)1 << 32, "items"},
		{"value", FTH_CLI_U64, &d.value, FTH_KV_LOAD_VALUE_MIN, 1 << 20,
		 "bytes of a value"},
		{"threads", FTH_CLI_U64, &d.threads, 1, 32, "of a mix"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver kvload [options]",
		.text = "A load of a cache server, as standard input says.",
		.options = options,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	return rc != FTH_CLI_GO_ON ? rc : fth_app_exit(d.server, execute(&d));
}

const struct fth_command fth_driver_kvload = {
	.name = "kvload",
	.summary = "the load generator of the benchmark kv",
	.run = run,
};
