/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench queue: one NVMe queue pair under 1 to 64 threads, ours and one lock around
 * everything, with the same software controller on the same memory. Each thread reads a random
 * block, waits for it, checks every word of it, and goes on.
 */
#include "queue_design.h"
#include "common/report.h"

#include "app_options.h"
#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "nvme/ctrl.h"
#include "nvme/soft.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DESIGNS	    2
#define POINTS_MAX  16
#define THREADS_MAX 256
#define ROUNDS_MAX  15
#define RATIO_AT    16 /* threads */

static const struct queue_design *const designs[DESIGNS] = {
	&queue_design_ours,
	&queue_design_lock,
};

struct options {
	uint64_t block, entries, medium, ms, rounds;
	unsigned points;
	unsigned threads[POINTS_MAX];
};

/* What one run of one design gave. */
struct sample {
	double rate;	     /* commands per second */
	double per_doorbell; /* commands per doorbell write */
};

struct run {
	const struct queue_design *design;
	const struct options *options;
	void *queue;
	uint64_t blocks;
	uint32_t started, stop;
};

struct worker {
	struct run *run;
	pthread_t thread;
	char *buf;
	uint64_t iova;
	uint64_t seed;
	uint64_t commands, wrong, failed;
};

/* ---- the medium ---- */

static uint64_t word_of(uint64_t block, uint64_t i)
{
	return fth_mix64(block) + i;
}

static int fill_medium(struct fth_dev *dev, uint64_t block)
{
	uint64_t blocks = fth_dev_info(dev)->size / block, *words = malloc(block);
	int rc = words ? 0 : -ENOMEM;

	for (uint64_t b = 0; rc == 0 && b < blocks; b++) {
		for (uint64_t i = 0; i < block / 8; i++)
			words[i] = word_of(b, i);
		rc = fth_dev_write(dev, words, block, b * block, FTH_DEV_TIMEOUT);
	}
	free(words);
	return rc;
}

static bool is_right(const char *buf, uint64_t block, uint64_t bytes)
{
	const uint64_t *words = (const uint64_t *)(const void *)buf;
	uint64_t first = word_of(block, 0), differ = 0;

	for (uint64_t i = 0; i < bytes / 8; i++)
		differ |= words[i] ^ (first + i);
	return differ == 0;
}

/* ---- threads ---- */

static void *work(void *arg)
{
	struct worker *w = arg;
	struct run *run = w->run;
	uint64_t bytes = run->options->block;
	struct fth_rng rng = {w->seed};
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_READ, .nsid = 1, .prp1 = w->iova};

	command.cdw12 = (uint32_t)(bytes / 512) - 1;
	while (!fth_load_acquire_dev32(&run->started))
		sched_yield();
	while (!fth_load_relaxed_dev32(&run->stop)) {
		uint64_t block = fth_rng_below(&rng, run->blocks), lba = block * (bytes / 512);

		memset(w->buf, 0, 8); /* so that a command that moved nothing is noticed */
		command.cdw10 = (uint32_t)lba;
		command.cdw11 = (uint32_t)(lba >> 32);
		if (run->design->exec(run->queue, &command, 32 * (uint32_t)w->seed))
			w->failed++;
		else if (!is_right(w->buf, block, bytes))
			w->wrong++;
		w->commands++;
	}
	return NULL;
}

static int start(struct run *run, struct fth_nvme_dma *memory, struct worker *workers,
		 unsigned threads)
{
	for (unsigned i = 0; i < threads; i++) {
		uint64_t offset = (uint64_t)i * 4096;

		workers[i] = (struct worker){.run = run,
					     .buf = (char *)memory->ptr + offset,
					     .iova = memory->iova + offset,
					     .seed = i + 1};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return (int)i;
	}
	return (int)threads;
}

static int run_threads(struct run *run, struct fth_nvme_dma *memory, unsigned threads,
		       struct sample *sample)
{
	struct timespec nap = {(time_t)(run->options->ms / 1000),
			       (long)(run->options->ms % 1000) * 1000000};
	static struct worker workers[THREADS_MAX];
	uint64_t begin, commands = 0, bad = 0;
	int started = start(run, memory, workers, threads);

	begin = fth_now_ns();
	fth_store_release_dev32(&run->started, 1);
	nanosleep(&nap, NULL);
	fth_store_release_dev32(&run->stop, 1);
	for (int i = 0; i < started; i++) {
		pthread_join(workers[i].thread, NULL);
		commands += workers[i].commands;
		bad += workers[i].wrong + workers[i].failed;
	}
	sample->rate = (double)commands * 1e9 / (double)(fth_now_ns() - begin);
	sample->per_doorbell = (double)commands / (double)run->design->doorbells(run->queue);
	if (started < (int)threads)
		return fth_fail(EAGAIN, "only %d of %u threads could be started", started, threads);
	if (bad)
		return fth_fail(EIO, "%s, %u threads: %llu of %llu blocks have wrong data",
				run->design->name, threads, (unsigned long long)bad,
				(unsigned long long)commands);
	return 0;
}

/* A fresh controller and driver with one queue pair over the medium. */
static int open_nvme(struct fth_dev *medium, const struct options *options, struct fth_nvme **out)
{
	struct fth_nvme_ctrl_options ctrl_opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_options opts = FTH_NVME_OPTIONS_INIT;
	struct fth_nvme_transport *transport;
	struct fth_nvme_ctrl *ctrl;
	int rc = fth_nvme_ctrl_new(medium, &ctrl_opts, &ctrl);

	if (rc < 0)
		return rc;
	rc = fth_nvme_soft_new(ctrl, &transport);
	if (rc < 0) {
		fth_nvme_ctrl_free(ctrl);
		return rc;
	}
	opts.queues = 1;
	opts.entries = (uint32_t)options->entries;
	rc = fth_nvme_open(transport, &opts, out);
	if (rc < 0)
		transport->ops->close(transport);
	return rc;
}

static int measure(struct fth_dev *medium, const struct options *options, unsigned design,
		   unsigned threads, struct sample *sample)
{
	struct run run = {.design = designs[design], .options = options};
	struct fth_nvme_dma memory = {0};
	struct fth_nvme *nvme;
	int rc = open_nvme(medium, options, &nvme);

	if (rc < 0)
		return rc;
	run.blocks = options->medium / options->block;
	rc = fth_nvme_dma_alloc(nvme, (size_t)threads * 4096, &memory);
	if (rc == 0) {
		run.queue = run.design->open(fth_nvme_qp(nvme, 0));
		rc = run.queue ? run_threads(&run, &memory, threads, sample) : -ENOMEM;
		if (run.queue)
			run.design->close(run.queue);
	}
	fth_nvme_dma_free(nvme, &memory);
	fth_nvme_close(nvme);
	return rc;
}

/* ---- points ---- */

static int compare_rates(const void *a, const void *b)
{
	double x = ((const struct sample *)a)->rate, y = ((const struct sample *)b)->rate;

	return (x > y) - (x < y);
}

/* The designs take turns, so that a noisy moment hits all of them. Medians go to result. */
static int measure_point(struct fth_dev *medium, const struct options *options, unsigned threads,
			 struct sample result[DESIGNS])
{
	struct sample samples[DESIGNS][ROUNDS_MAX];

	for (unsigned round = 0; round < options->rounds; round++) {
		for (unsigned d = 0; d < DESIGNS; d++) {
			int rc = measure(medium, options, d, threads, &samples[d][round]);

			if (rc < 0)
				return rc;
			if (fth_cli_stopped())
				return -EINTR;
		}
	}
	for (unsigned d = 0; d < DESIGNS; d++) {
		qsort(samples[d], options->rounds, sizeof(samples[d][0]), compare_rates);
		result[d] = samples[d][options->rounds / 2];
	}
	return 0;
}

static void print_point(unsigned threads, const struct sample result[DESIGNS])
{
	if (fth_cli_json())
		return;
	printf("%7u", threads);
	for (unsigned d = 0; d < DESIGNS; d++)
		printf("  %9.0f %5.2f", result[d].rate, result[d].per_doorbell);
	printf("  %8.2f\n", result[0].rate / result[1].rate);
}

static void print_json(const struct options *options, const struct sample (*results)[DESIGNS])
{
	struct fth_json j;
	unsigned at = 0;

	/* The point nearest to 16 threads is what the line is judged by. */
	for (unsigned p = 0; p < options->points; p++)
		if (abs((int)options->threads[p] - RATIO_AT) <
		    abs((int)options->threads[at] - RATIO_AT))
			at = p;
	fth_bench_json(&j, "queue", results[at][0].rate, results[at][1].rate,
		       results[at][0].rate / results[at][1].rate);
	fth_json_string(&j, "peer_name", "lock");
	fth_json_string(&j, "unit", "commands/s");
	fth_json_u64(&j, "ratio_at_threads", options->threads[at]);
	fth_json_u64(&j, "block", options->block);
	fth_json_u64(&j, "entries", options->entries);
	fth_json_u64(&j, "medium", options->medium);
	fth_json_u64(&j, "ms", options->ms);
	fth_json_u64(&j, "rounds", options->rounds);
	fth_json_array(&j, "points");
	for (unsigned p = 0; p < options->points; p++) {
		fth_json_object(&j, NULL);
		fth_json_u64(&j, "threads", options->threads[p]);
		for (unsigned d = 0; d < DESIGNS; d++) {
			fth_json_object(&j, designs[d]->name);
			fth_json_double(&j, "rate", results[p][d].rate);
			fth_json_double(&j, "commands_per_doorbell", results[p][d].per_doorbell);
			fth_json_end(&j);
		}
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

static int run_points(const struct options *options)
{
	static struct sample results[POINTS_MAX][DESIGNS];
	struct fth_dev *medium;
	char uri[64];
	int rc;

	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)options->medium);
	rc = fth_dev_open(uri, &medium);
	if (rc < 0)
		return rc;
	rc = fill_medium(medium, options->block);
	if (rc == 0 && !fth_cli_json())
		printf("threads  %15s  %15s  %8s\n", "ours/s  per db", "lock/s  per db", "/ lock");
	for (unsigned p = 0; rc == 0 && p < options->points; p++) {
		fth_cli_progress("queue", p, options->points);
		rc = measure_point(medium, options, options->threads[p], results[p]);
		fth_cli_progress_end();
		if (rc == 0)
			print_point(options->threads[p], results[p]);
	}
	fth_dev_close(medium);
	if (rc == 0)
		print_json(options, results);
	return rc;
}

/* ---- the command ---- */

static int parse_threads(const char *text, struct options *options)
{
	while (options->points < POINTS_MAX) {
		char *end;
		unsigned long n = strtoul(text, &end, 10);

		if (end == text || n == 0 || n > THREADS_MAX)
			return fth_fail(EINVAL, "--threads: expected numbers from 1 to %d",
					THREADS_MAX);
		options->threads[options->points++] = (unsigned)n;
		if (*end == '\0')
			return 0;
		if (*end != ',')
			return fth_fail(EINVAL,
					"--threads %s: expected a list of numbers, such as 1,2,4",
					text);
		text = end + 1;
	}
	return fth_fail(EINVAL, "--threads: more than %d numbers", POINTS_MAX);
}

static int check_options(struct options *options, const char *threads)
{
	int rc = parse_threads(threads, options);

	if (rc < 0)
		return rc;
	if (options->block % 512 || options->block > 4096)
		return fth_fail(EINVAL, "--block: expected a multiple of 512 up to 4096");
	if (options->entries & (options->entries - 1))
		return fth_fail(EINVAL, "--entries: expected a power of two");
	for (unsigned p = 0; p < options->points; p++)
		if (options->threads[p] >= options->entries)
			return fth_fail(EINVAL,
					"--threads %u needs a ring of more than %llu entries",
					options->threads[p], (unsigned long long)options->entries);
	options->medium -= options->medium % 4096;
	return 0;
}

static int run(int argc, char **argv)
{
	struct options options = {
		.block = 512, .entries = 1024, .medium = 64u << 20, .ms = 500, .rounds = 5};
	const char *threads = "1,2,4,8,16,32,64";
	bool smallest = false;
	const struct fth_cli_option table[] = {
		{"threads", FTH_CLI_STRING, &threads, 0, 0, "how many, a list"},
		{"block", FTH_CLI_SIZE, &options.block, 512, 4096, "bytes per command"},
		{"entries", FTH_CLI_U64, &options.entries, 2, 4096, "of the rings"},
		{"medium", FTH_CLI_SIZE, &options.medium, 4096, 1u << 30, "bytes to read from"},
		{"ms", FTH_CLI_U64, &options.ms, 1, 60000, "per measurement"},
		{"rounds", FTH_CLI_U64, &options.rounds, 1, ROUNDS_MAX, "medians are of"},
		FTH_BENCH_SMALLEST(&smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench queue [OPTION]...",
		.text = "One queue pair under many threads: ours against one lock around "
			"everything,\n"
			"on the same software controller and memory.",
		.options = table,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	if (smallest) {
		threads = "1,16";
		options.ms = 20;
		options.rounds = 1;
		options.medium = 1u << 20;
	}
	rc = check_options(&options, threads);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	return fth_app_exit("bench queue", run_points(&options));
}

const struct fth_command fth_bench_queue = {
	.name = "queue",
	.summary = "one queue pair, many threads: ours against one lock",
	.run = run,
};
