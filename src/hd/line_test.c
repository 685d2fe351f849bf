/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/hd.h"

#include <pthread.h>

static void states_follow_the_table(void **state)
{
	uint32_t word = 0;

	(void)state;
	assert_false(fth_line_try_evict(&word)); /* not in the cache */
	assert_int_equal(fth_line_ref(&word, 1), 0);
	assert_int_equal(fth_line_try_own(&word) & FTH_LINE_BUSY, 0);
	assert_true(fth_line_try_own(&word) & FTH_LINE_BUSY); /* only one owner */
	assert_false(fth_line_ready(word));
	fth_line_disown(&word, FTH_LINE_VALID, 0);
	assert_true(fth_line_ready(word));
	assert_int_equal(fth_line_count(word), 1);
	assert_false(fth_line_try_evict(&word)); /* pinned */
	fth_line_mark_dirty(&word);
	fth_line_unref(&word, 1);
	assert_true(fth_line_try_evict(&word));
	assert_true(word & FTH_LINE_DIRTY);
	assert_false(fth_line_try_evict(&word)); /* in transition */
	fth_line_disown(&word, 0, FTH_LINE_VALID | FTH_LINE_DIRTY);
	assert_int_equal(word, 0);
}

/* Threads pin, fill, read and evict one line; its data must never be seen half made. */
#define THREADS 4
#define ROUNDS	20000

static uint32_t line;
static uint64_t data[2]; /* equal whenever the line is ready */
static uint32_t bad;

static void fill(uint64_t value)
{
	data[0] = value;
	data[1] = value;
	fth_line_disown(&line, FTH_LINE_VALID, 0);
}

static void use_line(uint64_t value)
{
	uint32_t seen = fth_line_ref(&line, 1);
	struct fth_backoff backoff = {0};

	while (!fth_line_ready(seen)) {
		if (!(seen & (FTH_LINE_VALID | FTH_LINE_BUSY))) {
			seen = fth_line_try_own(&line);
			if (!(seen & (FTH_LINE_VALID | FTH_LINE_BUSY)))
				fill(value);
			else if (!(seen & FTH_LINE_BUSY))
				fth_line_disown(&line, 0, 0);
		}
		fth_backoff_pause(&backoff);
		seen = fth_load_acquire_dev32(&line);
	}
	if (data[0] != data[1])
		fth_add_relaxed_dev32(&bad, 1);
	fth_line_unref(&line, 1);
}

static void *hammer(void *arg)
{
	uint64_t id = (uintptr_t)arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		use_line(id << 32 | i);
		if (fth_line_try_evict(&line)) {
			data[0] = 0;
			data[1] = 1;
			fth_line_disown(&line, 0, FTH_LINE_VALID);
		}
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_follow_the_table),
		cmocka_unit_test(threads_never_see_a_line_in_transition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
