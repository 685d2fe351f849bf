/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of `fathom bench gpugraph`: memory, runs, comparisons. gpugraph_make.cu makes graphs.
 */
#include "gpugraph.h"

#include "gpu_common.h"
#include "gpugraph_check.h"
#include "median.h"

#include "fathom/apps/gpu_graph.h"

#include <stdlib.h>

#define SEED	27u
#define THREADS 256u
#define SPARE	(64ull * FTH_GPU_LINE_MAX)

struct gpugraph {
	struct gpugraph_setup setup;
	struct cudaDeviceProp gpu;
	uint64_t section; /* bytes of the edges on the medium, and of the weights after them */
	struct gpu_pinned medium;
	cudaStream_t stream;
	struct gpugraph_lists lists; /* in GPU memory: made here, and used as the reference */
	uint64_t source;
	struct fth_gpu_graph *graph;
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *small, *large;
	uint32_t line; /* of them */
	bool weights;  /* they are large enough for weights as well */
	struct fth_gpu_graph_source from_small, from_large, from_host, from_hbm;
	void *reference;	    /* a result, 8 bytes per vertex */
	unsigned long long *differ; /* in GPU memory */
};

/* ---- comparing ---- */

template <typename T> __device__ static bool same(T a, T b)
{
	return a == b;
}

template <> __device__ bool same(double a, double b)
{
	return fabs(a - b) <= 1e-6 * b;
}

template <typename T>
__global__ static void compare(const T *a, const T *b, uint64_t n, unsigned long long *differ)
{
	unsigned long long mine = 0;

	for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
	     i += (uint64_t)gridDim.x * blockDim.x)
		mine += !same(a[i], b[i]);
	if (mine)
		atomicAdd(differ, mine);
}

/* ---- memory that stays ---- */

static int alloc_all(struct gpugraph *b)
{
	uint64_t n = b->lists.vertices;
	int rc = gpu_map(&b->medium, b->section * (b->setup.weighted ? 2 : 1));

	if (rc == 0)
		rc = gpu_pin(&b->medium);
	TRY(rc, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking));
	TRY(rc, cudaMalloc((void **)&b->lists.offsets, (n + 1) * sizeof(uint64_t)));
	TRY(rc, cudaMalloc((void **)&b->lists.edges_at, b->section));
	if (b->setup.weighted)
		TRY(rc, cudaMalloc((void **)&b->lists.weights_at, b->section));
	TRY(rc, cudaMalloc(&b->reference, n * 8));
	TRY(rc, cudaMalloc((void **)&b->differ, sizeof(*b->differ)));
	return rc;
}

int gpugraph_open(const struct gpugraph_setup *setup, struct gpugraph **out)
{
	struct cudaDeviceProp gpu;
	struct gpugraph *b;
	int rc = gpu_find(&gpu);

	if (rc < 0)
		return rc;
	b = (struct gpugraph *)calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->setup = *setup;
	b->gpu = gpu;
	b->lists.vertices = (uint64_t)1 << setup->scale;
	b->section = b->lists.vertices * setup->degree * 2 * sizeof(uint32_t);
	b->section = (b->section + 65535) / 65536 * 65536;
	rc = alloc_all(b);
	if (rc < 0) {
		gpugraph_close(b);
		return rc;
	}
	*out = b;
	return 0;
}

const char *gpugraph_gpu(const struct gpugraph *b)
{
	return b->gpu.name;
}

uint64_t gpugraph_edges(const struct gpugraph *b)
{
	return b->lists.edges;
}

static uint64_t bytes_of(const struct gpugraph *b, bool weights)
{
	return b->lists.edges * sizeof(uint32_t) * (weights ? 2 : 1);
}

/* ---- one graph ---- */

static int close_caches(struct gpugraph *b)
{
	int rc = fth_gpu_cache_close(b->small), next = fth_gpu_cache_close(b->large);

	b->small = b->large = NULL;
	return rc < 0 ? rc : next;
}

static int close_graph(struct gpugraph *b)
{
	int rc = close_caches(b), next = fth_gpu_drive_close(b->drive);

	fth_gpu_graph_close(b->graph);
	b->drive = NULL;
	b->graph = NULL;
	return rc < 0 ? rc : next;
}

void gpugraph_close(struct gpugraph *b)
{
	if (!b)
		return;
	/* What fails here fails because the GPU has; the results were told before. */
	(void)close_graph(b);
	(void)cudaFree(b->lists.offsets);
	(void)cudaFree(b->lists.edges_at);
	(void)cudaFree(b->lists.weights_at);
	(void)cudaFree(b->reference);
	(void)cudaFree(b->differ);
	if (b->stream)
		(void)cudaStreamDestroy(b->stream);
	gpu_unpin(&b->medium);
	free(b);
}

static int generate(struct gpugraph *b, enum gpugraph_kind kind)
{
	struct fth_graph_gen gen;
	int rc;

	fth_graph_gen_init(&gen, kind == GPUGRAPH_UNIFORM ? FTH_GRAPH_UNIFORM : FTH_GRAPH_KRONECKER,
			   b->setup.scale, SEED);
	rc = gpugraph_make_lists(&gen, b->lists.vertices * b->setup.degree, SEED, &b->lists,
				 b->stream);
	TRY(rc, cudaMemcpyAsync(b->medium.host, b->lists.edges_at, bytes_of(b, false),
				cudaMemcpyDeviceToHost, b->stream));
	if (b->setup.weighted)
		TRY(rc, cudaMemcpyAsync(b->medium.host + b->section, b->lists.weights_at,
					bytes_of(b, false), cudaMemcpyDeviceToHost, b->stream));
	TRY(rc, cudaStreamSynchronize(b->stream));
	return rc;
}

/* A vertex with neighbours, the same in each run. */
static int choose_source(struct gpugraph *b)
{
	int rc = 0;

	for (uint64_t v = 12345 % b->lists.vertices; rc == 0; v = (v + 1) % b->lists.vertices) {
		uint64_t ends[2] = {0, 0};

		TRY(rc, cudaMemcpyAsync(ends, b->lists.offsets + v, sizeof(ends),
					cudaMemcpyDeviceToHost, b->stream));
		TRY(rc, cudaStreamSynchronize(b->stream));
		b->source = v;
		if (ends[1] > ends[0])
			break;
	}
	return rc;
}

static int open_cache(struct gpugraph *b, uint64_t bytes, struct fth_gpu_cache **cache,
		      struct fth_gpu_graph_source *source)
{
	struct fth_gpu_cache_opts opts = FTH_GPU_CACHE_OPTS_INIT;
	int rc;

	opts.bytes = bytes / b->line * b->line;
	opts.line = b->line;
	rc = fth_gpu_cache_open(b->drive, &opts, cache);
	return rc < 0 ? rc : fth_gpu_graph_in_cache(b->graph, *cache, source);
}

/*
 * What suits: some sweep over all; a search that only pushes has a use for what comes along in a
 * line; the others want lists here and there.
 */
static uint32_t line_of(const struct gpugraph *b, enum gpugraph_algorithm algorithm)
{
	if (b->setup.line)
		return b->setup.line;
	if (algorithm == GPUGRAPH_CC || algorithm == GPUGRAPH_PAGERANK)
		return 4096;
	return algorithm == GPUGRAPH_BFS_PUSH ? 2048 : 512;
}

/* One that holds a part, and one that holds everything, for an algorithm. */
static int open_caches(struct gpugraph *b, enum gpugraph_algorithm algorithm)
{
	bool weights = algorithm == GPUGRAPH_SSSP;
	uint32_t line = line_of(b, algorithm);
	uint64_t bytes = bytes_of(b, weights);
	int rc;

	if (b->small && b->line == line && b->weights == weights)
		return 0;
	rc = close_caches(b);
	b->line = line;
	b->weights = weights;
	if (rc == 0)
		rc = open_cache(b, bytes / b->setup.share, &b->small, &b->from_small);
	/* A few more lines than there are: what comes first is never thrown out. */
	if (rc == 0)
		rc = open_cache(b, bytes + bytes / 8 + SPARE, &b->large, &b->from_large);
	return rc;
}

static int open_all(struct gpugraph *b)
{
	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;
	struct fth_gpu_graph_shape shape = {};
	int rc;

	shape.vertices = b->lists.vertices;
	shape.edges = b->lists.edges;
	shape.undirected = true;
	shape.weighted = b->setup.weighted;
	shape.offsets = b->lists.offsets;
	shape.weights_at = b->section;
	rc = fth_gpu_graph_open(&shape, &b->graph);
	opts.bytes = b->medium.bytes;
	opts.memory = b->medium.host;
	opts.queues = b->setup.queues;
	opts.warps = b->setup.warps;
	b->from_host = fth_gpu_graph_in_memory((uint32_t *)b->medium.mapped,
					       (uint32_t *)(b->medium.mapped + b->section));
	b->from_hbm = fth_gpu_graph_in_memory(b->lists.edges_at, b->lists.weights_at);
	return rc < 0 ? rc : fth_gpu_drive_open(&opts, &b->drive);
}

int gpugraph_make(struct gpugraph *b, enum gpugraph_kind kind)
{
	int rc = close_graph(b);

	if (rc == 0)
		rc = generate(b, kind);
	if (rc == 0)
		rc = choose_source(b);
	return rc < 0 ? rc : open_all(b);
}

/* ---- runs ---- */

struct run {
	const void *values;
	size_t each;
	uint64_t rounds, answer;
	double seconds;
};

static int run_once(struct gpugraph *b, enum gpugraph_algorithm algorithm,
		    const struct fth_gpu_graph_source *source, struct run *run)
{
	struct fth_gpu_graph_bfs_options how = {algorithm == GPUGRAPH_BFS_PUSH};
	struct fth_graph_pagerank_options ranks = {b->setup.iterations, 0, 0, false};
	struct fth_gpu_graph_pagerank pagerank;
	struct fth_gpu_graph_work work = {};
	struct fth_gpu_graph_sssp sssp;
	struct fth_gpu_graph_bfs bfs;
	struct fth_gpu_graph_cc cc;
	int rc;

	if (algorithm == GPUGRAPH_CC) {
		rc = fth_gpu_graph_cc(b->graph, source, &cc);
		*run = {cc.label, 4, 0, cc.components, 0};
		work = cc.work;
	} else if (algorithm == GPUGRAPH_PAGERANK) {
		rc = fth_gpu_graph_pagerank(b->graph, source, &ranks, &pagerank);
		*run = {pagerank.rank, 8, 0, 0, 0};
		work = pagerank.work;
	} else if (algorithm == GPUGRAPH_SSSP) {
		rc = fth_gpu_graph_sssp(b->graph, source, b->source, &sssp);
		*run = {sssp.distance, 8, 0, 0, 0};
		work = sssp.work;
	} else {
		rc = fth_gpu_graph_bfs(b->graph, source, b->source, &how, &bfs);
		*run = {bfs.level, 4, 0, bfs.reached, 0};
		work = bfs.work;
	}
	run->rounds = work.rounds;
	run->seconds = (double)work.elapsed_ns * 1e-9;
	return rc;
}

/* Is it what the reference is? */
static int check_same(struct gpugraph *b, enum gpugraph_algorithm algorithm, const struct run *run)
{
	unsigned blocks = 8 * (unsigned)b->gpu.multiProcessorCount;
	uint64_t n = b->lists.vertices;
	unsigned long long differ = 0;
	int rc = 0;

	TRY(rc, cudaMemsetAsync(b->differ, 0, sizeof(*b->differ), b->stream));
	if (algorithm == GPUGRAPH_PAGERANK)
		compare<<<blocks, THREADS, 0, b->stream>>>(
			(const double *)run->values, (const double *)b->reference, n, b->differ);
	else if (run->each == 8)
		compare<<<blocks, THREADS, 0, b->stream>>>((const uint64_t *)run->values,
							   (const uint64_t *)b->reference, n,
							   b->differ);
	else
		compare<<<blocks, THREADS, 0, b->stream>>>((const uint32_t *)run->values,
							   (const uint32_t *)b->reference, n,
							   b->differ);
	TRY(rc, cudaGetLastError());
	TRY(rc,
	    cudaMemcpyAsync(&differ, b->differ, sizeof(differ), cudaMemcpyDeviceToHost, b->stream));
	TRY(rc, cudaStreamSynchronize(b->stream));
	if (rc == 0 && differ)
		rc = fth_fail(EILSEQ, "%llu vertices differ from the run in GPU memory", differ);
	return rc;
}

static int run_and_check(struct gpugraph *b, enum gpugraph_algorithm algorithm,
			 const struct fth_gpu_graph_source *source, double *seconds)
{
	struct run run;
	int rc = run_once(b, algorithm, source, &run);

	*seconds = run.seconds;
	return rc < 0 ? rc : check_same(b, algorithm, &run);
}

/* In GPU memory, twice: the second one counts, is checked, and what others are compared with. */
static int run_reference(struct gpugraph *b, enum gpugraph_algorithm algorithm,
			 struct gpugraph_result *result)
{
	struct run run;
	int rc = run_once(b, algorithm, &b->from_hbm, &run);

	if (rc == 0)
		rc = run_once(b, algorithm, &b->from_hbm, &run);
	if (rc < 0)
		return rc;
	TRY(rc, cudaMemcpyAsync(b->reference, run.values, b->lists.vertices * run.each,
				cudaMemcpyDeviceToDevice, b->stream));
	TRY(rc, cudaStreamSynchronize(b->stream));
	if (rc == 0)
		rc = gpugraph_check(&b->lists, algorithm, b->reference, b->source, b->differ,
				    b->stream);
	result->hbm = run.seconds;
	result->rounds = run.rounds;
	result->answer = run.answer;
	return rc;
}

/* Through a cache that has everything. */
static int run_hot(struct gpugraph *b, enum gpugraph_algorithm algorithm, double *seconds)
{
	struct fth_gpu_cache_stats before, after;
	int rc = run_and_check(b, algorithm, &b->from_large, seconds);

	if (rc == 0)
		rc = fth_gpu_cache_stats(b->large, &before);
	if (rc == 0)
		rc = run_and_check(b, algorithm, &b->from_large, seconds);
	if (rc == 0)
		rc = fth_gpu_cache_stats(b->large, &after);
	if (rc == 0 && after.bytes_read - before.bytes_read > bytes_of(b, true) / 50)
		rc = fth_fail(EIO, "%llu bytes were read by a cache that should have had them",
			      (unsigned long long)(after.bytes_read - before.bytes_read));
	return rc;
}

/* Through the small cache, empty at first. */
static int run_cold(struct gpugraph *b, enum gpugraph_algorithm algorithm, double *seconds,
		    uint64_t *bytes)
{
	struct fth_gpu_cache_stats before, after;
	int rc = fth_gpu_cache_empty(b->small);

	if (rc == 0)
		rc = fth_gpu_cache_stats(b->small, &before);
	if (rc == 0)
		rc = run_and_check(b, algorithm, &b->from_small, seconds);
	if (rc == 0)
		rc = fth_gpu_cache_stats(b->small, &after);
	*bytes = rc < 0 ? 0 : after.bytes_read - before.bytes_read;
	return rc;
}

int gpugraph_run(struct gpugraph *b, enum gpugraph_algorithm algorithm,
		 struct gpugraph_result *result)
{
	double cached[GPUGRAPH_ROUNDS_MAX], straight[GPUGRAPH_ROUNDS_MAX];
	unsigned rounds = algorithm == GPUGRAPH_SSSP ? 1 : b->setup.rounds;
	int rc = open_caches(b, algorithm);

	if (rc == 0)
		rc = run_reference(b, algorithm, result);
	for (unsigned r = 0; rc == 0 && r < rounds; r++) {
		rc = run_and_check(b, algorithm, &b->from_host, &straight[r]);
		if (rc == 0)
			rc = run_cold(b, algorithm, &cached[r], &result->bytes_read);
	}
	if (rc == 0)
		rc = run_hot(b, algorithm, &result->hot);
	if (rc < 0)
		return rc;
	result->cached = fth_median(cached, rounds);
	result->zero_copy = fth_median(straight, rounds);
	result->bytes = bytes_of(b, b->weights);
	result->line = b->line;
	result->cache = result->bytes / b->setup.share / b->line * b->line;
	return 0;
}

int gpugraph_registers(enum gpugraph_algorithm algorithm)
{
	static const enum fth_gpu_graph_kernel kernels[GPUGRAPH_ALGORITHMS] = {
		FTH_GPU_GRAPH_BFS_PUSH, FTH_GPU_GRAPH_BFS_PULL, FTH_GPU_GRAPH_CC,
		FTH_GPU_GRAPH_PAGERANK, FTH_GPU_GRAPH_SSSP};

	return fth_gpu_graph_registers(kernels[algorithm]);
}
