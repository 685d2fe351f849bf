/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs, opened through a cache.
 *
 * format.c is the header on the medium; build/ makes graphs; algorithm/ works on them, with the
 * threads of team.c, and has the plain algorithms that results are compared with; label/ knows the
 * names of vertices; gpu/ does the same on a GPU.
 */
#include "graph/format.h"
#include "base/options.h"
#include "graph/graph_internal.h"

#include "fathom/base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LOAD_STEP  (8u << 20)
#define HUGE_PAGE  ((size_t)2 << 20)
#define PICK_TRIES 64

/* ---- opening ---- */

/* Offsets only grow, from 0 to the number of edges. */
static int check_offsets(const struct fth_graph *graph)
{
	const uint64_t *offsets = graph->offsets;
	uint64_t n = graph->info.vertices;
	bool good = offsets[0] == 0 && offsets[n] == graph->info.edges;

	for (uint64_t v = 0; v < n; v++)
		good &= offsets[v] <= offsets[v + 1];
	return good ? 0 : fth_fail(EBADMSG, "the graph is damaged: the offsets are not ascending");
}

/* Past the cache: they are read once and kept. */
static int load_offsets(struct fth_graph *graph)
{
	uint64_t bytes = fth_graph_align((graph->info.vertices + 1) * 8), at = 0;
	int rc = 0;

	graph->offsets = aligned_alloc(4096, bytes);
	if (!graph->offsets)
		return -ENOMEM;
	while (rc == 0 && at < bytes) {
		uint64_t step = bytes - at < LOAD_STEP ? bytes - at : LOAD_STEP;

		rc = fth_dev_read(graph->dev, (char *)graph->offsets + at, step,
				  graph->info.offsets_at + at, FTH_DEV_TIMEOUT);
		at += step;
	}
	return rc < 0 ? rc : check_offsets(graph);
}

static int open_section(struct fth_graph *graph, uint64_t at, uint64_t count, size_t element,
			struct fth_array **out)
{
	struct fth_array_options options = {.size = sizeof(struct fth_array_options),
					    .offset = at,
					    .count = count,
					    .readonly = true};

	return count ? fth_array_open_dev(graph->cache, graph->dev, element, &options, out) : 0;
}

static int open_sections(struct fth_graph *graph, bool offsets_on_device)
{
	const struct fth_graph_info *info = &graph->info;
	int rc;

	if (offsets_on_device)
		rc = open_section(graph, info->offsets_at, info->vertices + 1, 8,
				  &graph->offset_array);
	else
		rc = load_offsets(graph);
	if (rc == 0)
		rc = open_section(graph, info->edges_at, info->edges, 4, &graph->edges);
	if (rc == 0 && info->weighted)
		rc = open_section(graph, info->weights_at, info->edges, 4, &graph->weights);
	if (rc == 0 && info->labels)
		rc = open_section(graph, info->label_index_at, info->vertices + 1, 8,
				  &graph->label_index);
	if (rc == 0 && info->labels)
		rc = open_section(graph, info->label_text_at, info->label_bytes, 1,
				  &graph->label_text);
	return rc;
}

int fth_graph_open_dev(struct fth_cache *cache, struct fth_dev *dev,
		       const struct fth_graph_options *options, struct fth_graph **out)
{
	int rc = options ? fth_options_check("graph", options->size, sizeof(*options)) : 0;
	struct fth_graph *graph;

	*out = NULL;
	if (rc < 0)
		return rc;
	graph = calloc(1, sizeof(*graph));
	if (!graph)
		return -ENOMEM;
	graph->cache = cache;
	graph->dev = dev;
	rc = fth_graph_read_info(dev, &graph->info);
	if (rc == 0)
		rc = open_sections(graph, options && options->offsets_on_device);
	if (rc < 0)
		fth_graph_close(graph);
	else
		*out = graph;
	return rc;
}

int fth_graph_open(struct fth_cache *cache, const char *uri,
		   const struct fth_graph_options *options, struct fth_graph **out)
{
	struct fth_dev *dev;
	int rc = fth_dev_open_flags(uri, FTH_DEV_READONLY, &dev);

	*out = NULL;
	if (rc < 0)
		return rc;
	rc = fth_graph_open_dev(cache, dev, options, out);
	if (rc < 0)
		fth_dev_close(dev);
	else
		(*out)->own_dev = true;
	return rc;
}

int fth_graph_close(struct fth_graph *graph)
{
	struct fth_array **arrays[5];

	if (!graph)
		return 0;
	arrays[0] = &graph->weights;
	arrays[1] = &graph->edges;
	arrays[2] = &graph->offset_array;
	arrays[3] = &graph->label_index;
	arrays[4] = &graph->label_text;
	for (unsigned i = 0; i < 5; i++) {
		int rc = fth_array_close(*arrays[i]);

		if (rc < 0)
			return rc;
		*arrays[i] = NULL;
	}
	if (graph->own_dev)
		fth_dev_close(graph->dev);
	free(graph->offsets);
	free(graph->labels_at);
	free(graph->labels);
	free(graph);
	return 0;
}

const struct fth_graph_info *fth_graph_info(const struct fth_graph *graph)
{
	return &graph->info;
}

/* ---- memory ---- */

void *fth_graph_alloc(uint64_t count, size_t size)
{
	uint64_t bytes = (count * size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *memory;

	if (count * size < HUGE_PAGE)
		return malloc(count * size);
	memory = aligned_alloc(HUGE_PAGE, bytes);
	/* A wish: without huge pages it is slower, not wrong. */
	if (memory)
		(void)madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

void *fth_graph_alloc_zeroed(uint64_t count, size_t size)
{
	void *memory = fth_graph_alloc(count, size);

	return memory ? memset(memory, 0, count * size) : NULL;
}

/* ---- where neighbours are ---- */

static int bad_offsets(uint64_t vertex)
{
	return fth_fail(EBADMSG, "the graph is damaged: the offsets of vertex %llu are invalid",
			(unsigned long long)vertex);
}

/* Both ends of each, gathered; `room` holds 4n numbers. */
static int gather_spans(struct fth_graph *graph, const uint32_t *vertices, size_t n, uint64_t *room,
			struct fth_span *spans)
{
	uint64_t *indices = room, *ends = room + 2 * n;
	int rc;

	for (size_t i = 0; i < n; i++) {
		indices[2 * i] = vertices[i];
		indices[2 * i + 1] = (uint64_t)vertices[i] + 1;
	}
	rc = fth_array_gather(graph->offset_array, indices, 2 * n, ends);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (ends[2 * i] > ends[2 * i + 1] || ends[2 * i + 1] > graph->info.edges)
			rc = bad_offsets(vertices[i]);
		spans[i] = (struct fth_span){ends[2 * i], ends[2 * i + 1] - ends[2 * i]};
	}
	return rc;
}

int fth_graph_spans(struct fth_graph *graph, const uint32_t *vertices, size_t n,
		    struct fth_span *spans)
{
	const uint64_t *offsets = graph->offsets;
	uint64_t *room;
	int rc;

	for (size_t i = 0; offsets && i < n; i++)
		spans[i] = (struct fth_span){offsets[vertices[i]],
					     offsets[vertices[i] + 1] - offsets[vertices[i]]};
	if (offsets || n == 0)
		return 0;
	room = malloc(4 * n * sizeof(*room));
	rc = room ? gather_spans(graph, vertices, n, room, spans) : -ENOMEM;
	free(room);
	return rc;
}

int fth_graph_offsets(struct fth_graph *graph, uint64_t first, uint64_t n, uint64_t *room,
		      const uint64_t **out)
{
	int rc;

	*out = graph->offsets ? graph->offsets + first : room;
	if (graph->offsets)
		return 0;
	rc = fth_array_read(graph->offset_array, first, n + 1, room);
	for (uint64_t i = 0; rc == 0 && i < n; i++)
		if (room[i] > room[i + 1] || room[i + 1] > graph->info.edges)
			rc = bad_offsets(first + i);
	return rc;
}

int fth_graph_degree(struct fth_graph *graph, uint64_t vertex, uint64_t *out)
{
	struct fth_span span;
	uint32_t v = (uint32_t)vertex;
	int rc;

	if (vertex >= graph->info.vertices)
		return fth_fail(ERANGE, "vertex %llu does not exist: the graph has %llu vertices",
				(unsigned long long)vertex,
				(unsigned long long)graph->info.vertices);
	rc = fth_graph_spans(graph, &v, 1, &span);
	if (rc == 0)
		*out = span.count;
	return rc;
}

/* ---- where to begin ---- */

/* The first vertex with neighbours from `from` on, around the end. */
static int next_with_neighbours(struct fth_graph *graph, uint64_t from, uint32_t *out)
{
	uint64_t n = graph->info.vertices, degree;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t v = (from + i) % n;
		int rc = fth_graph_degree(graph, v, &degree);

		if (rc < 0)
			return rc;
		if (degree > 0) {
			*out = (uint32_t)v;
			return 0;
		}
	}
	return fth_fail(ENOENT, "no vertex of the graph has neighbours");
}

int fth_graph_pick(struct fth_graph *graph, uint64_t seed, uint32_t *out)
{
	struct fth_rng rng = {seed};
	uint64_t v = 0, degree;

	if (graph->info.edges == 0)
		return fth_fail(ENOENT, "no vertex of the graph has neighbours");
	for (int i = 0; i < PICK_TRIES; i++) {
		int rc;

		v = fth_rng_below(&rng, graph->info.vertices);
		rc = fth_graph_degree(graph, v, &degree);
		if (rc < 0)
			return rc;
		if (degree > 0)
			break;
	}
	return next_with_neighbours(graph, v, out);
}
