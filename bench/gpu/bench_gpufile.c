/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench gpufile: GPU threads that use a file, or any other device, which threads of the CPU
 * serve: random blocks, and an array through a cache. Against a program whose CPU threads, as many,
 * read the same data and copy it to the GPU, for which they must know beforehand what it needs.
 *
 * Siblings: gpufile.cu and gpufile_peer.cu are the two sides, gpufile_host.c what both do on the CPU.
 */
#include "app_options.h"
#include "cli.h"
#include "gpufile.h"
#include "json.h"
#include "report.h"
#include "rounds.h"
#include "scratch.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CPU_THREADS_MOST  8 /* by default; half of the processors, the others have work as well */
#define QUEUES_PER_THREAD 4
#define THREADS_PER_QUEUE 256
#define SEED_MAX	  65535 /* 24 bits are for seeds and runs that write */

struct options {
	const char *device, *folder, *file_options;
	uint64_t size, cache, queues, entries, cpu_threads, gpu_threads, ahead, depth, batch, seed;
	uint64_t ms, rounds;
	bool overwrite, smallest;
};

static const char *const names[GPUFILE_CASES] = {"read_512", "read_4096", "sequential", "random",
						 "write_read_4096"};

struct table {
	struct fth_rounds rounds[GPUFILE_CASES];
	uint64_t commands[GPUFILE_CASES]; /* of the last round */
};

static bool through_cache(int what)
{
	return what == GPUFILE_SEQUENTIAL || what == GPUFILE_RANDOM;
}

/* ---- measuring ---- */

static void print_case(int what, const struct table *t)
{
	const struct fth_rounds *r = &t->rounds[what];
	bool bytes = through_cache(what);
	double unit = bytes ? 1e-9 : 1e-6;

	if (fth_cli_json())
		return;
	printf("%-16s %12.4f %12.4f %-10s %8.3f %12llu\n", names[what], fth_rounds_ours(r) * unit,
	       fth_rounds_peer(r) * unit, bytes ? "GB/s" : "M/s", fth_rounds_ratio(r),
	       (unsigned long long)t->commands[what]);
	fflush(stdout);
}

static int measure_case(struct gpufile *bench, const struct options *o, int what, struct table *t)
{
	struct gpufile_round round = {0};

	for (uint64_t r = 0; r < o->rounds; r++) {
		int rc;

		fth_cli_progress(names[what], r, o->rounds);
		rc = gpufile_run(bench, (enum gpufile_case)what, &round);
		if (rc < 0)
			return rc;
		if (fth_cli_stopped())
			return -EINTR;
		fth_rounds_add(&t->rounds[what], round.ours, round.peer);
		t->commands[what] = round.commands;
	}
	return 0;
}

static int measure(struct gpufile *bench, const struct options *o, struct table *t)
{
	int rc = 0;

	if (!fth_cli_json())
		printf("%-16s %12s %12s %-10s %8s %12s\n", "", "ours", "peer", "", "ratio",
		       "commands");
	for (int what = 0; rc == 0 && what < GPUFILE_CASES; what++) {
		if (!gpufile_can(bench, (enum gpufile_case)what))
			continue;
		rc = measure_case(bench, o, what, t);
		fth_cli_progress_end();
		if (rc == 0)
			print_case(what, t);
	}
	return rc;
}

/* ---- telling ---- */

static void print_begin(const struct options *o, const struct gpufile_info *info, const char *uri)
{
	char size[FTH_CLI_BYTES_MAX];

	if (fth_cli_json())
		return;
	printf("%s; %s of %s, in blocks of %u bytes; %u queue pairs, %llu CPU threads, %llu of the "
	       "GPU\n",
	       info->gpu, fth_cli_bytes(size, info->size), uri, info->block, info->queues,
	       (unsigned long long)o->cpu_threads, (unsigned long long)o->gpu_threads);
}

static void json_parameters(struct fth_json *j, const struct options *o,
			    const struct gpufile_info *info, const char *uri)
{
	fth_json_string(j, "gpu", info->gpu);
	fth_json_string(j, "device", uri);
	fth_json_u64(j, "size", info->size);
	fth_json_u64(j, "block", info->block);
	fth_json_u64(j, "queues", info->queues);
	fth_json_u64(j, "entries", o->entries);
	fth_json_u64(j, "cpu_threads", o->cpu_threads);
	fth_json_u64(j, "gpu_threads", o->gpu_threads);
	fth_json_u64(j, "cache", info->cache);
	fth_json_u64(j, "line", GPUFILE_LINE);
	fth_json_u64(j, "ahead", o->ahead);
	fth_json_u64(j, "peer_depth", o->depth);
	fth_json_u64(j, "peer_batch", o->batch);
	fth_json_u64(j, "peer_tile", info->tile);
	fth_json_u64(j, "peer_request", info->request);
	fth_json_u64(j, "ms", o->ms);
	fth_json_u64(j, "seed", o->seed);
	fth_json_u64(j, "rounds", o->rounds);
}

static void print_json(const struct gpufile *bench, const struct options *o, const char *uri,
		       const struct table *t)
{
	const struct fth_rounds *first = &t->rounds[GPUFILE_SEQUENTIAL];
	struct gpufile_info info;
	struct fth_json j;

	gpufile_info(bench, &info);
	fth_bench_json(&j, "gpufile", fth_rounds_ours(first), fth_rounds_peer(first),
		       fth_rounds_ratio(first));
	fth_json_string(&j, "unit", "bytes/s, sequential through the cache");
	fth_json_string(&j, "peer_name",
			"CPU threads that know what to read, and the copy engine, in turns");
	json_parameters(&j, o, &info, uri);
	for (int what = 0; what < GPUFILE_CASES; what++)
		if (t->rounds[what].n > 0)
			fth_rounds_json(&j, names[what], &t->rounds[what]);
	fth_json_object(&j, "commands");
	for (int what = 0; what < GPUFILE_CASES; what++)
		if (t->rounds[what].n > 0)
			fth_json_u64(&j, names[what], t->commands[what]);
	fth_json_end(&j);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static void tell_filling(uint64_t done, uint64_t total)
{
	fth_cli_progress("filling", done, total);
}

static struct gpufile_setup setup_of(const struct options *o)
{
	struct gpufile_setup setup = {
		.size = o->size,
		.cache = o->cache,
		.queues = (uint32_t)o->queues,
		.entries = (uint32_t)o->entries,
		.cpu_threads = (uint32_t)o->cpu_threads,
		.gpu_threads = (uint32_t)o->gpu_threads,
		.ahead = (uint32_t)o->ahead,
		.depth = (uint32_t)o->depth,
		.batch = (uint32_t)o->batch,
		.seed = (uint32_t)o->seed,
		.ms = (unsigned)o->ms,
		.watch = {.stopped = fth_cli_stopped, .progress = tell_filling},
	};

	return setup;
}

static int run_on(struct gpufile *bench, const struct options *o, const char *uri)
{
	static struct table table;
	struct gpufile_info info;
	int rc = gpufile_start(bench, uri);

	fth_cli_progress_end();
	if (rc < 0)
		return rc;
	gpufile_info(bench, &info);
	print_begin(o, &info, uri);
	rc = measure(bench, o, &table);
	if (rc == 0)
		print_json(bench, o, uri, &table);
	return rc;
}

/* The GPU first: where there is none no file is made. */
static int run_bench(const struct options *o)
{
	struct gpufile_setup setup = setup_of(o);
	struct fth_scratch scratch = {0};
	struct gpufile *bench;
	int rc = gpufile_open(&setup, &bench);

	if (rc < 0)
		return rc;
	if (!o->device)
		rc = fth_scratch_open(&scratch, o->folder, "gpufile", o->size, o->file_options);
	/* The drive opens it for itself. */
	fth_scratch_shut(&scratch);
	if (rc == 0)
		rc = run_on(bench, o, o->device ? o->device : scratch.uri);
	gpufile_close(bench);
	fth_scratch_remove(&scratch);
	return rc;
}

/* What was not given, by the processors of this machine. */
static void choose(struct options *o)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (o->smallest) {
		o->size = 16u << 20;
		o->cache = 2u << 20;
		o->cpu_threads = 2;
		o->queues = 2;
		o->gpu_threads = 512;
		o->entries = 64;
		o->ahead = 8;
		o->depth = 32;
		o->batch = 64;
		o->rounds = 1;
	}
	if (o->cpu_threads == 0)
		o->cpu_threads = processors < 4			     ? 1
				 : processors / 2 < CPU_THREADS_MOST ? (uint64_t)processors / 2
								     : CPU_THREADS_MOST;
	if (o->queues == 0)
		o->queues = QUEUES_PER_THREAD * o->cpu_threads;
	if (o->gpu_threads == 0)
		o->gpu_threads = THREADS_PER_QUEUE * o->queues;
}

static int check_options(const struct options *o)
{
	if (o->size & (o->size - 1))
		return fth_fail(EINVAL, "--size: a power of two");
	if (o->entries & (o->entries - 1))
		return fth_fail(EINVAL, "--entries: a power of two");
	if (o->gpu_threads % 256)
		return fth_fail(EINVAL, "--threads: a multiple of 256");
	if (o->device && (o->folder || o->file_options))
		return fth_fail(EINVAL, "--dir and --options are for a file of our own");
	if (o->device && !o->overwrite && strncmp(o->device, "mem:", 4) != 0)
		return fth_fail(EINVAL, "this overwrites %s: say --overwrite if that is meant",
				o->device);
	return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
	const struct fth_cli_option table[] = {
		{"device", FTH_CLI_STRING, &o->device, 0, 0,
		 "URI; default: a file of our own, removed afterwards"},
		{"overwrite", FTH_CLI_FLAG, &o->overwrite, 0, 0,
		 "yes, what is on the device may go"},
		FTH_SCRATCH_OPTIONS(&o->folder, &o->file_options),
		{"size", FTH_CLI_SIZE, &o->size, 1u << 20, 1ull << 40, "of the device, at most"},
		{"cache", FTH_CLI_SIZE, &o->cache, 0, 64ull << 30,
		 "bytes of GPU memory; 0: an eighth of the size"},
		{"queues", FTH_CLI_U64, &o->queues, 0, 1024,
		 "queue pairs; 0: four for each CPU thread"},
		{"entries", FTH_CLI_U64, &o->entries, 64, 4096, "of their rings"},
		{"cpu-threads", FTH_CLI_U64, &o->cpu_threads, 0, 64,
		 "that serve them, or are the peer; 0: half of the processors, 8 at most"},
		{"threads", FTH_CLI_U64, &o->gpu_threads, 0, 1u << 18,
		 "of the GPU; 0: 256 for each queue pair"},
		{"ahead", FTH_CLI_U64, &o->ahead, 1, 32, "lines that a warp brings in at once"},
		{"depth", FTH_CLI_U64, &o->depth, 1, 4096,
		 "requests each CPU thread of the peer has on the device; ours have 256"},
		{"batch", FTH_CLI_U64, &o->batch, 32, 65536,
		 "blocks of the peer's copies; tiles are as many of 4 KiB"},
		{"ms", FTH_CLI_U64, &o->ms, 1, 60000, "random blocks are used for, at most"},
		{"seed", FTH_CLI_U64, &o->seed, 0, SEED_MAX, "of the data"},
		{"rounds", FTH_CLI_U64, &o->rounds, 1, FTH_ROUNDS_MAX, "medians are of"},
		{"smallest", FTH_CLI_FLAG, &o->smallest, 0, 0, "a second's worth, for tests"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench gpufile [OPTION]...",
		.text = "GPU threads that use a file, or any device, by way of CPU threads that "
			"serve\n"
			"it: random blocks read, written and read back, and an array larger than "
			"its\n"
			"cache. Against as many CPU threads that read the same data and have it\n"
			"copied to the GPU; they must know beforehand what the GPU needs. All that "
			"is\n"
			"read is checked on the GPU.",
		.options = table,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	choose(o);
	if (check_options(o) == 0)
		return FTH_CLI_GO_ON;
	fth_cli_error("%s", fth_error_text(-EINVAL));
	return FTH_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
	struct options o = {.size = 1u << 30,
			    .entries = 256,
			    .ahead = 16,
			    .depth = 256,
			    .batch = 1024,
			    .ms = 500,
			    .seed = 1,
			    .rounds = 3};
	int rc = parse(&o, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = run_bench(&o);
	/* No GPU, or a system that does not allow io_uring. */
	return fth_app_exit_or_skip("bench gpufile", rc,
				    rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EPERM);
}

const struct fth_command fth_bench_gpufile = {
	.name = "gpufile",
	.summary = "a file used by GPU threads, served by CPU threads",
	.run = run,
};
