/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Small graphs, and what the algorithms on the CPU say about them: for tests of those on the GPU.
 */
#ifndef FTH_GRAPH_GPU_FIXTURE_H
#define FTH_GRAPH_GPU_FIXTURE_H

#include "fathom/graph.h"
#include "must_fixture.h"

#include <math.h>
#include <string.h>

/* A graph, in memory too, and the results. */
struct graph_bed {
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_graph *graph;
	struct fth_graph_memory memory;
	uint32_t source;
	uint32_t *level;
	struct fth_graph_cc cc;
	struct fth_graph_pagerank_options rank_options;
	struct fth_graph_pagerank ranks;
	struct fth_graph_sssp paths;
};

static inline int graph_bed_target(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct graph_bed *bed = (struct graph_bed *)context;
	char uri[64];
	int rc;

	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)bytes);
	rc = fth_dev_open(uri, &bed->dev);
	*out = bed->dev;
	return rc;
}

static inline void graph_bed_levels(struct graph_bed *bed)
{
	uint64_t n = bed->memory.vertices;
	struct fth_graph_bfs tree;
	uint64_t left;

	OK(fth_graph_bfs(bed->graph, bed->source, NULL, &tree));
	bed->level = (uint32_t *)malloc(n * sizeof(uint32_t));
	memset(bed->level, 0xff, n * sizeof(uint32_t));
	bed->level[bed->source] = 0;
	/* A vertex is one level below its parent; as often as the tree is deep. */
	do {
		left = 0;
		for (uint64_t v = 0; v < n; v++) {
			uint32_t up = tree.parent[v];

			if (up == FTH_GRAPH_NONE || bed->level[v] != UINT32_MAX)
				continue;
			if (bed->level[up] == UINT32_MAX)
				left++;
			else
				bed->level[v] = bed->level[up] + 1;
		}
	} while (left);
	fth_graph_bfs_release(&tree);
}

/* Weighted; text: an edge list in place of a generated one. */
static inline struct graph_bed graph_bed_open(const struct fth_graph_generate *what,
					      const char *text, bool undirected)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_graph_build build = {};
	struct fth_graph_import import = {};
	struct graph_bed bed = {};

	build.memory = 1 << 20;
	build.open = graph_bed_target;
	build.context = &bed;
	if (text) {
		import.in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
		import.undirected = undirected;
		import.weighted = true;
		OK(fth_graph_import(&import, &build, NULL, NULL));
		fclose(import.in);
	} else {
		OK(fth_graph_generate(what, &build, NULL, NULL));
	}
	options.memory = 4 << 20;
	OK(fth_cache_open(&options, &bed.cache));
	OK(fth_graph_open_dev(bed.cache, bed.dev, NULL, &bed.graph));
	OK(fth_graph_load(bed.graph, &bed.memory));
	OK(fth_graph_pick(bed.graph, 1, &bed.source));
	graph_bed_levels(&bed);
	bed.rank_options.size = sizeof(bed.rank_options);
	bed.rank_options.iterations = 5;
	OK(fth_graph_cc(bed.graph, NULL, &bed.cc));
	OK(fth_graph_pagerank(bed.graph, &bed.rank_options, NULL, &bed.ranks));
	OK(fth_graph_sssp(bed.graph, bed.source, 0, NULL, &bed.paths));
	return bed;
}

static inline void graph_bed_close(struct graph_bed *bed)
{
	free(bed->level);
	fth_graph_cc_release(&bed->cc);
	fth_graph_pagerank_release(&bed->ranks);
	fth_graph_sssp_release(&bed->paths);
	fth_graph_unload(&bed->memory);
	OK(fth_graph_close(bed->graph));
	OK(fth_cache_close(bed->cache));
	fth_dev_close(bed->dev);
}

/* ---- are these the same? How many are not ---- */

static inline uint64_t graph_bed_differ(const void *a, const void *b, size_t each, uint64_t n)
{
	uint64_t differ = 0;

	for (uint64_t v = 0; v < n; v++)
		differ += memcmp((const char *)a + v * each, (const char *)b + v * each, each) != 0;
	return differ;
}

static inline uint64_t graph_bed_ranks_differ(const struct graph_bed *bed, const double *rank)
{
	uint64_t differ = 0;

	for (uint64_t v = 0; v < bed->memory.vertices; v++)
		differ += !(fabs(rank[v] - bed->ranks.rank[v]) <= 1e-6 * bed->ranks.rank[v]);
	return differ;
}

#endif
