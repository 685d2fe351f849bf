/* SPDX-License-Identifier: BSD-2-Clause */
/* Small graphs on a device that can be told to fail, seen through a cache of a few lines. */
#ifndef FTH_GRAPH_FIXTURE_H
#define FTH_GRAPH_FIXTURE_H

#include "fth_test.h"

#include "fathom/graph.h"

enum graph_long { GRAPH_NOT_LONG, GRAPH_CHAIN, GRAPH_STAR };

struct graph_shape {
	const char *name;
	const char *edges;	  /* an edge list with weights; or */
	enum graph_long long_one; /* 1500 edges of this kind; or, generated: */
	struct fth_graph_generate generate;
	bool undirected;
	uint64_t vertices; /* of an edge list, at least */
};

/* Ended by one whose name is NULL. */
extern const struct graph_shape graph_shapes[];

struct graph_view {
	uint32_t line;
	uint32_t frames; /* how many lines fit into the cache */
	bool compact, offsets_on_device;
	unsigned threads;
	bool clock; /* instead of the default policy */
};

struct graph_fixture {
	struct fth_dev *dev; /* fault(mem:...) */
	struct fth_cache *cache;
	struct fth_graph *graph;
	struct fth_graph_memory memory; /* what is in it */
	struct fth_graph_job job;
};

void graph_fixture_build(struct graph_fixture *f, const struct graph_shape *shape);
/* Open it through a new cache. */
void graph_fixture_open(struct graph_fixture *f, const struct graph_view *view);
void graph_fixture_close(struct graph_fixture *f);
void graph_fixture_release(struct graph_fixture *f);

#endif
