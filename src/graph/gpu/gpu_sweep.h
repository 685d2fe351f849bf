/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sweep over the edges of a graph by warps, for any source of edges and any algorithm. Device
 * code; gpu_steps.h has the algorithms.
 *
 * The edges are cut into pieces, in the order of the medium. A warp takes a few at a time, so that
 * all warps together move through the edges in one direction. Which vertices' neighbours a piece
 * holds is known from owner[]; where none of them has work, the piece is not read.
 *
 *  1. All 32 lanes of a warp are together wherever edges are asked for: lines are held by whole
 *     warps.
 *  2. A list that lies in several pieces is looked at by several warps, at any time, in any order;
 *     each tells the step which part of the list it has.
 *  3. What is read from the medium is checked before it is used as an index.
 *  4. A warp holds at most one line of each array, and none while it waits for one of the same
 *     array. So warps <= frames / 2 (two arrays: / 4) leave frames for everybody.
 *  5. Lines are looked at without a reference where they can be: a step gets an edge only after
 *     the line is known to have been there all the time.
 */
#ifndef FTH_GRAPH_GPU_SWEEP_H
#define FTH_GRAPH_GPU_SWEEP_H

#include "fathom/graph/gpu.h"

#include <errno.h>
#ifdef __CUDACC__
#include "fathom/gpu/look.h"
#else
#include "fathom/detail/gpu/lines.h"
#endif

#ifdef __CUDACC__
#define FTH_GPU_MEMBER __device__ __forceinline__
#else
#define FTH_GPU_MEMBER inline
#endif

#define GRAPH_PIECE FTH_GPU_GRAPH_PIECE
#define GRAPH_TAKE  4u	 /* pieces that a warp takes at once */
#define GRAPH_FINE  128u /* edges of the shortest line, 512 bytes */
#define GRAPH_GROUP 32u	 /* edges that a warp looks at together: 128 bytes */

typedef unsigned long long graph_u64; /* as CUDA's atomics want it */

/* What kernels tell the host, and each other. */
struct graph_report {
	graph_u64 next;	 /* piece to be taken */
	graph_u64 found; /* vertices with work in the next round; components: joins */
	graph_u64 edges; /* that those have */
	int rc;		 /* of the first that failed */
	uint32_t bad;	 /* -EBADMSG: a neighbour that is no vertex */
};

struct graph_view {
	const uint64_t *offsets;
	const uint32_t *owner; /* per piece: whose list has its first edge; and one more */
	uint64_t vertices, edges, pieces;
	struct graph_report *report;
};

/* ---- bits, one per vertex ---- */

FTH_GPU bool graph_bit(const uint32_t *bits, uint64_t v)
{
	/* relaxed: whoever acts on it looks again, or acts with an atomic. */
	return fth_load_relaxed_dev32(&bits[v / 32]) >> v % 32 & 1;
}

/* Set it; true if it was not set before. Orders nothing. */
FTH_GPU bool graph_claim(uint32_t *bits, uint64_t v)
{
	uint32_t bit = 1u << v % 32;

	return !(atomicOr(&bits[v / 32], bit) & bit);
}

/* ---- sources of edges ---- */

/* Of the eight lines of 512 bytes of a piece, those that come with `wanted`, `n` at a time. */
FTH_GPU uint32_t graph_whole_lines(uint32_t wanted, uint32_t n)
{
	uint32_t one = (1u << n) - 1, all = 0;

	for (uint32_t at = 0; at < GRAPH_PIECE / GRAPH_FINE; at += n)
		all |= wanted >> at & one ? one << at : 0;
	return all;
}

/* Memory that is read as it is: pinned memory of the host, or the GPU's own. */
struct graph_plain {
	const uint32_t *edges, *weights;

	FTH_GPU_MEMBER uint32_t window(void) const
	{
		return GRAPH_PIECE;
	}

	/* Who reads these lines of 512 bytes of a piece, bits, gets those with them. */
	FTH_GPU_MEMBER uint32_t at_hand(uint32_t) const
	{
		return 0;
	}
};

struct graph_plain_reader {
	FTH_GPU_MEMBER graph_plain_reader(const struct graph_plain &)
	{
	}

	/* Where edge e is, and all after it up to the end of its window. NULL with *rc set. */
	FTH_GPU_MEMBER const uint32_t *edge(const struct graph_plain &from, uint64_t e, int *)
	{
		return from.edges + e;
	}

	FTH_GPU_MEMBER const uint32_t *weight(const struct graph_plain &from, uint64_t e, int *)
	{
		return from.weights + e;
	}

	/* Load an edge or a weight from there. */
	FTH_GPU_MEMBER static uint32_t load(const uint32_t *at)
	{
		return *at;
	}

	/* Was all that was loaded there what it should be? */
	FTH_GPU_MEMBER bool good(const struct graph_plain &, bool)
	{
		return true;
	}

	/* After good() said no: all that was asked for once more, and it will be good. */
	FTH_GPU_MEMBER int hold(const struct graph_plain &, bool)
	{
		return 0;
	}

	/* Of the piece that begins with edge `first` these lines of 512 bytes are wanted: bits. */
	FTH_GPU_MEMBER int ahead(const struct graph_plain &, uint64_t, uint32_t, bool)
	{
		return 0;
	}

	FTH_GPU_MEMBER void close(const struct graph_plain &)
	{
	}
};

FTH_GPU struct graph_plain_reader graph_open_reader(const struct graph_plain &from)
{
	return graph_plain_reader(from);
}

#ifdef __CUDACC__

/* Through a cache: a warp looks at the line that it works on. */
struct graph_cached {
	fth_gpu_array<uint32_t> edges, weights;

	FTH_GPU_MEMBER uint32_t window(void) const
	{
		return min(GRAPH_PIECE, 1u << (edges.line_shift - 2));
	}

	FTH_GPU_MEMBER uint32_t at_hand(uint32_t wanted) const
	{
		return graph_whole_lines(wanted, window() / GRAPH_FINE);
	}
};

struct graph_cached_reader {
	struct fth_gpu_look at, at_weight;

	FTH_GPU_MEMBER graph_cached_reader(const struct graph_cached &)
	    : at(fth_gpu_look_open()), at_weight(fth_gpu_look_open())
	{
	}

	FTH_GPU_MEMBER static const uint32_t *place(const fth_gpu_array<uint32_t> &a,
						    struct fth_gpu_look *look, uint64_t e, int *rc)
	{
		uint32_t shift = a.line_shift - 2;
		const uint32_t *line = fth_gpu_look_line(a, look, e >> shift, rc);

		return line ? line + (e & ((1u << shift) - 1)) : NULL;
	}

	FTH_GPU_MEMBER const uint32_t *edge(const struct graph_cached &from, uint64_t e, int *rc)
	{
		return place(from.edges, &at, e, rc);
	}

	FTH_GPU_MEMBER const uint32_t *weight(const struct graph_cached &from, uint64_t e, int *rc)
	{
		return place(from.weights, &at_weight, e, rc);
	}

	FTH_GPU_MEMBER static uint32_t load(const uint32_t *at)
	{
		return fth_gpu_look_load(at);
	}

	FTH_GPU_MEMBER bool good(const struct graph_cached &from, bool weighted)
	{
		return fth_gpu_look_good(from.edges, at) &&
		       (!weighted || fth_gpu_look_good(from.weights, at_weight));
	}

	FTH_GPU_MEMBER int hold(const struct graph_cached &from, bool weighted)
	{
		int rc = 0;

		if (at.word)
			fth_gpu_look_hold(from.edges, &at, &rc);
		if (rc == 0 && weighted && at_weight.word)
			fth_gpu_look_hold(from.weights, &at_weight, &rc);
		return rc;
	}

	/* Bring several in at once, where lines are short. All lanes, none of them idle. */
	FTH_GPU_MEMBER int ahead(const struct graph_cached &from, uint64_t first, uint32_t wanted,
				 bool weighted)
	{
		uint32_t lane = fth_warp_lane(), mine = lane % 8;
		const fth_gpu_array<uint32_t> &a =
			weighted && lane % 16 >= 8 ? from.weights : from.edges;
		uint64_t byte;

		if (from.edges.line_shift >= 12 || (__popc(wanted) < 2 && !weighted))
			return 0;
		if (!(wanted >> mine & 1))
			mine = (uint32_t)__ffs((int)wanted) - 1;
		byte = (first + mine * GRAPH_FINE) * 4;
		/* relaxed: whoever reads the line looks again. */
		if (__all_sync(~0u, fth_line_ready(fth_load_relaxed_dev64(a.words +
									  (byte >> a.line_shift)))))
			return 0;
		close(from);
		__syncwarp();
		return FTH_GPU_FAR_(fth_gpu_access_)(a.cache, a.range, byte, FTH_GPU_OP_PREFETCH, 0,
						     0, 0)
			.rc;
	}

	FTH_GPU_MEMBER void close(const struct graph_cached &from)
	{
		fth_gpu_look_close(from.edges, &at);
		fth_gpu_look_close(from.weights, &at_weight);
	}
};

FTH_GPU struct graph_cached_reader graph_open_reader(const struct graph_cached &from)
{
	return graph_cached_reader(from);
}

#endif

/* ---- the neighbours of one vertex ---- */

/*
 * The part [from, to) of a piece, all of it in one list. Groups begin at multiples of 128 bytes. A
 * step that has found what it looks for ends the list.
 */
template <typename Source, typename Reader, typename Step>
FTH_GPU int graph_walk(const struct graph_view &g, const Source &source, Reader *reader, Step *step,
		       uint64_t first, uint32_t from, uint32_t to)
{
	uint32_t lane = fth_warp_lane(), bad = 0; /* which is a vertex of every graph */
	bool ended = false;
	int rc = 0;

	while (from < to && !ended) {
		uint32_t stop = min(to, (from | (source.window() - 1)) + 1);
		const uint32_t *edges = reader->edge(source, first + from, &rc), *weights = NULL;

		if (Step::weighted && edges)
			weights = reader->weight(source, first + from, &rc);
		if (!edges || (Step::weighted && !weights))
			return rc;
		for (uint32_t at = from / GRAPH_GROUP * GRAPH_GROUP; at < stop && !ended;
		     at += GRAPH_GROUP) {
			uint32_t i = at + lane, u = 0, w = 0;
			bool mine = i >= from && i < stop;

			for (;;) {
				if (mine) {
					u = reader->load(edges + (i - from));
					w = Step::weighted ? reader->load(weights + (i - from)) : 0;
				}
				if (reader->good(source, Step::weighted))
					break;
				rc = reader->hold(source, Step::weighted);
				if (rc < 0)
					return rc;
				edges = reader->edge(source, first + from, &rc);
				if (Step::weighted)
					weights = reader->weight(source, first + from, &rc);
			}
			if (mine && u < g.vertices)
				step->edge(u, w);
			else if (mine)
				bad = u;
			if (Step::can_end)
				ended = __any_sync(~0u, step->ended());
		}
		from = stop;
	}
	if (!__any_sync(~0u, bad))
		return 0;
	if (bad)
		g.report->bad = bad;
	return -EBADMSG;
}

/* ---- a piece, and all of them ---- */

/* Lines of 512 bytes that a part of a piece, from | to << 16, needs: bits. */
template <typename Step> FTH_GPU uint32_t graph_lines_touched(uint32_t part)
{
	uint32_t from = part & 0xffff, to = part >> 16;
	/* A step that can end does so early, as a rule. */
	uint32_t last = (Step::can_end ? from : to - 1) / GRAPH_FINE;

	return (2u << last) - (1u << from / GRAPH_FINE);
}

/* A lane's part of what a piece holds: a list, or a part of one. */
struct graph_part {
	uint32_t edges; /* from | to << 16, in the piece; 0: none */
	uint32_t what;	/* to do with it: GRAPH_NOTHING, GRAPH_WANTED, or what the step said */
};

#define GRAPH_NOTHING 0u
#define GRAPH_WANTED  1u

template <typename Step>
FTH_GPU struct graph_part graph_part_of(const struct graph_view &g, Step *step, uint64_t piece,
					uint64_t v)
{
	uint64_t first = piece * GRAPH_PIECE, end = first + GRAPH_PIECE;
	uint64_t from = g.offsets[v], to = g.offsets[v + 1];
	bool whole = from >= first && to <= end, wants;
	struct graph_part part = {0, GRAPH_NOTHING};

	from = from > first ? from : first;
	to = to < end ? to : end;
	if (from >= to)
		return part;
	if constexpr (Step::looks_ahead)
		wants = step->wants(v, &from, &to);
	else
		wants = step->wants(v, whole);
	part.edges = (uint32_t)(from - first) | (uint32_t)(to - first) << 16;
	part.what = wants ? GRAPH_WANTED : GRAPH_NOTHING;
	return part;
}

/* What of a part is in these lines of 512 bytes, bits: the first run of them. */
FTH_GPU uint32_t graph_part_in(uint32_t edges, uint32_t lines)
{
	uint32_t first = (uint32_t)__ffs((int)lines) - 1;
	uint32_t count = (uint32_t)__ffs((int)~(lines >> first)) - 1;
	uint32_t from = edges & 0xffff, to = edges >> 16;

	from = from > first * GRAPH_FINE ? from : first * GRAPH_FINE;
	to = min(to, (first + count) * GRAPH_FINE);
	return from | to << 16;
}

/*
 * Before the lists of up to 32 vertices, a lane each: their lines are on their way, and lists that
 * nobody wants yet, but which come with them, or with *lines of the piece before, may have work
 * too.
 */
template <typename Source, typename Reader, typename Step>
FTH_GPU int graph_prepare(const Source &source, Reader *reader, Step *step, uint64_t first,
			  uint64_t v, struct graph_part *part, uint32_t *lines)
{
	uint32_t mine = part->edges ? graph_lines_touched<Step>(part->edges) : 0, wanted;
	int rc = 0;

	wanted = __reduce_or_sync(~0u, part->what ? mine : 0);
	if (wanted && source.window() < GRAPH_PIECE)
		rc = reader->ahead(source, first, wanted, Step::weighted);
	if (__any_sync(~0u, rc < 0))
		return __reduce_min_sync(~0u, rc);
	if constexpr (Step::looks_ahead) {
		*lines |= wanted;
		mine &= source.at_hand(*lines);
		if (mine && !part->what) {
			part->what = step->extra(v);
			part->edges = graph_part_in(part->edges, mine);
		}
	}
	return 0;
}

template <typename Source, typename Reader, typename Step>
FTH_GPU int graph_list(const struct graph_view &g, const Source &source, Reader *reader, Step *step,
		       uint64_t first, uint64_t v, struct graph_part part)
{
	uint32_t from = part.edges & 0xffff, to = part.edges >> 16;
	bool again = false;

	if constexpr (Step::looks_ahead)
		step->what = part.what;
	do {
		int rc;

		step->begin(v);
		rc = graph_walk(g, source, reader, step, first, from, to);
		if (rc < 0)
			return rc;
		step->end(v);
		if constexpr (Step::looks_ahead)
			again = step->again(v, first + from, first + to);
	} while (again);
	return 0;
}

template <typename Source, typename Reader, typename Step>
FTH_GPU int graph_piece(const struct graph_view &g, const Source &source, Reader *reader,
			Step *step, uint64_t piece)
{
	uint64_t first = piece * GRAPH_PIECE;
	uint32_t lane = fth_warp_lane(), last = g.owner[piece + 1], lines = 0;

	for (uint64_t group = g.owner[piece]; group <= last; group += 32) {
		struct graph_part part = {0, GRAPH_NOTHING};
		uint32_t todo;

		if (group + lane <= last)
			part = graph_part_of(g, step, piece, group + lane);
		todo = __ballot_sync(~0u, part.what);
		if (todo || lines) {
			int rc = graph_prepare(source, reader, step, first, group + lane, &part,
					       &lines);

			if (rc < 0)
				return rc;
		}
		if constexpr (Step::looks_ahead)
			todo = __ballot_sync(~0u, part.what);
		/* What wants() did is seen by all lanes. */
		__syncwarp();
		for (; todo; todo &= todo - 1) {
			int j = __ffs((int)todo) - 1, rc;
			struct graph_part its = {__shfl_sync(~0u, part.edges, j), GRAPH_WANTED};

			if constexpr (Step::looks_ahead)
				its.what = __shfl_sync(~0u, part.what, j);
			rc = graph_list(g, source, reader, step, first, group + (uint32_t)j, its);
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

/* The next pieces for a warp; g.pieces when there are none, or someone failed. */
FTH_GPU uint64_t graph_take(const struct graph_view &g)
{
	uint64_t k = g.pieces;

	if (fth_warp_lane() == 0 && fth_load_relaxed_dev32((uint32_t *)&g.report->rc) == 0)
		k = atomicAdd(&g.report->next, (graph_u64)GRAPH_TAKE);
	__syncwarp();
	return __shfl_sync(~0u, k, 0);
}

/* What each warp of a kernel does. */
template <typename Source, typename Step>
FTH_GPU void graph_sweep(const struct graph_view &g, const Source &source, Step step, bool backward)
{
	auto reader = graph_open_reader(source);
	uint64_t k;
	int rc = 0;

	while (rc == 0 && (k = graph_take(g)) < g.pieces)
		for (uint32_t i = 0; i < GRAPH_TAKE && k + i < g.pieces && rc == 0; i++)
			rc = graph_piece(g, source, &reader, &step,
					 backward ? g.pieces - 1 - (k + i) : k + i);
	reader.close(source);
	if (rc < 0 && fth_warp_lane() == 0)
		atomicCAS(&g.report->rc, 0, rc);
	step.finish(g.report);
}

#endif
