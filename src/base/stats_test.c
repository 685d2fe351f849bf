/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/base/stats.h"

#include <pthread.h>

/* More threads than shards at once, in several generations: some share, some inherit. */
#define THREADS	    80
#define GENERATIONS 5
#define ADDS	    1000
#define LAST	    (2 * FTH_STATS_GROUP) /* counter, in a group of its own */

static struct fth_stats *stats;

static void *add_many(void *arg)
{
	pthread_barrier_wait(arg);
	for (unsigned i = 0; i < ADDS; i++) {
		fth_stats_add(stats, 0, 1);
		fth_stats_add(stats, LAST, 3);
	}
	return NULL;
}

static void nothing_is_lost(void **state)
{
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;

	(void)state;
	stats = fth_stats_new(LAST + 1);
	assert_non_null(stats);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (unsigned g = 0; g < GENERATIONS; g++) {
		uint64_t before = fth_stats_read(stats, 0);

		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, add_many, &barrier), 0);
		assert_true(fth_stats_read(stats, 0) >= before);
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	assert_int_equal(fth_stats_read(stats, 0), (uint64_t)THREADS * GENERATIONS * ADDS);
	for (unsigned i = 1; i < LAST; i++)
		assert_int_equal(fth_stats_read(stats, i), 0);
	assert_int_equal(fth_stats_read(stats, LAST), (uint64_t)THREADS * GENERATIONS * ADDS * 3);
	pthread_barrier_destroy(&barrier);
	fth_stats_free(stats);
}

static void counters_out_of_range_are_ignored(void **state)
{
	struct fth_stats *one = fth_stats_new(1);

	(void)state;
	fth_stats_add(one, 1, 5);
	fth_stats_add(NULL, 0, 5);
	assert_int_equal(fth_stats_read(one, 0), 0);
	assert_int_equal(fth_stats_read(one, 1), 0);
	assert_int_equal(fth_stats_read(NULL, 0), 0);
	fth_stats_free(one);
	fth_stats_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(counters_out_of_range_are_ignored),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
