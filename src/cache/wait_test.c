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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_visit_does_not_wait_for_its_own_lines),
		cmocka_unit_test(an_overwrite_taken_back_is_no_error_for_others),
		cmocka_unit_test(a_visit_that_ends_is_no_error_for_others),
		cmocka_unit_test(a_visit_does_not_keep_frames_from_whom_it_waits_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
