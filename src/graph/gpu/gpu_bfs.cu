/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Breadth-first search on a GPU, level by level: from the vertices of the last level to what they
 * reach (push), or from vertices that are not reached to any of the last level (pull; S. Beamer,
 * K. Asanovic, D. Patterson, SC 2012), which may end at the first one.
 */
#include "graph/gpu/gpu_internal.h"
#include "base/options.h"

/* Pull while the last level has more than this share of the edges that are left: Beamer's alpha. */
#define PULL_SHARE 14u
/* And push again when it has less than this share of the vertices: his beta. */
#define PUSH_SHARE 24u

struct search {
	struct fth_gpu_graph *graph;
	const struct fth_gpu_graph_source *edges;
	bool may_pull, pulls;
	bool looked_ahead;    /* in the last level */
	uint64_t found;	      /* vertices of the last level, */
	uint64_t found_edges; /* and edges that they have */
	uint64_t left;	      /* edges of vertices that are not reached */
};

/* What the last level put down for later is found. Whole warps. */
__global__ static void take_later(struct graph_report *report, struct graph_bfs_push step,
				  uint64_t words)
{
	for (uint64_t word = graph_thread(); word < words; word += graph_threads())
		step.take_later(word);
	__syncwarp();
	step.finish(report);
}

int fth_gpu_graph_load_bfs(int registers[FTH_GPU_GRAPH_KERNELS])
{
	int rc = graph_load_sweep<struct graph_bfs_push>(&registers[FTH_GPU_GRAPH_BFS_PUSH]);

	if (rc == 0)
		rc = graph_load_sweep<struct graph_bfs_pull>(&registers[FTH_GPU_GRAPH_BFS_PULL]);
	return rc < 0 ? rc : graph_load(take_later, NULL);
}

static void choose_direction(struct search *s)
{
	if (!s->may_pull)
		return;
	if (!s->pulls)
		s->pulls = s->found_edges > s->left / PULL_SHARE;
	else
		s->pulls = s->found >= s->graph->shape.vertices / PUSH_SHARE;
}

/* The report of a sweep begins with what the last one has found already. */
static int begin_level(struct search *s, const struct graph_bfs_push &step)
{
	struct fth_gpu_graph *graph = s->graph;
	int rc = fth_gpu_graph_begin(graph);

	if (rc < 0 || !s->looked_ahead)
		return rc;
	take_later<<<graph_vertex_blocks(graph), GRAPH_THREADS, 0, graph->stream>>>(
		graph->view.report, step, graph->words);
	return fth_gpu_check(cudaGetLastError(), "launching a kernel");
}

static int next_level(struct search *s, uint32_t depth)
{
	struct fth_gpu_graph *graph = s->graph;
	struct graph_bfs all = {graph->offsets, graph->now, graph->next, graph->visited,
				graph->label,	depth,	    0,		 0};
	/* There and back: what the last sweep left in the cache is what this one wants first. */
	bool backward = depth % 2 == 0;
	struct graph_bfs_push push = {};
	struct graph_bfs_pull pull = {};
	int rc;

	(struct graph_bfs &)push = all;
	(struct graph_bfs &)pull = all;
	/* Not where pulling may come next, which needs no lists of what was found last. */
	push.early = !s->may_pull;
	push.undirected = graph->shape.undirected;
	push.later = graph->later;
	push.spent = graph->spent;
	push.spent_cut = graph->spent_cut;
	rc = begin_level(s, push);
	if (rc < 0)
		return rc;
	rc = s->pulls ? graph_run_on(graph, s->edges, pull, backward)
		      : graph_run_on(graph, s->edges, push, backward);
	s->looked_ahead = push.early && s->edges->cache;
	s->found = graph->told->report.found;
	s->found_edges = graph->told->report.edges;
	s->left -= s->found_edges < s->left ? s->found_edges : s->left;
	return rc < 0 ? rc : fth_gpu_graph_next_round(graph);
}

static int start(struct search *s, uint64_t source)
{
	struct fth_gpu_graph *graph = s->graph;
	uint64_t ends[2];
	int rc = fth_gpu_graph_start_at(graph, source);

	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->label, 0xff, graph->shape.vertices * 4);
	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->label + source, 0, 4);
	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->visited, 0, graph->words * 4);
	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->later, 0, graph->words * 4);
	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->spent, 0, graph->words * 4);
	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->spent_cut, 0, graph->cut_words * 4);
	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, (uint8_t *)graph->visited + source / 8,
					1 << source % 8, 1);
	if (rc == 0)
		rc = fth_gpu_graph_copy(graph, ends, graph->offsets + source, sizeof(ends));
	s->found = 1;
	s->found_edges = rc < 0 ? 0 : ends[1] - ends[0];
	s->left = graph->shape.edges - s->found_edges;
	return rc;
}

int fth_gpu_graph_bfs(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		      uint64_t source, const struct fth_gpu_graph_bfs_options *opts,
		      struct fth_gpu_graph_bfs *out)
{
	struct search s = {graph, edges};
	uint64_t begin = fth_now_ns();
	int rc = opts ? fth_options_check("gpu graph", opts->size, sizeof(*opts)) : 0;

	memset(out, 0, sizeof(*out));
	if (rc < 0)
		return rc;
	if (source >= graph->shape.vertices)
		return fth_fail(ERANGE, "vertex %llu does not exist", (unsigned long long)source);
	s.may_pull = graph->shape.undirected && !(opts && opts->push_only);
	rc = start(&s, source);
	while (rc == 0 && s.found > 0) {
		out->reached += s.found;
		out->work.rounds++;
		choose_direction(&s);
		out->pulled += s.pulls;
		rc = next_level(&s, (uint32_t)out->work.rounds);
	}
	out->depth = out->work.rounds ? out->work.rounds - 1 : 0;
	out->level = graph->label;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
