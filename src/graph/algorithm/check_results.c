/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checking results: the plain algorithms, in memory and by one thread. They share nothing with the
 * ones they check. Shortest paths are in check_paths.c.
 */
#include "graph/graph_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the graph in memory ---- */

static int load_offsets(struct fth_graph *graph, struct fth_graph_memory *out)
{
	const uint64_t *offsets;
	int rc = fth_graph_offsets(graph, 0, out->vertices, out->offsets, &offsets);

	if (rc == 0 && offsets != out->offsets)
		memcpy(out->offsets, offsets, (out->vertices + 1) * sizeof(*offsets));
	return rc;
}

static int load_edges(struct fth_graph *graph, struct fth_graph_memory *out)
{
	int rc = 0;

	if (graph->edges)
		rc = fth_array_read(graph->edges, 0, out->edges, out->neighbours);
	if (rc == 0 && graph->weights)
		rc = fth_array_read(graph->weights, 0, out->edges, out->weights);
	for (uint64_t i = 0; rc == 0 && i < out->edges; i++)
		if (out->neighbours[i] >= out->vertices)
			rc = fth_graph_bad_neighbour(out->neighbours[i]);
	return rc;
}

int fth_graph_load(struct fth_graph *graph, struct fth_graph_memory *out)
{
	const struct fth_graph_info *info = &graph->info;
	int rc;

	*out = (struct fth_graph_memory){
		.vertices = info->vertices,
		.edges = info->edges,
		.undirected = info->undirected,
	};
	out->offsets = malloc((info->vertices + 1) * sizeof(*out->offsets));
	out->neighbours = malloc((info->edges + 1) * sizeof(*out->neighbours));
	if (info->weighted)
		out->weights = malloc((info->edges + 1) * sizeof(*out->weights));
	rc = out->offsets && out->neighbours && (!info->weighted || out->weights) ? 0 : -ENOMEM;
	if (rc == 0)
		rc = load_offsets(graph, out);
	if (rc == 0)
		rc = load_edges(graph, out);
	if (rc < 0)
		fth_graph_unload(out);
	return rc;
}

void fth_graph_unload(struct fth_graph_memory *memory)
{
	free(memory->offsets);
	free(memory->neighbours);
	free(memory->weights);
	*memory = (struct fth_graph_memory){0};
}

/* ---- breadth-first search ---- */

/* Depth of each vertex, FTH_GRAPH_NONE where there is no way. */
static uint32_t *reference_depths(const struct fth_graph_memory *m, uint64_t source)
{
	uint32_t *depth = malloc(m->vertices * sizeof(*depth));
	uint32_t *queue = malloc(m->vertices * sizeof(*queue));
	uint64_t head = 0, tail = 1;

	if (depth && queue) {
		memset(depth, 0xff, m->vertices * sizeof(*depth));
		depth[source] = 0;
		queue[0] = (uint32_t)source;
	}
	for (; depth && queue && head < tail; head++) {
		uint32_t v = queue[head];

		for (uint64_t i = m->offsets[v]; i < m->offsets[v + 1]; i++) {
			uint32_t w = m->neighbours[i];

			if (depth[w] == FTH_GRAPH_NONE) {
				depth[w] = depth[v] + 1;
				queue[tail++] = w;
			}
		}
	}
	if (!queue) {
		free(depth);
		depth = NULL;
	}
	free(queue);
	return depth;
}

/* Is there an edge? Neighbours are sorted. */
static bool has_edge(const struct fth_graph_memory *m, uint32_t from, uint32_t to)
{
	uint64_t low = m->offsets[from], high = m->offsets[from + 1];

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (m->neighbours[middle] < to)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->offsets[from + 1] && m->neighbours[low] == to;
}

static int check_parent(const struct fth_graph_memory *m, uint64_t source, const uint32_t *depth,
			const struct fth_graph_bfs *tree, uint32_t v)
{
	uint32_t parent = tree->parent[v];

	if ((parent == FTH_GRAPH_NONE) != (depth[v] == FTH_GRAPH_NONE))
		return fth_fail(EILSEQ, "vertex %u is %s", v,
				parent == FTH_GRAPH_NONE ? "reachable but has no parent"
							 : "unreachable but has a parent");
	if (parent == FTH_GRAPH_NONE)
		return 0;
	if (parent >= m->vertices)
		return fth_fail(EILSEQ, "the parent of vertex %u is out of range", v);
	if (v == source)
		return parent == v ? 0
				   : fth_fail(EILSEQ,
					      "the parent of the source is %u instead of itself",
					      parent);
	if (!has_edge(m, parent, v))
		return fth_fail(EILSEQ, "the parent of vertex %u is %u, which is not a neighbour",
				v, parent);
	if (depth[parent] + 1 != depth[v])
		return fth_fail(EILSEQ, "vertex %u is at depth %u, its parent at %u", v, depth[v],
				depth[parent]);
	return 0;
}

int fth_graph_check_bfs(const struct fth_graph_memory *memory, uint64_t source,
			const struct fth_graph_bfs *tree)
{
	uint32_t *depth = reference_depths(memory, source);
	uint64_t reached = 0, deepest = 0;
	int rc = depth ? 0 : -ENOMEM;

	for (uint64_t v = 0; v < memory->vertices && rc == 0; v++) {
		rc = check_parent(memory, source, depth, tree, (uint32_t)v);
		if (depth[v] == FTH_GRAPH_NONE)
			continue;
		reached++;
		deepest = depth[v] > deepest ? depth[v] : deepest;
	}
	free(depth);
	if (rc == 0 && (reached != tree->reached || deepest != tree->depth))
		rc = fth_fail(EILSEQ, "%llu vertices to depth %llu are said to be reached",
			      (unsigned long long)tree->reached, (unsigned long long)tree->depth);
	return rc;
}

/* ---- components: union-find ---- */

static uint32_t find(uint32_t *above, uint32_t v)
{
	while (above[v] != v) {
		above[v] = above[above[v]];
		v = above[v];
	}
	return v;
}

static uint32_t *reference_labels(const struct fth_graph_memory *m)
{
	uint32_t *above = malloc(m->vertices * sizeof(*above));

	for (uint64_t v = 0; above && v < m->vertices; v++)
		above[v] = (uint32_t)v;
	for (uint64_t v = 0; above && v < m->vertices; v++)
		for (uint64_t i = m->offsets[v]; i < m->offsets[v + 1]; i++) {
			uint32_t a = find(above, (uint32_t)v), b = find(above, m->neighbours[i]);

			above[a > b ? a : b] = a > b ? b : a;
		}
	return above;
}

int fth_graph_check_cc(const struct fth_graph_memory *memory, const struct fth_graph_cc *cc)
{
	uint32_t *above = reference_labels(memory);
	uint64_t components = 0;
	int rc = above ? 0 : -ENOMEM;

	for (uint64_t v = 0; v < memory->vertices && rc == 0; v++) {
		uint32_t root = find(above, (uint32_t)v);

		components += root == v;
		if (cc->label[v] != root)
			rc = fth_fail(EILSEQ, "vertex %llu has label %u, expected %u",
				      (unsigned long long)v, cc->label[v], root);
	}
	free(above);
	if (rc == 0 && components != cc->components)
		rc = fth_fail(EILSEQ, "%llu components are said to be %llu",
			      (unsigned long long)components, (unsigned long long)cc->components);
	return rc;
}

/* ---- PageRank ---- */

#define RANK_TOLERANCE 1e-6 /* relative: shares are added up as single precision numbers */

static void push_ranks(const struct fth_graph_memory *m, const double *from, double *to,
		       double damping)
{
	double lost = 0, base;

	memset(to, 0, m->vertices * sizeof(*to));
	for (uint64_t v = 0; v < m->vertices; v++) {
		uint64_t degree = m->offsets[v + 1] - m->offsets[v];

		if (degree == 0)
			lost += from[v];
		for (uint64_t i = m->offsets[v]; i < m->offsets[v + 1]; i++)
			to[m->neighbours[i]] += from[v] / (double)degree;
	}
	base = (1 - damping + damping * lost) / (double)m->vertices;
	for (uint64_t v = 0; v < m->vertices; v++)
		to[v] = base + damping * to[v];
}

static int compare_ranks(const struct fth_graph_memory *m, const double *wanted, const double *rank)
{
	double sum = 0;

	for (uint64_t v = 0; v < m->vertices; v++) {
		sum += rank[v];
		if (!(fabs(rank[v] - wanted[v]) <= RANK_TOLERANCE * wanted[v]))
			return fth_fail(EILSEQ, "vertex %llu has rank %g, expected %g",
					(unsigned long long)v, rank[v], wanted[v]);
	}
	if (!(fabs(sum - 1) <= RANK_TOLERANCE))
		return fth_fail(EILSEQ, "the ranks sum to %.9g, expected 1", sum);
	return 0;
}

int fth_graph_check_pagerank(const struct fth_graph_memory *memory,
			     const struct fth_graph_pagerank_options *options,
			     const struct fth_graph_pagerank *ranks)
{
	struct fth_graph_pagerank_options defaults = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	double *rank = malloc(memory->vertices * sizeof(*rank));
	double *next = malloc(memory->vertices * sizeof(*next));
	int rc = rank && next ? 0 : -ENOMEM;

	if (options)
		defaults = *options;
	fth_graph_pagerank_defaults(&defaults);
	for (uint64_t v = 0; v < memory->vertices && rc == 0; v++)
		rank[v] = 1 / (double)memory->vertices;
	for (uint64_t i = 0; i < ranks->work.rounds && rc == 0; i++) {
		double *swap = rank;

		push_ranks(memory, rank, next, defaults.damping);
		rank = next;
		next = swap;
	}
	if (rc == 0)
		rc = compare_ranks(memory, rank, ranks->rank);
	free(rank);
	free(next);
	return rc;
}
