/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom gpu read: threads of a GPU read a device that may be larger than its memory, and their
 * checksum is compared with the CPU's, or with one that was given.
 */
#include "commands.h"
#include "gpu_engine.h"
#include "gpu_read.h"
#include "json.h"

#include "fathom/base/error.h"
#include "fathom/dev.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_RUN (64u << 20)	      /* bytes */
#define RUN_NS	  UINT64_C(200000000) /* how long the next one should take, about */
#define PIECE	  (4u << 20)	      /* that the CPU reads at once */

struct job {
	struct gpu_reader_setup setup;
	bool given; /* a checksum to compare with */
	uint64_t expected;
	/* what came out */
	char gpu[256];
	uint64_t lines, bytes, sum;
	uint32_t block; /* of the drive */
	double seconds;
	struct gpu_reader_stats stats;
};

/* ---- the GPU ---- */

/* Runs that are long enough to be fast and short enough to be stopped. */
static int read_all(struct gpu_reader *reader, struct job *job)
{
	uint64_t n = FIRST_RUN / job->setup.line, done = 0, all = fth_now_ns();
	int rc = 0;

	while (rc == 0 && done < job->lines) {
		uint64_t begin = fth_now_ns(), took;

		if (fth_cli_stopped())
			return -EINTR;
		rc = gpu_reader_run(reader, n, &job->sum);
		done += n;
		took = fth_now_ns() - begin;
		if (took < RUN_NS / 2)
			n *= 2;
		else if (took > RUN_NS * 2 && n > 1)
			n /= 2;
		fth_cli_progress("the GPU reads", done, job->lines);
	}
	job->seconds = (double)(fth_now_ns() - all) * 1e-9;
	fth_cli_progress_end();
	return rc;
}

/* ---- the CPU ---- */

static int sum_dev(struct fth_dev *dev, uint64_t bytes, uint64_t *sum)
{
	void *buf = fth_dev_buf_alloc(dev, PIECE);
	int rc = buf ? 0 : -ENOMEM;

	for (uint64_t at = 0; rc == 0 && at < bytes; at += PIECE) {
		uint64_t n = bytes - at < PIECE ? bytes - at : PIECE;

		rc = fth_cli_stopped() ? -EINTR : fth_dev_read(dev, buf, n, at, FTH_DEV_TIMEOUT);
		if (rc == 0)
			*sum += gpu_read_sum(buf, n / 8, at / 8);
		fth_cli_progress("the CPU reads", at, bytes);
	}
	fth_cli_progress_end();
	if (buf)
		fth_dev_buf_free(dev, buf, PIECE);
	return rc;
}

static int sum_medium(struct gpu_reader *reader, uint64_t bytes, uint64_t *sum)
{
	uint64_t at = 0;
	int rc = 1;

	while (rc == 1) {
		rc = fth_cli_stopped() ? -EINTR : gpu_reader_medium(reader, &at, sum);
		fth_cli_progress("the CPU reads", at, bytes);
	}
	fth_cli_progress_end();
	return rc;
}

/* A device that has to be closed by the one before the other can open it. */
static int sum_uri(const char *uri, uint64_t bytes, uint64_t *sum)
{
	struct fth_dev *dev;
	int rc = fth_dev_open_flags(uri, FTH_DEV_READONLY, &dev);

	if (rc < 0)
		return rc;
	rc = sum_dev(dev, bytes, sum);
	fth_dev_close(dev);
	return rc;
}

/* ---- both ---- */

static int read_open(struct gpu_reader *reader, struct job *job, bool *compared)
{
	struct fth_dev *dev = gpu_reader_dev(reader);
	int rc;

	snprintf(job->gpu, sizeof(job->gpu), "%s", gpu_reader_gpu(reader));
	job->block = gpu_reader_block(reader);
	job->setup.line = gpu_reader_line(reader);
	job->lines = gpu_reader_lines(reader);
	job->bytes = job->lines * job->setup.line;
	rc = read_all(reader, job);
	if (rc == 0)
		rc = gpu_reader_stats(reader, &job->stats);
	*compared = job->given || dev || strncmp(job->setup.uri, "gpu:", 4) == 0;
	if (rc < 0 || job->given)
		return rc;
	if (dev)
		return sum_dev(dev, job->bytes, &job->expected);
	return *compared ? sum_medium(reader, job->bytes, &job->expected) : 0;
}

static int read_and_compare(struct job *job)
{
	struct gpu_reader *reader;
	bool compared = false;
	int rc = gpu_reader_open(&job->setup, &reader);

	if (rc < 0)
		return rc;
	rc = gpu_reader_close(reader, read_open(reader, job, &compared));
	if (rc == 0 && !compared)
		rc = sum_uri(job->setup.uri, job->bytes, &job->expected);
	if (rc == 0 && job->sum != job->expected)
		rc = fth_fail(EILSEQ, "checksum mismatch: the GPU read %016llx, %s %016llx",
			      (unsigned long long)job->sum,
			      job->given ? "--check gives" : "the CPU read",
			      (unsigned long long)job->expected);
	return rc;
}

/* ---- telling ---- */

static double per_line(const struct job *job)
{
	return (double)job->stats.metadata / (double)job->lines;
}

static void print_result(const struct job *job)
{
	const struct gpu_reader_stats *s = &job->stats;
	char bytes[FTH_CLI_BYTES_MAX], cache[FTH_CLI_BYTES_MAX], moved[FTH_CLI_BYTES_MAX];

	printf("GPU          %s\n", job->gpu);
	printf("drive        blocks of %u bytes\n", job->block);
	printf("read         %s (%llu bytes), lines in %s order\n",
	       fth_cli_bytes(bytes, job->bytes), (unsigned long long)job->bytes,
	       job->setup.random ? "random" : "ascending");
	printf("cache        %s in lines of %u bytes, %.1f bytes of metadata per line of data\n",
	       fth_cli_bytes(cache, job->setup.cache), job->setup.line, per_line(job));
	printf("time         %.3f s, %.3f GB/s\n", job->seconds,
	       (double)job->bytes / job->seconds * 1e-9);
	printf("misses       %llu, %llu more waited for a fetch in progress\n",
	       (unsigned long long)s->misses, (unsigned long long)s->merged);
	printf("reads        %llu, %s\n", (unsigned long long)s->reads,
	       fth_cli_bytes(moved, s->bytes_read));
	printf("evictions    %llu\n", (unsigned long long)s->evictions);
	printf("commands     %llu, %.1f per doorbell\n", (unsigned long long)s->commands,
	       s->sq_doorbells ? (double)s->commands / (double)s->sq_doorbells : 0.0);
	printf("checksum     %016llx, as %s\n", (unsigned long long)job->sum,
	       job->given ? "given" : "the CPU reads it");
}

static void print_json(const struct job *job)
{
	const struct gpu_reader_stats *s = &job->stats;
	char sum[17];
	struct fth_json j;

	snprintf(sum, sizeof(sum), "%016llx", (unsigned long long)job->sum);
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "uri", job->setup.uri);
	fth_json_string(&j, "gpu", job->gpu);
	fth_json_u64(&j, "block", job->block);
	fth_json_u64(&j, "bytes", job->bytes);
	fth_json_string(&j, "pattern", job->setup.random ? "random" : "seq");
	fth_json_u64(&j, "cache", job->setup.cache);
	fth_json_u64(&j, "line", job->setup.line);
	fth_json_double(&j, "seconds", job->seconds);
	fth_json_double(&j, "bytes_per_second", (double)job->bytes / job->seconds);
	fth_json_u64(&j, "misses", s->misses);
	fth_json_u64(&j, "merged", s->merged);
	fth_json_u64(&j, "reads", s->reads);
	fth_json_u64(&j, "bytes_read", s->bytes_read);
	fth_json_u64(&j, "evictions", s->evictions);
	fth_json_u64(&j, "commands", s->commands);
	fth_json_u64(&j, "sq_doorbells", s->sq_doorbells);
	fth_json_u64(&j, "metadata", s->metadata);
	fth_json_double(&j, "metadata_per_line", per_line(job));
	fth_json_string(&j, "checksum", sum);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int parse_pattern(const char *text, bool *random)
{
	*random = strcmp(text, "random") == 0;
	if (*random || strcmp(text, "seq") == 0)
		return 0;
	return fth_fail(EINVAL, "--pattern %s: expected seq or random", text);
}

static int parse_checksum(const char *text, struct job *job)
{
	if (!text)
		return 0;
	if (strlen(text) != 16 || strspn(text, "0123456789abcdefABCDEF") != 16)
		return fth_fail(EINVAL, "--check %s: expected 16 hexadecimal digits", text);
	job->expected = strtoull(text, NULL, 16);
	job->given = true;
	return 0;
}

static int exit_status(const char *uri, int rc)
{
	if (rc == 0)
		return FTH_EXIT_OK;
	if (rc == -EINTR)
		return FTH_EXIT_INTERRUPTED;
	/* Some texts begin with the URI already. */
	if (strncmp(fth_error_text(rc), uri, strlen(uri)) == 0)
		fth_cli_error("%s", fth_error_text(rc));
	else
		fth_cli_error("%s: %s", uri, fth_error_text(rc));
	return rc == -EOPNOTSUPP ? FTH_EXIT_IMPOSSIBLE : FTH_EXIT_FAILED;
}

static int run(int argc, char **argv)
{
	struct job job = {.setup = {.cache = 256u << 20}};
	uint64_t line = 0, queues = 0, device = 0;
	const char *pattern = "seq", *checksum = NULL;
	const struct fth_cli_option options[] = {
		FTH_CLI_WAS("cache", "memory"),
		{"memory", FTH_CLI_SIZE, &job.setup.cache, 512, (uint64_t)1 << 44,
		 "bytes of GPU memory for the cache"},
		{"line", FTH_CLI_SIZE, &line, 512, 8192,
		 "bytes of a cache line, a power of two; default 4096, or a larger block size"},
		{"pattern", FTH_CLI_STRING, &pattern, 0, 0, "order of the lines: seq or random"},
		{"check", FTH_CLI_STRING, &checksum, 0, 0,
		 "expected checksum; default: the CPU reads the device and computes it"},
		{"queues", FTH_CLI_U64, &queues, 0, 1024, "queue pairs; 0: chosen for the GPU"},
		{"gpu", FTH_CLI_U64, &device, 0, 63, "number of the GPU in `fathom gpu ls`"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "gpu read [OPTION]... URI",
		.text = "Let threads of a GPU read all of a device, which may be larger than its\n"
			"memory, through a cache there. Their checksum is compared with the "
			"CPU's.\n"
			"URI is any device, or gpu:host?bytes=SIZE or gpu:hbm?bytes=SIZE, that is\n"
			"pinned host memory or GPU memory behind a controller on the GPU itself.",
		.options = options,
		.min_args = 1,
		.max_args = 1,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = parse_pattern(pattern, &job.setup.random);
	if (rc == 0)
		rc = parse_checksum(checksum, &job);
	if (rc == 0 && line & (line - 1))
		rc = fth_fail(EINVAL, "--line %llu: expected a power of two",
			      (unsigned long long)line);
	if (rc == 0 && job.setup.cache < (line ? line : GPU_READER_LINE))
		rc = fth_fail(EINVAL, "--memory is smaller than a line of %llu bytes",
			      (unsigned long long)(line ? line : GPU_READER_LINE));
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_USAGE;
	}
	job.setup.uri = args[0];
	job.setup.line = (uint32_t)line;
	job.setup.queues = (uint32_t)queues;
	job.setup.device = (unsigned)device;
	rc = read_and_compare(&job);
	if (rc == 0 && fth_cli_json())
		print_json(&job);
	else if (rc == 0)
		print_result(&job);
	return exit_status(args[0], rc);
}

const struct fth_command fth_cmd_gpu_read = {
	.name = "read",
	.summary = "let a GPU read a whole device, and compare checksums",
	.run = run,
};
