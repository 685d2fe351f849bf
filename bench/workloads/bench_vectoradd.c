/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench vectoradd: c = a + b on flash through the cache, against a loop over tiles written
 * by hand (vectoradd_tiled.c), with the same memory, on the same file.
 */
#include "app_options.h"
#include "cli.h"
#include "json.h"
#include "common/median.h"
#include "common/report.h"
#include "common/scratch.h"
#include "workload_commands.h"
#include "vectoradd_tiled.h"

#include "workloads/micro/vectoradd.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct bench {
	struct fth_app_options app;
	const char *folder, *options;
	uint64_t size, tile, ahead, rounds; /* size: bytes of each vector; tile 0: the best */
	bool smallest;
	struct fth_scratch scratch;
	struct fth_cache *cache;
	struct fth_array *arrays[3];
	char *buffer;					   /* the peer's */
	double ours[FTH_ROUNDS_MAX], peer[FTH_ROUNDS_MAX]; /* bytes a second, in and out */
	uint64_t bytes_read, bytes_written;		   /* ours, of the last round */
	uint64_t write_requests;
	uint64_t verified; /* elements */
};

static const struct fth_command *const commands[] = {
	&vectoradd_run_command,
	NULL,
};

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		FTH_SCRATCH_OPTIONS(&b->folder, &b->options),
		{"size", FTH_CLI_SIZE, &b->size, 65536, (uint64_t)1 << 42, "of each vector"},
		{"tile", FTH_CLI_SIZE, &b->tile, 4096, 1 << 26,
		 "of the peer; default the best of 64K to 1M"},
		{"ahead", FTH_CLI_SIZE, &b->ahead, 0, 0,
		 "ours: bytes of each input on their way; default a 16th of the memory"},
		FTH_BENCH_ROUNDS(&b->rounds),
		FTH_APP_OPTIONS(&b->app),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench vectoradd [options]",
		.text = "c = a + b over arrays on a file, larger than the cache, against a loop\n"
			"that reads, adds and writes tiles with as many under way as fit into the\n"
			"same memory. Both end with a flush. Runs alternate; medians are "
			"compared.\n"
			"Every element is checked after every run.",
		.options = options,
		.commands = commands,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (b->smallest) {
		b->size = 4 << 20;
		b->app.cache = 2 << 20;
		b->tile = 128 << 10;
		b->rounds = 1;
	}
	b->size = b->size / FTH_CACHE_LINE_MAX * FTH_CACHE_LINE_MAX;
	b->tile = b->tile / 4096 * 4096;
	return FTH_CLI_GO_ON;
}

/* ---- cache and buffers ---- */

static int open_all(struct bench *b)
{
	int rc = fth_scratch_open(&b->scratch, b->folder, "vectoradd", 3 * b->size, b->options);

	if (rc == 0)
		rc = fth_app_open_cache(&b->app, FTH_CACHE_LINE_MAX, &b->cache);
	for (unsigned i = 0; i < 3 && rc == 0; i++) {
		struct fth_array_options options = {
			.size = sizeof(struct fth_array_options),
			.offset = i * b->size,
			.count = b->size / sizeof(double),
		};

		rc = fth_array_open_dev(b->cache, b->scratch.dev, sizeof(double), &options,
					&b->arrays[i]);
	}
	if (rc < 0)
		return rc;
	b->buffer = fth_dev_buf_alloc(b->scratch.dev, b->app.cache);
	if (!b->buffer)
		return -ENOMEM;
	memset(b->buffer, 1, b->app.cache); /* its pages are there, as those of the cache are */
	return 0;
}

static int close_all(struct bench *b, int rc)
{
	int closed;

	for (unsigned i = 0; i < 3; i++) {
		closed = fth_array_finish(&b->arrays[i]);
		if (rc == 0)
			rc = closed;
	}
	closed = fth_cache_finish(&b->cache);
	if (b->buffer)
		fth_dev_buf_free(b->scratch.dev, b->buffer, b->app.cache);
	if (!b->cache)
		fth_scratch_remove(&b->scratch);
	return rc < 0 ? rc : closed;
}

static int empty_cache(struct bench *b)
{
	int rc = 0;

	for (unsigned i = 0; i < 3 && rc == 0; i++)
		rc = fth_cache_evict(fth_array_range(b->arrays[i]), 0, UINT64_MAX);
	return rc;
}

/* ---- the two sides ---- */

static struct fth_vectoradd_options how(const struct bench *b)
{
	return (struct fth_vectoradd_options){
		.threads = (unsigned)b->app.threads,
		.ahead = b->ahead,
		.stopped = fth_cli_stopped,
	};
}

static int run_ours(struct bench *b)
{
	struct fth_vectoradd_options options = how(b);
	uint64_t read = fth_cache_stat(b->cache, FTH_CACHE_BYTES_READ);
	uint64_t written = fth_cache_stat(b->cache, FTH_CACHE_BYTES_WRITTEN);
	uint64_t requests = fth_cache_stat(b->cache, FTH_CACHE_WRITE_REQUESTS);
	int rc = fth_vectoradd_run(b->arrays[0], b->arrays[1], b->arrays[2], &options);

	b->bytes_read = fth_cache_stat(b->cache, FTH_CACHE_BYTES_READ) - read;
	b->bytes_written = fth_cache_stat(b->cache, FTH_CACHE_BYTES_WRITTEN) - written;
	b->write_requests = fth_cache_stat(b->cache, FTH_CACHE_WRITE_REQUESTS) - requests;
	return rc;
}

static int run_peer(struct bench *b)
{
	struct fth_tiled tiled = {
		.dev = b->scratch.dev,
		.a = 0,
		.b = b->size,
		.c = 2 * b->size,
		.bytes = b->size,
		.buffer = b->buffer,
		.memory = b->app.cache,
		.tile = b->tile,
		.threads = (unsigned)b->app.threads,
		.stopped = fth_cli_stopped,
	};

	return fth_tiled_run(&tiled);
}

/* ---- measuring ---- */

static int fill(struct bench *b)
{
	struct fth_vectoradd_options options = how(b);
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		fth_cli_progress("filling", i, 2);
		rc = fth_vectoradd_fill(b->arrays[i], b->app.seed, i, &options);
	}
	fth_cli_progress_end();
	return rc;
}

/* So that what the other side left there does not pass for ours. Written, not zeroed: a file system
 * may take longer over the first write to zeroes. */
static int spoil(struct bench *b)
{
	uint64_t step = 1 << 20;
	char *junk = fth_dev_buf_alloc(b->scratch.dev, step);
	int rc = junk ? 0 : -ENOMEM;

	if (junk)
		memset(junk, 0xa5, step);
	for (uint64_t at = 0; at < b->size && rc == 0; at += step)
		rc = fth_dev_write(b->scratch.dev, junk, b->size - at < step ? b->size - at : step,
				   2 * b->size + at, FTH_DEV_TIMEOUT);
	fth_dev_buf_free(b->scratch.dev, junk, step);
	return rc < 0 ? rc : fth_dev_flush(b->scratch.dev, FTH_DEV_TIMEOUT);
}

static int verify(struct bench *b)
{
	struct fth_vectoradd_options options = how(b);
	uint64_t wrong = 0;
	int rc = empty_cache(b);

	if (rc == 0)
		rc = fth_vectoradd_check(b->arrays[2], b->app.seed, &options, &wrong);
	if (rc == 0 && wrong)
		rc = fth_fail(EILSEQ, "%llu elements are wrong", (unsigned long long)wrong);
	b->verified += b->size / sizeof(double);
	return rc;
}

static int measure_one(struct bench *b, int (*side)(struct bench *), double *rate)
{
	int rc = empty_cache(b);
	uint64_t begin;

	if (rc == 0)
		rc = spoil(b);
	begin = fth_now_ns();
	if (rc == 0)
		rc = side(b);
	*rate = 3 * (double)b->size * 1e9 / (double)(fth_now_ns() - begin);
	return rc < 0 ? rc : verify(b);
}

/* The size of tile that suits the peer best differs from device to device: try a few. */
static int choose_tile(struct bench *b)
{
	static const uint64_t tiles[] = {64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20};
	double best = 0, rate = 0;
	uint64_t chosen = 0;
	int rc = 0;

	if (b->tile)
		return 0;
	for (unsigned i = 0; i < sizeof(tiles) / sizeof(tiles[0]) && rc == 0; i++) {
		b->tile = tiles[i];
		if (b->app.cache / b->app.threads < 4 * b->tile)
			break;
		rc = measure_one(b, run_peer, &rate);
		if (rc == 0 && rate > best) {
			best = rate;
			chosen = b->tile;
		}
	}
	b->tile = chosen;
	if (rc == 0 && !chosen)
		rc = fth_fail(EINVAL, "the memory is too small for tiles of 64 KiB");
	return rc;
}

static int measure(struct bench *b)
{
	int rc = 0;

	for (unsigned i = 0; i < b->rounds && rc == 0; i++) {
		fth_cli_progress("measuring", i, b->rounds);
		rc = measure_one(b, run_ours, &b->ours[i]);
		if (rc == 0)
			rc = measure_one(b, run_peer, &b->peer[i]);
		fth_cli_progress_end();
		if (rc == 0 && !fth_cli_json())
			printf("round %-3u %12.1f MB/s %12.1f MB/s %8.3f\n", i + 1,
			       b->ours[i] / 1e6, b->peer[i] / 1e6, b->ours[i] / b->peer[i]);
		fflush(stdout);
	}
	return rc;
}

static void report(const struct bench *b)
{
	double ours = fth_median(b->ours, (unsigned)b->rounds);
	double peer = fth_median(b->peer, (unsigned)b->rounds);
	struct fth_json j;

	if (!fth_cli_json())
		printf("median    %12.1f MB/s %12.1f MB/s %8.3f\n", ours / 1e6, peer / 1e6,
		       ours / peer);
	fth_bench_json(&j, "vectoradd", ours, peer, ours / peer);
	fth_json_string(&j, "unit", "bytes/s, two read and one written");
	fth_json_string(&j, "device", b->scratch.uri);
	fth_json_u64(&j, "size", b->size);
	fth_json_u64(&j, "memory", b->app.cache);
	fth_json_u64(&j, "line", b->app.line ? b->app.line : FTH_CACHE_LINE_MAX);
	fth_json_u64(&j, "tile", b->tile);
	fth_json_u64(&j, "threads", b->app.threads);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_u64(&j, "bytes_read", b->bytes_read);
	fth_json_u64(&j, "bytes_written", b->bytes_written);
	fth_json_u64(&j, "write_requests", b->write_requests);
	fth_json_u64(&j, "elements_verified", b->verified);
	fth_json_finish(&j);
}

static int execute(struct bench *b)
{
	char size[FTH_CLI_BYTES_MAX], memory[FTH_CLI_BYTES_MAX];
	int rc = open_all(b);

	if (rc == 0)
		rc = fill(b);
	if (rc == 0)
		rc = choose_tile(b);
	if (rc == 0 && !fth_cli_json())
		printf("%s: three vectors of %s, memory %s, tiles of %llu KiB\n%9s %17s %17s "
		       "%8s\n",
		       b->scratch.path, fth_cli_bytes(size, b->size),
		       fth_cli_bytes(memory, b->app.cache), (unsigned long long)b->tile >> 10, "",
		       "ours", "tiles", "ratio");
	if (rc == 0)
		rc = measure(b);
	if (rc == 0)
		report(b);
	return close_all(b, rc);
}

static int run(int argc, char **argv)
{
	struct bench b = {.app = FTH_APP_DEFAULTS, .size = 1 << 30, .rounds = 5};
	int status = parse(&b, argc, argv);

	return status != FTH_CLI_GO_ON ? status : fth_app_exit("bench vectoradd", execute(&b));
}

const struct fth_command fth_bench_vectoradd = {
	.name = "vectoradd",
	.summary = "c = a + b on flash, against a hand-tiled loop",
	.run = run,
};
