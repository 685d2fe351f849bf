/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside a graph on a GPU: what graph/gpu.cu gives to the algorithms, a file each. */
#ifndef FTH_GRAPH_GPU_INTERNAL_H
#define FTH_GRAPH_GPU_INTERNAL_H

#include "graph/gpu/gpu_steps.h"

#include "fathom/hd/wait.h"
#include "base/cuda_error.h"

#include <string.h>

#define GRAPH_THREADS 256u

/* All pointers but `told` are of GPU memory. */
struct fth_gpu_graph {
	struct fth_gpu_graph_shape shape; /* its offsets are gone */
	struct graph_view view;
	uint64_t *offsets;
	uint32_t *owner;
	uint32_t *now, *next, *visited; /* sets of vertices, `words` each */
	uint64_t words;
	/* Of a search: found early, and lists and parts of lists that were used early. */
	uint32_t *later, *spent, *spent_cut;
	uint64_t cut_words;
	uint32_t *label;     /* per vertex: level, label, or what it gives */
	graph_u64 *distance; /* per vertex: or a sum */
	double *rank;	     /* per vertex */
	double *sums;	     /* two: of PageRank's iteration */
	unsigned processors;
	uint64_t bytes; /* of GPU memory */
	cudaStream_t stream;
	struct graph_told *told; /* pinned */
};

struct graph_told {
	struct graph_report report;
	double sums[2];
};

/* ---- graph/gpu.cu ---- */

/* Before a sweep: its report starts from nothing. */
int fth_gpu_graph_begin(struct fth_gpu_graph *graph);

/* Wait for what was launched; its report is in graph->told. What failed becomes an error. */
int fth_gpu_graph_finish(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges);

/* `next` becomes `now`, and is empty. */
int fth_gpu_graph_next_round(struct fth_gpu_graph *graph);

/* Fill GPU memory, byte by byte. */
int fth_gpu_graph_fill(struct fth_gpu_graph *graph, void *at, int value, uint64_t bytes);

/* `now` is only this one. */
int fth_gpu_graph_start_at(struct fth_gpu_graph *graph, uint64_t vertex);

/* ---- kernels must be loaded before a drive runs: each file does so for its own ---- */

int fth_gpu_graph_load_bfs(int registers[FTH_GPU_GRAPH_KERNELS]);
int fth_gpu_graph_load_cc(int registers[FTH_GPU_GRAPH_KERNELS]);
int fth_gpu_graph_load_pagerank(int registers[FTH_GPU_GRAPH_KERNELS]);
int fth_gpu_graph_load_sssp(int registers[FTH_GPU_GRAPH_KERNELS]);

template <typename Kernel> static inline int graph_load(Kernel kernel, int *registers)
{
	struct cudaFuncAttributes attributes = {};
	int rc = fth_gpu_check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");

	if (registers)
		*registers = attributes.numRegs;
	return rc;
}

/* ---- sweeps ---- */

template <typename Source, typename Step>
static __global__ void __launch_bounds__(GRAPH_THREADS, 6)
	graph_sweep_kernel(struct graph_view g, Source source, Step step, bool backward)
{
	graph_sweep(g, source, step, backward);
}

/* Both ways to get edges; `registers` of the one with a cache. */
template <typename Step> static inline int graph_load_sweep(int *registers)
{
	int rc = graph_load(graph_sweep_kernel<struct graph_plain, Step>, NULL);

	return rc < 0 ? rc : graph_load(graph_sweep_kernel<struct graph_cached, Step>, registers);
}

/* As many blocks as fit at once, but with a cache no more warps than it has frames for. */
static inline void graph_grid(const struct fth_gpu_graph *graph,
			      const struct fth_gpu_graph_source *edges, bool weighted,
			      unsigned *blocks, unsigned *threads)
{
	uint64_t warps = (graph->view.pieces + GRAPH_TAKE - 1) / GRAPH_TAKE;
	uint64_t most = 6ull * graph->processors * GRAPH_THREADS / 32;

	if (edges->cache && edges->frames / (weighted ? 4 : 2) < most)
		most = edges->frames / (weighted ? 4 : 2);
	warps = warps < most ? warps : most;
	warps = warps > 0 ? warps : 1;
	*threads = warps < GRAPH_THREADS / 32 ? (unsigned)warps * 32 : GRAPH_THREADS;
	*blocks = (unsigned)(warps / (*threads / 32));
}

/* After fth_gpu_graph_begin(): a sweep is launched, waited for, looked at. */
template <typename Step>
static int graph_run_on(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
			const Step &step, bool backward)
{
	unsigned blocks, threads;
	int rc = 0;

	graph_grid(graph, edges, Step::weighted, &blocks, &threads);
	if (edges->cache) {
		struct graph_cached source = {};

		/* A graph without edges or weights has no arrays, and nothing looks at them. */
		if (graph->shape.edges)
			rc = fth_gpu_array_wrap(edges->edges, &source.edges);
		if (rc == 0 && graph->shape.edges && graph->shape.weighted)
			rc = fth_gpu_array_wrap(edges->weights, &source.weights);
		if (rc < 0)
			return rc;
		graph_sweep_kernel<<<blocks, threads, 0, graph->stream>>>(graph->view, source, step,
									  backward);
	} else {
		struct graph_plain source = {edges->plain_edges, edges->plain_weights};

		graph_sweep_kernel<<<blocks, threads, 0, graph->stream>>>(graph->view, source, step,
									  backward);
	}
	rc = fth_gpu_check(cudaGetLastError(), "launching a sweep");
	return rc < 0 ? rc : fth_gpu_graph_finish(graph, edges);
}

/* One sweep, all of it. */
template <typename Step>
static int graph_run(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		     const Step &step, bool backward)
{
	int rc = fth_gpu_graph_begin(graph);

	return rc < 0 ? rc : graph_run_on(graph, edges, step, backward);
}

/* ---- kernels over vertices ---- */

static __device__ __forceinline__ uint64_t graph_thread(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint64_t graph_threads(void)
{
	return (uint64_t)gridDim.x * blockDim.x;
}

static inline unsigned graph_vertex_blocks(const struct fth_gpu_graph *graph)
{
	uint64_t blocks = (graph->shape.vertices + GRAPH_THREADS - 1) / GRAPH_THREADS;
	uint64_t most = 8ull * graph->processors;

	return (unsigned)(blocks < most ? blocks : most);
}

#endif
