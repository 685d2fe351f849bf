/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver dev: our side of `fathom bench dev`. Fills a file with data that can be
 * checked, prints a line of JSON about it, and then does what the lines on standard input say, each
 * with a line of JSON as its answer:
 *
 *	read DEPTH BATCH SECONDS	random reads, BATCH at most submitted and reaped at once:
 *					{"iops":N}
 *	write DEPTH BATCH SECONDS	random writes
 *	verify				read all blocks and check them: {"blocks":N}
 *
 * The first half of the file is ours, and always holds stamped blocks (stamp.h); the peer may read
 * there. We write there too; the peer writes to the second half, so that it leaves the stamps
 * alone. A file that was made is removed at the end.
 */
#include "app_options.h"
#include "common/scratch.h"
#include "common/stamp.h"
#include "dev_load.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MIN (16u << 20) /* leaves more blocks than a depth of 1024 to each side */

struct driver {
	const char *path, *options; /* of the device */
	uint64_t size;
	struct fth_scratch scratch;
	struct fth_dev_load load;
};

static void print_result(const char *key, double value)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_double(&j, key, value);
	fth_json_finish(&j);
}

/* ---- the file ---- */

static int open_file(struct driver *d)
{
	int rc = fth_scratch_use(&d->scratch, d->path, d->size, d->options);

	if (rc < 0)
		return rc;
	d->load.dev = d->scratch.dev;
	d->size = fth_dev_info(d->load.dev)->size;
	d->load.blocks = d->size / 2 / FTH_STAMP_BLOCK;
	if (d->size < SIZE_MIN)
		return fth_fail(EINVAL, "%s is smaller than 16 MiB", d->path);
	d->load.generations = calloc(d->load.blocks, sizeof(uint32_t));
	return d->load.generations ? 0 : -ENOMEM;
}

/* fio's half is written as well, so that neither side writes into holes. */
static int fill_peer_half(struct driver *d)
{
	uint64_t half = d->load.blocks * FTH_STAMP_BLOCK, step = 1 << 20;
	char *buf = fth_dev_buf_alloc(d->load.dev, step);
	int rc = buf ? 0 : -ENOMEM;

	for (uint64_t at = 0; rc == 0 && at < half && !fth_cli_stopped(); at += step) {
		fth_cli_progress("filling", half + at, 2 * half);
		rc = fth_dev_write(d->load.dev, buf, half - at < step ? half - at : step, half + at,
				   FTH_DEV_TIMEOUT);
	}
	fth_cli_progress_end();
	fth_dev_buf_free(d->load.dev, buf, step);
	return rc;
}

/* Turn what a load found into an error. */
static int judge(int rc, const struct fth_dev_load_result *result)
{
	if (rc < 0)
		return rc;
	if (result->wrong)
		return fth_fail(EILSEQ, "%llu of %llu blocks have wrong data",
				(unsigned long long)result->wrong,
				(unsigned long long)result->done);
	if (result->errors)
		return fth_fail(EIO, "%llu of %llu requests failed",
				(unsigned long long)result->errors,
				(unsigned long long)result->done);
	return 0;
}

static int fill(struct driver *d)
{
	struct fth_dev_load_result result;
	int rc = judge(fth_dev_load_fill(&d->load, &result), &result);

	if (rc == 0)
		rc = fill_peer_half(d);
	return rc < 0 ? rc : fth_dev_flush(d->load.dev, FTH_DEV_TIMEOUT);
}

static int verify(struct driver *d)
{
	struct fth_dev_load_result result;
	int rc = judge(fth_dev_load_verify(&d->load, &result), &result);

	if (rc == 0)
		print_result("blocks", (double)result.done);
	return rc;
}

static void print_file(const struct driver *d)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "device", fth_dev_uri(d->load.dev));
	fth_json_u64(&j, "size", d->size);
	fth_json_u64(&j, "half", d->load.blocks * FTH_STAMP_BLOCK);
	fth_json_u64(&j, "block", FTH_STAMP_BLOCK);
	fth_json_bool(&j, "direct", fth_dev_info(d->load.dev)->align > 1);
	fth_json_u64(&j, "check_sample", FTH_DEV_LOAD_SAMPLE);
	fth_json_finish(&j);
}

/* ---- orders ---- */

static int run_load(struct driver *d, const struct fth_dev_load_kind *kind, double seconds)
{
	struct fth_dev_load_result result;
	int rc = fth_dev_load_run(&d->load, kind, (uint64_t)(seconds * 1e9), &result);

	rc = judge(rc, &result);
	if (rc == 0)
		print_result("iops", (double)result.done * 1e9 / (double)result.ns);
	return rc;
}

static int obey(struct driver *d, const char *line)
{
	struct fth_dev_load_kind kind = {0};
	char word[16] = "";
	double seconds;
	int n = sscanf(line, "%15s %u %u %lf", word, &kind.depth, &kind.batch, &seconds);

	if (n == 1 && strcmp(word, "verify") == 0)
		return verify(d);
	kind.write = strcmp(word, "write") == 0;
	if (n != 4 || (!kind.write && strcmp(word, "read") != 0))
		return fth_fail(EINVAL, "cannot parse: %s", line);
	return run_load(d, &kind, seconds);
}

static int execute(struct driver *d)
{
	char line[128];
	int rc = d->path ? open_file(d) : fth_fail(EINVAL, "--file is required");

	if (rc == 0)
		rc = fill(d);
	if (rc == 0 && !fth_cli_stopped())
		print_file(d);
	while (rc == 0 && !fth_cli_stopped() && fgets(line, sizeof(line), stdin))
		rc = obey(d, line);
	return rc;
}

static int run(int argc, char **argv)
{
	struct driver d = {.size = 1 << 30};
	const struct fth_cli_option options[] = {
		{"file", FTH_CLI_STRING, &d.path, 0, 0, "file or block device, overwritten"},
		{"size", FTH_CLI_SIZE, &d.size, SIZE_MIN, (uint64_t)1 << 44, "size of a new file"},
		{"options", FTH_CLI_STRING, &d.options, 0, 0, "of the device, as in its URI"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver dev [options]",
		.text = "Random reads and writes of a file, as standard input says.",
		.options = options,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = execute(&d);
	free(d.load.generations);
	fth_scratch_remove(&d.scratch);
	return fth_app_exit_or_skip(d.path ? d.path : "dev", rc, rc == -ENOSYS || rc == -EPERM);
}

const struct fth_command fth_driver_dev = {
	.name = "dev",
	.summary = "our side of the benchmark dev",
	.run = run,
};
