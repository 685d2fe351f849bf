/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_digest.h"

#include "fth_test.h"

#define N FTH_GRAPH_NONE

static struct graph_digest digest_of(const uint32_t *parent, uint64_t reached)
{
	struct fth_graph_bfs tree = {.parent = (uint32_t *)(uintptr_t)parent, .reached = reached};
	struct graph_digest digest = {0};

	assert_ok(graph_digest_bfs(&digest, 6, &tree));
	return digest;
}

static void trees_of_the_same_depths_are_the_same(void **state)
{
	/* 0 - 1, 2; 1, 2 - 3; 3 - 4; 5 apart */
	struct graph_digest a = digest_of((uint32_t[]){0, 0, 0, 1, 3, N}, 5);
	struct graph_digest b = digest_of((uint32_t[]){0, 0, 0, 2, 3, N}, 5);

	(void)state;
	assert_int_equal(a.depths, b.depths);
	assert_int_equal(a.reached, b.reached);
	assert_int_equal(a.bad_parents + b.bad_parents, 0);
}

static void trees_that_differ_in_a_depth_or_a_vertex_differ(void **state)
{
	struct graph_digest a = digest_of((uint32_t[]){0, 0, 0, 1, 3, N}, 5);
	struct graph_digest deeper = digest_of((uint32_t[]){0, 0, 1, 1, 3, N}, 5);
	struct graph_digest other = digest_of((uint32_t[]){0, 0, 0, 1, N, 3}, 5);
	struct graph_digest fewer = digest_of((uint32_t[]){0, 0, 0, 1, N, N}, 4);

	(void)state;
	assert_int_not_equal(a.depths, deeper.depths);
	assert_int_not_equal(a.depths, other.depths);
	assert_int_not_equal(a.reached, fewer.reached);
}

static void parents_in_a_circle_and_parents_that_are_none_are_found(void **state)
{
	struct graph_digest circle = digest_of((uint32_t[]){0, 2, 1, 1, 3, N}, 5);
	struct graph_digest outside = digest_of((uint32_t[]){0, 0, 0, 1, 6, N}, 5);

	(void)state;
	assert_true(circle.bad_parents > 0);
	assert_true(outside.bad_parents > 0);
}

static void ranks_that_are_exchanged_change_the_digest(void **state)
{
	double rank[] = {0.1, 0.2, 0.3, 0.25, 0.1, 0.05};
	struct fth_graph_pagerank ranks = {.rank = rank};
	struct graph_digest a = {0}, b = {0};

	(void)state;
	graph_digest_ranks(&a, 6, &ranks);
	rank[2] += 1e-3;
	rank[3] -= 1e-3;
	graph_digest_ranks(&b, 6, &ranks);
	assert_true(a.sum - b.sum < 1e-12 && b.sum - a.sum < 1e-12);
	assert_true(a.weighted > b.weighted * 1.0001 || b.weighted > a.weighted * 1.0001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_of_the_same_depths_are_the_same),
		cmocka_unit_test(trees_that_differ_in_a_depth_or_a_vertex_differ),
		cmocka_unit_test(parents_in_a_circle_and_parents_that_are_none_are_found),
		cmocka_unit_test(ranks_that_are_exchanged_change_the_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
