/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs worked on by a GPU, with more edges than its memory holds: breadth-first search, connected
 * components, PageRank and shortest paths. What is known about vertices is in GPU memory; edges are
 * read by the kernels themselves, through a cache (fathom/gpu/cache.h), or straight from memory
 * that kernels can reach: pinned memory of the host (zero copy), or the GPU's own.
 *
 *	struct fth_gpu_graph *graph;
 *	struct fth_gpu_graph_source edges;
 *	struct fth_gpu_graph_bfs tree;
 *
 *	fth_gpu_graph_open_dev(dev, &graph);	(made by `fathom graph import`)
 *	... the drive that the graph is on and a cache, see fathom/gpu/cache.h ...
 *	fth_gpu_graph_in_cache(graph, cache, &edges);
 *	fth_gpu_graph_bfs(graph, &edges, source, NULL, &tree);
 *	fth_gpu_graph_copy(graph, level, tree.level, vertices * sizeof(*level));
 *
 * As EMOGI does (Min et al., VLDB 2020), a warp reads the neighbours of a vertex together, from a
 * multiple of 128 bytes on. Beyond that, the edges are cut into pieces of 4096 bytes, in the order
 * of the medium, and a warp takes a few pieces after the other, so that long lists are shared by
 * many warps and lines are read in order. Pieces in which no vertex has work are not read.
 *
 * A line has several lists: where one is read, a search that only pushes also uses those of
 * vertices whose level it knows by then, so that most lines are read once
 * (src/graph/gpu/gpu_steps.h).
 *
 * Lines of 512 bytes suit shortest paths and a search in either direction, which want a few lists
 * here and there: the wanted ones of a piece are brought in together. Lines of 1024 or 2048 bytes
 * suit a search that only pushes, lines of 4096 what sweeps over all.
 *
 * In libfathom_cuda. A graph belongs to one host thread at a time and to the CUDA device that
 * was current when it was opened. Open it before its drive is opened, or while that is stopped, and
 * close it likewise: GPU memory is allocated. Functions return 0 or a negative errno and leave a
 * text: of a failed read, which line and which status. Results are in GPU memory, and good until
 * the next call for the same graph.
 */
#ifndef FATHOM_GRAPH_GPU_H
#define FATHOM_GRAPH_GPU_H

#include "fathom/graph.h"
#include "fathom/base/decls.h"
#include "fathom/gpu/cache.h"

FTH_BEGIN_DECLS

#define FTH_GPU_GRAPH_PIECE 1024u /* edges */

struct fth_gpu_graph;

struct fth_gpu_graph_shape {
	uint64_t vertices, edges;
	bool undirected; /* each edge is in the lists of both its ends */
	bool weighted;
	const uint64_t *offsets; /* vertices + 1, in memory of the host or the GPU; copied */
	/* Bytes into the drive where edges and weights begin, for fth_gpu_graph_in_cache(). */
	uint64_t edges_at, weights_at;
};

/* Open a graph by its shape. Blocks. Returns 0, -EBADMSG for inconsistent offsets, or -ENOMEM. */
int fth_gpu_graph_open(const struct fth_gpu_graph_shape *shape, struct fth_gpu_graph **out);

/* A graph in the format of fathom/graph.h: header and offsets are read here. */
int fth_gpu_graph_open_dev(struct fth_dev *dev, struct fth_gpu_graph **out);

/* Close a graph and free its GPU memory. Accepts NULL. */
void fth_gpu_graph_close(struct fth_gpu_graph *graph);

/* Bytes of GPU memory that a graph takes. */
uint64_t fth_gpu_graph_bytes(const struct fth_gpu_graph *graph);

/* Where edges come from. */
struct fth_gpu_graph_source {
	struct fth_gpu_cache *cache;		  /* NULL: plain memory */
	uint32_t frames;			  /* of the cache */
	struct fth_gpu_array_base edges, weights; /* of uint32_t */
	/* As kernels see them, at addresses that are multiples of 128. */
	const uint32_t *plain_edges, *plain_weights;
};

/* By way of a cache, whose drive holds the bytes of the graph's device, from its first byte on. */
int fth_gpu_graph_in_cache(const struct fth_gpu_graph *graph, struct fth_gpu_cache *cache,
			   struct fth_gpu_graph_source *out);

/* In memory that kernels can read, which stays the caller's. weights may be NULL. */
struct fth_gpu_graph_source fth_gpu_graph_in_memory(const uint32_t *edges, const uint32_t *weights);

/* What a run did, beside its result. */
struct fth_gpu_graph_work {
	uint64_t elapsed_ns;
	uint64_t rounds; /* levels, iterations, sweeps */
};

/* Start from FTH_GPU_GRAPH_BFS_OPTIONS_INIT. */
struct fth_gpu_graph_bfs_options {
	size_t size; /* of this struct */
	/*
	 * Search top-down (push) only, as EMOGI and BaM do. By default levels of an undirected
	 * graph are searched bottom-up (pull) where that is less work (S. Beamer et al., SC 2012).
	 */
	bool push_only;
};
#define FTH_GPU_GRAPH_BFS_OPTIONS_INIT                          \
	{                                                       \
		sizeof(struct fth_gpu_graph_bfs_options), false \
	}

struct fth_gpu_graph_bfs {
	const uint32_t *level; /* per vertex; UINT32_MAX: not reached */
	uint64_t reached;      /* vertices, the source included */
	uint64_t depth;	       /* the greatest level */
	uint64_t pulled;       /* levels that were searched bottom-up */
	struct fth_gpu_graph_work work;
};
/* Search from vertex `source`. options may be NULL. -ERANGE if there is no such vertex. */
int fth_gpu_graph_bfs(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		      uint64_t source, const struct fth_gpu_graph_bfs_options *options,
		      struct fth_gpu_graph_bfs *out);

/* Connected components; of a directed graph the weakly connected ones. */
struct fth_gpu_graph_cc {
	const uint32_t *label; /* per vertex: the smallest vertex of its component */
	uint64_t components;
	struct fth_gpu_graph_work work;
};
int fth_gpu_graph_cc(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		     struct fth_gpu_graph_cc *out);

/* As fth_graph_pagerank(); sweeps alternate in direction unless options->one_way. */
struct fth_gpu_graph_pagerank {
	const double *rank;
	double change; /* of the last iteration, in sum */
	struct fth_gpu_graph_work work;
};
int fth_gpu_graph_pagerank(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
			   const struct fth_graph_pagerank_options *options,
			   struct fth_gpu_graph_pagerank *out);

/* Shortest paths by weight. -EINVAL for a graph without weights. */
struct fth_gpu_graph_sssp {
	const uint64_t *distance; /* FTH_GRAPH_FAR: not reached */
	struct fth_gpu_graph_work work;
};
int fth_gpu_graph_sssp(struct fth_gpu_graph *graph, const struct fth_gpu_graph_source *edges,
		       uint64_t source, struct fth_gpu_graph_sssp *out);

/* Copy a result to memory of the host; possible while a drive runs. */
int fth_gpu_graph_copy(struct fth_gpu_graph *graph, void *to, const void *from, size_t bytes);

enum fth_gpu_graph_kernel {
	FTH_GPU_GRAPH_BFS_PUSH,
	FTH_GPU_GRAPH_BFS_PULL,
	FTH_GPU_GRAPH_CC,
	FTH_GPU_GRAPH_PAGERANK,
	FTH_GPU_GRAPH_SSSP,
	FTH_GPU_GRAPH_KERNELS
};

/* Registers per thread of a kernel that reads through a cache; 0 if unknown. */
int fth_gpu_graph_registers(enum fth_gpu_graph_kernel kernel);

FTH_END_DECLS
#endif
