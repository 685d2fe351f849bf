/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Breadth-first search whose distances and queues are persistent. A level reads one queue and fills
 * the other; when all of it is durable, one word says which level is complete and how long its
 * queue is. A search that stopped within a level does that level again, with the distances beyond
 * it forgotten.
 */
#ifndef FTH_WORKLOADS_PM_BFS_KERNELS_H
#define FTH_WORKLOADS_PM_BFS_KERNELS_H

#include "workloads/pm/lanes.h"
#include "fathom/base/rng.h"

#define PMW_BFS_FAR   UINT32_MAX /* not reached */
#define PMW_BFS_ITEM  PMW_WARP	 /* vertices of an item */
#define PMW_BFS_SIDES 4u	 /* a vertex of the grid has up to 4 neighbours */

struct pmw_bfs {
	struct fth_pm_view view;
	uint32_t *distance;   /* persistent: vertices */
	uint32_t *queue;      /* persistent: read by this level */
	uint32_t *next;	      /* persistent: filled by it */
	uint32_t *known;      /* distances, where atomics are cheap */
	uint32_t *neighbours; /* PMW_BFS_SIDES for each vertex, PMW_BFS_FAR: none */
	uint64_t *found;      /* length of `next` */
	uint64_t width, height;
	uint64_t length; /* of `queue` */
	uint64_t seed;
	uint32_t level;
};

/* Is there a road between a vertex and its neighbour to the right (axis 0) or below (axis 1)? */
FTH_HD bool pmw_bfs_road(const struct pmw_bfs *p, uint64_t vertex, uint32_t axis)
{
	return fth_mix64(p->seed ^ (vertex * 2 + axis + 1) * 0x9e3779b97f4a7c15u) % 10 != 0;
}

FTH_HD uint32_t pmw_bfs_neighbour(const struct pmw_bfs *p, uint64_t v, uint32_t side)
{
	uint64_t x = v % p->width, y = v / p->width;

	switch (side) {
	case 0:
		return x + 1 < p->width && pmw_bfs_road(p, v, 0) ? (uint32_t)(v + 1) : PMW_BFS_FAR;
	case 1:
		return x > 0 && pmw_bfs_road(p, v - 1, 0) ? (uint32_t)(v - 1) : PMW_BFS_FAR;
	case 2:
		return y + 1 < p->height && pmw_bfs_road(p, v, 1) ? (uint32_t)(v + p->width)
								  : PMW_BFS_FAR;
	default:
		return y > 0 && pmw_bfs_road(p, v - p->width, 1) ? (uint32_t)(v - p->width)
								 : PMW_BFS_FAR;
	}
}

/* Item: 32 vertices. Makes the map: a grid in which one road of ten is missing. */
FTH_HD void pmw_bfs_map(const struct pmw_bfs *p, uint64_t item, uint32_t lane)
{
	uint64_t end = p->width * p->height;

	for (uint64_t v = item * PMW_BFS_ITEM + lane; v < end && v < (item + 1) * PMW_BFS_ITEM;
	     v += PMW_LANES)
		for (uint32_t side = 0; side < PMW_BFS_SIDES; side++)
			p->neighbours[v * PMW_BFS_SIDES + side] = pmw_bfs_neighbour(p, v, side);
}

/* Item: 32 vertices. All of them are far. */
FTH_HD void pmw_bfs_forget(const struct pmw_bfs *p, uint64_t item, uint32_t lane)
{
	uint64_t end = p->width * p->height, first = item * PMW_BFS_ITEM;
	uint64_t last = first + PMW_BFS_ITEM < end ? first + PMW_BFS_ITEM : end;

	for (uint64_t v = first + lane; v < last; v += PMW_LANES)
		fth_pm_put32(&p->view, p->distance + v, PMW_BFS_FAR);
	if (PMW_LANES == 1)
		fth_pm_flush_range(&p->view, p->distance + first,
				   (last - first) * sizeof(*p->distance));
	else if (first + lane < last)
		fth_pm_flush_range(&p->view, p->distance + first + lane, sizeof(*p->distance));
	fth_pm_fence(&p->view);
}

/* Item: 32 vertices. What is known after a restart: the distances of complete levels. */
FTH_HD void pmw_bfs_remember(const struct pmw_bfs *p, uint64_t item, uint32_t lane)
{
	uint64_t end = p->width * p->height;

	for (uint64_t v = item * PMW_BFS_ITEM + lane; v < end && v < (item + 1) * PMW_BFS_ITEM;
	     v += PMW_LANES) {
		uint32_t distance = p->distance[v];

		p->known[v] = distance <= p->level ? distance : PMW_BFS_FAR;
	}
}

/* A vertex that this thread is the first to reach. */
FTH_HD void pmw_bfs_reach(const struct pmw_bfs *p, uint32_t vertex)
{
	uint64_t place = fth_add_relaxed_dev64(p->found, 1);

	fth_pm_put32(&p->view, p->next + place, vertex);
	fth_pm_flush_range(&p->view, p->next + place, sizeof(*p->next));
	fth_pm_put32(&p->view, p->distance + vertex, p->level + 1);
	fth_pm_flush_range(&p->view, p->distance + vertex, sizeof(*p->distance));
}

/* Item: 32 vertices of the queue. */
FTH_HD void pmw_bfs_level(const struct pmw_bfs *p, uint64_t item, uint32_t lane)
{
	for (uint64_t i = item * PMW_BFS_ITEM + lane;
	     i < p->length && i < (item + 1) * PMW_BFS_ITEM; i += PMW_LANES) {
		uint64_t v = p->queue[i];

		for (uint32_t side = 0; side < PMW_BFS_SIDES; side++) {
			uint32_t w = p->neighbours[v * PMW_BFS_SIDES + side];
			uint32_t far = PMW_BFS_FAR;

			if (w != PMW_BFS_FAR && fth_load_relaxed_dev32(p->known + w) == far &&
			    fth_cas_relaxed_dev32(p->known + w, &far, p->level + 1))
				pmw_bfs_reach(p, w);
		}
	}
	fth_pm_fence(&p->view);
}

#endif
