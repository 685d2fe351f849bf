/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices that fail, and bytes that make no sense, under each algorithm. */
#include "graph/graph_fixture.h"

#include "graph/format.h"

#include "fathom/dev/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct graph_shape shape = {
	.generate = {.kind = FTH_GRAPH_KRONECKER, .scale = 9, .seed = 4, .weighted = true}};
static const struct graph_view view = {
	.line = 4096, .frames = 4, .threads = 2, .offsets_on_device = true};

typedef int (*run_fn)(struct graph_fixture *f);

static int search(struct graph_fixture *f, enum fth_graph_direction direction)
{
	const struct fth_graph_bfs_options options = {.size = sizeof(options),
						      .direction = direction};
	struct fth_graph_bfs tree;
	uint32_t source = FTH_GRAPH_NONE;
	int rc = fth_graph_pick(f->graph, 2, &source);

	if (rc == 0)
		rc = fth_graph_bfs_with(f->graph, source, &options, &f->job, &tree);
	if (rc == 0) {
		assert_ok(fth_graph_check_bfs(&f->memory, source, &tree));
		fth_graph_bfs_release(&tree);
	}
	return rc;
}

static int run_bfs(struct graph_fixture *f)
{
	return search(f, FTH_GRAPH_TOP_DOWN);
}

static int run_bottom_up(struct graph_fixture *f)
{
	return search(f, FTH_GRAPH_BOTTOM_UP);
}

static int run_cc(struct graph_fixture *f)
{
	struct fth_graph_cc cc;
	int rc = fth_graph_cc(f->graph, &f->job, &cc);

	if (rc == 0) {
		assert_ok(fth_graph_check_cc(&f->memory, &cc));
		fth_graph_cc_release(&cc);
	}
	return rc;
}

static int run_pagerank(struct graph_fixture *f)
{
	const struct fth_graph_pagerank_options options = {
		.size = sizeof(struct fth_graph_pagerank_options), .iterations = 2};
	struct fth_graph_pagerank ranks;
	int rc = fth_graph_pagerank(f->graph, &options, &f->job, &ranks);

	if (rc == 0) {
		assert_ok(fth_graph_check_pagerank(&f->memory, &options, &ranks));
		fth_graph_pagerank_release(&ranks);
	}
	return rc;
}

static int run_sssp(struct graph_fixture *f)
{
	struct fth_graph_sssp paths;
	uint32_t source = FTH_GRAPH_NONE;
	int rc = fth_graph_pick(f->graph, 2, &source);

	if (rc == 0)
		rc = fth_graph_sssp(f->graph, source, 0, &f->job, &paths);
	if (rc == 0) {
		assert_ok(fth_graph_check_sssp(&f->memory, source, &paths));
		fth_graph_sssp_release(&paths);
	}
	return rc;
}

#define RUNS	  5
#define RUNS_FROM 4 /* these look at the neighbours of the source */

static const run_fn runs[RUNS] = {run_bfs, run_cc, run_pagerank, run_sssp, run_bottom_up};

/* Fail each read once, until a run needs fewer than that. */
static void each_failing_read_is_an_error(void **state)
{
	struct graph_fixture f;

	(void)state;
	graph_fixture_build(&f, &shape);
	for (unsigned r = 0; r < RUNS; r++) {
		unsigned failed = 0;
		int rc = -EIO;

		for (uint64_t nth = 1; rc < 0; nth += 1 + nth / 8) {
			struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

			plan.kinds = 1u << FTH_DEV_READ;
			plan.nth = nth;
			plan.every = 1; /* a failed request is tried again line by line */
			plan.error = ENXIO;
			graph_fixture_open(&f, &view);
			assert_ok(fth_dev_fault_set(f.dev, &plan));
			rc = runs[r](&f);
			assert_ok(fth_dev_fault_disarm(f.dev));
			assert_true(rc == 0 || rc == -ENXIO);
			failed += rc < 0;
			/* And the next one finds all well. */
			if (rc < 0)
				assert_ok(runs[r](&f));
			graph_fixture_close(&f);
		}
		assert_true(failed > 2);
	}
	graph_fixture_release(&f);
}

/* One read fails, in the middle of a search by four threads, and no other. */
static void a_single_failure_ends_all_threads(void **state)
{
	static const struct graph_view busy = {.line = 512, .frames = 64, .threads = 4};
	struct graph_fixture f;
	unsigned failed = 0;

	(void)state;
	graph_fixture_build(&f, &shape);
	for (uint64_t nth = 1; nth < 60; nth += 3) {
		struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
		int rc;

		plan.kinds = 1u << FTH_DEV_READ;
		plan.nth = nth;
		plan.error = ENXIO;
		graph_fixture_open(&f, &busy);
		assert_ok(fth_dev_fault_set(f.dev, &plan));
		rc = nth % 2 ? run_bottom_up(&f) : run_bfs(&f);
		assert_ok(fth_dev_fault_disarm(f.dev));
		assert_true(rc == 0 || rc == -ENXIO);
		failed += rc < 0;
		assert_ok(run_bottom_up(&f));
		graph_fixture_close(&f);
	}
	/* Not all: a failed request of several lines is tried again line by line. */
	assert_true(failed > 0);
	graph_fixture_release(&f);
}

/* Overwrite 4 bytes at `at`. */
static void scribble(struct graph_fixture *f, uint64_t at, uint32_t value)
{
	uint8_t block[512];
	uint64_t base = at / 512 * 512;

	assert_ok(fth_dev_read(f->dev, block, 512, base, FTH_DEV_TIMEOUT));
	memcpy(block + (at - base), &value, sizeof(value));
	assert_ok(fth_dev_write(f->dev, block, 512, base, FTH_DEV_TIMEOUT));
}

/* A graph, closed, and a vertex of it that has neighbours. */
static uint32_t build_and_pick(struct graph_fixture *f, struct fth_graph_info *info)
{
	uint32_t v;

	graph_fixture_build(f, &shape);
	assert_ok(fth_graph_read_info(f->dev, info));
	graph_fixture_open(f, &view);
	assert_ok(fth_graph_pick(f->graph, 2, &v));
	graph_fixture_close(f);
	return v;
}

static void a_neighbour_that_is_no_vertex_is_an_error(void **state)
{
	struct graph_fixture f;
	struct fth_graph_info info;
	uint32_t v;

	(void)state;
	v = build_and_pick(&f, &info);
	scribble(&f, info.edges_at + 4 * f.memory.offsets[v], (uint32_t)info.vertices);
	graph_fixture_open(&f, &view);
	for (unsigned r = 0; r < RUNS_FROM; r++)
		assert_int_equal(runs[r](&f), -EBADMSG);
	/* The source looks for no parent; its first neighbour does. */
	assert_ok(run_bottom_up(&f));
	v = f.memory.neighbours[f.memory.offsets[v] + 1];
	scribble(&f, info.edges_at + 4 * f.memory.offsets[v], (uint32_t)info.vertices);
	graph_fixture_close(&f);
	graph_fixture_open(&f, &view);
	assert_int_equal(run_bottom_up(&f), -EBADMSG);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

static void offsets_that_make_no_sense_are_an_error(void **state)
{
	struct graph_fixture f;
	struct fth_graph_info info;
	struct fth_graph *graph;
	uint32_t v;

	(void)state;
	v = build_and_pick(&f, &info);
	scribble(&f, info.offsets_at + 8 * (uint64_t)v + 8, (uint32_t)info.edges + 1);
	graph_fixture_open(&f, &view);
	for (unsigned r = 0; r < RUNS; r++)
		assert_int_equal(runs[r](&f), -EBADMSG);
	/* In memory they are looked at when the graph is opened. */
	assert_int_equal(fth_graph_open_dev(f.cache, f.dev, NULL, &graph), -EBADMSG);
	assert_null(graph);
	graph_fixture_close(&f);
	graph_fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_failing_read_is_an_error),
		cmocka_unit_test(a_single_failure_ends_all_threads),
		cmocka_unit_test(a_neighbour_that_is_no_vertex_is_an_error),
		cmocka_unit_test(offsets_that_make_no_sense_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
