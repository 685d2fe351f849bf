/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/detail/hd/line.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>

static void a_line_comes_in_is_used_and_goes(void **state)
{
	uint64_t word = 0;

	(void)state;
	assert_int_equal(fth_line_ref(&word, 1), 0);
	assert_int_equal(fth_line_try_own(&word), FTH_LINE_ONE);
	assert_true(fth_line_try_own(&word) & FTH_LINE_BUSY); /* only one owner */
	fth_line_publish(&word, 77, 3, FTH_LINE_HOT);
	assert_true(fth_line_ready(word));
	assert_int_equal(fth_line_frame(word), 77);
	assert_int_equal(fth_line_count(word), 1);
	assert_false(fth_line_evictable(word)); /* pinned */
	fth_line_unref(&word, 1);
	assert_true(fth_line_evictable(word));
	assert_true(fth_line_evict(&word, word));
	assert_int_equal(word, 0);
}

static void eviction_fails_when_someone_came(void **state)
{
	uint64_t word = 0, seen;

	(void)state;
	fth_line_try_own(&word);
	fth_line_publish(&word, 1, 0, 0);
	seen = word;
	fth_line_ref(&word, 1);
	assert_false(fth_line_evict(&word, seen));
	fth_line_unref(&word, 1);
	assert_true(fth_line_evict(&word, seen));
}

static void a_failure_reaches_all_who_waited_and_nobody_else(void **state)
{
	uint64_t word = 0;
	uint32_t turn, later;

	(void)state;
	fth_line_ref(&word, 3); /* the owner and two that wait */
	turn = fth_line_turn(fth_line_try_own(&word));
	assert_false(fth_line_failed(word, turn));
	fth_line_fail(&word, EIO);
	fth_line_unref(&word, 1);
	assert_true(fth_line_failed(word, turn));
	assert_int_equal(fth_line_error(word), EIO);
	/* Another thread starts anew at once; the waiters still learn that theirs failed. */
	fth_line_ref(&word, 1);
	later = fth_line_turn(fth_line_try_own(&word));
	assert_true(word & FTH_LINE_BUSY);
	assert_false(fth_line_failed(word, later));
	assert_true(fth_line_failed(word, turn));
	assert_int_equal(fth_line_error(word), EIO);
	fth_line_unref(&word, 1);
	fth_line_publish(&word, 77, 9, 0);
	assert_int_equal(fth_line_frame(word), 77);
	assert_int_equal(fth_line_error(word), 0);
	assert_false(fth_line_failed(word, turn));
	fth_line_unref(&word, 2);
	assert_true(fth_line_evict(&word, word));
	assert_int_equal(word, 0);
}

static void a_fetch_that_is_given_up_is_no_failure(void **state)
{
	uint64_t word = 0;
	uint32_t turn;

	(void)state;
	fth_line_ref(&word, 2);
	turn = fth_line_turn(fth_line_try_own(&word));
	fth_line_disown(&word);
	assert_false(fth_line_failed(word, turn));
	assert_int_equal(fth_line_error(word), 0);
	assert_false(fth_line_try_own(&word) & FTH_LINE_BUSY);
}

static void turns_wrap_and_leave_the_count_alone(void **state)
{
	uint64_t word = 0;

	(void)state;
	fth_line_ref(&word, 5);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(fth_line_turn(fth_line_try_own(&word)),
				 i % (1u << FTH_LINE_VERSION_BITS));
		fth_line_fail(&word, i % 2 ? EIO : ENODATA);
		assert_int_equal(fth_line_error(word), i % 2 ? EIO : ENODATA);
		assert_int_equal(fth_line_count(word), 5);
		assert_false(word & (FTH_LINE_DIRTY | FTH_LINE_WRITING | FTH_LINE_BUSY));
	}
}

static void a_reference_on_a_dirty_line_is_dropped_in_one_step(void **state)
{
	uint64_t word = 0;

	(void)state;
	fth_line_try_own(&word);
	fth_line_publish(&word, 1, 0, 0);
	fth_line_ref(&word, 2);
	assert_false(fth_line_unref_still_dirty(&word)); /* clean: nothing was done */
	assert_int_equal(fth_line_count(word), 2);
	assert_true(fth_line_unref_dirty(&word));
	assert_true(fth_line_unref_still_dirty(&word));
	assert_int_equal(fth_line_count(word), 0);
	assert_true(word & FTH_LINE_DIRTY);
}

static void a_change_during_a_write_is_written_again(void **state)
{
	uint64_t word = 0;

	(void)state;
	fth_line_try_own(&word);
	fth_line_publish(&word, 5, 1, FTH_LINE_DIRTY);
	assert_false(fth_line_evictable(word));
	assert_true(fth_line_start_write(&word));
	assert_false(fth_line_start_write(&word)); /* one at a time */
	fth_line_ref(&word, 1);
	assert_true(fth_line_unref_dirty(&word));
	assert_false(fth_line_start_write(&word)); /* not before the first has ended */
	assert_false(fth_line_end_write(&word, true));
	assert_true(word & FTH_LINE_DIRTY);
	assert_true(fth_line_start_write(&word));
	assert_true(fth_line_end_write(&word, false)); /* failed: dirty as before */
	assert_true(word & FTH_LINE_DIRTY);
	assert_true(fth_line_start_write(&word));
	assert_false(fth_line_end_write(&word, true));
	assert_true(fth_line_evictable(word));
}

static void another_line_in_the_same_frame_is_noticed(void **state)
{
	uint64_t word = 0, before;

	(void)state;
	fth_line_try_own(&word);
	fth_line_publish(&word, 9, 1, 0);
	before = word;
	fth_line_ref(&word, 2); /* users and marks do not matter */
	fth_line_unref_dirty(&word);
	assert_true(fth_line_same_place(before, word));
	word = 0;
	assert_false(fth_line_same_place(before, word));
	fth_line_try_own(&word);
	fth_line_publish(&word, 9, 2, 0);
	assert_false(fth_line_same_place(before, word));
}

/* Threads pin, fill, read and evict one line; its data must never be seen half made. */
#define THREADS 4
#define ROUNDS	20000

static uint64_t line;
static uint64_t data[2]; /* equal whenever the line is ready */
static uint32_t version; /* the owner's */
static uint32_t bad;

static void fill(uint64_t value)
{
	data[0] = value;
	data[1] = value;
	fth_line_publish(&line, 0, version++, 0);
}

static void use_line(uint64_t value)
{
	uint64_t seen = fth_line_ref(&line, 1);
	struct fth_backoff backoff = {0};

	while (!fth_line_ready(seen)) {
		if (!(seen & FTH_LINE_BUSY)) {
			seen = fth_line_try_own(&line);
			if (!(seen & (FTH_LINE_VALID | FTH_LINE_BUSY)))
				fill(value);
		}
		fth_backoff_pause(&backoff);
		/* acquire: the data is read after this. */
		seen = fth_load_acquire_dev64(&line);
	}
	if (data[0] != data[1])
		fth_add_relaxed_dev32(&bad, 1);
	fth_line_unref(&line, 1);
}

static void *hammer(void *arg)
{
	uint64_t id = (uintptr_t)arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t seen;

		use_line(id << 32 | i);
		seen = fth_load_relaxed_dev64(&line);
		if (fth_line_evictable(seen))
			fth_line_evict(&line, seen);
	}
	return NULL;
}

static void threads_never_see_a_line_in_transition(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(bad, 0);
	assert_int_equal(fth_line_count(line), 0);
	assert_true(version > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_comes_in_is_used_and_goes),
		cmocka_unit_test(eviction_fails_when_someone_came),
		cmocka_unit_test(a_failure_reaches_all_who_waited_and_nobody_else),
		cmocka_unit_test(a_fetch_that_is_given_up_is_no_failure),
		cmocka_unit_test(turns_wrap_and_leave_the_count_alone),
		cmocka_unit_test(a_reference_on_a_dirty_line_is_dropped_in_one_step),
		cmocka_unit_test(a_change_during_a_write_is_written_again),
		cmocka_unit_test(another_line_in_the_same_frame_is_noticed),
		cmocka_unit_test(threads_never_see_a_line_in_transition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
