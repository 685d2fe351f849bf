/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shortest paths with two piles (A. Davidson et al., IPDPS 2014), a form of delta-stepping: who is
 * nearer than a limit is worked on until nobody is left, the others wait; then the limit moves on.
 *
 * 1. distance[v] only falls, by compare-and-swap.
 * 2. Whoever lowers distance[v] puts v into `next` if it is now below the limit, else into `far`.
 * 3. So everybody in `far` who is below the limit by now has been in `next` since.
 *
 * Neighbours and weights lie in two arrays. The neighbours of a batch are copied as they come; the
 * weights then find them there.
 */
#include "graph/algorithm/frontier.h"

#include <stdlib.h>
#include <string.h>

#define ALONE_MAX  256
#define EDGES_MAX  ((uint64_t)1 << 18) /* of a batch */
#define SAMPLES	   4096u
#define STEP_EDGES 4

struct sssp {
	struct fth_graph *graph;
	uint64_t *distance;
	struct fth_frontier now, next, far, far_next;
	uint64_t limit, delta;
	struct sssp_worker *workers;
	size_t batch;
	unsigned threads;
	uint64_t edges;
};

struct sssp_worker {
	struct sssp *sssp;
	uint32_t *vertices;
	struct fth_span *spans; /* of the vertices */
	struct fth_span *parts; /* of these, what is looked at together */
	uint32_t *part_vertex;	/* whose each part is */
	uint64_t *part_at;	/* where its neighbours are copied to */
	uint32_t *neighbours;	/* EDGES_MAX of them */
	struct fth_feeder near, far;
};

/* ---- relaxing ---- */

static inline void relax(struct sssp_worker *worker, uint32_t to, uint64_t distance)
{
	struct sssp *sssp = worker->sssp;
	uint64_t old = fth_load_relaxed_dev64(&sssp->distance[to]);

	/* Ends: each failure means that the distance fell. */
	do {
		if (old <= distance)
			return;
	} while (!fth_cas_acqrel_dev64(&sssp->distance[to], &old, distance));
	if (distance < sssp->limit)
		fth_frontier_add(&sssp->next, &worker->near, to);
	else
		fth_frontier_add(&sssp->far, &worker->far, to);
}

static int copy_neighbours(void *context, size_t which, uint64_t first, const void *elements,
			   uint64_t n)
{
	struct sssp_worker *worker = context;
	const uint32_t *neighbours = elements;
	uint64_t vertices = worker->sssp->graph->info.vertices;

	for (uint64_t i = 0; i < n; i++)
		if (neighbours[i] >= vertices)
			return fth_graph_bad_neighbour(neighbours[i]);
	memcpy(worker->neighbours + worker->part_at[which] + (first - worker->parts[which].first),
	       elements, n * sizeof(uint32_t));
	return 0;
}

static int relax_neighbours(void *context, size_t which, uint64_t first, const void *elements,
			    uint64_t n)
{
	struct sssp_worker *worker = context;
	const uint32_t *weights = elements, *neighbours = worker->neighbours;
	uint64_t from = fth_load_relaxed_dev64(&worker->sssp->distance[worker->part_vertex[which]]);

	neighbours += worker->part_at[which] + (first - worker->parts[which].first);
	for (uint64_t i = 0; i < n; i++)
		relax(worker, neighbours[i], from + weights[i]);
	return 0;
}

static int relax_parts(struct sssp_worker *worker, size_t parts)
{
	struct fth_graph *graph = worker->sssp->graph;
	int rc = fth_graph_walk(graph, worker->parts, parts, copy_neighbours, worker);

	if (rc < 0 || !graph->weights)
		return rc;
	return fth_array_walk(graph->weights, worker->parts, parts, relax_neighbours, worker);
}

/* ---- batches ---- */

/* Cut the spans into parts, as many edges at once as there is room for. */
static int relax_batch(struct sssp_worker *worker, size_t n)
{
	uint64_t used = 0;
	size_t parts = 0;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct fth_span left = worker->spans[i];

		while (left.count > 0 && rc == 0) {
			uint64_t room = EDGES_MAX - used;
			uint64_t take = left.count < room ? left.count : room;

			worker->parts[parts] = (struct fth_span){left.first, take};
			worker->part_vertex[parts] = worker->vertices[i];
			worker->part_at[parts++] = used;
			used += take;
			left.first += take;
			left.count -= take;
			if (used < EDGES_MAX)
				continue;
			rc = relax_parts(worker, parts);
			fth_add_relaxed_dev64(&worker->sssp->edges, used);
			used = parts = 0;
		}
	}
	fth_add_relaxed_dev64(&worker->sssp->edges, used);
	return rc < 0 ? rc : relax_parts(worker, parts);
}

static int work_on_near(struct fth_graph_team *team, void *context, unsigned number)
{
	struct sssp *sssp = context;
	struct sssp_worker *worker = &sssp->workers[number];
	uint64_t done, total;
	size_t n;
	int rc = 0;

	while (rc == 0 && !fth_graph_team_failed(team) &&
	       (n = fth_frontier_take(&sssp->now, worker->vertices, sssp->batch)) > 0) {
		fth_frontier_progress(&sssp->now, &done, &total);
		rc = fth_graph_team_tell(team, number, "relaxing", done, total);
		if (rc == 0)
			rc = fth_graph_spans(sssp->graph, worker->vertices, n, worker->spans);
		if (rc == 0)
			rc = relax_batch(worker, n);
	}
	fth_feeder_flush(&worker->near, &sssp->next);
	fth_feeder_flush(&worker->far, &sssp->far);
	return rc;
}

/* ---- piles ---- */

static void swap(struct fth_frontier *a, struct fth_frontier *b)
{
	struct fth_frontier was = *a;

	*a = *b;
	*b = was;
}

static void next_becomes_now(struct sssp *sssp)
{
	fth_frontier_clear(&sssp->now);
	swap(&sssp->now, &sssp->next);
	fth_frontier_seal(&sssp->now);
}

/* The least distance among those far whose turn is still to come; UINT64_MAX if nobody is. */
static uint64_t least_far(struct sssp *sssp)
{
	struct sssp_worker *worker = &sssp->workers[0];
	uint64_t least = UINT64_MAX;
	size_t n;

	fth_frontier_seal(&sssp->far);
	while ((n = fth_frontier_take(&sssp->far, worker->vertices, sssp->batch)) > 0)
		for (size_t i = 0; i < n; i++) {
			uint64_t d = sssp->distance[worker->vertices[i]];

			if (d >= sssp->limit && d < least)
				least = d;
		}
	return least;
}

/* Move the limit, and those whom it passes. */
static void advance(struct sssp *sssp, uint64_t least)
{
	struct sssp_worker *worker = &sssp->workers[0];
	uint64_t old = sssp->limit;
	size_t n;

	sssp->limit = least / sssp->delta * sssp->delta + sssp->delta;
	fth_frontier_seal(&sssp->far);
	while ((n = fth_frontier_take(&sssp->far, worker->vertices, sssp->batch)) > 0)
		for (size_t i = 0; i < n; i++) {
			uint32_t v = worker->vertices[i];

			if (sssp->distance[v] >= sssp->limit)
				fth_frontier_add(&sssp->far_next, &worker->far, v);
			else if (sssp->distance[v] >= old)
				fth_frontier_add(&sssp->next, &worker->near, v);
		}
	fth_feeder_flush(&worker->near, &sssp->next);
	fth_feeder_flush(&worker->far, &sssp->far_next);
	fth_frontier_clear(&sssp->far);
	swap(&sssp->far, &sssp->far_next);
}

static int settle_near(struct sssp *sssp, const struct fth_graph_job *job, uint64_t *rounds)
{
	int rc = 0;

	next_becomes_now(sssp);
	while (rc == 0 && sssp->now.count > 0) {
		unsigned threads = sssp->now.count < ALONE_MAX ? 1 : sssp->threads;

		(*rounds)++;
		rc = fth_graph_team_run(job, threads, work_on_near, sssp);
		if (rc == 0)
			next_becomes_now(sssp);
	}
	return rc;
}

static int search(struct sssp *sssp, uint32_t source, const struct fth_graph_job *job,
		  uint64_t *rounds)
{
	struct sssp_worker *worker = &sssp->workers[0];
	uint64_t least;
	int rc;

	memset(sssp->distance, 0xff, sssp->graph->info.vertices * sizeof(*sssp->distance));
	sssp->limit = sssp->delta;
	relax(worker, source, 0);
	fth_feeder_flush(&worker->near, &sssp->next);
	rc = settle_near(sssp, job, rounds);
	while (rc == 0 && (least = least_far(sssp)) != UINT64_MAX) {
		advance(sssp, least);
		rc = settle_near(sssp, job, rounds);
	}
	return rc;
}

/* ---- memory ---- */

static int worker_init(struct sssp_worker *worker, struct sssp *sssp)
{
	size_t n = sssp->batch;

	worker->sssp = sssp;
	worker->vertices = malloc(n * sizeof(*worker->vertices));
	worker->spans = malloc(n * sizeof(*worker->spans));
	/* A span that is cut has its parts in different rounds, so no more than one part each. */
	worker->parts = malloc(n * sizeof(*worker->parts));
	worker->part_vertex = malloc(n * sizeof(*worker->part_vertex));
	worker->part_at = malloc(n * sizeof(*worker->part_at));
	worker->neighbours = malloc(EDGES_MAX * sizeof(*worker->neighbours));
	return worker->vertices && worker->spans && worker->parts && worker->part_vertex &&
			       worker->part_at && worker->neighbours
		       ? 0
		       : -ENOMEM;
}

static void worker_release(struct sssp_worker *worker)
{
	free(worker->vertices);
	free(worker->spans);
	free(worker->parts);
	free(worker->part_vertex);
	free(worker->part_at);
	free(worker->neighbours);
}

static int sssp_init(struct sssp *sssp)
{
	struct fth_frontier *sets[] = {&sssp->now, &sssp->next, &sssp->far, &sssp->far_next};
	uint64_t n = sssp->graph->info.vertices;
	int rc = 0;

	for (int i = 0; i < 4 && rc == 0; i++)
		rc = fth_frontier_init(sets[i], n);
	sssp->distance = fth_graph_alloc(n, sizeof(*sssp->distance));
	sssp->workers = calloc(sssp->threads, sizeof(*sssp->workers));
	if (rc < 0 || !sssp->distance || !sssp->workers)
		return -ENOMEM;
	for (unsigned i = 0; i < sssp->threads && rc == 0; i++)
		rc = worker_init(&sssp->workers[i], sssp);
	return rc;
}

static void sssp_release(struct sssp *sssp)
{
	for (unsigned i = 0; sssp->workers && i < sssp->threads; i++)
		worker_release(&sssp->workers[i]);
	free(sssp->workers);
	fth_frontier_release(&sssp->now);
	fth_frontier_release(&sssp->next);
	fth_frontier_release(&sssp->far);
	fth_frontier_release(&sssp->far_next);
}

/*
 * A few edges further in each step, by the mean of the first weights. A narrower step relaxes fewer
 * edges twice, but has more rounds, and each round reads from the device anew.
 */
static int choose_delta(struct sssp *sssp, uint64_t wanted)
{
	struct fth_array *weights = sssp->graph->weights;
	uint64_t n = weights ? fth_array_count(weights) : 0, sum = 0;
	uint32_t sample[SAMPLES];
	int rc = 0;

	n = n < SAMPLES ? n : SAMPLES;
	if (wanted == 0 && n > 0)
		rc = fth_array_read(weights, 0, n, sample);
	for (uint64_t i = 0; i < n && wanted == 0 && rc == 0; i++)
		sum += sample[i];
	sssp->delta = wanted ? wanted : n ? STEP_EDGES * sum / n : 1;
	if (sssp->delta == 0)
		sssp->delta = 1;
	return rc;
}

static void finish(struct sssp *sssp, struct fth_graph_sssp *out)
{
	uint64_t n = sssp->graph->info.vertices;

	out->distance = sssp->distance;
	for (uint64_t v = 0; v < n; v++)
		out->reached += sssp->distance[v] != FTH_GRAPH_FAR;
	out->work.edges = sssp->edges;
	out->work.state_bytes = n * sizeof(*sssp->distance) + 4 * fth_frontier_bytes(&sssp->now) +
				fth_graph_offset_bytes(sssp->graph);
}

static int check(struct fth_graph *graph, uint64_t source)
{
	uint64_t degree;

	if (!graph->info.weighted)
		return fth_fail(EINVAL, "the graph has no weights");
	return fth_graph_degree(graph, source, &degree);
}

int fth_graph_sssp(struct fth_graph *graph, uint64_t source, uint64_t delta,
		   const struct fth_graph_job *job, struct fth_graph_sssp *out)
{
	struct sssp sssp = {.graph = graph};
	uint64_t begin = fth_now_ns();
	int rc = check(graph, source);

	*out = (struct fth_graph_sssp){0};
	if (rc < 0)
		return rc;
	if (!job)
		job = &fth_graph_no_job;
	sssp.threads = fth_graph_team_threads(job);
	sssp.batch = fth_graph_batch(graph, sssp.threads);
	rc = sssp_init(&sssp);
	if (rc == 0)
		rc = choose_delta(&sssp, delta);
	if (rc == 0)
		rc = search(&sssp, (uint32_t)source, job, &out->work.rounds);
	if (rc == 0) {
		finish(&sssp, out);
		out->work.elapsed_ns = fth_now_ns() - begin;
	} else {
		free(sssp.distance);
		*out = (struct fth_graph_sssp){0};
	}
	sssp_release(&sssp);
	return rc;
}

void fth_graph_sssp_release(struct fth_graph_sssp *paths)
{
	free(paths->distance);
	*paths = (struct fth_graph_sssp){0};
}
