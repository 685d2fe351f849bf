/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench cache: what the cache and arrays cost, where everything is in memory and where
 * nothing is.
 *
 * Siblings: cache_hot.c reads hot lines, against plain memory; cache_miss.c gathers cold ones,
 * against the device alone.
 */
#include "app_options.h"
#include "cache_parts.h"
#include "cli.h"
#include "common/report.h"
#include "common/scratch.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEPTHS 2

static const unsigned depths[DEPTHS] = {32, 128};

struct bench {
	const char *file; /* for misses; NULL: one of our own */
	char own_file[64];
	struct fth_scratch scratch;
	uint64_t file_size, miss_memory, batch;
	double seconds;
	bool smallest, force;
	struct fth_bench_hot hot;
	struct fth_bench_miss miss[DEPTHS];
	struct fth_cache_footprint full, compact;
};

/* ---- options ---- */

static int check_options(struct bench *b)
{
	if (b->smallest) {
		b->hot.size = 4 << 20;
		b->hot.gets = 100000;
		b->hot.rounds = 1;
		b->file_size = 16 << 20;
		b->miss_memory = 2 << 20;
		b->batch = 10000;
		b->seconds = 0.1;
	}
	b->hot.size -= b->hot.size % b->hot.line;
	if (!b->file) {
		snprintf(b->own_file, sizeof(b->own_file), "%s/fathom-bench-%ld.data",
			 fth_scratch_in_memory("/dev/shm") ? "/dev/shm" : "/tmp", (long)getpid());
		b->file = b->own_file;
	}
	if (b->hot.line & (b->hot.line - 1)) {
		fth_cli_error("--line: expected a power of two");
		return FTH_EXIT_USAGE;
	}
	if (fth_scratch_refused(b->file, b->force))
		return FTH_EXIT_USAGE;
	return FTH_CLI_GO_ON;
}

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"size", FTH_CLI_SIZE, &b->hot.size, 1 << 20, (uint64_t)1 << 40,
		 "bytes of the array that is all in the cache"},
		{"line", FTH_CLI_SIZE, &b->hot.line, FTH_CACHE_LINE_MIN, FTH_CACHE_LINE_MAX,
		 "of that cache"},
		{"gets", FTH_CLI_U64, &b->hot.gets, 1, UINT64_MAX, "random ones in a round"},
		FTH_CLI_WAS("file", "flash"),
		{"flash", FTH_CLI_STRING, &b->file, 0, 0,
		 "for misses; default: a new one in /dev/shm if that is tmpfs, else in /tmp"},
		{"file-size", FTH_CLI_SIZE, &b->file_size, 16 << 20, (uint64_t)1 << 44,
		 "of a new file"},
		FTH_CLI_WAS("miss-memory", "memory"),
		{"memory", FTH_CLI_SIZE, &b->miss_memory, 1 << 20, (uint64_t)1 << 40,
		 "of the cache in front of it"},
		{"batch", FTH_CLI_U64, &b->batch, 1, 1 << 24, "elements gathered by one call"},
		{"seconds", FTH_CLI_DOUBLE, &b->seconds, 0, 0, "of one run of misses"},
		FTH_BENCH_ROUNDS(&b->hot.rounds),
		FTH_CLI_FORCE(&b->force, "overwrite a file"),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench cache [options]",
		.text = "One thread. Hot: a cursor over an array that is all in the cache, and "
			"random\n"
			"8-byte gets, against plain loads from the same bytes in memory. Misses:\n"
			"gathers of elements that are not in the cache, against the load of bench "
			"dev\n"
			"on the same device, at depths 32 and 128. Runs alternate; medians are\n"
			"compared. Sums must be equal, and every element gathered is checked.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : check_options(b);
}

/* ---- footprints ---- */

static int footprint_of(const struct bench *b, bool compact, struct fth_cache_footprint *out)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_array *array;
	struct fth_cache *cache;
	char uri[64];
	int rc, end;

	options.memory = b->miss_memory;
	options.compact = compact;
	rc = fth_cache_open(&options, &cache);
	if (rc < 0)
		return rc;
	/* Any device of this size: nothing is read. */
	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)b->file_size);
	rc = fth_array_open(cache, uri, 8, NULL, &array);
	if (rc == 0) {
		fth_cache_footprint(cache, out);
		rc = fth_array_finish(&array);
	}
	end = fth_cache_finish(&cache);
	return rc < 0 ? rc : end;
}

/* ---- running ---- */

static void print_row(const char *what, const char *unit, const struct fth_rounds *rounds)
{
	if (fth_cli_json())
		return;
	printf("%-26s %12.2f %12.2f  %-12s %7.3f\n", what, fth_rounds_ours(rounds),
	       fth_rounds_peer(rounds), unit, fth_rounds_ratio(rounds));
	fflush(stdout);
}

static int run_hot(struct bench *b)
{
	int rc = fth_bench_cache_hot(&b->hot);

	if (rc < 0)
		return rc;
	print_row("cursor, line by line", "GB/s", &b->hot.cursor);
	print_row("cursor, each element", "GB/s", &b->hot.element);
	print_row("random gets of 8 bytes", "M/s", &b->hot.random);
	print_row("the same, gathered", "M/s", &b->hot.gather);
	return 0;
}

static int run_misses(struct bench *b)
{
	int rc = fth_scratch_use(&b->scratch, b->file, b->file_size, NULL);

	fth_scratch_shut(&b->scratch);
	if (rc < 0)
		return rc;
	for (unsigned d = 0; d < DEPTHS; d++) {
		char what[32];

		b->miss[d] = (struct fth_bench_miss){
			.uri = b->scratch.uri,
			.memory = b->miss_memory,
			.depth = depths[d],
			.batch = b->batch,
			.rounds = b->hot.rounds,
			.seconds = b->seconds,
		};
		rc = fth_bench_cache_miss(&b->miss[d]);
		if (rc < 0)
			return fth_fail_in(rc, b->file);
		snprintf(what, sizeof(what), "misses, depth %u", depths[d]);
		print_row(what, "lines/s", &b->miss[d].lines);
	}
	return 0;
}

static void print_footprint(const char *kind, const struct fth_cache_footprint *f)
{
	if (fth_cli_json())
		return;
	printf("metadata, %-8s %.2f bytes per line of data, %.1f per line kept; %llu lines, "
	       "%llu kept\n",
	       kind, (double)f->line_bytes / (double)f->lines,
	       (double)f->frame_bytes / (double)f->frames, (unsigned long long)f->lines,
	       (unsigned long long)f->frames);
}

static int measure(struct bench *b)
{
	int rc;

	if (!fth_cli_json())
		printf("%-26s %12s %12s  %-12s %7s\n", "", "ours", "peer", "unit", "ratio");
	rc = run_hot(b);
	if (rc == 0)
		rc = run_misses(b);
	if (rc == 0)
		rc = footprint_of(b, false, &b->full);
	if (rc == 0)
		rc = footprint_of(b, true, &b->compact);
	if (rc < 0)
		return rc;
	print_footprint("full", &b->full);
	print_footprint("compact", &b->compact);
	return 0;
}

/* ---- reporting ---- */

static void report_footprint(struct fth_json *j, const char *key,
			     const struct fth_cache_footprint *f)
{
	fth_json_object(j, key);
	fth_json_u64(j, "frames", f->frames);
	fth_json_u64(j, "data_bytes", f->data_bytes);
	fth_json_u64(j, "frame_bytes", f->frame_bytes);
	fth_json_u64(j, "line_bytes", f->line_bytes);
	fth_json_u64(j, "lines", f->lines);
	fth_json_double(j, "bytes_per_line", (double)f->line_bytes / (double)f->lines);
	fth_json_double(j, "bytes_per_frame", (double)f->frame_bytes / (double)f->frames);
	fth_json_end(j);
}

static void report_miss(struct fth_json *j, const struct fth_bench_miss *miss)
{
	char key[32];

	snprintf(key, sizeof(key), "miss_%llu", (unsigned long long)miss->depth);
	fth_rounds_json(j, key, &miss->lines);
	snprintf(key, sizeof(key), "miss_%llu_counts", (unsigned long long)miss->depth);
	fth_json_object(j, key);
	fth_json_u64(j, "hits", miss->hits);
	fth_json_u64(j, "misses", miss->misses);
	fth_json_u64(j, "read_requests", miss->requests);
	fth_json_u64(j, "evictions", miss->evictions);
	fth_json_u64(j, "checked", miss->checked);
	fth_json_end(j);
}

static void report_parameters(struct fth_json *j, const struct bench *b)
{
	fth_json_string(j, "unit", "GB/s, M/s and lines/s; ours and peer are geometric means");
	fth_json_u64(j, "size", b->hot.size);
	fth_json_u64(j, "line", b->hot.line);
	fth_json_u64(j, "gets", b->hot.gets);
	fth_json_u64(j, "rounds", b->hot.rounds);
	fth_json_string(j, "file", b->file);
	fth_json_u64(j, "file_size", b->miss[0].size);
	fth_json_u64(j, "miss_memory", b->miss_memory);
	fth_json_u64(j, "batch", b->batch);
	fth_json_double(j, "seconds", b->seconds);
}

static void report(const struct bench *b)
{
	const struct fth_rounds *parts[] = {&b->hot.cursor, &b->hot.element,   &b->hot.random,
					    &b->hot.gather, &b->miss[0].lines, &b->miss[1].lines};
	const char *const names[] = {"cursor_ratio", "cursor_element_ratio", "random_ratio",
				     "gather_ratio", "miss_ratio_32",	     "miss_ratio_128"};
	const unsigned n = sizeof(parts) / sizeof(parts[0]);
	double ours = 0, peer = 0, least = INFINITY;
	struct fth_json j;

	for (unsigned i = 0; i < n; i++) {
		ours += log(fth_rounds_ours(parts[i])) / n;
		peer += log(fth_rounds_peer(parts[i])) / n;
		least = fmin(least, fth_rounds_ratio(parts[i]));
	}
	fth_bench_json(&j, "cache", exp(ours), exp(peer), exp(ours - peer));
	fth_json_double(&j, "min_ratio", least);
	for (unsigned i = 0; i < n; i++)
		fth_json_double(&j, names[i], fth_rounds_ratio(parts[i]));
	report_parameters(&j, b);
	fth_rounds_json(&j, "cursor", &b->hot.cursor);
	fth_rounds_json(&j, "cursor_element", &b->hot.element);
	fth_rounds_json(&j, "random", &b->hot.random);
	fth_rounds_json(&j, "gather", &b->hot.gather);
	for (unsigned d = 0; d < DEPTHS; d++)
		report_miss(&j, &b->miss[d]);
	report_footprint(&j, "footprint", &b->full);
	report_footprint(&j, "footprint_compact", &b->compact);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int run(int argc, char **argv)
{
	struct bench b = {
		.file_size = 1 << 30, .miss_memory = 64 << 20, .batch = 65536, .seconds = 1};
	int status, rc;

	b.hot.size = 512 << 20;
	b.hot.line = 4096;
	b.hot.gets = 20000000;
	b.hot.rounds = 5;
	status = parse(&b, argc, argv);
	if (status != FTH_CLI_GO_ON)
		return status;
	rc = measure(&b);
	fth_scratch_remove(&b.scratch);
	status = fth_app_exit_or_skip("bench cache", rc, rc == -ENOSYS || rc == -EPERM);
	if (status == FTH_EXIT_OK)
		report(&b);
	return status;
}

const struct fth_command fth_bench_cache = {
	.name = "cache",
	.summary = "hot lines against plain memory, misses against the device",
	.run = run,
};
