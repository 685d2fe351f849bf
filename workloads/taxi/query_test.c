/* SPDX-License-Identifier: BSD-2-Clause */
#include "taxi_fixture.h"

#include <errno.h>
#include <stdio.h>

#define ROWS 1200007u /* more than one stretch of the scan */

static void make_table(uint64_t rows, struct fth_dev **dev, struct fth_taxi_table *table)
{
	assert_ok(fth_dev_open("mem:64M", dev));
	assert_ok(taxi_fixture_write(*dev, rows, 1, table));
}

static void answers_are_those_of_a_plain_loop(void **state)
{
	static const double bounds[] = {20, 30, 5, 1000};
	struct fth_taxi_options options = {.memory = 4 << 20};
	struct fth_taxi_table table;
	struct fth_dev *dev;

	(void)state;
	make_table(ROWS, &dev, &table);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned q = 0; q < FTH_TAXI_QUERIES; q += 1 + i / 2 * 4) {
			struct fth_taxi_query query = {q, bounds[i]};
			struct fth_taxi_answer expected, found;

			options.threads = 1 + (i + q) % 3;
			options.line = q % 2 ? 0 : 4096;
			taxi_fixture_answer(ROWS, 1, &query, &expected);
			assert_ok(fth_taxi_run(dev, &table, &query, &options, &found));
			taxi_fixture_compare(&found, &expected);
		}
	fth_dev_close(dev);
}

/* The promise of the short lines: BaM reads 1.6 times what Q5 needs at 0.03 %. */
static void little_more_is_read_than_needed(void **state)
{
	struct fth_taxi_options options = {.threads = 2, .memory = 4 << 20};
	struct fth_taxi_query query = {5, FTH_TAXI_VERY_LONG};
	struct fth_taxi_answer answer;
	struct fth_taxi_table table;
	struct fth_dev *dev;

	(void)state;
	make_table(ROWS, &dev, &table);
	assert_ok(fth_taxi_run(dev, &table, &query, &options, &answer));
	assert_int_equal(answer.trips, fth_taxi_very_long_trips(ROWS));
	assert_int_equal(answer.bytes_useful, 8 * (ROWS + 5 * answer.trips));
	assert_in_range(answer.bytes_read, answer.bytes_useful, answer.bytes_useful * 6 / 5);
	/* The scan alone reads its column once. */
	query.query = 0;
	assert_ok(fth_taxi_run(dev, &table, &query, &options, &answer));
	assert_in_range(answer.bytes_read, 8 * ROWS, 8 * ROWS + 65536);
	fth_dev_close(dev);
}

static void small_tables_have_answers_too(void **state)
{
	static const uint64_t rows[] = {0, 1, 63, 64, 65, 8193};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fth_taxi_query query = {5, 0};
		struct fth_taxi_answer expected, found;
		struct fth_taxi_table table;
		struct fth_dev *dev;

		make_table(rows[i], &dev, &table);
		taxi_fixture_answer(rows[i], 1, &query, &expected);
		assert_ok(fth_taxi_run(dev, &table, &query, NULL, &found));
		taxi_fixture_compare(&found, &expected);
		fth_dev_close(dev);
	}
}

static bool now(void)
{
	return true;
}

static void what_can_not_be_answered_is_refused(void **state)
{
	struct fth_taxi_options options = {.stopped = now};
	struct fth_taxi_query query = {6, 20};
	struct fth_taxi_answer answer;
	struct fth_taxi_table table;
	struct fth_dev *dev;

	(void)state;
	make_table(1000, &dev, &table);
	assert_int_equal(fth_taxi_run(dev, &table, &query, NULL, &answer), -EINVAL);
	query.query = 5;
	assert_int_equal(fth_taxi_run(dev, &table, &query, &options, &answer), -EINTR);
	options = (struct fth_taxi_options){.line = 700};
	assert_int_equal(fth_taxi_run(dev, &table, &query, &options, &answer), -EINVAL);
	fth_dev_close(dev);
}

/* From whichever read on all fail: the query does too, or it was over before. */
static void a_failed_read_is_an_error(void **state)
{
	struct fth_taxi_options options = {.threads = 2, .memory = 4 << 20};
	struct fth_taxi_query query = {2, FTH_TAXI_LONG};
	unsigned failed = 0;

	(void)state;
	for (unsigned nth = 1; nth < 60; nth += 7) {
		struct fth_taxi_answer answer;
		struct fth_taxi_table table;
		struct fth_dev *dev;
		char uri[64];
		int rc;

		snprintf(uri, sizeof(uri), "fault(mem:6M)?kind=read&nth=%u&every=1", nth);
		assert_ok(fth_dev_open(uri, &dev));
		assert_ok(taxi_fixture_write(dev, 100000, 1, &table));
		rc = fth_taxi_run(dev, &table, &query, &options, &answer);
		failed += rc < 0;
		if (rc == 0)
			assert_int_equal(answer.trips, fth_taxi_long_trips(100000));
		else
			assert_int_equal(rc, -EIO);
		fth_dev_close(dev);
	}
	assert_true(failed > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_those_of_a_plain_loop),
		cmocka_unit_test(little_more_is_read_than_needed),
		cmocka_unit_test(small_tables_have_answers_too),
		cmocka_unit_test(what_can_not_be_answered_is_refused),
		cmocka_unit_test(a_failed_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
