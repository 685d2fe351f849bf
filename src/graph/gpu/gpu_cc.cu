/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected components on a GPU: one sweep over the edges joins trees of vertices, which lie in GPU
 * memory (gpu_forest.h), and then each vertex takes its root for a label. A root is the
 * smallest vertex of its tree.
 */
#include "graph/gpu/gpu_internal.h"

__global__ static void plant(uint32_t *parent, uint64_t n)
{
	for (uint64_t v = graph_thread(); v < n; v += graph_threads())
		parent[v] = (uint32_t)v;
}

__global__ static void flatten(uint32_t *parent, uint64_t n)
{
	for (uint64_t v = graph_thread(); v < n; v += graph_threads())
		graph_forest_flatten(parent, (uint32_t)v);
}

int fth_gpu_graph_load_cc(int registers[FTH_GPU_GRAPH_KERNELS])
{
	int rc = graph_load_sweep<struct graph_cc>(&registers[FTH_GPU_GRAPH_CC]);

	if (rc == 0)
		rc = graph_load(plant, NULL);
	return rc < 0 ? rc : graph_load(flatten, NULL);
}

/* A tree of its own for each vertex. */
static int start(struct fth_gpu_graph *graph)
{
	plant<<<graph_vertex_blocks(graph), GRAPH_THREADS, 0, graph->stream>>>(
		graph->label, graph->shape.vertices);
	return fth_gpu_check(cudaGetLastError(), "launching a kernel");
}

/* All edges; *joined: how often two trees became one. */
static int join(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		uint64_t *joined)
{
	struct graph_cc step = {};
	int rc;

	step.parent = graph->label;
	step.undirected = graph->shape.undirected;
	rc = graph_run(graph, edges, step, false);
	*joined = graph->told->report.found;
	return rc;
}

static int finish(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges)
{
	int rc;

	flatten<<<graph_vertex_blocks(graph), GRAPH_THREADS, 0, graph->stream>>>(
		graph->label, graph->shape.vertices);
	rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");
	return rc < 0 ? rc : fth_gpu_graph_finish(graph, edges);
}

int fth_gpu_graph_cc(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		     struct fth_gpu_graph_cc *out)
{
	uint64_t begin = fth_now_ns(), joined = 0;
	int rc = start(graph);

	memset(out, 0, sizeof(*out));
	if (rc == 0) {
		rc = join(graph, edges, &joined);
		out->work.rounds = 1;
	}
	if (rc == 0)
		rc = finish(graph, edges);
	if (rc == 0)
		out->components = graph->shape.vertices - joined;
	out->label = graph->label;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
