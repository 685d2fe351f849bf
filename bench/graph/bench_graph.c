/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench graph: breadth-first search and PageRank on a graph four times as large as the
 * cache, against the same algorithms over a mapped file, in as much memory.
 *
 * Siblings: graph_side.c is one run of either side, graph_peer.c what the peer does in it,
 * graph_digest.c compares results, cgroup.c bounds memory.
 *
 * Each run is a process of its own inside a memory cgroup, and begins with nothing of the file in
 * memory. How much memory it may use, page cache included, is what ours was seen to need in a run
 * without a bound.
 */
#include "app_options.h"
#include "cgroup.h"
#include "cli.h"
#include "graph_file.h"
#include "graph_side.h"
#include "json.h"
#include "common/median.h"
#include "common/report.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCES_MAX 64
#define CACHE_SHARE 4 /* of the edges: one in so many bytes */
#define UNBOUNDED   ((uint64_t)1 << 42)
#define SLACK	    ((uint64_t)1 << 20) /* what one run may need more than another */

static const char *const side_names[GRAPH_SIDES] = {"ours", "mmap random", "mmap default"};
static const char *const task_names[GRAPH_TASKS] = {"bfs", "pagerank"};

struct cell {
	double seconds[FTH_ROUNDS_MAX];
	double median;
	double cpu; /* seconds; of the last round, as those below */
	uint64_t bytes_read;
	uint64_t major_faults, requests;
	double hit_rate;
};

struct bench {
	struct graph_file file;
	uint64_t rounds, sources, iterations;
	uint64_t cache, line;
	const char *policy;
	bool smallest, one_way, unlimited;

	struct graph_work work;
	enum fth_cache_policy policy_number;
	uint32_t source[SOURCES_MAX];
	uint64_t memory[GRAPH_TASKS]; /* what a run may use */
	struct cell cells[GRAPH_TASKS][GRAPH_SIDES];
};

/* ---- runs ---- */

/* One run, as the child sees it. */
struct run {
	const struct graph_work *work;
	enum graph_side side;
	enum graph_task task;
};

static int in_child(void *context, void *result)
{
	struct run *run = context;

	return graph_side_run(run->work, run->side, run->task, result);
}

static int run_once(struct bench *b, enum graph_side side, enum graph_task task, uint64_t memory,
		    struct graph_outcome *out, struct fth_cgroup_usage *usage)
{
	struct run run = {.work = &b->work, .side = side, .task = task};
	struct fth_cgroup_job job = {
		.memory = memory,
		.fn = in_child,
		.context = &run,
		.result = out,
		.result_size = sizeof(*out),
		.stopped = fth_cli_stopped,
	};
	int rc = fth_cgroup_drop_pages(b->file.path);

	memset(out, 0, sizeof(*out));
	memset(usage, 0, sizeof(*usage));
	if (rc < 0)
		return rc;
	return b->unlimited ? in_child(&run, out) : fth_cgroup_run(&job, usage);
}

/* How much memory ours needs, and what the results are to be. */
static int measure_memory(struct bench *b, enum graph_task task, struct graph_digest *wanted)
{
	struct fth_cgroup_usage usage;
	struct graph_outcome *out = malloc(sizeof(*out));
	int rc = out ? run_once(b, GRAPH_OURS, task, UNBOUNDED, out, &usage) : -ENOMEM;

	if (rc == 0) {
		*wanted = out->digest;
		b->memory[task] = usage.peak + SLACK;
		if (usage.peak == 0 && !b->unlimited)
			rc = fth_fail(ENOTSUP, "the kernel does not report the memory used");
	}
	free(out);
	return rc;
}

static int run_cell(struct bench *b, enum graph_task task, enum graph_side side, uint64_t round,
		    const struct graph_digest *wanted)
{
	struct cell *cell = &b->cells[task][side];
	struct fth_cgroup_usage usage;
	struct graph_outcome *out = malloc(sizeof(*out));
	int rc = out ? run_once(b, side, task, b->memory[task], out, &usage) : -ENOMEM;

	if (rc == 0)
		rc = graph_digest_compare(wanted, &out->digest);
	if (rc == 0) {
		cell->seconds[round] = (double)out->ns / 1e9;
		cell->cpu = (double)out->cpu_ns / 1e9;
		cell->bytes_read = side == GRAPH_OURS ? out->bytes_read : usage.bytes_read;
		cell->major_faults = usage.major_faults;
		cell->requests = out->requests;
		cell->hit_rate = out->hit_rate;
	}
	free(out);
	return rc;
}

static int measure_task(struct bench *b, enum graph_task task)
{
	struct graph_digest *wanted = malloc(sizeof(*wanted));
	int rc = wanted ? measure_memory(b, task, wanted) : -ENOMEM;

	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (int side = 0; side < GRAPH_SIDES && rc == 0; side++) {
			fth_cli_progress(task_names[task], round * GRAPH_SIDES + (uint64_t)side,
					 b->rounds * GRAPH_SIDES);
			rc = run_cell(b, task, (enum graph_side)side, round, wanted);
		}
	fth_cli_progress_end();
	for (int side = 0; side < GRAPH_SIDES && rc == 0; side++) {
		struct cell *cell = &b->cells[task][side];

		cell->median = fth_median(cell->seconds, (unsigned)b->rounds);
	}
	free(wanted);
	return rc;
}

/* ---- the graph ---- */

/* What is known once the graph is there. */
static void settle_work(struct bench *b)
{
	struct graph_work *work = &b->work;

	work->info = b->file.info;
	if (b->cache == 0)
		b->cache = work->info.edges * 4 / CACHE_SHARE / b->line * b->line;
	if (b->cache < 4 * b->line)
		b->cache = 4 * b->line;
	work->path = b->file.path;
	work->uri = b->file.uri;
	work->threads = (unsigned)b->file.threads;
	work->iterations = (unsigned)b->iterations;
	work->sources = b->source;
	work->source_count = (unsigned)b->sources;
	work->cache = (struct fth_cache_options)FTH_CACHE_OPTIONS_INIT;
	work->cache.memory = b->cache;
	work->cache.line = (uint32_t)b->line;
	work->cache.policy = b->policy_number;
	work->one_way = b->one_way;
}

static int prepare(struct bench *b)
{
	int rc = graph_file_open(&b->file);

	if (rc < 0)
		return rc;
	settle_work(b);
	return graph_file_sources(&b->file, b->sources, b->source);
}

/* ---- reporting ---- */

static double ratio(const struct bench *b, enum graph_task task, enum graph_side side)
{
	return b->cells[task][side].median / b->cells[task][GRAPH_OURS].median;
}

/* Against the better of the two peers. */
static double least_ratio(const struct bench *b, enum graph_task task)
{
	double random = ratio(b, task, GRAPH_MMAP_RANDOM),
	       plain = ratio(b, task, GRAPH_MMAP_DEFAULT);

	return random < plain ? random : plain;
}

static void print_head(const struct bench *b)
{
	char edges[FTH_CLI_BYTES_MAX], cache[FTH_CLI_BYTES_MAX];

	printf("%s: %s; edges %s, cache %s in lines of %llu; %llu threads, median of %llu\n",
	       b->file.path, b->work.info.made_by, fth_cli_bytes(edges, b->work.info.edges * 4),
	       fth_cli_bytes(cache, b->cache), (unsigned long long)b->line,
	       (unsigned long long)b->file.threads, (unsigned long long)b->rounds);
}

static void print_task(const struct bench *b, enum graph_task task)
{
	char memory[FTH_CLI_BYTES_MAX], read[FTH_CLI_BYTES_MAX];

	printf("%s, each in %s of memory\n", task_names[task],
	       b->unlimited ? "any amount" : fth_cli_bytes(memory, b->memory[task]));
	printf("  %-13s %9s %9s %12s %13s %8s\n", "", "seconds", "CPU", "read", "major faults",
	       "ratio");
	for (int side = 0; side < GRAPH_SIDES; side++) {
		const struct cell *cell = &b->cells[task][side];

		printf("  %-13s %9.3f %9.3f %12s %13llu %8.2f\n", side_names[side], cell->median,
		       cell->cpu, fth_cli_bytes(read, cell->bytes_read),
		       (unsigned long long)cell->major_faults,
		       ratio(b, task, (enum graph_side)side));
	}
	fflush(stdout);
}

static void report_cell(struct fth_json *j, const struct bench *b, enum graph_task task,
			enum graph_side side)
{
	const struct cell *cell = &b->cells[task][side];

	fth_json_object(j, NULL);
	fth_json_string(j, "task", task_names[task]);
	fth_json_string(j, "side", side_names[side]);
	fth_json_double(j, "seconds", cell->median);
	fth_json_double(j, "cpu_seconds", cell->cpu);
	fth_json_u64(j, "bytes_read", cell->bytes_read);
	fth_json_u64(j, "major_faults", cell->major_faults);
	if (side == GRAPH_OURS) {
		fth_json_u64(j, "requests", cell->requests);
		fth_json_double(j, "hit_rate", cell->hit_rate);
	}
	fth_json_u64(j, "memory", b->memory[task]);
	fth_json_array(j, "runs");
	for (uint64_t i = 0; i < b->rounds; i++)
		fth_json_double(j, NULL, cell->seconds[i]);
	fth_json_end(j);
	fth_json_end(j);
}

static void report_parameters(struct fth_json *j, const struct bench *b)
{
	fth_json_string(j, "unit", "seconds of both tasks, the better mmap for each");
	fth_json_string(j, "graph", b->work.info.made_by);
	fth_json_u64(j, "vertices", b->work.info.vertices);
	fth_json_u64(j, "edges", b->work.info.edges);
	fth_json_u64(j, "cache", b->cache);
	fth_json_u64(j, "line", b->line);
	fth_json_string(j, "policy", fth_cache_policy_name(b->policy_number));
	fth_json_u64(j, "threads", b->file.threads);
	fth_json_u64(j, "sources", b->sources);
	fth_json_u64(j, "iterations", b->iterations);
	fth_json_u64(j, "rounds", b->rounds);
	fth_json_bool(j, "one_way", b->one_way);
	fth_json_bool(j, "peer_unlimited", b->unlimited);
}

static void report(const struct bench *b)
{
	double ours = b->cells[GRAPH_BFS][GRAPH_OURS].median +
		      b->cells[GRAPH_PAGERANK][GRAPH_OURS].median;
	double peer = least_ratio(b, GRAPH_BFS) * b->cells[GRAPH_BFS][GRAPH_OURS].median +
		      least_ratio(b, GRAPH_PAGERANK) * b->cells[GRAPH_PAGERANK][GRAPH_OURS].median;
	struct fth_json j;

	fth_bench_json(&j, "graph", ours, peer, peer / ours);
	fth_json_double(&j, "bfs_ratio_random", ratio(b, GRAPH_BFS, GRAPH_MMAP_RANDOM));
	fth_json_double(&j, "bfs_ratio_default", ratio(b, GRAPH_BFS, GRAPH_MMAP_DEFAULT));
	fth_json_double(&j, "pr_ratio_random", ratio(b, GRAPH_PAGERANK, GRAPH_MMAP_RANDOM));
	fth_json_double(&j, "pr_ratio_default", ratio(b, GRAPH_PAGERANK, GRAPH_MMAP_DEFAULT));
	report_parameters(&j, b);
	fth_json_array(&j, "results");
	for (int task = 0; task < GRAPH_TASKS; task++)
		for (int side = 0; side < GRAPH_SIDES; side++)
			report_cell(&j, b, (enum graph_task)task, (enum graph_side)side);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int execute(struct bench *b)
{
	int rc = prepare(b);

	if (rc == 0 && !fth_cli_json())
		print_head(b);
	for (int task = 0; task < GRAPH_TASKS && rc == 0; task++) {
		rc = measure_task(b, (enum graph_task)task);
		if (rc == 0 && !fth_cli_json())
			print_task(b, (enum graph_task)task);
	}
	if (rc == 0)
		report(b);
	return rc;
}

static int exit_status(const struct bench *b, int rc)
{
	fth_cli_progress_end();
	return fth_app_exit_or_skip(b->file.path, rc,
				    rc == -ENOSYS || rc == -EPERM || rc == -ENOTSUP);
}

static int check_options(struct bench *b)
{
	if (b->smallest) {
		b->file.scale = 14;
		b->rounds = 1;
		b->sources = 2;
		b->iterations = 3;
	}
	if (!graph_file_name(&b->file))
		return FTH_EXIT_USAGE;
	if (b->file.threads == 0)
		b->file.threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (b->policy && fth_cache_policy_parse(b->policy, &b->policy_number) < 0) {
		fth_cli_error("--policy: %s", fth_error_text(-EINVAL));
		return FTH_EXIT_USAGE;
	}
	return FTH_CLI_GO_ON;
}

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"file", FTH_CLI_STRING, &b->file.path, 0, 0,
		 "a graph, kept; made if it is not there; default: a temporary one"},
		{"dir", FTH_CLI_STRING, &b->file.directory, 0, 0,
		 "folder for temporary files; default TMPDIR or /tmp"},
		{"scale", FTH_CLI_U64, &b->file.scale, 4, 31, "2^N vertices"},
		{"degree", FTH_CLI_U64, &b->file.degree, 1, 4096, "edges drawn per vertex"},
		{"seed", FTH_CLI_U64, &b->file.seed, 0, 0, "of the graph and of where to begin"},
		{"threads", FTH_CLI_U64, &b->file.threads, 0, FTH_GRAPH_THREADS_MAX,
		 "0: one per CPU"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"sources", FTH_CLI_U64, &b->sources, 1, SOURCES_MAX, "searches per run"},
		{"iterations", FTH_CLI_U64, &b->iterations, 1, 10000, "of PageRank"},
		{"cache", FTH_CLI_SIZE, &b->cache, 0, 0, "0: a quarter of the edges"},
		{"line", FTH_CLI_SIZE, &b->line, 512, 65536, "bytes of a line"},
		{"policy", FTH_CLI_STRING, &b->policy, 0, 0, FTH_APP_POLICIES},
		{"one-way", FTH_CLI_FLAG, &b->one_way, 0, 0, "PageRank sweeps forward only"},
		{"peer-unlimited", FTH_CLI_FLAG, &b->unlimited, 0, 0,
		 "no bound on memory, where there are no cgroups"},
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench graph [options]",
		.text = "Breadth-first search and PageRank on a Kronecker graph in a file, with a\n"
			"cache of a quarter of its edges, against the same algorithms over mmap\n"
			"(MADV_RANDOM, and the default) in a memory cgroup of the same size. Runs\n"
			"alternate and begin with a cold cache; results are compared. Needs the\n"
			"right to make cgroups.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : check_options(b);
}

static int run(int argc, char **argv)
{
	struct bench *b = calloc(1, sizeof(*b));
	int status;

	if (!b)
		return FTH_EXIT_FAILED;
	*b = (struct bench){.rounds = 3, .sources = 2, .policy = "clock"};
	b->file = (struct graph_file){.scale = 22, .degree = 16, .seed = 1};
	b->iterations = 5;
	b->line = 65536; /* large ones cost less, and both tasks read most of the edges */
	status = parse(b, argc, argv);
	if (status == FTH_CLI_GO_ON) {
		int rc = b->unlimited ? 0 : fth_cgroup_available();

		status = exit_status(b, rc < 0 ? rc : execute(b));
		graph_file_remove(&b->file, status != FTH_EXIT_OK);
	}
	free(b);
	return status;
}

const struct fth_command fth_bench_graph = {
	.name = "graph",
	.summary = "search and PageRank on a graph, against mmap in as much memory",
	.run = run,
};
