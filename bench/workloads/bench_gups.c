/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gups: random updates of a table on a file, through the cache, against the same
 * updates through mmap, each in a child that may use the same memory and no more.
 */
#include "app_options.h"
#include "common/cgroup.h"
#include "cli.h"
#include "json.h"
#include "common/median.h"
#include "common/report.h"
#include "common/scratch.h"
#include "workload_commands.h"

#include "workloads/micro/gups.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include "base/team.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What a process takes beside its data: its stacks, heap, page tables, rings. */
#define PROCESS_MEMORY (8u << 20)
#define LINE	       512u

/* What a child reports. */
struct outcome {
	uint64_t ns;
	uint64_t bytes_read, bytes_written;
};

struct bench {
	struct fth_app_options app;
	const char *folder, *options;
	uint64_t size, updates, rounds;
	bool smallest, random; /* random: the peer says MADV_RANDOM */
	struct fth_scratch scratch;
	double ours[FTH_ROUNDS_MAX], peer[FTH_ROUNDS_MAX]; /* updates a second */
	struct outcome ours_last, peer_last;
	uint64_t limit; /* of a child's memory */
};

static const struct fth_command *const commands[] = {
	&gups_run_command,
	NULL,
};

static int parse(struct bench *b, int argc, char **argv)
{
	bool readahead = false;
	const struct fth_cli_option options[] = {
		FTH_SCRATCH_OPTIONS(&b->folder, &b->options),
		{"size", FTH_CLI_SIZE, &b->size, 1 << 20, (uint64_t)1 << 40,
		 "of the table; the power of two below it is used"},
		{"updates", FTH_CLI_SIZE, &b->updates, 1, (uint64_t)1 << 40, "in each run"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"readahead", FTH_CLI_FLAG, &readahead, 0, 0,
		 "mmap without MADV_RANDOM, which is slower here as a rule"},
		FTH_APP_OPTIONS(&b->app),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gups [options]",
		.text = "Exclusive or of random 8-byte words of a table that is larger than "
			"memory,\n"
			"through the cache and through mmap, each in a child with a memory cgroup\n"
			"of the same size. Both end with a flush. Runs alternate; medians are\n"
			"compared. Each pair of runs takes back what the other did, and then "
			"every\n"
			"word is checked.",
		.options = options,
		.commands = commands,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	b->random = !readahead;
	if (b->smallest) {
		b->size = 8 << 20;
		b->app.cache = 2 << 20;
		b->updates = 2000;
		b->rounds = 1;
	}
	return status;
}

/* ---- our side ---- */

static struct fth_gups_options how(const struct bench *b)
{
	return (struct fth_gups_options){
		.words = (uint64_t)1 << (63 - __builtin_clzll(b->size / 8)),
		.updates = b->updates,
		.first = (uint64_t)1 << 40,
		.threads = (unsigned)b->app.threads,
		.stopped = fth_cli_stopped,
	};
}

struct ours {
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_array *table;
};

static int open_ours(const struct bench *b, struct ours *ours)
{
	int rc = fth_dev_open(b->scratch.uri, &ours->dev);

	if (rc == 0)
		rc = fth_app_open_cache(&b->app, LINE, &ours->cache);
	if (rc == 0)
		rc = fth_array_open_dev(ours->cache, ours->dev, sizeof(uint64_t), NULL,
					&ours->table);
	return rc;
}

static int close_ours(struct ours *ours, int rc)
{
	int closed = fth_array_finish(&ours->table);

	rc = rc < 0 ? rc : closed;
	closed = fth_cache_finish(&ours->cache);
	if (!ours->cache)
		fth_dev_close(ours->dev);
	return rc < 0 ? rc : closed;
}

/* In a child. */
static int run_ours(void *context, void *result)
{
	const struct bench *b = context;
	struct fth_gups_options options = how(b);
	struct outcome *out = result;
	struct ours ours = {0};
	uint64_t begin = fth_now_ns();
	int rc = open_ours(b, &ours);

	if (rc == 0)
		rc = fth_gups_run(ours.table, &options);
	out->ns = fth_now_ns() - begin;
	if (rc == 0) {
		out->bytes_read = fth_cache_stat(ours.cache, FTH_CACHE_BYTES_READ);
		out->bytes_written = fth_cache_stat(ours.cache, FTH_CACHE_BYTES_WRITTEN);
	}
	return close_ours(&ours, rc);
}

/* ---- the peer ---- */

struct mapped {
	struct fth_gups_options options;
	uint64_t *words;
};

static int update_mapped(void *context, unsigned thread)
{
	const struct mapped *mapped = context;
	uint64_t first, end, r;

	fth_team_part(mapped->options.updates, 1, mapped->options.threads, thread, &first, &end);
	r = fth_gups_nth(mapped->options.first + first);
	for (; first < end; first++, r = fth_gups_next(r)) {
		/* Atomic, as ours: a lost update would be no comparison. */
		__atomic_fetch_xor(&mapped->words[r & (mapped->options.words - 1)], r,
				   __ATOMIC_RELAXED);
		if (first % 1024 == 0 && fth_cli_stopped())
			return -EINTR;
	}
	return 0;
}

static int update_and_sync(const struct bench *b, struct mapped *mapped, size_t bytes)
{
	int rc = 0;

	if (b->random && madvise(mapped->words, bytes, MADV_RANDOM) < 0)
		rc = -errno;
	if (rc == 0)
		rc = fth_team_run(mapped->options.threads, update_mapped, mapped);
	if (rc == 0 && msync(mapped->words, bytes, MS_SYNC) < 0)
		rc = -errno;
	return rc;
}

/* In a child. */
static int run_peer(void *context, void *result)
{
	const struct bench *b = context;
	struct mapped mapped = {.options = how(b)};
	size_t bytes = mapped.options.words * sizeof(uint64_t);
	struct outcome *out = result;
	uint64_t begin = fth_now_ns();
	int fd = open(b->scratch.path, O_RDWR | O_CLOEXEC), rc = fd < 0 ? -errno : 0;

	if (rc == 0)
		mapped.words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (rc == 0 && mapped.words == MAP_FAILED)
		rc = -errno;
	if (rc == 0)
		rc = update_and_sync(b, &mapped, bytes);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	out->ns = fth_now_ns() - begin;
	if (mapped.words && mapped.words != MAP_FAILED)
		munmap(mapped.words, bytes);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- both ---- */

/* Fill the table, or check it, here and with whatever memory. */
static int with_table(struct bench *b, bool check)
{
	struct fth_gups_options options = how(b);
	struct ours ours = {0};
	uint64_t wrong = 0;
	int rc = open_ours(b, &ours);

	if (rc == 0)
		rc = check ? fth_gups_check(ours.table, &options, &wrong)
			   : fth_gups_fill(ours.table, &options);
	if (rc == 0 && wrong)
		rc = fth_fail(EILSEQ, "%llu words are wrong", (unsigned long long)wrong);
	return close_ours(&ours, rc);
}

/* The memory that ours takes, of which lines are the largest part, is what both get. */
static int find_limit(struct bench *b)
{
	struct fth_cache_footprint footprint;
	struct ours ours = {0};
	int rc = open_ours(b, &ours);

	if (rc == 0) {
		fth_cache_footprint(ours.cache, &footprint);
		b->limit = footprint.data_bytes + footprint.frame_bytes + footprint.line_bytes +
			   PROCESS_MEMORY;
	}
	return close_ours(&ours, rc);
}

static int measure_one(struct bench *b, int (*side)(void *, void *), struct outcome *out,
		       double *rate)
{
	struct fth_cgroup_job job = {
		.memory = b->limit,
		.fn = side,
		.context = b,
		.result = out,
		.result_size = sizeof(*out),
		.stopped = fth_cli_stopped,
	};
	struct fth_cgroup_usage usage;
	int rc = fth_cgroup_drop_pages(b->scratch.path);

	if (rc == 0)
		rc = fth_cgroup_run(&job, &usage);
	if (rc < 0)
		return rc;
	if (side == run_peer) {
		out->bytes_read = usage.bytes_read;
		out->bytes_written = usage.bytes_written;
	}
	*rate = (double)b->updates * 1e9 / (double)out->ns;
	return 0;
}

static void print_round(const struct bench *b, unsigned i)
{
	char read[2][FTH_CLI_BYTES_MAX], written[2][FTH_CLI_BYTES_MAX];

	printf("%-6u %10.0f %10s %10s   %10.0f %10s %10s %8.3f\n", i + 1, b->ours[i],
	       fth_cli_bytes(read[0], b->ours_last.bytes_read),
	       fth_cli_bytes(written[0], b->ours_last.bytes_written), b->peer[i],
	       fth_cli_bytes(read[1], b->peer_last.bytes_read),
	       fth_cli_bytes(written[1], b->peer_last.bytes_written), b->ours[i] / b->peer[i]);
	fflush(stdout);
}

static int measure(struct bench *b)
{
	int rc = 0;

	if (!fth_cli_json())
		printf("%-6s %10s %10s %10s   %10s %10s %10s %8s\n", "round", "ours, 1/s", "read",
		       "written", "mmap, 1/s", "read", "written", "ratio");
	for (unsigned i = 0; i < b->rounds && rc == 0; i++) {
		fth_cli_progress("measuring", i, b->rounds);
		rc = measure_one(b, run_ours, &b->ours_last, &b->ours[i]);
		if (rc == 0)
			rc = measure_one(b, run_peer, &b->peer_last, &b->peer[i]);
		fth_cli_progress_end();
		if (rc == 0)
			rc = with_table(b, true);
		if (rc == 0 && !fth_cli_json())
			print_round(b, i);
	}
	return rc;
}

static void report_side(struct fth_json *j, const char *key, const struct outcome *outcome)
{
	fth_json_object(j, key);
	fth_json_u64(j, "bytes_read", outcome->bytes_read);
	fth_json_u64(j, "bytes_written", outcome->bytes_written);
	fth_json_end(j);
}

static void report(const struct bench *b)
{
	double ours = fth_median(b->ours, (unsigned)b->rounds);
	double peer = fth_median(b->peer, (unsigned)b->rounds);
	struct fth_json j;

	if (!fth_cli_json())
		printf("median %10.0f %21s   %10.0f %21s %8.3f\n", ours, "", peer, "", ours / peer);
	fth_bench_json(&j, "gups", ours, peer, ours / peer);
	fth_json_string(&j, "unit", "updates/s");
	fth_json_string(&j, "peer_name", b->random ? "mmap, MADV_RANDOM" : "mmap");
	fth_json_string(&j, "device", b->scratch.uri);
	fth_json_u64(&j, "words", how(b).words);
	fth_json_u64(&j, "updates", b->updates);
	fth_json_u64(&j, "memory", b->app.cache);
	fth_json_u64(&j, "memory_limit", b->limit);
	fth_json_u64(&j, "line", b->app.line ? b->app.line : LINE);
	fth_json_u64(&j, "threads", b->app.threads);
	fth_json_u64(&j, "rounds", b->rounds);
	report_side(&j, "ours_io", &b->ours_last);
	report_side(&j, "peer_io", &b->peer_last);
	fth_json_finish(&j);
}

static int execute(struct bench *b)
{
	char size[FTH_CLI_BYTES_MAX], memory[FTH_CLI_BYTES_MAX], limit[FTH_CLI_BYTES_MAX];
	int rc = fth_scratch_open(&b->scratch, b->folder, "gups", b->size, b->options);

	/* The children open it for themselves. */
	fth_scratch_shut(&b->scratch);
	if (rc == 0 && fth_scratch_in_memory(b->scratch.path))
		rc = fth_fail(ENOTSUP, "%s is on tmpfs, where the page cache cannot be limited",
			      b->scratch.path);
	if (rc == 0)
		rc = find_limit(b);
	if (rc == 0 && !fth_cli_json())
		printf("%s: %s, cache %s, %s for each side; %llu updates\n", b->scratch.path,
		       fth_cli_bytes(size, b->size), fth_cli_bytes(memory, b->app.cache),
		       fth_cli_bytes(limit, b->limit), (unsigned long long)b->updates);
	if (rc == 0)
		rc = with_table(b, false);
	if (rc == 0)
		rc = measure(b);
	if (rc == 0)
		report(b);
	return rc;
}

static int run(int argc, char **argv)
{
	struct bench b = {
		.app = FTH_APP_DEFAULTS, .size = 512 << 20, .updates = 500000, .rounds = 3};
	int status = parse(&b, argc, argv), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_cgroup_available();
	if (rc == 0)
		rc = execute(&b);
	status = fth_app_exit_or_skip("bench gups", rc, rc == -ENOTSUP);
	fth_scratch_remove(&b.scratch);
	return status;
}

const struct fth_command fth_bench_gups = {
	.name = "gups",
	.summary = "random updates of a table on flash, against mmap",
	.run = run,
};
