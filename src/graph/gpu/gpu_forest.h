/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forest of vertices, a word each, in which many threads join trees at once: union-find for
 * connected components. For GPU threads; CPU threads do the same, which tests use.
 *
 * From the larger of two vertices up, and the root that is met so hangs under the smaller vertex,
 * whether that is a root or not: Rem's algorithm (M. Patwary, J. Blair, F. Manne, "Experiments on
 * union-find algorithms for the disjoint-set data structure", SEA 2010), with a compare-and-swap
 * (L. Dhulipala, C. Hong, J. Shun, "ConnectIt", VLDB 2021), but without its splicing, which would
 * break 3. Each word that is passed on the way moves up by one while others work on the same path:
 * J. Jaiganesh, M. Burtscher, "A high-performance connected components implementation for GPUs",
 * HPDC 2018.
 *
 *  1. parent[x] <= x, and x is a root where both are the same. So a way up has an end, and the root
 *     of a tree is its smallest vertex.
 *  2. A root is hung up with a compare-and-swap that expects it to be one: once, by one thread, and
 *     it never is a root again. The hooks alone, each as it was made, are a forest that only grows:
 *     "above" means above in that one, and what is above x stays above x.
 *  3. Every value of parent[x] but x itself is above x. Whoever shortens a way stores into a word
 *     which it has seen not to be a root any more, and what it stores it has read in the word of
 *     something above x.
 *
 * All accesses are relaxed. Each word is all there is to know about its vertex, and nothing else is
 * published through it. A value that is old is above x still, by 3; so is one that an older store
 * put over a newer one: the way is longer then, but it leads to the same root. Only that a root is
 * a root must be true at the moment it is hung up, and that is asked of one word by one atomic.
 * What comes after the sweep is ordered by the end of the kernel.
 */
#ifndef FTH_GRAPH_GPU_FOREST_H
#define FTH_GRAPH_GPU_FOREST_H

#include "fathom/hd/atomic.h"

/* Move x, whose parent is or was `up`, to what is above that; which is returned. */
FTH_HD uint32_t graph_forest_shorten(uint32_t *parent, uint32_t x, uint32_t up)
{
	uint32_t above = fth_load_relaxed_dev32(&parent[up]);

	if (above != up)
		fth_store_relaxed_dev32(&parent[x], above);
	return above;
}

/* a and b are in one tree from now on; true if this call made it of two. */
FTH_HD bool graph_forest_join(uint32_t *parent, uint32_t a, uint32_t b)
{
	/* Ends: the larger of the two becomes smaller each time, whatever others do. */
	while (a != b) {
		uint32_t high = a > b ? a : b, low = a > b ? b : a;
		uint32_t up = fth_load_relaxed_dev32(&parent[high]);

		/* Atomic: of two that hang the same root up, one has to go on from there. */
		if (up == high && fth_cas_relaxed_dev32(&parent[high], &up, low))
			return true;
		a = up > low ? graph_forest_shorten(parent, high, up) : up;
		b = low;
	}
	return false;
}

/*
 * When all is joined: x hangs under its root. For all x at once: each changes its own word only, so
 * that nobody puts what was above x a moment ago over the root that is there by then; and others
 * who come by on their way go on from the highest that is known of x.
 */
FTH_HD void graph_forest_flatten(uint32_t *parent, uint32_t x)
{
	uint32_t up = fth_load_relaxed_dev32(&parent[x]), above;

	while ((above = fth_load_relaxed_dev32(&parent[up])) != up) {
		fth_store_relaxed_dev32(&parent[x], above);
		up = above;
	}
}

#endif
