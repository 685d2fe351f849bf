/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of breadth-first search share.
 *
 * A level is searched in one of two directions. Top-down, the vertices of the level look at their
 * neighbours and reach those that were not visited. Bottom-up, the vertices that were not visited
 * look for a neighbour in the level, and stop at the first.
 *
 * 1. A bit of `visited` is set once, together with the vertex's parent and its bit in `next`.
 * 2. `now` does not change while a level is searched.
 * 3. Bottom-up works on chunks of vertices, multiples of 64. A chunk is OPEN: the edges of its
 *    unvisited vertices are read from the array; or KEPT: the edges of all its unvisited vertices
 *    are in the kept list of one worker, and its part of the array is not read again.
 * 4. In a bottom-up step each chunk belongs to one thread, so words of bitmaps have one writer.
 */
#ifndef FTH_GRAPH_BFS_H
#define FTH_GRAPH_BFS_H

#include "graph/algorithm/frontier.h"

enum fth_bfs_chunk { FTH_BFS_OPEN, FTH_BFS_KEPT };

/*
 * Pieces of the edges of unvisited vertices, each as words: the vertex, how many neighbours, the
 * neighbours. A vertex whose edges lie in several lines has several pieces.
 */
struct fth_bfs_kept {
	uint32_t *words;
	uint64_t used, capacity, limit;
	bool full; /* something did not fit in this step */
};

struct fth_bfs {
	struct fth_graph *graph;
	struct fth_graph *in; /* the incoming edges; NULL: unknown, so there is no bottom-up */
	enum fth_graph_direction direction;
	uint32_t *parent;
	uint64_t *visited;
	struct fth_frontier now, next;
	struct fth_bfs_worker *workers;
	size_t batch; /* vertices taken at once, top-down */
	unsigned threads;

	/* Bottom-up. */
	uint64_t chunk, chunks; /* vertices of a chunk; how many */
	uint8_t *states;	/* enum fth_bfs_chunk */
	uint64_t next_chunk;	/* to be taken, as a chunk or as a kept list */
	bool backward;		/* chunks are taken from the last on */
	bool ahead;		/* chunks are fetched while others are worked on */

	uint64_t open;		  /* chunks that are */
	double lines, line_bytes; /* of the incoming edges */
	double missing;		  /* share of the lines that do not fit into the cache */

	uint64_t edges;	  /* looked at */
	uint64_t reached; /* vertices, `now` included */
	uint64_t left;	  /* about how many edges unvisited vertices have */
};

/* What a worker keeps between levels. */
struct fth_bfs_worker {
	struct fth_bfs *bfs;
	uint32_t *vertices;
	struct fth_span *spans;
	struct fth_feeder feeder;
	struct fth_bfs_kept kept;

	/* Bottom-up: the chunk that is worked on. */
	uint64_t first, count;	 /* vertices */
	const uint64_t *offsets; /* of them, one more than there are */
	uint64_t *offset_room;
	uint64_t edges; /* looked at in this step */
};

/* bfs_down.c: search from `now` to `next`, top-down. */
int fth_bfs_down(struct fth_bfs *bfs, const struct fth_graph_job *job);

/* bfs_up.c: the same, bottom-up. */
int fth_bfs_up(struct fth_bfs *bfs, const struct fth_graph_job *job);
int fth_bfs_up_init(struct fth_bfs *bfs);
/* Accepts a zeroed one. */
void fth_bfs_up_release(struct fth_bfs *bfs);
/* Memory that bottom-up steps took. */
uint64_t fth_bfs_up_bytes(const struct fth_bfs *bfs);

/* bfs_choose.c: is the level to be searched bottom-up? 1, 0 or a negative errno. */
int fth_bfs_choose(struct fth_bfs *bfs);

/* What both directions would cost, in the time that bottom-up needs to look at an edge. */
struct fth_bfs_case {
	double level_edges, level_lists; /* of the level: what top-down looks at */
	double open_vertices;		 /* unvisited, in chunks that are read from the array */
	double open_edges;		 /* and about how many edges they have */
	double kept;			 /* words of kept lists */
	double left;			 /* edges of all unvisited vertices */
	double missing;			 /* the share of lines that are not in the cache */
	double lines, line_bytes;	 /* of the edges */
};
double fth_bfs_cost_down(const struct fth_bfs_case *c);
double fth_bfs_cost_up(const struct fth_bfs_case *c);

#endif
