/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sweeps and steps of graphs on a GPU, on CPU threads (gpu/warp_fixture.h), against the
 * algorithms for CPUs. Runs where there is no GPU.
 */
#include "graph/gpu/gpu_warp_fixture.h"

#include "graph/gpu/gpu_fixture.h"
#include "graph/gpu/gpu_steps.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

extern "C" {
#include <cmocka.h>
}

#define WARPS  2
#define WINDOW 128u

/* ---- a source of short windows, each in memory of its own: reading past one is found ---- */

struct lines {
	uint32_t **edges, **weights;
	uint32_t together; /* lines of 512 bytes that come at once */
	bool strict;	   /* nothing is read but what was announced, and what comes with it */

	uint32_t window(void) const
	{
		return WINDOW;
	}

	uint32_t at_hand(uint32_t wanted) const
	{
		return graph_whole_lines(wanted, together);
	}
};

/* Every third line is another's when it is read first: edges to vertex 0, of no weight. */
static const uint32_t another[WINDOW] = {0};

struct lines_reader {
	uint32_t wanted; /* bits that were announced for the piece, */
	uint64_t piece;	 /* whose first edge this is */
	uint64_t line;
	bool replaced;

	const uint32_t *edge(const struct lines &from, uint64_t e, int *)
	{
		assert_true(!from.strict ||
			    from.at_hand(wanted) >> e % GRAPH_PIECE / GRAPH_FINE & 1);
		if (e / WINDOW != line) {
			line = e / WINDOW;
			replaced = line % 3 == 1;
		}
		return (replaced ? another : from.edges[line]) + e % WINDOW;
	}

	const uint32_t *weight(const struct lines &from, uint64_t e, int *)
	{
		return (replaced ? another : from.weights[e / WINDOW]) + e % WINDOW;
	}

	static uint32_t load(const uint32_t *at)
	{
		return *at;
	}

	bool good(const struct lines &, bool)
	{
		return !replaced;
	}

	int hold(const struct lines &, bool)
	{
		replaced = false;
		return 0;
	}

	int ahead(const struct lines &, uint64_t first, uint32_t lines, bool)
	{
		wanted = lines | (piece == first ? wanted : 0);
		piece = first;
		return lines == 0 || lines > 0xff ? -EINVAL : 0;
	}

	void close(const struct lines &)
	{
	}
};

static struct lines_reader graph_open_reader(const struct lines &)
{
	return lines_reader();
}

static uint32_t **cut(const uint32_t *from, uint64_t n)
{
	uint64_t count = n / WINDOW + 1;
	uint32_t **to = (uint32_t **)calloc(count + 1, sizeof(*to));

	for (uint64_t i = 0; i < count; i++) {
		uint64_t some = n - i * WINDOW < WINDOW ? n - i * WINDOW : WINDOW;

		to[i] = (uint32_t *)malloc(some * 4 + 1);
		memcpy(to[i], from + i * WINDOW, some * 4);
	}
	return to;
}

static void release_cut(uint32_t **cut)
{
	for (uint32_t **at = cut; *at; at++)
		free(*at);
	free(cut);
}

/* ---- sweeps by warps that are threads ---- */

struct side {
	struct graph_bed bed;
	struct graph_view view;
	struct graph_report report;
	uint32_t *owner;
	struct lines lines;
	struct graph_plain plain;
	uint64_t words; /* of a set */
	uint64_t taken; /* vertices that a search found a level early */
	uint32_t *now, *next, *visited, *later, *spent, *spent_cut;
	uint64_t cut_words;
};

template <typename Source, typename Step> struct job {
	const struct side *side;
	const Source *source;
	Step step;
	bool backward;
	pthread_t thread;
};

template <typename Source, typename Step> static void lane_body(void *arg, uint32_t)
{
	struct job<Source, Step> *job = (struct job<Source, Step> *)arg;

	graph_sweep(job->side->view, *job->source, job->step, job->backward);
}

template <typename Source, typename Step> static void *warp_thread(void *arg)
{
	fixture_run_warp(lane_body<Source, Step>, arg);
	return NULL;
}

template <typename Source, typename Step>
static void sweep(struct side *s, const Source &source, const Step &step, bool backward)
{
	struct job<Source, Step> jobs[WARPS];

	memset(&s->report, 0, sizeof(s->report));
	for (uint32_t i = 0; i < WARPS; i++) {
		jobs[i] = {s, &source, step, backward, {}};
		assert_int_equal(
			pthread_create(&jobs[i].thread, NULL, warp_thread<Source, Step>, &jobs[i]),
			0);
	}
	for (uint32_t i = 0; i < WARPS; i++)
		pthread_join(jobs[i].thread, NULL);
}

static void next_round(struct side *s)
{
	uint32_t *swap = s->now;

	s->now = s->next;
	s->next = swap;
	memset(s->next, 0, s->words * 4);
}

/* ---- the algorithms, with what the host does between sweeps ---- */

/* What the last level put down for later, as a kernel of its own does. */
static void take_later(struct side *s, struct graph_bfs_push step)
{
	for (uint64_t word = 0; word < s->words; word++)
		step.take_later(word);
	s->taken += step.found;
	s->report.found += step.found;
}

static void start_bfs(struct side *s, uint32_t *level)
{
	uint32_t v = s->bed.source;

	memset(level, 0xff, s->view.vertices * 4);
	memset(s->visited, 0, s->words * 4);
	memset(s->now, 0, s->words * 4);
	memset(s->next, 0, s->words * 4);
	memset(s->later, 0, s->words * 4);
	memset(s->spent, 0, s->words * 4);
	memset(s->spent_cut, 0, s->cut_words * 4);
	level[v] = 0;
	s->now[v / 32] |= 1u << v % 32;
	s->visited[v / 32] |= 1u << v % 32;
	s->taken = 0;
}

template <typename Source> static void check_bfs(struct side *s, const Source &source, bool pull)
{
	uint64_t n = s->view.vertices, found = 1;
	uint32_t *level = (uint32_t *)malloc(n * 4);
	struct graph_bfs_push push = {};
	struct graph_bfs_pull pulling = {};

	start_bfs(s, level);
	push.early = true;
	push.undirected = s->bed.memory.undirected;
	push.later = s->later;
	push.spent = s->spent;
	push.spent_cut = s->spent_cut;
	for (uint32_t depth = 1; found; depth++) {
		struct graph_bfs all = {s->view.offsets, s->now, s->next, s->visited,
					level,		 depth,	 0,	  0};

		(struct graph_bfs &)push = all;
		(struct graph_bfs &)pulling = all;
		s->report.found = 0;
		take_later(s, push);
		found = s->report.found;
		if (pull && depth % 2 == 0)
			sweep(s, source, pulling, false);
		else
			sweep(s, source, push, depth % 3 == 0);
		assert_int_equal(s->report.rc, 0);
		found += s->report.found;
		next_round(s);
	}
	assert_int_equal(graph_bed_differ(level, s->bed.level, 4, n), 0);
	free(level);
}

template <typename Source> static void check_cc(struct side *s, const Source &source)
{
	uint64_t n = s->view.vertices;
	struct graph_cc step = {};

	step.undirected = s->bed.memory.undirected;
	step.parent = (uint32_t *)malloc(n * 4);
	for (uint64_t v = 0; v < n; v++)
		step.parent[v] = (uint32_t)v;
	sweep(s, source, step, false);
	assert_int_equal(s->report.rc, 0);
	assert_int_equal(n - s->report.found, s->bed.cc.components);
	for (uint64_t v = 0; v < n; v++)
		graph_forest_flatten(step.parent, (uint32_t)v);
	assert_int_equal(graph_bed_differ(step.parent, s->bed.cc.label, 4, n), 0);
	free(step.parent);
}

template <typename Source> static void check_sssp(struct side *s, const Source &source)
{
	uint64_t n = s->view.vertices;
	struct graph_sssp step = {};
	uint32_t v = s->bed.source;
	bool first = true;

	step.distance = (graph_u64 *)malloc(n * 8);
	memset(step.distance, 0xff, n * 8);
	step.distance[v] = 0;
	memset(s->now, 0, s->words * 4);
	memset(s->next, 0, s->words * 4);
	s->now[v / 32] |= 1u << v % 32;
	while (first || s->report.found) {
		first = false;
		step.now = s->now;
		step.next = s->next;
		sweep(s, source, step, false);
		assert_int_equal(s->report.rc, 0);
		next_round(s);
	}
	assert_int_equal(graph_bed_differ(step.distance, s->bed.paths.distance, 8, n), 0);
	free(step.distance);
}

/* One iteration's sums, by either way. */
template <typename Source> static void check_rank(struct side *s, const Source &source)
{
	uint64_t n = s->view.vertices;
	const struct fth_graph_memory *m = &s->bed.memory;
	float *give = (float *)malloc(n * 4);
	double *sum[2], *wanted = (double *)calloc(n, 8);
	struct graph_rank_pull pull = {};
	struct graph_rank_push push = {};

	for (uint64_t v = 0; v < n; v++)
		give[v] = 1.0f / (float)(v + 3);
	for (uint64_t v = 0; v < n; v++)
		for (uint64_t e = m->offsets[v]; e < m->offsets[v + 1]; e++)
			wanted[m->neighbours[e]] += give[v];
	sum[0] = (double *)calloc(n, 8);
	sum[1] = (double *)calloc(n, 8);
	(struct graph_rank &)pull = {give, sum[0]};
	(struct graph_rank &)push = {give, sum[1]};
	sweep(s, source, push, true);
	if (m->undirected)
		sweep(s, source, pull, false);
	for (uint64_t v = 0; v < n; v++) {
		assert_true(fabs(sum[1][v] - wanted[v]) <= 1e-9 * wanted[v]);
		assert_true(!m->undirected || fabs(sum[0][v] - wanted[v]) <= 1e-9 * wanted[v]);
	}
	free(give);
	free(wanted);
	free(sum[0]);
	free(sum[1]);
}

/* ---- graphs ---- */

static void open_side(struct side *s, const struct fth_graph_generate *what, const char *text,
		      bool undirected)
{
	struct fth_graph_memory *m;

	*s = {};
	s->bed = graph_bed_open(what, text, undirected);
	m = &s->bed.memory;
	s->view.offsets = m->offsets;
	s->view.vertices = m->vertices;
	s->view.edges = m->edges;
	s->view.pieces = (m->edges + GRAPH_PIECE - 1) / GRAPH_PIECE;
	s->view.report = &s->report;
	s->owner = (uint32_t *)calloc(s->view.pieces + 1, 4);
	for (uint64_t v = 0; v < m->vertices; v++)
		for (uint64_t e = m->offsets[v]; e < m->offsets[v + 1]; e++)
			if (e % GRAPH_PIECE == 0)
				s->owner[e / GRAPH_PIECE] = (uint32_t)v;
	s->owner[s->view.pieces] = (uint32_t)m->vertices - 1;
	s->view.owner = s->owner;
	s->plain = {m->neighbours, m->weights};
	s->lines = {cut(m->neighbours, m->edges), cut(m->weights, m->edges), 1, false};
	s->words = (m->vertices + 31) / 32;
	s->now = (uint32_t *)malloc(s->words * 4);
	s->next = (uint32_t *)malloc(s->words * 4);
	s->visited = (uint32_t *)malloc(s->words * 4);
	s->later = (uint32_t *)malloc(s->words * 4);
	s->spent = (uint32_t *)malloc(s->words * 4);
	s->cut_words = s->view.pieces * (GRAPH_PIECE / GRAPH_FINE) * 2 / 32 + 1;
	s->spent_cut = (uint32_t *)malloc(s->cut_words * 4);
}

static void close_side(struct side *s)
{
	free(s->now);
	free(s->next);
	free(s->visited);
	free(s->later);
	free(s->spent);
	free(s->spent_cut);
	free(s->owner);
	release_cut(s->lines.edges);
	release_cut(s->lines.weights);
	graph_bed_close(&s->bed);
}

static void check_all(struct side *s)
{
	check_bfs(s, s->plain, false);
	assert_int_equal(s->taken, 0);
	s->lines.strict = true;
	for (s->lines.together = 1; s->lines.together <= 8; s->lines.together *= 2)
		check_bfs(s, s->lines, false);
	s->lines.strict = false;
	if (s->bed.memory.undirected)
		check_bfs(s, s->lines, true);
	check_cc(s, s->plain);
	check_cc(s, s->lines);
	check_sssp(s, s->plain);
	check_sssp(s, s->lines);
	check_rank(s, s->lines);
}

static void generated_graphs(void **)
{
	static const struct fth_graph_generate what[] = {
		{FTH_GRAPH_KRONECKER, 9, 16, 4, true},
		{FTH_GRAPH_UNIFORM, 9, 6, 9, true},
	};

	for (int i = 0; i < 2; i++) {
		struct side s;

		open_side(&s, &what[i], NULL, true);
		check_all(&s);
		s.lines.together = 8;
		check_bfs(&s, s.lines, false);
		assert_true(s.taken > 0);
		close_side(&s);
	}
}

static void small_and_directed_graphs(void **)
{
	static const char *const texts[] = {
		"0 1 5\n1 2 1\n0 2 9\n2 2 3\n40 3 1\n",
		"0 1 4\n1 2 1\n2 0 1\n3 2 8\n4 3 1\n0 5 30\n2 5 9\n70 69 1\n",
	};

	for (int i = 0; i < 2; i++) {
		struct side s;

		open_side(&s, NULL, texts[i], i == 0);
		check_all(&s);
		close_side(&s);
	}
}

/* A star: one list in many pieces. */
static void a_list_over_many_pieces(void **)
{
	size_t used = 0;
	char *text = (char *)malloc(4000 * 24);
	struct side s;

	for (unsigned i = 1; i < 4000; i++)
		used += (size_t)sprintf(text + used, "17 %u %u\n", i == 17 ? 0 : i, i % 7);
	open_side(&s, NULL, text, true);
	assert_true(s.view.pieces >= 7);
	check_all(&s);
	close_side(&s);
	free(text);
}

static void damage_is_found(void **)
{
	static const struct fth_graph_generate what = {FTH_GRAPH_UNIFORM, 8, 8, 9, true};
	static const uint32_t neighbours[] = {256, FTH_GRAPH_NONE};
	struct graph_rank_push push = {};
	struct side s;

	open_side(&s, &what, NULL, true);
	push.give = (float *)calloc(256, 4);
	push.sum = (double *)calloc(256, 8);
	for (uint32_t bad : neighbours) {
		s.bed.memory.neighbours[777] = bad;
		sweep(&s, s.plain, push, false);
		assert_int_equal(s.report.rc, -EBADMSG);
		assert_int_equal(s.report.bad, bad);
	}
	free((void *)push.give);
	free(push.sum);
	close_side(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(generated_graphs),
		cmocka_unit_test(small_and_directed_graphs),
		cmocka_unit_test(a_list_over_many_pieces),
		cmocka_unit_test(damage_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
