/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver graphmem: our side of `fathom bench graphmem`. Runs an algorithm with
 * everything in the cache (hot) and with a cache of a quarter of the edges, in turns, and prints
 * what the rounds took as a line of JSON. The results of a first run of each, which also fills the
 * caches, are verified.
 */
#include "app_options.h"
#include "common/median.h"

#include "fathom/base/error.h"
#include "fathom/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX 16

enum task { BFS, CC, PAGERANK, TASKS };
enum side { HOT, QUARTER, SIDES };

static const char *const task_names[TASKS] = {"bfs", "cc", "pagerank"};
static const char *const side_names[SIDES] = {"hot", "quarter"};

/* Our graph through one cache. */
struct session {
	struct fth_cache *cache;
	struct fth_graph *graph;
	uint64_t memory; /* of the cache */
};

struct cell {
	double seconds[FTH_ROUNDS_MAX]; /* of each round; of searches the mean over all sources */
	unsigned n;
	uint64_t state_bytes, bytes_read; /* of the last run */
};

struct driver {
	const char *path, *task_name, *sources_text;
	char uri[8192];
	uint64_t rounds, iterations, line, threads;
	uint32_t source[SOURCES_MAX];
	uint64_t sources;
	struct session sessions[SIDES];
	struct fth_graph_job job;
	struct cell cells[SIDES];
};

/* ---- our side ---- */

/* A result, and how it is checked. */
struct result {
	struct fth_graph_bfs bfs;
	struct fth_graph_cc cc;
	struct fth_graph_pagerank pagerank;
};

static struct fth_graph_pagerank_options pagerank_options(const struct driver *d)
{
	return (struct fth_graph_pagerank_options){
		.size = sizeof(struct fth_graph_pagerank_options),
		.iterations = (unsigned)d->iterations};
}

static int compute(const struct driver *d, struct fth_graph *graph, enum task task, uint32_t source,
		   struct result *out, struct fth_graph_work *work)
{
	const struct fth_graph_pagerank_options options = pagerank_options(d);
	int rc = -EINVAL;

	if (task == BFS)
		rc = fth_graph_bfs(graph, source, &d->job, &out->bfs);
	else if (task == CC)
		rc = fth_graph_cc(graph, &d->job, &out->cc);
	else
		rc = fth_graph_pagerank(graph, &options, &d->job, &out->pagerank);
	*work = task == BFS ? out->bfs.work : task == CC ? out->cc.work : out->pagerank.work;
	return rc;
}

static int check(const struct driver *d, const struct fth_graph_memory *memory, enum task task,
		 uint32_t source, const struct result *result)
{
	const struct fth_graph_pagerank_options options = pagerank_options(d);

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
static uint64_t sources_of(const struct driver *d, enum task task)
{
	return task == BFS ? d->sources : 1;
}

/* One run of ours. memory: to check with; NULL: it is measured. */
static int run_ours(struct driver *d, enum task task, enum side side, uint32_t source,
		    const struct fth_graph_memory *memory)
{
	struct session *session = &d->sessions[side];
	struct cell *cell = &d->cells[side];
	uint64_t before = fth_cache_stat(session->cache, FTH_CACHE_BYTES_READ);
	struct fth_graph_work work;
	struct result result = {0};
	int rc = compute(d, session->graph, task, source, &result, &work);

	if (rc == 0 && memory)
		rc = check(d, memory, task, source, &result);
	if (rc == 0 && !memory) {
		cell->seconds[cell->n] +=
			(double)work.elapsed_ns / 1e9 / (double)sources_of(d, task);
		cell->state_bytes = work.state_bytes;
		cell->bytes_read = fth_cache_stat(session->cache, FTH_CACHE_BYTES_READ) - before;
	}
	release(&result);
	return rc;
}

/* A round: from all sources. */
static int run_all(struct driver *d, enum task task, enum side side,
		   const struct fth_graph_memory *memory)
{
	int rc = 0;

	for (uint64_t i = 0; i < sources_of(d, task) && rc == 0; i++)
		rc = fth_cli_stopped() ? -EINTR : run_ours(d, task, side, d->source[i], memory);
	d->cells[side].n += rc == 0 && !memory;
	return rc;
}

static int open_session(struct driver *d, enum side side, uint64_t memory)
{
	struct session *session = &d->sessions[side];
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	int rc;

	options.line = (uint32_t)d->line;
	options.policy = FTH_CACHE_CLOCK;
	options.memory = memory / d->line * d->line;
	if (options.memory < 4 * d->line)
		options.memory = 4 * d->line;
	session->memory = options.memory;
	rc = fth_cache_open(&options, &session->cache);
	return rc < 0 ? rc : fth_graph_open(session->cache, d->uri, NULL, &session->graph);
}

static int close_session(struct session *session)
{
	int rc = fth_graph_close(session->graph), end;

	end = session->cache ? fth_cache_finish(&session->cache) : 0;
	return rc < 0 ? rc : end;
}

/* ---- the driver ---- */

static int verify(struct driver *d, enum task task)
{
	struct fth_graph_memory memory = {0};
	int rc = fth_graph_load(d->sessions[HOT].graph, &memory);

	for (int side = 0; side < SIDES && rc == 0; side++)
		rc = run_all(d, task, (enum side)side, &memory);
	fth_graph_unload(&memory);
	return rc;
}

static int measure(struct driver *d, enum task task)
{
	int rc = verify(d, task);

	for (uint64_t round = 0; round < d->rounds && rc == 0; round++)
		for (int side = 0; side < SIDES && rc == 0; side++)
			rc = run_all(d, task, (enum side)side, NULL);
	return rc;
}

static void print_result(const struct driver *d)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	for (int side = 0; side < SIDES; side++) {
		const struct cell *cell = &d->cells[side];

		fth_json_object(&j, side_names[side]);
		fth_json_u64(&j, "cache", d->sessions[side].memory);
		fth_json_u64(&j, "bytes_read", cell->bytes_read);
		fth_json_u64(&j, "state_bytes", cell->state_bytes);
		fth_json_array(&j, "seconds");
		for (unsigned i = 0; i < cell->n; i++)
			fth_json_double(&j, NULL, cell->seconds[i]);
		fth_json_end(&j);
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

static int read_edges(const struct driver *d, uint64_t *bytes)
{
	struct fth_graph_info info;
	struct fth_dev *dev;
	int rc = fth_dev_open(d->uri, &dev);

	if (rc < 0)
		return rc;
	rc = fth_graph_read_info(dev, &info);
	fth_dev_close(dev);
	*bytes = rc < 0 ? 0 : info.edges * 4;
	return rc;
}

static int take_options(struct driver *d, enum task *task)
{
	const char *at = d->sources_text;
	char *end;

	for (*task = 0; *task < TASKS; ++*task)
		if (d->task_name && strcmp(d->task_name, task_names[*task]) == 0)
			break;
	for (; at && *at && d->sources < SOURCES_MAX; at = end + (*end == ',')) {
		d->source[d->sources++] = (uint32_t)strtoul(at, &end, 10);
		if (end == at)
			return fth_fail(EINVAL, "--sources %s: expected numbers", d->sources_text);
	}
	if (*task == TASKS || !d->path)
		return fth_fail(EINVAL, "--file or --task is missing or not known");
	snprintf(d->uri, sizeof(d->uri), "file:%s", d->path);
	d->job.threads = (unsigned)d->threads;
	return 0;
}

static int execute(struct driver *d)
{
	enum task task;
	uint64_t bytes = 0;
	int rc = take_options(d, &task), end;

	if (rc == 0)
		rc = read_edges(d, &bytes);
	if (rc == 0)
		rc = open_session(d, HOT, bytes + bytes / 16 + 16 * d->line);
	if (rc == 0)
		rc = open_session(d, QUARTER, bytes / 4);
	if (rc == 0)
		rc = measure(d, task);
	for (int i = 0; i < SIDES; i++) {
		end = close_session(&d->sessions[i]);
		rc = rc < 0 ? rc : end;
	}
	if (rc == 0)
		print_result(d);
	return rc;
}

static int run(int argc, char **argv)
{
	struct driver d = {.rounds = 1, .iterations = 1, .line = 65536, .threads = 1};
	const struct fth_cli_option options[] = {
		{"file", FTH_CLI_STRING, &d.path, 0, 0, "the graph"},
		{"task", FTH_CLI_STRING, &d.task_name, 0, 0, "bfs, cc or pagerank"},
		{"threads", FTH_CLI_U64, &d.threads, 1, FTH_GRAPH_THREADS_MAX, "threads"},
		{"rounds", FTH_CLI_U64, &d.rounds, 1, FTH_ROUNDS_MAX, "runs of each cache"},
		{"sources", FTH_CLI_STRING, &d.sources_text, 0, 0, "of the searches, as 1,2"},
		{"iterations", FTH_CLI_U64, &d.iterations, 1, 10000, "of PageRank"},
		{"line", FTH_CLI_SIZE, &d.line, 512, 65536, "bytes of a line"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver graphmem [options]",
		.text = "An algorithm on a graph, with all and with a quarter of its edges cached.",
		.options = options,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	return rc != FTH_CLI_GO_ON ? rc : fth_app_exit("graphmem", execute(&d));
}

const struct fth_command fth_driver_graphmem = {
	.name = "graphmem",
	.summary = "our side of the benchmark graphmem",
	.run = run,
};
