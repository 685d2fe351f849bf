/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Breadth-first search, level by level, each in the direction that costs less. bfs.h says how
 * levels are searched; bfs_down.c and bfs_up.c do so, bfs_choose.c chooses.
 */
#include "graph/algorithm/bfs.h"
#include "base/options.h"

#include "fathom/base/rng.h"

#include <stdlib.h>
#include <string.h>

static void swap_levels(struct fth_bfs *bfs)
{
	struct fth_frontier swap = bfs->now;

	fth_frontier_clear(&swap);
	fth_frontier_seal(&bfs->next);
	bfs->next.backward = !swap.backward;
	bfs->now = bfs->next;
	bfs->next = swap;
	bfs->reached += bfs->now.count;
}

static void start_at(struct fth_bfs *bfs, uint32_t source)
{
	struct fth_feeder *feeder = &bfs->workers[0].feeder;

	memset(bfs->parent, 0xff, bfs->graph->info.vertices * sizeof(*bfs->parent));
	bfs->parent[source] = source;
	bfs->visited[source / 64] |= (uint64_t)1 << (source % 64);
	fth_frontier_add_own(&bfs->next, feeder, source);
	fth_feeder_flush(feeder, &bfs->next);
	swap_levels(bfs);
}

static int search(struct fth_bfs *bfs, uint32_t source, const struct fth_graph_job *job,
		  struct fth_graph_bfs *out)
{
	int rc = 0;

	start_at(bfs, source);
	while (rc == 0 && bfs->now.count > 0) {
		int up = fth_bfs_choose(bfs);

		rc = up < 0 ? up : up ? fth_bfs_up(bfs, job) : fth_bfs_down(bfs, job);
		out->work.rounds++;
		out->bottom_up += up > 0;
		if (rc == 0)
			swap_levels(bfs);
	}
	out->reached = bfs->reached;
	out->depth = out->work.rounds - 1;
	return rc;
}

/* ---- memory ---- */

static int worker_init(struct fth_bfs_worker *worker, struct fth_bfs *bfs)
{
	worker->bfs = bfs;
	worker->vertices = malloc(bfs->batch * sizeof(*worker->vertices));
	worker->spans = malloc(bfs->batch * sizeof(*worker->spans));
	return worker->vertices && worker->spans ? 0 : -ENOMEM;
}

static int bfs_init(struct fth_bfs *bfs)
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
	return rc == 0 && bfs->in ? fth_bfs_up_init(bfs) : rc;
}

static void bfs_release(struct fth_bfs *bfs)
{
	fth_bfs_up_release(bfs);
	for (unsigned i = 0; bfs->workers && i < bfs->threads; i++) {
		free(bfs->workers[i].vertices);
		free(bfs->workers[i].spans);
	}
	free(bfs->workers);
	free(bfs->visited);
	fth_frontier_release(&bfs->now);
	fth_frontier_release(&bfs->next);
}

static uint64_t state_bytes(const struct fth_bfs *bfs)
{
	uint64_t n = bfs->graph->info.vertices, bytes = fth_graph_offset_bytes(bfs->graph);

	if (bfs->in && bfs->in != bfs->graph)
		bytes += fth_graph_offset_bytes(bfs->in);
	return bytes + n * sizeof(*bfs->parent) + n / 8 + 2 * fth_frontier_bytes(&bfs->now) +
	       fth_bfs_up_bytes(bfs);
}

/* ---- options ---- */

#define TRANSPOSE_VERTICES 64u /* of the transpose that are tried, */
#define TRANSPOSE_EDGES	   16u /* and edges that are looked for in the graph */

/* Neighbours ascend. */
static int has_edge(struct fth_graph *graph, uint32_t from, uint32_t to, bool *out)
{
	struct fth_span span;
	int rc = fth_graph_spans(graph, &from, 1, &span);

	*out = false;
	while (rc == 0 && span.count > 0 && !*out) {
		uint64_t half = span.count / 2;
		uint32_t at;

		rc = fth_array_get(graph->edges, span.first + half, &at, sizeof(at));
		if (rc < 0)
			return rc;
		*out = at == to;
		if (at < to)
			span = (struct fth_span){span.first + half + 1, span.count - half - 1};
		else
			span.count = half;
	}
	return rc;
}

/* One edge of a vertex of the transpose: is it in the graph, the other way round? */
static int check_reversed(const struct fth_bfs *bfs, uint32_t v, const struct fth_span *span,
			  struct fth_rng *rng)
{
	uint64_t at = span->first + fth_rng_below(rng, span->count);
	uint32_t to;
	int rc = fth_array_get(bfs->in->edges, at, &to, sizeof(to));
	bool found;

	if (rc == 0 && to >= bfs->graph->info.vertices)
		rc = fth_fail(EBADMSG, "edge %llu of the transpose leads to no vertex",
			      (unsigned long long)at);
	if (rc == 0)
		rc = has_edge(bfs->graph, to, v, &found);
	if (rc == 0 && !found)
		rc = fth_fail(EINVAL,
			      "not the transpose: it has edge %u to %u, the graph does not have %u "
			      "to %u; import it reversed",
			      v, to, to, v);
	return rc;
}

/* A graph that was not reversed has the same size, and would give wrong trees: try a few edges. */
static int check_transpose(const struct fth_bfs *bfs)
{
	struct fth_rng rng = {bfs->graph->info.edges};
	unsigned edges = 0;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < TRANSPOSE_VERTICES && edges < TRANSPOSE_EDGES; i++) {
		uint32_t v = (uint32_t)fth_rng_below(&rng, bfs->graph->info.vertices);
		struct fth_span span;

		rc = fth_graph_spans(bfs->in, &v, 1, &span);
		if (rc < 0 || span.count == 0)
			continue;
		edges++;
		rc = check_reversed(bfs, v, &span, &rng);
	}
	return rc;
}

/* Where incoming edges are found. */
static int find_incoming(struct fth_bfs *bfs, struct fth_graph *transpose)
{
	const struct fth_graph_info *info = &bfs->graph->info;

	if (info->undirected)
		bfs->in = bfs->graph;
	else
		bfs->in = transpose;
	if (!bfs->in && bfs->direction == FTH_GRAPH_BOTTOM_UP)
		return fth_fail(EINVAL, "bottom-up search of a directed graph needs its transpose");
	if (bfs->in &&
	    (bfs->in->info.vertices != info->vertices || bfs->in->info.edges != info->edges))
		return fth_fail(
			EINVAL,
			"the transpose has %llu vertices and %llu edges, the graph %llu and %llu",
			(unsigned long long)bfs->in->info.vertices,
			(unsigned long long)bfs->in->info.edges, (unsigned long long)info->vertices,
			(unsigned long long)info->edges);
	return bfs->in && !info->undirected && bfs->direction != FTH_GRAPH_TOP_DOWN
		       ? check_transpose(bfs)
		       : 0;
}

static int take_options(struct fth_bfs *bfs, const struct fth_graph_bfs_options *options)
{
	int rc = options ? fth_options_check("graph", options->size, sizeof(*options)) : 0;

	if (rc < 0)
		return rc;
	if (options && options->direction > FTH_GRAPH_BOTTOM_UP)
		return fth_fail(EINVAL, "direction %d is not a value of enum fth_graph_direction",
				(int)options->direction);
	if (options)
		bfs->direction = options->direction;
	return find_incoming(bfs, options ? options->transpose : NULL);
}

static int bfs_run(struct fth_bfs *bfs, uint32_t source, const struct fth_graph_job *job,
		   struct fth_graph_bfs *out)
{
	uint64_t start = fth_now_ns();
	int rc;

	bfs->threads = fth_graph_team_threads(job);
	bfs->batch = fth_graph_batch(bfs->graph, bfs->threads);
	bfs->left = bfs->graph->info.edges;
	bfs->backward = fth_graph_swept(bfs->graph);
	rc = bfs_init(bfs);
	if (rc == 0)
		rc = search(bfs, source, job, out);
	if (rc == 0) {
		fth_graph_set_swept(bfs->graph, bfs->backward);
		out->work.state_bytes = state_bytes(bfs);
		out->work.edges = bfs->edges;
		out->work.elapsed_ns = fth_now_ns() - start;
		out->parent = bfs->parent;
	} else {
		free(bfs->parent);
		*out = (struct fth_graph_bfs){0};
	}
	bfs_release(bfs);
	return rc;
}

int fth_graph_bfs_with(struct fth_graph *graph, uint64_t source,
		       const struct fth_graph_bfs_options *options, const struct fth_graph_job *job,
		       struct fth_graph_bfs *out)
{
	struct fth_bfs bfs = {.graph = graph};
	uint64_t degree;
	int rc = fth_graph_degree(graph, source, &degree);

	*out = (struct fth_graph_bfs){0};
	if (rc == 0)
		rc = take_options(&bfs, options);
	return rc < 0 ? rc : bfs_run(&bfs, (uint32_t)source, job ? job : &fth_graph_no_job, out);
}

int fth_graph_bfs(struct fth_graph *graph, uint64_t source, const struct fth_graph_job *job,
		  struct fth_graph_bfs *out)
{
	return fth_graph_bfs_with(graph, source, NULL, job, out);
}

void fth_graph_bfs_release(struct fth_graph_bfs *tree)
{
	free(tree->parent);
	*tree = (struct fth_graph_bfs){0};
}
