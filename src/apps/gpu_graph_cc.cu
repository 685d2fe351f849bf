/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected components on a GPU: labels spread along edges, in both directions, until none changes.
 * A label is a vertex of the same component, and at most the vertex itself; so between sweeps each
 * vertex can take its label's label, and long chains take few sweeps.
 */
#include "apps/gpu_graph_internal.h"

__global__ static void number_vertices(uint32_t *label, uint64_t n)
{
	for (uint64_t v = graph_thread(); v < n; v += graph_threads())
		label[v] = (uint32_t)v;
}

/* Follow labels to their end. Another thread may shorten the same way: both are right. */
__global__ static void shorten(uint32_t *label, uint32_t *next, uint64_t n,
			       struct graph_report *report)
{
	uint32_t changed = 0;

	for (uint64_t v = graph_thread(); v < n; v += graph_threads()) {
		uint32_t mine = fth_load_relaxed_dev32(&label[v]), up = mine, above;

		while ((above = fth_load_relaxed_dev32(&label[up])) < up)
			up = above;
		if (up == mine)
			continue;
		fth_store_relaxed_dev32(&label[v], up);
		graph_claim(next, v);
		changed++;
	}
	if (changed)
		atomicAdd(&report->found, (graph_u64)changed);
}

__global__ static void count_roots(const uint32_t *label, uint64_t n, struct graph_report *report)
{
	uint32_t roots = 0;

	for (uint64_t v = graph_thread(); v < n; v += graph_threads())
		roots += label[v] == v;
	if (roots)
		atomicAdd(&report->edges, (graph_u64)roots);
}

int fth_gpu_graph_load_cc(int registers[FTH_GPU_GRAPH_KERNELS])
{
	int rc = graph_load_sweep<struct graph_cc>(&registers[FTH_GPU_GRAPH_CC]);

	if (rc == 0)
		rc = graph_load(number_vertices, NULL);
	if (rc == 0)
		rc = graph_load(shorten, NULL);
	return rc < 0 ? rc : graph_load(count_roots, NULL);
}

static int start(struct fth_gpu_graph *graph)
{
	uint64_t n = graph->shape.vertices;
	int rc = fth_gpu_graph_fill(graph, graph->now, 0xff, graph->words * 4);

	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->next, 0, graph->words * 4);
	if (rc < 0)
		return rc;
	number_vertices<<<graph_vertex_blocks(graph), GRAPH_THREADS, 0, graph->stream>>>(
		graph->label, n);
	return fth_gpu_check(cudaGetLastError(), "launching a kernel");
}

/* Shorten ways, and count what is a component by itself now. */
static int tidy_up(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges)
{
	unsigned blocks = graph_vertex_blocks(graph);
	uint64_t n = graph->shape.vertices;

	shorten<<<blocks, GRAPH_THREADS, 0, graph->stream>>>(graph->label, graph->next, n,
							     graph->view.report);
	count_roots<<<blocks, GRAPH_THREADS, 0, graph->stream>>>(graph->label, n,
								 graph->view.report);
	int rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");

	return rc < 0 ? rc : fth_gpu_graph_finish(graph, edges);
}

int fth_gpu_graph_cc(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		     struct fth_gpu_graph_cc *out)
{
	uint64_t begin = fth_now_ns();
	bool changed = true;
	int rc = start(graph);

	memset(out, 0, sizeof(*out));
	while (rc == 0 && changed) {
		struct graph_cc step = {};

		step.now = graph->now;
		step.next = graph->next;
		step.label = graph->label;
		/* There and back: what the last sweep left in the cache comes first. */
		rc = graph_run(graph, edges, step, out->work.rounds % 2 != 0);
		if (rc == 0)
			rc = tidy_up(graph, edges);
		changed = graph->told->report.found > 0;
		out->components = graph->told->report.edges;
		out->work.rounds++;
		if (rc == 0)
			rc = fth_gpu_graph_next_round(graph);
	}
	out->label = graph->label;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
