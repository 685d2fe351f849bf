/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench kv: `fathom kv serve` against memcached with extstore, under one load generator.
 * kv_rows.h lists the siblings.
 *
 * Both servers run at the same time, and are under load one after the other. Processor time is that of
 * the whole process, its io_uring workers included, since these are threads of it. Reads are counted by
 * the device that the files are on, and so include those of others.
 */
#include "app_options.h"
#include "common/find_program.h"
#include "kv_rows.h"
#include "common/report.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench {
	struct kv_config config;
	const char *rows_text;
	bool smallest;
	bool chosen[KV_ROWS_MAX];
	bool done[KV_ROWS_MAX];
	struct kv_measured measured[KV_ROWS_MAX];
	char version[64];
	char fathom[PATH_MAX];
};

/* ---- options ---- */

static bool choose_row(struct bench *b, const char *name, size_t length)
{
	for (unsigned i = 0; kv_rows[i].name; i++)
		if (strlen(kv_rows[i].name) == length &&
		    strncmp(kv_rows[i].name, name, length) == 0) {
			b->chosen[i] = true;
			return true;
		}
	fth_cli_error("--rows: unknown row %.*s", (int)length, name);
	return false;
}

static bool choose_rows(struct bench *b)
{
	const char *at = b->rows_text;

	if (!at)
		for (unsigned i = 0; kv_rows[i].name; i++)
			b->chosen[i] = !kv_rows[i].asked;
	while (at && *at) {
		size_t length = strcspn(at, ",");

		if (!choose_row(b, at, length))
			return false;
		at += length + (at[length] == ',');
	}
	return true;
}

static int check_options(struct bench *b)
{
	struct kv_config *c = &b->config;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (b->smallest) {
		c->items = 4000;
		c->small_items = c->huge_items = 8000;
		c->memory = 4 << 20;
		c->rounds = 1;
		c->seconds = 0.1;
		c->settle_ms = 10;
		c->pace = 0;
	}
	if (!c->threads)
		c->threads = processors > (long)c->client_threads + 1
				     ? (uint64_t)processors - c->client_threads
				     : 1;
	if (!c->fathom) {
		bench_find_fathom(b->fathom);
		c->fathom = b->fathom;
	}
	return choose_rows(b) ? FTH_CLI_GO_ON : FTH_EXIT_USAGE;
}

static void list_rows(char *text, size_t len)
{
	int used = snprintf(
		text, len,
		"`fathom kv serve` on a file with direct I/O against memcached with\n"
		"extstore (8 I/O threads, everything sent to flash at once, its file kept\n"
		"out of the page cache), both as processes of their own, under one load\n"
		"generator. Runs alternate; medians are compared. Every value is verified.\n"
		"Without memcached ours runs alone. Rows:\n");

	for (unsigned i = 0; kv_rows[i].name && used < (int)len; i++)
		used += snprintf(text + used, len - (size_t)used, "  %-10s %s%s\n", kv_rows[i].name,
				 kv_rows[i].what, kv_rows[i].asked ? " (only if named)" : "");
	if (used > 0 && used < (int)len)
		text[used - 1] = '\0';
}

static int parse(struct bench *b, int argc, char **argv)
{
	struct kv_config *c = &b->config;
	const struct fth_cli_option options[] = {
		{"rows", FTH_CLI_STRING, &b->rows_text, 0, 0, "those to run, as a,b; default all"},
		{"items", FTH_CLI_SIZE, &c->items, 200, (uint64_t)1 << 32, "items"},
		{"value", FTH_CLI_SIZE, &c->value, FTH_KV_LOAD_VALUE_MIN, 1 << 20,
		 "bytes of a value"},
		{"small-items", FTH_CLI_SIZE, &c->small_items, 200, (uint64_t)1 << 32,
		 "items of row small"},
		{"huge-items", FTH_CLI_SIZE, &c->huge_items, 200, (uint64_t)1 << 32,
		 "items of row huge"},
		{"memory", FTH_CLI_SIZE, &c->memory, 4 << 20, (uint64_t)1 << 44,
		 "of ours for items, where they are on flash"},
		{"peer-memory", FTH_CLI_SIZE, &c->peer_memory, 0, (uint64_t)1 << 44,
		 "of the peer with flash; 0: 134 bytes an item"},
		{"threads", FTH_CLI_U64, &c->threads, 0, 256,
		 "of a server; 0: the processors that the client leaves"},
		{"client-threads", FTH_CLI_U64, &c->client_threads, 1, 32, "of the load generator"},
		{"pace", FTH_CLI_U64, &c->pace, 0, UINT64_MAX,
		 "items in a second while the peer is filled, and in row wear; 0: any"},
		{"seconds", FTH_CLI_DOUBLE, &c->seconds, 0, 0, "duration of one run"},
		FTH_BENCH_ROUNDS(&c->rounds),
		{"dir", FTH_CLI_STRING, &c->folder, 0, 0,
		 "where the files are; default TMPDIR or /tmp"},
		{"fathom", FTH_CLI_STRING, &c->fathom, 0, 0,
		 "program; default: the one beside this"},
		{"memcached", FTH_CLI_STRING, &c->memcached, 0, 0, "program"},
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	char text[2048], **args;
	const struct fth_cli_usage usage = {
		.synopsis = "bench kv [options]", .text = text, .options = options};
	int status;

	list_rows(text, sizeof(text));
	status = fth_cli_parse(&usage, argc, argv, &args);
	return status == FTH_CLI_GO_ON ? check_options(b) : status;
}

/* ---- report ---- */

static double value_of(const struct kv_measured *m, enum kv_metric which, unsigned side)
{
	return side ? fth_rounds_peer(&m->metric[which]) : fth_rounds_ours(&m->metric[which]);
}

static void print_head(void)
{
	printf("%-9s %-6s %9s %8s %9s %9s %8s %7s %8s %7s\n", "row", "server", "keys/s", "CPU us",
	       "p50 us", "p99 us", "RSS MiB", "reads", "bytes", "hits %");
}

static void print_side(const char *name, const struct kv_measured *m, unsigned side)
{
	printf("%-9s %-6s %9.0f %8.2f %9.1f %9.1f %8.1f %7.2f %8.0f %7.2f\n", name,
	       side ? "peer" : "ours", value_of(m, KV_RATE, side), value_of(m, KV_CPU, side),
	       value_of(m, KV_P50, side), value_of(m, KV_P99, side),
	       value_of(m, KV_RSS, side) / (1 << 20), value_of(m, KV_READS, side),
	       value_of(m, KV_READ_BYTES, side), 100 * value_of(m, KV_HITS, side));
}

static void print_extra(const char *name, const struct kv_measured *m)
{
	if (m->wrong[1])
		printf("%-9s peer   gave %llu wrong or stale values\n", name,
		       (unsigned long long)m->wrong[1]);
	if (m->index_per_item > 0)
		printf("%-9s index %.2f bytes an item, RSS beyond the items in memory %.1f; peer "
		       "RSS %.1f\n",
		       name, m->index_per_item, m->rss_per_item[0], m->rss_per_item[1]);
	for (unsigned side = 0; side < 2; side++)
		if (m->amplification[side] > 0)
			printf("%-9s %-6s %.3f bytes written for a byte set, %.2f %% of the keys "
			       "kept\n",
			       name, side ? "peer" : "ours", m->amplification[side],
			       100 * m->kept[side]);
}

static void print_row(const struct kv_row *row, const struct kv_measured *m)
{
	if (fth_cli_json())
		return;
	if (m->metric[KV_RATE].n) {
		print_side(row->name, m, 0);
		if (!m->ours_only) {
			print_side("", m, 1);
			printf("%-9s %-6s %9.2f %8.2f %9.2f %9.2f %8.2f\n", "", "ratio",
			       fth_rounds_ratio(&m->metric[KV_RATE]),
			       fth_rounds_ratio(&m->metric[KV_CPU]),
			       fth_rounds_ratio(&m->metric[KV_P50]),
			       fth_rounds_ratio(&m->metric[KV_P99]),
			       fth_rounds_ratio(&m->metric[KV_RSS]));
		}
	}
	print_extra(row->name, m);
	fflush(stdout);
}

static void json_pair(struct fth_json *j, const char *key, const double pair[2])
{
	fth_json_object(j, key);
	fth_json_double(j, "ours", pair[0]);
	fth_json_double(j, "peer", pair[1]);
	fth_json_end(j);
}

static void json_row(struct fth_json *j, const struct kv_row *row, const struct kv_measured *m)
{
	fth_json_object(j, NULL);
	fth_json_string(j, "row", row->name);
	fth_json_bool(j, "ours_only", m->ours_only);
	fth_json_u64(j, "peer_wrong_or_stale", m->wrong[1]);
	for (unsigned i = 0; i < KV_METRICS && m->metric[i].n; i++)
		fth_rounds_json(j, kv_metric_names[i], &m->metric[i]);
	if (m->index_per_item > 0) {
		fth_json_double(j, "index_per_item", m->index_per_item);
		json_pair(j, "rss_per_item", m->rss_per_item);
	}
	if (m->amplification[0] > 0) {
		json_pair(j, "write_amplification", m->amplification);
		json_pair(j, "keys_kept", m->kept);
	}
	fth_json_end(j);
}

/* The ratio is that of the first row that has one; cold is the first of all. */
static void report(const struct bench *b)
{
	const struct kv_config *c = &b->config;
	const struct fth_rounds none = {0}, *main_row = &none;
	struct fth_json j;

	for (unsigned i = 0; kv_rows[i].name && !main_row->n; i++)
		if (b->done[i])
			main_row = &b->measured[i].metric[KV_RATE];
	fth_bench_json(&j, "kv", fth_rounds_ours(main_row), fth_rounds_peer(main_row),
		       fth_rounds_ratio(main_row));
	fth_json_string(&j, "peer_version", b->version);
	fth_json_u64(&j, "items", c->items);
	fth_json_u64(&j, "value", c->value);
	fth_json_u64(&j, "small_items", c->small_items);
	fth_json_u64(&j, "huge_items", c->huge_items);
	fth_json_u64(&j, "memory", c->memory);
	fth_json_u64(&j, "threads", c->threads);
	fth_json_u64(&j, "client_threads", c->client_threads);
	fth_json_u64(&j, "pace", c->pace);
	fth_json_u64(&j, "rounds", c->rounds);
	fth_json_double(&j, "seconds", c->seconds);
	fth_json_array(&j, "rows");
	for (unsigned i = 0; kv_rows[i].name; i++)
		if (b->done[i])
			json_row(&j, &kv_rows[i], &b->measured[i]);
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* ---- all of it ---- */

static int run_rig(struct bench *b, enum kv_rig_kind kind)
{
	struct kv_rig rig = {0};
	int rc = 0;

	for (unsigned i = 0; kv_rows[i].name && rc == 0; i++) {
		if (!b->chosen[i] || kv_rows[i].rig != kind)
			continue;
		if (!rig.config)
			rc = kv_rig_open(&rig, &b->config, kind);
		if (rc == 0)
			rc = kv_row_measure(&rig, &kv_rows[i], &b->measured[i]);
		b->done[i] = rc == 0;
		if (rc == 0)
			print_row(&kv_rows[i], &b->measured[i]);
	}
	kv_rig_close(&rig);
	return rc;
}

static int execute(struct bench *b)
{
	int rc = 0;

	b->config.has_peer =
		fth_kv_peer_version(b->config.memcached, b->version, sizeof(b->version)) == 0;
	if (!b->config.has_peer)
		fth_cli_error("%s is not installed: measuring fathom alone", b->config.memcached);
	if (!fth_cli_json()) {
		printf("%llu items of %llu bytes, %llu server threads, %s\n",
		       (unsigned long long)b->config.items, (unsigned long long)b->config.value,
		       (unsigned long long)b->config.threads,
		       b->config.has_peer ? b->version : "no peer");
		print_head();
	}
	for (unsigned kind = 0; kind < KV_RIGS && rc == 0; kind++)
		rc = run_rig(b, kind);
	if (rc == 0)
		report(b);
	return rc;
}

static int run(int argc, char **argv)
{
	struct bench *b = calloc(1, sizeof(*b));
	int status, rc;

	if (!b)
		return FTH_EXIT_FAILED;
	b->config = (struct kv_config){
		.memcached = "memcached",
		.items = 1 << 20,
		.value = 1024,
		.small_items = 5 << 20,
		.huge_items = 20 << 20,
		.memory = 32 << 20,
		.client_threads = 1,
		.pace = 60000,
		.rounds = 5,
		.seconds = 4,
		.settle_ms = 500,
	};
	status = parse(b, argc, argv);
	if (status == FTH_CLI_GO_ON) {
		rc = execute(b);
		status = fth_app_exit_or_skip("bench kv", rc, rc == -ENOSYS || rc == -EPERM);
	}
	free(b);
	return status;
}

const struct fth_command fth_bench_kv = {
	.name = "kv",
	.summary = "a cache server on flash, against memcached with extstore",
	.run = run,
};
