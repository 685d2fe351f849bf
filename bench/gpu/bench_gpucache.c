/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpucache: arrays seen through a cache in GPU memory. Hot lines against plain GPU
 * memory, cold ones against random blocks that are copied with no cache and no queue, in the same run.
 */
#include "gpublock.h"
#include "gpucache.h"
#include "report.h"

#include "app_options.h"
#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>

#define LINES 2

static const uint32_t line_sizes[LINES] = {4096, 512};

static const char *const kernel_names[GPUCACHE_KERNELS] = {"sequential", "cursor", "random",
							   "cold"};

struct table {
	struct gpucache_hot hot[LINES];
	struct gpucache_cold cold[LINES];
	double limit[LINES]; /* raw random blocks a second */
};

/* ---- measuring ---- */

static void print_hot(uint32_t line, const struct gpucache_hot *hot)
{
	if (fth_cli_json())
		return;
	for (int k = 0; k < GPUCACHE_COLD; k++) {
		bool random = k == GPUCACHE_RANDOM;
		double peer = random ? hot->gather : hot->stream;

		printf("hot   %5u B %-10s %8.2f G/s  %5.3f of %8.2f without a cache, %d "
		       "registers\n",
		       line, kernel_names[k], hot->rate[k] * 1e-9, hot->rate[k] / peer, peer * 1e-9,
		       gpucache_registers((enum gpucache_kernel)k));
	}
	printf("hot   %5u B %llu misses; %.1f bytes of metadata per line\n", line,
	       (unsigned long long)hot->misses, (double)hot->metadata / (double)hot->lines);
	fflush(stdout);
}

static void print_cold(uint32_t line, const struct gpucache_cold *cold, double limit)
{
	if (fth_cli_json())
		return;
	printf("cold  %5u B %8.3f M lines/s  %5.3f of %8.3f raw blocks; %llu lines, %llu "
	       "evictions\n",
	       line, cold->rate * 1e-6, cold->rate / limit, limit * 1e-6,
	       (unsigned long long)cold->lines, (unsigned long long)cold->evictions);
	fflush(stdout);
}

/* The limits, with the memory of another benchmark, which is gone before ours is taken. */
static int measure_limits(const struct gpucache_setup *setup, struct table *t)
{
	struct gpublock_setup raw = {.medium = setup->medium,
				     .data = setup->cold,
				     .ms = 100,
				     .ssds = 1,
				     .entries = 1024};
	struct gpublock *bench;
	int rc = gpublock_open(&raw, &bench);

	if (rc < 0)
		return rc;
	for (int i = 0; rc == 0 && i < LINES; i++)
		rc = gpublock_raw(bench, line_sizes[i], false, &t->limit[i]);
	gpublock_close(bench);
	return rc;
}

static int measure(struct gpucache *bench, struct table *t)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < LINES; i++) {
		rc = gpucache_cold(bench, line_sizes[i], &t->cold[i]);
		if (rc == 0)
			print_cold(line_sizes[i], &t->cold[i], t->limit[i]);
		if (rc == 0 && fth_cli_stopped())
			rc = -EINTR;
		if (rc == 0)
			rc = gpucache_hot(bench, line_sizes[i], &t->hot[i]);
		if (rc == 0)
			print_hot(line_sizes[i], &t->hot[i]);
		if (rc == 0 && fth_cli_stopped())
			rc = -EINTR;
	}
	return rc;
}

/* ---- telling ---- */

static void json_line(struct fth_json *j, const struct table *t, int i)
{
	const struct gpucache_hot *hot = &t->hot[i];

	fth_json_object(j, NULL);
	fth_json_u64(j, "line", line_sizes[i]);
	for (int k = 0; k < GPUCACHE_COLD; k++)
		fth_json_double(j, kernel_names[k], hot->rate[k]);
	fth_json_double(j, "stream", hot->stream);
	fth_json_double(j, "raw_gather", hot->gather);
	fth_json_double(j, "cursor_of_stream", hot->rate[GPUCACHE_CURSOR] / hot->stream);
	fth_json_double(j, "random_of_raw", hot->rate[GPUCACHE_RANDOM] / hot->gather);
	fth_json_u64(j, "misses_while_hot", hot->misses);
	fth_json_double(j, "metadata_per_line", (double)hot->metadata / (double)hot->lines);
	fth_json_double(j, "cold", t->cold[i].rate);
	fth_json_double(j, "raw_blocks", t->limit[i]);
	fth_json_double(j, "cold_of_raw", t->cold[i].rate / t->limit[i]);
	fth_json_u64(j, "cold_lines", t->cold[i].lines);
	fth_json_u64(j, "cold_evictions", t->cold[i].evictions);
	fth_json_end(j);
}

static void print_json(const struct gpucache *bench, const struct gpucache_setup *setup,
		       const struct table *t)
{
	struct fth_json j;

	fth_bench_json(&j, "gpucache", t->cold[0].rate, t->limit[0], t->cold[0].rate / t->limit[0]);
	fth_json_string(&j, "peer_name", "random blocks copied with no cache");
	fth_json_string(&j, "unit", "lines/s");
	fth_json_string(&j, "gpu", gpucache_gpu(bench));
	fth_json_u64(&j, "medium", setup->medium);
	fth_json_u64(&j, "hot", setup->hot);
	fth_json_u64(&j, "cache_when_cold", setup->cold);
	fth_json_u64(&j, "queues", setup->queues);
	fth_json_u64(&j, "threads_when_cold", setup->threads);
	fth_json_u64(&j, "rounds", setup->rounds);
	fth_json_array(&j, "lines");
	for (int i = 0; i < LINES; i++)
		json_line(&j, t, i);
	fth_json_end(&j);
	fth_json_object(&j, "registers");
	for (int k = 0; k < GPUCACHE_KERNELS; k++)
		fth_json_u64(&j, kernel_names[k],
			     (uint64_t)gpucache_registers((enum gpucache_kernel)k));
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int run_bench(const struct gpucache_setup *setup)
{
	static struct table table;
	struct gpucache *bench;
	int rc = measure_limits(setup, &table);

	if (rc < 0)
		return rc;
	rc = gpucache_open(setup, &bench);
	if (rc < 0)
		return rc;
	if (!fth_cli_json())
		printf("%s\n", gpucache_gpu(bench));
	rc = measure(bench, &table);
	if (rc == 0)
		print_json(bench, setup, &table);
	gpucache_close(bench);
	return rc;
}

static int check_setup(const struct gpucache_setup *s)
{
	if (s->medium & (s->medium - 1) || s->hot & (s->hot - 1))
		return fth_fail(EINVAL, "--medium, --hot: powers of two");
	if (s->hot > s->medium || s->cold > s->medium / 4)
		return fth_fail(EINVAL, "--medium: too small for the others");
	if (s->threads % 256)
		return fth_fail(EINVAL, "--threads: a multiple of 256");
	return 0;
}

static int run(int argc, char **argv)
{
	struct gpucache_setup s = {.medium = 16ull << 30, .hot = 8ull << 30, .cold = 2ull << 30};
	uint64_t queues = 128, threads = 131072, rounds = 3;
	bool smallest = false;
	const struct fth_cli_option table[] = {
		{"medium", FTH_CLI_SIZE, &s.medium, 1u << 20, 64ull << 30, "of host memory"},
		{"hot", FTH_CLI_SIZE, &s.hot, 1u << 20, 64ull << 30, "bytes that are all hot"},
		{"cold", FTH_CLI_SIZE, &s.cold, 1u << 20, 64ull << 30,
		 "of the cache that is too small"},
		{"queues", FTH_CLI_U64, &queues, 1, 1024, "queue pairs"},
		{"threads", FTH_CLI_U64, &threads, 256, 1u << 20, "that miss"},
		{"rounds", FTH_CLI_U64, &rounds, 1, GPUCACHE_ROUNDS_MAX, "medians are of"},
		{"smallest", FTH_CLI_FLAG, &smallest, 0, 0, "a second's worth, for tests"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gpucache [OPTION]...",
		.text = "Arrays through a cache in GPU memory: hot lines against plain GPU "
			"memory,\n"
			"cold ones against random blocks copied with no cache.",
		.options = table,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	if (smallest) {
		s.medium = 64u << 20;
		s.hot = 16u << 20;
		s.cold = 8u << 20;
		queues = 16;
		threads = 4096;
		rounds = 1;
	}
	s.queues = (uint32_t)queues;
	s.threads = (uint32_t)threads;
	s.rounds = (unsigned)rounds;
	rc = check_setup(&s);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	return fth_app_exit_gpu("bench gpucache", run_bench(&s));
}

const struct fth_command fth_bench_gpucache = {
	.name = "gpucache",
	.summary = "arrays through a cache in GPU memory, hot and cold",
	.run = run,
};
