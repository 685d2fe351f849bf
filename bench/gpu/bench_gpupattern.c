/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpupattern: GPU threads that read single elements, one after the other, with a
 * stride, anywhere, and some much more often than others; cold and hot, through a cache in GPU
 * memory, against reading host memory directly, and against blocks that are copied with no cache.
 */
#include "app_options.h"
#include "gpublock.h"
#include "gpustream_cli.h"
#include "report.h"

#include <stdio.h>

#define RAW_BLOCKS 2

static const char *const names[GPUPATTERN_PATTERNS] = {"sequential", "strided", "uniform", "zipf"};

/* Random blocks a second, of 512 bytes and of 4 KiB. */
struct limits {
	double raw[RAW_BLOCKS];
};

/* What the lines that were read would have taken as raw blocks, over what they took. */
static double of_raw(const struct gpupattern_setup *s, const struct limits *limits,
		     const struct gpupattern_cell *c)
{
	double raw = limits->raw[s->base.line > 512];

	/* Longer lines take as long as their 4 KiB do. */
	if (s->base.line > 512)
		raw *= 4096.0 / s->base.line;
	return (double)c->lines_read / c->ours / raw;
}

static double amplification(const struct gpupattern_setup *s, const struct gpupattern_cell *c)
{
	return (double)c->lines_read * s->base.line / ((double)c->accesses * 8);
}

static void print_cell(const char *name, const char *how, const struct gpupattern_setup *s,
		       const struct limits *limits, const struct gpupattern_cell *c)
{
	double n = (double)c->accesses * 1e-9;

	printf("%-10s %-4s %9.3f %9.3f %9.3f %8.3f %8.3f %8.3f\n", name, how, n / c->ours,
	       n / c->zero_copy, c->plain > 0 ? n / c->plain : 0, c->zero_copy / c->ours,
	       of_raw(s, limits, c), amplification(s, c));
}

static void print_text(const struct gpupattern_setup *s, const struct limits *limits,
		       const struct gpupattern_result *result)
{
	printf("%s, %d registers\n%-15s %9s %9s %9s %8s %8s %8s\n", result->gpu, result->registers,
	       "", "ours, G/s", "zero copy", "plain", "ratio", "of raw", "ampl.");
	for (int p = 0; p < GPUPATTERN_PATTERNS; p++) {
		print_cell(names[p], "cold", s, limits, &result->cold[p]);
		print_cell(names[p], "hot", s, limits, &result->hot[p]);
	}
}

static void json_cell(struct fth_json *j, const char *name, bool hot,
		      const struct gpupattern_setup *s, const struct limits *limits,
		      const struct gpupattern_cell *c)
{
	fth_json_object(j, NULL);
	fth_json_string(j, "pattern", name);
	fth_json_string(j, "state", hot ? "hot" : "cold");
	fth_json_u64(j, "accesses", c->accesses);
	fth_json_double(j, "ours", (double)c->accesses / c->ours);
	fth_json_double(j, "zero_copy", (double)c->accesses / c->zero_copy);
	fth_json_double(j, "ratio", c->zero_copy / c->ours);
	if (hot)
		fth_json_double(j, "plain", (double)c->accesses / c->plain);
	fth_json_double(j, "of_raw_blocks", of_raw(s, limits, c));
	fth_json_u64(j, "lines_read", c->lines_read);
	fth_json_u64(j, "bytes_read", c->lines_read * s->base.line);
	fth_json_double(j, "amplification", amplification(s, c));
	fth_json_end(j);
}

static void print_json(const struct gpupattern_setup *s, const struct limits *limits,
		       const struct gpupattern_result *result)
{
	const struct gpupattern_cell *hot = &result->hot[3];
	struct fth_json j;

	fth_bench_json(&j, "gpupattern", (double)hot->accesses / hot->ours,
		       (double)hot->accesses / hot->zero_copy, hot->zero_copy / hot->ours);
	fth_json_string(&j, "unit", "elements/s, zipf, hot");
	fth_json_string(&j, "peer_name", "zero copy from pinned host memory");
	fth_json_u64(&j, "medium", s->medium);
	fth_json_u64(&j, "hot", s->hot);
	fth_json_u64(&j, "stride", s->stride);
	fth_json_double(&j, "raw_blocks_512", limits->raw[0]);
	fth_json_double(&j, "raw_blocks_4096", limits->raw[1]);
	gpustream_json(&j, &s->base, result->gpu);
	fth_json_u64(&j, "registers", (uint64_t)result->registers);
	fth_json_array(&j, "results");
	for (int p = 0; p < GPUPATTERN_PATTERNS; p++) {
		json_cell(&j, names[p], false, s, limits, &result->cold[p]);
		json_cell(&j, names[p], true, s, limits, &result->hot[p]);
	}
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* With the memory of another benchmark, which is gone before ours is taken. */
static int measure_limits(const struct gpupattern_setup *s, struct limits *limits)
{
	struct gpublock_setup raw = {
		.medium = s->medium, .data = s->base.cache, .ms = 50, .ssds = 1, .entries = 1024};
	struct gpublock *bench;
	int rc = gpublock_open(&raw, &bench);

	if (rc < 0)
		return rc;
	rc = gpublock_raw(bench, 512, false, &limits->raw[0]);
	if (rc == 0)
		rc = gpublock_raw(bench, 4096, false, &limits->raw[1]);
	gpublock_close(bench);
	return rc;
}

static int check_setup(const struct gpupattern_setup *s)
{
	if (s->medium & (s->medium - 1) || s->hot & (s->hot - 1) || s->stride & (s->stride - 1))
		return fth_fail(EINVAL, "--medium, --hot, --stride: powers of two");
	if (s->hot > s->base.cache || s->hot > s->medium || s->stride > s->hot)
		return fth_fail(EINVAL, "--hot: at most --cache and --medium, at least --stride");
	return 0;
}

static int parse(struct gpupattern_setup *s, int argc, char **argv)
{
	struct gpustream_numbers n = {2ull << 30, 4096, 128, 528, 1, 3, 16, false};
	const struct fth_cli_option table[] = {
		{"medium", FTH_CLI_SIZE, &s->medium, 1u << 20, 64ull << 30, "of host memory"},
		{"hot", FTH_CLI_SIZE, &s->hot, 1u << 20, 64ull << 30, "bytes that are all hot"},
		{"stride", FTH_CLI_SIZE, &s->stride, 8, 1u << 20, "bytes"},
		{"cold-accesses", FTH_CLI_SIZE, &s->cold_accesses, 1, 1ull << 40, "elements read"},
		{"hot-accesses", FTH_CLI_SIZE, &s->hot_accesses, 1, 1ull << 40, "likewise"},
		GPUSTREAM_OPTIONS(&n),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gpupattern [OPTION]...",
		.text = "Elements read by GPU threads one after the other, with a stride, "
			"anywhere,\n"
			"and by Zipf's law; cold and hot, through a cache in GPU memory, against\n"
			"reading host memory directly. All that is read is checked.",
		.options = table,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	s->base = gpustream_settle(&n);
	if (n.smallest) {
		s->medium = 16u << 20;
		s->hot = 1u << 20;
		s->cold_accesses = 1u << 16;
		s->hot_accesses = 1u << 18;
	}
	return rc;
}

static int run(int argc, char **argv)
{
	struct gpupattern_setup s = {.medium = 8ull << 30,
				     .hot = 1ull << 30,
				     .cold_accesses = 4u << 20,
				     .hot_accesses = 256u << 20,
				     .stride = 8192};
	static struct gpupattern_result result;
	struct limits limits;
	int rc = parse(&s, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = check_setup(&s);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	rc = measure_limits(&s, &limits);
	if (rc == 0)
		rc = gpupattern_run(&s, &result);
	if (rc == 0) {
		if (!fth_cli_json())
			print_text(&s, &limits, &result);
		print_json(&s, &limits, &result);
	}
	return fth_app_exit_gpu("bench gpupattern", rc);
}

const struct fth_command fth_bench_gpupattern = {
	.name = "gpupattern",
	.summary = "elements read on a GPU in patterns, cold and hot",
	.run = run,
};
