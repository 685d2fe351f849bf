/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which way to search a level, after S. Beamer, K. Asanovic, D. Patterson, Direction-Optimizing
 * Breadth-First Search, SC 2012. They compare edges; here bytes count as well, since what is not
 * in the cache has to be read.
 *
 * An edge of an unvisited vertex leads into the level with probability f, the level's share of the
 * edges that are left. So a vertex that looks for a parent sees about 1 / f edges, and at most all
 * that it has. On a graph whose unvisited vertices have 50 edges on average this chooses bottom-up
 * from f = 1 / 15 on, which is the threshold that the paper found by measuring.
 */
#include "graph/algorithm/bfs.h"

#include <math.h>
#include <stdlib.h>

/* Times, in units of a bottom-up look at an edge. A top-down look is random and often atomic. */
#define EDGE_DOWN      4.0
#define VERTEX_UP      2.0 /* to find an unvisited vertex and its edges */
#define BYTES_PER_UNIT 4.0 /* that a device reads meanwhile */
#define COUNT_STEP     1024u

/* Of `lines` lines, how many do `touches` at random touch? */
static double touched(double lines, double touches)
{
	return lines > 0 ? lines * (1 - exp(-touches / lines)) : 0;
}

static double read_time(const struct fth_bfs_case *c, double lists, double edges)
{
	double touches = lists + edges * sizeof(uint32_t) / c->line_bytes;

	return c->missing * touched(c->lines, touches) * c->line_bytes / BYTES_PER_UNIT;
}

double fth_bfs_cost_down(const struct fth_bfs_case *c)
{
	return c->level_edges * EDGE_DOWN + read_time(c, c->level_lists, c->level_edges);
}

double fth_bfs_cost_up(const struct fth_bfs_case *c)
{
	double share = c->left > 0 ? c->level_edges / c->left : 1;
	double looks = share > 0 ? c->open_vertices / share : c->open_edges;

	if (looks > c->open_edges)
		looks = c->open_edges;
	return looks + c->open_vertices * VERTEX_UP + c->kept +
	       read_time(c, c->open_vertices, c->open_edges);
}

/* ---- what is known about this level ---- */

static void describe(const struct fth_bfs *bfs, struct fth_bfs_case *c)
{
	double share = (double)bfs->open / (double)bfs->chunks;

	*c = (struct fth_bfs_case){
		.level_lists = (double)bfs->now.count,
		.open_vertices = (double)(bfs->graph->info.vertices - bfs->reached) * share,
		.open_edges = (double)bfs->left * share,
		.left = (double)bfs->left,
		.missing = bfs->missing,
		.lines = bfs->lines,
		.line_bytes = bfs->line_bytes,
	};
	for (unsigned i = 0; i < bfs->threads; i++)
		c->kept += (double)bfs->workers[i].kept.used;
}

/* Is it cheaper, as far as the level's edges are counted? More of them only speak for it. */
static bool up_is_cheaper(const struct fth_bfs_case *c)
{
	return fth_bfs_cost_up(c) < fth_bfs_cost_down(c);
}

/* Count the edges of the level until it is clear. */
static int count_edges(struct fth_bfs *bfs, struct fth_bfs_case *c)
{
	struct fth_bfs_worker *worker = &bfs->workers[0];
	size_t step = bfs->batch < COUNT_STEP ? bfs->batch : COUNT_STEP, n;
	bool up = false;
	int rc = 0;

	while (!up && rc == 0 && (n = fth_frontier_take(&bfs->now, worker->vertices, step)) > 0) {
		rc = fth_graph_spans(bfs->graph, worker->vertices, n, worker->spans);
		for (size_t i = 0; i < n && rc == 0; i++)
			c->level_edges += (double)worker->spans[i].count;
		up = up_is_cheaper(c);
	}
	fth_frontier_rewind(&bfs->now);
	return rc < 0 ? rc : up;
}

int fth_bfs_choose(struct fth_bfs *bfs)
{
	struct fth_bfs_case c;
	int up;

	if (!bfs->in || bfs->direction == FTH_GRAPH_TOP_DOWN)
		return 0;
	if (bfs->direction == FTH_GRAPH_BOTTOM_UP)
		return 1;
	describe(bfs, &c);
	up = count_edges(bfs, &c);
	bfs->left -= c.level_edges < (double)bfs->left ? (uint64_t)c.level_edges : bfs->left;
	return up;
}
