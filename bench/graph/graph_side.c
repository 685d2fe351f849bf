/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_side.h"

#include "graph_peer.h"

#include <sys/resource.h>

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
		.iterations = w->iterations,
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
	struct fth_graph_job job = {.threads = w->threads};
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
	int rc = graph_peer_pagerank(peer, w->iterations, &ranks);

	out->cpu_ns = cpu_ns() - before;
	if (rc == 0)
		take_ranks(w, &ranks, out);
	return rc;
}

static int run_peer(const struct graph_work *w, enum graph_side side, enum graph_task task,
		    struct graph_outcome *out)
{
	struct graph_peer peer;
	int rc = graph_peer_open(&peer, w->path, &w->info, side == GRAPH_MMAP_RANDOM, w->threads);

	if (rc < 0)
		return rc;
	rc = task == GRAPH_BFS ? peer_bfs(w, &peer, out) : peer_pagerank(w, &peer, out);
	graph_peer_close(&peer);
	return rc;
}

int graph_side_run(const struct graph_work *work, enum graph_side side, enum graph_task task,
		   struct graph_outcome *out)
{
	return side == GRAPH_OURS ? run_ours(work, task, out) : run_peer(work, side, task, out);
}
