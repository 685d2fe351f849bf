/* SPDX-License-Identifier: BSD-2-Clause */
/* What the algorithms know about an open graph. */
#ifndef FTH_GRAPH_INTERNAL_H
#define FTH_GRAPH_INTERNAL_H

#include "graph/team.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>

struct fth_graph {
	struct fth_graph_info info;
	struct fth_cache *cache;
	struct fth_dev *dev;
	bool own_dev;	   /* to be closed with the graph */
	uint64_t *offsets; /* in memory; NULL if they are read through the cache */
	struct fth_array *offset_array;
	struct fth_array *edges;		    /* NULL if there are none */
	struct fth_array *weights;		    /* NULL if there are none */
	struct fth_array *label_index, *label_text; /* NULL if there are none */
	uint64_t *labels_at;			    /* the same in memory, if they were loaded */
	char *labels;
	/* The last sweep over the edges ended at the last: the next one begins there, since the cache
	   holds them. */
	uint32_t swept;
};

/* relaxed: a hint; algorithms that run at the same time may use the same one. */
static inline bool fth_graph_swept(const struct fth_graph *graph)
{
	return fth_load_relaxed_dev32(&graph->swept);
}

static inline void fth_graph_set_swept(struct fth_graph *graph, bool swept)
{
	fth_store_relaxed_dev32(&graph->swept, swept);
}

/* The neighbours of each of n vertices, as spans of the edges. */
int fth_graph_spans(struct fth_graph *graph, const uint32_t *vertices, size_t n,
		    struct fth_span *spans);

/* Offsets of vertices first to first + n, n + 1 numbers: where they are in memory, or in `room`. */
int fth_graph_offsets(struct fth_graph *graph, uint64_t first, uint64_t n, uint64_t *room,
		      const uint64_t **out);

/*
 * Memory for something about each vertex, to be freed with free(); NULL if there is none. Large
 * ones ask for huge pages: neighbours are anywhere, and would each miss the TLB as well.
 */
void *fth_graph_alloc(uint64_t count, size_t size);
/* The same, zeroed. */
void *fth_graph_alloc_zeroed(uint64_t count, size_t size);

/* Memory that the offsets take. */
static inline uint64_t fth_graph_offset_bytes(const struct fth_graph *graph)
{
	return graph->offsets ? (graph->info.vertices + 1) * 8 : 0;
}

/* Look at spans of the edges. A graph without edges has none to look at. */
static inline int fth_graph_walk(struct fth_graph *graph, const struct fth_span *spans, size_t n,
				 fth_array_piece_fn fn, void *context)
{
	return graph->edges ? fth_array_walk(graph->edges, spans, n, fn, context) : 0;
}

/* A neighbour that is no vertex: the medium holds what was never written there. */
static inline int fth_graph_bad_neighbour(uint32_t neighbour)
{
	return fth_fail(EBADMSG, "the graph is damaged: vertex %u does not exist", neighbour);
}

/* Put the defaults in. */
void fth_graph_pagerank_defaults(struct fth_graph_pagerank_options *options);

#define FTH_GRAPH_BATCH_MAX 16384u /* vertices whose neighbours are looked at together */
#define FTH_GRAPH_BATCH_MIN 64u

/* How many a worker takes at once: a multiple of 64, and few enough that all get some. */
static inline size_t fth_graph_batch(const struct fth_graph *graph, unsigned threads)
{
	uint64_t share = graph->info.vertices / (8 * (uint64_t)threads) / 64 * 64;

	if (share < FTH_GRAPH_BATCH_MIN)
		return FTH_GRAPH_BATCH_MIN;
	return share > FTH_GRAPH_BATCH_MAX ? FTH_GRAPH_BATCH_MAX : share;
}

#endif
