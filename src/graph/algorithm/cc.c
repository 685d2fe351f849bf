/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected components by Afforest (M. Sutton, T. Ben-Nun, A. Barak, IPDPS 2018): join each vertex
 * with its first two neighbours, find the component that most vertices are in by then, and look at
 * the other neighbours of those only that are not in it. Most of the edges are never read.
 *
 * label[] is a forest: label[v] <= v, and a root has label[v] == v. Trees are joined by hanging the
 * higher root under the lower one, so the root of a component is its smallest vertex in the end.
 *
 * In a directed graph an edge from the large component into another vertex is known to its source
 * only, so that there nobody may be left out.
 */
#include "graph/graph_internal.h"

#include "fathom/base/rng.h"

#include <stdlib.h>

#define FIRST_NEIGHBOURS 2u
#define SAMPLES		 1024u

struct cc {
	struct fth_graph *graph;
	uint32_t *label;
	uint64_t next; /* vertex to be taken */
	uint64_t edges;
	size_t batch;
	bool backward;	/* batches are taken from the last on */
	bool rest;	/* the second phase */
	uint32_t large; /* the label that is left out in it, or FTH_GRAPH_NONE */
};

struct cc_worker {
	struct cc *cc;
	uint32_t *vertices;
	struct fth_span *spans;
};

/* All accesses while threads work on it. relaxed: each value is a valid, if old, ancestor. */
static uint32_t label_of(const struct cc *cc, uint32_t v)
{
	return fth_load_relaxed_dev32(&cc->label[v]);
}

static void join(struct cc *cc, uint32_t u, uint32_t v)
{
	uint32_t a = label_of(cc, u), b = label_of(cc, v);

	/* Ends: each round at least one of the two moves to a smaller number, or they meet. */
	while (a != b) {
		uint32_t high = a > b ? a : b, low = a > b ? b : a;
		uint32_t above = label_of(cc, high);

		if (above == low)
			break;
		/* Atomic: of two that hang the same root somewhere, one has to look again. */
		if (above == high && fth_cas_acqrel_dev32(&cc->label[high], &above, low))
			break;
		a = label_of(cc, label_of(cc, high));
		b = label_of(cc, low);
	}
}

/* ---- edges ---- */

static int join_neighbours(void *context, size_t which, uint64_t first, const void *elements,
			   uint64_t n)
{
	struct cc_worker *worker = context;
	const uint32_t *neighbours = elements;
	uint64_t vertices = worker->cc->graph->info.vertices;

	(void)first;
	for (uint64_t i = 0; i < n; i++) {
		if (neighbours[i] >= vertices)
			return fth_graph_bad_neighbour(neighbours[i]);
		join(worker->cc, worker->vertices[which], neighbours[i]);
	}
	return 0;
}

/* The vertices of [first, first + batch) that matter in this phase. */
static size_t choose(struct cc_worker *worker, uint64_t first)
{
	struct cc *cc = worker->cc;
	uint64_t end = first + cc->batch, n = cc->graph->info.vertices;
	size_t count = 0;

	for (uint64_t v = first; v < end && v < n; v++)
		if (!cc->rest || label_of(cc, (uint32_t)v) != cc->large)
			worker->vertices[count++] = (uint32_t)v;
	return count;
}

/* The first two neighbours of each, or all but those. */
static uint64_t trim(const struct cc *cc, struct fth_span *spans, size_t n)
{
	uint64_t edges = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t few =
			spans[i].count < FIRST_NEIGHBOURS ? spans[i].count : FIRST_NEIGHBOURS;

		if (cc->rest) {
			spans[i].first += few;
			spans[i].count -= few;
		} else {
			spans[i].count = few;
		}
		edges += spans[i].count;
	}
	return edges;
}

static int join_batch(struct cc_worker *worker, uint64_t first)
{
	struct cc *cc = worker->cc;
	size_t n = choose(worker, first);
	int rc = fth_graph_spans(cc->graph, worker->vertices, n, worker->spans);

	if (rc < 0)
		return rc;
	fth_add_relaxed_dev64(&cc->edges, trim(cc, worker->spans, n));
	return fth_graph_walk(cc->graph, worker->spans, n, join_neighbours, worker);
}

static int join_all(struct fth_graph_team *team, struct cc_worker *worker, unsigned number)
{
	struct cc *cc = worker->cc;
	uint64_t i, n = cc->graph->info.vertices, batches = (n + cc->batch - 1) / cc->batch;
	int rc = 0;

	while (rc == 0 && !fth_graph_team_failed(team) &&
	       (i = fth_graph_team_take(&cc->next, 1, batches)) < batches) {
		rc = fth_graph_team_tell(team, number, cc->rest ? "joining the rest" : "joining",
					 i * cc->batch, n);
		if (rc == 0)
			rc = join_batch(worker, (cc->backward ? batches - 1 - i : i) * cc->batch);
	}
	return rc;
}

static int work_on_edges(struct fth_graph_team *team, void *context, unsigned number)
{
	struct cc_worker worker = {.cc = context};
	int rc = -ENOMEM;

	worker.vertices = malloc(worker.cc->batch * sizeof(*worker.vertices));
	worker.spans = malloc(worker.cc->batch * sizeof(*worker.spans));
	if (worker.vertices && worker.spans)
		rc = join_all(team, &worker, number);
	free(worker.vertices);
	free(worker.spans);
	return rc;
}

/* ---- labels ---- */

/* Make every vertex point to its root. Another thread may shorten the same path: both are right. */
static int work_on_labels(struct fth_graph_team *team, void *context, unsigned number)
{
	struct cc *cc = context;
	uint64_t first, n = cc->graph->info.vertices;

	(void)team;
	(void)number;
	while ((first = fth_graph_team_take(&cc->next, cc->batch, n)) < n)
		for (uint64_t v = first; v < first + cc->batch && v < n; v++) {
			uint32_t up = label_of(cc, (uint32_t)v), above;

			while ((above = label_of(cc, up)) != up)
				up = above;
			fth_store_relaxed_dev32(&cc->label[v], up);
		}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The label that most of a sample have. */
static uint32_t most_frequent(const struct cc *cc)
{
	uint32_t sample[SAMPLES], best = FTH_GRAPH_NONE;
	struct fth_rng rng = {0};
	unsigned most = 0, run = 0;

	for (unsigned i = 0; i < SAMPLES; i++)
		sample[i] = cc->label[fth_rng_below(&rng, cc->graph->info.vertices)];
	qsort(sample, SAMPLES, sizeof(*sample), by_number);
	for (unsigned i = 0; i < SAMPLES; i++) {
		run = i > 0 && sample[i] == sample[i - 1] ? run + 1 : 1;
		if (run > most) {
			most = run;
			best = sample[i];
		}
	}
	return best;
}

/* ---- all of it ---- */

static int phase(struct cc *cc, const struct fth_graph_job *job, unsigned threads)
{
	int rc;

	cc->next = 0;
	rc = fth_graph_team_run(job, threads, work_on_edges, cc);
	cc->next = 0;
	return rc < 0 ? rc : fth_graph_team_run(job, threads, work_on_labels, cc);
}

static int count_components(const struct cc *cc, struct fth_graph_cc *out)
{
	uint64_t n = cc->graph->info.vertices;
	uint32_t *sizes = calloc(n, sizeof(*sizes));

	if (!sizes)
		return -ENOMEM;
	for (uint64_t v = 0; v < n; v++) {
		uint32_t root = cc->label[v];

		out->components += root == v;
		sizes[root]++;
		if (sizes[root] > out->largest)
			out->largest = sizes[root];
	}
	free(sizes);
	return 0;
}

static int find_components(struct cc *cc, const struct fth_graph_job *job, struct fth_graph_cc *out)
{
	unsigned threads = fth_graph_team_threads(job);
	int rc;

	for (uint64_t v = 0; v < cc->graph->info.vertices; v++)
		cc->label[v] = (uint32_t)v;
	cc->backward = fth_graph_swept(cc->graph);
	rc = phase(cc, job, threads);
	cc->backward = !cc->backward;
	fth_graph_set_swept(cc->graph, cc->backward);
	cc->rest = true;
	cc->large = cc->graph->info.undirected ? most_frequent(cc) : FTH_GRAPH_NONE;
	if (rc == 0)
		rc = phase(cc, job, threads);
	return rc < 0 ? rc : count_components(cc, out);
}

int fth_graph_cc(struct fth_graph *graph, const struct fth_graph_job *job, struct fth_graph_cc *out)
{
	struct cc cc = {.graph = graph};
	uint64_t start = fth_now_ns(), n = graph->info.vertices;
	int rc;

	*out = (struct fth_graph_cc){0};
	if (!job)
		job = &fth_graph_no_job;
	cc.batch = fth_graph_batch(graph, fth_graph_team_threads(job));
	cc.label = fth_graph_alloc(n, sizeof(*cc.label));
	rc = cc.label ? find_components(&cc, job, out) : -ENOMEM;
	if (rc < 0) {
		free(cc.label);
		*out = (struct fth_graph_cc){0};
		return rc;
	}
	out->label = cc.label;
	out->work.rounds = 2;
	out->work.edges = cc.edges;
	out->work.state_bytes = 2 * n * sizeof(*cc.label) + fth_graph_offset_bytes(graph);
	out->work.elapsed_ns = fth_now_ns() - start;
	return 0;
}

void fth_graph_cc_release(struct fth_graph_cc *cc)
{
	free(cc->label);
	*cc = (struct fth_graph_cc){0};
}
