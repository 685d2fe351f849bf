/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of vertices that many threads add to, and later take from in order.
 *
 * A bitmap says who is in. As long as there are few, a queue lists them as well, so that a small
 * set costs nothing that grows with the graph. Taken in order, neighbours are read in the order
 * they have on the device.
 *
 *	fill:	fth_frontier_add() by any thread, through a feeder of its own; then each feeder is
 *		flushed, and one thread calls fth_frontier_seal()
 *	take:	fth_frontier_take() by any thread, until it gives none
 *	empty:	fth_frontier_clear() by one thread
 */
#ifndef FTH_GRAPH_FRONTIER_H
#define FTH_GRAPH_FRONTIER_H

#include "graph/graph_internal.h"

struct fth_frontier {
	uint64_t vertices; /* of the graph */
	uint64_t *bits;
	uint32_t *queue; /* the first `count` are in use, unless there are too many for it */
	uint64_t count, queue_max;
	uint64_t next; /* how much was taken: places in the queue, or vertices */
	bool backward; /* a large set is taken from its end; what is read last is still cached */
};

#define FTH_FEEDER_MAX 512u

/* What one thread has added and not yet told. Zero-initialise. */
struct fth_feeder {
	uint32_t count;
	uint32_t vertices[FTH_FEEDER_MAX];
};

int fth_frontier_init(struct fth_frontier *frontier, uint64_t vertices);
/* Accepts a zeroed one. */
void fth_frontier_release(struct fth_frontier *frontier);
uint64_t fth_frontier_bytes(const struct fth_frontier *frontier);

/* Are all in the queue? */
static inline bool fth_frontier_sparse(const struct fth_frontier *frontier)
{
	return frontier->count <= frontier->queue_max;
}

static inline bool fth_bit(const uint64_t *bits, uint32_t v)
{
	/* relaxed: a bit that comes late is found by the atomic that sets it. */
	return fth_load_relaxed_dev64(&bits[v / 64]) >> (v % 64) & 1;
}

void fth_feeder_flush(struct fth_feeder *feeder, struct fth_frontier *frontier);

/* Add a vertex: true if it was not in. Of several threads that add it one gets true. */
static inline bool fth_frontier_add(struct fth_frontier *frontier, struct fth_feeder *feeder,
				    uint32_t v)
{
	uint64_t bit = (uint64_t)1 << (v % 64);

	if (fth_bit(frontier->bits, v))
		return false;
	/* Atomic, so that neighbours in the word are not lost; orders nothing. */
	if (fth_or_acqrel_dev64(&frontier->bits[v / 64], bit) & bit)
		return false;
	if (feeder->count == FTH_FEEDER_MAX)
		fth_feeder_flush(feeder, frontier);
	feeder->vertices[feeder->count++] = v;
	return true;
}

/* The same for a vertex that is not in, by a thread that alone writes this word of 64 vertices. */
static inline void fth_frontier_add_own(struct fth_frontier *frontier, struct fth_feeder *feeder,
					uint32_t v)
{
	frontier->bits[v / 64] |= (uint64_t)1 << (v % 64);
	if (feeder->count == FTH_FEEDER_MAX)
		fth_feeder_flush(feeder, frontier);
	feeder->vertices[feeder->count++] = v;
}

/* All are in and all feeders flushed: put them in order, to be taken from the first on. */
void fth_frontier_seal(struct fth_frontier *frontier);

/* The next vertices, at most `max` >= 64, sorted, into out: how many, 0 when all were taken. */
size_t fth_frontier_take(struct fth_frontier *frontier, uint32_t *out, size_t max);

/* Take from the beginning again; by one thread. */
static inline void fth_frontier_rewind(struct fth_frontier *frontier)
{
	frontier->next = 0;
}

/* How far the taking is, of how much; for progress. */
void fth_frontier_progress(const struct fth_frontier *frontier, uint64_t *done, uint64_t *total);

void fth_frontier_clear(struct fth_frontier *frontier);

#endif
