/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The Nth request to the device fails, for N = 1, 2, ... until none is left to fail. After each:
 * the error was reported or the request was tried again, nothing is lost, nothing hangs, and all
 * goes on when the device works again.
 */
#include "model_fixture.h"

#include <errno.h>

#define LINES	  32
#define PER_LINE  64 /* elements of a line of 512 bytes */
#define FRAMES	  6
#define NTH_LIMIT 500

struct script {
	struct fth_cache_range *range;
	uint32_t generations[LINES]; /* of the first element of each line */
	unsigned failures;	     /* calls that failed */
};

static uint64_t first_of(uint64_t line)
{
	return line * PER_LINE;
}

/* Note a call's result: nothing but the device's error may come. */
static void note(struct script *s, int rc)
{
	if (rc < 0)
		assert_int_equal(rc, -EIO);
	s->failures += rc < 0;
}

static void change(struct script *s, uint64_t line, uint8_t *data)
{
	model_store(data, 0, model_value(first_of(line), ++s->generations[line]));
}

static int change_line(void *context, size_t which, uint8_t *data)
{
	change(context, which, data);
	return 0;
}

static int check_line(void *context, size_t which, uint8_t *data)
{
	struct script *s = context;

	assert_int_equal(model_load(data, 0), model_value(first_of(which), s->generations[which]));
	assert_int_equal(model_load(data, 9), model_value(first_of(which) + 9, 0));
	return 0;
}

static void set(struct script *s, uint64_t line)
{
	struct fth_cache_pin pin;
	int rc = fth_cache_pin(s->range, line, FTH_CACHE_WRITE, fth_deadline_ns(PATIENCE), &pin);

	note(s, rc);
	if (rc < 0)
		return;
	check_line(s, line, pin.data);
	change(s, line, pin.data);
	fth_cache_unpin(&pin, true);
}

static void overwrite(struct script *s, uint64_t line)
{
	struct fth_cache_pin pin;
	int rc =
		fth_cache_pin(s->range, line, FTH_CACHE_OVERWRITE, fth_deadline_ns(PATIENCE), &pin);

	note(s, rc);
	if (rc < 0)
		return;
	for (uint64_t i = 0; i < PER_LINE; i++)
		model_store(pin.data, i, model_value(first_of(line) + i, 0));
	change(s, line, pin.data);
	fth_cache_unpin(&pin, true);
}

/* Everything once, with more lines than frames. */
static void use_everything(struct script *s)
{
	uint64_t all[LINES];

	for (uint64_t i = 0; i < LINES; i++)
		all[i] = i;
	for (uint64_t line = 0; line < 10; line++)
		set(s, line);
	note(s, fth_cache_visit(s->range, FTH_CACHE_READ, all, LINES, check_line, s));
	note(s, fth_cache_visit(s->range, FTH_CACHE_WRITE, all, 12, change_line, s));
	for (uint64_t line = 8; line < 16; line++)
		overwrite(s, line);
	note(s, fth_cache_flush(s->range, 4, 6));
	fth_cache_prefetch(s->range, 20, 4);
	set(s, 21);
	note(s, fth_cache_evict(s->range, 0, LINES));
	set(s, 3);
	note(s, fth_cache_flush_all(fth_cache_of(s->range)));
}

/* The device works again: everything is there, can be written and closed. */
static void check_recovered(struct script *s, struct fth_dev *dev)
{
	uint64_t all[LINES];

	for (uint64_t i = 0; i < LINES; i++)
		all[i] = i;
	assert_ok(fth_cache_visit(s->range, FTH_CACHE_READ, all, LINES, check_line, s));
	assert_ok(fth_cache_flush_all(fth_cache_of(s->range)));
	for (uint64_t i = 0; i < LINES; i++)
		assert_int_equal(model_on_medium(dev, first_of(i)),
				 model_value(first_of(i), s->generations[i]));
	assert_ok(fth_cache_close(fth_cache_of(s->range)));
}

/* How many requests were made to fail: 0 when n is beyond them all. */
static uint64_t fail_nth(uint64_t n, enum fth_dev_fault_mode mode, bool compact, unsigned *failures)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_dev *dev = model_open_dev("fault(mem:%u)", LINES * PER_LINE * 8);
	struct fth_dev_fault_counts counts;
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct script s = {0};

	options.line = PER_LINE * 8;
	options.depth = 4;
	options.compact = compact;
	options.timeout_ns = PATIENCE;
	s.range = model_open_cache(dev, &options, FRAMES);
	plan.nth = n;
	plan.mode = mode;
	assert_ok(fth_dev_fault_set(dev, &plan));
	use_everything(&s);
	assert_ok(fth_dev_fault_counts(dev, &counts));
	assert_ok(fth_dev_fault_disarm(dev));
	assert_true(s.failures == 0 || counts.injected == 1);
	*failures += s.failures;
	check_recovered(&s, dev);
	fth_dev_close(dev);
	return counts.injected;
}

static void any_request_may_fail(enum fth_dev_fault_mode mode)
{
	for (unsigned compact = 0; compact < 2; compact++) {
		unsigned failures = 0;
		uint64_t n = 1;

		while (fail_nth(n, mode, compact, &failures))
			assert_true(++n < NTH_LIMIT);
		assert_true(n > 30);	   /* there was something to fail */
		assert_true(failures > 5); /* and not all of it went unnoticed */
	}
}

static void any_request_may_fail_undone(void **state)
{
	(void)state;
	any_request_may_fail(FTH_DEV_FAULT_FAIL);
}

static void any_request_may_fail_done(void **state)
{
	(void)state;
	any_request_may_fail(FTH_DEV_FAULT_LATE);
}

static void any_request_may_fail_half_done(void **state)
{
	(void)state;
	any_request_may_fail(FTH_DEV_FAULT_TORN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_request_may_fail_undone),
		cmocka_unit_test(any_request_may_fail_done),
		cmocka_unit_test(any_request_may_fail_half_done),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
