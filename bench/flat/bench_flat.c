/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench flat: programs with plain pointers into a region larger than its memory, against
 * paging and against mmap. Mechanism and medium are measured apart: patterns and graphs on a device
 * of memory with emulated latencies, since a disk hides every difference in mechanism; and the disk
 * as it is. flat_rows.h lists the files.
 */
#include "app_options.h"
#include "cli.h"
#include "flat_rows.h"
#include "json.h"
#include "common/report.h"
#include "common/scratch.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct flat_group {
	const char *name;
	int (*measure)(struct flat_bench *);
} groups[] = {
	{"pattern", flat_pattern_rows}, {"graph", flat_graph_rows},	{"disk", flat_disk_rows},
	{"hot", flat_hot_rows},		{"persist", flat_persist_rows},
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static bool is_wanted(const struct flat_bench *b, const struct flat_group *group)
{
	return !b->only || strcmp(b->only, group->name) == 0 ||
	       (group->measure == flat_pattern_rows && flat_is_pattern(b->only));
}

static int check_only(const struct flat_bench *b)
{
	for (unsigned i = 0; i < GROUPS; i++)
		if (is_wanted(b, &groups[i]))
			return FTH_CLI_GO_ON;
	fth_cli_error(
		"--only %s: expected pattern, graph, disk, hot, persist or the name of a pattern",
		b->only);
	return FTH_EXIT_USAGE;
}

static void make_smallest(struct flat_bench *b)
{
	b->size = 4 << 20;
	b->ops = 2000;
	b->rounds = 1;
	b->graph_scale = 13;
	b->disk_size = 8 << 20;
	b->disk_ms = 50;
}

static int parse(struct flat_bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"only", FTH_CLI_STRING, &b->only, 0, 0,
		 "pattern, graph, disk, hot, persist, or one pattern"},
		{"size", FTH_CLI_SIZE, &b->size, 4 << 20, (uint64_t)1 << 40,
		 "of the patterns' region"},
		{"times", FTH_CLI_U64, &b->times, 2, 1024, "a region is larger than its budget"},
		{"ops", FTH_CLI_U64, &b->ops, 1000, (uint64_t)1 << 40,
		 "accesses per run of a pattern"},
		{"no-model", FTH_CLI_FLAG, &b->no_model, 0, 0, "no emulated latencies"},
		{"scale", FTH_CLI_U64, &b->graph_scale, 10, 26, "log2 of the graph's vertices"},
		{"graph-times", FTH_CLI_U64, &b->graph_times, 2, 1024,
		 "the graph's region is larger than its budget"},
		{"disk-size", FTH_CLI_SIZE, &b->disk_size, 8 << 20, (uint64_t)1 << 44,
		 "of the file"},
		{"disk-ms", FTH_CLI_U64, &b->disk_ms, 10, 1000000, "of a run on the disk"},
		{"foreground", FTH_CLI_FLAG, &b->foreground, 0, 0,
		 "our regions have no thread of their own"},
		FTH_SCRATCH_OPTIONS(&b->folder, &b->options),
		{"seed", FTH_CLI_U64, &b->seed, 0, UINT64_MAX, "of all random choices"},
		FTH_BENCH_ROUNDS(&b->rounds),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench flat [options]",
		.text = "Plain pointers into a region larger than its memory. Patterns and graphs "
			"run on a\n"
			"device of memory with the latencies of FlatFlash's Table 2: our policy,\n"
			"FlatFlash's, always paging in, and paging in with the time that the "
			"kernel's\n"
			"block path takes here. A file on the disk is compared with mmap in a "
			"memory\n"
			"cgroup of the same size, and pages in DRAM with plain memory. Runs "
			"alternate;\n"
			"medians are compared. Every value is checked.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (b->smallest)
		make_smallest(b);
	return check_only(b);
}

/* ---- rows ---- */

struct flat_row *flat_row_add(struct flat_bench *b, const char *name, const char *text,
			      const char *const side[FLAT_SIDES])
{
	struct flat_row *row = b->count < FLAT_ROWS_MAX ? &b->rows[b->count++] : NULL;

	if (row) {
		row->name = name;
		row->text = text;
		memcpy(row->side, side, sizeof(row->side));
	}
	return row;
}

double flat_row_rate(const struct flat_bench *b, const struct flat_row *row, unsigned side)
{
	return fth_median(row->rate[side], (unsigned)b->rounds);
}

double flat_row_ratio(const struct flat_bench *b, const struct flat_row *row, unsigned side)
{
	return flat_row_rate(b, row, 0) / flat_row_rate(b, row, side);
}

static const struct flat_row *find_row(const struct flat_bench *b, const char *name)
{
	for (unsigned i = 0; i < b->count; i++)
		if (strcmp(b->rows[i].name, name) == 0)
			return &b->rows[i];
	return NULL;
}

/* ---- how fast the disk lets it be ---- */

static double disk_rate(const struct flat_bench *b, const struct flat_row *row, unsigned wait)
{
	double rates[FTH_ROUNDS_MAX];

	for (uint64_t i = 0; i < b->rounds; i++)
		rates[i] = row->limit.disk[wait][i].rate;
	return fth_median(rates, (unsigned)b->rounds);
}

static double disk_cpu_us(const struct flat_bench *b, const struct flat_row *row, unsigned wait)
{
	double cpu[FTH_ROUNDS_MAX];

	for (uint64_t i = 0; i < b->rounds; i++)
		cpu[i] = row->limit.disk[wait][i].cpu_us;
	return fth_median(cpu, (unsigned)b->rounds);
}

static double median_of(const struct flat_bench *b, const double values[FTH_ROUNDS_MAX])
{
	return fth_median(values, (unsigned)b->rounds);
}

/*
 * Over the better peer: if the disk did nothing but read the pages that accesses miss, and write
 * those that were changed, and nothing else took time.
 */
static double possible_ratio(const struct flat_bench *b, const struct flat_row *row, double reads)
{
	double peer = 0;

	for (unsigned s = 1; s < FLAT_SIDES && row->side[s]; s++)
		peer = fmax(peer, flat_row_rate(b, row, s));
	return disk_rate(b, row, FLAT_WRITTEN) / reads / peer;
}

static void print_limit(const struct flat_bench *b, const struct flat_row *row)
{
	const struct flat_limit *limit = &row->limit;

	for (unsigned s = 0; s < FLAT_SIDES && row->side[s]; s++)
		printf("%13s %s, per access: %.3f pages read, %.3f written, %.1f us of CPU time\n",
		       "", row->side[s], median_of(b, limit->reads[s]),
		       median_of(b, limit->writes[s]), median_of(b, limit->cpu_us[s]));
	printf("%13s the disk: %.0f reads/s (%.1f us of CPU time), polled %.0f (%.1f), and written "
	       "back "
	       "%.0f (%.1f)\n",
	       "", disk_rate(b, row, FLAT_SLEPT), disk_cpu_us(b, row, FLAT_SLEPT),
	       disk_rate(b, row, FLAT_POLLED), disk_cpu_us(b, row, FLAT_POLLED),
	       disk_rate(b, row, FLAT_WRITTEN), disk_cpu_us(b, row, FLAT_WRITTEN));
	printf("%13s at most %.2f of the better mmap is possible with these reads, %.2f with the "
	       "fewest (%.3f)\n",
	       "", possible_ratio(b, row, median_of(b, limit->reads[0])),
	       possible_ratio(b, row, limit->least_reads), limit->least_reads);
}

static void add_limit(struct fth_json *j, const struct flat_bench *b, const struct flat_row *row)
{
	static const char *const waits[FLAT_WAITS] = {"slept", "polled", "written_back"};
	const struct flat_limit *limit = &row->limit;

	fth_json_object(j, "limit");
	for (unsigned s = 0; s < FLAT_SIDES && row->side[s]; s++) {
		fth_json_object(j, row->side[s]);
		fth_json_double(j, "pages_read", median_of(b, limit->reads[s]));
		fth_json_double(j, "pages_written", median_of(b, limit->writes[s]));
		fth_json_double(j, "cpu_us", median_of(b, limit->cpu_us[s]));
		fth_json_end(j);
	}
	fth_json_object(j, "disk_reads");
	for (unsigned wait = 0; wait < FLAT_WAITS; wait++)
		fth_json_double(j, waits[wait], disk_rate(b, row, wait));
	fth_json_end(j);
	fth_json_double(j, "least_pages_read", limit->least_reads);
	fth_json_double(j, "possible_ratio", possible_ratio(b, row, median_of(b, limit->reads[0])));
	fth_json_double(j, "possible_ratio_least", possible_ratio(b, row, limit->least_reads));
	fth_json_end(j);
}

/* ---- results ---- */

static void print_rows(const struct flat_bench *b)
{
	for (unsigned i = 0; i < b->count; i++) {
		const struct flat_row *row = &b->rows[i];

		printf("%-13s %-42s %10.0f/s", row->name, row->text, flat_row_rate(b, row, 0));
		for (unsigned s = 1; s < FLAT_SIDES && row->side[s]; s++)
			printf("; %s %.0f, %.2f", row->side[s], flat_row_rate(b, row, s),
			       flat_row_ratio(b, row, s));
		if (row->moved[0] || row->written[0])
			printf("; pages moved %llu, written %llu",
			       (unsigned long long)row->moved[0],
			       (unsigned long long)row->written[0]);
		for (unsigned s = 0; s < FLAT_SIDES && row->amplification[s] > 0; s++)
			printf("%s%.1f", s ? " / " : "; written per byte ", row->amplification[s]);
		printf("\n");
		if (row->limit.least_reads > 0)
			print_limit(b, row);
	}
}

static void add_numbers(struct fth_json *j, const char *key, const struct flat_row *row,
			const uint64_t *numbers)
{
	fth_json_object(j, key);
	for (unsigned s = 0; s < FLAT_SIDES && row->side[s]; s++)
		fth_json_u64(j, row->side[s], numbers[s]);
	fth_json_end(j);
}

static void add_row(struct fth_json *j, const struct flat_bench *b, const struct flat_row *row)
{
	fth_json_object(j, row->name);
	for (unsigned s = 0; s < FLAT_SIDES && row->side[s]; s++)
		fth_json_double(j, row->side[s], flat_row_rate(b, row, s));
	fth_json_object(j, "ratio");
	for (unsigned s = 1; s < FLAT_SIDES && row->side[s]; s++)
		fth_json_double(j, row->side[s], flat_row_ratio(b, row, s));
	fth_json_end(j);
	add_numbers(j, "pages_moved", row, row->moved);
	add_numbers(j, "pages_written", row, row->written);
	if (row->amplification[0] > 0) {
		fth_json_object(j, "write_amplification");
		for (unsigned s = 0; s < FLAT_SIDES && row->side[s]; s++)
			fth_json_double(j, row->side[s], row->amplification[s]);
		fth_json_end(j);
	}
	if (row->limit.least_reads > 0)
		add_limit(j, b, row);
	fth_json_end(j);
}

/* Ours over the better of its peers. */
static double least_ratio(const struct flat_bench *b, const struct flat_row *row)
{
	double least = INFINITY;

	for (unsigned s = 1; row && s < FLAT_SIDES && row->side[s]; s++)
		least = fmin(least, flat_row_ratio(b, row, s));
	return least;
}

static void print_json(const struct flat_bench *b)
{
	const struct flat_row *gups = find_row(b, "gups");
	const unsigned paging = 2;
	struct fth_json j;

	fth_bench_json(&j, "flat", gups ? flat_row_rate(b, gups, 0) : NAN,
		       gups ? flat_row_rate(b, gups, paging) : NAN,
		       gups ? flat_row_ratio(b, gups, paging) : NAN);
	fth_json_double(&j, "mmap_ratio", least_ratio(b, find_row(b, "disk_gather")));
	fth_json_string(&j, "peer_name", "always paging in");
	fth_json_string(&j, "unit", "accesses/s");
	fth_json_u64(&j, "size", b->size);
	fth_json_u64(&j, "times", b->times);
	fth_json_u64(&j, "ops", b->ops);
	fth_json_u64(&j, "graph_scale", b->graph_scale);
	fth_json_u64(&j, "graph_times", b->graph_times);
	fth_json_u64(&j, "disk_size", b->disk_size);
	fth_json_u64(&j, "disk_ms", b->disk_ms);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_u64(&j, "seed", b->seed);
	fth_json_bool(&j, "model", !b->no_model);
	fth_json_bool(&j, "foreground", b->foreground);
	fth_json_u64(&j, "kernel_path_read_ns", b->stack_read_ns);
	fth_json_u64(&j, "kernel_path_write_ns", b->stack_write_ns);
	fth_json_u64(&j, "kernel_sync_ns", b->sync_ns);
	fth_json_bool(&j, "emulates", fth_flat_emulates());
	fth_json_object(&j, "rows");
	for (unsigned i = 0; i < b->count; i++)
		add_row(&j, b, &b->rows[i]);
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* A group that is impossible here is left out, unless it is the only one. */
static int measure_groups(struct flat_bench *b)
{
	int rc = 0;

	for (unsigned i = 0; i < GROUPS && rc == 0; i++) {
		if (!is_wanted(b, &groups[i]))
			continue;
		rc = groups[i].measure(b);
		if (rc == -ENOTSUP && b->count > 0 && !b->only) {
			fth_cli_error("skipping %s: %s", groups[i].name, fth_error_text(rc));
			rc = 0;
		}
	}
	return rc;
}

static int run(int argc, char **argv)
{
	static struct flat_bench b = {.size = 256u << 20,
				      .times = 4,
				      .ops = 200000,
				      .rounds = 3,
				      .seed = 1,
				      .graph_scale = 18,
				      .graph_times = 4,
				      .disk_size = 512u << 20,
				      .disk_ms = 2000};
	int rc = parse(&b, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = measure_groups(&b);
	if (rc == 0 && !fth_cli_json())
		print_rows(&b);
	if (rc == 0)
		print_json(&b);
	return fth_app_exit_or_skip("bench flat", rc, rc == -ENOTSUP);
}

const struct fth_command fth_bench_flat = {
	.name = "flat",
	.summary = "plain pointers over DRAM and flash, against paging and mmap",
	.run = run,
};
