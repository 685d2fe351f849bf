/* SPDX-License-Identifier: BSD-2-Clause */
/* Failed fetches: the threads that waited for one get its error, and nobody else. */
#include "model_fixture.h"

#include <errno.h>
#include <pthread.h>

#define THREADS 16
#define LINE	512u
#define ELEMENT 700u

static struct fth_cache_range *open_faulty(bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = LINE;
	options.compact = compact;
	options.timeout_ns = PATIENCE;
	return model_open_cache(model_open_dev("fault(mem:64K)"), &options, 8);
}

static void close_faulty(struct fth_cache_range *range)
{
	struct fth_dev *dev = fth_cache_dev(range);

	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
}

static void fail_reads(struct fth_cache_range *range, uint64_t nth, uint64_t every,
		       uint64_t hold_ms)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = 1u << FTH_DEV_READ;
	plan.nth = nth;
	plan.every = every;
	plan.hold_ns = hold_ms * 1000000;
	assert_ok(fth_dev_fault_set(fth_cache_dev(range), &plan));
}

/* A waiter that has not looked yet holds its reference; others must not get its error. */
static void an_error_is_not_for_threads_that_come_later(void **state)
{
	struct fth_cache_range *range = open_faulty(false);
	struct fth_cache_view view;
	uint64_t *word, value;

	(void)state;
	fth_cache_view(range, &view);
	word = &view.words[ELEMENT / (LINE / 8)];
	fail_reads(range, 1, 0, 0);
	fth_line_ref(word, 1);
	assert_int_equal(model_get(range, ELEMENT, &value), -EIO);
	assert_ok(model_get(range, ELEMENT, &value));
	assert_int_equal(value, model_value(ELEMENT, 0));
	fth_line_unref(word, 1);
	close_faulty(range);
}

struct retrier {
	struct fth_cache_range *range;
	pthread_t thread;
	uint64_t failed, value;
	int rc;
};

static void *get_until_it_works(void *arg)
{
	struct retrier *r = arg;

	do {
		r->rc = model_get(r->range, ELEMENT, &r->value);
		r->failed += r->rc < 0;
	} while (r->rc == -EIO && r->failed < 1000);
	return NULL;
}

/* One read fails, and all threads try again at once: each of them sees at most that one failure. */
static void one_failed_read_fails_no_thread_twice(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_faulty(compact);
		struct retrier r[THREADS];

		fail_reads(range, 1, 0, 20);
		for (unsigned i = 0; i < THREADS; i++) {
			r[i] = (struct retrier){.range = range};
			assert_int_equal(
				pthread_create(&r[i].thread, NULL, get_until_it_works, &r[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(r[i].thread, NULL);
		for (unsigned i = 0; i < THREADS; i++) {
			assert_ok(r[i].rc);
			assert_int_equal(r[i].value, model_value(ELEMENT, 0));
			assert_true(r[i].failed <= 1);
		}
		assert_int_equal(fth_cache_stat(fth_cache_of(range), FTH_CACHE_ERRORS), 1);
		close_faulty(range);
	}
}

static void *get_often(void *arg)
{
	struct retrier *r = arg;

	for (unsigned i = 0; i < 500; i++)
		r->failed += model_get(r->range, ELEMENT, &r->value) == -EIO;
	return NULL;
}

/* On a device that never answers well every failed get has asked it, or joined one that did. */
static void every_failure_is_one_of_the_device(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_faulty(compact);
		struct retrier r[THREADS];
		uint64_t errors, merged, value;

		fail_reads(range, 0, 1, 0);
		for (unsigned i = 0; i < THREADS; i++) {
			r[i] = (struct retrier){.range = range};
			assert_int_equal(pthread_create(&r[i].thread, NULL, get_often, &r[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++) {
			pthread_join(r[i].thread, NULL);
			assert_int_equal(r[i].failed, 500);
		}
		errors = fth_cache_stat(fth_cache_of(range), FTH_CACHE_ERRORS);
		merged = fth_cache_stat(fth_cache_of(range), FTH_CACHE_MERGED);
		assert_true(errors + merged >= 500 * THREADS);
		/* All frames that failed fetches have left can be used again. */
		assert_ok(fth_dev_fault_disarm(fth_cache_dev(range)));
		for (uint64_t line = 0; line < 64; line++)
			assert_ok(model_get(range, line * LINE / 8, &value));
		close_faulty(range);
	}
}

static int count_call(void *context, size_t which, uint8_t *data)
{
	(void)which;
	(void)data;
	++*(unsigned *)context;
	return 0;
}

/* A visit fails once for one failed line, and the next one reads them all. */
static void a_visit_after_a_failed_one_succeeds(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_faulty(compact);
		uint64_t lines[12];
		unsigned calls = 0;

		for (unsigned i = 0; i < 12; i++)
			lines[i] = i * 3;
		fail_reads(range, 5, 0, 0);
		assert_int_equal(
			fth_cache_visit(range, FTH_CACHE_READ, lines, 12, count_call, &calls),
			-EIO);
		calls = 0;
		assert_ok(fth_cache_visit(range, FTH_CACHE_READ, lines, 12, count_call, &calls));
		assert_int_equal(calls, 12);
		close_faulty(range);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_is_not_for_threads_that_come_later),
		cmocka_unit_test(one_failed_read_fails_no_thread_twice),
		cmocka_unit_test(every_failure_is_one_of_the_device),
		cmocka_unit_test(a_visit_after_a_failed_one_succeeds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
