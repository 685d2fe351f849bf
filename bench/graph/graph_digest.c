/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_digest.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The depth of v: as many steps up as lead to a vertex whose depth is known. A second walk writes
 * down what the first has found. UINT32_MAX when there are more steps than vertices.
 */
static uint32_t depth_of(const uint32_t *parent, uint32_t *depth, uint64_t vertices, uint32_t v)
{
	uint64_t steps = 0;
	uint32_t at = v, found;

	while (depth[at] == UINT32_MAX && steps <= vertices) {
		if (parent[at] >= vertices)
			return UINT32_MAX;
		if (parent[at] == at)
			depth[at] = 0;
		else
			steps++;
		at = parent[at];
	}
	if (steps > vertices)
		return UINT32_MAX;
	found = depth[at] + (uint32_t)steps;
	for (uint32_t d = found; depth[v] == UINT32_MAX; v = parent[v])
		depth[v] = d--;
	return found;
}

int graph_digest_bfs(struct graph_digest *digest, uint64_t vertices,
		     const struct fth_graph_bfs *tree)
{
	uint32_t *depth = malloc(vertices * sizeof(*depth));

	if (!depth)
		return -ENOMEM;
	memset(depth, 0xff, vertices * sizeof(*depth));
	digest->reached += tree->reached;
	for (uint64_t v = 0; v < vertices; v++) {
		uint32_t d = UINT32_MAX;

		if (tree->parent[v] != FTH_GRAPH_NONE) {
			d = depth_of(tree->parent, depth, vertices, (uint32_t)v);
			digest->bad_parents += d == UINT32_MAX;
		}
		digest->depths += fth_mix64(v << 32 | d);
	}
	free(depth);
	return 0;
}

void graph_digest_ranks(struct graph_digest *digest, uint64_t vertices,
			const struct fth_graph_pagerank *ranks)
{
	digest->sum = digest->weighted = 0;
	for (uint64_t v = 0; v < vertices; v++) {
		digest->sum += ranks->rank[v];
		digest->weighted += ranks->rank[v] * (double)(fth_mix64(v) & 0xffff);
	}
	for (uint64_t i = 0; i < GRAPH_DIGEST_SAMPLES; i++)
		digest->sample[i] = ranks->rank[fth_mix64(i) % vertices];
}
