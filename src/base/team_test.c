/* SPDX-License-Identifier: BSD-2-Clause */
#include "team.h"

#include "fathom/hd/atomic.h"

#include "fth_test.h"

#include <errno.h>

static int count(void *context, unsigned thread)
{
	/* relaxed: only the sum counts. */
	fth_add_relaxed_dev64(context, (uint64_t)1 << 8 * thread);
	return 0;
}

static void every_thread_runs_once(void **state)
{
	uint64_t sum = 0;

	(void)state;
	assert_ok(fth_team_run(5, count, &sum));
	assert_int_equal(sum, 0x0101010101);
	sum = 0;
	assert_ok(fth_team_run(0, count, &sum));
	assert_int_equal(sum, 1);
}

static int fail_in_two(void *context, unsigned thread)
{
	(void)context;
	return thread < 2 ? 0 : fth_fail(EDOM, "thread %u", thread);
}

static void an_error_arrives_with_its_text(void **state)
{
	(void)state;
	assert_int_equal(fth_team_run(4, fail_in_two, NULL), -EDOM);
	assert_string_equal(fth_error_text(-EDOM), "thread 2");
}

static void parts_cover_everything_once(void **state)
{
	static const uint64_t totals[] = {0, 1, 7, 8, 100, 4096, 4097};

	(void)state;
	for (unsigned t = 0; t < sizeof(totals) / sizeof(totals[0]); t++)
		for (unsigned threads = 1; threads < 10; threads++) {
			uint64_t at = 0, first, end;

			for (unsigned i = 0; i < threads; i++) {
				fth_team_part(totals[t], 8, threads, i, &first, &end);
				assert_int_equal(first, at);
				assert_true(end >= first && (first % 8 == 0 || first == end));
				at = end;
			}
			assert_int_equal(at, totals[t]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_thread_runs_once),
		cmocka_unit_test(an_error_arrives_with_its_text),
		cmocka_unit_test(parts_cover_everything_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
