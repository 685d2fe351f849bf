/* SPDX-License-Identifier: BSD-2-Clause */
/* Each algorithm on each graph, through caches that hold little of it, against the plain one. */
#include "graph/graph_fixture.h"

#include "graph/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct graph_view views[] = {
	{.line = 512, .frames = 16, .threads = 1},
	{.line = 512, .frames = 64, .threads = 3, .offsets_on_device = true},
	{.line = 4096, .frames = 8, .threads = 2},
	{.line = 4096, .frames = 8, .threads = 2, .compact = true, .offsets_on_device = true},
	{.line = 65536, .frames = 4, .threads = 1},
	{.line = 65536, .frames = 4, .threads = 4, .compact = true},
	{0},
};

typedef void (*check_fn)(struct graph_fixture *f);

static void on_all_graphs(check_fn check)
{
	for (const struct graph_shape *shape = graph_shapes; shape->name; shape++) {
		struct graph_fixture f;

		graph_fixture_build(&f, shape);
		for (const struct graph_view *view = views; view->line; view++) {
			graph_fixture_open(&f, view);
			check(&f);
			graph_fixture_close(&f);
		}
		graph_fixture_release(&f);
	}
}

/* ---- the algorithms ---- */

static void check_bfs(struct graph_fixture *f)
{
	uint64_t n = fth_graph_info(f->graph)->vertices;
	const uint64_t sources[] = {0, n / 2, n - 1};

	for (int i = 0; i < 3; i++) {
		struct fth_graph_bfs tree;

		assert_ok(fth_graph_bfs(f->graph, sources[i], &f->job, &tree));
		assert_ok(fth_graph_check_bfs(&f->memory, sources[i], &tree));
		assert_true(tree.work.edges <= f->memory.edges);
		assert_true(tree.work.state_bytes >= n * 4);
		fth_graph_bfs_release(&tree);
	}
}

static void searching_reaches_each_vertex_by_a_shortest_way(void **state)
{
	(void)state;
	on_all_graphs(check_bfs);
}

static void check_cc(struct graph_fixture *f)
{
	struct fth_graph_cc cc;

	assert_ok(fth_graph_cc(f->graph, &f->job, &cc));
	assert_ok(fth_graph_check_cc(&f->memory, &cc));
	assert_true(cc.largest >= 1 && cc.largest <= f->memory.vertices);
	assert_true(cc.work.edges <= f->memory.edges);
	fth_graph_cc_release(&cc);
}

static void components_are_those_of_union_find(void **state)
{
	(void)state;
	on_all_graphs(check_cc);
}

static void check_pagerank(struct graph_fixture *f)
{
	static const struct fth_graph_pagerank_options options[] = {
		{.size = sizeof(options[0]), .iterations = 5},
		{.size = sizeof(options[0]), .iterations = 100, .tolerance = 1e-3, .one_way = true},
		{.size = sizeof(options[0]), .iterations = 1, .damping = 0.5},
	};

	for (int i = 0; i < 3; i++) {
		struct fth_graph_pagerank ranks;

		assert_ok(fth_graph_pagerank(f->graph, &options[i], &f->job, &ranks));
		assert_ok(fth_graph_check_pagerank(&f->memory, &options[i], &ranks));
		assert_true(ranks.work.rounds <= options[i].iterations);
		if (options[i].tolerance > 0)
			assert_true(ranks.change < options[i].tolerance);
		fth_graph_pagerank_release(&ranks);
	}
}

static void ranks_are_those_of_the_plain_iteration(void **state)
{
	(void)state;
	on_all_graphs(check_pagerank);
}

/* ---- sweeps turn around ---- */

#define SWEEP_LINE 512u

static uint64_t read_by_components(struct graph_fixture *f)
{
	uint64_t before = fth_cache_stat(f->cache, FTH_CACHE_BYTES_READ);
	struct fth_graph_cc cc = {0};

	assert_ok(fth_graph_cc(f->graph, &f->job, &cc));
	assert_ok(fth_graph_check_cc(&f->memory, &cc));
	fth_graph_cc_release(&cc);
	return fth_cache_stat(f->cache, FTH_CACHE_BYTES_READ) - before;
}

static uint64_t read_by_ranks(struct graph_fixture *f)
{
	const struct fth_graph_pagerank_options options = {.size = sizeof(options),
							   .iterations = 1};
	uint64_t before = fth_cache_stat(f->cache, FTH_CACHE_BYTES_READ);
	struct fth_graph_pagerank ranks = {0};

	assert_ok(fth_graph_pagerank(f->graph, &options, &f->job, &ranks));
	assert_ok(fth_graph_check_pagerank(&f->memory, &options, &ranks));
	fth_graph_pagerank_release(&ranks);
	return fth_cache_stat(f->cache, FTH_CACHE_BYTES_READ) - before;
}

/* A clock of half the edges has kept the end of the last sweep, where the next one begins. */
static void the_next_sweep_begins_where_the_last_one_ended(void **state)
{
	static const struct graph_shape shape = {
		.name = "kronecker",
		.generate = {.kind = FTH_GRAPH_KRONECKER, .scale = 12, .degree = 16, .seed = 7}};
	struct graph_view view = {.line = SWEEP_LINE, .threads = 1, .clock = true};
	struct graph_fixture f;
	uint64_t first;

	(void)state;
	graph_fixture_build(&f, &shape);
	view.frames = (uint32_t)(f.memory.edges * 4 / SWEEP_LINE / 2);
	graph_fixture_open(&f, &view);
	first = read_by_components(&f);
	assert_true(read_by_components(&f) < first - first / 4);
	graph_fixture_close(&f);
	graph_fixture_open(&f, &view);
	first = read_by_ranks(&f);
	assert_true(read_by_ranks(&f) < first - first / 4);
	assert_true(read_by_components(&f) < first - first / 4);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

static void check_sssp(struct graph_fixture *f)
{
	static const uint64_t deltas[] = {0, 1, 1000000};
	uint64_t source = f->memory.vertices / 3;

	for (int i = 0; i < 3; i++) {
		struct fth_graph_sssp paths;

		assert_ok(fth_graph_sssp(f->graph, source, deltas[i], &f->job, &paths));
		assert_ok(fth_graph_check_sssp(&f->memory, source, &paths));
		fth_graph_sssp_release(&paths);
	}
}

static void distances_are_those_of_dijkstra(void **state)
{
	(void)state;
	on_all_graphs(check_sssp);
}

/* ---- checks that must be able to fail ---- */

static void wrong_results_are_found(void **state)
{
	struct graph_fixture f;
	struct fth_graph_bfs tree;
	struct fth_graph_cc cc;
	struct fth_graph_pagerank ranks;
	struct fth_graph_sssp paths;
	uint32_t v;

	(void)state;
	graph_fixture_build(&f, &graph_shapes[8]);
	graph_fixture_open(&f, &views[2]);
	assert_ok(fth_graph_pick(f.graph, 1, &v));
	assert_ok(fth_graph_bfs(f.graph, v, &f.job, &tree));
	tree.parent[f.memory.neighbours[f.memory.offsets[v]]] = FTH_GRAPH_NONE;
	assert_int_equal(fth_graph_check_bfs(&f.memory, v, &tree), -EILSEQ);
	assert_ok(fth_graph_cc(f.graph, &f.job, &cc));
	cc.label[v] += 1;
	assert_int_equal(fth_graph_check_cc(&f.memory, &cc), -EILSEQ);
	assert_ok(fth_graph_pagerank(f.graph, NULL, &f.job, &ranks));
	ranks.rank[v] *= 1.0001;
	assert_int_equal(fth_graph_check_pagerank(&f.memory, NULL, &ranks), -EILSEQ);
	assert_ok(fth_graph_sssp(f.graph, v, 0, &f.job, &paths));
	paths.distance[v] = 1;
	assert_int_equal(fth_graph_check_sssp(&f.memory, v, &paths), -EILSEQ);
	fth_graph_bfs_release(&tree);
	fth_graph_cc_release(&cc);
	fth_graph_pagerank_release(&ranks);
	fth_graph_sssp_release(&paths);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

/* ---- the rest ---- */

static void a_vertex_to_begin_with_has_neighbours(void **state)
{
	struct graph_fixture f;
	uint32_t v, other;
	uint64_t degree;

	(void)state;
	graph_fixture_build(&f, &graph_shapes[8]);
	graph_fixture_open(&f, &views[0]);
	for (uint64_t seed = 0; seed < 50; seed++) {
		assert_ok(fth_graph_pick(f.graph, seed, &v));
		assert_ok(fth_graph_degree(f.graph, v, &degree));
		assert_true(degree > 0);
	}
	assert_ok(fth_graph_pick(f.graph, 49, &other));
	assert_int_equal(v, other);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
	graph_fixture_build(&f, &graph_shapes[1]);
	graph_fixture_open(&f, &views[0]);
	assert_int_equal(fth_graph_pick(f.graph, 0, &v), -ENOENT);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

static void what_cannot_be_done_is_refused(void **state)
{
	const struct graph_shape plain = {.generate = {.scale = 5}};
	struct graph_fixture f;
	struct fth_graph_bfs tree;
	struct fth_graph_sssp paths;

	(void)state;
	graph_fixture_build(&f, &plain);
	graph_fixture_open(&f, &views[0]);
	assert_int_equal(fth_graph_bfs(f.graph, 32, &f.job, &tree), -ERANGE);
	assert_null(tree.parent);
	assert_int_equal(fth_graph_sssp(f.graph, 0, 0, &f.job, &paths), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "no weights"));
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

static int stop_at_once(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)what;
	assert_true(done <= total);
	return ++*(unsigned *)context > 3 ? -EINTR : 0;
}

static void work_can_be_stopped(void **state)
{
	unsigned calls = 0;
	struct fth_graph_pagerank ranks;
	struct graph_fixture f;

	(void)state;
	graph_fixture_build(&f, &graph_shapes[8]);
	graph_fixture_open(&f, &views[2]);
	f.job.progress = stop_at_once;
	f.job.context = &calls;
	assert_int_equal(fth_graph_pagerank(f.graph, NULL, &f.job, &ranks), -EINTR);
	assert_null(ranks.rank);
	assert_int_equal(calls, 4);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(searching_reaches_each_vertex_by_a_shortest_way),
		cmocka_unit_test(components_are_those_of_union_find),
		cmocka_unit_test(ranks_are_those_of_the_plain_iteration),
		cmocka_unit_test(the_next_sweep_begins_where_the_last_one_ended),
		cmocka_unit_test(distances_are_those_of_dijkstra),
		cmocka_unit_test(wrong_results_are_found),
		cmocka_unit_test(a_vertex_to_begin_with_has_neighbours),
		cmocka_unit_test(what_cannot_be_done_is_refused),
		cmocka_unit_test(work_can_be_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
