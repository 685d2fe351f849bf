/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench taxi: the queries Q0 to Q5 over taxi trips through the cache, against reading every
 * column they need from one end to the other. Same table, threads and memory.
 */
#include "app_options.h"
#include "cli.h"
#include "json.h"
#include "common/report.h"
#include "common/rounds.h"
#include "common/scratch.h"
#include "workload_commands.h"

#include "workloads/taxi/taxi.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>

#define BOUNDS 2u
#define CELLS  (BOUNDS * FTH_TAXI_QUERIES)

static const double bounds[BOUNDS] = {FTH_TAXI_LONG, FTH_TAXI_VERY_LONG};

/* One line of the table. */
struct cell {
	struct fth_taxi_query query;
	struct fth_rounds rows; /* a second */
	struct fth_taxi_answer ours_last, peer_last;
};

struct bench {
	struct fth_app_options app;
	const char *folder, *options;
	uint64_t rows, rounds;
	bool smallest;
	struct fth_scratch scratch;
	struct fth_taxi_table table;
	struct fth_taxi_options how;
	struct cell cells[CELLS];
};

static const struct fth_command *const commands[] = {
	&taxi_check_command, &taxi_generate_command, &taxi_load_command, &taxi_query_command, NULL,
};

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		FTH_SCRATCH_OPTIONS(&b->folder, &b->options),
		{"rows", FTH_CLI_SIZE, &b->rows, 1, (uint64_t)1 << 36, "trips"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"request-cost", FTH_CLI_SIZE, &b->how.request_cost, 1, 1 << 30,
		 "bytes that are read in the time of a request; default 4096, 1 reads the least"},
		FTH_APP_OPTIONS(&b->app),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench taxi [options]",
		.text = "Queries over taxi trips: a scan of the distances, and up to five more\n"
			"columns for the 0.47 % or 0.03 % of trips that are long enough; through\n"
			"the cache, against reading whole columns with large reads. Runs\n"
			"alternate; medians are compared. Both must give the same answer.",
		.options = options,
		.commands = commands,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (b->smallest) {
		b->rows = 200000;
		b->app.cache = 4 << 20;
		b->rounds = 1;
	}
	return status;
}

static double rate(const struct bench *b, const struct fth_taxi_answer *answer)
{
	return (double)b->rows * 1e9 / (double)(answer->ns ? answer->ns : 1);
}

/* Answers of two programs may agree and be wrong: the generator knows how many trips there are. */
static int check_answers(const struct bench *b, const struct cell *cell)
{
	uint64_t trips = cell->query.miles == FTH_TAXI_LONG ? fth_taxi_long_trips(b->rows)
							    : fth_taxi_very_long_trips(b->rows);

	if (cell->ours_last.trips != trips)
		return fth_fail(EILSEQ, "Q%u found %llu trips, expected %llu", cell->query.query,
				(unsigned long long)cell->ours_last.trips,
				(unsigned long long)trips);
	if (!fth_taxi_same_answer(&cell->ours_last, &cell->peer_last))
		return fth_fail(EILSEQ, "Q%u: fathom and its peer give different answers",
				cell->query.query);
	return 0;
}

static int measure_cell(struct bench *b, struct cell *cell)
{
	int rc = 0;

	for (unsigned i = 0; i < b->rounds && rc == 0; i++) {
		rc = fth_taxi_run(b->scratch.dev, &b->table, &cell->query, &b->how,
				  &cell->ours_last);
		if (rc == 0)
			rc = fth_taxi_run_whole(b->scratch.dev, &b->table, &cell->query, &b->how,
						&cell->peer_last);
		if (rc == 0)
			rc = check_answers(b, cell);
		if (rc < 0)
			return rc;
		fth_rounds_add(&cell->rows, rate(b, &cell->ours_last), rate(b, &cell->peer_last));
	}
	return rc;
}

static void print_cell(const struct cell *cell)
{
	char ours[FTH_CLI_BYTES_MAX], peer[FTH_CLI_BYTES_MAX];

	printf("Q%-5u %6g %12.1f %12.1f %8.3f %12s %12s %8.3f %8.3f\n", cell->query.query,
	       cell->query.miles, fth_rounds_ours(&cell->rows) / 1e6,
	       fth_rounds_peer(&cell->rows) / 1e6, fth_rounds_ratio(&cell->rows),
	       fth_cli_bytes(ours, cell->ours_last.bytes_read),
	       fth_cli_bytes(peer, cell->peer_last.bytes_read),
	       taxi_amplification(&cell->ours_last), taxi_amplification(&cell->peer_last));
	fflush(stdout);
}

static int measure(struct bench *b)
{
	int rc = 0;

	if (!fth_cli_json())
		printf("%-6s %6s %12s %12s %8s %12s %12s %8s %8s\n", "query", "miles", "ours, M/s",
		       "whole, M/s", "ratio", "ours read", "whole read", "amplif.", "amplif.");
	for (unsigned i = 0; i < CELLS && rc == 0; i++) {
		struct cell *cell = &b->cells[i];

		cell->query =
			(struct fth_taxi_query){i % FTH_TAXI_QUERIES, bounds[i / FTH_TAXI_QUERIES]};
		fth_cli_progress("measuring", i, CELLS);
		rc = measure_cell(b, cell);
		fth_cli_progress_end();
		if (rc == 0 && !fth_cli_json())
			print_cell(cell);
	}
	return rc;
}

static void report_cell(struct fth_json *j, const struct cell *cell)
{
	fth_json_object(j, NULL);
	fth_json_u64(j, "query", cell->query.query);
	fth_json_double(j, "miles", cell->query.miles);
	fth_json_u64(j, "trips", cell->ours_last.trips);
	fth_json_double(j, "dollars_per_mile", cell->ours_last.dollars_per_mile);
	fth_rounds_members(j, &cell->rows);
	fth_json_u64(j, "bytes_useful", cell->ours_last.bytes_useful);
	fth_json_u64(j, "bytes_read", cell->ours_last.bytes_read);
	fth_json_u64(j, "peer_bytes_read", cell->peer_last.bytes_read);
	fth_json_double(j, "amplification", taxi_amplification(&cell->ours_last));
	fth_json_double(j, "peer_amplification", taxi_amplification(&cell->peer_last));
	fth_json_end(j);
}

static void report(const struct bench *b)
{
	const struct cell *last = &b->cells[CELLS - 1];
	struct fth_json j;

	fth_bench_json(&j, "taxi", fth_rounds_ours(&last->rows), fth_rounds_peer(&last->rows),
		       fth_rounds_ratio(&last->rows));
	fth_json_double(&j, "amplification", taxi_amplification(&last->ours_last));
	fth_json_double(&j, "peer_amplification", taxi_amplification(&last->peer_last));
	fth_json_string(&j, "unit", "trips/s of Q5 at 0.03 %");
	fth_json_string(&j, "device", b->scratch.uri);
	fth_json_u64(&j, "rows", b->rows);
	fth_json_u64(&j, "memory", b->app.cache);
	fth_json_u64(&j, "line", b->app.line);
	fth_json_u64(&j, "request_cost", b->how.request_cost);
	fth_json_u64(&j, "threads", b->app.threads);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_array(&j, "results");
	for (unsigned i = 0; i < CELLS; i++)
		report_cell(&j, &b->cells[i]);
	fth_json_end(&j);
	fth_json_finish(&j);
}

static int execute(struct bench *b)
{
	char memory[FTH_CLI_BYTES_MAX];
	int rc = fth_app_policy(&b->app, &b->how.policy);

	if (rc == 0)
		rc = fth_scratch_open(&b->scratch, b->folder, "taxi", fth_taxi_size(b->rows),
				      b->options);
	if (rc < 0)
		return rc;
	if (!b->app.line)
		b->app.line = fth_dev_info(b->scratch.dev)->block > FTH_CACHE_LINE_MIN
				      ? fth_dev_info(b->scratch.dev)->block
				      : FTH_CACHE_LINE_MIN;
	b->how.threads = (unsigned)b->app.threads;
	b->how.memory = b->app.cache;
	b->how.line = (uint32_t)b->app.line;
	b->how.stopped = fth_cli_stopped;
	if (!b->how.request_cost)
		b->how.request_cost = 4096;
	if (!fth_cli_json())
		printf("%s: %llu trips, memory %s, %llu threads\n", b->scratch.path,
		       (unsigned long long)b->rows, fth_cli_bytes(memory, b->app.cache),
		       (unsigned long long)b->app.threads);
	rc = taxi_write_generated(b->scratch.dev, b->rows, b->app.seed, &b->table);
	if (rc == 0)
		rc = measure(b);
	if (rc == 0)
		report(b);
	return rc;
}

static int run(int argc, char **argv)
{
	static struct bench b;
	int status;

	b = (struct bench){.app = FTH_APP_DEFAULTS, .how = {0}, .rows = 20000000, .rounds = 3};
	b.app.threads = 2;
	status = parse(&b, argc, argv);
	if (status != FTH_CLI_GO_ON)
		return status;
	status = fth_app_exit("bench taxi", execute(&b));
	fth_scratch_remove(&b.scratch);
	return status;
}

const struct fth_command fth_bench_taxi = {
	.name = "taxi",
	.summary = "queries that select few trips, against reading whole columns",
	.run = run,
};
