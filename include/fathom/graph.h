/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs larger than memory: built with an external sort, kept on a device as compressed sparse
 * rows, and worked on through a cache.
 *
 *	struct fth_graph *graph;
 *	struct fth_graph_job job = {.threads = 2};
 *	struct fth_graph_bfs tree = {0};
 *
 *	fth_graph_open(cache, "file:/data/g", NULL, &graph);
 *	fth_graph_bfs(graph, source, &job, &tree);
 *	... tree.parent[v], FTH_GRAPH_NONE where v cannot be reached ...
 *	fth_graph_bfs_release(&tree);
 *	fth_graph_close(graph);
 *
 * The device holds the neighbours (4 bytes each), the weights (4 bytes each, optional) and the
 * offset of each vertex's neighbours (8 bytes per vertex); src/graph/README.md has the layout. The
 * state that an algorithm keeps for each vertex is in memory. Neighbours are read in the order of
 * the device, with many requests in flight.
 *
 * An open graph may be used by several threads at once; each call also uses threads of its own.
 * Calls block until done, return 0 or a negative errno, and leave no result behind after an error.
 * For a damaged graph they return -EBADMSG; they never crash.
 */
#ifndef FATHOM_GRAPH_H
#define FATHOM_GRAPH_H

#include "fathom/array.h"
#include "fathom/base/decls.h"

#include <stdio.h>

FTH_BEGIN_DECLS

#define FTH_GRAPH_NONE	       UINT32_MAX /* no vertex */
#define FTH_GRAPH_VERTICES_MAX ((uint64_t)UINT32_MAX)
#define FTH_GRAPH_NAME_MAX     96
#define FTH_GRAPH_LABEL_MAX    1000	  /* bytes of the name of a vertex */
#define FTH_GRAPH_FAR	       UINT64_MAX /* the distance of an unreachable vertex */

/* ---- how work is done ---- */

/*
 * A progress callback, called from time to time in the calling thread: the name of the phase, and
 * the work done of its total. A negative result ends the call, which returns it.
 */
typedef int (*fth_graph_progress_fn)(void *context, const char *what, uint64_t done,
				     uint64_t total);

/* Zero-initialise for the defaults. NULL is the same. */
struct fth_graph_job {
	unsigned threads;		/* 0: one per CPU; at most FTH_GRAPH_THREADS_MAX */
	fth_graph_progress_fn progress; /* may be NULL */
	void *context;
};

#define FTH_GRAPH_THREADS_MAX 256u

/* Statistics of a run. */
struct fth_graph_work {
	uint64_t elapsed_ns;
	uint64_t edges;	      /* examined */
	uint64_t rounds;      /* levels, iterations, sweeps */
	uint64_t state_bytes; /* memory for what is known about vertices, offsets included */
};

/* ---- the graph on a device ---- */

struct fth_graph_info {
	uint64_t vertices;
	uint64_t edges;	 /* an undirected one counts twice */
	bool undirected; /* each edge is there in both directions */
	bool weighted;
	uint64_t offsets_at, edges_at, weights_at; /* bytes from the start of the device */
	uint64_t bytes;				   /* of the device, all in all */
	uint64_t data_sum;			   /* of the sections */
	char made_by[FTH_GRAPH_NAME_MAX];
	bool labels;	     /* vertices have names; fth_graph_label() */
	bool labels_numeric; /* all of them are decimal numbers below 2^63 */
	uint32_t label_max;  /* bytes of the longest */
	uint64_t label_bytes, label_index_at, label_text_at;
};

/* Read and check the header of a device. -EBADMSG with a text when it holds no good graph. */
int fth_graph_read_info(struct fth_dev *dev, struct fth_graph_info *out);

/* Read the whole graph and verify its checksum. Blocks. -EBADMSG if it is damaged. */
int fth_graph_check_data(struct fth_dev *dev, const struct fth_graph_job *job);

/* ---- building ---- */

enum fth_graph_kind { FTH_GRAPH_KRONECKER, FTH_GRAPH_UNIFORM };

/*
 * The generators of the GAP benchmark suite: 2^scale vertices, degree * 2^scale edges, drawn by
 * R-MAT with A = 0.57, B = C = 0.19 and the vertices renamed at random, or uniformly. As there,
 * each edge goes in both directions, and loops and duplicates are dropped. The graph depends on
 * these fields alone.
 */
struct fth_graph_generate {
	enum fth_graph_kind kind;
	unsigned scale;	 /* 0 to 31 */
	unsigned degree; /* 0: 16 */
	uint64_t seed;
	bool weighted; /* 1 to 255, by seed; the same in both directions */
};

enum fth_graph_text { FTH_GRAPH_EDGE_LIST, FTH_GRAPH_MATRIX_MARKET };

/* The counts of an import. All but `duplicates` are known when fth_graph_build.open() is called. */
struct fth_graph_counts {
	uint64_t edges;	     /* in the text */
	uint64_t vertices;   /* of the graph */
	uint64_t loops;	     /* edges from a vertex to itself; dropped */
	uint64_t duplicates; /* edges that were there already; dropped */
	uint64_t header;     /* the line that was taken for one and skipped; 0: none */
};

/* Whether the first line of an edge list names columns. */
enum fth_graph_first_line {
	/*
	 * If it has words that begin with letters where all other lines have numbers; or, with
	 * `relabel`, if both names are usual for columns, such as source and target, or the weight
	 * is no number. fth_graph_counts.header tells.
	 */
	FTH_GRAPH_HEADER_DETECT,
	FTH_GRAPH_HEADER_SKIP, /* it does, whatever it is */
	FTH_GRAPH_HEADER_NONE, /* it is an edge */
};

/*
 * An edge list: "FROM TO [WEIGHT]" a line, '#' or '%' begins a comment. Or the coordinate format of
 * Matrix Market: pattern, integer or real, general or symmetric. Loops are dropped; of duplicates
 * the lightest stays. A line has at most 65536 bytes.
 *
 * Vertices are numbers, and a graph has all vertices from 0 to the largest. With `relabel` they are
 * any names, of up to FTH_GRAPH_LABEL_MAX bytes: the graph has those that the list
 * names, numbered in ascending order, and keeps the names as labels. Numbers come first, by value;
 * then other names, byte by byte. That takes disk space for temporary files, not memory.
 *
 * Fields may be quoted as in CSV: one that begins with " extends to the next single ", and ""
 * stands for a quote. A name with blanks needs quotes, or a delimiter: with one, only that
 * separates names.
 */
struct fth_graph_import {
	enum fth_graph_text format;
	FILE *in;	      /* read to its end; stays open */
	bool one_based;	      /* edge lists: the first vertex is 1 */
	bool undirected;      /* add the opposite of each edge */
	bool weighted;	      /* keep weights; a line without one is an error */
	double scale_weights; /* multiply by this and round; 0: 1, and weights must be integers */
	uint64_t vertices;    /* edge lists: minimum number of vertices; 0: as many as occur */
	bool relabel;	      /* edge lists: vertices are names; excludes one_based and vertices */
	struct fth_graph_counts *counts; /* may be NULL */
	char delimiter; /* edge lists: separates fields, for CSV a comma; 0: blanks do */
	enum fth_graph_first_line header; /* edge lists */
	bool reversed; /* store each edge in the opposite direction: the transpose */
};

/* Zero-initialise for the defaults. */
struct fth_graph_build {
	uint64_t memory;       /* for sorting; default 256 MiB, at least 1 MiB */
	const char *directory; /* for temporary files; default TMPDIR or /tmp */
	/*
	 * Open what the graph goes to, of at least `bytes` bytes. Called once, when it is known how
	 * large it can become; fth_graph_info.bytes says how large it became.
	 */
	int (*open)(void *context, uint64_t bytes, struct fth_dev **out);
	void *context;
};

/*
 * Build a graph on the device that build->open() returns, which the caller owns. The header is
 * written last and flushed: an interrupted build leaves no graph. Temporary files have no names, so
 * none is left behind. out may be NULL.
 */
int fth_graph_generate(const struct fth_graph_generate *what, const struct fth_graph_build *build,
		       const struct fth_graph_job *job, struct fth_graph_info *out);
int fth_graph_import(const struct fth_graph_import *what, const struct fth_graph_build *build,
		     const struct fth_graph_job *job, struct fth_graph_info *out);

/* ---- opening ---- */

struct fth_graph;

/* Start from FTH_GRAPH_OPTIONS_INIT. */
struct fth_graph_options {
	size_t size;		/* of this struct */
	bool offsets_on_device; /* read them through the cache: 8 bytes per vertex less memory */
};

#define FTH_GRAPH_OPTIONS_INIT                          \
	{                                               \
		sizeof(struct fth_graph_options), false \
	}

/*
 * Open read-only through a cache, by the URI of a device. options may be NULL. Searches,
 * components and PageRank sweep over the edges alternately forward and backward, so that
 * FTH_CACHE_CLOCK is the policy that reads least; for shortest paths it is FTH_CACHE_DEFAULT.
 */
int fth_graph_open(struct fth_cache *cache, const char *uri,
		   const struct fth_graph_options *options, struct fth_graph **out);
/* The same on a device that is open already, and stays open after the graph is closed. */
int fth_graph_open_dev(struct fth_cache *cache, struct fth_dev *dev,
		       const struct fth_graph_options *options, struct fth_graph **out);
/*
 * Close a graph. -EBUSY if lines of it are pinned, -ETIMEDOUT if the device does not end its
 * requests: then the graph can only be closed again. Accepts NULL.
 */
int fth_graph_close(struct fth_graph *graph);

/* The properties of an open graph. Any thread. */
const struct fth_graph_info *fth_graph_info(const struct fth_graph *graph);

/*
 * The name of a vertex as in the imported text, zero-terminated; in a graph without
 * labels, its number. Reads through the cache. Returns the length; -ERANGE if there is no such
 * vertex, -ENAMETOOLONG if `size` is too small: FTH_GRAPH_LABEL_MAX + 1 always is enough.
 */
int fth_graph_label(struct fth_graph *graph, uint64_t vertex, char *text, size_t size);
/*
 * Load all labels into memory, 8 bytes and the text for each vertex, so that
 * fth_graph_label() is fast in any order. Call it before other threads use labels. Returns 0, also
 * for a graph without labels; -ENOMEM leaves the graph unchanged.
 */
int fth_graph_load_labels(struct fth_graph *graph);
/* Find the vertex with a label. Blocks for a few reads of the device. Returns 0 or -ENOENT. */
int fth_graph_find(struct fth_graph *graph, const char *label, uint64_t *out);

/* The number of neighbours of a vertex. Returns 0, or -ERANGE if the vertex does not exist. */
int fth_graph_degree(struct fth_graph *graph, uint64_t vertex, uint64_t *out);

/*
 * Pick a pseudorandom vertex with neighbours, a source for a search. Returns 0, or -ENOENT if no
 * vertex has neighbours.
 */
int fth_graph_pick(struct fth_graph *graph, uint64_t seed, uint32_t *out);

/* ---- algorithms. Zero-initialise the result; after an error it need not be released ---- */

/* Breadth-first search: a tree of shortest paths, in edges, from source. */
struct fth_graph_bfs {
	uint32_t *parent;   /* per vertex; the source is its own; FTH_GRAPH_NONE: not reached */
	uint64_t reached;   /* vertices, the source included */
	uint64_t depth;	    /* of the tree */
	uint64_t bottom_up; /* levels that were searched bottom-up */
	struct fth_graph_work work;
};

/*
 * How a level is searched. Top-down: its vertices look at their neighbours. Bottom-up: vertices
 * that were not reached look for a neighbour in the level, and stop at the first; this needs the
 * incoming edges. FTH_GRAPH_ANY_DIRECTION chooses for each level by the expected numbers of edges
 * and bytes (Beamer, Asanovic, Patterson, Direction-Optimizing Breadth-First Search, SC 2012).
 */
enum fth_graph_direction { FTH_GRAPH_ANY_DIRECTION, FTH_GRAPH_TOP_DOWN, FTH_GRAPH_BOTTOM_UP };

/* Start from FTH_GRAPH_BFS_OPTIONS_INIT. */
struct fth_graph_bfs_options {
	size_t size; /* of this struct */
	enum fth_graph_direction direction;
	/*
	 * The same graph with all edges reversed, in the same cache or another one; the caller
	 * keeps it open during the call. NULL: levels of a directed graph are searched top-down.
	 * Ignored for an undirected graph.
	 */
	struct fth_graph *transpose;
};
#define FTH_GRAPH_BFS_OPTIONS_INIT                                                  \
	{                                                                           \
		sizeof(struct fth_graph_bfs_options), FTH_GRAPH_ANY_DIRECTION, NULL \
	}

/*
 * Search from `source`. options may be NULL. -ERANGE if there is no such vertex; -EINVAL if the
 * transpose has another number of vertices or edges or another edge (a few are tried), or if a
 * bottom-up search has none. Memory beside the offsets: 4.4 bytes a vertex, and up to 4 bytes a
 * vertex for edges that bottom-up levels keep.
 */
int fth_graph_bfs_with(struct fth_graph *graph, uint64_t source,
		       const struct fth_graph_bfs_options *options, const struct fth_graph_job *job,
		       struct fth_graph_bfs *out);
/* The same with the default options. */
int fth_graph_bfs(struct fth_graph *graph, uint64_t source, const struct fth_graph_job *job,
		  struct fth_graph_bfs *out);
void fth_graph_bfs_release(struct fth_graph_bfs *tree);

/* Connected components; of a directed graph the weakly connected ones. */
struct fth_graph_cc {
	uint32_t *label; /* per vertex: the smallest vertex of its component */
	uint64_t components;
	uint64_t largest; /* vertices of the largest */
	struct fth_graph_work work;
};
int fth_graph_cc(struct fth_graph *graph, const struct fth_graph_job *job,
		 struct fth_graph_cc *out);
void fth_graph_cc_release(struct fth_graph_cc *cc);

/*
 * PageRank. The rank of vertices without neighbours is spread over all vertices, so that ranks sum
 * to 1.
 */
struct fth_graph_pagerank_options {
	size_t size;	     /* of this struct; start from FTH_GRAPH_PAGERANK_OPTIONS_INIT */
	unsigned iterations; /* at most; 0: 20 */
	double tolerance;    /* stop when the ranks change by less in sum; 0: never */
	double damping;	     /* 0: 0.85 */
	bool one_way;	     /* sweep forward only; default: alternately forward and backward */
};
#define FTH_GRAPH_PAGERANK_OPTIONS_INIT                                   \
	{                                                                 \
		sizeof(struct fth_graph_pagerank_options), 0, 0, 0, false \
	}
struct fth_graph_pagerank {
	double *rank;
	double change; /* of the last iteration, in sum */
	struct fth_graph_work work;
};
int fth_graph_pagerank(struct fth_graph *graph, const struct fth_graph_pagerank_options *options,
		       const struct fth_graph_job *job, struct fth_graph_pagerank *out);
void fth_graph_pagerank_release(struct fth_graph_pagerank *ranks);

/* Shortest paths by weight. -EINVAL for a graph without weights. */
struct fth_graph_sssp {
	uint64_t *distance; /* FTH_GRAPH_FAR: not reached */
	uint64_t reached;
	struct fth_graph_work work;
};
/*
 * delta: the bucket width of delta-stepping; 0: chosen by the weights. -ERANGE for an unknown
 * source.
 */
int fth_graph_sssp(struct fth_graph *graph, uint64_t source, uint64_t delta,
		   const struct fth_graph_job *job, struct fth_graph_sssp *out);
void fth_graph_sssp_release(struct fth_graph_sssp *paths);

/* ---- checking results with simple in-memory algorithms ---- */

/* The whole graph in memory. */
struct fth_graph_memory {
	uint64_t vertices, edges;
	bool undirected;
	uint64_t *offsets;
	uint32_t *neighbours;
	uint32_t *weights; /* NULL if it has none */
};
/* Read the whole graph into memory. Blocks. Returns 0, -ENOMEM or the error of the device. */
int fth_graph_load(struct fth_graph *graph, struct fth_graph_memory *out);
/* Free it. Accepts a zeroed object. */
void fth_graph_unload(struct fth_graph_memory *memory);

/*
 * Verify a result. Return 0, -EILSEQ with an error text that names the first difference, or
 * -ENOMEM.
 */
int fth_graph_check_bfs(const struct fth_graph_memory *memory, uint64_t source,
			const struct fth_graph_bfs *tree);
int fth_graph_check_cc(const struct fth_graph_memory *memory, const struct fth_graph_cc *cc);
int fth_graph_check_pagerank(const struct fth_graph_memory *memory,
			     const struct fth_graph_pagerank_options *options,
			     const struct fth_graph_pagerank *ranks);
int fth_graph_check_sssp(const struct fth_graph_memory *memory, uint64_t source,
			 const struct fth_graph_sssp *paths);

FTH_END_DECLS
#endif
