/* SPDX-License-Identifier: BSD-2-Clause */
#include "taxi_fixture.h"

#include <errno.h>
#include <stdio.h>

#define ROWS 300007u

static void whole_columns_give_the_plain_answer(void **state)
{
	static const double bounds[] = {0, 20, 30, 1000};
	struct fth_taxi_options options = {.memory = 4 << 20};
	struct fth_taxi_table table;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:16M", &dev));
	assert_ok(taxi_fixture_write(dev, ROWS, 1, &table));
	for (unsigned i = 0; i < 4 * FTH_TAXI_QUERIES; i++) {
		struct fth_taxi_query query = {i % FTH_TAXI_QUERIES, bounds[i / FTH_TAXI_QUERIES]};
		struct fth_taxi_answer expected, found;

		options.threads = 1 + i % 3;
		taxi_fixture_answer(ROWS, 1, &query, &expected);
		assert_ok(fth_taxi_run_whole(dev, &table, &query, &options, &found));
		taxi_fixture_compare(&found, &expected);
		assert_true(fth_taxi_same_answer(&found, &expected));
		assert_int_equal(found.bytes_useful, 8 * (ROWS + query.query * found.trips));
		/* All of each column, and at most a block more for each thread. */
		assert_in_range(found.bytes_read, 8 * (query.query + 1) * (uint64_t)ROWS,
				(8 * (uint64_t)ROWS + 3 * 512) * (query.query + 1));
	}
	fth_dev_close(dev);
}

static void answers_that_differ_are_not_the_same(void **state)
{
	struct fth_taxi_answer a = {.trips = 3, .sums = {1, 2, 3, 4, 5, 6}}, b = a;

	(void)state;
	assert_true(fth_taxi_same_answer(&a, &b));
	b.trips = 4;
	assert_false(fth_taxi_same_answer(&a, &b));
	b = a;
	b.sums[5] = 6.0000001;
	assert_false(fth_taxi_same_answer(&a, &b));
	b.sums[5] = __builtin_nan("");
	assert_false(fth_taxi_same_answer(&a, &b));
}

static void a_query_that_does_not_exist_is_refused(void **state)
{
	struct fth_taxi_query query = {FTH_TAXI_QUERIES, 20};
	struct fth_taxi_answer answer;
	struct fth_taxi_table table;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:1M", &dev));
	assert_ok(taxi_fixture_write(dev, 100, 1, &table));
	assert_int_equal(fth_taxi_run_whole(dev, &table, &query, NULL, &answer), -EINVAL);
	query = (struct fth_taxi_query){1, __builtin_nan("")};
	assert_int_equal(fth_taxi_run_whole(dev, &table, &query, NULL, &answer), -EINVAL);
	fth_dev_close(dev);
}

/* Whichever read fails, the query does; none hangs or gives an answer. */
static void a_failed_read_is_an_error(void **state)
{
	struct fth_taxi_options options = {.threads = 2, .memory = 2 << 20};
	struct fth_taxi_query query = {5, 20};
	bool clean = false;

	(void)state;
	for (unsigned nth = 1; !clean; nth += 3) {
		struct fth_taxi_answer answer;
		struct fth_taxi_table table;
		struct fth_dev *dev;
		char uri[64];
		int rc;

		assert_in_range(nth, 1, 1000);
		snprintf(uri, sizeof(uri), "fault(mem:6M)?kind=read&nth=%u", nth);
		assert_ok(fth_dev_open(uri, &dev));
		assert_ok(taxi_fixture_write(dev, 100000, 1, &table));
		rc = fth_taxi_run_whole(dev, &table, &query, &options, &answer);
		clean = rc == 0;
		if (clean)
			assert_int_equal(answer.trips, fth_taxi_long_trips(100000));
		else
			assert_int_equal(rc, -EIO);
		fth_dev_close(dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_columns_give_the_plain_answer),
		cmocka_unit_test(answers_that_differ_are_not_the_same),
		cmocka_unit_test(a_query_that_does_not_exist_is_refused),
		cmocka_unit_test(a_failed_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
