/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver graph: one run of one side of `fathom bench graph`, whose result is a line of
 * JSON. Siblings: graph_peer.c has the algorithms of the peer, graph_digest.c makes the results
 * comparable.
 */
#include "graph_digest.h"
#include "graph_peer.h"

#include "app_options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define SOURCES_MAX 64

enum graph_side { GRAPH_OURS, GRAPH_MMAP_RANDOM, GRAPH_MMAP_DEFAULT, GRAPH_SIDES };
enum graph_task { GRAPH_BFS, GRAPH_PAGERANK, GRAPH_TASKS };

static const char *const side_names[GRAPH_SIDES] = {"ours", "random", "default"};
static const char *const task_names[GRAPH_TASKS] = {"bfs", "pagerank"};

/* What is to be done, the same for all sides. */
struct graph_work {
	const char *path;
	char uri[8192]; /* of the same file */
	struct fth_graph_info info;
	uint64_t threads, iterations;
	uint32_t sources[SOURCES_MAX]; /* where searches begin */
	unsigned source_count;
	struct fth_cache_options cache; /* ours only, as the next */
	bool one_way;
};

/* What came of it. */
struct graph_outcome {
	uint64_t ns;
	uint64_t cpu_ns;     /* of all threads, in the program and in the kernel for it */
	uint64_t bytes_read; /* from storage: ours by the cache, the peer's as the kernel counts */
	uint64_t major_faults; /* of the whole run */
	uint64_t requests;     /* ours only, as the next */
	double hit_rate;
	struct graph_digest digest;
};

static uint64_t cpu_ns(void)
{
	struct rusage own = {0};

	getrusage(RUSAGE_SELF, &own);
	return (uint64_t)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1000000000 +
	       (uint64_t)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) * 1000;
}

/* ---- what a run gave ---- */

static int take_tree(const struct graph_work *w, struct fth_graph_bfs *tree,
		     struct graph_outcome *out)
{
	int rc = graph_digest_bfs(&out->digest, w->info.vertices, tree);

	out->ns += tree->work.elapsed_ns;
	fth_graph_bfs_release(tree);
	return rc;
}

static void take_ranks(const struct graph_work *w, struct fth_graph_pagerank *ranks,
		       struct graph_outcome *out)
{
	out->ns = ranks->work.elapsed_ns;
	graph_digest_ranks(&out->digest, w->info.vertices, ranks);
	fth_graph_pagerank_release(ranks);
}

/* ---- our side ---- */

/* Top-down, as the peer's. */
static int our_bfs(const struct graph_work *w, struct fth_graph *graph,
		   const struct fth_graph_job *job, struct graph_outcome *out)
{
	const struct fth_graph_bfs_options options = {.size = sizeof(options),
						      .direction = FTH_GRAPH_TOP_DOWN};
	int rc = 0;

	for (unsigned i = 0; i < w->source_count && rc == 0; i++) {
		struct fth_graph_bfs tree;

		out->cpu_ns -= cpu_ns();
		rc = fth_graph_bfs_with(graph, w->sources[i], &options, job, &tree);
		out->cpu_ns += cpu_ns();
		if (rc == 0)
			rc = take_tree(w, &tree, out);
	}
	return rc;
}

static int our_pagerank(const struct graph_work *w, struct fth_graph *graph,
			const struct fth_graph_job *job, struct graph_outcome *out)
{
	const struct fth_graph_pagerank_options options = {
		.size = sizeof(struct fth_graph_pagerank_options),
		.iterations = (unsigned)w->iterations,
		.one_way = w->one_way};
	struct fth_graph_pagerank ranks;
	uint64_t before = cpu_ns();
	int rc = fth_graph_pagerank(graph, &options, job, &ranks);

	out->cpu_ns = cpu_ns() - before;
	if (rc == 0)
		take_ranks(w, &ranks, out);
	return rc;
}

static void count(const struct fth_cache *cache, struct graph_outcome *out)
{
	uint64_t hits = fth_cache_stat(cache, FTH_CACHE_HITS);
	uint64_t misses = fth_cache_stat(cache, FTH_CACHE_MISSES);

	out->bytes_read = fth_cache_stat(cache, FTH_CACHE_BYTES_READ);
	out->requests = fth_cache_stat(cache, FTH_CACHE_READ_REQUESTS);
	out->hit_rate = hits ? (double)hits / (double)(hits + misses) : 0;
}

static int run_ours(const struct graph_work *w, enum graph_task task, struct graph_outcome *out)
{
	struct fth_graph_job job = {.threads = (unsigned)w->threads};
	struct fth_graph *graph = NULL;
	struct fth_cache *cache;
	int rc, end;

	rc = fth_cache_open(&w->cache, &cache);
	if (rc < 0)
		return rc;
	rc = fth_graph_open(cache, w->uri, NULL, &graph);
	if (rc == 0)
		rc = task == GRAPH_BFS ? our_bfs(w, graph, &job, out)
				       : our_pagerank(w, graph, &job, out);
	count(cache, out);
	end = fth_graph_close(graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&cache);
	return rc < 0 ? rc : end;
}

/* ---- the peer's side ---- */

/* Bytes that this process had the kernel read from storage, page faults included. */
static uint64_t kernel_reads(void)
{
	FILE *io = fopen("/proc/self/io", "re");
	unsigned long long n = 0, value;
	char line[80];

	while (io && fgets(line, sizeof(line), io))
		if (sscanf(line, "read_bytes: %llu", &value) == 1)
			n = value;
	if (io)
		fclose(io);
	return n;
}

static int peer_bfs(const struct graph_work *w, struct graph_peer *peer, struct graph_outcome *out)
{
	int rc = 0;

	for (unsigned i = 0; i < w->source_count && rc == 0; i++) {
		struct fth_graph_bfs tree;

		out->cpu_ns -= cpu_ns();
		rc = graph_peer_bfs(peer, w->sources[i], &tree);
		out->cpu_ns += cpu_ns();
		if (rc == 0)
			rc = take_tree(w, &tree, out);
	}
	return rc;
}

static int peer_pagerank(const struct graph_work *w, struct graph_peer *peer,
			 struct graph_outcome *out)
{
	struct fth_graph_pagerank ranks;
	uint64_t before = cpu_ns();
	int rc = graph_peer_pagerank(peer, (unsigned)w->iterations, &ranks);

	out->cpu_ns = cpu_ns() - before;
	if (rc == 0)
		take_ranks(w, &ranks, out);
	return rc;
}

static int run_peer(const struct graph_work *w, enum graph_side side, enum graph_task task,
		    struct graph_outcome *out)
{
	struct graph_peer peer;
	uint64_t before = kernel_reads();
	int rc = graph_peer_open(&peer, w->path, &w->info, side == GRAPH_MMAP_RANDOM,
				 (unsigned)w->threads);

	if (rc < 0)
		return rc;
	rc = task == GRAPH_BFS ? peer_bfs(w, &peer, out) : peer_pagerank(w, &peer, out);
	graph_peer_close(&peer);
	out->bytes_read = kernel_reads() - before;
	return rc;
}

/* ---- the driver ---- */

struct driver {
	struct graph_work work;
	const char *side, *task, *sources, *policy;
	uint64_t cache, line, pick, seed;
};

static int index_of(const char *name, const char *const *names, int count)
{
	for (int i = 0; name && i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	return -1;
}

static uint64_t major_faults(void)
{
	struct rusage own = {0};

	getrusage(RUSAGE_SELF, &own);
	return (uint64_t)own.ru_majflt;
}

static void print_outcome(const struct graph_outcome *out)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_double(&j, "seconds", (double)out->ns / 1e9);
	fth_json_double(&j, "cpu_seconds", (double)out->cpu_ns / 1e9);
	fth_json_u64(&j, "bytes_read", out->bytes_read);
	fth_json_u64(&j, "major_faults", out->major_faults);
	fth_json_u64(&j, "requests", out->requests);
	fth_json_double(&j, "hit_rate", out->hit_rate);
	fth_json_object(&j, "digest");
	fth_json_u64(&j, "depths", out->digest.depths);
	fth_json_u64(&j, "reached", out->digest.reached);
	fth_json_u64(&j, "bad_parents", out->digest.bad_parents);
	fth_json_double(&j, "weighted", out->digest.weighted);
	fth_json_double(&j, "sum", out->digest.sum);
	fth_json_array(&j, "sample");
	for (unsigned i = 0; i < GRAPH_DIGEST_SAMPLES; i++)
		fth_json_double(&j, NULL, out->digest.sample[i]);
	fth_json_finish(&j);
}

static int run_side(struct driver *d, enum graph_side side, enum graph_task task)
{
	static struct graph_outcome out;
	uint64_t faults = major_faults();
	int rc = side == GRAPH_OURS ? run_ours(&d->work, task, &out)
				    : run_peer(&d->work, side, task, &out);

	out.major_faults = major_faults() - faults;
	if (rc == 0)
		print_outcome(&out);
	return rc;
}

/* Print vertices to begin searches at, picked by the seed. */
static int pick_sources(const struct driver *d)
{
	struct fth_graph *graph = NULL;
	struct fth_cache *cache;
	struct fth_json j;
	int rc = fth_cache_open(&d->work.cache, &cache), end;

	if (rc < 0)
		return rc;
	rc = fth_graph_open(cache, d->work.uri, NULL, &graph);
	fth_json_begin(&j, stdout);
	fth_json_array(&j, "sources");
	for (uint64_t i = 0; i < d->pick && rc == 0; i++) {
		uint32_t source;

		rc = fth_graph_pick(graph, d->seed + i, &source);
		fth_json_u64(&j, NULL, source);
	}
	fth_json_finish(&j);
	end = fth_graph_close(graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&cache);
	return rc < 0 ? rc : end;
}

static int read_info(struct graph_work *work)
{
	struct fth_dev *dev;
	int rc = fth_dev_open(work->uri, &dev);

	if (rc < 0)
		return rc;
	rc = fth_graph_read_info(dev, &work->info);
	fth_dev_close(dev);
	return rc;
}

static int take_options(struct driver *d)
{
	struct graph_work *work = &d->work;
	const char *at = d->sources;
	char *end;

	for (; at && *at && work->source_count < SOURCES_MAX; at = end + (*end == ',')) {
		work->sources[work->source_count++] = (uint32_t)strtoul(at, &end, 10);
		if (end == at)
			return fth_fail(EINVAL, "--sources %s: expected numbers", d->sources);
	}
	snprintf(work->uri, sizeof(work->uri), "file:%s", work->path);
	work->cache = (struct fth_cache_options)FTH_CACHE_OPTIONS_INIT;
	if (d->cache)
		work->cache.memory = d->cache;
	work->cache.line = (uint32_t)d->line;
	return d->policy ? fth_cache_policy_parse(d->policy, &work->cache.policy) : 0;
}

static int execute(struct driver *d)
{
	int side = index_of(d->side, side_names, GRAPH_SIDES);
	int task = index_of(d->task, task_names, GRAPH_TASKS);
	int rc = take_options(d);

	if (rc < 0)
		return rc;
	if (d->pick)
		return pick_sources(d);
	if (side < 0 || task < 0)
		return fth_fail(EINVAL, "--side or --task is missing or not known");
	rc = read_info(&d->work);
	return rc < 0 ? rc : run_side(d, (enum graph_side)side, (enum graph_task)task);
}

static int run(int argc, char **argv)
{
	struct driver d = {.work = {.threads = 1, .iterations = 1}, .line = 65536};
	const struct fth_cli_option options[] = {
		{"file", FTH_CLI_STRING, &d.work.path, 0, 0, "the graph"},
		{"side", FTH_CLI_STRING, &d.side, 0, 0, "ours, random or default: mmap"},
		{"task", FTH_CLI_STRING, &d.task, 0, 0, "bfs or pagerank"},
		{"threads", FTH_CLI_U64, &d.work.threads, 1, FTH_GRAPH_THREADS_MAX, "threads"},
		{"sources", FTH_CLI_STRING, &d.sources, 0, 0, "of the searches, as 1,2"},
		{"iterations", FTH_CLI_U64, &d.work.iterations, 1, 10000, "of PageRank"},
		{"cache", FTH_CLI_SIZE, &d.cache, 0, 0, "bytes"},
		{"line", FTH_CLI_SIZE, &d.line, 512, 65536, "bytes of a line"},
		{"policy", FTH_CLI_STRING, &d.policy, 0, 0, FTH_APP_POLICIES},
		{"one-way", FTH_CLI_FLAG, &d.work.one_way, 0, 0, "PageRank sweeps forward only"},
		{"pick", FTH_CLI_U64, &d.pick, 0, SOURCES_MAX, "only print so many sources"},
		{"seed", FTH_CLI_U64, &d.seed, 0, 0, "of these"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver graph [options]",
		.text = "Search a graph, or rank its vertices, through a cache or mmap.",
		.options = options,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	return fth_app_exit(d.work.path ? d.work.path : "--file",
			    d.work.path ? execute(&d) : -EINVAL);
}

const struct fth_command fth_driver_graph = {
	.name = "graph",
	.summary = "a side of the benchmark graph",
	.run = run,
};
