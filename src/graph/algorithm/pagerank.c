/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PageRank. Each iteration sweeps over all edges, a chunk of vertices at a time.
 *
 * In an undirected graph the neighbours of a vertex are also those that point to it, so a vertex
 * pulls: it sums up what its neighbours give, and nobody else writes to its sum. A directed graph
 * holds who a vertex points to only, so there it pushes, with an atomic addition per edge.
 *
 * While a thread works on a chunk, the edges of its next one are on their way.
 *
 * Sweeps go there and back: the part of the edges that the last one left in the cache is the first
 * that the next one wants.
 */
#include "graph/graph_internal.h"
#include "base/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((uint64_t)2 << 20) /* of edges, about, so that the device sees depth */
#define CHUNK_MIN   64u			/* vertices */
#define CHUNKS_PER  16u			/* at least so many per thread */
/*
 * All threads' chunks together, being worked on and being fetched, are to be a small part of the
 * cache: else those fetched ahead have gone again when it is their turn.
 */
#define CACHE_SHARE 48u
#define AHEAD_MIN \
	(256u << 10) /* where that is less, chunks are large and nothing is fetched ahead */

struct pagerank {
	struct fth_graph *graph;
	struct fth_graph_pagerank_options options;
	double *rank;
	float *give;	  /* what a vertex gives to each neighbour in this iteration */
	float *next_give; /* and in the next one */
	double *sum;	  /* directed only: what each was given */
	uint64_t chunk, chunks;
	uint64_t next; /* chunk to be taken */
	uint64_t iteration;
	bool backward;
	bool ahead;  /* chunks are fetched while others are worked on */
	double base; /* what everyone has */
	struct pagerank_worker *workers;
	unsigned threads;
};

struct pagerank_worker {
	struct pagerank *pr;
	uint64_t first;		 /* vertex */
	uint64_t count;		 /* vertices */
	const uint64_t *offsets; /* of them, one more than there are */
	uint64_t *offset_room;
	double *sum;		 /* of each vertex of the chunk */
	double change, dangling; /* over all its chunks of an iteration */
};

void fth_graph_pagerank_defaults(struct fth_graph_pagerank_options *options)
{
	if (!options->iterations)
		options->iterations = 20;
	if (!(options->damping > 0))
		options->damping = 0.85;
}

/* ---- edges ---- */

/* Which vertex of the chunk has edge e: the last whose neighbours begin at e or before. */
static uint64_t owner(const struct pagerank_worker *worker, uint64_t e)
{
	uint64_t low = 0, high = worker->count;

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (worker->offsets[middle] <= e)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Four sums, since each addition waits for the one before it. */
static inline double sum_of(const float *give, const uint32_t *neighbours, uint64_t n)
{
	double a = 0, b = 0, c = 0, d = 0;
	uint64_t i = 0;

	for (; i + 4 <= n; i += 4) {
		a += give[neighbours[i]];
		b += give[neighbours[i + 1]];
		c += give[neighbours[i + 2]];
		d += give[neighbours[i + 3]];
	}
	for (; i < n; i++)
		a += give[neighbours[i]];
	return (a + b) + (c + d);
}

/* At least as large as the largest of them, and two at a time hardly anything beside the sums. */
static uint32_t at_most(const uint32_t *neighbours, uint64_t n)
{
	uint64_t all = n % 2 ? neighbours[n - 1] : 0, more = 0, pair[2];
	uint64_t i = 0;

	for (; i + 4 <= n; i += 4) {
		memcpy(pair, neighbours + i, sizeof(pair));
		all |= pair[0];
		more |= pair[1];
	}
	for (; i + 2 <= n; i += 2) {
		memcpy(pair, neighbours + i, sizeof(*pair));
		all |= pair[0];
	}
	all |= more;
	return (uint32_t)(all | all >> 32);
}

static int check_neighbours(const struct pagerank *pr, const uint32_t *neighbours, uint64_t n)
{
	uint64_t vertices = pr->graph->info.vertices;

	if (at_most(neighbours, n) < vertices)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		if (neighbours[i] >= vertices)
			return fth_graph_bad_neighbour(neighbours[i]);
	return 0;
}

static int pull(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	struct pagerank_worker *worker = context;
	const uint32_t *neighbours = elements;
	uint64_t v = owner(worker, first), end = first + n;
	int rc = check_neighbours(worker->pr, neighbours, n);

	(void)which;
	while (rc == 0 && first < end) {
		uint64_t stop = worker->offsets[v + 1] < end ? worker->offsets[v + 1] : end;

		worker->sum[v] += sum_of(worker->pr->give, neighbours, stop - first);
		neighbours += stop - first;
		first = stop;
		v++;
	}
	return rc;
}

/* sum[v] += amount, by any number of threads. relaxed: the team's end publishes the sums. */
static void add_atomically(double *sum, double amount)
{
	uint64_t *word = (uint64_t *)(void *)sum, old = fth_load_relaxed_dev64(word), desired;
	double value;

	do {
		memcpy(&value, &old, sizeof(value));
		value += amount;
		memcpy(&desired, &value, sizeof(desired));
	} while (!fth_cas_acqrel_dev64(word, &old, desired));
}

static int push(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	struct pagerank_worker *worker = context;
	struct pagerank *pr = worker->pr;
	const uint32_t *neighbours = elements;
	uint64_t v = owner(worker, first);
	int rc = check_neighbours(pr, neighbours, n);

	(void)which;
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		while (first + i >= worker->offsets[v + 1])
			v++;
		add_atomically(&pr->sum[neighbours[i]], pr->give[worker->first + v]);
	}
	return rc;
}

/* ---- vertices ---- */

static void settle(struct pagerank_worker *worker, const double *sums)
{
	struct pagerank *pr = worker->pr;

	for (uint64_t i = 0; i < worker->count; i++) {
		uint64_t v = worker->first + i,
			 degree = worker->offsets[i + 1] - worker->offsets[i];
		double rank = pr->base + pr->options.damping * sums[i];

		worker->change += fabs(rank - pr->rank[v]);
		pr->rank[v] = rank;
		pr->next_give[v] = degree ? (float)(rank / (double)degree) : 0;
		if (degree == 0)
			worker->dangling += rank;
	}
}

static int take_chunk(struct pagerank_worker *worker, uint64_t chunk)
{
	struct pagerank *pr = worker->pr;
	uint64_t n = pr->graph->info.vertices;

	worker->first = chunk * pr->chunk;
	worker->count = n - worker->first < pr->chunk ? n - worker->first : pr->chunk;
	return fth_graph_offsets(pr->graph, worker->first, worker->count, worker->offset_room,
				 &worker->offsets);
}

static int walk_chunk(struct pagerank_worker *worker, fth_array_piece_fn fn)
{
	struct fth_span span = {worker->offsets[0],
				worker->offsets[worker->count] - worker->offsets[0]};

	return fth_graph_walk(worker->pr->graph, &span, 1, fn, worker);
}

static int pull_chunk(struct pagerank_worker *worker)
{
	int rc;

	memset(worker->sum, 0, worker->count * sizeof(*worker->sum));
	rc = walk_chunk(worker, pull);
	if (rc == 0)
		settle(worker, worker->sum);
	return rc;
}

static int settle_chunk(struct pagerank_worker *worker)
{
	settle(worker, worker->pr->sum + worker->first);
	memset(worker->pr->sum + worker->first, 0, worker->count * sizeof(double));
	return 0;
}

/* Before the first iteration all ranks are equal. */
static int start_chunk(struct pagerank_worker *worker)
{
	memset(worker->sum, 0, worker->count * sizeof(*worker->sum));
	settle(worker, worker->sum);
	return 0;
}

static int push_chunk(struct pagerank_worker *worker)
{
	return walk_chunk(worker, push);
}

/* ---- sweeps ---- */

struct sweep {
	struct pagerank *pr;
	int (*chunk)(struct pagerank_worker *worker);
	bool edges; /* it looks at them */
};

/* The chunk that is taken i-th. */
static uint64_t chunk_of(const struct pagerank *pr, uint64_t i)
{
	return pr->backward ? pr->chunks - 1 - i : i;
}

/*
 * Have the edges of a chunk fetched while another is being worked on. Where offsets are not in
 * memory it is not known which ones these are.
 */
static void fetch_ahead(struct pagerank *pr, uint64_t chunk)
{
	const uint64_t *offsets = pr->graph->offsets;
	uint64_t n = pr->graph->info.vertices, first = chunk * pr->chunk;
	uint64_t end = n - first < pr->chunk ? n : first + pr->chunk;

	if (offsets && offsets[first] < offsets[end])
		fth_array_prefetch(pr->graph->edges, offsets[first], offsets[end] - offsets[first]);
}

/* The number of the chunk to be worked on after this one; pr->chunks if there is none. */
static uint64_t take_ahead(const struct sweep *sweep)
{
	struct pagerank *pr = sweep->pr;
	uint64_t i = fth_graph_team_take(&pr->next, 1, pr->chunks);

	if (i >= pr->chunks)
		return pr->chunks;
	if (sweep->edges && pr->ahead)
		fetch_ahead(pr, chunk_of(pr, i));
	return i;
}

static int work_on_sweep(struct fth_graph_team *team, void *context, unsigned number)
{
	struct sweep *sweep = context;
	struct pagerank *pr = sweep->pr;
	struct pagerank_worker *worker = &pr->workers[number];
	uint64_t i = take_ahead(sweep);
	int rc = 0;

	while (rc == 0 && i < pr->chunks && !fth_graph_team_failed(team)) {
		uint64_t next = take_ahead(sweep);

		rc = fth_graph_team_tell(team, number, "ranking", pr->iteration * pr->chunks + i,
					 pr->options.iterations * pr->chunks);
		if (rc == 0)
			rc = take_chunk(worker, chunk_of(pr, i));
		if (rc == 0)
			rc = sweep->chunk(worker);
		i = next;
	}
	return rc;
}

static int run_sweep(struct pagerank *pr, const struct fth_graph_job *job,
		     int (*chunk)(struct pagerank_worker *worker))
{
	struct sweep sweep = {
		.pr = pr, .chunk = chunk, .edges = chunk == pull_chunk || chunk == push_chunk};

	pr->next = 0;
	return fth_graph_team_run(job, pr->threads, work_on_sweep, &sweep);
}

/* What vertices without neighbours have is spread over all. */
static void set_base(struct pagerank *pr, double dangling)
{
	double n = (double)pr->graph->info.vertices;

	pr->base = (1 - pr->options.damping) / n + pr->options.damping * dangling / n;
}

/* Add up what the workers found. */
static double collect(struct pagerank *pr)
{
	double change = 0, dangling = 0;

	for (unsigned i = 0; i < pr->threads; i++) {
		change += pr->workers[i].change;
		dangling += pr->workers[i].dangling;
		pr->workers[i].change = pr->workers[i].dangling = 0;
	}
	set_base(pr, dangling);
	return change;
}

/* The shares computed in this iteration become the input of the next. */
static void turn_over(struct pagerank *pr)
{
	float *swap = pr->give;

	pr->give = pr->next_give;
	pr->next_give = swap;
}

static int start(struct pagerank *pr, const struct fth_graph_job *job)
{
	int rc;

	pr->base = 1 / (double)pr->graph->info.vertices;
	rc = run_sweep(pr, job, start_chunk);
	(void)collect(pr);
	turn_over(pr);
	return rc;
}

static int iterate(struct pagerank *pr, const struct fth_graph_job *job, double *change)
{
	int rc;

	if (pr->options.one_way)
		pr->backward = false;
	if (pr->graph->info.undirected) {
		rc = run_sweep(pr, job, pull_chunk);
	} else {
		rc = run_sweep(pr, job, push_chunk);
		if (rc == 0)
			rc = run_sweep(pr, job, settle_chunk);
	}
	pr->backward = !pr->backward;
	*change = collect(pr);
	turn_over(pr);
	return rc;
}

static int rank_all(struct pagerank *pr, const struct fth_graph_job *job,
		    struct fth_graph_pagerank *out)
{
	int rc = start(pr, job);

	while (rc == 0 && pr->iteration < pr->options.iterations) {
		rc = iterate(pr, job, &out->change);
		pr->iteration++;
		if (out->change < pr->options.tolerance)
			break;
	}
	return rc;
}

/* ---- memory ---- */

static int worker_init(struct pagerank_worker *worker, struct pagerank *pr)
{
	worker->pr = pr;
	worker->sum = calloc(pr->chunk, sizeof(*worker->sum));
	if (!pr->graph->offsets)
		worker->offset_room = malloc((pr->chunk + 1) * sizeof(uint64_t));
	return worker->sum && (pr->graph->offsets || worker->offset_room) ? 0 : -ENOMEM;
}

static int pagerank_init(struct pagerank *pr)
{
	uint64_t n = pr->graph->info.vertices;
	int rc = 0;

	pr->rank = fth_graph_alloc_zeroed(n, sizeof(*pr->rank));
	pr->give = fth_graph_alloc(n, sizeof(*pr->give));
	pr->next_give = fth_graph_alloc(n, sizeof(*pr->next_give));
	pr->workers = calloc(pr->threads, sizeof(*pr->workers));
	if (!pr->rank || !pr->give || !pr->next_give || !pr->workers)
		return -ENOMEM;
	if (!pr->graph->info.undirected) {
		pr->sum = fth_graph_alloc_zeroed(n, sizeof(*pr->sum));
		rc = pr->sum ? 0 : -ENOMEM;
	}
	for (unsigned i = 0; i < pr->threads && rc == 0; i++)
		rc = worker_init(&pr->workers[i], pr);
	return rc;
}

static void pagerank_release(struct pagerank *pr)
{
	for (unsigned i = 0; pr->workers && i < pr->threads; i++) {
		free(pr->workers[i].sum);
		free(pr->workers[i].offset_room);
	}
	free(pr->workers);
	free(pr->give);
	free(pr->next_give);
	free(pr->sum);
}

static void choose_chunk(struct pagerank *pr)
{
	uint64_t n = pr->graph->info.vertices, edges = pr->graph->info.edges;
	uint64_t bytes = CHUNK_BYTES, share;
	struct fth_cache_footprint footprint;

	fth_cache_footprint(pr->graph->cache, &footprint);
	share = footprint.data_bytes / CACHE_SHARE / pr->threads;
	pr->ahead = share >= AHEAD_MIN;
	if (pr->ahead && bytes > share)
		bytes = share;
	pr->chunk = edges ? (uint64_t)((double)bytes / sizeof(uint32_t) / (double)edges * (double)n)
			  : n;
	if (pr->chunk > n / (CHUNKS_PER * (uint64_t)pr->threads))
		pr->chunk = n / (CHUNKS_PER * (uint64_t)pr->threads);
	if (pr->chunk < CHUNK_MIN)
		pr->chunk = CHUNK_MIN;
	pr->chunks = (n + pr->chunk - 1) / pr->chunk;
}

static void finish(const struct pagerank *pr, struct fth_graph_pagerank *out)
{
	uint64_t n = pr->graph->info.vertices;

	out->rank = pr->rank;
	out->work.rounds = pr->iteration;
	out->work.edges = pr->iteration * pr->graph->info.edges;
	out->work.state_bytes = n * (sizeof(*pr->rank) + 2 * sizeof(*pr->give)) +
				(pr->sum ? n * sizeof(*pr->sum) : 0) +
				fth_graph_offset_bytes(pr->graph);
}

int fth_graph_pagerank(struct fth_graph *graph, const struct fth_graph_pagerank_options *options,
		       const struct fth_graph_job *job, struct fth_graph_pagerank *out)
{
	struct pagerank pr = {.graph = graph};
	uint64_t begin = fth_now_ns();
	int rc = options ? fth_options_check("graph", options->size, sizeof(*options)) : 0;

	*out = (struct fth_graph_pagerank){0};
	if (rc < 0)
		return rc;
	if (options)
		pr.options = *options;
	fth_graph_pagerank_defaults(&pr.options);
	if (!job)
		job = &fth_graph_no_job;
	pr.threads = fth_graph_team_threads(job);
	choose_chunk(&pr);
	pr.backward = fth_graph_swept(graph);
	rc = pagerank_init(&pr);
	if (rc == 0)
		rc = rank_all(&pr, job, out);
	if (rc == 0) {
		fth_graph_set_swept(graph, pr.backward && !pr.options.one_way);
		finish(&pr, out);
		out->work.elapsed_ns = fth_now_ns() - begin;
	} else {
		free(pr.rank);
		*out = (struct fth_graph_pagerank){0};
	}
	pagerank_release(&pr);
	return rc;
}

void fth_graph_pagerank_release(struct fth_graph_pagerank *ranks)
{
	free(ranks->rank);
	*ranks = (struct fth_graph_pagerank){0};
}
