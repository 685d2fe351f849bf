/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_digest.h"

#include "fth_test.h"

#include <errno.h>

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
	assert_ok(graph_digest_compare(&a, &b));
}

static void trees_that_differ_in_a_depth_or_a_vertex_differ(void **state)
{
	struct graph_digest a = digest_of((uint32_t[]){0, 0, 0, 1, 3, N}, 5);
	struct graph_digest deeper = digest_of((uint32_t[]){0, 0, 1, 1, 3, N}, 5);
	struct graph_digest other = digest_of((uint32_t[]){0, 0, 0, 1, N, 3}, 5);
	struct graph_digest fewer = digest_of((uint32_t[]){0, 0, 0, 1, N, N}, 4);

	(void)state;
	assert_int_equal(graph_digest_compare(&a, &deeper), -EILSEQ);
	assert_int_equal(graph_digest_compare(&a, &other), -EILSEQ);
	assert_int_equal(graph_digest_compare(&a, &fewer), -EILSEQ);
}

static void parents_in_a_circle_and_parents_that_are_none_are_found(void **state)
{
	struct graph_digest circle = digest_of((uint32_t[]){0, 2, 1, 1, 3, N}, 5);
	struct graph_digest outside = digest_of((uint32_t[]){0, 0, 0, 1, 6, N}, 5);

	(void)state;
	assert_int_equal(graph_digest_compare(&circle, &circle), -EILSEQ);
	assert_int_equal(graph_digest_compare(&outside, &outside), -EILSEQ);
}

static void ranks_may_differ_by_rounding_only(void **state)
{
	double rank[] = {0.1, 0.2, 0.3, 0.25, 0.1, 0.05};
	struct fth_graph_pagerank ranks = {.rank = rank};
	struct graph_digest a = {0}, b = {0};

	(void)state;
	graph_digest_ranks(&a, 6, &ranks);
	rank[2] *= 1 + 1e-9;
	graph_digest_ranks(&b, 6, &ranks);
	assert_ok(graph_digest_compare(&a, &b));
	rank[2] += 1e-3;
	rank[3] -= 1e-3;
	graph_digest_ranks(&b, 6, &ranks);
	assert_int_equal(graph_digest_compare(&a, &b), -EILSEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trees_of_the_same_depths_are_the_same),
		cmocka_unit_test(trees_that_differ_in_a_depth_or_a_vertex_differ),
		cmocka_unit_test(parents_in_a_circle_and_parents_that_are_none_are_found),
		cmocka_unit_test(ranks_may_differ_by_rounding_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
