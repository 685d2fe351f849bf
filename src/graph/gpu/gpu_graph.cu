/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs on a GPU: opening, memory, where edges come from, what failed. The algorithms are in
 * gpu_bfs.cu, gpu_cc.cu, gpu_pagerank.cu and gpu_sssp.cu; what their
 * kernels share in gpu_sweep.h and gpu_steps.h.
 */
#include "graph/gpu/gpu_internal.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- where lists begin ---- */

/* Are the offsets those of a graph? And whose list has the first edge of each piece? */
__global__ static void find_owners(struct graph_view g, uint32_t *owner)
{
	for (uint64_t v = graph_thread(); v < g.vertices; v += graph_threads()) {
		uint64_t from = g.offsets[v], to = g.offsets[v + 1];

		if (from > to || to > g.edges || (v == 0 && from != 0) ||
		    (v == g.vertices - 1 && to != g.edges)) {
			g.report->rc = -EBADMSG;
			continue;
		}
		for (uint64_t p = (from + GRAPH_PIECE - 1) / GRAPH_PIECE; p * GRAPH_PIECE < to; p++)
			owner[p] = (uint32_t)v;
		if (v == g.vertices - 1)
			owner[g.pieces] = (uint32_t)v;
	}
}

static int index_pieces(struct fth_gpu_graph *graph)
{
	int rc = fth_gpu_graph_begin(graph);

	if (rc < 0)
		return rc;
	find_owners<<<graph_vertex_blocks(graph), GRAPH_THREADS, 0, graph->stream>>>(graph->view,
										     graph->owner);
	rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");
	if (rc == 0)
		rc = fth_gpu_check(cudaMemcpyAsync(&graph->told->report, graph->view.report,
						   sizeof(graph->told->report),
						   cudaMemcpyDeviceToHost, graph->stream),
				   "reading GPU memory");
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(graph->stream), "indexing a graph");
	if (rc == 0 && graph->told->report.rc < 0)
		rc = fth_fail(EBADMSG, "the graph is damaged: the offsets are not ascending");
	return rc;
}

/* ---- memory ---- */

static int take(struct fth_gpu_graph *graph, void *to, uint64_t bytes)
{
	graph->bytes += bytes;
	return fth_gpu_check(cudaMalloc((void **)to, bytes), "GPU memory for a graph");
}

static int alloc_all(struct fth_gpu_graph *graph)
{
	uint64_t n = graph->shape.vertices;
	int rc = take(graph, &graph->offsets, (n + 1) * sizeof(uint64_t));

	graph->words = (n + 31) / 32;
	graph->cut_words = graph->view.pieces * (GRAPH_PIECE / GRAPH_FINE) * 2 / 32 + 1;
	if (rc == 0)
		rc = take(graph, &graph->owner, (graph->view.pieces + 1) * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->now, graph->words * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->next, graph->words * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->visited, graph->words * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->later, graph->words * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->spent, graph->words * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->spent_cut, graph->cut_words * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->label, n * sizeof(uint32_t));
	if (rc == 0)
		rc = take(graph, &graph->distance, n * sizeof(uint64_t));
	if (rc == 0)
		rc = take(graph, &graph->rank, n * sizeof(double));
	if (rc == 0)
		rc = take(graph, &graph->sums, 2 * sizeof(double));
	if (rc == 0)
		rc = take(graph, &graph->view.report, sizeof(struct graph_report));
	if (rc == 0)
		rc = fth_gpu_check(cudaMallocHost((void **)&graph->told, sizeof(*graph->told)),
				   "pinned memory");
	return rc;
}

static int load_kernels(int registers[FTH_GPU_GRAPH_KERNELS])
{
	int rc = fth_gpu_graph_load_bfs(registers);

	if (rc == 0)
		rc = fth_gpu_graph_load_cc(registers);
	if (rc == 0)
		rc = fth_gpu_graph_load_pagerank(registers);
	if (rc == 0)
		rc = fth_gpu_graph_load_sssp(registers);
	return rc < 0 ? rc : graph_load(find_owners, NULL);
}

int fth_gpu_graph_registers(enum fth_gpu_graph_kernel kernel)
{
	int registers[FTH_GPU_GRAPH_KERNELS] = {0};

	return load_kernels(registers) < 0 ? 0 : registers[kernel];
}

/* ---- opening ---- */

static int check_shape(const struct fth_gpu_graph_shape *shape)
{
	if (shape->vertices == 0 || shape->vertices > FTH_GRAPH_VERTICES_MAX)
		return fth_fail(EINVAL, "the number of vertices must be 1 to %llu",
				(unsigned long long)FTH_GRAPH_VERTICES_MAX);
	if (!shape->offsets)
		return fth_fail(EINVAL, "the graph has no offsets");
	if (shape->edges > UINT64_MAX / (2 * sizeof(uint32_t)))
		return fth_fail(EINVAL, "the number of edges is too large");
	return 0;
}

static int set_up(struct fth_gpu_graph *graph)
{
	const uint64_t *offsets = graph->shape.offsets;
	int registers[FTH_GPU_GRAPH_KERNELS], device = 0, processors = 0, rc;

	graph->shape.offsets = NULL;
	graph->view.vertices = graph->shape.vertices;
	graph->view.edges = graph->shape.edges;
	graph->view.pieces = (graph->shape.edges + GRAPH_PIECE - 1) / GRAPH_PIECE;
	rc = fth_gpu_check(cudaGetDevice(&device), "finding the GPU");
	if (rc == 0)
		rc = fth_gpu_check(
			cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
			"asking for the GPU's size");
	graph->processors = (unsigned)processors;
	if (rc == 0)
		rc = load_kernels(registers);
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamCreateWithFlags(&graph->stream, cudaStreamNonBlocking),
				   "a stream");
	if (rc == 0)
		rc = alloc_all(graph);
	if (rc < 0)
		return rc;
	graph->view.offsets = graph->offsets;
	graph->view.owner = graph->owner;
	rc = fth_gpu_check(cudaMemcpyAsync(graph->offsets, offsets,
					   (graph->shape.vertices + 1) * sizeof(uint64_t),
					   cudaMemcpyDefault, graph->stream),
			   "copying offsets");
	return rc < 0 ? rc : index_pieces(graph);
}

int fth_gpu_graph_open(const struct fth_gpu_graph_shape *shape, struct fth_gpu_graph **out)
{
	struct fth_gpu_graph *graph;
	int rc = check_shape(shape);

	if (rc < 0)
		return rc;
	graph = (struct fth_gpu_graph *)calloc(1, sizeof(*graph));
	if (!graph)
		return -ENOMEM;
	graph->shape = *shape;
	rc = set_up(graph);
	if (rc < 0) {
		fth_gpu_graph_close(graph);
		return rc;
	}
	*out = graph;
	return 0;
}

int fth_gpu_graph_open_dev(struct fth_dev *dev, struct fth_gpu_graph **out)
{
	struct fth_gpu_graph_shape shape = {};
	struct fth_graph_info info;
	uint64_t bytes, *offsets;
	int rc = fth_graph_read_info(dev, &info);

	if (rc < 0)
		return rc;
	/* Whole blocks: the section that follows begins at a multiple of 64 KiB. */
	bytes = ((info.vertices + 1) * sizeof(uint64_t) + 4095) / 4096 * 4096;
	offsets = (uint64_t *)aligned_alloc(4096, bytes);
	rc = offsets ? fth_dev_read(dev, offsets, bytes, info.offsets_at, FTH_DEV_TIMEOUT)
		     : -ENOMEM;
	shape.vertices = info.vertices;
	shape.edges = info.edges;
	shape.undirected = info.undirected;
	shape.weighted = info.weighted;
	shape.offsets = offsets;
	shape.edges_at = info.edges_at;
	shape.weights_at = info.weights_at;
	if (rc == 0)
		rc = fth_gpu_graph_open(&shape, out);
	free(offsets);
	return rc;
}

void fth_gpu_graph_close(struct fth_gpu_graph *graph)
{
	if (!graph)
		return;
	/* What fails here fails because the GPU has, which was told before. */
	(void)cudaFree(graph->offsets);
	(void)cudaFree(graph->owner);
	(void)cudaFree(graph->now);
	(void)cudaFree(graph->next);
	(void)cudaFree(graph->visited);
	(void)cudaFree(graph->later);
	(void)cudaFree(graph->spent);
	(void)cudaFree(graph->spent_cut);
	(void)cudaFree(graph->label);
	(void)cudaFree(graph->distance);
	(void)cudaFree(graph->rank);
	(void)cudaFree(graph->sums);
	(void)cudaFree(graph->view.report);
	(void)cudaFreeHost(graph->told);
	if (graph->stream)
		(void)cudaStreamDestroy(graph->stream);
	free(graph);
}

uint64_t fth_gpu_graph_bytes(const struct fth_gpu_graph *graph)
{
	return graph->bytes;
}

/* ---- sources ---- */

/* How many frames a cache has: its state is in GPU memory. */
static int count_frames(const struct fth_gpu_graph *graph, const struct fth_gpu_array_base *a,
			uint32_t *frames)
{
	int rc = fth_gpu_check(cudaMemcpyAsync(frames, &a->cache->frames, sizeof(*frames),
					       cudaMemcpyDeviceToHost, graph->stream),
			       "reading GPU memory");

	return rc < 0 ? rc : fth_gpu_check(cudaStreamSynchronize(graph->stream), "reading");
}

int fth_gpu_graph_in_cache(const struct fth_gpu_graph *graph, struct fth_gpu_cache *cache,
			   struct fth_gpu_graph_source *out)
{
	struct fth_gpu_array_options opts = FTH_GPU_ARRAY_OPTIONS_INIT;
	int rc;

	memset(out, 0, sizeof(*out));
	out->cache = cache;
	if (graph->shape.edges == 0)
		return 0;
	opts.offset = graph->shape.edges_at;
	opts.count = graph->shape.edges;
	opts.readonly = true;
	rc = fth_gpu_cache_array(cache, sizeof(uint32_t), &opts, &out->edges);
	opts.offset = graph->shape.weights_at;
	if (rc == 0 && graph->shape.weighted)
		rc = fth_gpu_cache_array(cache, sizeof(uint32_t), &opts, &out->weights);
	return rc < 0 ? rc : count_frames(graph, &out->edges, &out->frames);
}

struct fth_gpu_graph_source fth_gpu_graph_in_memory(const uint32_t *edges, const uint32_t *weights)
{
	struct fth_gpu_graph_source source = {};

	source.plain_edges = edges;
	source.plain_weights = weights;
	return source;
}

/* ---- for the algorithms ---- */

int fth_gpu_graph_fill(struct fth_gpu_graph *graph, void *at, int value, uint64_t bytes)
{
	return fth_gpu_check(cudaMemsetAsync(at, value, bytes, graph->stream), "GPU memory");
}

int fth_gpu_graph_begin(struct fth_gpu_graph *graph)
{
	return fth_gpu_graph_fill(graph, graph->view.report, 0, sizeof(*graph->view.report));
}

static int tell_failure(const struct fth_gpu_graph_source *edges, const struct graph_report *report)
{
	struct fth_gpu_failure failure;

	if (report->rc == -EBADMSG && report->bad)
		return fth_fail(EBADMSG, "the graph is damaged: vertex %u does not exist",
				report->bad);
	if (!edges->cache || fth_gpu_cache_failure(edges->cache, &failure) != 1)
		return fth_fail(-report->rc, "cannot read edges: %s", strerror(-report->rc));
	return fth_fail(-report->rc, "line %llu of the %s could not be read: %s, status 0x%x",
			(unsigned long long)failure.line,
			failure.array == edges->edges.range ? "edges" : "weights",
			strerror(-failure.error), failure.status);
}

int fth_gpu_graph_finish(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges)
{
	int rc = fth_gpu_check(cudaMemcpyAsync(&graph->told->report, graph->view.report,
					       sizeof(graph->told->report), cudaMemcpyDeviceToHost,
					       graph->stream),
			       "reading GPU memory");

	/* Ends: every wait of a kernel has the cache's timeout. */
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(graph->stream), "sweeping a graph");
	if (rc == 0 && graph->told->report.rc < 0)
		rc = tell_failure(edges, &graph->told->report);
	return rc;
}

int fth_gpu_graph_next_round(struct fth_gpu_graph *graph)
{
	uint32_t *swap = graph->now;

	graph->now = graph->next;
	graph->next = swap;
	return fth_gpu_graph_fill(graph, graph->next, 0, graph->words * sizeof(uint32_t));
}

int fth_gpu_graph_start_at(struct fth_gpu_graph *graph, uint64_t vertex)
{
	int rc = fth_gpu_graph_fill(graph, graph->now, 0, graph->words * sizeof(uint32_t));

	if (rc == 0)
		rc = fth_gpu_graph_fill(graph, graph->next, 0, graph->words * sizeof(uint32_t));
	/* The medium is little-endian, and so is the GPU: a bit of a word is a bit of a byte. */
	return rc < 0 ? rc
		      : fth_gpu_graph_fill(graph, (uint8_t *)graph->now + vertex / 8,
					   1 << vertex % 8, 1);
}

int fth_gpu_graph_copy(struct fth_gpu_graph *graph, void *to, const void *from, size_t bytes)
{
	int rc = fth_gpu_check(
		cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, graph->stream),
		"copying a result");

	return rc < 0 ? rc
		      : fth_gpu_check(cudaStreamSynchronize(graph->stream), "copying a result");
}
