/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench graphmem: breadth-first search, components and PageRank with everything in the cache
 * (hot) and with a cache of a quarter of the edges, against GAPBS in memory. Without GAPBS the peer is
 * the same algorithm with everything in the cache.
 *
 * Siblings: graph_file.c makes the graph, gapbs.c runs the peer.
 */
#include "app_options.h"
#include "cli.h"
#include "gapbs.h"
#include "graph_file.h"
#include "json.h"
#include "common/median.h"
#include "common/report.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOURCES_MAX 16

enum task { BFS, CC, PAGERANK, TASKS };
enum side { HOT, QUARTER, PEER, SIDES };

static const char *const task_names[TASKS] = {"bfs", "cc", "pagerank"};
static const char *const side_names[SIDES] = {"hot", "quarter", "gapbs"};

/* Our graph through one cache. */
struct session {
	struct fth_cache *cache;
	struct fth_graph *graph;
	uint64_t memory; /* of the cache */
};

struct cell {
	double seconds[FTH_ROUNDS_MAX]; /* of each round; of searches the mean over all sources */
	unsigned n;
	double median;
	uint64_t state_bytes, bytes_read; /* ours: of the last run */
};

struct bench {
	struct graph_file file;
	uint64_t rounds, sources, iterations, line;
	bool smallest;
	uint32_t source[SOURCES_MAX];
	struct session sessions[2]; /* HOT, QUARTER */
	struct gapbs gapbs;
	struct fth_graph_job job;
	struct cell cells[TASKS][SIDES];
};

/* ---- our side ---- */

/* A result, and how it is checked. */
struct result {
	struct fth_graph_bfs bfs;
	struct fth_graph_cc cc;
	struct fth_graph_pagerank pagerank;
};

static struct fth_graph_pagerank_options pagerank_options(const struct bench *b)
{
	return (struct fth_graph_pagerank_options){
		.size = sizeof(struct fth_graph_pagerank_options),
		.iterations = (unsigned)b->iterations};
}

static int compute(const struct bench *b, struct fth_graph *graph, enum task task, uint32_t source,
		   struct result *out, struct fth_graph_work *work)
{
	const struct fth_graph_pagerank_options options = pagerank_options(b);
	int rc = -EINVAL;

	if (task == BFS)
		rc = fth_graph_bfs(graph, source, &b->job, &out->bfs);
	else if (task == CC)
		rc = fth_graph_cc(graph, &b->job, &out->cc);
	else
		rc = fth_graph_pagerank(graph, &options, &b->job, &out->pagerank);
	*work = task == BFS ? out->bfs.work : task == CC ? out->cc.work : out->pagerank.work;
	return rc;
}

static int check(const struct bench *b, const struct fth_graph_memory *memory, enum task task,
		 uint32_t source, const struct result *result)
{
	const struct fth_graph_pagerank_options options = pagerank_options(b);

	if (task == BFS)
		return fth_graph_check_bfs(memory, source, &result->bfs);
	if (task == CC)
		return fth_graph_check_cc(memory, &result->cc);
	return fth_graph_check_pagerank(memory, &options, &result->pagerank);
}

static void release(struct result *result)
{
	fth_graph_bfs_release(&result->bfs);
	fth_graph_cc_release(&result->cc);
	fth_graph_pagerank_release(&result->pagerank);
}

/* Where a task begins; what is not a search has one source. */
static uint64_t sources_of(const struct bench *b, enum task task)
{
	return task == BFS ? b->sources : 1;
}

/* One run of ours. memory: to check with; NULL: it is measured. */
static int run_ours(struct bench *b, enum task task, enum side side, uint32_t source,
		    const struct fth_graph_memory *memory)
{
	struct session *session = &b->sessions[side];
	struct cell *cell = &b->cells[task][side];
	uint64_t before = fth_cache_stat(session->cache, FTH_CACHE_BYTES_READ);
	struct fth_graph_work work;
	struct result result = {0};
	int rc = compute(b, session->graph, task, source, &result, &work);

	if (rc == 0 && memory)
		rc = check(b, memory, task, source, &result);
	if (rc == 0 && !memory) {
		cell->seconds[cell->n] +=
			(double)work.elapsed_ns / 1e9 / (double)sources_of(b, task);
		cell->state_bytes = work.state_bytes;
		cell->bytes_read = fth_cache_stat(session->cache, FTH_CACHE_BYTES_READ) - before;
	}
	release(&result);
	return rc;
}

/* A round: from all sources. */
static int run_all(struct bench *b, enum task task, enum side side,
		   const struct fth_graph_memory *memory)
{
	int rc = 0;

	for (uint64_t i = 0; i < sources_of(b, task) && rc == 0; i++)
		rc = fth_cli_stopped() ? -EINTR : run_ours(b, task, side, b->source[i], memory);
	b->cells[task][side].n += rc == 0 && !memory;
	return rc;
}

static int open_session(struct bench *b, enum side side, uint64_t memory)
{
	struct session *session = &b->sessions[side];
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	int rc;

	options.line = (uint32_t)b->line;
	options.policy = FTH_CACHE_CLOCK;
	options.memory = memory / b->line * b->line;
	if (options.memory < 4 * b->line)
		options.memory = 4 * b->line;
	session->memory = options.memory;
	rc = fth_cache_open(&options, &session->cache);
	return rc < 0 ? rc : fth_graph_open(session->cache, b->file.uri, NULL, &session->graph);
}

static int close_session(struct session *session)
{
	int rc = fth_graph_close(session->graph), end;

	end = session->cache ? fth_cache_finish(&session->cache) : 0;
	return rc < 0 ? rc : end;
}

/* ---- the peer ---- */

static int run_peer_search(struct bench *b, unsigned trials, uint32_t source, bool verify,
			   double *seconds)
{
	char text[16];
	const char *const arguments[] = {"-r", text, verify ? "-v" : NULL, NULL};

	snprintf(text, sizeof(text), "%u", source);
	return gapbs_run(&b->gapbs, "bfs", trials, arguments, seconds);
}

static int run_peer(struct bench *b, enum task task)
{
	struct cell *cell = &b->cells[task][PEER];
	unsigned rounds = (unsigned)b->rounds;
	double seconds[FTH_ROUNDS_MAX];
	char iterations[16];
	const char *const none[] = {NULL}, *const pagerank[] = {"-i", iterations, "-t", "0", NULL};
	int rc = 0;

	snprintf(iterations, sizeof(iterations), "%u", (unsigned)b->iterations);
	cell->n = rounds;
	if (task != BFS)
		return gapbs_run(&b->gapbs, task == CC ? "cc" : "pr", rounds,
				 task == CC ? none : pagerank, cell->seconds);
	for (uint64_t i = 0; i < b->sources && rc == 0; i++) {
		rc = run_peer_search(b, rounds, b->source[i], false, seconds);
		for (unsigned r = 0; r < rounds && rc == 0; r++)
			cell->seconds[r] += seconds[r] / (double)b->sources;
	}
	return rc;
}

/* ---- measuring ---- */

/* Check what both of ours and the peer give, then let the graph in memory go. */
static int verify(struct bench *b)
{
	struct fth_graph_memory memory = {0};
	double seconds;
	int rc = fth_graph_load(b->sessions[HOT].graph, &memory);

	if (rc == 0)
		rc = gapbs_open(&b->gapbs, b->file.directory, &memory, (unsigned)b->file.threads);
	for (int task = 0; task < TASKS && rc == 0; task++)
		for (int side = HOT; side <= QUARTER && rc == 0; side++) {
			fth_cli_progress("verifying", (uint64_t)(task * 2 + side), TASKS * 2);
			rc = run_all(b, (enum task)task, (enum side)side, &memory);
		}
	fth_graph_unload(&memory);
	if (rc == 0 && b->gapbs.folder)
		rc = run_peer_search(b, 1, b->source[0], true, &seconds);
	fth_cli_progress_end();
	return rc;
}

static int measure_task(struct bench *b, enum task task)
{
	int rc = b->gapbs.folder ? run_peer(b, task) : 0;

	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (int side = HOT; side <= QUARTER && rc == 0; side++)
			rc = run_all(b, task, (enum side)side, NULL);
	for (int side = 0; side < SIDES && rc == 0; side++) {
		struct cell *cell = &b->cells[task][side];

		cell->median = cell->n ? fth_median(cell->seconds, cell->n) : 0;
	}
	return rc;
}

/* ---- reporting ---- */

/* How fast ours is: the peer's time over ours. */
static double ratio(const struct bench *b, enum task task, enum side side)
{
	enum side peer = b->gapbs.folder ? PEER : HOT;

	return b->cells[task][peer].median / b->cells[task][side].median;
}

static void print_head(const struct bench *b)
{
	char edges[FTH_CLI_BYTES_MAX], cache[FTH_CLI_BYTES_MAX];

	printf("%s: %s; edges %s, caches of all and of %s in lines of %llu; %llu threads, "
	       "median of %llu\n",
	       b->file.path, b->file.info.made_by, fth_cli_bytes(edges, b->file.info.edges * 4),
	       fth_cli_bytes(cache, b->sessions[QUARTER].memory), (unsigned long long)b->line,
	       (unsigned long long)b->file.threads, (unsigned long long)b->rounds);
	printf("%-9s %-8s %9s %8s %12s %12s\n", "", "", "seconds", "speed", "read", "vertices");
}

static void print_task(const struct bench *b, enum task task)
{
	char read[FTH_CLI_BYTES_MAX], state[FTH_CLI_BYTES_MAX];

	for (int side = 0; side < SIDES; side++) {
		const struct cell *cell = &b->cells[task][side];

		if (cell->n == 0)
			continue;
		printf("%-9s %-8s %9.4f %8.2f %12s %12s\n", task_names[task], side_names[side],
		       cell->median, ratio(b, task, (enum side)side),
		       side == PEER ? "" : fth_cli_bytes(read, cell->bytes_read),
		       side == PEER ? "" : fth_cli_bytes(state, cell->state_bytes));
	}
	fflush(stdout);
}

static void report_cell(struct fth_json *j, const struct bench *b, enum task task, enum side side)
{
	const struct cell *cell = &b->cells[task][side];

	fth_json_object(j, NULL);
	fth_json_string(j, "task", task_names[task]);
	fth_json_string(j, "side", side_names[side]);
	fth_json_double(j, "seconds", cell->median);
	fth_json_double(j, "ratio", ratio(b, task, side));
	fth_json_u64(j, "bytes_read", cell->bytes_read);
	fth_json_u64(j, "state_bytes", cell->state_bytes);
	fth_json_end(j);
}

static void report(const struct bench *b)
{
	enum side ours = b->gapbs.folder ? HOT : QUARTER, peer = b->gapbs.folder ? PEER : HOT;
	struct fth_json j;

	fth_bench_json(&j, "graphmem", b->cells[BFS][ours].median, b->cells[BFS][peer].median,
		       ratio(b, BFS, ours));
	fth_json_string(&j, "unit", "seconds of a search");
	fth_json_string(&j, "peer_name",
			b->gapbs.folder ? "GAPBS in memory" : "everything in the cache");
	fth_json_string(&j, "graph", b->file.info.made_by);
	fth_json_u64(&j, "vertices", b->file.info.vertices);
	fth_json_u64(&j, "edges", b->file.info.edges);
	fth_json_u64(&j, "cache", b->sessions[QUARTER].memory);
	fth_json_u64(&j, "line", b->line);
	fth_json_u64(&j, "threads", b->file.threads);
	fth_json_u64(&j, "sources", b->sources);
	fth_json_u64(&j, "iterations", b->iterations);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_array(&j, "results");
	for (int task = 0; task < TASKS; task++)
		for (int side = 0; side < SIDES; side++)
			if (b->cells[task][side].n)
				report_cell(&j, b, (enum task)task, (enum side)side);
	fth_json_finish(&j);
}

/* ---- the command ---- */

static int measure(struct bench *b)
{
	int rc = verify(b);

	if (rc == 0 && !fth_cli_json())
		print_head(b);
	for (int task = 0; task < TASKS && rc == 0; task++) {
		rc = measure_task(b, (enum task)task);
		if (rc == 0 && !fth_cli_json())
			print_task(b, (enum task)task);
	}
	if (rc == 0)
		report(b);
	return rc;
}

static int execute(struct bench *b)
{
	int rc = graph_file_open(&b->file), end;
	uint64_t bytes = b->file.info.edges * 4;

	if (rc == 0)
		rc = graph_file_sources(&b->file, b->sources, b->source);
	b->job.threads = (unsigned)b->file.threads;
	if (rc == 0)
		rc = open_session(b, HOT, bytes + bytes / 16 + 16 * b->line);
	if (rc == 0)
		rc = open_session(b, QUARTER, bytes / 4);
	if (rc == 0)
		rc = measure(b);
	gapbs_close(&b->gapbs);
	for (int i = 0; i < 2; i++) {
		end = close_session(&b->sessions[i]);
		rc = rc < 0 ? rc : end;
	}
	return rc;
}

static int parse(struct bench *b, int argc, char **argv)
{
	struct graph_file *f = &b->file;
	const struct fth_cli_option options[] = {
		{"file", FTH_CLI_STRING, &f->path, 0, 0,
		 "a graph, kept; made if it is not there; default: a temporary one"},
		{"dir", FTH_CLI_STRING, &f->directory, 0, 0,
		 "folder for temporary files; default TMPDIR or /tmp"},
		{"scale", FTH_CLI_U64, &f->scale, 4, 31, "2^N vertices"},
		{"degree", FTH_CLI_U64, &f->degree, 1, 4096, "edges drawn per vertex"},
		{"seed", FTH_CLI_U64, &f->seed, 0, 0, "of the graph and of where to begin"},
		{"threads", FTH_CLI_U64, &f->threads, 0, FTH_GRAPH_THREADS_MAX, "0: one per CPU"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"sources", FTH_CLI_U64, &b->sources, 1, SOURCES_MAX, "searches per round"},
		{"iterations", FTH_CLI_U64, &b->iterations, 1, 10000, "of PageRank"},
		{"line", FTH_CLI_SIZE, &b->line, 512, 65536, "bytes of a line"},
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench graphmem [options]",
		.text = "Breadth-first search, components and PageRank on a Kronecker graph in a\n"
			"file, with a cache of all edges and with one of a quarter, against the "
			"GAP\n"
			"Benchmark Suite in memory. FTH_GAPBS names the folder of its programs "
			"bfs,\n"
			"cc and pr; without it the peer is the same algorithm with all in the\n"
			"cache. The speed is the peer's time over ours. Results are verified.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (b->smallest) {
		f->scale = 14;
		b->rounds = 1;
		b->sources = 2;
		b->iterations = 2;
	}
	if (f->threads == 0)
		f->threads = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
	return graph_file_name(f) ? FTH_CLI_GO_ON : FTH_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
	struct bench *b = calloc(1, sizeof(*b));
	int status, rc;

	if (!b)
		return FTH_EXIT_FAILED;
	*b = (struct bench){.rounds = 5, .sources = 4, .iterations = 5, .line = 65536};
	b->file = (struct graph_file){.scale = 22, .degree = 16, .seed = 1};
	status = parse(b, argc, argv);
	if (status == FTH_CLI_GO_ON) {
		rc = execute(b);
		fth_cli_progress_end();
		status = fth_app_exit_or_skip(b->file.path, rc, false);
		graph_file_remove(&b->file, status != FTH_EXIT_OK);
	}
	free(b);
	return status;
}

const struct fth_command fth_bench_graphmem = {
	.name = "graphmem",
	.summary = "graph algorithms with all and with a quarter cached, against GAPBS in memory",
	.run = run,
};
