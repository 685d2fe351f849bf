/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Breadth-first search, level by level. The vertices of a level are taken in order, many at a time,
 * and their neighbours looked at as they come from the device.
 *
 * 1. A bit of visited is set once, by the thread that reaches the vertex; that thread writes its
 *    parent and puts it into `next`.
 * 2. Most neighbours have been visited, and which ones is anybody's guess, for a branch predictor
 *    too: those that have not are picked out without a branch first.
 */
#include "apps/graph/frontier.h"

#include <stdlib.h>
#include <string.h>

/* Below this many vertices a level is not worth starting threads. */
#define ALONE_MAX 256
#define AT_ONCE	  256u /* neighbours picked from at once */

struct bfs {
	struct fth_graph *graph;
	uint32_t *parent;
	uint64_t *visited;
	struct fth_frontier now, next;
	struct bfs_worker *workers;
	size_t batch; /* vertices taken at once */
	unsigned threads;
	uint64_t edges;
};

/* What a worker keeps between levels. */
struct bfs_worker {
	struct bfs *bfs;
	uint32_t *vertices;
	struct fth_span *spans;
	struct fth_feeder feeder;
};

/* The neighbours that nobody has visited, into out: how many; or a negative errno. */
static int pick_unvisited(const struct bfs *bfs, const uint32_t *neighbours, uint32_t n,
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

static void reach(struct bfs_worker *worker, uint32_t from, uint32_t to)
{
	struct bfs *bfs = worker->bfs;
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
	struct bfs_worker *worker = context;
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

static int visit_batch(struct bfs_worker *worker, size_t n)
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
	struct bfs *bfs = context;
	struct bfs_worker *worker = &bfs->workers[number];
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

static void swap_levels(struct bfs *bfs)
{
	struct fth_frontier swap = bfs->now;

	fth_frontier_clear(&swap);
	fth_frontier_seal(&bfs->next);
	bfs->next.backward = !swap.backward;
	bfs->now = bfs->next;
	bfs->next = swap;
}

static void start_at(struct bfs *bfs, uint32_t source)
{
	struct fth_feeder *feeder = &bfs->workers[0].feeder;

	memset(bfs->parent, 0xff, bfs->graph->info.vertices * sizeof(*bfs->parent));
	reach(&bfs->workers[0], source, source);
	fth_feeder_flush(feeder, &bfs->next);
	swap_levels(bfs);
}

static int search(struct bfs *bfs, uint32_t source, const struct fth_graph_job *job,
		  struct fth_graph_bfs *out)
{
	int rc = 0;

	start_at(bfs, source);
	while (rc == 0 && bfs->now.count > 0) {
		unsigned threads = bfs->now.count < ALONE_MAX ? 1 : bfs->threads;

		out->reached += bfs->now.count;
		out->work.rounds++;
		rc = fth_graph_team_run(job, threads, work_on_level, bfs);
		if (rc == 0)
			swap_levels(bfs);
	}
	out->depth = out->work.rounds - 1;
	return rc;
}

/* ---- memory ---- */

static int worker_init(struct bfs_worker *worker, struct bfs *bfs)
{
	worker->bfs = bfs;
	worker->vertices = malloc(bfs->batch * sizeof(*worker->vertices));
	worker->spans = malloc(bfs->batch * sizeof(*worker->spans));
	return worker->vertices && worker->spans ? 0 : -ENOMEM;
}

static int bfs_init(struct bfs *bfs)
{
	uint64_t n = bfs->graph->info.vertices;
	int rc = fth_frontier_init(&bfs->now, n);

	if (rc == 0)
		rc = fth_frontier_init(&bfs->next, n);
	bfs->visited = fth_graph_alloc_zeroed((n + 63) / 64, 8);
	bfs->workers = calloc(bfs->threads, sizeof(*bfs->workers));
	bfs->parent = fth_graph_alloc(n, sizeof(*bfs->parent));
	if (rc < 0 || !bfs->visited || !bfs->workers || !bfs->parent)
		return -ENOMEM;
	for (unsigned i = 0; i < bfs->threads && rc == 0; i++)
		rc = worker_init(&bfs->workers[i], bfs);
	return rc;
}

static void bfs_release(struct bfs *bfs)
{
	for (unsigned i = 0; bfs->workers && i < bfs->threads; i++) {
		free(bfs->workers[i].vertices);
		free(bfs->workers[i].spans);
	}
	free(bfs->workers);
	free(bfs->visited);
	fth_frontier_release(&bfs->now);
	fth_frontier_release(&bfs->next);
}

static uint64_t state_bytes(const struct bfs *bfs)
{
	uint64_t n = bfs->graph->info.vertices;

	return fth_graph_offset_bytes(bfs->graph) + n * sizeof(*bfs->parent) + n / 8 +
	       2 * fth_frontier_bytes(&bfs->now);
}

int fth_graph_bfs(struct fth_graph *graph, uint64_t source, const struct fth_graph_job *job,
		  struct fth_graph_bfs *out)
{
	struct bfs bfs = {.graph = graph};
	uint64_t degree, start = fth_now_ns();
	int rc = fth_graph_degree(graph, source, &degree);

	*out = (struct fth_graph_bfs){0};
	if (rc < 0)
		return rc;
	if (!job)
		job = &fth_graph_no_job;
	bfs.threads = fth_graph_team_threads(job);
	bfs.batch = fth_graph_batch(graph, bfs.threads);
	rc = bfs_init(&bfs);
	if (rc == 0)
		rc = search(&bfs, (uint32_t)source, job, out);
	if (rc == 0) {
		out->work.state_bytes = state_bytes(&bfs);
		out->work.edges = bfs.edges;
		out->work.elapsed_ns = fth_now_ns() - start;
		out->parent = bfs.parent;
	} else {
		free(bfs.parent);
		*out = (struct fth_graph_bfs){0};
	}
	bfs_release(&bfs);
	return rc;
}

void fth_graph_bfs_release(struct fth_graph_bfs *tree)
{
	free(tree->parent);
	*tree = (struct fth_graph_bfs){0};
}
