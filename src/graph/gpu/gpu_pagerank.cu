/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PageRank on a GPU, as graph/pagerank.c: pull in undirected graphs, push in directed ones. What a
 * vertex gives is single precision, sums are double. Sweeps go there and back, so that the part of
 * the edges that the last one left in the cache is the first that the next one wants.
 */
#include "graph/gpu/gpu_internal.h"
#include "base/options.h"

enum { CHANGE, DANGLING };

/* Each vertex gets its rank from its sum, and says what it gives in the next iteration. */
__global__ static void settle(struct graph_view g, double base, double damping, bool first,
			      double *sum, double *rank, float *give, double *sums)
{
	double change = 0, dangling = 0;

	for (uint64_t v = graph_thread(); v < g.vertices; v += graph_threads()) {
		uint64_t degree = g.offsets[v + 1] - g.offsets[v];
		double now = first ? base : base + damping * sum[v];

		change += first ? 0 : fabs(now - rank[v]);
		rank[v] = now;
		sum[v] = 0;
		give[v] = degree ? (float)(now / (double)degree) : 0;
		dangling += degree ? 0 : now;
	}
	__syncwarp();
	change = graph_sum(change);
	dangling = graph_sum(dangling);
	if (threadIdx.x % 32 == 0) {
		atomicAdd(&sums[CHANGE], change);
		atomicAdd(&sums[DANGLING], dangling);
	}
}

int fth_gpu_graph_load_pagerank(int registers[FTH_GPU_GRAPH_KERNELS])
{
	int rc = graph_load_sweep<struct graph_rank_pull>(&registers[FTH_GPU_GRAPH_PAGERANK]);

	if (rc == 0)
		rc = graph_load_sweep<struct graph_rank_push>(NULL);
	return rc < 0 ? rc : graph_load(settle, NULL);
}

static int run_settle(struct fth_gpu_graph *graph, double base, double damping, bool first)
{
	int rc = fth_gpu_graph_fill(graph, graph->sums, 0, 2 * sizeof(double));

	if (rc < 0)
		return rc;
	settle<<<graph_vertex_blocks(graph), GRAPH_THREADS, 0, graph->stream>>>(
		graph->view, base, damping, first, (double *)graph->distance, graph->rank,
		(float *)graph->label, graph->sums);
	rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");
	return rc < 0 ? rc
		      : fth_gpu_graph_copy(graph, graph->told->sums, graph->sums,
					   2 * sizeof(double));
}

static int add_up(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		  bool backward)
{
	const float *give = (const float *)graph->label;
	double *sum = (double *)graph->distance;

	if (graph->shape.undirected) {
		struct graph_rank_pull step = {};

		(struct graph_rank &)step = {give, sum};
		return graph_run(graph, edges, step, backward);
	}
	struct graph_rank_push step = {};

	(struct graph_rank &)step = {give, sum};
	return graph_run(graph, edges, step, backward);
}

int fth_gpu_graph_pagerank(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
			   const struct fth_graph_pagerank_options *options,
			   struct fth_gpu_graph_pagerank *out)
{
	struct fth_graph_pagerank_options o = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	double n = (double)graph->shape.vertices;
	uint64_t begin = fth_now_ns();
	int rc = options ? fth_options_check("gpu graph", options->size, sizeof(o)) : 0;

	memset(out, 0, sizeof(*out));
	if (rc < 0)
		return rc;
	if (options)
		o = *options;
	o.iterations = o.iterations ? o.iterations : 20;
	o.damping = o.damping > 0 ? o.damping : 0.85;
	rc = run_settle(graph, 1 / n, 0, true);
	while (rc == 0 && out->work.rounds < o.iterations) {
		double base = (1 - o.damping + o.damping * graph->told->sums[DANGLING]) / n;

		rc = add_up(graph, edges, !o.one_way && out->work.rounds % 2 != 0);
		if (rc == 0)
			rc = run_settle(graph, base, o.damping, false);
		out->work.rounds++;
		out->change = graph->told->sums[CHANGE];
		if (o.tolerance > 0 && out->change < o.tolerance)
			break;
	}
	out->rank = graph->rank;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
