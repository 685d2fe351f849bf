/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench tpch: the 22 queries of TPC-H in a memory budget, against DuckDB or PostgreSQL on the same text. Siblings:
 * tpch_data.c makes the data, tpch_ours.c and tpch_rival.c run a query in a process of its own, tpch_answer.c
 * compares the answers, tpch_process.c has the processes and what they took.
 *
 * Each query has a process of its own on each side, and runs there twice: the first run reads from storage, since the
 * tables were dropped from the page cache; the second one is warm. Sides alternate.
 */
#include "app_options.h"
#include "common/find_program.h"
#include "common/report.h"
#include "tpch_answer.h"
#include "tpch_data.h"
#include "tpch_ours.h"

#include "workloads/tpch/tpch.h"
#include "fathom/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OURS, PEER, SIDES };

/* Figures of a run that are compared. */
enum metric { CPU, WALL, READ, WRITTEN, RSS, METRICS };

static const char *const metric_names[METRICS] = {"cpu_s", "wall_s", "read_bytes", "spilled_bytes",
						  "peak_rss_bytes"};

/* What all rounds of a query gave. */
struct query {
	bool chosen;
	bool failed[SIDES];
	char error[SIDES][FTH_ERROR_TEXT_MAX];
	double runs[SIDES][TPCH_RUNS][METRICS][FTH_ROUNDS_MAX];
	unsigned rounds[SIDES];
	uint64_t charged; /* by our engine, at most */
};

struct bench {
	struct tpch_data data;
	struct tpch_rival rival;
	const char *rival_name, *queries_text, *answers, *shuffle;
	uint64_t budget, rival_memory, rounds;
	bool smallest, soft;
	char fathom[PATH_MAX];
	struct query queries[FTH_TPCH_QUERIES + 1];
};

/* ---- options ---- */

static bool choose_queries(struct bench *b)
{
	const char *at = b->queries_text;

	for (unsigned i = 1; i <= FTH_TPCH_QUERIES; i++)
		b->queries[i].chosen = !at;
	while (at && *at) {
		char *end;
		unsigned long number = strtoul(at, &end, 10);

		if (end == at || number < 1 || number > FTH_TPCH_QUERIES || (*end && *end != ',')) {
			fth_cli_error("--queries %s: expected numbers from 1 to %d, such as 1,6",
				      b->queries_text, FTH_TPCH_QUERIES);
			return false;
		}
		b->queries[number].chosen = true;
		at = end + (*end == ',');
	}
	return true;
}

static bool choose_order(struct bench *b)
{
	if (!b->shuffle)
		b->data.order = TPCH_GENERATED;
	else if (strcmp(b->shuffle, "lineitem") == 0)
		b->data.order = TPCH_SHUFFLED_LINEITEM;
	else if (strcmp(b->shuffle, "both") == 0)
		b->data.order = TPCH_SHUFFLED_BOTH;
	else {
		fth_cli_error("--shuffle %s: expected lineitem or both", b->shuffle);
		return false;
	}
	return true;
}

static int check_options(struct bench *b)
{
	if (b->smallest) {
		b->data.scale = 0.01;
		b->rounds = 1;
		b->rival_name = "none";
	}
	if (b->data.scale < FTH_TPCH_SCALE_MIN || b->data.scale > FTH_TPCH_SCALE_MAX) {
		fth_cli_error("--sf %g: expected a number from %g to %g", b->data.scale,
			      FTH_TPCH_SCALE_MIN, FTH_TPCH_SCALE_MAX);
		return FTH_EXIT_USAGE;
	}
	if (!b->data.threads)
		b->data.threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (!b->data.fathom) {
		bench_find_fathom(b->fathom);
		b->data.fathom = b->fathom;
	}
	return choose_queries(b) && choose_order(b) ? FTH_CLI_GO_ON : FTH_EXIT_USAGE;
}

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"sf", FTH_CLI_DOUBLE, &b->data.scale, 0, 0, "scale factor; 1 is 1 GB of text"},
		{"budget", FTH_CLI_SIZE, &b->budget, FTH_QUERY_BUDGET_MIN, (uint64_t)1 << 44,
		 "memory of a query of ours, which the kernel enforces"},
		{"soft", FTH_CLI_FLAG, &b->soft, 0, 0, "the engine alone keeps the budget"},
		{"threads", FTH_CLI_U64, &b->data.threads, 0, 256,
		 "of both sides; 0: one for each processor"},
		{"queries", FTH_CLI_STRING, &b->queries_text, 0, 0,
		 "those to run, as 1,6; default all"},
		{"rival", FTH_CLI_STRING, &b->rival_name, 0, 0, "duckdb, postgres or none"},
		{"rival-memory", FTH_CLI_SIZE, &b->rival_memory, 0, (uint64_t)1 << 44,
		 "limit that the rival is told; 0: its default"},
		{"shuffle", FTH_CLI_STRING, &b->shuffle, 0, 0,
		 "rows in random order: lineitem, or both orders and lineitem"},
		{"answers", FTH_CLI_STRING, &b->answers, 0, 0,
		 "folder with q01.txt to q22.txt to compare with as well"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"dir", FTH_CLI_STRING, &b->data.folder, 0, 0,
		 "keep the data here; default: a folder in TMPDIR that is removed"},
		{"fathom", FTH_CLI_STRING, &b->data.fathom, 0, 0,
		 "program; default: the one beside this"},
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench tpch [options]",
		.text = "The 22 queries of TPC-H in a memory budget, against DuckDB (node's "
			"package\n"
			"@duckdb/node-api, also in the folder that FTH_DUCKDB names) or PostgreSQL "
			"on\n"
			"the same text, each query in a process of its own. Tables that are "
			"missing\n"
			"in --dir are made first: 1.6 GB for each GB of text. Answers are "
			"compared.\n"
			"Without the rival ours runs alone, and answers are compared with those "
			"of\n"
			"--answers or, at scale factors 0.01, 1 and 10, with digests of known "
			"ones.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status == FTH_CLI_GO_ON ? check_options(b) : status;
}

/* ---- runs ---- */

static void add_run(struct query *q, unsigned side, const struct tpch_figures took[TPCH_RUNS])
{
	unsigned round = q->rounds[side]++;

	for (unsigned run = 0; run < TPCH_RUNS; run++) {
		q->runs[side][run][CPU][round] = took[run].cpu;
		q->runs[side][run][WALL][round] = took[run].wall;
		q->runs[side][run][READ][round] = (double)took[run].read;
		q->runs[side][run][WRITTEN][round] = (double)took[run].written;
		q->runs[side][run][RSS][round] = (double)took[run].rss;
	}
}

/* A query that fails is a result; being stopped is not. */
static int note_failure(struct query *q, unsigned side, int rc)
{
	if (rc == 0 || rc == -EINTR)
		return rc;
	q->failed[side] = true;
	snprintf(q->error[side], sizeof(q->error[side]), "%s", fth_error_text(rc));
	return 0;
}

static int run_ours(struct bench *b, unsigned number, const char *answer)
{
	struct query *q = &b->queries[number];
	const struct tpch_ours ours = {.database = b->data.ours.path,
				       .sql = fth_tpch_query(number),
				       .answer = answer,
				       .budget = b->budget,
				       .threads = b->data.threads,
				       .soft = b->soft};
	struct tpch_ours_result result;
	int rc = tpch_ours_run(&ours, &result);

	if (rc == 0) {
		add_run(q, OURS, result.took);
		if (result.charged > q->charged)
			q->charged = result.charged;
	}
	return note_failure(q, OURS, rc);
}

static int write_query(const char *path, unsigned number)
{
	FILE *file = fopen(path, "we");

	if (file)
		fputs(fth_tpch_query(number), file);
	return file && fclose(file) == 0 ? 0 : fth_fail(errno, "%s: %s", path, strerror(errno));
}

static int run_peer(struct bench *b, unsigned number, const char *answer)
{
	struct query *q = &b->queries[number];
	struct tpch_figures took[TPCH_RUNS];
	char path[PATH_MAX + 32];
	int rc;

	snprintf(path, sizeof(path), "%s/query.sql", b->data.root);
	rc = write_query(path, number);
	if (rc < 0)
		return rc;
	rc = tpch_rival_run(&b->rival, b->data.peer.path, path, answer, took);
	if (rc == 0)
		add_run(q, PEER, took);
	return note_failure(q, PEER, rc);
}

/* What our answers are compared with. */
static const char *reference(const struct bench *b)
{
	return b->data.rival			  ? b->rival.name
	       : b->answers			  ? "--answers"
	       : tpch_answer_known(b->data.scale) ? "digests of known answers"
						  : NULL;
}

/* Our answer against the rival's, against the one in --answers, and, without either, against its digest. */
static int compare(const struct bench *b, unsigned number, const char *ours, const char *peer)
{
	const struct query *q = &b->queries[number];
	char path[PATH_MAX + 16];
	int rc = 0;

	if (q->failed[OURS])
		return 0;
	if (b->data.rival && !q->failed[PEER])
		rc = tpch_answer_compare(ours, peer, 0);
	if (rc == 0 && b->answers) {
		snprintf(path, sizeof(path), "%s/q%02u.txt", b->answers, number);
		rc = tpch_answer_compare(ours, path, 1);
	}
	if (rc == 0 && !b->data.rival && !b->answers && tpch_answer_known(b->data.scale))
		rc = tpch_answer_verify(ours, b->data.scale, number);
	return rc;
}

static int run_query(struct bench *b, unsigned number)
{
	struct query *q = &b->queries[number];
	char ours[PATH_MAX + 32], peer[PATH_MAX + 32];
	int rc = 0;

	snprintf(ours, sizeof(ours), "%s/ours.txt", b->data.root);
	snprintf(peer, sizeof(peer), "%s/peer.txt", b->data.root);
	tpch_data_drop(&b->data);
	if (!q->failed[OURS])
		rc = run_ours(b, number, ours);
	if (rc == 0 && b->data.rival && !q->failed[PEER])
		rc = run_peer(b, number, peer);
	return rc < 0 ? rc : note_failure(q, OURS, compare(b, number, ours, peer));
}

static int run_rounds(struct bench *b)
{
	int rc = 0;

	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (unsigned i = 1; i <= FTH_TPCH_QUERIES && rc == 0; i++) {
			if (!b->queries[i].chosen)
				continue;
			fth_cli_progress("query", round * FTH_TPCH_QUERIES + i,
					 b->rounds * FTH_TPCH_QUERIES);
			rc = fth_cli_stopped() ? -EINTR : run_query(b, i);
		}
	fth_cli_progress_end();
	return rc;
}

/* ---- report ---- */

static double value_of(const struct query *q, unsigned side, unsigned run, enum metric metric)
{
	return q->rounds[side] ? fth_median(q->runs[side][run][metric], q->rounds[side]) : 0;
}

/* The sum over the queries that ran: all of ours, or, with a rival, those that both finished. */
static double sum_of(const struct bench *b, unsigned side, unsigned run, enum metric metric)
{
	double sum = 0;

	for (unsigned i = 1; i <= FTH_TPCH_QUERIES; i++) {
		const struct query *q = &b->queries[i];

		if (q->chosen && !q->failed[OURS] && !q->failed[PEER])
			sum += value_of(q, side, run, metric);
	}
	return sum;
}

static unsigned count_failed(const struct bench *b, unsigned side)
{
	unsigned n = 0;

	for (unsigned i = 1; i <= FTH_TPCH_QUERIES; i++)
		n += b->queries[i].chosen && b->queries[i].failed[side];
	return n;
}

static double mib(double bytes)
{
	return bytes / (1 << 20);
}

static void print_side(const struct bench *b, unsigned number, unsigned side)
{
	const struct query *q = &b->queries[number];

	printf("%-3.0u %-8s", side == OURS ? number : 0, side == OURS ? "fathom" : b->rival.name);
	if (q->failed[side])
		printf(" failed: %s\n", q->error[side]);
	else
		printf(" %8.3f %8.3f %8.3f %9.1f %9.1f %9.1f\n", value_of(q, side, 0, CPU),
		       value_of(q, side, 1, CPU), value_of(q, side, 0, WALL),
		       mib(value_of(q, side, 0, READ)), mib(value_of(q, side, 0, WRITTEN)),
		       mib(value_of(q, side, TPCH_RUNS - 1, RSS)));
}

static void print_sum(const struct bench *b, unsigned side)
{
	printf("%-3s %-8s %8.3f %8.3f %8.3f %9.1f %9.1f\n", side == OURS ? "sum" : "",
	       side == OURS ? "fathom" : b->rival.name, sum_of(b, side, 0, CPU),
	       sum_of(b, side, 1, CPU), sum_of(b, side, 0, WALL), mib(sum_of(b, side, 0, READ)),
	       mib(sum_of(b, side, 0, WRITTEN)));
}

static void print_storage(const struct bench *b)
{
	char ours[FTH_CLI_BYTES_MAX], peer[FTH_CLI_BYTES_MAX];

	printf("tables: fathom %s, loaded in %.1f CPU s", fth_cli_bytes(ours, b->data.ours.bytes),
	       b->data.ours.load_cpu);
	if (b->data.rival)
		printf("; %s %s, %.1f CPU s", b->rival.name,
		       fth_cli_bytes(peer, b->data.peer.bytes), b->data.peer.load_cpu);
	putchar('\n');
}

static const char *order_text(enum tpch_order order)
{
	return order == TPCH_GENERATED		 ? ""
	       : order == TPCH_SHUFFLED_LINEITEM ? ", rows of lineitem shuffled"
						 : ", rows of orders and lineitem shuffled";
}

static void print_report(const struct bench *b)
{
	double ours = sum_of(b, OURS, 0, CPU);

	printf("TPC-H at scale factor %g%s, %s %llu MiB, %llu threads, %s\n", b->data.scale,
	       order_text(b->data.order), b->soft ? "budget" : "hard limit",
	       (unsigned long long)(b->budget >> 20), (unsigned long long)b->data.threads,
	       b->data.rival ? b->rival.version : "no rival");
	print_storage(b);
	printf("answers: %s%s\n", reference(b) ? "compared with " : "not compared, no reference",
	       reference(b) ? reference(b) : " at this scale factor");
	printf("%-3s %-8s %8s %8s %8s %9s %9s %9s\n", "Q", "engine", "CPU s", "warm", "wall s",
	       "read MiB", "spilled", "RSS MiB");
	for (unsigned i = 1; i <= FTH_TPCH_QUERIES; i++)
		for (unsigned side = 0; side < (b->data.rival ? SIDES : 1) && b->queries[i].chosen;
		     side++)
			print_side(b, i, side);
	print_sum(b, OURS);
	if (!b->data.rival)
		return;
	print_sum(b, PEER);
	printf("CPU: %.2f of %s's first run, %.2f of its warm one; wall: %.2f\n",
	       ours / sum_of(b, PEER, 0, CPU), b->rival.name, ours / sum_of(b, PEER, 1, CPU),
	       sum_of(b, OURS, 0, WALL) / sum_of(b, PEER, 0, WALL));
}

static void json_side(struct fth_json *j, const struct query *q, unsigned side)
{
	static const char *const keys[TPCH_RUNS] = {"first", "warm"};

	fth_json_object(j, side == OURS ? "ours" : "peer");
	if (q->failed[side])
		fth_json_string(j, "error", q->error[side]);
	if (side == OURS)
		fth_json_u64(j, "charged_bytes", q->charged);
	for (unsigned run = 0; run < TPCH_RUNS && !q->failed[side]; run++) {
		fth_json_object(j, keys[run]);
		for (unsigned m = 0; m < METRICS; m++)
			fth_json_double(j, metric_names[m], value_of(q, side, run, m));
		fth_json_end(j);
	}
	fth_json_end(j);
}

static void json_storage(struct fth_json *j, const struct tpch_data *data)
{
	fth_json_u64(j, "table_bytes", data->ours.bytes);
	fth_json_double(j, "load_cpu_s", data->ours.load_cpu);
	if (data->rival) {
		fth_json_u64(j, "peer_table_bytes", data->peer.bytes);
		fth_json_double(j, "peer_load_cpu_s", data->peer.load_cpu);
	}
}

static void json_report(const struct bench *b)
{
	double ours = sum_of(b, OURS, 0, CPU), peer = sum_of(b, PEER, 0, CPU);
	struct fth_json j;

	/* Without a peer there is nothing to compare with: the seconds alone. */
	fth_bench_json(&j, "tpch", ours, peer, b->data.rival ? peer / ours : ours);
	fth_json_string(&j, "peer_version", b->data.rival ? b->rival.version : NULL);
	fth_json_string(&j, "reference", reference(b));
	fth_json_double(&j, "sf", b->data.scale);
	fth_json_u64(&j, "budget", b->budget);
	fth_json_bool(&j, "hard", !b->soft);
	fth_json_bool(&j, "shuffled", b->data.order != TPCH_GENERATED);
	fth_json_string(&j, "shuffle", b->shuffle);
	fth_json_u64(&j, "threads", b->data.threads);
	fth_json_u64(&j, "peer_memory", b->rival_memory);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_u64(&j, "failed", count_failed(b, OURS));
	fth_json_u64(&j, "peer_failed", count_failed(b, PEER));
	fth_json_double(&j, "peer_warm", sum_of(b, PEER, 1, CPU));
	json_storage(&j, &b->data);
	fth_json_array(&j, "queries");
	for (unsigned i = 1; i <= FTH_TPCH_QUERIES; i++) {
		if (!b->queries[i].chosen)
			continue;
		fth_json_object(&j, NULL);
		fth_json_u64(&j, "query", i);
		for (unsigned side = 0; side < (b->data.rival ? SIDES : 1); side++)
			json_side(&j, &b->queries[i], side);
		fth_json_end(&j);
	}
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* ---- all of it ---- */

static int find_rival(struct bench *b)
{
	int rc;

	if (strcmp(b->rival_name, "none") == 0)
		return 0;
	b->rival.threads = b->data.threads;
	b->rival.memory = b->rival_memory;
	rc = tpch_rival_find(&b->rival, b->rival_name);
	if (rc == -ENOENT || rc == -ENOTSUP) {
		fth_cli_error("%s: measuring fathom alone", fth_error_text(rc));
		return 0;
	}
	b->data.rival = rc == 0 ? &b->rival : NULL;
	return rc;
}

static void remove_work(const struct bench *b)
{
	static const char *const names[] = {"query.sql", "ours.txt", "peer.txt"};
	char path[PATH_MAX + 32];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", b->data.root, names[i]);
		unlink(path);
	}
}

static int execute(struct bench *b)
{
	int rc = find_rival(b);

	if (rc == 0)
		rc = tpch_data_open(&b->data);
	if (rc == 0)
		rc = run_rounds(b);
	if (rc == 0 && !fth_cli_json())
		print_report(b);
	if (rc == 0)
		json_report(b);
	remove_work(b);
	tpch_data_close(&b->data);
	if (rc == 0 && count_failed(b, OURS))
		rc = fth_fail(EBADMSG, "%u queries failed", count_failed(b, OURS));
	return rc;
}

static int run(int argc, char **argv)
{
	struct bench *b = calloc(1, sizeof(*b));
	int status;

	if (!b)
		return FTH_EXIT_FAILED;
	b->data.scale = 1;
	b->budget = FTH_QUERY_BUDGET;
	b->rounds = 3;
	b->rival_name = "duckdb";
	status = parse(b, argc, argv);
	if (status == FTH_CLI_GO_ON)
		status = fth_app_exit("bench tpch", execute(b));
	free(b);
	return status;
}

const struct fth_command fth_bench_tpch = {
	.name = "tpch",
	.summary = "the queries of TPC-H in little memory, against DuckDB or PostgreSQL",
	.run = run,
};
