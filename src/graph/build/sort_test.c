/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/build/sort.h"
#include "graph/team.h"

#include "fathom/base/rng.h"

#include "fth_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct record {
	uint64_t key;
	uint32_t weight;
};

static int by_key(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->weight < y->weight ? -1 : x->weight > y->weight;
}

/* Keeps the first of equal keys; returns how many are left. */
static size_t without_duplicates(struct record *records, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (kept == 0 || records[i].key != records[kept - 1].key)
			records[kept++] = records[i];
	return kept;
}

/* Random edges among `vertices` through a sort of 1 MiB, against qsort(). Returns runs in files. */
static uint64_t check_sort(size_t n, uint32_t vertices, unsigned workers, bool weighted)
{
	struct record *records = calloc(n + 1, sizeof(*records)); /* not 0 bytes */
	struct fth_rng rng = {n + vertices};
	struct fth_edge_sort *sort;
	uint64_t key, runs;
	uint32_t weight;
	size_t left;

	assert_ok(fth_edge_sort_new(FTH_EDGE_SORT_MEMORY_MIN, workers, weighted, NULL, &sort));
	for (size_t i = 0; i < n; i++) {
		records[i].key = fth_edge_key((uint32_t)fth_rng_below(&rng, vertices),
					      (uint32_t)fth_rng_below(&rng, vertices));
		records[i].weight = weighted ? (uint32_t)fth_rng_next(&rng) : 0;
		assert_ok(fth_edge_add(fth_edge_sort_buffer(sort, (unsigned)(i % workers)),
				       records[i].key, records[i].weight));
	}
	assert_ok(fth_edge_sort_finish(sort, &fth_graph_no_job));
	assert_int_equal(fth_edge_sort_records(sort), n);
	qsort(records, n, sizeof(*records), by_key);
	left = without_duplicates(records, n);
	for (size_t i = 0; i < left; i++) {
		assert_int_equal(fth_edge_sort_next(sort, &key, &weight), 1);
		assert_int_equal(key, records[i].key);
		assert_int_equal(weighted ? weight : 0, records[i].weight);
	}
	assert_int_equal(fth_edge_sort_next(sort, &key, &weight), 0);
	runs = fth_edge_sort_runs(sort);
	fth_edge_sort_free(sort);
	free(records);
	return runs;
}

static void what_fits_into_memory_goes_to_no_file(void **state)
{
	(void)state;
	assert_int_equal(check_sort(0, 1, 1, false), 0);
	assert_int_equal(check_sort(1, 1, 3, true), 0);
	assert_int_equal(check_sort(20000, 1000, 2, false), 0);
}

static void more_than_memory_comes_out_sorted(void **state)
{
	(void)state;
	assert_in_range(check_sort(200000, 400, 1, false), 3, 7);
	assert_in_range(check_sort(150000, UINT32_MAX, 2, true), 4, 12);
}

/* 1 MiB merges 7 runs at once. */
static void many_runs_are_merged_in_several_passes(void **state)
{
	(void)state;
	assert_true(check_sort(600000, 100000, 2, false) > 15);
	assert_true(check_sort(400000, 1000, 1, true) > 12);
}

static void the_lightest_of_equal_edges_stays(void **state)
{
	struct fth_edge_sort *sort;
	uint32_t weight;
	uint64_t key;

	(void)state;
	assert_ok(fth_edge_sort_new(1 << 20, 2, true, NULL, &sort));
	assert_ok(fth_edge_add(fth_edge_sort_buffer(sort, 0), fth_edge_key(3, 4), 9));
	assert_ok(fth_edge_add(fth_edge_sort_buffer(sort, 1), fth_edge_key(3, 4), 5));
	assert_ok(fth_edge_add(fth_edge_sort_buffer(sort, 0), fth_edge_key(3, 4), 7));
	assert_ok(fth_edge_sort_finish(sort, &fth_graph_no_job));
	assert_int_equal(fth_edge_sort_next(sort, &key, &weight), 1);
	assert_int_equal(weight, 5);
	assert_int_equal(fth_edge_sort_next(sort, &key, &weight), 0);
	fth_edge_sort_free(sort);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
	struct fth_edge_sort *sort;
	int rc = 0;

	(void)state;
	assert_ok(fth_edge_sort_new(1 << 20, 1, false, "/nowhere/at/all", &sort));
	for (uint64_t i = 0; rc == 0 && i < 100000; i++)
		rc = fth_edge_add(fth_edge_sort_buffer(sort, 0), i, 0);
	assert_int_equal(rc, -ENOENT);
	assert_non_null(strstr(fth_error_text(rc), "/nowhere/at/all"));
	fth_edge_sort_free(sort);
	assert_int_equal(fth_edge_sort_new(1000, 1, false, NULL, &sort), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_into_memory_goes_to_no_file),
		cmocka_unit_test(more_than_memory_comes_out_sorted),
		cmocka_unit_test(many_runs_are_merged_in_several_passes),
		cmocka_unit_test(the_lightest_of_equal_edges_stays),
		cmocka_unit_test(a_folder_that_is_not_there_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
