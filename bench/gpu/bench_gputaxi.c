/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gputaxi: the queries Q0 to Q5 over taxi trips on a GPU that brings in what it needs,
 * against moving every column they need to the GPU. Same table, same kernel.
 */
#include "app_options.h"
#include "gpustream_cli.h"
#include "report.h"

#include <stdio.h>

/* How many times faster it could be if both moved their bytes at the same rate. */
static double bound_by_bytes(const struct gputaxi_cell *cell)
{
	return (double)cell->bytes_whole / (double)cell->bytes_read;
}

/*
 * The same with the rates that the bus gave: loads by the GPU's threads are slower than its copy
 * engine. Of the same bounds, Q0 by zero copy says the one, Q0 by whole columns the other.
 */
static double bound_by_link(const struct gputaxi_result *result, unsigned i)
{
	const struct gputaxi_cell *scan = &result->cells[i - i % GPUTAXI_QUERIES];

	return bound_by_bytes(&result->cells[i]) * scan->whole / scan->zero_copy;
}

static void print_text(const struct gputaxi_result *result)
{
	printf("%s, %d registers\n", result->gpu, result->registers);
	printf("%-5s %6s %9s %9s %9s %9s %7s %7s %7s %7s %7s\n", "query", "miles", "ours, ms",
	       "whole", "staged", "zero copy", "ratio", "bytes", "link", "ampl.", "peer's");
	for (unsigned i = 0; i < GPUTAXI_CELLS; i++) {
		const struct gputaxi_cell *c = &result->cells[i];

		printf("Q%-4u %6g %9.2f %9.2f %9.2f %9.2f %7.3f %7.3f %7.3f %7.3f %7.3f\n",
		       c->query, c->miles, c->ours * 1e3, c->whole * 1e3, c->staged * 1e3,
		       c->zero_copy * 1e3, c->whole / c->ours, bound_by_bytes(c),
		       bound_by_link(result, i), (double)c->bytes_read / (double)c->bytes_useful,
		       (double)c->bytes_whole / (double)c->bytes_useful);
	}
}

static void json_cell(struct fth_json *j, const struct gputaxi_result *result, unsigned i)
{
	const struct gputaxi_cell *c = &result->cells[i];

	fth_json_object(j, NULL);
	fth_json_u64(j, "query", c->query);
	fth_json_double(j, "miles", c->miles);
	fth_json_u64(j, "trips", c->trips);
	fth_json_double(j, "dollars_per_mile", c->dollars_per_mile);
	fth_json_double(j, "ours_s", c->ours);
	fth_json_double(j, "whole_s", c->whole);
	if (c->staged > 0)
		fth_json_double(j, "staged_s", c->staged);
	fth_json_double(j, "zero_copy_s", c->zero_copy);
	fth_json_double(j, "ratio", c->whole / c->ours);
	fth_json_double(j, "bound_by_bytes", bound_by_bytes(c));
	fth_json_double(j, "bound_by_link", bound_by_link(result, i));
	fth_json_u64(j, "bytes_useful", c->bytes_useful);
	fth_json_u64(j, "bytes_read", c->bytes_read);
	fth_json_u64(j, "requests", c->requests);
	fth_json_u64(j, "peer_bytes_read", c->bytes_whole);
	fth_json_double(j, "amplification", (double)c->bytes_read / (double)c->bytes_useful);
	fth_json_double(j, "peer_amplification", (double)c->bytes_whole / (double)c->bytes_useful);
	fth_json_end(j);
}

static void print_json(const struct gputaxi_setup *s, const struct gputaxi_result *result)
{
	const struct gputaxi_cell *last = &result->cells[GPUTAXI_CELLS - 1];
	struct fth_json j;

	fth_bench_json(&j, "gputaxi", (double)s->rows / last->ours, (double)s->rows / last->whole,
		       last->whole / last->ours);
	fth_json_double(&j, "ratio_staged", last->staged / last->ours);
	fth_json_double(&j, "bound_by_bytes", bound_by_bytes(last));
	fth_json_double(&j, "bound_by_link", bound_by_link(result, GPUTAXI_CELLS - 1));
	fth_json_string(&j, "unit", "trips/s of Q5 at 0.03 %");
	fth_json_string(&j, "peer_name", "whole columns moved by the copy engine, tiled");
	fth_json_u64(&j, "rows", s->rows);
	fth_json_u64(&j, "scan_cache", s->scan_cache);
	fth_json_u64(&j, "scan_line", s->scan_line);
	fth_json_u64(&j, "tile", s->tile);
	gpustream_json(&j, &s->base, result->gpu);
	fth_json_u64(&j, "registers", (uint64_t)result->registers);
	fth_json_array(&j, "results");
	for (unsigned i = 0; i < GPUTAXI_CELLS; i++)
		json_cell(&j, result, i);
	fth_json_end(&j);
	fth_json_finish(&j);
}

static int parse(struct gputaxi_setup *s, int argc, char **argv)
{
	/* Few queue pairs: the controller has some processors for itself, and fences elsewhere are
	 * not held up by what it has under way. */
	struct gpustream_numbers n = {512u << 20, 512, 32, 0, 32, 3, 16, false};
	uint64_t scan_line = s->scan_line;
	const struct fth_cli_option table[] = {
		{"rows", FTH_CLI_SIZE, &s->rows, 1000, 1ull << 31, "trips"},
		{"scan-cache", FTH_CLI_SIZE, &s->scan_cache, 1u << 20, 64ull << 30,
		 "as --cache, for the column that is scanned"},
		{"scan-line", FTH_CLI_SIZE, &scan_line, 512, 8192, "as --line, likewise"},
		{"tile", FTH_CLI_SIZE, &s->tile, 4096, 1u << 26,
		 "rows that the peer moves at once"},
		{"seed", FTH_CLI_U64, &s->seed, 0, UINT64_MAX / 2, "of the trips"},
		GPUSTREAM_OPTIONS(&n),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gputaxi [OPTION]...",
		.text = "Queries over taxi trips on a GPU: a scan of the distances, and up to "
			"five\n"
			"more columns for the 0.47 % or 0.03 % of trips that are long enough, "
			"with\n"
			"nothing in the cache; against moving whole columns to the GPU. All "
			"answers\n"
			"are checked.",
		.options = table,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	s->base = gpustream_settle(&n);
	s->scan_line = (uint32_t)scan_line;
	if (n.smallest) {
		s->rows = 200000;
		s->tile = 32768;
		s->scan_cache = 2u << 20;
	}
	return rc;
}

static int run(int argc, char **argv)
{
	struct gputaxi_setup s = {.rows = 256000000,
				  .scan_cache = 1u << 30,
				  .scan_line = 4096,
				  .tile = 4u << 20,
				  .seed = 1};
	static struct gputaxi_result result;
	int rc = parse(&s, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = gputaxi_run(&s, &result);
	if (rc == 0) {
		if (!fth_cli_json())
			print_text(&result);
		print_json(&s, &result);
	}
	return fth_app_exit_gpu("bench gputaxi", rc);
}

const struct fth_command fth_bench_gputaxi = {
	.name = "gputaxi",
	.summary = "queries on a GPU that select few trips, against moving whole columns",
	.run = run,
};
