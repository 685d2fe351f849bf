/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom bench taxi generate and load: tables of taxi trips, made up or out of CSV files. */
#include "workload_commands.h"

#include "app_options.h"
#include "output.h"

#include "workloads/taxi/taxi.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK	   65536u
#define SHOW_EVERY 16384u /* trips between two looks at the clock and at signals */

/* Where a table goes to. */
struct target {
	struct fth_output out;
	uint64_t expected; /* trips, at most */
	uint64_t done;
	struct fth_taxi_writer *writer;
	struct fth_taxi_table table;
};

static int target_open(struct target *target)
{
	int rc = fth_output_open(&target->out, fth_taxi_size(target->expected));

	if (rc == 0)
		rc = fth_taxi_writer_open(target->out.dev, target->expected, &target->writer);
	return rc;
}

static int target_add(void *context, const struct fth_taxi_trip *trip)
{
	struct target *target = context;

	if (++target->done % SHOW_EVERY == 0) {
		fth_cli_progress("writing trips", target->done, target->expected);
		if (fth_cli_stopped())
			return -EINTR;
	}
	return fth_taxi_writer_add(target->writer, trip);
}

static int target_finish(struct target *target, int rc)
{
	if (rc == 0)
		rc = fth_taxi_writer_finish(target->writer, &target->table);
	fth_cli_progress_end();
	fth_taxi_writer_free(target->writer);
	return rc;
}

/* ---- generate ---- */

int taxi_write_generated(struct fth_dev *dev, uint64_t rows, uint64_t seed,
			 struct fth_taxi_table *table)
{
	struct target target = {.out = {.dev = dev}, .expected = rows};
	struct fth_taxi_generator generator;
	struct fth_taxi_trip trip;
	int rc = fth_taxi_writer_open(dev, rows, &target.writer);

	fth_taxi_generator_init(&generator, rows, seed);
	for (uint64_t i = 0; i < rows && rc == 0; i++) {
		fth_taxi_generate(&generator, &trip);
		rc = target_add(&target, &trip);
	}
	rc = target_finish(&target, rc);
	*table = target.table;
	return rc;
}

static int generate(struct target *target, uint64_t seed)
{
	uint64_t bytes = fth_taxi_size(target->expected);
	int rc = fth_output_open(&target->out, bytes);

	if (rc == 0)
		rc = taxi_write_generated(target->out.dev, target->expected, seed, &target->table);
	return fth_output_close(&target->out, bytes, rc);
}

static void print_generated(const struct target *target, uint64_t seed)
{
	uint64_t rows = target->table.rows;
	struct fth_json j;

	if (!fth_cli_json()) {
		printf("%s: %llu trips, %llu of at least 20 miles, %llu of at least 30\n",
		       target->out.uri, (unsigned long long)rows,
		       (unsigned long long)fth_taxi_long_trips(rows),
		       (unsigned long long)fth_taxi_very_long_trips(rows));
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", target->out.uri);
	fth_json_u64(&j, "rows", rows);
	fth_json_u64(&j, "seed", seed);
	fth_json_u64(&j, "long_trips", fth_taxi_long_trips(rows));
	fth_json_u64(&j, "very_long_trips", fth_taxi_very_long_trips(rows));
	fth_json_finish(&j);
}

static int run_generate(int argc, char **argv)
{
	struct target target = {.expected = 1000000};
	uint64_t seed = 1;
	const struct fth_cli_option options[] = {
		{"rows", FTH_CLI_SIZE, &target.expected, 0, (uint64_t)1 << 40, "trips"},
		{"seed", FTH_CLI_U64, &seed, 0, UINT64_MAX, "of all random choices"},
		FTH_CLI_FORCE(&target.out.force, "replace a file, overwrite a device"),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench taxi generate [options] URI",
		.text = "Write a table of made-up taxi trips: of all trips 0.47 % are at least 20\n"
			"miles long and 0.03 % at least 30, as among the published "
			"ones.\n" TAXI_NOTE,
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	target.out.uri = args[0];
	rc = generate(&target, seed);
	if (rc == 0)
		print_generated(&target, seed);
	return fth_app_exit(target.out.uri, rc);
}

const struct fth_command taxi_generate_command = {
	.name = "generate",
	.summary = "make up a table of trips",
	.run = run_generate,
};

/* ---- load ---- */

/* Call fn with all of a file, piece by piece. */
static int read_file(const char *path, int (*fn)(void *context, const char *text, size_t length),
		     void *context)
{
	FILE *file = fopen(path, "re");
	char *text = malloc(CHUNK);
	size_t n = 1;
	int rc = 0;

	if (!file || !text)
		rc = file ? -ENOMEM : fth_fail(errno, "%s: %s", path, strerror(errno));
	while (rc == 0 && n) {
		n = fread(text, 1, CHUNK, file);
		if (n)
			rc = fn(context, text, n);
		else if (ferror(file))
			rc = fth_fail(EIO, "%s: %s", path, strerror(errno));
	}
	if (file)
		fclose(file);
	free(text);
	return rc;
}

static int count_lines(void *context, const char *text, size_t length)
{
	uint64_t *lines = context;

	for (const char *end = text + length; (text = memchr(text, '\n', (size_t)(end - text)));
	     text++)
		++*lines;
	return fth_cli_stopped() ? -EINTR : 0;
}

static int feed(void *context, const char *text, size_t length)
{
	return fth_taxi_csv_feed(context, text, length);
}

static void add_counts(struct fth_taxi_csv_counts *to, const struct fth_taxi_csv_counts *more)
{
	to->lines += more->lines;
	to->trips += more->trips;
	to->empty += more->empty;
	to->short_lines += more->short_lines;
	to->long_lines += more->long_lines;
	to->skipped += more->skipped;
	to->absent |= more->absent;
}

static int load_file(struct target *target, const char *path, bool lenient,
		     struct fth_taxi_csv_counts *counts)
{
	struct fth_taxi_csv_options options = {.lenient = lenient};
	struct fth_taxi_csv_counts own;
	struct fth_taxi_csv *csv;
	int rc = fth_taxi_csv_open(&options, target_add, target, &csv);

	if (rc < 0)
		return rc;
	rc = read_file(path, feed, csv);
	if (rc == 0)
		rc = fth_taxi_csv_finish(csv);
	fth_taxi_csv_counts(csv, &own);
	add_counts(counts, &own);
	fth_taxi_csv_close(csv);
	return rc < 0 ? fth_fail_in(rc, path) : 0;
}

static int load(struct target *target, char **paths, bool lenient,
		struct fth_taxi_csv_counts *counts)
{
	int rc = 0;

	/* There can not be more trips than line ends, and one without at the end of each file. */
	for (char **path = paths; *path && rc == 0; path++) {
		target->expected++;
		rc = read_file(*path, count_lines, &target->expected);
	}
	if (rc == 0)
		rc = target_open(target);
	for (char **path = paths; *path && rc == 0; path++)
		rc = load_file(target, *path, lenient, counts);
	rc = target_finish(target, rc);
	/* Its room is that of the most trips; a reader wants all of it. */
	return fth_output_close(&target->out, fth_taxi_size(target->expected), rc);
}

static void print_loaded_json(const struct target *target, const struct fth_taxi_csv_counts *counts)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", target->out.uri);
	fth_json_u64(&j, "rows", target->table.rows);
	fth_json_u64(&j, "lines", counts->lines);
	fth_json_u64(&j, "empty_values", counts->empty);
	fth_json_u64(&j, "short_lines", counts->short_lines);
	fth_json_u64(&j, "long_lines", counts->long_lines);
	fth_json_u64(&j, "skipped_lines", counts->skipped);
	fth_json_array(&j, "absent_columns");
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		if (counts->absent & 1u << c)
			fth_json_string(&j, NULL, fth_taxi_column_name(c));
	fth_json_end(&j);
	fth_json_finish(&j);
}

static void print_loaded(const struct target *target, const struct fth_taxi_csv_counts *counts)
{
	if (fth_cli_json()) {
		print_loaded_json(target, counts);
		return;
	}
	printf("%s: %llu trips from %llu lines\n", target->out.uri,
	       (unsigned long long)target->table.rows, (unsigned long long)counts->lines);
	printf("%llu values were empty, %llu lines short, %llu long, %llu skipped\n",
	       (unsigned long long)counts->empty, (unsigned long long)counts->short_lines,
	       (unsigned long long)counts->long_lines, (unsigned long long)counts->skipped);
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		if (counts->absent & 1u << c)
			printf("a file has no column %s: its values are 0\n",
			       fth_taxi_column_name(c));
}

static int run_load(int argc, char **argv)
{
	struct fth_taxi_csv_counts counts = {0};
	struct target target = {0};
	bool lenient = false;
	const struct fth_cli_option options[] = {
		FTH_CLI_FORCE(&target.out.force, "replace a file, overwrite a device"),
		{"lenient", FTH_CLI_FLAG, &lenient, 0, 0,
		 "skip lines with a value that is no number"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench taxi load [options] URI CSV...",
		.text = "Write a table out of CSV files in the layouts of the New York City Taxi\n"
			"and Limousine Commission, yellow or green cabs, of any year. Columns are\n"
			"found by name. A file is read twice: first its lines are "
			"counted.\n" TAXI_NOTE,
		.options = options,
		.min_args = 2,
		.max_args = 10000,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	target.out.uri = args[0];
	rc = load(&target, args + 1, lenient, &counts);
	if (rc == 0)
		print_loaded(&target, &counts);
	return fth_app_exit(target.out.uri, rc);
}

const struct fth_command taxi_load_command = {
	.name = "load",
	.summary = "make a table out of CSV files",
	.run = run_load,
};
