/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench taxi query and check: queries over a table of taxi trips. taxi_make.c makes such
 * tables.
 */
#include "workload_commands.h"

#include "app_options.h"

#include "workloads/taxi/taxi.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>

static int open_table(const char *uri, struct fth_dev **dev, struct fth_taxi_table *table)
{
	int rc = fth_dev_open_flags(uri, FTH_DEV_READONLY, dev);

	return rc < 0 ? rc : fth_taxi_open(*dev, table);
}

/* ---- query ---- */

struct asked {
	struct fth_app_options app;
	uint64_t scan_line;
	double miles;
	uint64_t query; /* FTH_TAXI_QUERIES: all of them */
	bool whole, verify;
	struct fth_dev *dev;
	struct fth_taxi_table table;
	struct fth_taxi_options how;
};

double taxi_amplification(const struct fth_taxi_answer *answer)
{
	return answer->bytes_useful ? (double)answer->bytes_read / (double)answer->bytes_useful : 0;
}

static double hit_rate(const struct fth_taxi_answer *answer)
{
	uint64_t all = answer->hits + answer->misses;

	return all ? (double)answer->hits / (double)all : 0;
}

static void print_head(const struct asked *asked)
{
	char bytes[FTH_CLI_BYTES_MAX];

	printf("%llu trips; those of at least %g miles, %s, %llu threads\n",
	       (unsigned long long)asked->table.rows, asked->miles,
	       asked->whole ? "by whole columns" : "through a cache",
	       (unsigned long long)asked->app.threads);
	printf("memory %s\n", fth_cli_bytes(bytes, asked->app.cache));
	printf("%-5s %12s %12s %9s %12s %14s %9s\n", "query", "trips", "$ per mile", "seconds",
	       "read", "amplification", "hits");
}

static void print_answer(unsigned query, const struct fth_taxi_answer *answer)
{
	char bytes[FTH_CLI_BYTES_MAX];

	printf("Q%-4u %12llu %12.4f %9.3f %12s %14.3f %8.2f%%\n", query,
	       (unsigned long long)answer->trips, answer->dollars_per_mile,
	       (double)answer->ns / 1e9, fth_cli_bytes(bytes, answer->bytes_read),
	       taxi_amplification(answer), 100 * hit_rate(answer));
	fflush(stdout);
}

static void json_answer(struct fth_json *j, unsigned query, const struct fth_taxi_answer *answer)
{
	fth_json_object(j, NULL);
	fth_json_u64(j, "query", query);
	fth_json_u64(j, "trips", answer->trips);
	fth_json_double(j, "dollars_per_mile", answer->dollars_per_mile);
	fth_json_object(j, "sums");
	for (unsigned c = 0; c <= query; c++)
		fth_json_double(j, fth_taxi_column_name(c), answer->sums[c]);
	fth_json_end(j);
	fth_json_double(j, "seconds", (double)answer->ns / 1e9);
	fth_json_u64(j, "bytes_read", answer->bytes_read);
	fth_json_u64(j, "bytes_useful", answer->bytes_useful);
	fth_json_double(j, "amplification", taxi_amplification(answer));
	fth_json_u64(j, "requests", answer->requests);
	fth_json_double(j, "hit_rate", hit_rate(answer));
	fth_json_end(j);
}

static int verify(const struct asked *asked, const struct fth_taxi_query *query,
		  const struct fth_taxi_answer *answer)
{
	struct fth_taxi_answer other;
	int rc = fth_taxi_run_whole(asked->dev, &asked->table, query, &asked->how, &other);

	if (rc == 0 && !fth_taxi_same_answer(answer, &other))
		rc = fth_fail(EILSEQ, "Q%u: reading whole columns gives a different answer",
			      query->query);
	return rc;
}

static int answer_one(const struct asked *asked, unsigned number, struct fth_taxi_answer *answer)
{
	struct fth_taxi_query query = {number, asked->miles};
	int rc;

	rc = asked->whole
		     ? fth_taxi_run_whole(asked->dev, &asked->table, &query, &asked->how, answer)
		     : fth_taxi_run(asked->dev, &asked->table, &query, &asked->how, answer);
	if (rc == 0 && asked->verify)
		rc = verify(asked, &query, answer);
	return rc;
}

static int answer_all(struct asked *asked)
{
	bool all = asked->query == FTH_TAXI_QUERIES;
	unsigned from = all ? 0 : (unsigned)asked->query, to = all ? 5 : (unsigned)asked->query;
	struct fth_json j;
	int rc = 0;

	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		fth_json_u64(&j, "rows", asked->table.rows);
		fth_json_double(&j, "miles", asked->miles);
		fth_json_u64(&j, "threads", asked->app.threads);
		fth_json_u64(&j, "cache", asked->app.cache);
		fth_json_array(&j, "queries");
	} else {
		print_head(asked);
	}
	for (unsigned number = from; number <= to && rc == 0; number++) {
		struct fth_taxi_answer answer;

		fth_cli_progress("asking", number - from, to - from + 1);
		rc = answer_one(asked, number, &answer);
		fth_cli_progress_end();
		if (rc == 0 && fth_cli_json())
			json_answer(&j, number, &answer);
		else if (rc == 0)
			print_answer(number, &answer);
	}
	if (fth_cli_json()) {
		fth_json_end(&j);
		fth_json_bool(&j, "ok", rc == 0);
		fth_json_finish(&j);
	}
	return rc;
}

static int parse_query(struct asked *asked, int argc, char **argv, char ***args)
{
	const struct fth_cli_option options[] = {
		{"query", FTH_CLI_U64, &asked->query, 0, FTH_TAXI_QUERIES, "0 to 5; 6: all"},
		{"miles", FTH_CLI_DOUBLE, &asked->miles, 0, 0,
		 "shortest trip that is selected, in miles"},
		{"whole", FTH_CLI_FLAG, &asked->whole, 0, 0, "read whole columns, without a cache"},
		{"verify", FTH_CLI_FLAG, &asked->verify, 0, 0, "compare with whole columns"},
		{"scan-line", FTH_CLI_SIZE, &asked->scan_line, FTH_CACHE_LINE_MIN,
		 FTH_CACHE_LINE_MAX, "bytes of a line of the scan; default 64K"},
		{"request-cost", FTH_CLI_SIZE, &asked->how.request_cost, 1, 1 << 30,
		 "gap in bytes up to which reads are merged; default 4096, 1 reads the fewest "
		 "bytes"},
		FTH_APP_OPTIONS(&asked->app),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench taxi query [options] URI",
		.text = "Ask what taxi trips of at least so many miles cost, and what the driver\n"
			"makes of a mile. Q0 only scans the distances; Q1 adds the total, Q2\n"
			"surcharges, Q3 hail fee, Q4 tolls, Q5 taxes, each read only for the "
			"trips\n"
			"that are long enough.\n" TAXI_NOTE,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};

	return fth_cli_parse(&usage, argc, argv, args);
}

static int run_query(int argc, char **argv)
{
	struct asked asked = {
		.app = FTH_APP_DEFAULTS,
		.how = {0},
		.miles = FTH_TAXI_VERY_LONG,
		.query = FTH_TAXI_QUERIES,
	};
	char **args;
	int status = parse_query(&asked, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_app_policy(&asked.app, &asked.how.policy);
	asked.how.threads = (unsigned)asked.app.threads;
	asked.how.memory = asked.app.cache;
	asked.how.line = (uint32_t)asked.app.line;
	asked.how.scan_line = (uint32_t)asked.scan_line;
	asked.how.stopped = fth_cli_stopped;
	if (rc == 0)
		rc = open_table(args[0], &asked.dev, &asked.table);
	if (rc == 0)
		rc = answer_all(&asked);
	status = fth_app_exit(args[0], rc);
	fth_dev_close(asked.dev);
	return status;
}

const struct fth_command taxi_query_command = {
	.name = "query",
	.summary = "run the queries over long trips",
	.run = run_query,
};

/* ---- check ---- */

static void print_check(const char *uri, const struct fth_taxi_table *table, int rc)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		if (rc == 0)
			printf("%s: %llu trips, all checksums match\n", uri,
			       (unsigned long long)table->rows);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", uri);
	fth_json_u64(&j, "rows", table->rows);
	fth_json_bool(&j, "ok", rc == 0);
	fth_json_string(&j, "error", rc < 0 ? fth_error_text(rc) : NULL);
	fth_json_finish(&j);
}

static int run_check(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "bench taxi check URI",
		.text = "Read a whole table and compare it with its checksums.",
		.min_args = 1,
		.max_args = 1,
	};
	struct fth_taxi_table table = {0};
	struct fth_dev *dev = NULL;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = open_table(args[0], &dev, &table);
	if (rc == 0)
		rc = fth_taxi_check(dev, &table, fth_cli_stopped);
	print_check(args[0], &table, rc);
	status = fth_app_exit(args[0], rc);
	fth_dev_close(dev);
	return status;
}

const struct fth_command taxi_check_command = {
	.name = "check",
	.summary = "verify the checksums of a table",
	.run = run_check,
};
