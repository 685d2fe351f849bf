/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpugraph`: graphs with more edges than the GPU's cache holds, through the cache and
 * by zero copy from pinned host memory, the same kernels on the same bytes. What computing takes is
 * seen with all edges in GPU memory, what the cache takes with one that has everything; the rest is
 * storage (as Qureshi, dissertation, 9.2).
 *
 * Two numbers sum it up. `ratio` compares the same algorithm on both sides: the worst of push-only
 * search and components on both graphs. `bfs_against_push` compares searches: ours, which goes in
 * either direction, with the one that EMOGI does, push by zero copy.
 */
#include "gpugraph.h"

#include "fathom/graph/gpu.h"

#include <string.h>

#define SEED	27u
#define THREADS 256u
#define SPARE	(64ull * FTH_GPU_LINE_MAX)
#define KINDS	2

static const char *const kind_names[KINDS] = {"kronecker", "uniform"};
static const char *const algorithm_names[GPUGRAPH_ALGORITHMS] = {"bfs_push", "bfs", "cc",
								 "pagerank", "sssp"};

/* Seconds; medians. */
struct result {
	double cached, zero_copy;
	double hbm;	     /* edges in GPU memory: what computing takes */
	double hot;	     /* through a cache that holds everything, once it does */
	uint64_t bytes_read; /* by one run through the cache */
	uint64_t rounds;     /* levels, sweeps, iterations of it */
	uint64_t answer;     /* vertices reached, or components */
};

struct gpugraph {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	cudaStream_t stream; /* the setup's */
	uint64_t section;    /* bytes of the edges on the medium, and of the weights after them */
	struct gpugraph_lists lists; /* in GPU memory: made here, and used as the reference */
	uint64_t source;
	struct fth_gpu_graph *graph;
	struct fth_gpu_cache *small, *large;
	uint32_t line; /* of them */
	bool weights;  /* they are large enough for weights as well */
	struct fth_gpu_graph_source from_small, from_large, from_host, from_hbm;
	char *reference;	    /* a result, 8 bytes per vertex */
	unsigned long long *differ; /* in GPU memory */
	const char *worst_algorithm, *worst_graph;
	double worst_cached, worst_zero_copy; /* 0: nothing was measured */
	double against_push;		      /* the worst of both graphs; 0: not measured */
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

static int open_memory(struct gpugraph *b)
{
	uint64_t n = b->lists.vertices;
	bool weighted = !b->s->unweighted;
	int rc = gpu_setup_map(b->setup, b->section * (weighted ? 2 : 1));

	DO(rc, gpu_setup_pin(b->setup));
	DO(rc, gpu_setup_alloc(b->setup, &b->lists.offsets, n + 1));
	DO(rc, gpu_setup_alloc(b->setup, &b->lists.edges_at, b->section / sizeof(uint32_t)));
	if (weighted)
		DO(rc,
		   gpu_setup_alloc(b->setup, &b->lists.weights_at, b->section / sizeof(uint32_t)));
	DO(rc, gpu_setup_alloc(b->setup, &b->reference, n * 8));
	DO(rc, gpu_setup_alloc(b->setup, &b->differ, 1));
	return rc;
}

static uint64_t bytes_of(const struct gpugraph *b, bool weights)
{
	return b->lists.edges * sizeof(uint32_t) * (weights ? 2 : 1);
}

/* ---- one graph ---- */

static int close_graph(struct gpugraph *b)
{
	int rc = gpu_setup_close_drive(b->setup);

	fth_gpu_graph_close(b->graph);
	b->graph = NULL;
	b->small = b->large = NULL;
	return rc;
}

static int generate(struct gpugraph *b, unsigned kind)
{
	struct fth_graph_gen gen;
	int rc;

	fth_graph_gen_init(&gen, kind == 1 ? FTH_GRAPH_UNIFORM : FTH_GRAPH_KRONECKER,
			   (unsigned)b->s->scale, SEED);
	rc = gpugraph_make_lists(&gen, b->lists.vertices * b->s->degree, SEED, &b->lists,
				 b->stream);
	TRY(rc, cudaMemcpyAsync(b->setup->medium.host, b->lists.edges_at, bytes_of(b, false),
				cudaMemcpyDeviceToHost, b->stream));
	if (!b->s->unweighted)
		TRY(rc, cudaMemcpyAsync(b->setup->medium.host + b->section, b->lists.weights_at,
					bytes_of(b, false), cudaMemcpyDeviceToHost, b->stream));
	TRY(rc, cudaStreamSynchronize(b->stream));
	return rc;
}

/* A vertex with neighbours, the same in each run. */
static int choose_source(struct gpugraph *b)
{
	uint64_t n = b->lists.vertices;
	int rc = 0;

	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		uint64_t ends[2] = {0, 0};

		b->source = (12345 + i) % n;
		TRY(rc, cudaMemcpyAsync(ends, b->lists.offsets + b->source, sizeof(ends),
					cudaMemcpyDeviceToHost, b->stream));
		TRY(rc, cudaStreamSynchronize(b->stream));
		if (ends[1] > ends[0])
			return rc;
	}
	return rc < 0 ? rc : fth_fail(EIO, "the graph has no edges");
}

/*
 * What suits: some sweep over all; a search that only pushes has a use for what comes along in a
 * line; the others want lists here and there.
 */
static uint32_t line_of(const struct gpugraph *b, enum gpugraph_algorithm algorithm)
{
	if (b->s->line)
		return (uint32_t)b->s->line;
	if (algorithm == GPUGRAPH_CC || algorithm == GPUGRAPH_PAGERANK)
		return 4096;
	return algorithm == GPUGRAPH_BFS_PUSH ? 2048 : 512;
}

static int open_cache(struct gpugraph *b, uint64_t bytes, struct fth_gpu_cache **cache,
		      struct fth_gpu_graph_source *source)
{
	int rc = gpu_setup_cache(b->setup, bytes / b->line * b->line, b->line, cache);

	return rc < 0 ? rc : fth_gpu_graph_in_cache(b->graph, *cache, source);
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
	rc = gpu_setup_close_caches(b->setup);
	b->line = line;
	b->weights = weights;
	DO(rc, open_cache(b, bytes / b->s->share, &b->small, &b->from_small));
	/* A few more lines than there are: what comes first is never thrown out. */
	DO(rc, open_cache(b, bytes + bytes / 8 + SPARE, &b->large, &b->from_large));
	return rc;
}

static int open_graph(struct gpugraph *b, unsigned kind)
{
	struct fth_gpu_graph_shape shape = {};
	char *at = b->setup->medium.mapped;
	int rc = generate(b, kind);

	DO(rc, choose_source(b));
	shape.vertices = b->lists.vertices;
	shape.edges = b->lists.edges;
	shape.undirected = true;
	shape.weighted = !b->s->unweighted;
	shape.offsets = b->lists.offsets;
	shape.weights_at = b->section;
	DO(rc, fth_gpu_graph_open(&shape, &b->graph));
	DO(rc, gpu_setup_drive(b->setup, b->s->queues, b->s->warps));
	b->from_host = fth_gpu_graph_in_memory((uint32_t *)at, (uint32_t *)(at + b->section));
	b->from_hbm = fth_gpu_graph_in_memory(b->lists.edges_at, b->lists.weights_at);
	return rc;
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
	struct fth_gpu_graph_bfs_options how = {sizeof(how), algorithm == GPUGRAPH_BFS_PUSH};
	struct fth_graph_pagerank_options ranks = {sizeof(ranks), (unsigned)b->s->iterations, 0, 0,
						   false};
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
	unsigned blocks = 8 * (unsigned)b->setup->gpu.multiProcessorCount;
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
			 struct result *result)
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
		rc = fth_fail(EIO, "the hot cache read %llu bytes, expected 0",
			      (unsigned long long)(after.bytes_read - before.bytes_read));
	return rc;
}

/* Through the small cache, empty at first. */
static int run_cold(struct gpugraph *b, enum gpugraph_algorithm algorithm, double *seconds,
		    uint64_t *bytes)
{
	struct fth_gpu_cache_stats before = {}, after = {};
	int rc = fth_gpu_cache_empty(b->small);

	DO(rc, fth_gpu_cache_stats(b->small, &before));
	DO(rc, run_and_check(b, algorithm, &b->from_small, seconds));
	DO(rc, fth_gpu_cache_stats(b->small, &after));
	*bytes = after.bytes_read - before.bytes_read;
	return rc;
}

static int measure(struct gpugraph *b, enum gpugraph_algorithm algorithm, struct result *result)
{
	struct gpu_settings s = *b->s;
	double seconds[2] = {0, 0};
	int rc = open_caches(b, algorithm);

	if (algorithm == GPUGRAPH_SSSP)
		s.rounds = 1;
	DO(rc, run_reference(b, algorithm, result));
	DO(rc, gpu_rounds(&s, 2, seconds, [&](unsigned way, unsigned, double *value) {
		   return way == 0 ? run_and_check(b, algorithm, &b->from_host, value)
				   : run_cold(b, algorithm, value, &result->bytes_read);
	   }));
	DO(rc, run_hot(b, algorithm, &result->hot));
	result->zero_copy = seconds[0];
	result->cached = seconds[1];
	return rc;
}

/* ---- telling ---- */

static int registers_of(unsigned algorithm)
{
	static const enum fth_gpu_graph_kernel kernels[GPUGRAPH_ALGORITHMS] = {
		FTH_GPU_GRAPH_BFS_PUSH, FTH_GPU_GRAPH_BFS_PULL, FTH_GPU_GRAPH_CC,
		FTH_GPU_GRAPH_PAGERANK, FTH_GPU_GRAPH_SSSP};

	return fth_gpu_graph_registers(kernels[algorithm]);
}

/* The worst of push-only search and components; with --only of something else, that one. */
static void keep_worst(struct gpugraph *b, unsigned kind, unsigned a, const struct result *r)
{
	bool counts = a == GPUGRAPH_BFS_PUSH || a == GPUGRAPH_CC || b->s->only;
	double ratio = r->zero_copy / r->cached;

	if (!counts || (b->worst_cached > 0 && ratio >= b->worst_zero_copy / b->worst_cached))
		return;
	b->worst_algorithm = algorithm_names[a];
	b->worst_graph = kind_names[kind];
	b->worst_cached = r->cached;
	b->worst_zero_copy = r->zero_copy;
}

/* `push` is the time of push-only search by zero copy on the same graph; 0: not measured. */
static void tell(struct gpugraph *b, struct gpu_report *report, unsigned kind, unsigned a,
		 const struct result *r, double push)
{
	uint64_t bytes = bytes_of(b, b->weights);
	bool against = a == GPUGRAPH_BFS && push > 0;

	gpu_case(report);
	gpu_text(report, "graph", kind_names[kind]);
	gpu_text(report, "algorithm", algorithm_names[a]);
	gpu_number(report, "ours", r->cached);
	gpu_number(report, "peer", r->zero_copy);
	gpu_number(report, "ratio", r->zero_copy / r->cached);
	gpu_number(report, "against_push", against ? push / r->cached : 0);
	gpu_number(report, "compute", r->hbm);
	gpu_number(report, "cache", r->hot - r->hbm);
	gpu_number(report, "storage", r->cached - r->hot);
	gpu_count(report, "edge_bytes", bytes);
	gpu_count(report, "line", b->line);
	gpu_count(report, "cache_bytes", bytes / b->s->share / b->line * b->line);
	gpu_count(report, "bytes_read", r->bytes_read);
	gpu_count(report, "rounds", r->rounds);
	gpu_count(report, "answer", r->answer);
	gpu_count(report, "registers", (uint64_t)registers_of(a));
	gpu_case_end(report);
	keep_worst(b, kind, a, r);
	if (against && (!(b->against_push > 0) || push / r->cached < b->against_push))
		b->against_push = push / r->cached;
}

/* ---- all of it ---- */

static int measure_graph(struct gpugraph *b, unsigned kind, struct gpu_report *report)
{
	double push = 0;
	int rc = open_graph(b, kind);

	for (unsigned a = 0; rc == 0 && a < GPUGRAPH_ALGORITHMS; a++) {
		struct result result = {};

		if ((a == GPUGRAPH_SSSP && b->s->unweighted) ||
		    (b->s->only && strcmp(b->s->only, algorithm_names[a]) != 0))
			continue;
		rc = measure(b, (enum gpugraph_algorithm)a, &result);
		if (rc == 0)
			tell(b, report, kind, a, &result, push);
		if (a == GPUGRAPH_BFS_PUSH)
			push = result.zero_copy;
	}
	return rc;
}

int gpugraph_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gpugraph b = {};
	int rc;

	b.s = s;
	b.setup = setup;
	b.stream = setup->stream;
	b.lists.vertices = (uint64_t)1 << s->scale;
	b.section = b.lists.vertices * s->degree * 2 * sizeof(uint32_t);
	b.section = (b.section + 65535) / 65536 * 65536;
	rc = open_memory(&b);
	for (unsigned kind = 0; rc == 0 && kind < KINDS; kind++) {
		struct fth_gpu_kept kept = fth_gpu_keep(measure_graph(&b, kind, report));
		int closed = close_graph(&b);

		rc = kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
	}
	if (rc < 0)
		return rc;
	gpu_text(report, "worst_algorithm", b.worst_algorithm);
	gpu_text(report, "worst_graph", b.worst_graph);
	if (b.against_push > 0)
		gpu_number(report, "bfs_against_push", b.against_push);
	gpu_sum(report, 1 / b.worst_cached, 1 / b.worst_zero_copy);
	return 0;
}
