/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpuvector: vectorAdd, a sum and a prefix sum over vectors that do not fit into the
 * cache in GPU memory, against tiles that the copy engine moves ahead of kernels.
 */
#include "app_options.h"
#include "gpustream_cli.h"
#include "report.h"

#include <stdio.h>

static const char *const names[GPUVECTOR_JOBS] = {"add", "reduce", "scan"};

/* Bytes that have to be moved, in both directions, a second. */
static double rate(const struct gpuvector_cell *cell, double seconds)
{
	return (double)(cell->bytes_least_read + cell->bytes_least_written) / seconds;
}

static double amplification(const struct gpuvector_cell *cell)
{
	return (double)(cell->bytes_read + cell->bytes_written) /
	       (double)(cell->bytes_least_read + cell->bytes_least_written);
}

static void print_text(const struct gpuvector_result *result)
{
	printf("%s\n%-8s %10s %10s %10s %8s %10s %6s %9s\n", result->gpu, "", "ours, GB/s", "tiled",
	       "zero copy", "ratio", "of z. copy", "ampl.", "registers");
	for (int i = 0; i < GPUVECTOR_JOBS; i++) {
		const struct gpuvector_cell *c = &result->cells[i];

		printf("%-8s %10.2f %10.2f %10.2f %8.3f %10.3f %6.3f %9d\n", names[i],
		       rate(c, c->ours) * 1e-9, rate(c, c->tiled) * 1e-9,
		       rate(c, c->zero_copy) * 1e-9, c->tiled / c->ours, c->zero_copy / c->ours,
		       amplification(c), c->registers);
	}
}

/* `once`: the kernel reads each element once, and not a second time from what would be a cache. */
static void json_cell(struct fth_json *j, const char *name, const struct gpuvector_cell *c,
		      bool once)
{
	fth_json_object(j, name);
	fth_json_double(j, "ours_s", c->ours);
	fth_json_double(j, "tiled_s", c->tiled);
	fth_json_double(j, "zero_copy_s", c->zero_copy);
	fth_json_double(j, "ratio", c->tiled / c->ours);
	/* No cache can be faster than the same loads and stores without one: each byte once. */
	if (once)
		fth_json_double(j, "bound", c->tiled / c->zero_copy);
	fth_json_u64(j, "bytes_read", c->bytes_read);
	fth_json_u64(j, "bytes_written", c->bytes_written);
	fth_json_double(j, "amplification", amplification(c));
	fth_json_u64(j, "registers", (uint64_t)c->registers);
	fth_json_end(j);
}

static void print_json(const struct gpuvector_setup *s, const struct gpuvector_result *result)
{
	const struct gpuvector_cell *add = &result->cells[GPUVECTOR_ADD];
	struct fth_json j;

	fth_bench_json(&j, "gpuvector", rate(add, add->ours), rate(add, add->tiled),
		       add->tiled / add->ours);
	fth_json_string(&j, "unit", "bytes/s of vectorAdd, in and out");
	fth_json_string(&j, "peer_name", "tiles moved by the copy engine, three at a time");
	fth_json_u64(&j, "vector", s->bytes);
	fth_json_u64(&j, "tile", s->tile);
	gpustream_json(&j, &s->base, result->gpu);
	for (int i = 0; i < GPUVECTOR_JOBS; i++)
		json_cell(&j, names[i], &result->cells[i], i != GPUVECTOR_SCAN);
	fth_json_finish(&j);
}

static int check_setup(const struct gpuvector_setup *s)
{
	if (s->bytes % 8192 || s->tile % 8192)
		return fth_fail(EINVAL, "--vector, --tile: multiples of 8192");
	return 0;
}

static int run(int argc, char **argv)
{
	struct gpuvector_setup s = {.bytes = 4ull << 30, .tile = 32u << 20};
	/* A small cache: what is dirty at the end is written when nothing is read any more. */
	struct gpustream_numbers n = {256u << 20, 4096, 128, 0, 4, 3, 16, false};
	const struct fth_cli_option table[] = {
		{"vector", FTH_CLI_SIZE, &s.bytes, 1u << 20, 32ull << 30, "bytes of each vector"},
		{"tile", FTH_CLI_SIZE, &s.tile, 8192, 1u << 30,
		 "bytes that the peer moves at once"},
		GPUSTREAM_OPTIONS(&n),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gpuvector [OPTION]...",
		.text = "vectorAdd, a sum and a prefix sum on a GPU over vectors larger than the\n"
			"cache, against tiles that are copied ahead (and CUB on them), and "
			"against\n"
			"the same kernels straight on host memory. All results are checked.",
		.options = table,
	};
	static struct gpuvector_result result;
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	s.base = gpustream_settle(&n);
	if (n.smallest) {
		s.bytes = 8u << 20;
		s.tile = 1u << 20;
	}
	rc = check_setup(&s);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	rc = gpuvector_run(&s, &result);
	if (rc == 0) {
		if (!fth_cli_json())
			print_text(&result);
		print_json(&s, &result);
	}
	return fth_app_exit_gpu("bench gpuvector", rc);
}

const struct fth_command fth_bench_gpuvector = {
	.name = "gpuvector",
	.summary = "vectorAdd, sum and prefix sum on a GPU, against tiles copied ahead",
	.run = run,
};
