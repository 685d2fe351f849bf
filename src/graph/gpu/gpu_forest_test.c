/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees that threads join at once: gpu_forest.h as CPU threads see it. */
#include "graph/gpu/gpu_forest.h"

#include "base/team.h"
#include "fathom/base/rng.h"

#include "fth_test.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define THREADS 4u

struct forest {
	uint32_t *parent;
	uint32_t n;
	uint64_t joins; /* that each thread asks for */
	uint64_t joined;
	uint64_t seed;
	uint32_t classes; /* only vertices of the same remainder are joined */
	uint64_t arrived; /* threads */
};

static void plant(struct forest *f)
{
	f->parent = malloc(f->n * sizeof(*f->parent));
	assert_non_null(f->parent);
	for (uint32_t v = 0; v < f->n; v++)
		f->parent[v] = v;
}

static uint32_t flatten(struct forest *f)
{
	uint32_t roots = 0;

	for (uint32_t v = 0; v < f->n; v++)
		graph_forest_flatten(f->parent, v);
	for (uint32_t v = 0; v < f->n; v++) {
		/* What hangs under a root: all labels are roots. */
		assert_int_equal(f->parent[f->parent[v]], f->parent[v]);
		roots += f->parent[v] == v;
	}
	return roots;
}

static uint32_t root_of(const struct forest *f, uint32_t v)
{
	while (f->parent[v] != v)
		v = f->parent[v];
	return v;
}

static int depth(const struct forest *f, uint32_t v)
{
	int steps = 0;

	for (; f->parent[v] != v; v = f->parent[v])
		steps++;
	return steps;
}

static void roots_are_the_smallest(void **state)
{
	struct forest f = {.n = 10};

	(void)state;
	plant(&f);
	assert_true(graph_forest_join(f.parent, 7, 9));
	assert_true(graph_forest_join(f.parent, 8, 9));
	assert_int_equal(root_of(&f, 8), 7);
	assert_false(graph_forest_join(f.parent, 7, 8));
	assert_false(graph_forest_join(f.parent, 3, 3));
	assert_true(graph_forest_join(f.parent, 9, 2));
	assert_int_equal(root_of(&f, 8), 2);
	assert_int_equal(root_of(&f, 3), 3);
	assert_int_equal(flatten(&f), 7);
	assert_int_equal(f.parent[7], 2);
	free(f.parent);
}

/* A path of 1000, as deep as it is long: who walks it makes it half as long. */
static void ways_become_shorter(void **state)
{
	struct forest f = {.n = 1000};

	(void)state;
	plant(&f);
	for (uint32_t v = 999; v > 0; v--)
		assert_true(graph_forest_join(f.parent, v, v - 1));
	assert_int_equal(depth(&f, 999), 999);
	assert_false(graph_forest_join(f.parent, 999, 0));
	assert_in_range(depth(&f, 999), 499, 501);
	assert_false(graph_forest_join(f.parent, 999, 0));
	assert_in_range(depth(&f, 999), 249, 251);
	assert_int_equal(flatten(&f), 1);
	free(f.parent);
}

/* relaxed: to start at about the same time is all that is wanted. */
static void wait_for_others(struct forest *f)
{
	fth_add_relaxed_dev64(&f->arrived, 1);
	for (int i = 0; i < 1000 && fth_load_relaxed_dev64(&f->arrived) < THREADS; i++)
		sched_yield();
}

static int join_some(void *context, unsigned thread)
{
	struct forest *f = context;
	struct fth_rng rng = {f->seed + thread};
	uint64_t joined = 0;

	wait_for_others(f);
	for (uint64_t i = 0; i < f->joins; i++) {
		uint32_t a = (uint32_t)fth_rng_below(&rng, f->n);
		uint32_t b = (uint32_t)fth_rng_below(&rng, f->n / f->classes) * f->classes +
			     a % f->classes;

		joined += graph_forest_join(f->parent, a, b);
		/* relaxed: 1. holds for every value there ever is. */
		if (fth_load_relaxed_dev32(&f->parent[a]) > a)
			return fth_fail(ERANGE, "%u hangs under a larger one", a);
	}
	fth_add_relaxed_dev64(&f->joined, joined);
	return 0;
}

/* Enough joins for one tree per class; and nobody hung the same root up twice. */
static void threads_join(uint32_t n, uint32_t classes, uint64_t seed)
{
	struct forest f = {.n = n, .classes = classes, .seed = seed * THREADS};

	f.joins = 6 * n;
	plant(&f);
	assert_ok(fth_team_run(THREADS, join_some, &f));
	assert_int_equal(f.joined, n - flatten(&f));
	assert_int_equal(f.joined, n - classes);
	for (uint32_t v = 0; v < n; v++)
		assert_int_equal(f.parent[v], v % classes);
	free(f.parent);
}

static void threads_join_at_once(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 200; i++)
		threads_join(32, 1, i);
	for (uint64_t i = 0; i < 20; i++)
		threads_join(3000, 5, i);
}

/* Each vertex has a smaller root for the tree of the largest one, and is joined to it once. */
static int join_smaller(void *context, unsigned thread)
{
	struct forest *f = context;
	uint64_t joined = 0;

	wait_for_others(f);
	for (uint32_t i = thread; i < f->n - 1; i += THREADS)
		joined += graph_forest_join(f->parent, f->n - 1, f->n - 2 - i);
	fth_add_relaxed_dev64(&f->joined, joined);
	return 0;
}

static void all_want_the_same_root(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct forest f = {.n = 20000};

		plant(&f);
		assert_ok(fth_team_run(THREADS, join_smaller, &f));
		assert_int_equal(f.joined, f.n - 1);
		assert_int_equal(flatten(&f), 1);
		free(f.parent);
	}
}

static int flatten_some(void *context, unsigned thread)
{
	struct forest *f = context;

	wait_for_others(f);
	for (uint32_t v = thread; v < f->n; v += THREADS)
		graph_forest_flatten(f->parent, f->n - 1 - v);
	return 0;
}

/* Ways cross: on their way up from deep down, threads pass vertices of others all the time. */
static void threads_flatten_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct forest f = {.n = 1000};

		plant(&f);
		for (uint32_t v = f.n - 1; v > 0; v--)
			assert_true(graph_forest_join(f.parent, v, v - 1));
		assert_ok(fth_team_run(THREADS, flatten_some, &f));
		for (uint32_t v = 0; v < f.n; v++)
			assert_int_equal(f.parent[v], 0);
		free(f.parent);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roots_are_the_smallest),  cmocka_unit_test(ways_become_shorter),
		cmocka_unit_test(threads_join_at_once),	   cmocka_unit_test(all_want_the_same_root),
		cmocka_unit_test(threads_flatten_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
