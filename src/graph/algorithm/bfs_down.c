/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A level, top-down. Its vertices are taken in order, many at a time, and their neighbours looked
 * at as they come from the device. Most neighbours have been visited, and a branch predictor cannot
 * know which: those that have not are picked out without a branch first.
 */
#include "graph/algorithm/bfs.h"

/* Below this many vertices a level is not worth starting threads. */
#define ALONE_MAX 256
#define AT_ONCE	  256u /* neighbours picked from at once */

/* The neighbours that nobody has visited, into out: how many; or a negative errno. */
static int pick_unvisited(const struct fth_bfs *bfs, const uint32_t *neighbours, uint32_t n,
			  uint32_t *out)
{
	uint64_t vertices = bfs->graph->info.vertices;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t v = neighbours[i];

		if (v >= vertices)
			return fth_graph_bad_neighbour(v);
		out[count] = v;
		count += !fth_bit(bfs->visited, v);
	}
	return (int)count;
}

static void reach(struct fth_bfs_worker *worker, uint32_t from, uint32_t to)
{
	struct fth_bfs *bfs = worker->bfs;
	uint64_t bit = (uint64_t)1 << (to % 64);

	/* Atomic: of several threads that come here one becomes the parent. Orders nothing. */
	if (fth_or_acqrel_dev64(&bfs->visited[to / 64], bit) & bit)
		return;
	bfs->parent[to] = from;
	fth_frontier_add(&bfs->next, &worker->feeder, to);
}

static int visit_neighbours(void *context, size_t which, uint64_t first, const void *elements,
			    uint64_t n)
{
	struct fth_bfs_worker *worker = context;
	const uint32_t *neighbours = elements;
	uint32_t unvisited[AT_ONCE], from = worker->vertices[which];

	(void)first;
	for (uint64_t done = 0; done < n; done += AT_ONCE) {
		uint32_t some = n - done < AT_ONCE ? (uint32_t)(n - done) : AT_ONCE;
		int count = pick_unvisited(worker->bfs, neighbours + done, some, unvisited);

		if (count < 0)
			return count;
		for (int i = 0; i < count; i++)
			reach(worker, from, unvisited[i]);
	}
	return 0;
}

static int visit_batch(struct fth_bfs_worker *worker, size_t n)
{
	struct fth_graph *graph = worker->bfs->graph;
	uint64_t edges = 0;
	int rc = fth_graph_spans(graph, worker->vertices, n, worker->spans);

	if (rc == 0)
		rc = fth_graph_walk(graph, worker->spans, n, visit_neighbours, worker);
	for (size_t i = 0; i < n; i++)
		edges += worker->spans[i].count;
	/* relaxed: a sum that is read after the team has ended. */
	fth_add_relaxed_dev64(&worker->bfs->edges, edges);
	return rc;
}

static int work_on_level(struct fth_graph_team *team, void *context, unsigned number)
{
	struct fth_bfs *bfs = context;
	struct fth_bfs_worker *worker = &bfs->workers[number];
	uint64_t done, total;
	size_t n;
	int rc = 0;

	while (rc == 0 && !fth_graph_team_failed(team) &&
	       (n = fth_frontier_take(&bfs->now, worker->vertices, bfs->batch)) > 0) {
		fth_frontier_progress(&bfs->now, &done, &total);
		rc = fth_graph_team_tell(team, number, "searching a level", done, total);
		if (rc == 0)
			rc = visit_batch(worker, n);
	}
	fth_feeder_flush(&worker->feeder, &bfs->next);
	return rc;
}

int fth_bfs_down(struct fth_bfs *bfs, const struct fth_graph_job *job)
{
	unsigned threads = bfs->now.count < ALONE_MAX ? 1 : bfs->threads;

	return fth_graph_team_run(job, threads, work_on_level, bfs);
}
