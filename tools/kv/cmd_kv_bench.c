/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom kv bench: load for any server that speaks memcached's text protocol. The generator is in
 * tools/common/kv_load.h; `fathom bench kv` compares two servers with it.
 */
#include "app_options.h"
#include "cmd_kv.h"
#include "json.h"
#include "kv_load.h"
#include "kv_stats_view.h"
#include "kv_wire.h"

#include <stdio.h>

#define FILL_BATCH 16u

struct bench {
	struct fth_kv_load load;
	const char *auth_file;
	struct fth_kv_tls tls;
	uint64_t items, value, connections, threads, keys, timeout_ms;
	double sets; /* percent */
	bool no_fill, fill_only;
	struct fth_kv_data data;
};

static double per_second(uint64_t n, uint64_t ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

static double us(const struct fth_kv_load_result *r, double share)
{
	return (double)fth_latency_quantile(&r->latency, share) / 1e3;
}

static void print_result(const char *what, const struct fth_kv_load_result *r)
{
	uint64_t keys = r->gets + r->sets;

	printf("%-8s %.0f requests/s, %.0f keys/s; %.2f s\n", what, per_second(r->requests, r->ns),
	       per_second(keys, r->ns), (double)r->ns / 1e9);
	printf("  latency  p50 %.1f us, p99 %.1f us, p99.9 %.1f us\n", us(r, 0.5), us(r, 0.99),
	       us(r, 0.999));
	if (r->gets)
		printf("  gets     %llu, %llu misses (%.2f %%)\n", (unsigned long long)r->gets,
		       (unsigned long long)(r->gets - r->hits),
		       100.0 * (double)(r->gets - r->hits) / (double)r->gets);
	if (r->sets)
		printf("  sets     %llu, %llu refused\n", (unsigned long long)r->sets,
		       (unsigned long long)r->refused);
	if (r->timeouts || r->broken)
		printf("  lost     %llu timeouts, %llu broken connections\n",
		       (unsigned long long)r->timeouts, (unsigned long long)r->broken);
	if (*r->answer)
		printf("  answer   %s\n", r->answer);
	printf("  values   %llu wrong, %llu stale\n", (unsigned long long)r->wrong,
	       (unsigned long long)r->stale);
}

static void json_result(struct fth_json *j, const char *key, const struct fth_kv_load_result *r)
{
	fth_json_object(j, key);
	fth_json_double(j, "seconds", (double)r->ns / 1e9);
	fth_json_double(j, "requests_per_second", per_second(r->requests, r->ns));
	fth_json_double(j, "keys_per_second", per_second(r->gets + r->sets, r->ns));
	fth_json_double(j, "p50_us", us(r, 0.5));
	fth_json_double(j, "p99_us", us(r, 0.99));
	fth_json_double(j, "p999_us", us(r, 0.999));
	fth_json_u64(j, "requests", r->requests);
	fth_json_u64(j, "gets", r->gets);
	fth_json_u64(j, "misses", r->gets - r->hits);
	fth_json_u64(j, "sets", r->sets);
	fth_json_u64(j, "refused", r->refused);
	fth_json_u64(j, "wrong", r->wrong);
	fth_json_u64(j, "stale", r->stale);
	fth_json_u64(j, "timeouts", r->timeouts);
	fth_json_u64(j, "broken", r->broken);
	fth_json_end(j);
}

static int set_up(struct bench *b)
{
	if (b->fill_only && b->no_fill) {
		fth_cli_error("--fill-only and --no-fill are mutually exclusive");
		return FTH_EXIT_USAGE;
	}
	if (b->threads > b->connections) {
		fth_cli_error("--threads %llu exceeds --connections %llu",
			      (unsigned long long)b->threads, (unsigned long long)b->connections);
		return FTH_EXIT_USAGE;
	}
	if (b->load.zipf < 0 || b->load.zipf >= 1) {
		fth_cli_error("--zipf %g: expected at least 0 and less than 1", b->load.zipf);
		return FTH_EXIT_USAGE;
	}
	b->load.connections = (unsigned)b->connections;
	b->load.threads = (unsigned)b->threads;
	b->load.batch = (unsigned)b->keys;
	b->load.set_share = b->sets / 100;
	b->load.timeout_ns = b->timeout_ms * 1000000;
	b->load.data = &b->data;
	return FTH_CLI_GO_ON;
}

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"server", FTH_CLI_STRING, &b->load.server, 0, 0, "HOST:PORT or unix:PATH"},
		{"auth", FTH_CLI_STRING, &b->auth_file, 0, 0,
		 "file whose first line is user:password"},
		{"tls", FTH_CLI_FLAG, &b->tls.on, 0, 0,
		 "speak TLS; verify the server by the certificates of the system"},
		{"tls-ca", FTH_CLI_STRING, &b->tls.ca, 0, 0,
		 "PEM file to verify it by instead; implies --tls"},
		{"items", FTH_CLI_SIZE, &b->items, 1, (uint64_t)1 << 36,
		 "number of items to store"},
		{"value", FTH_CLI_SIZE, &b->value, FTH_KV_LOAD_VALUE_MIN, 15u << 20,
		 "bytes of a value"},
		{"connections", FTH_CLI_U64, &b->connections, 1, 65536,
		 "connections, each with one request in flight"},
		{"threads", FTH_CLI_U64, &b->threads, 1, 256, "threads they are spread over"},
		{"seconds", FTH_CLI_DOUBLE, &b->load.seconds, 0, 0,
		 "duration of the measurement, after the fill"},
		{"sets", FTH_CLI_DOUBLE, &b->sets, 0, 100, "percent of the requests that are sets"},
		{"keys", FTH_CLI_U64, &b->keys, 1, FTH_KV_LOAD_BATCH_MAX, "keys per get request"},
		{"zipf", FTH_CLI_DOUBLE, &b->load.zipf, 0, 0,
		 "exponent of the popularity of keys, 0.99 for instance; 0: uniform"},
		{"rate", FTH_CLI_U64, &b->load.rate, 0, UINT64_MAX,
		 "keys in a second, filling included; 0: any"},
		{"timeout-ms", FTH_CLI_U64, &b->timeout_ms, 1, 3600000, "timeout of one request"},
		{"seed", FTH_CLI_U64, &b->load.seed, 0, UINT64_MAX, "of all random choices"},
		{"no-fill", FTH_CLI_FLAG, &b->no_fill, 0, 0, "the items are there already"},
		{"fill-only", FTH_CLI_FLAG, &b->fill_only, 0, 0, "only store the items"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv bench [options]",
		.text = "Store items on a server that speaks memcached's text protocol, then get\n"
			"and set random ones. Every value that comes back is verified: the exit\n"
			"status is 1 if one was wrong, or older than one that was acknowledged.\n"
			"Ctrl-C ends it with the figures so far.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status == FTH_CLI_GO_ON ? set_up(b) : status;
}

static int fill(struct bench *b, struct fth_kv_load_result *result)
{
	struct fth_kv_load load = b->load;

	load.mode = FTH_KV_LOAD_FILL;
	load.batch = FILL_BATCH;
	load.label = "filling";
	return fth_kv_load_run(&load, result);
}

static void report(const struct bench *b, const struct fth_kv_load_result *filled,
		   const struct fth_kv_load_result *ran)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		if (filled->requests)
			print_result("fill", filled);
		if (ran->requests)
			print_result("load", ran);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "server", b->load.server);
	fth_json_u64(&j, "items", b->items);
	fth_json_u64(&j, "value", b->value);
	fth_json_u64(&j, "connections", b->connections);
	fth_json_u64(&j, "threads", b->threads);
	fth_json_u64(&j, "keys", b->keys);
	fth_json_double(&j, "sets_percent", b->sets);
	fth_json_double(&j, "zipf", b->load.zipf);
	fth_json_u64(&j, "rate", b->load.rate);
	json_result(&j, "fill", filled);
	json_result(&j, "load", ran);
	fth_json_finish(&j);
}

static int execute(struct bench *b)
{
	struct fth_kv_load_result filled = {0}, ran = {0};
	char password[FTH_KV_PASSWORD_MAX];
	int rc = fth_kv_data_init(&b->data, b->items, (uint32_t)b->value), status;

	if (rc == 0 && b->auth_file)
		rc = fth_kv_read_password(b->auth_file, password);
	b->load.auth = b->auth_file ? password : NULL;
	b->load.tls = &b->tls;
	if (rc == 0)
		rc = fth_kv_tls_open(&b->tls);
	if (rc == 0 && !b->no_fill)
		rc = fill(b, &filled);
	if (rc == 0 && !b->fill_only && !fth_cli_stopped())
		rc = fth_kv_load_run(&b->load, &ran);
	fth_kv_tls_close(&b->tls);
	status = fth_app_exit("kv bench", rc);
	if (status != FTH_EXIT_FAILED)
		report(b, &filled, &ran);
	if (status == FTH_EXIT_OK && (ran.wrong || ran.stale))
		return FTH_EXIT_FAILED;
	return status;
}

static int run(int argc, char **argv)
{
	struct bench b = {.load = FTH_KV_LOAD_INIT,
			  .items = 100000,
			  .value = 1024,
			  .connections = 32,
			  .threads = 1,
			  .keys = 1,
			  .timeout_ms = 5000};
	int status;

	b.load.server = "127.0.0.1:11211";
	b.load.label = "running";
	status = parse(&b, argc, argv);
	if (status == FTH_CLI_GO_ON)
		status = execute(&b);
	fth_kv_data_release(&b.data);
	return status;
}

const struct fth_command fth_cmd_kv_bench = {
	.name = "bench",
	.summary = "load a server and verify every value",
	.run = run,
};
