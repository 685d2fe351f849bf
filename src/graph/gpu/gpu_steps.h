/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the algorithms do in a sweep (gpu_sweep.h). Device code. A step has
 *
 *	wants(v, whole)	is there work for v? One lane asks for one vertex. `whole`: this warp will
 *			look at all of its list
 *	begin(v)	all lanes: the list of v, or a part of it, comes next
 *	edge(u, w)	a lane: a neighbour
 *	ended()		the rest of the list is not needed, if any lane says so
 *	end(v)		all lanes
 *	finish()	all lanes: after the last list of the warp
 *
 * and, if it looks ahead, that is, has a use for lists that nobody wants yet where they come in a
 * line with others:
 *
 *	wants(v, &from, &to)	in place of the above, of the edges [from, to) of its list: which
 *				are wanted?
 *	extra(v)		a lane: what could be done with this list now? GRAPH_NOTHING, or
 *				other than GRAPH_WANTED
 *	what			set before begin(): what was said of the list
 *	again(v, from, to)	all lanes, after end(): are these edges to be walked once more?
 *
 * Two sets of vertices, one bit each: `now` has work in this sweep, `next` in the next one. A sweep
 * of shortest paths takes a vertex's newest value. So a vertex that is whole is taken out of
 * `next` before its value is read: what it learned in this sweep is not told twice. Whoever lowers
 * a value puts the vertex into `next` after that; both are read-modify-writes of one word, acqrel:
 * either the value that is read is the lowered one, or the vertex stays in `next`.
 */
#ifndef FTH_GRAPH_GPU_STEPS_H
#define FTH_GRAPH_GPU_STEPS_H

#include "graph/gpu/gpu_forest.h"
#include "graph/gpu/gpu_sweep.h"

/* Add what lanes have counted: one atomic per warp. */
FTH_GPU void graph_add_up(graph_u64 *to, uint64_t mine)
{
	uint32_t low = __reduce_add_sync(~0u, (uint32_t)mine & 0xffffff);
	uint64_t high = 0;

	/* In three parts: sums of 32 numbers of 24 bits fit into 32 bits. */
	high = (uint64_t)__reduce_add_sync(~0u, (uint32_t)(mine >> 24) & 0xffffff) << 24;
	high += (uint64_t)__reduce_add_sync(~0u, (uint32_t)(mine >> 48)) << 48;
	if (fth_warp_lane() == 0 && low + high)
		atomicAdd(to, (graph_u64)(low + high));
}

/* The sum over all lanes, the same in each. */
FTH_GPU double graph_sum(double mine)
{
	for (uint32_t step = 16; step > 0; step /= 2) {
		uint64_t bits, other;
		double theirs;

		memcpy(&bits, &mine, sizeof(bits));
		other = __shfl_sync(~0u, bits, (int)(fth_warp_lane() ^ step));
		memcpy(&theirs, &other, sizeof(theirs));
		mine += theirs;
	}
	return mine;
}

/* ---- breadth-first search ---- */

struct graph_bfs {
	const uint64_t *offsets;
	const uint32_t *now;
	uint32_t *next, *visited, *level;
	uint32_t depth; /* of what is found */
	uint32_t found;
	uint64_t edges;

	FTH_GPU_MEMBER void reach(uint64_t u)
	{
		/* Atomic: of several that come here one counts it. Orders nothing. */
		if (!graph_claim(visited, u))
			return;
		graph_claim(next, u);
		level[u] = depth;
		found++;
		edges += offsets[u + 1] - offsets[u];
	}

	FTH_GPU_MEMBER void finish(struct graph_report *report)
	{
		graph_add_up(&report->found, found);
		graph_add_up(&report->edges, edges);
	}
};

/*
 * From the vertices of the last level to what they reach.
 *
 * A line holds several lists, and a search wants each list once, but at different times: so lines
 * would be read several times. Where a line is read anyway, lists of vertices whose level is known
 * by then are told too, one level early: a vertex that was found in this sweep, or, in an
 * undirected graph, one that has a neighbour in the last level. Whom these reach is put down in
 * `later`: those of them that this sweep does not find either are the first of the level after the
 * next. A list that was told is not read again.
 *
 * Of lists that lie in several lines, parts are told: a part is what of it is in a line of 512
 * bytes. A line has at most one list that began before it, and one that goes on after it; so two
 * bits for each line are enough to tell which are spent.
 *
 * What is told early is marked as spent after it went to `later`; nobody looks at either before the
 * next sweep. A list may be told twice, where two warps find its vertex at the same time: it
 * reaches the same vertices then, at the same level.
 */
struct graph_bfs_push : graph_bfs {
	static const bool weighted = false, can_end = false, looks_ahead = true;
	enum { SEEK = GRAPH_WANTED + 1, TELL };
	bool early; /* tell lists early at all */
	bool undirected;
	uint32_t *later;     /* neighbours of the level that is found now */
	uint32_t *spent;     /* whole lists, by vertex */
	uint32_t *spent_cut; /* parts of others, see cut() */
	uint32_t what;
	bool hit;

	/* The part of v's list in a line, which is not all of the list. */
	FTH_GPU_MEMBER uint64_t cut(uint64_t v, uint64_t line) const
	{
		return line * 2 + (offsets[v] < line * GRAPH_FINE);
	}

	FTH_GPU_MEMBER bool wants(uint64_t v, uint64_t *from, uint64_t *to)
	{
		uint64_t line = *from / GRAPH_FINE, last = (*to - 1) / GRAPH_FINE;

		if (!(now[v / 32] >> v % 32 & 1) || graph_bit(spent, v))
			return false;
		if (offsets[v] / GRAPH_FINE == (offsets[v + 1] - 1) / GRAPH_FINE)
			return true;
		while (line <= last && graph_bit(spent_cut, cut(v, line)))
			*from = ++line * GRAPH_FINE;
		while (line < last && graph_bit(spent_cut, cut(v, last)))
			*to = last-- * GRAPH_FINE;
		return line <= last;
	}

	FTH_GPU_MEMBER uint32_t extra(uint64_t v)
	{
		if (!early)
			return GRAPH_NOTHING;
		if (!graph_bit(visited, v))
			return undirected ? (uint32_t)SEEK : GRAPH_NOTHING;
		return graph_bit(next, v) ? (uint32_t)TELL : GRAPH_NOTHING;
	}

	FTH_GPU_MEMBER void begin(uint64_t)
	{
		hit = false;
	}

	FTH_GPU_MEMBER void edge(uint32_t u, uint32_t)
	{
		if (what == SEEK)
			hit = hit || (now[u / 32] >> u % 32 & 1);
		else if (graph_bit(visited, u))
			return;
		else if (what == GRAPH_WANTED)
			reach(u);
		else if (!graph_bit(later, u))
			graph_claim(later, u);
	}

	FTH_GPU_MEMBER bool ended(void) const
	{
		return false;
	}

	FTH_GPU_MEMBER void end(uint64_t)
	{
	}

	/* One lane. */
	FTH_GPU_MEMBER void spend(uint64_t v, uint64_t from, uint64_t to)
	{
		if (from == offsets[v] && to == offsets[v + 1]) {
			graph_claim(spent, v);
			return;
		}
		for (uint64_t line = from / GRAPH_FINE; line * GRAPH_FINE < to; line++)
			graph_claim(spent_cut, cut(v, line));
	}

	FTH_GPU_MEMBER bool again(uint64_t v, uint64_t from, uint64_t to)
	{
		bool leads = fth_warp_lane() == 0;

		if (what == SEEK && __any_sync(~0u, hit)) {
			if (leads)
				reach(v);
			what = TELL;
			return true;
		}
		if (what == TELL && leads)
			spend(v, from, to);
		__syncwarp();
		return false;
	}

	/* Before a sweep: 32 vertices that were put down in the last one. */
	FTH_GPU_MEMBER void take_later(uint64_t word)
	{
		uint32_t fresh = later[word] & ~visited[word];

		later[word] = 0;
		for (; fresh; fresh &= fresh - 1)
			reach(word * 32 + (uint32_t)__ffs((int)fresh) - 1);
	}
};

/* From vertices that are not reached to any neighbour in the last level. */
struct graph_bfs_pull : graph_bfs {
	static const bool weighted = false, can_end = true, looks_ahead = false;
	bool hit;

	FTH_GPU_MEMBER bool wants(uint64_t v, bool)
	{
		return !graph_bit(visited, v);
	}

	FTH_GPU_MEMBER void begin(uint64_t)
	{
		hit = false;
	}

	FTH_GPU_MEMBER void edge(uint32_t u, uint32_t)
	{
		hit = hit || (now[u / 32] >> u % 32 & 1);
	}

	FTH_GPU_MEMBER bool ended(void) const
	{
		return hit;
	}

	FTH_GPU_MEMBER void end(uint64_t v)
	{
		if (__any_sync(~0u, hit) && fth_warp_lane() == 0)
			reach(v);
	}
};

/* ---- what a vertex knows spreads to its neighbours until nothing changes ---- */

struct graph_spread {
	const uint32_t *now;
	uint32_t *next;
	uint32_t found;

	FTH_GPU_MEMBER bool wants(uint64_t v, bool whole)
	{
		uint32_t bit = 1u << v % 32;
		bool active = now[v / 32] & bit;

		if (!whole || !graph_bit(next, v))
			return active;
		/* acquire: stops the value from being read before; see the top of the file. */
		return (fth_and_acqrel_dev32(&next[v / 32], ~bit) & bit) || active;
	}

	/* A value of v was lowered. */
	FTH_GPU_MEMBER void wake(uint64_t v)
	{
		/* release: stops the bit from being seen before the value. */
		fth_or_acqrel_dev32(&next[v / 32], 1u << v % 32);
		found++;
	}

	FTH_GPU_MEMBER bool ended(void) const
	{
		return false;
	}

	FTH_GPU_MEMBER void finish(struct graph_report *report)
	{
		graph_add_up(&report->found, found);
	}
};

/* Shortest paths. */
struct graph_sssp : graph_spread {
	static const bool weighted = true, can_end = false, looks_ahead = false;
	graph_u64 *distance;
	uint64_t mine;

	FTH_GPU_MEMBER void begin(uint64_t v)
	{
		mine = fth_load_relaxed_dev64((uint64_t *)&distance[v]);
	}

	FTH_GPU_MEMBER void edge(uint32_t u, uint32_t weight)
	{
		graph_u64 through = mine + weight;

		if (through < fth_load_relaxed_dev64((uint64_t *)&distance[u]) &&
		    atomicMin(&distance[u], through) > through)
			wake(u);
	}

	FTH_GPU_MEMBER void end(uint64_t)
	{
	}
};

/* ---- connected components ---- */

/*
 * One sweep: the neighbours of a vertex, and the vertex, come into one tree (gpu_forest.h).
 * In an undirected graph an edge is in two lists, and that of the larger vertex does it. So
 * vertices join what those before them have become, of whom nearly all hang under the same root
 * soon: a lane loads the parent of a neighbour, finds the one it knows, and is done. What lanes
 * know apart is put together at the end of the list, and only there the vertex itself is hung up,
 * by one lane.
 */
struct graph_cc {
	static const bool weighted = false, can_end = false, looks_ahead = false;
	uint32_t *parent;
	bool undirected;
	uint32_t limit; /* neighbours from here on are not for this list */
	uint32_t known; /* in one tree with all neighbours that this lane has seen; or NONE */
	uint32_t joined;

	FTH_GPU_MEMBER bool wants(uint64_t, bool)
	{
		return true;
	}

	FTH_GPU_MEMBER void begin(uint64_t v)
	{
		limit = undirected ? (uint32_t)v : FTH_GRAPH_NONE;
		known = FTH_GRAPH_NONE;
	}

	FTH_GPU_MEMBER void edge(uint32_t u, uint32_t)
	{
		uint32_t up;

		if (u >= limit)
			return;
		/* relaxed: what is old is in the same tree. */
		up = fth_load_relaxed_dev32(&parent[u]);
		if (known != FTH_GRAPH_NONE && up != known)
			joined += graph_forest_join(parent, up, known);
		known = min(known, up);
	}

	FTH_GPU_MEMBER bool ended(void) const
	{
		return false;
	}

	FTH_GPU_MEMBER void end(uint64_t v)
	{
		/* What is NONE is larger than all vertices. */
		uint32_t low = __reduce_min_sync(~0u, known);
		uint32_t first = (uint32_t)__ffs((int)__ballot_sync(~0u, known == low)) - 1;

		if (low == FTH_GRAPH_NONE)
			return;
		if (fth_warp_lane() == first)
			known = (uint32_t)v;
		if (known != FTH_GRAPH_NONE && known != low)
			joined += graph_forest_join(parent, known, low);
	}

	/* `found` is how many trees there are less than at the beginning. */
	FTH_GPU_MEMBER void finish(struct graph_report *report)
	{
		graph_add_up(&report->found, joined);
	}
};

/* ---- PageRank ---- */

struct graph_rank {
	static const bool weighted = false, can_end = false, looks_ahead = false;
	const float *give; /* what a vertex gives to each neighbour */
	double *sum;	   /* what each was given */

	FTH_GPU_MEMBER bool wants(uint64_t, bool)
	{
		return true;
	}

	FTH_GPU_MEMBER bool ended(void) const
	{
		return false;
	}

	FTH_GPU_MEMBER void finish(struct graph_report *)
	{
	}
};

/* In an undirected graph those who point to a vertex are its neighbours. */
struct graph_rank_pull : graph_rank {
	double mine;

	FTH_GPU_MEMBER void begin(uint64_t)
	{
		mine = 0;
	}

	FTH_GPU_MEMBER void edge(uint32_t u, uint32_t)
	{
		mine += give[u];
	}

	FTH_GPU_MEMBER void end(uint64_t v)
	{
		double all = graph_sum(mine);

		/* Atomic: other parts of the list are other warps'. */
		if (fth_warp_lane() == 0)
			atomicAdd(&sum[v], all);
	}
};

struct graph_rank_push : graph_rank {
	double mine;

	FTH_GPU_MEMBER void begin(uint64_t v)
	{
		mine = give[v];
	}

	FTH_GPU_MEMBER void edge(uint32_t u, uint32_t)
	{
		atomicAdd(&sum[u], mine);
	}

	FTH_GPU_MEMBER void end(uint64_t)
	{
	}
};

#endif
