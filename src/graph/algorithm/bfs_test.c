/* SPDX-License-Identifier: BSD-2-Clause */
/* Searches in each direction, with and without a transpose, against the plain one. */
#include "graph/algorithm/bfs.h"
#include "graph/graph_fixture.h"

#include "fathom/base/rng.h"

#include <stdlib.h>
#include <string.h>

static const struct graph_view views[] = {
	{.line = 512, .frames = 16, .threads = 1},
	{.line = 512, .frames = 64, .threads = 3, .offsets_on_device = true},
	{.line = 4096, .frames = 8, .threads = 2, .compact = true},
	{.line = 4096, .frames = 4096, .threads = 4},
	{0},
};

static const enum fth_graph_direction directions[] = {FTH_GRAPH_ANY_DIRECTION, FTH_GRAPH_TOP_DOWN,
						      FTH_GRAPH_BOTTOM_UP};

/* One search, checked: how many levels went bottom-up. */
static uint64_t search(struct graph_fixture *f, uint64_t source, enum fth_graph_direction direction,
		       struct fth_graph *transpose)
{
	struct fth_graph_bfs_options options = FTH_GRAPH_BFS_OPTIONS_INIT;
	struct fth_graph_bfs tree;
	uint64_t up;

	options.direction = direction;
	options.transpose = transpose;
	assert_ok(fth_graph_bfs_with(f->graph, source, &options, &f->job, &tree));
	assert_ok(fth_graph_check_bfs(&f->memory, source, &tree));
	assert_true(tree.work.rounds == tree.depth + 1);
	up = tree.bottom_up;
	fth_graph_bfs_release(&tree);
	return up;
}

/* ---- more graphs, as edge lists ---- */

#define SIDE 24u /* of the grid */

static char *text_of(void (*write)(FILE *out))
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	write(out);
	fclose(out);
	return text;
}

static void write_grid(FILE *out)
{
	for (unsigned y = 0; y < SIDE; y++)
		for (unsigned x = 0; x < SIDE; x++) {
			if (x + 1 < SIDE)
				fprintf(out, "%u %u 1\n", y * SIDE + x, y * SIDE + x + 1);
			if (y + 1 < SIDE)
				fprintf(out, "%u %u 1\n", y * SIDE + x, (y + 1) * SIDE + x);
		}
}

/* Many small parts, and vertices alone. */
static void write_parts(FILE *out)
{
	struct fth_rng rng = {7};

	for (unsigned part = 0; part < 40; part++)
		for (unsigned i = 0; i < 60; i++)
			fprintf(out, "%u %u 1\n", part * 50 + (unsigned)fth_rng_below(&rng, 45),
				part * 50 + (unsigned)fth_rng_below(&rng, 45));
}

#define DIRECTED_VERTICES 2000u

/* Some vertices have many edges, most few; `turned` writes each the other way round. */
static void write_directed(FILE *out, bool turned)
{
	struct fth_rng rng = {11};

	for (unsigned i = 0; i < 9000; i++) {
		unsigned from = (unsigned)fth_rng_below(&rng, DIRECTED_VERTICES);
		unsigned to = (unsigned)fth_rng_below(&rng, 1 + from);

		if (i % 3 == 0)
			from = (unsigned)fth_rng_below(&rng, 20);
		fprintf(out, "%u %u 1\n", turned ? to : from, turned ? from : to);
	}
}

static void write_forward(FILE *out)
{
	write_directed(out, false);
}

static void write_turned(FILE *out)
{
	write_directed(out, true);
}

/* ---- undirected ---- */

static void check_shape(const struct graph_shape *shape)
{
	struct graph_fixture f;

	graph_fixture_build(&f, shape);
	for (const struct graph_view *view = views; view->line; view++) {
		uint64_t n = f.memory.vertices, sources[] = {0, n / 2, n - 1};

		graph_fixture_open(&f, view);
		for (unsigned d = 0; d < 3; d++)
			for (unsigned i = 0; i < 3; i++)
				if (f.memory.undirected || directions[d] != FTH_GRAPH_BOTTOM_UP)
					search(&f, sources[i], directions[d], NULL);
		graph_fixture_close(&f);
	}
	graph_fixture_release(&f);
}

static void both_directions_find_shortest_ways(void **state)
{
	char *grid = text_of(write_grid), *parts = text_of(write_parts);
	const struct graph_shape more[] = {
		{.name = "a grid", .edges = grid, .undirected = true},
		{.name = "parts", .edges = parts, .undirected = true, .vertices = 2100},
		{.name = "Kronecker",
		 .generate =
			 {.kind = FTH_GRAPH_KRONECKER, .scale = 12, .seed = 5, .weighted = true}},
	};

	(void)state;
	for (const struct graph_shape *shape = graph_shapes; shape->name; shape++)
		check_shape(shape);
	for (unsigned i = 0; i < 3; i++)
		check_shape(&more[i]);
	free(grid);
	free(parts);
}

/* What vertices without a parent have is more than may be kept: chunks stay open. */
static void edges_that_cannot_be_kept_are_read_again(void **state)
{
	static const struct graph_shape shape = {
		.generate = {.kind = FTH_GRAPH_UNIFORM, .scale = 14, .seed = 3, .weighted = true}};
	struct graph_fixture f;

	(void)state;
	graph_fixture_build(&f, &shape);
	for (unsigned v = 2; v < 4; v++) {
		graph_fixture_open(&f, &views[v]);
		assert_true(search(&f, 5, FTH_GRAPH_BOTTOM_UP, NULL) > 2);
		search(&f, 6, FTH_GRAPH_ANY_DIRECTION, NULL);
		graph_fixture_close(&f);
	}
	graph_fixture_release(&f);
}

/* ---- directed ---- */

static void a_transpose_gives_the_incoming_edges(void **state)
{
	char *forward = text_of(write_forward), *turned = text_of(write_turned);
	const struct graph_shape shapes[] = {{.edges = forward, .vertices = DIRECTED_VERTICES},
					     {.edges = turned, .vertices = DIRECTED_VERTICES}};
	struct graph_fixture f, t;
	uint64_t up = 0;

	(void)state;
	graph_fixture_build(&f, &shapes[0]);
	graph_fixture_build(&t, &shapes[1]);
	for (const struct graph_view *view = views; view->line; view++) {
		graph_fixture_open(&f, view);
		graph_fixture_open(&t, view);
		for (uint64_t source = 0; source < DIRECTED_VERTICES; source += 499) {
			assert_int_equal(search(&f, source, FTH_GRAPH_ANY_DIRECTION, NULL), 0);
			up += search(&f, source, FTH_GRAPH_ANY_DIRECTION, t.graph);
			assert_int_equal(search(&f, source, FTH_GRAPH_TOP_DOWN, t.graph), 0);
			assert_true(search(&f, source, FTH_GRAPH_BOTTOM_UP, t.graph) > 0);
			/* And the other way round. */
			search(&t, source, FTH_GRAPH_BOTTOM_UP, f.graph);
		}
		graph_fixture_close(&f);
		graph_fixture_close(&t);
	}
	assert_true(up > 0);
	graph_fixture_release(&f);
	graph_fixture_release(&t);
	free(forward);
	free(turned);
}

static int try(struct graph_fixture *f, size_t size, int direction, struct fth_graph *transpose)
{
	struct fth_graph_bfs_options options = {
		.size = size,
		.direction = (enum fth_graph_direction)direction,
		.transpose = transpose,
	};
	struct fth_graph_bfs tree;
	int rc = fth_graph_bfs_with(f->graph, 0, &options, &f->job, &tree);

	assert_null(rc < 0 ? tree.parent : NULL);
	fth_graph_bfs_release(&tree);
	return rc;
}

static void options_that_do_not_fit_are_refused(void **state)
{
	const size_t size = sizeof(struct fth_graph_bfs_options);
	char *forward = text_of(write_forward);
	const struct graph_shape shape = {.edges = forward, .vertices = DIRECTED_VERTICES};
	struct graph_fixture f, other;

	(void)state;
	graph_fixture_build(&f, &shape);
	graph_fixture_build(&other, &graph_shapes[5]);
	graph_fixture_open(&f, &views[0]);
	graph_fixture_open(&other, &views[0]);
	assert_int_equal(try(&f, size, FTH_GRAPH_BOTTOM_UP, NULL), -EINVAL);
	assert_int_equal(try(&f, size, FTH_GRAPH_ANY_DIRECTION, other.graph), -EINVAL);
	/* Of the same size, but not reversed. */
	assert_int_equal(try(&f, size, FTH_GRAPH_BOTTOM_UP, f.graph), -EINVAL);
	assert_int_equal(try(&f, size, FTH_GRAPH_ANY_DIRECTION, f.graph), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "not the transpose"));
	assert_int_equal(try(&f, size, FTH_GRAPH_BOTTOM_UP + 1, NULL), -EINVAL);
	assert_int_equal(try(&f, size - 1, FTH_GRAPH_TOP_DOWN, NULL), -EINVAL);
	assert_ok(try(&f, size, FTH_GRAPH_TOP_DOWN, NULL));
	graph_fixture_close(&f);
	graph_fixture_close(&other);
	graph_fixture_release(&f);
	graph_fixture_release(&other);
	free(forward);
}

/* ---- the choice ---- */

static uint64_t levels_up(const struct graph_shape *shape, uint64_t source)
{
	struct graph_fixture f;
	uint64_t up;

	graph_fixture_build(&f, shape);
	graph_fixture_open(&f, &views[3]);
	up = search(&f, source, FTH_GRAPH_ANY_DIRECTION, NULL);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
	return up;
}

static void direction_follows_the_graph(void **state)
{
	static const struct graph_shape kronecker = {
		.generate = {
			.kind = FTH_GRAPH_KRONECKER, .scale = 14, .seed = 5, .weighted = true}};
	char *grid = text_of(write_grid);
	const struct graph_shape narrow = {.edges = grid, .undirected = true};

	(void)state;
	assert_true(levels_up(&kronecker, 3) > 0);
	/* Of 47 levels a few of the last, when few vertices are left. */
	assert_true(levels_up(&narrow, 0) < 10);
	free(grid);
}

/* Scale 22: a level of 1 % of the edges goes down, one of 10 % up; bytes can turn it round. */
static void costs_count_edges_and_bytes(void **state)
{
	struct fth_bfs_case c = {.level_edges = 1.3e6,
				 .level_lists = 1000,
				 .open_vertices = 2.4e6,
				 .open_edges = 127e6,
				 .left = 127e6,
				 .lines = 7800,
				 .line_bytes = 65536};

	(void)state;
	assert_true(fth_bfs_cost_down(&c) < fth_bfs_cost_up(&c));
	c.level_edges = 13e6;
	assert_true(fth_bfs_cost_down(&c) > fth_bfs_cost_up(&c));
	/* All of the edges would have to be read, where top-down reads a tenth. */
	c.missing = 0.75;
	assert_true(fth_bfs_cost_down(&c) < fth_bfs_cost_up(&c));
	/* What is kept need not be read. */
	c.open_vertices = c.open_edges = 0;
	c.kept = 1e6;
	assert_true(fth_bfs_cost_down(&c) > fth_bfs_cost_up(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_directions_find_shortest_ways),
		cmocka_unit_test(edges_that_cannot_be_kept_are_read_again),
		cmocka_unit_test(a_transpose_gives_the_incoming_edges),
		cmocka_unit_test(options_that_do_not_fit_are_refused),
		cmocka_unit_test(direction_follows_the_graph),
		cmocka_unit_test(costs_count_edges_and_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
