/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_peer.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_MAX 256
#define CHUNK	    16384u /* vertices that a thread takes at once; a multiple of 64 */
#define AT_ONCE	    256u   /* neighbours of a vertex that are looked at together */
#define HUGE_PAGE   ((size_t)2 << 20)
#define DAMPING	    0.85

/* ---- the file ---- */

static int read_all(int fd, void *buf, size_t length, uint64_t at)
{
	for (size_t done = 0; done < length;) {
		ssize_t n = pread(fd, (char *)buf + done, length - done, (off_t)(at + done));

		if (n <= 0)
			return fth_fail(n < 0 ? errno : EIO, "cannot read the graph");
		done += (size_t)n;
	}
	return 0;
}

static int map_file(struct graph_peer *peer, int fd, const struct fth_graph_info *info, bool random)
{
	size_t bytes = (info->vertices + 1) * sizeof(uint64_t);
	int rc;

	peer->offsets = malloc(bytes);
	if (!peer->offsets)
		return -ENOMEM;
	rc = read_all(fd, peer->offsets, bytes, info->offsets_at);
	/* What was read once and is kept in memory need not take page cache as well. */
	posix_fadvise(fd, 0, (off_t)info->edges_at, POSIX_FADV_DONTNEED);
	if (rc < 0)
		return rc;
	peer->map_bytes = info->bytes;
	peer->map = mmap(NULL, info->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (peer->map == MAP_FAILED) {
		peer->map = NULL;
		return fth_fail(errno, "cannot map the graph");
	}
	if (random && madvise(peer->map, info->bytes, MADV_RANDOM) < 0)
		return fth_fail(errno, "madvise");
	peer->neighbours = (const uint32_t *)((const char *)peer->map + info->edges_at);
	return 0;
}

int graph_peer_open(struct graph_peer *peer, const char *path, const struct fth_graph_info *info,
		    bool random, unsigned threads)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	*peer = (struct graph_peer){
		.vertices = info->vertices, .edges = info->edges, .threads = threads};
	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	rc = map_file(peer, fd, info, random);
	close(fd);
	if (rc < 0)
		graph_peer_close(peer);
	return rc;
}

void graph_peer_close(struct graph_peer *peer)
{
	if (peer->map)
		munmap(peer->map, peer->map_bytes);
	free(peer->offsets);
	*peer = (struct graph_peer){0};
}

/* Memory for something about each vertex, in huge pages if it is large: as ours. */
static void *state_alloc(uint64_t count, size_t size)
{
	uint64_t bytes = (count * size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	void *memory =
		count * size < HUGE_PAGE ? malloc(count * size) : aligned_alloc(HUGE_PAGE, bytes);

	if (memory && count * size >= HUGE_PAGE)
		madvise(memory, bytes, MADV_HUGEPAGE);
	return memory ? memset(memory, 0, count * size) : NULL;
}

/* ---- threads ---- */

/* All of them run it; the caller is one. A thread that cannot be had is done without. */
static void together(unsigned threads, void *(*fn)(void *), void *context)
{
	pthread_t thread[THREADS_MAX];
	unsigned started = 0;

	while (started + 1 < threads && started < THREADS_MAX &&
	       pthread_create(&thread[started], NULL, fn, context) == 0)
		started++;
	fn(context);
	while (started > 0)
		pthread_join(thread[--started], NULL);
}

static uint64_t take(uint64_t *next, uint64_t vertices)
{
	/* relaxed: each number is given out once. */
	uint64_t first = fth_add_relaxed_dev64(next, CHUNK);

	return first < vertices ? first : vertices;
}

/* ---- breadth-first search ---- */

struct search {
	const struct graph_peer *peer;
	uint32_t *parent;
	uint64_t *visited, *now, *later; /* bitmaps */
	uint64_t next, found;
};

/* As ours: pick out those not visited without a branch, then look at these. */
static uint64_t visit_some(struct search *s, uint32_t v, const uint32_t *neighbours, uint32_t n)
{
	uint32_t unvisited[AT_ONCE], count = 0;
	uint64_t found = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t w = neighbours[i];

		unvisited[count] = w;
		count += !(fth_load_relaxed_dev64(&s->visited[w / 64]) >> (w % 64) & 1);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t w = unvisited[i];
		uint64_t bit = (uint64_t)1 << (w % 64);

		/* Atomic: one thread becomes the parent. */
		if (fth_or_acqrel_dev64(&s->visited[w / 64], bit) & bit)
			continue;
		fth_or_acqrel_dev64(&s->later[w / 64], bit);
		s->parent[w] = v;
		found++;
	}
	return found;
}

static uint64_t visit(struct search *s, uint32_t v)
{
	const struct graph_peer *peer = s->peer;
	uint64_t at = peer->offsets[v], end = peer->offsets[v + 1], found = 0;

	for (; at < end; at += AT_ONCE)
		found += visit_some(s, v, peer->neighbours + at,
				    end - at < AT_ONCE ? (uint32_t)(end - at) : AT_ONCE);
	return found;
}

static void *search_level(void *context)
{
	struct search *s = context;
	uint64_t first, n = s->peer->vertices, found = 0;

	while ((first = take(&s->next, n)) < n)
		for (uint64_t w = first / 64; w < (first + CHUNK) / 64 && w < (n + 63) / 64; w++)
			for (uint64_t bits = s->now[w]; bits; bits &= bits - 1)
				found += visit(
					s, (uint32_t)(w * 64 + (unsigned)__builtin_ctzll(bits)));
	fth_add_relaxed_dev64(&s->found, found);
	return NULL;
}

static void search_all(struct search *s, uint32_t source, struct fth_graph_bfs *out)
{
	uint64_t words = (s->peer->vertices + 63) / 64;

	memset(s->parent, 0xff, s->peer->vertices * sizeof(*s->parent));
	s->parent[source] = source;
	s->visited[source / 64] = s->now[source / 64] = (uint64_t)1 << (source % 64);
	out->reached = 1;
	for (s->found = 1; s->found > 0; out->work.rounds++) {
		uint64_t *swap = s->now;

		s->next = s->found = 0;
		together(s->peer->threads, search_level, s);
		s->now = s->later;
		s->later = swap;
		memset(s->later, 0, words * sizeof(*s->later));
		out->reached += s->found;
	}
	out->depth = out->work.rounds - 1;
}

int graph_peer_bfs(struct graph_peer *peer, uint32_t source, struct fth_graph_bfs *out)
{
	uint64_t words = (peer->vertices + 63) / 64, begin = fth_now_ns();
	struct search s = {.peer = peer};
	int rc = 0;

	*out = (struct fth_graph_bfs){0};
	s.parent = state_alloc(peer->vertices, sizeof(*s.parent));
	s.visited = state_alloc(words, sizeof(*s.visited));
	s.now = state_alloc(words, sizeof(*s.now));
	s.later = state_alloc(words, sizeof(*s.later));
	if (s.parent && s.visited && s.now && s.later)
		search_all(&s, source, out);
	else
		rc = -ENOMEM;
	free(s.visited);
	free(s.now);
	free(s.later);
	if (rc < 0)
		free(s.parent);
	else
		out->parent = s.parent;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}

/* ---- PageRank ---- */

struct ranking {
	const struct graph_peer *peer;
	double *rank;
	float *give, *next_give;
	uint64_t next;
	double base;
	double dangling;
	pthread_mutex_t lock; /* dangling */
};

static double sum_of(const struct ranking *r, uint64_t v)
{
	const uint32_t *at = r->peer->neighbours + r->peer->offsets[v];
	uint64_t n = r->peer->offsets[v + 1] - r->peer->offsets[v], i = 0;
	double a = 0, b = 0, c = 0, d = 0;

	for (; i + 4 <= n; i += 4) {
		a += r->give[at[i]];
		b += r->give[at[i + 1]];
		c += r->give[at[i + 2]];
		d += r->give[at[i + 3]];
	}
	for (; i < n; i++)
		a += r->give[at[i]];
	return (a + b) + (c + d);
}

static double settle(struct ranking *r, uint64_t v, double sum)
{
	uint64_t degree = r->peer->offsets[v + 1] - r->peer->offsets[v];
	double rank = r->base + DAMPING * sum;

	r->rank[v] = rank;
	r->next_give[v] = degree ? (float)(rank / (double)degree) : 0;
	return degree ? 0 : rank;
}

static void *rank_all(void *context)
{
	struct ranking *r = context;
	uint64_t first, n = r->peer->vertices;
	double dangling = 0;

	while ((first = take(&r->next, n)) < n)
		for (uint64_t v = first; v < first + CHUNK && v < n; v++)
			dangling += settle(r, v, sum_of(r, v));
	pthread_mutex_lock(&r->lock);
	r->dangling += dangling;
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void turn_over(struct ranking *r)
{
	float *swap = r->give;
	double n = (double)r->peer->vertices;

	r->base = (1 - DAMPING) / n + DAMPING * r->dangling / n;
	r->dangling = 0;
	r->next = 0;
	r->give = r->next_give;
	r->next_give = swap;
}

static void iterate(struct ranking *r, unsigned iterations)
{
	r->base = 1 / (double)r->peer->vertices;
	for (uint64_t v = 0; v < r->peer->vertices; v++)
		r->dangling += settle(r, v, 0);
	turn_over(r);
	for (unsigned i = 0; i < iterations; i++) {
		together(r->peer->threads, rank_all, r);
		turn_over(r);
	}
}

int graph_peer_pagerank(struct graph_peer *peer, unsigned iterations,
			struct fth_graph_pagerank *out)
{
	struct ranking r = {.peer = peer};
	uint64_t begin = fth_now_ns();
	int rc = 0;

	*out = (struct fth_graph_pagerank){0};
	pthread_mutex_init(&r.lock, NULL);
	r.rank = state_alloc(peer->vertices, sizeof(*r.rank));
	r.give = state_alloc(peer->vertices, sizeof(*r.give));
	r.next_give = state_alloc(peer->vertices, sizeof(*r.next_give));
	if (r.rank && r.give && r.next_give)
		iterate(&r, iterations);
	else
		rc = -ENOMEM;
	pthread_mutex_destroy(&r.lock);
	free(r.give);
	free(r.next_give);
	if (rc < 0)
		free(r.rank);
	else
		out->rank = r.rank;
	out->work.rounds = iterations;
	out->work.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
