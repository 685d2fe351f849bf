/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench dev: random 4 KiB reads and writes through a file: device, against fio with the
 * same engine on the same file.
 *
 * Siblings: dev_load.c is our side, fio.c the peer's, stamp.c the data that can be checked.
 *
 * The first half of the file is ours, and always holds stamped blocks; both sides read there.
 * We write there too; fio writes to the second half, so that it leaves the stamps alone.
 */
#include "app_options.h"
#include "cli.h"
#include "dev_load.h"
#include "fio.h"
#include "json.h"
#include "common/report.h"
#include "common/rounds.h"
#include "common/scratch.h"
#include "common/stamp.h"

#include "fathom/base/error.h"
#include "fathom/base/uri.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEPTHS_MAX  16
#define DEPTH_LIMIT 1024
#define SIZE_MIN    (16u << 20) /* leaves more blocks than DEPTH_LIMIT to each side */
/*
 * Taking all that has completed before submitting anything lets the device run dry in between;
 * one at a time costs a system call for each. A sixteenth of the depth is close to the best of
 * both on disks.
 */
#define BATCH_SHARE 16

/* One line of the table: reads or writes at one depth. */
struct cell {
	struct fth_dev_load_kind kind;
	struct fth_rounds iops;
};

struct bench {
	const char *path;
	char own_path[4096]; /* where the user named none */
	const char *options; /* of the device */
	uint64_t size;
	double seconds;
	uint64_t rounds;
	uint64_t batch; /* 0: BATCH_SHARE of the depth */
	bool force, smallest;
	const char *depths_text;
	unsigned depths[DEPTHS_MAX];
	unsigned depth_count;

	bool direct;
	struct fth_scratch scratch;
	char fio_version[64];
	struct fth_dev_load load;
	struct cell cells[2 * DEPTHS_MAX];
	unsigned cell_count;
	uint64_t verified; /* blocks checked whole after writing */
};

/* ---- options ---- */

static bool parse_depths(struct bench *b)
{
	const char *at = b->depths_text;
	char *end;

	do {
		unsigned long depth = strtoul(at, &end, 10);

		if (end == at || depth < 1 || depth > DEPTH_LIMIT || b->depth_count == DEPTHS_MAX)
			return false;
		b->depths[b->depth_count++] = (unsigned)depth;
		at = end + 1;
	} while (*end == ',');
	return *end == '\0';
}

static const char *name_file(struct bench *b)
{
	snprintf(b->own_path, sizeof(b->own_path), "%s/fathom-bench-%ld.data",
		 fth_scratch_folder(NULL), (long)getpid());
	return b->own_path;
}

static int check_options(struct bench *b)
{
	if (!b->path)
		b->path = name_file(b);
	if (b->smallest) {
		b->size = SIZE_MIN;
		b->seconds = 0.1;
		b->rounds = 1;
		b->depths_text = "1,32";
	}
	if (!parse_depths(b)) {
		fth_cli_error("--depths %s: expected up to %d numbers from 1 to %d, such as 1,32",
			      b->depths_text, DEPTHS_MAX, DEPTH_LIMIT);
		return FTH_EXIT_USAGE;
	}
	if (fth_scratch_refused(b->path, b->force))
		return FTH_EXIT_USAGE;
	return FTH_CLI_GO_ON;
}

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"file", FTH_CLI_STRING, &b->path, 0, 0,
		 "file or block device; default: a new file in TMPDIR or /tmp"},
		{"size", FTH_CLI_SIZE, &b->size, SIZE_MIN, (uint64_t)1 << 44, "size of a new file"},
		{"seconds", FTH_CLI_DOUBLE, &b->seconds, 0, 0, "duration of one run"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"depths", FTH_CLI_STRING, &b->depths_text, 0, 0, "requests in flight"},
		{"batch", FTH_CLI_U64, &b->batch, 0, DEPTH_LIMIT,
		 "most requests submitted at once, 0 for depth/16"},
		{"options", FTH_CLI_STRING, &b->options, 0, 0, "of the device, as in its URI"},
		FTH_CLI_FORCE(&b->force, "overwrite a file"),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench dev [options]",
		.text = "Random 4 KiB reads and writes through a file: device, against fio with\n"
			"io_uring, registered file and buffers, at the same depths on the same\n"
			"file. Runs alternate; medians are compared. Every block read is checked\n"
			"at both ends, every 64th whole, and all of them after writing. The file\n"
			"is made and removed unless it exists.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : check_options(b);
}

/* ---- the file ---- */

static int open_file(struct bench *b)
{
	int rc = fth_scratch_use(&b->scratch, b->path, b->size, b->options);

	if (rc < 0)
		return rc;
	b->load.dev = b->scratch.dev;
	b->size = fth_dev_info(b->load.dev)->size;
	b->direct = fth_dev_info(b->load.dev)->align > 1;
	b->load.blocks = b->size / 2 / FTH_STAMP_BLOCK;
	if (b->size < SIZE_MIN)
		return fth_fail(EINVAL, "%s is smaller than 16 MiB", b->path);
	b->load.generations = calloc(b->load.blocks, sizeof(uint32_t));
	return b->load.generations ? 0 : -ENOMEM;
}

/* fio's half is written as well, so that neither side writes into holes. */
static int fill_peer_half(struct bench *b)
{
	uint64_t half = b->load.blocks * FTH_STAMP_BLOCK, step = 1 << 20;
	char *buf = fth_dev_buf_alloc(b->load.dev, step);
	int rc = buf ? 0 : -ENOMEM;

	for (uint64_t at = 0; rc == 0 && at < half && !fth_cli_stopped(); at += step) {
		fth_cli_progress("filling", half + at, 2 * half);
		rc = fth_dev_write(b->load.dev, buf, half - at < step ? half - at : step, half + at,
				   FTH_DEV_TIMEOUT);
	}
	fth_cli_progress_end();
	fth_dev_buf_free(b->load.dev, buf, step);
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

static int fill(struct bench *b)
{
	struct fth_dev_load_result result;
	int rc = judge(fth_dev_load_fill(&b->load, &result), &result);

	if (rc == 0)
		rc = fill_peer_half(b);
	return rc < 0 ? rc : fth_dev_flush(b->load.dev, FTH_DEV_TIMEOUT);
}

static int verify(struct bench *b)
{
	struct fth_dev_load_result result;
	int rc = judge(fth_dev_load_verify(&b->load, &result), &result);

	b->verified += result.done;
	return rc;
}

/* ---- measuring ---- */

static int run_ours(struct bench *b, const struct cell *cell, double *iops)
{
	struct fth_dev_load_result result;
	int rc = fth_dev_load_run(&b->load, &cell->kind, (uint64_t)(b->seconds * 1e9), &result);

	rc = judge(rc, &result);
	if (rc == 0)
		*iops = (double)result.done * 1e9 / (double)result.ns;
	return rc;
}

static int run_peer(struct bench *b, const struct cell *cell, double *iops)
{
	uint64_t half = b->load.blocks * FTH_STAMP_BLOCK;
	struct fth_fio job = {
		.path = b->path,
		.offset = cell->kind.write ? half : 0,
		.size = half,
		.write = cell->kind.write,
		.direct = b->direct,
		.depth = cell->kind.depth,
		.batch = cell->kind.batch,
		.milliseconds = (unsigned)(b->seconds * 1e3),
	};

	return fth_fio_run(&job, iops);
}

static int measure_cell(struct bench *b, struct cell *cell)
{
	double ours = 0, peer = 0;
	int rc = 0;

	for (unsigned i = 0; i < b->rounds && rc == 0; i++) {
		if (fth_cli_stopped())
			return -EINTR;
		rc = run_ours(b, cell, &ours);
		if (rc == 0)
			rc = run_peer(b, cell, &peer);
		fth_rounds_add(&cell->iops, ours, peer);
	}
	if (rc == 0 && cell->kind.write)
		rc = verify(b);
	return fth_cli_stopped() ? -EINTR : rc;
}

static void print_cell(const struct cell *cell)
{
	printf("%-6s %6u %14.0f %14.0f %8.3f\n", cell->kind.write ? "write" : "read",
	       cell->kind.depth, fth_rounds_ours(&cell->iops), fth_rounds_peer(&cell->iops),
	       fth_rounds_ratio(&cell->iops));
	fflush(stdout);
}

static struct fth_dev_load_kind kind_of(const struct bench *b, unsigned index)
{
	struct fth_dev_load_kind kind = {
		.write = index >= b->depth_count,
		.depth = b->depths[index % b->depth_count],
	};

	kind.batch = b->batch ? (unsigned)b->batch : kind.depth / BATCH_SHARE;
	if (kind.batch == 0)
		kind.batch = 1;
	if (kind.batch > kind.depth)
		kind.batch = kind.depth;
	return kind;
}

static int measure(struct bench *b)
{
	int rc = 0;

	if (!fth_cli_json())
		printf("%-6s %6s %14s %14s %8s\n", "kind", "depth", "ours, IOPS", "fio, IOPS",
		       "ratio");
	for (unsigned i = 0; i < 2 * b->depth_count && rc == 0; i++) {
		struct cell *cell = &b->cells[b->cell_count++];

		cell->kind = kind_of(b, i);
		fth_cli_progress("measuring", i, 2 * b->depth_count);
		rc = measure_cell(b, cell);
		fth_cli_progress_end();
		if (rc == 0 && !fth_cli_json())
			print_cell(cell);
	}
	return rc;
}

/* ---- reporting ---- */

static void report_cells(struct fth_json *j, const struct bench *b)
{
	fth_json_array(j, "results");
	for (unsigned i = 0; i < b->cell_count; i++) {
		const struct cell *cell = &b->cells[i];

		fth_json_object(j, NULL);
		fth_json_string(j, "kind", cell->kind.write ? "write" : "read");
		fth_json_u64(j, "depth", cell->kind.depth);
		fth_json_u64(j, "batch", cell->kind.batch);
		fth_rounds_members(j, &cell->iops);
		fth_json_end(j);
	}
	fth_json_end(j);
}

static void report_parameters(struct fth_json *j, const struct bench *b)
{
	fth_json_string(j, "unit", "IOPS, geometric mean over kinds and depths");
	fth_json_string(j, "device", fth_dev_uri(b->load.dev));
	fth_json_u64(j, "size", b->size);
	fth_json_u64(j, "block", FTH_STAMP_BLOCK);
	fth_json_bool(j, "direct", b->direct);
	fth_json_double(j, "seconds", b->seconds);
	fth_json_u64(j, "rounds", b->rounds);
	fth_json_string(j, "fio", b->fio_version);
	fth_json_u64(j, "check_sample", FTH_DEV_LOAD_SAMPLE);
	fth_json_u64(j, "blocks_verified", b->verified);
}

static void report(const struct bench *b)
{
	double ours = 0, peer = 0, least = INFINITY;
	struct fth_json j;

	for (unsigned i = 0; i < b->cell_count; i++) {
		ours += log(fth_rounds_ours(&b->cells[i].iops));
		peer += log(fth_rounds_peer(&b->cells[i].iops));
		least = fmin(least, fth_rounds_ratio(&b->cells[i].iops));
	}
	ours = exp(ours / b->cell_count);
	peer = exp(peer / b->cell_count);
	if (!fth_cli_json())
		printf("geometric mean %13.0f %14.0f %8.3f   (least %.3f)\n", ours, peer,
		       ours / peer, least);
	fth_bench_json(&j, "dev", ours, peer, ours / peer);
	fth_json_double(&j, "min_ratio", least);
	report_parameters(&j, b);
	report_cells(&j, b);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int execute(struct bench *b)
{
	char size[FTH_CLI_BYTES_MAX];
	int rc = open_file(b);

	if (rc < 0)
		return rc;
	if (!fth_cli_json())
		printf("%s, %s, %s; %s; %g s each, median of %llu\n", b->path,
		       fth_cli_bytes(size, b->size), b->direct ? "direct" : "buffered",
		       b->fio_version, b->seconds, (unsigned long long)b->rounds);
	rc = fill(b);
	if (rc == 0 && fth_cli_stopped())
		rc = -EINTR;
	if (rc == 0)
		rc = measure(b);
	if (rc == 0)
		report(b);
	return rc;
}

static int run(int argc, char **argv)
{
	struct bench b = {.size = 1 << 30, .seconds = 1, .rounds = 5, .depths_text = "1,32,128"};
	int status = parse(&b, argc, argv), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (fth_fio_version(b.fio_version, sizeof(b.fio_version)) < 0) {
		fth_cli_error("fio, the program to compare with, is not installed");
		return FTH_EXIT_IMPOSSIBLE;
	}
	rc = execute(&b);
	status = fth_app_exit_or_skip(b.path, rc, rc == -ENOSYS || rc == -EPERM);
	free(b.load.generations);
	fth_scratch_remove(&b.scratch);
	return status;
}

const struct fth_command fth_bench_dev = {
	.name = "dev",
	.summary = "random reads and writes of a file, against fio",
	.run = run,
};
