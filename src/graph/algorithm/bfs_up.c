/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A level, bottom-up. Threads take chunks of vertices, and read the edges of those that are not
 * visited, in the order of the device, while the next chunks are on their way. Runs of lines that
 * hold edges of visited vertices only are left out.
 *
 * Vertices that found no parent are few, and have few edges: the others have too many for none to
 * lead into the level. Their edges are kept, so that the next level reads nothing again. All
 * unvisited vertices of a chunk are kept, or none: what does not fit is taken back, and the chunk
 * stays open.
 */
#include "graph/algorithm/bfs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES ((uint64_t)2 << 20) /* of edges, about, so that the device sees depth */
#define CHUNK_MIN   64u			/* vertices */
#define CHUNKS_PER  8u			/* at least so many per thread */
#define GAP	    1024u		/* edges that nobody wants, read to keep one span */
#define KEPT_MIN    ((uint64_t)1 << 16) /* words that may be kept, all threads together; or: */
#define KEPT_SHARE  1u			/* a word for so many vertices */
/* A chunk of each thread is so small a part of the cache: it has AHEAD more on their way. */
#define AHEAD	    4u
#define CACHE_SHARE 16u
#define AHEAD_MIN   (256u << 10)
#define TOUCH_AHEAD 12u /* vertices: the processor is asked for their edges early */

/* ---- edges that are kept ---- */

static bool make_room(struct fth_bfs_kept *kept, uint64_t words)
{
	uint64_t capacity = kept->capacity ? kept->capacity : 4096;
	uint32_t *more;

	while (capacity < kept->used + words)
		capacity *= 2;
	if (capacity > kept->limit)
		capacity = kept->limit;
	if (capacity < kept->used + words)
		return false;
	more = realloc(kept->words, capacity * sizeof(*more));
	if (!more)
		return false;
	kept->words = more;
	kept->capacity = capacity;
	return true;
}

static void keep(struct fth_bfs_kept *kept, uint32_t v, const uint32_t *neighbours, uint64_t n)
{
	uint32_t *to;

	if (kept->full)
		return;
	if (kept->used + n + 2 > kept->capacity && !make_room(kept, n + 2)) {
		kept->full = true;
		return;
	}
	to = kept->words + kept->used;
	to[0] = v;
	to[1] = (uint32_t)n;
	memcpy(to + 2, neighbours, n * sizeof(*neighbours));
	kept->used += n + 2;
}

/* ---- looking for a parent ---- */

/* The first neighbour that is in the level, or n; or a negative errno. */
static int64_t find_parent(const struct fth_bfs *bfs, const uint32_t *neighbours, uint64_t n)
{
	const uint64_t *level = bfs->now.bits, vertices = bfs->graph->info.vertices;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t u = neighbours[i];

		if (u >= vertices)
			return fth_graph_bad_neighbour(u);
		if (level[u / 64] >> (u % 64) & 1)
			return (int64_t)i;
	}
	return (int64_t)n;
}

/* 1: v has a parent now; 0: not among these; or a negative errno. */
static int look(struct fth_bfs_worker *worker, uint32_t v, const uint32_t *neighbours, uint64_t n)
{
	struct fth_bfs *bfs = worker->bfs;
	int64_t at = find_parent(bfs, neighbours, n);

	if (at < 0)
		return (int)at;
	worker->edges += (uint64_t)at;
	if ((uint64_t)at == n)
		return 0;
	worker->edges++;
	bfs->parent[v] = neighbours[at];
	bfs->visited[v / 64] |= (uint64_t)1 << (v % 64);
	fth_frontier_add_own(&bfs->next, &worker->feeder, v);
	return 1;
}

/* ---- a chunk of vertices ---- */

/* Which vertex of the chunk has edge e: the last whose neighbours begin at e or before. */
static uint64_t owner(const struct fth_bfs_worker *worker, uint64_t e)
{
	uint64_t low = 0, high = worker->count;

	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		if (worker->offsets[middle] <= e)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Unvisited vertices in word w of the chunk, from vertex `from` of it on. */
static uint64_t unvisited(const struct fth_bfs_worker *worker, uint64_t w, uint64_t from)
{
	uint64_t bits = ~worker->bfs->visited[worker->first / 64 + w];

	if (w * 64 < from)
		bits &= UINT64_MAX << (from % 64);
	if (w * 64 + 64 > worker->count)
		bits &= UINT64_MAX >> (w * 64 + 64 - worker->count);
	return bits;
}

/*
 * Edges `first` to `end` of the array are at `elements`: let vertex i of the chunk look at its own.
 */
static int look_at_own(struct fth_bfs_worker *worker, uint64_t i, uint64_t first, uint64_t end,
		       const uint32_t *elements)
{
	uint64_t from = worker->offsets[i], to = worker->offsets[i + 1];
	uint64_t later = i + TOUCH_AHEAD < worker->count ? worker->offsets[i + TOUCH_AHEAD] : end;
	uint32_t v = (uint32_t)(worker->first + i);
	int rc;

	if (later < end && later > first)
		__builtin_prefetch(elements + (later - first));
	from = from > first ? from : first;
	to = to < end ? to : end;
	if (from >= to)
		return 0;
	rc = look(worker, v, elements + (from - first), to - from);
	if (rc == 0)
		keep(&worker->kept, v, elements + (from - first), to - from);
	return rc < 0 ? rc : 0;
}

static int look_at_piece(void *context, size_t which, uint64_t first, const void *elements,
			 uint64_t n)
{
	struct fth_bfs_worker *worker = context;
	uint64_t from = owner(worker, first), end = first + n;
	uint64_t words = (worker->count + 63) / 64;
	int rc = 0;

	(void)which;
	for (uint64_t w = from / 64; w < words && worker->offsets[w * 64] < end && rc == 0; w++)
		for (uint64_t bits = unvisited(worker, w, from); bits && rc == 0; bits &= bits - 1)
			rc = look_at_own(worker, w * 64 + (unsigned)__builtin_ctzll(bits), first,
					 end, elements);
	return rc;
}

/* The edges of unvisited vertices of the chunk as spans: how many. */
static size_t list_spans(const struct fth_bfs_worker *worker)
{
	struct fth_span *spans = worker->spans;
	const uint64_t *offsets = worker->offsets;
	size_t n = 0;

	for (uint64_t w = 0; w * 64 < worker->count; w++)
		for (uint64_t bits = unvisited(worker, w, 0); bits; bits &= bits - 1) {
			uint64_t i = w * 64 + (unsigned)__builtin_ctzll(bits);

			if (offsets[i] == offsets[i + 1])
				continue;
			if (n && offsets[i] - spans[n - 1].first - spans[n - 1].count <= GAP)
				spans[n - 1].count = offsets[i + 1] - spans[n - 1].first;
			else
				spans[n++] =
					(struct fth_span){offsets[i], offsets[i + 1] - offsets[i]};
		}
	return n;
}

static int take_chunk(struct fth_bfs_worker *worker, uint64_t chunk)
{
	struct fth_bfs *bfs = worker->bfs;
	uint64_t n = bfs->graph->info.vertices;

	worker->first = chunk * bfs->chunk;
	worker->count = n - worker->first < bfs->chunk ? n - worker->first : bfs->chunk;
	return fth_graph_offsets(bfs->in, worker->first, worker->count, worker->offset_room,
				 &worker->offsets);
}

static int search_chunk(struct fth_bfs_worker *worker, uint64_t chunk)
{
	struct fth_bfs *bfs = worker->bfs;
	struct fth_bfs_kept *kept = &worker->kept;
	uint64_t before = kept->used;
	bool was_full = kept->full;
	size_t n;
	int rc = take_chunk(worker, chunk);

	if (rc < 0)
		return rc;
	n = list_spans(worker);
	rc = fth_graph_walk(bfs->in, worker->spans, n, look_at_piece, worker);
	if (rc == 0 && (!kept->full || n == 0))
		bfs->states[chunk] = FTH_BFS_KEPT;
	else if (!was_full)
		kept->used = before;
	return rc;
}

/* ---- all chunks ---- */

/* The next open chunk; bfs->chunks if there is none. */
static uint64_t take_open(struct fth_bfs *bfs)
{
	for (;;) {
		uint64_t i = fth_graph_team_take(&bfs->next_chunk, 1, bfs->chunks);

		if (i >= bfs->chunks)
			return bfs->chunks;
		if (bfs->backward)
			i = bfs->chunks - 1 - i;
		if (bfs->states[i] == FTH_BFS_OPEN)
			return i;
	}
}

/*
 * Have the edges of an open chunk fetched, from those of the first unvisited vertex on to the
 * last's.
 */
static void fetch_ahead(const struct fth_bfs *bfs, uint64_t chunk)
{
	const uint64_t *offsets = bfs->in->offsets;
	uint64_t n = bfs->graph->info.vertices, first, end;

	if (!bfs->ahead || !offsets || chunk >= bfs->chunks)
		return;
	first = chunk * bfs->chunk;
	end = n - first < bfs->chunk ? n : first + bfs->chunk;
	if (offsets[first] < offsets[end])
		fth_array_prefetch(bfs->in->edges, offsets[first], offsets[end] - offsets[first]);
}

static uint64_t take_ahead(struct fth_bfs *bfs)
{
	uint64_t chunk = take_open(bfs);

	fetch_ahead(bfs, chunk);
	return chunk;
}

static int work_on_chunks(struct fth_graph_team *team, void *context, unsigned number)
{
	struct fth_bfs *bfs = context;
	struct fth_bfs_worker *worker = &bfs->workers[number];
	uint64_t chunks[AHEAD + 1], chunk;
	unsigned at = 0;
	int rc = 0;

	for (unsigned i = 0; i < AHEAD; i++)
		chunks[i] = take_ahead(bfs);
	while (rc == 0 && (chunk = chunks[at]) < bfs->chunks && !fth_graph_team_failed(team)) {
		chunks[(at + AHEAD) % (AHEAD + 1)] = take_ahead(bfs);
		at = (at + 1) % (AHEAD + 1);
		rc = fth_graph_team_tell(team, number, "searching a level", bfs->chunk * chunk,
					 bfs->graph->info.vertices);
		if (rc == 0)
			rc = search_chunk(worker, chunk);
	}
	fth_feeder_flush(&worker->feeder, &bfs->next);
	return rc;
}

/* ---- kept lists ---- */

/* Let the vertices of a list look, and keep those that have no parent yet. */
static int search_kept(struct fth_bfs_worker *worker, struct fth_bfs_kept *kept)
{
	uint64_t to = 0;

	for (uint64_t from = 0; from < kept->used;) {
		uint32_t *piece = kept->words + from, v = piece[0];
		uint64_t words = (uint64_t)piece[1] + 2;
		int rc = 1;

		from += words;
		if (!fth_bit(worker->bfs->visited, v))
			rc = look(worker, v, piece + 2, words - 2);
		if (rc < 0)
			return rc;
		if (rc == 0) {
			memmove(kept->words + to, piece, words * sizeof(*piece));
			to += words;
		}
	}
	kept->used = to;
	return 0;
}

static int work_on_kept(struct fth_graph_team *team, void *context, unsigned number)
{
	struct fth_bfs *bfs = context;
	struct fth_bfs_worker *worker = &bfs->workers[number];
	uint64_t list;
	int rc = 0;

	while (rc == 0 && !fth_graph_team_failed(team) &&
	       (list = fth_graph_team_take(&bfs->next_chunk, 1, bfs->threads)) < bfs->threads) {
		rc = fth_graph_team_tell(team, number, "searching a level", list, bfs->threads);
		if (rc == 0)
			rc = search_kept(worker, &bfs->workers[list].kept);
	}
	fth_feeder_flush(&worker->feeder, &bfs->next);
	return rc;
}

/* ---- a level ---- */

static uint64_t kept_words(const struct fth_bfs *bfs)
{
	uint64_t words = 0;

	for (unsigned i = 0; i < bfs->threads; i++)
		words += bfs->workers[i].kept.used;
	return words;
}

static uint64_t count_open(const struct fth_bfs *bfs)
{
	uint64_t open = 0;

	for (uint64_t i = 0; i < bfs->chunks; i++)
		open += bfs->states[i] == FTH_BFS_OPEN;
	return open;
}

int fth_bfs_up(struct fth_bfs *bfs, const struct fth_graph_job *job)
{
	uint64_t words = kept_words(bfs);
	int rc = 0;

	for (unsigned i = 0; i < bfs->threads; i++)
		bfs->workers[i].kept.full = false;
	/* Lists first: chunks are added to them. */
	bfs->next_chunk = 0;
	if (words)
		rc = fth_graph_team_run(job, words < KEPT_MIN ? 1 : bfs->threads, work_on_kept,
					bfs);
	bfs->next_chunk = 0;
	if (rc == 0 && bfs->open) {
		rc = fth_graph_team_run(job, bfs->threads, work_on_chunks, bfs);
		bfs->backward = !bfs->backward;
		bfs->open = count_open(bfs);
	}
	for (unsigned i = 0; i < bfs->threads; i++) {
		bfs->edges += bfs->workers[i].edges;
		bfs->workers[i].edges = 0;
	}
	return rc;
}

/* ---- memory ---- */

static void choose_chunk(struct fth_bfs *bfs)
{
	uint64_t n = bfs->graph->info.vertices, edges = bfs->in->info.edges;
	uint64_t bytes = CHUNK_BYTES, share, waiting;
	uint64_t most = n / (CHUNKS_PER * (uint64_t)bfs->threads);
	struct fth_cache_footprint footprint;

	fth_cache_footprint(bfs->in->cache, &footprint);
	share = footprint.data_bytes / CACHE_SHARE / bfs->threads;
	waiting = fth_cache_prefetch_limit(bfs->in->cache) * fth_cache_line_size(bfs->in->cache) /
		  (AHEAD + 1) / bfs->threads;
	if (share > waiting)
		share = waiting;
	bfs->ahead = share >= AHEAD_MIN;
	if (bfs->ahead && bytes > share)
		bytes = share;
	bfs->chunk =
		edges ? (uint64_t)((double)bytes / sizeof(uint32_t) / (double)edges * (double)n)
		      : n;
	if (bfs->chunk > most)
		bfs->chunk = most;
	if (bfs->chunk > bfs->batch)
		bfs->chunk = bfs->batch; /* that is how many spans there is room for */
	bfs->chunk = bfs->chunk / 64 * 64;
	if (bfs->chunk < CHUNK_MIN)
		bfs->chunk = CHUNK_MIN;
	bfs->chunks = (n + bfs->chunk - 1) / bfs->chunk;
	bfs->open = bfs->chunks;
	bfs->line_bytes = fth_cache_line_size(bfs->in->cache);
	bfs->lines = ceil((double)edges * sizeof(uint32_t) / bfs->line_bytes);
	if (bfs->lines > (double)footprint.frames)
		bfs->missing = 1 - (double)footprint.frames / bfs->lines;
}

int fth_bfs_up_init(struct fth_bfs *bfs)
{
	uint64_t limit = bfs->graph->info.vertices / KEPT_SHARE;
	int rc = 0;

	if (limit < KEPT_MIN)
		limit = KEPT_MIN;
	choose_chunk(bfs);
	bfs->states = calloc(bfs->chunks, 1);
	if (!bfs->states)
		return -ENOMEM;
	for (unsigned i = 0; i < bfs->threads && rc == 0; i++) {
		struct fth_bfs_worker *worker = &bfs->workers[i];

		worker->kept.limit = limit / bfs->threads;
		if (bfs->in->offsets)
			continue;
		worker->offset_room = malloc((bfs->chunk + 1) * sizeof(uint64_t));
		rc = worker->offset_room ? 0 : -ENOMEM;
	}
	return rc;
}

void fth_bfs_up_release(struct fth_bfs *bfs)
{
	for (unsigned i = 0; bfs->workers && i < bfs->threads; i++) {
		free(bfs->workers[i].kept.words);
		free(bfs->workers[i].offset_room);
	}
	free(bfs->states);
}

uint64_t fth_bfs_up_bytes(const struct fth_bfs *bfs)
{
	uint64_t bytes = bfs->chunks;

	for (unsigned i = 0; i < bfs->threads; i++)
		bytes += bfs->workers[i].kept.capacity * sizeof(uint32_t);
	return bytes;
}
