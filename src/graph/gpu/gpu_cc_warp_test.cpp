/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connected components by the warps of a GPU, on CPU threads (gpu/warp_fixture.h), against a flood
 * fill. Lanes take turns here where they wait for each other only, so each access to the forest is
 * one of chance: a lane that has looked at a word acts on it after others have, or before. So for
 * warps, which are threads.
 */
#include "graph/gpu/gpu_warp_fixture.h"

#include "fathom/hd/atomic.h"

#include <sched.h>

/* ---- accesses to the forest, at which another lane or warp may have its turn ---- */

static thread_local uint32_t chance = 1;

static void take_turns(void)
{
	if (!fixture_here)
		return; /* not a lane: the test itself */
	chance ^= chance << 13;
	chance ^= chance >> 17;
	chance ^= chance << 5;
	if (chance % 4 == 0)
		fixture_change_over();
	else if (chance % 16 == 1)
		sched_yield();
}

static uint32_t load_in_turns(const uint32_t *at)
{
	take_turns();
	return fth_load_relaxed_dev32(at);
}

static void store_in_turns(uint32_t *at, uint32_t value)
{
	take_turns();
	fth_store_relaxed_dev32(at, value);
}

static bool cas_in_turns(uint32_t *at, uint32_t *expected, uint32_t value)
{
	take_turns();
	return fth_cas_relaxed_dev32(at, expected, value);
}

#define fth_load_relaxed_dev32	load_in_turns
#define fth_store_relaxed_dev32 store_in_turns
#define fth_cas_relaxed_dev32	cas_in_turns
#include "graph/gpu/gpu_forest.h"
#undef fth_load_relaxed_dev32
#undef fth_store_relaxed_dev32
#undef fth_cas_relaxed_dev32

#include "graph/gpu/gpu_steps.h"

#include "fathom/base/rng.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#define WARPS 4

/* ---- graphs ---- */

struct edge {
	uint32_t from, to;
};

struct lists {
	std::vector<uint64_t> offsets;
	std::vector<uint32_t> neighbours, owner;
};

static struct lists make_lists(uint32_t vertices, const std::vector<struct edge> &edges, bool both)
{
	struct lists l;
	std::vector<uint64_t> at;

	l.offsets.assign(vertices + 1, 0);
	for (const struct edge &e : edges) {
		l.offsets[e.from + 1]++;
		if (both)
			l.offsets[e.to + 1]++;
	}
	for (uint32_t v = 0; v < vertices; v++)
		l.offsets[v + 1] += l.offsets[v];
	at = l.offsets;
	l.neighbours.resize(l.offsets[vertices] + 1);
	for (const struct edge &e : edges) {
		l.neighbours[at[e.from]++] = e.to;
		if (both)
			l.neighbours[at[e.to]++] = e.from;
	}
	for (uint32_t v = 0; v < vertices; v++)
		for (uint64_t e = l.offsets[v]; e < l.offsets[v + 1]; e++)
			if (e % GRAPH_PIECE == 0)
				l.owner.push_back(v);
	l.owner.push_back(vertices - 1);
	return l;
}

/* From the smallest vertex that has no label yet, along all edges in both directions. */
static uint64_t flood(uint32_t vertices, const std::vector<struct edge> &edges,
		      std::vector<uint32_t> *label)
{
	struct lists l = make_lists(vertices, edges, true);
	std::vector<uint32_t> todo;
	uint64_t components = 0;

	label->assign(vertices, FTH_GRAPH_NONE);
	for (uint32_t v = 0; v < vertices; v++) {
		if ((*label)[v] != FTH_GRAPH_NONE)
			continue;
		components++;
		(*label)[v] = v;
		todo.push_back(v);
		while (!todo.empty()) {
			uint32_t u = todo.back();

			todo.pop_back();
			for (uint64_t e = l.offsets[u]; e < l.offsets[u + 1]; e++)
				if ((*label)[l.neighbours[e]] == FTH_GRAPH_NONE) {
					(*label)[l.neighbours[e]] = v;
					todo.push_back(l.neighbours[e]);
				}
		}
	}
	return components;
}

/* ---- a sweep ---- */

struct job {
	struct graph_view view;
	struct graph_plain source;
	struct graph_cc step;
	bool backward;
	uint32_t chance;
	pthread_t thread;
};

static void lane_body(void *arg, uint32_t)
{
	struct job *job = (struct job *)arg;

	graph_sweep(job->view, job->source, job->step, job->backward);
}

static void *warp_thread(void *arg)
{
	chance = ((struct job *)arg)->chance;
	fixture_run_warp(lane_body, arg);
	return NULL;
}

/* Odd seeds go backward. */
static void sweep(const struct graph_view &view, const struct graph_plain &source,
		  const struct graph_cc &step, uint32_t seed)
{
	struct job jobs[WARPS];

	for (uint32_t i = 0; i < WARPS; i++) {
		jobs[i] = {view, source, step, seed % 2 != 0, seed * WARPS + i + 1, {}};
		assert_int_equal(pthread_create(&jobs[i].thread, NULL, warp_thread, &jobs[i]), 0);
	}
	for (uint32_t i = 0; i < WARPS; i++)
		pthread_join(jobs[i].thread, NULL);
}

/* Edges from vertices to themselves, so many that there is work for all warps. */
static std::vector<struct edge> with_loops(uint32_t vertices, std::vector<struct edge> edges)
{
	for (uint32_t i = 0; i < WARPS * GRAPH_TAKE * GRAPH_PIECE; i++)
		edges.push_back({i % vertices, i % vertices});
	return edges;
}

static void check(uint32_t vertices, const std::vector<struct edge> &edges, bool undirected,
		  uint32_t seed)
{
	struct lists l = make_lists(vertices, edges, undirected);
	std::vector<uint32_t> parent(vertices), label;
	uint64_t components = flood(vertices, edges, &label);
	struct graph_report report = {};
	struct graph_view view = {l.offsets.data(),
				  l.owner.data(),
				  vertices,
				  l.offsets[vertices],
				  l.owner.size() - 1,
				  &report};
	struct graph_plain source = {l.neighbours.data(), NULL};
	struct graph_cc step = {};

	for (uint32_t v = 0; v < vertices; v++)
		parent[v] = v;
	step.parent = parent.data();
	step.undirected = undirected;
	sweep(view, source, step, seed);
	assert_int_equal(report.rc, 0);
	for (uint32_t v = 0; v < vertices; v++)
		assert_true(parent[v] <= v);
	for (uint32_t v = 0; v < vertices; v++)
		graph_forest_flatten(parent.data(), v);
	for (uint32_t v = 0; v < vertices; v++)
		assert_int_equal(parent[v], label[v]);
	/* Each time that two trees became one was counted once. */
	assert_int_equal(vertices - report.found, components);
}

static void check_both(uint32_t vertices, const std::vector<struct edge> &edges)
{
	std::vector<struct edge> more = with_loops(vertices, edges);

	/* By one warp where they are few, and by all. */
	for (uint32_t seed = 0; seed < 4; seed++)
		check(vertices, seed % 2 ? more : edges, seed / 2, seed);
}

/* ---- tests ---- */

static std::vector<struct edge> random_edges(uint32_t vertices, uint32_t edges, struct fth_rng *rng)
{
	std::vector<struct edge> list;

	for (uint32_t i = 0; i < edges; i++)
		list.push_back({(uint32_t)fth_rng_below(rng, vertices),
				(uint32_t)fth_rng_below(rng, vertices)});
	return list;
}

/* Fewer edges than vertices: trees of all sizes, loops, and vertices by themselves. */
static void many_components(void **)
{
	struct fth_rng rng = {5};

	check_both(1500, random_edges(1500, 600, &rng));
	check_both(1500, random_edges(1500, 1200, &rng));
}

/* Few vertices, so that all lanes of all warps want the same roots. */
static void crowds(void **)
{
	struct fth_rng rng = {6};

	for (uint32_t i = 0; i < 10; i++)
		check(40, random_edges(40, 9000, &rng), i % 4 < 2, i);
	for (uint32_t i = 0; i < 10; i++)
		check(400, random_edges(400, 9000, &rng), i % 4 < 2, i);
}

static void no_edges(void **)
{
	check_both(1, {});
	check_both(77, {});
}

static void loops_and_the_same_edge_often(void **)
{
	std::vector<struct edge> edges;

	for (uint32_t v = 0; v < 50; v++)
		for (uint32_t i = 0; i < 20; i++) {
			edges.push_back({v, v});
			edges.push_back({v, (v + 10) % 50});
			edges.push_back({(v + 10) % 50, v});
		}
	check_both(50, edges);
	edges.assign(2500, {3, 3});
	check_both(5, edges);
}

static std::vector<uint32_t> shuffled_vertices(uint32_t n, uint64_t seed)
{
	std::vector<uint32_t> order(n);
	struct fth_rng rng = {seed};

	for (uint32_t v = 0; v < n; v++)
		order[v] = v;
	for (uint32_t v = n - 1; v > 0; v--)
		std::swap(order[v], order[fth_rng_below(&rng, v + 1)]);
	return order;
}

/* Ways as long as can be: in order, in the other order, and in any. */
static void long_paths(void **)
{
	const uint32_t n = 1200;
	std::vector<uint32_t> order = shuffled_vertices(n, 7);
	std::vector<struct edge> up, down, shuffled;

	for (uint32_t v = 0; v + 1 < n; v++) {
		up.push_back({v, v + 1});
		down.push_back({v + 1, v});
		if (v % 300 != 299) /* four of them */
			shuffled.push_back({order[v], order[v + 1]});
	}
	check_both(n, up);
	check_both(n, down);
	check_both(n, shuffled);
}

/* Random trees: no edge can be spared. */
static void trees(void **)
{
	const uint32_t n = 2000;
	std::vector<uint32_t> order = shuffled_vertices(n, 8);
	std::vector<struct edge> edges;
	struct fth_rng rng = {9};

	for (uint32_t v = 3; v < n; v++) /* of three parts */
		edges.push_back({order[v], order[fth_rng_below(&rng, v)]});
	check_both(n, edges);
}

/* One list in many pieces, and the vertex in the middle of the numbers. */
static void stars(void **)
{
	std::vector<struct edge> out, in;

	for (uint32_t v = 0; v < 2700; v++)
		if (v != 1700 && v % 5 != 4) {
			out.push_back({1700, v});
			in.push_back({v, 1700});
		}
	check_both(2700, out);
	check_both(2700, in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_components),
		cmocka_unit_test(crowds),
		cmocka_unit_test(no_edges),
		cmocka_unit_test(loops_and_the_same_edge_often),
		cmocka_unit_test(long_paths),
		cmocka_unit_test(trees),
		cmocka_unit_test(stars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
