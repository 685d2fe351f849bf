/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/build/gen_edge.h"

#include "fth_test.h"

#include <stdlib.h>

static void renaming_is_a_bijection(void **state)
{
	(void)state;
	for (unsigned scale = 0; scale <= 12; scale++) {
		uint32_t n = 1u << scale;
		uint8_t *seen = calloc(n, 1);
		struct fth_graph_gen gen;

		fth_graph_gen_init(&gen, FTH_GRAPH_KRONECKER, scale, scale * 77);
		for (uint32_t v = 0; v < n; v++) {
			uint32_t name = fth_graph_gen_rename_(&gen, v);

			assert_in_range(name, 0, n - 1);
			assert_int_equal(seen[name], 0);
			seen[name] = 1;
		}
		free(seen);
	}
}

static void edges_depend_on_seed_and_number_alone(void **state)
{
	struct fth_graph_gen a, b, other;
	unsigned same = 0;

	(void)state;
	fth_graph_gen_init(&a, FTH_GRAPH_KRONECKER, 20, 5);
	fth_graph_gen_init(&b, FTH_GRAPH_KRONECKER, 20, 5);
	fth_graph_gen_init(&other, FTH_GRAPH_KRONECKER, 20, 6);
	for (uint64_t e = 1000; e-- > 0;) {
		uint32_t u, v, x, y;

		fth_graph_gen_edge(&a, e, &u, &v);
		fth_graph_gen_edge(&b, e, &x, &y);
		assert_true(u == x && v == y);
		fth_graph_gen_edge(&other, e, &x, &y);
		same += u == x && v == y;
	}
	assert_in_range(same, 0, 5);
}

/* How many of the edges leave the busiest hundredth of the vertices. */
static double share_of_busiest(enum fth_graph_kind kind)
{
	enum { scale = 12, n = 1 << scale, edges = 16 * n };
	uint32_t *degree = calloc(n, sizeof(*degree)), most = 0, sum = 0;
	struct fth_graph_gen gen;

	fth_graph_gen_init(&gen, kind, scale, 1);
	for (uint64_t e = 0; e < edges; e++) {
		uint32_t from, to;

		fth_graph_gen_edge(&gen, e, &from, &to);
		degree[from]++;
		most = degree[from] > most ? degree[from] : most;
	}
	for (uint32_t taken = 0; taken < n / 100; most--)
		for (uint32_t v = 0; v < n && taken < n / 100; v++)
			if (degree[v] == most) {
				sum += most;
				taken++;
			}
	free(degree);
	return (double)sum / edges;
}

/* By its formula a Kronecker graph of 2^12 vertices has a quarter of its edges there. */
static void kronecker_is_skewed_and_uniform_is_not(void **state)
{
	(void)state;
	assert_true(share_of_busiest(FTH_GRAPH_KRONECKER) > 0.15);
	assert_true(share_of_busiest(FTH_GRAPH_UNIFORM) < 0.025);
}

static void weights_are_small_and_the_same_both_ways(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t w = fth_graph_gen_weight(3, i, 2 * i + 1);

		assert_in_range(w, 1, 255);
		assert_int_equal(w, fth_graph_gen_weight(3, 2 * i + 1, i));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(renaming_is_a_bijection),
		cmocka_unit_test(edges_depend_on_seed_and_number_alone),
		cmocka_unit_test(kronecker_is_skewed_and_uniform_is_not),
		cmocka_unit_test(weights_are_small_and_the_same_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
