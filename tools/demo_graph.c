/* SPDX-License-Identifier: BSD-2-Clause */
/* The second half of `fathom demo`: a graph on flash, four times the memory it is worked on in. */
#include "demo.h"

#include "cli.h"

#include "fathom/apps/graph.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CACHE_SHARE 4
#define ITERATIONS  5

struct demo {
	struct fth_json *json; /* NULL: text */
	struct fth_graph_job job;
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_graph *graph;
	struct fth_graph_memory reference;
	uint64_t seed;
	uint64_t build_ns;
	bool wrong;
};

/* One row of the table. */
struct row {
	const char *what;
	const struct fth_graph_work *work;
	uint64_t before[FTH_CACHE_STAT_COUNT];
	uint64_t useful; /* bytes that the algorithm looked at */
	char answer[80];
	int check; /* what the reference says */
};

static int progress(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	fth_cli_progress(what, done, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int open_file(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct demo *demo = context;
	int rc = demo_open_temporary(bytes, &demo->dev);

	*out = demo->dev;
	return rc;
}

static int build(struct demo *demo, unsigned scale)
{
	const struct fth_graph_generate kronecker = {
		.kind = FTH_GRAPH_KRONECKER,
		.scale = scale,
		.seed = demo->seed,
	};
	const struct fth_graph_build how = {.open = open_file, .context = demo};
	uint64_t start = fth_now_ns();
	int rc = fth_graph_generate(&kronecker, &how, &demo->job, NULL);

	demo->build_ns = fth_now_ns() - start;
	return rc;
}

/* The reference is the whole graph in memory, read past the cache whose figures are shown. */
static int load_reference(struct demo *demo)
{
	struct fth_graph *graph;
	int rc = fth_graph_open_dev(demo->cache, demo->dev, NULL, &graph), end;

	if (rc < 0)
		return rc;
	rc = fth_graph_load(graph, &demo->reference);
	end = fth_graph_close(graph);
	return rc < 0 ? rc : end;
}

static int open_graph(struct demo *demo)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_graph_info info;
	int rc = fth_graph_read_info(demo->dev, &info);

	if (rc < 0)
		return rc;
	options.memory = info.edges * sizeof(uint32_t) / CACHE_SHARE;
	rc = fth_cache_open(&options, &demo->cache);
	if (rc == 0)
		rc = load_reference(demo);
	return rc < 0 ? rc : fth_graph_open_dev(demo->cache, demo->dev, NULL, &demo->graph);
}

/* ---- telling ---- */

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void print_head(struct demo *demo)
{
	const struct fth_graph_info *info = fth_graph_info(demo->graph);
	struct fth_cache_footprint footprint;

	fth_cache_footprint(demo->cache, &footprint);
	if (demo->json) {
		fth_json_object(demo->json, "graph");
		fth_json_u64(demo->json, "vertices", info->vertices);
		fth_json_u64(demo->json, "edges", info->edges);
		fth_json_u64(demo->json, "cache_bytes", footprint.data_bytes);
		fth_json_array(demo->json, "runs");
		return;
	}
	printf("\nA graph of %llu vertices and %llu edges, made in %.1f s: %.0f MiB of edges in a\n"
	       "file, worked on through a cache of %.0f MiB. Answers are compared with those of\n"
	       "plain algorithms that have the whole graph in memory.\n\n",
	       (unsigned long long)info->vertices, (unsigned long long)info->edges,
	       (double)demo->build_ns / 1e9, mib(info->edges * sizeof(uint32_t)),
	       mib(footprint.data_bytes));
	printf("  %-13s %8s %12s %7s %10s %10s  %s\n", "what", "seconds", "edges/s", "hits",
	       "read, MiB", "per useful", "answer");
}

static void begin_row(struct demo *demo, struct row *row, const char *what)
{
	row->what = what;
	for (unsigned i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		row->before[i] = fth_cache_stat(demo->cache, (enum fth_cache_stat)i);
}

static uint64_t since(const struct demo *demo, const struct row *row, enum fth_cache_stat which)
{
	return fth_cache_stat(demo->cache, which) - row->before[which];
}

static void print_row(struct demo *demo, const struct row *row)
{
	uint64_t hits = since(demo, row, FTH_CACHE_HITS),
		 read = since(demo, row, FTH_CACHE_BYTES_READ);
	uint64_t all = hits + since(demo, row, FTH_CACHE_MISSES) +
		       since(demo, row, FTH_CACHE_MERGED) + since(demo, row, FTH_CACHE_PREFETCHES);
	double seconds = (double)row->work->elapsed_ns / 1e9;
	double share = all ? (double)hits / (double)all : 0;
	double amplification = row->useful ? (double)read / (double)row->useful : 0;

	demo->wrong |= row->check < 0;
	if (!demo->json) {
		printf("  %-13s %8.2f %12.0f %6.1f%% %10.1f %10.2f  %s, %s\n", row->what, seconds,
		       (double)row->work->edges / seconds, 100 * share, mib(read), amplification,
		       row->answer, row->check < 0 ? fth_error_text(row->check) : "right");
		fflush(stdout);
		return;
	}
	fth_json_object(demo->json, NULL);
	fth_json_string(demo->json, "what", row->what);
	fth_json_double(demo->json, "seconds", seconds);
	fth_json_u64(demo->json, "edges", row->work->edges);
	fth_json_double(demo->json, "hit_rate", share);
	fth_json_u64(demo->json, "bytes_read", read);
	fth_json_double(demo->json, "amplification", amplification);
	fth_json_string(demo->json, "answer", row->answer);
	fth_json_bool(demo->json, "right", row->check == 0);
	fth_json_end(demo->json);
}

/* ---- the runs ---- */

static int run_bfs(struct demo *demo)
{
	struct fth_graph_bfs tree = {0};
	struct row row = {0};
	uint32_t source;
	int rc = fth_graph_pick(demo->graph, demo->seed, &source);

	begin_row(demo, &row, "BFS");
	if (rc == 0)
		rc = fth_graph_bfs(demo->graph, source, &demo->job, &tree);
	if (rc < 0)
		return rc;
	snprintf(row.answer, sizeof(row.answer), "%llu reached, depth %llu",
		 (unsigned long long)tree.reached, (unsigned long long)tree.depth);
	row.work = &tree.work;
	row.useful = tree.work.edges * sizeof(uint32_t);
	row.check = fth_graph_check_bfs(&demo->reference, source, &tree);
	print_row(demo, &row);
	fth_graph_bfs_release(&tree);
	return row.check == -ENOMEM ? row.check : 0;
}

static uint64_t best_of(const double *rank, uint64_t n)
{
	uint64_t best = 0;

	for (uint64_t v = 1; v < n; v++)
		if (rank[v] > rank[best])
			best = v;
	return best;
}

static int run_pagerank(struct demo *demo)
{
	const struct fth_graph_pagerank_options options = {
		.size = sizeof(struct fth_graph_pagerank_options), .iterations = ITERATIONS};
	struct fth_graph_pagerank ranks = {0};
	struct row row = {0};
	uint64_t best;
	int rc;

	begin_row(demo, &row, "PageRank, 5x");
	rc = fth_graph_pagerank(demo->graph, &options, &demo->job, &ranks);
	if (rc < 0)
		return rc;
	best = best_of(ranks.rank, fth_graph_info(demo->graph)->vertices);
	snprintf(row.answer, sizeof(row.answer), "best is %llu with %.2e", (unsigned long long)best,
		 ranks.rank[best]);
	row.work = &ranks.work;
	row.useful = ranks.work.edges * sizeof(uint32_t);
	row.check = fth_graph_check_pagerank(&demo->reference, &options, &ranks);
	print_row(demo, &row);
	fth_graph_pagerank_release(&ranks);
	return row.check == -ENOMEM ? row.check : 0;
}

int demo_graph(struct fth_json *j, unsigned scale, unsigned threads, uint64_t seed)
{
	struct demo demo = {.json = j, .seed = seed};
	int rc, end;

	demo.job = (struct fth_graph_job){.threads = threads, .progress = progress};
	rc = build(&demo, scale);
	if (rc == 0)
		rc = open_graph(&demo);
	if (rc == 0) {
		fth_cli_progress_end();
		print_head(&demo);
		rc = run_bfs(&demo);
		if (rc == 0)
			rc = run_pagerank(&demo);
		if (j) {
			fth_json_end(j);
			fth_json_end(j);
		}
	}
	fth_graph_unload(&demo.reference);
	end = fth_graph_close(demo.graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&demo.cache);
	rc = rc < 0 ? rc : end;
	if (!demo.cache)
		fth_dev_close(demo.dev);
	return rc < 0 ? rc : demo.wrong;
}
