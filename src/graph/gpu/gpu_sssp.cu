/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shortest paths by weight on a GPU: distances spread along edges until none changes, from those
 * vertices only whose own has changed (as EMOGI and BaM).
 */
#include "graph/gpu/gpu_internal.h"

int fth_gpu_graph_load_sssp(int registers[FTH_GPU_GRAPH_KERNELS])
{
	return graph_load_sweep<struct graph_sssp>(&registers[FTH_GPU_GRAPH_SSSP]);
}

static int start(struct fth_gpu_graph *graph, uint64_t source)
{
	int rc = fth_gpu_graph_start_at(graph, source);

	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->distance, 0xff, graph->shape.vertices * 8);
	return rc < 0 ? rc : fth_gpu_graph_fill(graph, graph->distance + source, 0, 8);
}

int fth_gpu_graph_sssp(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		       uint64_t source, struct fth_gpu_graph_sssp *out)
{
	uint64_t begin = fth_now_ns();
	bool changed = true;
	int rc;

	memset(out, 0, sizeof(*out));
	if (source >= graph->shape.vertices)
		return fth_fail(ERANGE, "vertex %llu does not exist", (unsigned long long)source);
	if (!graph->shape.weighted)
		return fth_fail(EINVAL, "the graph has no weights");
	rc = start(graph, source);
	while (rc == 0 && changed) {
		struct graph_sssp step = {};

		step.now = graph->now;
		step.next = graph->next;
		step.distance = graph->distance;
		rc = graph_run(graph, edges, step, out->work.rounds % 2 != 0);
		changed = graph->told->report.found > 0;
		out->work.rounds++;
		if (rc == 0)
			rc = fth_gpu_graph_next_round(graph);
	}
	out->distance = (const uint64_t *)graph->distance;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
