/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/base/stats.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* ---- tallies ---- */

#define TALLIES 10000u

static pthread_barrier_t counted, looked_at;

/* Two counters that want the same place, one far more often. */
static void *tally_many(void *arg)
{
	static const char keys[2];
	uint64_t *often = fth_stats_counter(stats, 0), *now_and_then = fth_stats_counter(stats, 1);

	(void)arg;
	for (unsigned i = 0; i < TALLIES; i++) {
		fth_stats_tally(2, &keys[0], often);
		if (i % 100 == 0)
			fth_stats_tally(2, &keys[1], now_and_then);
	}
	pthread_barrier_wait(&counted);
	pthread_barrier_wait(&looked_at);
	for (unsigned i = 0; i < TALLIES; i++)
		fth_stats_tally(2, &keys[i % 2], i % 2 ? now_and_then : often);
	return NULL;
}

static void tallies_are_seen_while_threads_run_and_after(void **state)
{
	const uint64_t n = 4;
	pthread_t threads[4];

	(void)state;
	stats = fth_stats_new(2);
	assert_non_null(stats);
	pthread_barrier_init(&counted, NULL, n + 1);
	pthread_barrier_init(&looked_at, NULL, n + 1);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, tally_many, NULL), 0);
	for (uint64_t before = 0, now, i = 0; i < 100; i++, before = now) {
		now = fth_stats_read(stats, 0);
		assert_true(now >= before);
	}
	pthread_barrier_wait(&counted);
	assert_int_equal(fth_stats_read(stats, 0), n * TALLIES);
	assert_int_equal(fth_stats_read(stats, 1), n * TALLIES / 100);
	pthread_barrier_wait(&looked_at);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(fth_stats_read(stats, 0), n * (TALLIES + TALLIES / 2));
	assert_int_equal(fth_stats_read(stats, 1), n * (TALLIES / 100 + TALLIES / 2));
	pthread_barrier_destroy(&counted);
	pthread_barrier_destroy(&looked_at);
	fth_stats_free(stats);
}

static void a_freed_set_leaves_nothing_to_the_next(void **state)
{
	static const char key;

	(void)state;
	for (unsigned round = 0; round < 100; round++) {
		struct fth_stats *set = fth_stats_new(1); /* as a rule where the last one was */

		assert_non_null(set);
		assert_int_equal(fth_stats_read(set, 0), 0);
		for (unsigned i = 0; i < 200; i++)
			fth_stats_tally(1, &key, fth_stats_counter(set, 0));
		assert_int_equal(fth_stats_read(set, 0), 200);
		fth_stats_free(set);
	}
}

/* ---- fork ---- */

static pthread_barrier_t forking;

static void *tally_some(void *set)
{
	for (unsigned i = 0; i < 200; i++)
		fth_stats_tally(0, set, fth_stats_counter(set, 0));
	return NULL;
}

static void *tally_around_a_fork(void *set)
{
	tally_some(set);
	pthread_barrier_wait(&forking);
	pthread_barrier_wait(&forking);
	return NULL;
}

/* Threads of the child get the memory of those that its parent has. */
static int count_in_a_child(void)
{
	struct fth_stats *set = fth_stats_new(1);

	for (unsigned round = 1; round <= 4; round++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, tally_some, set) != 0)
			return 1;
		pthread_join(thread, NULL);
		(void)tally_some(set);
		if (fth_stats_read(set, 0) != round * 400)
			return 2;
	}
	fth_stats_free(set);
	return 0;
}

static void a_child_counts_without_the_threads_of_its_parent(void **state)
{
	enum { OTHERS = 4 };
	pthread_t others[OTHERS];
	struct fth_stats *set;
	int status;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* ThreadSanitizer ends a child that makes a thread */
#endif
	set = fth_stats_new(1);
	pthread_barrier_init(&forking, NULL, OTHERS + 1);
	for (unsigned i = 0; i < OTHERS; i++)
		assert_int_equal(pthread_create(&others[i], NULL, tally_around_a_fork, set), 0);
	(void)tally_some(set);
	pthread_barrier_wait(&forking);
	child = fork();
	if (child == 0)
		_exit(count_in_a_child());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pthread_barrier_wait(&forking);
	for (unsigned i = 0; i < OTHERS; i++)
		pthread_join(others[i], NULL);
	assert_int_equal(fth_stats_read(set, 0), (OTHERS + 1) * 200);
	pthread_barrier_destroy(&forking);
	fth_stats_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(counters_out_of_range_are_ignored),
		cmocka_unit_test(tallies_are_seen_while_threads_run_and_after),
		cmocka_unit_test(a_freed_set_leaves_nothing_to_the_next),
		cmocka_unit_test(a_child_counts_without_the_threads_of_its_parent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
