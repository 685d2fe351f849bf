/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing, removing and discarding: what fails leaves everything as it was, and can be repeated. */
#include "model_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define LINE 512u
#define EACH (LINE / 8)

static struct fth_cache_range *open_range(const char *uri, bool compact, uint64_t timeout_ns)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = LINE;
	options.compact = compact;
	options.timeout_ns = timeout_ns;
	return model_open_cache(model_open_dev("%s", uri), &options, 8);
}

static void fail_writes(struct fth_dev *dev, uint32_t kinds)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(dev, &plan));
}

static void each_kind(void (*fn)(bool compact))
{
	fn(false);
	fn(true);
}

/* ---- a failed close can be repeated ---- */

static void close_twice(bool compact)
{
	static const enum fth_dev_op ops[] = {FTH_DEV_WRITE, FTH_DEV_FLUSH};

	for (unsigned i = 0; i < 2; i++) {
		struct fth_cache_range *range = open_range("fault(mem:64K)", compact, PATIENCE);
		struct fth_cache *cache = fth_cache_of(range);
		struct fth_dev *dev = fth_cache_dev(range);
		uint64_t value;

		fail_writes(dev, 1u << ops[i]);
		assert_ok(model_set(range, 700, model_value(700, 1)));
		assert_int_equal(fth_cache_remove(range), -EIO);
		assert_int_equal(fth_cache_close(cache), -EIO);
		/* All is as before: it can be read, changed, and closed once the device works. */
		assert_ok(model_get(range, 700, &value));
		assert_int_equal(value, model_value(700, 1));
		assert_ok(model_set(range, 701, model_value(701, 1)));
		assert_ok(fth_dev_fault_disarm(dev));
		assert_ok(fth_cache_close(cache));
		assert_int_equal(model_on_medium(dev, 700), model_value(700, 1));
		assert_int_equal(model_on_medium(dev, 701), model_value(701, 1));
		fth_dev_close(dev);
	}
}

static void a_failed_close_can_be_repeated(void **state)
{
	(void)state;
	each_kind(close_twice);
}

/* ---- discarding ---- */

static void discard_one(bool compact)
{
	struct fth_cache_range *range = open_range("fault(mem:64K)", compact, PATIENCE), *other;
	struct fth_cache *cache = fth_cache_of(range);
	struct fth_dev *dev = fth_cache_dev(range), *good = model_open_dev("mem:64K");
	struct fth_cache_footprint footprint;
	uint64_t value;

	assert_ok(fth_cache_add(cache, good, 0, FTH_CACHE_TO_END, 0, &other));
	assert_ok(model_set(other, 5, model_value(5, 1)));
	fail_writes(dev, 1u << FTH_DEV_WRITE);
	for (uint64_t line = 0; line < 3; line++)
		assert_ok(model_set(range, line * 64, model_value(line * 64, 1)));
	assert_int_equal(fth_cache_remove(range), -EIO);
	assert_ok(fth_cache_discard_range(range));
	fth_cache_footprint(cache, &footprint);
	assert_true(footprint.dirty <= 1);
	assert_int_equal(footprint.lines, fth_cache_lines(other));
	/* The device is free: it can be closed, or added again. */
	assert_ok(fth_dev_fault_disarm(dev));
	assert_ok(fth_cache_add(cache, dev, 0, FTH_CACHE_TO_END, 0, &range));
	assert_ok(model_get(range, 64, &value));
	assert_int_equal(value, model_value(64, 0));
	assert_ok(fth_cache_close(cache));
	assert_int_equal(model_on_medium(good, 5), model_value(5, 1));
	assert_int_equal(model_on_medium(dev, 0), model_value(0, 0));
	fth_dev_close(good);
	fth_dev_close(dev);
}

static void a_discarded_range_is_gone_and_nothing_else(void **state)
{
	(void)state;
	each_kind(discard_one);
}

static void discard_all(bool compact)
{
	struct fth_cache_range *range = open_range("fault(mem:64K)", compact, PATIENCE);
	struct fth_dev *dev = fth_cache_dev(range);

	fail_writes(dev, 1u << FTH_DEV_WRITE);
	for (uint64_t line = 0; line < 6; line++) /* more than may be dirty: the worker tries */
		assert_ok(model_set(range, line * 64, model_value(line * 64, 1)));
	assert_int_equal(fth_cache_close(fth_cache_of(range)), -EIO);
	assert_ok(fth_cache_discard(fth_cache_of(range)));
	fth_dev_close(dev);
	assert_ok(fth_cache_discard(NULL));
	assert_ok(fth_cache_discard_range(NULL));
}

static void a_discarded_cache_is_gone(void **state)
{
	(void)state;
	each_kind(discard_all);
}

/* ---- pins ---- */

static void close_pinned(bool compact)
{
	static const enum fth_cache_mode modes[] = {FTH_CACHE_READ, FTH_CACHE_WRITE,
						    FTH_CACHE_OVERWRITE};

	for (unsigned i = 0; i < 3; i++) {
		struct fth_cache_range *range = open_range("mem:64K", compact, PATIENCE);
		struct fth_cache *cache = fth_cache_of(range);
		struct fth_dev *dev = fth_cache_dev(range);
		struct fth_cache_pin pin;

		assert_ok(fth_cache_pin(range, 3, modes[i], fth_deadline_ns(PATIENCE), &pin));
		assert_int_equal(fth_cache_remove(range), -EBUSY);
		assert_int_equal(fth_cache_discard_range(range), -EBUSY);
		assert_int_equal(fth_cache_close(cache), -EBUSY);
		assert_int_equal(fth_cache_discard(cache), -EBUSY);
		/* The pinned memory is as it was, and changed lines are written back as before. */
		for (uint64_t line = 8; line < 60; line++)
			assert_ok(model_set(range, line * EACH, model_value(line * EACH, 7)));
		for (uint64_t k = 0; modes[i] != FTH_CACHE_READ && k < LINE / 8; k++)
			model_store(pin.data, k, model_value(3 * LINE / 8 + k, 7));
		fth_cache_unpin(&pin, modes[i] != FTH_CACHE_READ);
		assert_ok(fth_cache_close(cache));
		assert_int_equal(model_on_medium(dev, 3 * LINE / 8),
				 model_value(3 * LINE / 8, modes[i] == FTH_CACHE_READ ? 0 : 7));
		fth_dev_close(dev);
	}
}

static void a_cache_with_a_pinned_line_stays_open(void **state)
{
	(void)state;
	each_kind(close_pinned);
}

/* ---- a device that takes its time ---- */

/* Everything that waits for the device ends with -ETIMEDOUT, and can be repeated. */
static void slow(bool compact)
{
	struct fth_cache_range *range =
		open_range("delay(mem:64K)?write_us=2000000", compact, SECOND / 50);
	struct fth_cache *cache = fth_cache_of(range);
	struct fth_dev *dev = fth_cache_dev(range);
	unsigned timeouts = 0;
	int rc;

	assert_ok(model_set(range, 700, model_value(700, 1)));
	assert_int_equal(fth_cache_flush(range, 0, FTH_CACHE_TO_END), -ETIMEDOUT);
	assert_int_equal(fth_cache_close(cache), -ETIMEDOUT);
	/* The write is in flight from the line's memory, which is not given up before it ends. */
	while ((rc = fth_cache_discard(cache)) == -ETIMEDOUT)
		assert_true(++timeouts < 1000);
	assert_ok(rc);
	fth_dev_close(dev);
}

static void a_slow_device_ends_a_close_by_the_timeout(void **state)
{
	(void)state;
	each_kind(slow);
}

static void slow_flush(bool compact)
{
	struct fth_cache_range *range =
		open_range("delay(mem:64K)?flush_us=2000000", compact, SECOND / 50);
	struct fth_cache *cache = fth_cache_of(range);
	struct fth_dev *dev = fth_cache_dev(range);
	unsigned timeouts = 0;
	int rc;

	assert_ok(model_set(range, 700, model_value(700, 1)));
	assert_int_equal(fth_cache_flush_all(cache), -ETIMEDOUT);
	assert_int_equal(fth_cache_remove(range), -ETIMEDOUT);
	/* The flush is in flight: the cache does not wait for it, and stays. */
	assert_int_equal(fth_cache_discard(cache), -ETIMEDOUT);
	while ((rc = fth_cache_discard_range(range)) == -ETIMEDOUT)
		assert_true(++timeouts < 1000);
	assert_ok(rc);
	assert_ok(fth_cache_close(cache));
	fth_dev_close(dev);
}

static void a_slow_flush_ends_by_the_timeout(void **state)
{
	(void)state;
	each_kind(slow_flush);
}

/* ---- other threads ---- */

struct visitor {
	struct fth_cache_range *range;
	pthread_t thread;
	uint32_t inside, leave; /* atomic */
	int rc;
};

static int stay(void *context, size_t which, uint8_t *data)
{
	struct visitor *v = context;
	uint64_t deadline = fth_deadline_ns(PATIENCE);
	struct fth_backoff backoff = {0};

	(void)which;
	(void)data;
	fth_store_release_dev32(&v->inside, 1);
	while (!fth_load_acquire_dev32(&v->leave))
		if (fth_backoff_expired(&backoff, deadline))
			return -ETIMEDOUT;
	return 0;
}

static void *visit_and_stay(void *arg)
{
	static const uint64_t line = 5;
	struct visitor *v = arg;

	v->rc = fth_cache_visit(v->range, FTH_CACHE_READ, &line, 1, stay, v);
	return NULL;
}

/*
 * A thread that has missed a line may be looking at the words of any range. A range is not freed
 * before that thread is through, and is as before if that takes too long.
 */
static void wait_for_others(bool compact)
{
	struct fth_cache_range *range = open_range("mem:64K", compact, SECOND / 50), *other;
	struct fth_cache *cache = fth_cache_of(range);
	struct fth_dev *dev = fth_cache_dev(range), *dev2 = model_open_dev("mem:64K");
	uint64_t deadline = fth_deadline_ns(PATIENCE);
	struct fth_backoff backoff = {0};
	struct visitor v = {.range = range};

	assert_ok(fth_cache_add(cache, dev2, 0, FTH_CACHE_TO_END, 0, &other));
	assert_ok(model_set(other, 700, model_value(700, 1)));
	assert_int_equal(pthread_create(&v.thread, NULL, visit_and_stay, &v), 0);
	while (!fth_load_acquire_dev32(&v.inside))
		assert_false(fth_backoff_expired(&backoff, deadline));
	assert_int_equal(fth_cache_remove(other), -ETIMEDOUT);
	assert_int_equal(fth_cache_discard_range(other), -ETIMEDOUT);
	assert_ok(model_set(other, 701, model_value(701, 1)));
	assert_ok(fth_cache_flush_all(cache));
	assert_int_equal(model_on_medium(dev2, 701), model_value(701, 1));
	fth_store_release_dev32(&v.leave, 1);
	pthread_join(v.thread, NULL);
	assert_ok(v.rc);
	assert_ok(fth_cache_remove(other));
	assert_ok(fth_cache_close(cache));
	fth_dev_close(dev);
	fth_dev_close(dev2);
}

static void a_range_waits_for_threads_that_may_see_it(void **state)
{
	(void)state;
	each_kind(wait_for_others);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_close_can_be_repeated),
		cmocka_unit_test(a_discarded_range_is_gone_and_nothing_else),
		cmocka_unit_test(a_discarded_cache_is_gone),
		cmocka_unit_test(a_cache_with_a_pinned_line_stays_open),
		cmocka_unit_test(a_slow_device_ends_a_close_by_the_timeout),
		cmocka_unit_test(a_slow_flush_ends_by_the_timeout),
		cmocka_unit_test(a_range_waits_for_threads_that_may_see_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
