/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for lines and for frames: who is told what, and that each wait ends. */
#include "model_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct fth_cache_options options_of(uint32_t line, bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = line;
	options.compact = compact;
	options.timeout_ns = PATIENCE;
	return options;
}

/* Open a device and a cache over it. */
static struct fth_cache_range *open_both(const char *uri, struct fth_cache_options options,
					 uint32_t frames)
{
	return model_open_cache(model_open_dev("%s", uri), &options, frames);
}

static void close_both(struct fth_cache_range *range)
{
	struct fth_dev *dev = fth_cache_dev(range);

	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
}

static int count_call(void *context, size_t which, uint8_t *data)
{
	unsigned *calls = context;

	(void)data;
	calls[which]++;
	return 0;
}

/* A visit holds references on lines it waits for; those must not be the last frames. */
static void a_visit_does_not_wait_for_its_own_lines(void **state)
{
	uint64_t lines[24];
	unsigned calls[24];

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = options_of(512, compact);
		struct fth_cache_range *range;

		options.timeout_ns = SECOND;
		range = open_both("mem:64K", options, 4);
		memset(calls, 0, sizeof(calls));
		for (unsigned i = 0; i < 24; i++)
			lines[i] = i / 2 * 3; /* each twice, no neighbours */
		assert_ok(fth_cache_visit(range, FTH_CACHE_READ, lines, 24, count_call, calls));
		for (unsigned i = 0; i < 24; i++)
			assert_int_equal(calls[i], 1);
		close_both(range);
	}
}

/* ---- lines that are given up ---- */

struct reader {
	struct fth_cache_range *range;
	uint64_t element;
	pthread_t thread;
	uint64_t value;
	int rc;
};

static void *read_element(void *arg)
{
	struct reader *r = arg;

	r->rc = model_get(r->range, r->element, &r->value);
	return NULL;
}

static void start_reader(struct reader *r, struct fth_cache_range *range, uint64_t element)
{
	*r = (struct reader){.range = range, .element = element};
	assert_int_equal(pthread_create(&r->thread, NULL, read_element, r), 0);
}

static void wait_for_stat(struct fth_cache_range *range, enum fth_cache_stat which, uint64_t n)
{
	uint64_t deadline = fth_deadline_ns(PATIENCE);
	struct fth_backoff backoff = {0};

	while (fth_cache_stat(fth_cache_of(range), which) < n)
		assert_false(fth_backoff_expired(&backoff, deadline));
}

/* Who waits for a line that is overwritten, and then is not, reads what is on the medium. */
static void an_overwrite_taken_back_is_no_error_for_others(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_both("mem:64K", options_of(512, compact), 8);
		struct fth_cache_pin pin;
		struct reader r;

		assert_ok(fth_cache_pin(range, 5, FTH_CACHE_OVERWRITE, fth_deadline_ns(PATIENCE),
					&pin));
		assert_true(pin.fresh);
		memset(pin.data, 0xee, 512);
		start_reader(&r, range, 5 * 64 + 7);
		wait_for_stat(range, FTH_CACHE_MERGED, 1);
		fth_cache_unpin(&pin, false);
		pthread_join(r.thread, NULL);
		assert_ok(r.rc);
		assert_int_equal(r.value, model_value(5 * 64 + 7, 0));
		close_both(range);
	}
}

static int cancel_with_a_reader(void *context, size_t which, uint8_t *data)
{
	struct reader *r = context;

	(void)which;
	memset(data, 0xee, 512);
	start_reader(r, r->range, r->element);
	wait_for_stat(r->range, FTH_CACHE_MERGED, 1);
	return -ECANCELED;
}

static void a_visit_that_ends_is_no_error_for_others(void **state)
{
	const uint64_t line = 5;

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_both("mem:64K", options_of(512, compact), 8);
		struct reader r = {.range = range, .element = 5 * 64 + 7};

		assert_int_equal(fth_cache_visit(range, FTH_CACHE_OVERWRITE, &line, 1,
						 cancel_with_a_reader, &r),
				 -ECANCELED);
		pthread_join(r.thread, NULL);
		assert_ok(r.rc);
		assert_int_equal(r.value, model_value(5 * 64 + 7, 0));
		close_both(range);
	}
}

/* ---- circles ---- */

struct visitor {
	struct fth_cache_range *range;
	pthread_t thread;
	unsigned calls[5];
	int rc;
};

static void *visit_five(void *arg)
{
	static const uint64_t lines[5] = {0, 1, 2, 3, 9};
	struct visitor *v = arg;

	v->rc = fth_cache_visit(v->range, FTH_CACHE_READ, lines, 5, count_call, v->calls);
	return NULL;
}

static void wait_for_count(uint64_t *word, uint32_t count)
{
	uint64_t deadline = fth_deadline_ns(PATIENCE);
	struct fth_backoff backoff = {0};

	while (fth_line_count(fth_load_acquire_dev64(word)) < count)
		assert_false(fth_backoff_expired(&backoff, deadline));
}

/*
 * Four frames. A reader owns the fetch of line 9 and waits for a frame; a visitor waits for lines 0
 * to 3, which are in the frames, and for 9. When 0 to 3 arrive the visitor must let go of them.
 */
static void a_visit_does_not_keep_frames_from_whom_it_waits_for(void **state)
{
	struct fth_cache_options options = options_of(512, false);
	struct fth_cache_range *range;
	struct fth_cache_pin pins[4];
	struct fth_cache_view view;
	struct visitor v;
	struct reader r;

	(void)state;
	options.timeout_ns = 2 * SECOND;
	range = open_both("mem:64K", options, 4);
	fth_cache_view(range, &view);
	for (unsigned i = 0; i < 4; i++)
		assert_ok(fth_cache_pin(range, i, FTH_CACHE_OVERWRITE, fth_deadline_ns(PATIENCE),
					&pins[i]));
	start_reader(&r, range, 9 * 64);
	wait_for_count(&view.words[9], 1);
	v = (struct visitor){.range = range};
	assert_int_equal(pthread_create(&v.thread, NULL, visit_five, &v), 0);
	wait_for_count(&view.words[9], 2);
	for (unsigned i = 0; i < 4; i++) {
		memset(pins[i].data, 0, 512);
		fth_cache_unpin(&pins[i], true);
	}
	pthread_join(v.thread, NULL);
	pthread_join(r.thread, NULL);
	assert_ok(v.rc);
	assert_ok(r.rc);
	assert_int_equal(r.value, model_value(9 * 64, 0));
	close_both(range);
}

/* ---- many threads, one line ---- */

#define THREADS 8

/* All threads read the same element at once. */
static void read_together(struct reader *readers, struct fth_cache_range *range, uint64_t element)
{
	for (unsigned i = 0; i < THREADS; i++)
		start_reader(&readers[i], range, element);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(readers[i].thread, NULL);
}

static uint64_t stat_of(struct fth_cache_range *range, enum fth_cache_stat which)
{
	return fth_cache_stat(fth_cache_of(range), which);
}

static void however_many_want_a_line_it_is_fetched_once(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range =
			open_both("delay(mem:64K)?read_us=50000", options_of(512, compact), 8);
		struct reader readers[THREADS];

		read_together(readers, range, 700);
		for (unsigned i = 0; i < THREADS; i++) {
			assert_ok(readers[i].rc);
			assert_int_equal(readers[i].value, model_value(700, 0));
		}
		assert_int_equal(stat_of(range, FTH_CACHE_MISSES), 1);
		/* Whoever came too late to wait has a hit. */
		assert_int_equal(stat_of(range, FTH_CACHE_MERGED) + stat_of(range, FTH_CACHE_HITS),
				 THREADS - 1);
		assert_int_equal(fth_dev_stat(fth_cache_dev(range), FTH_DEV_STAT_READS), 1);
		close_both(range);
	}
}

static struct fth_dev_fault_plan plan_of(enum fth_dev_op op, uint64_t hold_ms)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = 1u << op;
	plan.nth = 1;
	plan.hold_ns = hold_ms * 1000000;
	return plan;
}

static void a_failed_fetch_is_told_to_everyone_who_waits(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_READ, 50);

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range =
			open_both("fault(mem:64K)", options_of(512, compact), 8);
		struct reader readers[THREADS];
		unsigned failed = 0;
		uint64_t value;

		assert_ok(fth_dev_fault_set(fth_cache_dev(range), &plan));
		read_together(readers, range, 700);
		for (unsigned i = 0; i < THREADS; i++) {
			failed += readers[i].rc == -EIO;
			assert_true(readers[i].rc == -EIO ||
				    readers[i].value == model_value(700, 0));
		}
		/* One fetch failed; whoever came after it began another, or joined that. */
		assert_true(failed >= 1);
		assert_true(failed <= stat_of(range, FTH_CACHE_MERGED) + 1);
		assert_int_equal(stat_of(range, FTH_CACHE_ERRORS), 1);
		assert_ok(model_get(range, 700, &value));
		assert_int_equal(value, model_value(700, 0));
		close_both(range);
	}
}

/* ---- devices that do not answer ---- */

static void a_stuck_read_ends_by_the_deadline_and_can_be_read_later(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_READ, 300);

	(void)state;
	plan.mode = FTH_DEV_FAULT_TIMEOUT;
	plan.error = ETIMEDOUT;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range =
			open_both("fault(mem:64K)", options_of(512, compact), 8);
		struct fth_cache_pin pin;
		uint64_t value;
		int rc;

		assert_ok(fth_dev_fault_set(fth_cache_dev(range), &plan));
		assert_int_equal(
			fth_cache_pin(range, 3, FTH_CACHE_READ, fth_deadline_ns(SECOND / 50), &pin),
			-ETIMEDOUT);
		/* Others are not disturbed. */
		assert_ok(model_get(range, 4 * 64, &value));
		/* Who waits for the same line is told when the device gives up. */
		rc = model_get(range, 3 * 64, &value);
		assert_true(rc == 0 || rc == -ETIMEDOUT);
		assert_ok(model_get(range, 3 * 64, &value));
		assert_int_equal(value, model_value(3 * 64, 0));
		close_both(range);
	}
}

static void a_stuck_write_ends_the_flush_and_a_later_one_succeeds(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_WRITE, 300);

	(void)state;
	plan.mode = FTH_DEV_FAULT_TIMEOUT;
	plan.error = ETIMEDOUT;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = options_of(512, compact);
		struct fth_cache_range *range;
		struct fth_dev *dev;
		int rc;

		options.timeout_ns = SECOND / 50;
		range = open_both("fault(mem:64K)", options, 8);
		dev = fth_cache_dev(range);
		assert_ok(fth_dev_fault_set(dev, &plan));
		assert_ok(model_set(range, 700, model_value(700, 1)));
		assert_int_equal(fth_cache_flush(range, 0, FTH_CACHE_TO_END), -ETIMEDOUT);
		assert_int_equal(model_on_medium(dev, 700), model_value(700, 0));
		/* It is the write that is stuck that has to end first. */
		do
			rc = fth_cache_flush(range, 0, FTH_CACHE_TO_END);
		while (rc == -ETIMEDOUT);
		assert_ok(rc);
		assert_int_equal(model_on_medium(dev, 700), model_value(700, 1));
		close_both(range);
	}
}

/* ---- write-back ---- */

static void a_failed_write_back_is_reported_and_tried_again(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_WRITE, 0);

	(void)state;
	plan.nth = 0;
	plan.every = 1;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range =
			open_both("fault(mem:64K)", options_of(512, compact), 8);
		struct fth_dev *dev = fth_cache_dev(range);
		struct fth_cache_footprint footprint;
		uint64_t value;

		assert_ok(fth_dev_fault_set(dev, &plan));
		assert_ok(model_set(range, 700, model_value(700, 1)));
		assert_int_equal(fth_cache_flush(range, 0, FTH_CACHE_TO_END), -EIO);
		assert_int_equal(fth_cache_flush_all(fth_cache_of(range)), -EIO);
		assert_int_equal(fth_cache_evict(range, 0, FTH_CACHE_TO_END), -EIO);
		fth_cache_footprint(fth_cache_of(range), &footprint);
		assert_int_equal(footprint.dirty, 1);
		assert_ok(model_get(range, 700, &value));
		assert_int_equal(value, model_value(700, 1));
		assert_ok(fth_dev_fault_disarm(dev));
		assert_ok(fth_cache_flush(range, 0, FTH_CACHE_TO_END));
		assert_int_equal(model_on_medium(dev, 700), model_value(700, 1));
		close_both(range);
	}
}

static void closing_reports_what_could_not_be_written(void **state)
{
	struct fth_dev_fault_plan plan = plan_of(FTH_DEV_WRITE, 0);
	struct fth_cache_range *range = open_both("fault(mem:64K)", options_of(512, false), 8);
	struct fth_dev *dev = fth_cache_dev(range);

	(void)state;
	plan.nth = 0;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(dev, &plan));
	assert_ok(model_set(range, 700, model_value(700, 1)));
	assert_int_equal(fth_cache_close(fth_cache_of(range)), -EIO);
	assert_ok(fth_cache_discard(fth_cache_of(range)));
	fth_dev_close(dev);
}

static uint32_t writers_done; /* atomic */

static void *write_lines(void *arg)
{
	struct reader *r = arg;

	for (uint64_t i = 0; i < 400 && r->rc == 0; i++)
		r->rc = model_set(r->range, (i * THREADS + r->element) % 128 * 64,
				  model_value((i * THREADS + r->element) % 128 * 64, 1));
	/* relaxed: whoever looks at rc joins first. */
	fth_add_relaxed_dev32(&writers_done, 1);
	return NULL;
}

/* The most lines that were seen dirty; 0 if the writers were done before anybody looked. */
static uint64_t most_dirty(void)
{
	struct fth_cache_options options = options_of(512, false);
	struct fth_cache_range *range;
	struct reader writers[THREADS];
	uint64_t most = 0;

	options.dirty_percent = 25;
	fth_store_relaxed_dev32(&writers_done, 0);
	range = open_both("delay(mem:64K)?write_us=200", options, 64);
	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct reader){.range = range, .element = i};
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_lines, &writers[i]),
				 0);
	}
	do {
		struct fth_cache_footprint footprint;

		fth_cache_footprint(fth_cache_of(range), &footprint);
		if (footprint.dirty > most)
			most = footprint.dirty;
		sched_yield();
	} while (fth_load_relaxed_dev32(&writers_done) < THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(writers[i].thread, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		assert_ok(writers[i].rc);
	close_both(range);
	return most;
}

/* Whoever goes beyond the bound waits for a batch to be written: a few lines ahead, no more. */
static void the_dirty_share_is_bounded(void **state)
{
	uint64_t most = 0;

	(void)state;
	for (unsigned tries = 0; most == 0 && tries < 20; tries++)
		most = most_dirty();
	/* Each writer may be a batch's wait ahead, and counts its line before it is marked. */
	if (most == 0 || most > 16 + 5 * THREADS)
		fail_msg("%llu of 64 lines were dirty", (unsigned long long)most);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_visit_does_not_wait_for_its_own_lines),
		cmocka_unit_test(an_overwrite_taken_back_is_no_error_for_others),
		cmocka_unit_test(a_visit_that_ends_is_no_error_for_others),
		cmocka_unit_test(a_visit_does_not_keep_frames_from_whom_it_waits_for),
		cmocka_unit_test(however_many_want_a_line_it_is_fetched_once),
		cmocka_unit_test(a_failed_fetch_is_told_to_everyone_who_waits),
		cmocka_unit_test(a_stuck_read_ends_by_the_deadline_and_can_be_read_later),
		cmocka_unit_test(a_stuck_write_ends_the_flush_and_a_later_one_succeeds),
		cmocka_unit_test(a_failed_write_back_is_reported_and_tried_again),
		cmocka_unit_test(closing_reports_what_could_not_be_written),
		cmocka_unit_test(the_dirty_share_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
