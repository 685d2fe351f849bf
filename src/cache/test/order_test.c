/* SPDX-License-Identifier: BSD-2-Clause */
/* Orders of steps that threads seldom meet, made to happen by functions put in between. */
#include "model_fixture.h"

#include "cache/cache_internal.h"

#include <errno.h>

#define LINE 512u

static struct fth_cache_range *open_range(bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = LINE;
	options.compact = compact;
	options.timeout_ns = PATIENCE;
	return model_open_cache(model_open_dev("mem:64K"), &options, 8);
}

static void close_range(struct fth_cache_range *range)
{
	struct fth_dev *dev = fth_cache_dev(range);

	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
}

/* ---- a line that keeps moving ---- */

static unsigned moves;	    /* waits that were ended so */
static unsigned moves_left; /* how many more; 0: waits are real */

enum cache_found __real_cache_wait_for(struct fth_cache_range *range, const struct cache_part *part,
				       uint64_t deadline, int *error);
enum cache_found __wrap_cache_wait_for(struct fth_cache_range *range, const struct cache_part *part,
				       uint64_t deadline, int *error);

/* The fetch that is waited for was given up, and another thread owns the next one already. */
enum cache_found __wrap_cache_wait_for(struct fth_cache_range *range, const struct cache_part *part,
				       uint64_t deadline, int *error)
{
	if (moves_left == 0)
		return __real_cache_wait_for(range, part, deadline, error);
	moves++;
	if (--moves_left == 0) {
		*error = EXFULL; /* so that a pin without a deadline ends, too */
		fth_line_unref(part->word, 1);
		return CACHE_FAILED;
	}
	fth_line_unref(part->word, 1);
	return CACHE_ABSENT;
}

static void a_pin_of_a_line_that_keeps_moving_ends_by_its_deadline(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_range(compact);
		struct fth_cache_pin owner, pin;

		assert_ok(fth_cache_pin(range, 3, FTH_CACHE_OVERWRITE, fth_deadline_ns(PATIENCE),
					&owner));
		moves = 0;
		moves_left = 100000000;
		assert_int_equal(
			fth_cache_pin(range, 3, FTH_CACHE_READ, fth_deadline_ns(1000000), &pin),
			-ETIMEDOUT);
		assert_true(moves > 0);
		moves_left = 0;
		fth_cache_unpin(&owner, false);
		assert_ok(fth_cache_pin(range, 3, FTH_CACHE_READ, fth_deadline_ns(PATIENCE), &pin));
		fth_cache_unpin(&pin, false);
		close_range(range);
	}
}

static unsigned refusals; /* of places for lines in a compact cache */

enum cache_found __real_cache_dir_insert(struct fth_cache_range *range, struct cache_part *part,
					 int *error);
enum cache_found __wrap_cache_dir_insert(struct fth_cache_range *range, struct cache_part *part,
					 int *error);

/* The frame that was found for the line has just been reused. */
enum cache_found __wrap_cache_dir_insert(struct fth_cache_range *range, struct cache_part *part,
					 int *error)
{
	if (refusals == 0)
		return __real_cache_dir_insert(range, part, error);
	if (--refusals == 0) {
		*error = EXFULL;
		return CACHE_FAILED;
	}
	return CACHE_ABSENT;
}

static int touch(void *context, size_t which, uint8_t *data)
{
	(void)context;
	(void)which;
	(void)data;
	return 0;
}

static void a_visit_of_a_line_that_keeps_moving_ends_by_the_timeout(void **state)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache_range *range;
	const uint64_t line = 3;

	(void)state;
	options.line = LINE;
	options.compact = true;
	options.timeout_ns = SECOND / 100;
	range = model_open_cache(model_open_dev("mem:64K"), &options, 8);
	refusals = 100000000;
	assert_int_equal(fth_cache_visit(range, FTH_CACHE_READ, &line, 1, touch, NULL), -ETIMEDOUT);
	refusals = 0;
	assert_ok(fth_cache_visit(range, FTH_CACHE_READ, &line, 1, touch, NULL));
	close_range(range);
}

/* ---- the dirty count ---- */

static struct fth_cache_range *flushed; /* by the next line that becomes dirty */
static uint64_t dirty_seen;

void __real_cache_line_dirtied(struct fth_cache *cache);
void __wrap_cache_line_dirtied(struct fth_cache *cache);

/* A line has just become dirty: the worker is quicker than the thread that made it so. */
void __wrap_cache_line_dirtied(struct fth_cache *cache)
{
	if (flushed) {
		assert_ok(fth_cache_flush(flushed, 0, FTH_CACHE_TO_END));
		dirty_seen = fth_load_relaxed_dev32(&cache->dirty);
	}
	__real_cache_line_dirtied(cache);
}

static void the_dirty_count_does_not_fall_below_zero(void **state)
{
	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_range *range = open_range(compact);
		struct fth_cache_footprint footprint;
		struct fth_cache_pin pin;

		flushed = range;
		dirty_seen = UINT64_MAX;
		assert_ok(model_set(range, 700, model_value(700, 1)));
		assert_int_equal(dirty_seen, 0);
		dirty_seen = UINT64_MAX;
		assert_ok(fth_cache_pin(range, 3, FTH_CACHE_OVERWRITE, fth_deadline_ns(PATIENCE),
					&pin));
		for (uint64_t i = 0; i < LINE / 8; i++)
			model_store(pin.data, i, model_value(3 * LINE / 8 + i, 1));
		fth_cache_unpin(&pin, true);
		assert_int_equal(dirty_seen, 0);
		flushed = NULL;
		/* A line that is dirty already is not counted again. */
		assert_ok(model_set(range, 700, model_value(700, 2)));
		assert_ok(model_set(range, 701, model_value(701, 2)));
		fth_cache_footprint(fth_cache_of(range), &footprint);
		assert_int_equal(footprint.dirty, 1);
		close_range(range);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pin_of_a_line_that_keeps_moving_ends_by_its_deadline),
		cmocka_unit_test(a_visit_of_a_line_that_keeps_moving_ends_by_the_timeout),
		cmocka_unit_test(the_dirty_count_does_not_fall_below_zero),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
