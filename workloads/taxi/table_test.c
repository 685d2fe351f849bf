/* SPDX-License-Identifier: BSD-2-Clause */
#include "taxi_fixture.h"

#include "fathom/dev/crash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 200001u /* more than one piece, and no whole number of them */

static struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static void the_paper_s_shares_are_exact(void **state)
{
	static const uint64_t rows[] = {1, 100, 9999, 10000, 123457, 1000000};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t at_20 = 0, at_30 = 0;
		struct fth_taxi_generator generator;
		struct fth_taxi_trip trip;

		fth_taxi_generator_init(&generator, rows[i], i);
		for (uint64_t row = 0; row < rows[i]; row++) {
			fth_taxi_generate(&generator, &trip);
			at_20 += trip.column[FTH_TAXI_DISTANCE] >= 20;
			at_30 += trip.column[FTH_TAXI_DISTANCE] >= 30;
			assert_true(trip.column[FTH_TAXI_DISTANCE] >= 0);
			assert_true(trip.column[FTH_TAXI_TOTAL] > 0);
		}
		assert_int_equal(at_20, (rows[i] * 47 + 5000) / 10000);
		assert_int_equal(at_30, (rows[i] * 3 + 5000) / 10000);
	}
}

/* Of 16 equal parts of a table none has much more than its share of the long trips. */
static void long_trips_are_spread_evenly(void **state)
{
	uint64_t rows = 160000, expected = rows / 16 * 47 / 10000;
	struct fth_taxi_generator generator;
	struct fth_taxi_trip trip;

	(void)state;
	fth_taxi_generator_init(&generator, rows, 7);
	for (unsigned part = 0; part < 16; part++) {
		uint64_t found = 0;

		for (uint64_t i = 0; i < rows / 16; i++) {
			fth_taxi_generate(&generator, &trip);
			found += trip.column[FTH_TAXI_DISTANCE] >= 20;
		}
		assert_in_range(found, expected / 2, expected * 2);
	}
}

static void a_table_holds_what_was_added(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M");
	struct fth_taxi_table written, table;
	struct fth_taxi_generator generator;
	struct fth_taxi_trip trip;
	double *column = malloc(8 * (size_t)ROWS + 512);

	(void)state;
	assert_ok(taxi_fixture_write(dev, ROWS, 3, &written));
	assert_ok(fth_taxi_open(dev, &table));
	assert_memory_equal(&written, &table, sizeof(table));
	assert_int_equal(table.rows, ROWS);
	assert_ok(fth_taxi_check(dev, &table, NULL));
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++) {
		assert_int_equal(fth_taxi_offset(&table, c) % FTH_CACHE_LINE_MAX, 0);
		assert_ok(fth_dev_read(dev, column, (8 * (size_t)ROWS + 511) / 512 * 512,
				       fth_taxi_offset(&table, c), FTH_DEV_TIMEOUT));
		fth_taxi_generator_init(&generator, ROWS, 3);
		for (uint64_t i = 0; i < ROWS; i++) {
			fth_taxi_generate(&generator, &trip);
			assert_true(column[i] == trip.column[c]);
		}
	}
	free(column);
	fth_dev_close(dev);
}

static void a_table_without_rows_is_one(void **state)
{
	struct fth_dev *dev = open_dev("mem:1M");
	struct fth_taxi_table table;

	(void)state;
	assert_ok(taxi_fixture_write(dev, 0, 3, &table));
	assert_ok(fth_taxi_open(dev, &table));
	assert_int_equal(table.rows, 0);
	assert_ok(fth_taxi_check(dev, &table, NULL));
	fth_dev_close(dev);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct fth_dev *dev = open_dev("mem:1M");
	struct fth_taxi_trip trip = {{0}};
	struct fth_taxi_writer *writer;

	(void)state;
	assert_int_equal(fth_taxi_writer_open(dev, 1000000, &writer), -ENOSPC);
	assert_null(writer);
	assert_int_equal(fth_taxi_writer_open(dev, UINT64_MAX, &writer), -ENOSPC);
	assert_ok(fth_taxi_writer_open(dev, 1, &writer));
	assert_ok(fth_taxi_writer_add(writer, &trip));
	assert_int_equal(fth_taxi_writer_add(writer, &trip), -ENOSPC);
	fth_taxi_writer_free(writer);
	fth_dev_close(dev);
}

static void change_byte(struct fth_dev *dev, uint64_t at)
{
	uint8_t block[512];

	assert_ok(fth_dev_read(dev, block, sizeof(block), at / 512 * 512, FTH_DEV_TIMEOUT));
	block[at % 512] ^= 1;
	assert_ok(fth_dev_write(dev, block, sizeof(block), at / 512 * 512, FTH_DEV_TIMEOUT));
}

static void damage_is_found(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M");
	struct fth_taxi_table table, same;

	(void)state;
	assert_int_equal(fth_taxi_open(dev, &table), -EINVAL);
	assert_ok(taxi_fixture_write(dev, ROWS, 3, &table));
	for (unsigned at = 0; at < 4096; at += 97) {
		change_byte(dev, at);
		assert_int_equal(fth_taxi_open(dev, &same), -EINVAL);
		change_byte(dev, at);
	}
	assert_ok(fth_taxi_open(dev, &same));
	change_byte(dev, fth_taxi_offset(&table, FTH_TAXI_TOLLS) + 8 * (ROWS - 1));
	assert_int_equal(fth_taxi_check(dev, &table, NULL), -EILSEQ);
	assert_string_equal(fth_error_text(-EILSEQ), "column tolls differs from what was written");
	fth_dev_close(dev);
}

static void a_table_larger_than_its_device_is_refused(void **state)
{
	struct fth_dev *dev = open_dev("mem:16M"), *smaller = open_dev("mem:1M");
	struct fth_taxi_table table;
	uint8_t header[4096];

	(void)state;
	assert_ok(taxi_fixture_write(dev, ROWS, 3, &table));
	assert_ok(fth_dev_read(dev, header, sizeof(header), 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(smaller, header, sizeof(header), 0, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_taxi_open(smaller, &table), -EINVAL);
	fth_dev_close(smaller);
	fth_dev_close(dev);
}

/* Whichever write or flush fails: an error, and no table that would pass for whole. */
static void a_table_is_whole_or_not_there(void **state)
{
	bool clean = false;

	(void)state;
	for (unsigned nth = 1; !clean; nth++) {
		struct fth_taxi_table table;
		struct fth_dev *dev;
		char uri[128];
		int rc;

		assert_in_range(nth, 1, 1000);
		snprintf(uri, sizeof(uri), "fault(mem:8M)?kind=write,flush&nth=%u", nth);
		dev = open_dev(uri);
		rc = taxi_fixture_write(dev, 140000, 5, &table);
		clean = rc == 0;
		if (fth_taxi_open(dev, &table) == 0)
			assert_ok(fth_taxi_check(dev, &table, NULL));
		else
			assert_true(rc < 0);
		fth_dev_close(dev);
	}
}

/* Power is lost while a second table replaces a first: either is whole, or there is none. */
static void power_loss_leaves_a_whole_table_or_none(void **state)
{
	unsigned first = 0, second = 0, none = 0;

	(void)state;
	for (uint64_t point = 0; point < 120; point++) {
		struct fth_dev *dev = open_dev("crash(mem:1M)");
		struct fth_taxi_table table;
		bool lost;

		assert_ok(taxi_fixture_write(dev, 1000, 1, &table));
		assert_ok(fth_dev_crash_at(dev, 1 + point % 12, point));
		lost = taxi_fixture_write(dev, 900, 2, &table) < 0;
		if (lost)
			assert_ok(fth_dev_crash_restart(dev));
		if (fth_taxi_open(dev, &table) == 0) {
			assert_ok(fth_taxi_check(dev, &table, NULL));
			first += table.rows == 1000;
			second += table.rows == 900;
			assert_true(lost || table.rows == 900);
		} else {
			none++;
		}
		fth_dev_close(dev);
	}
	/* All three must come up, or this looked at the wrong places. */
	assert_true(first > 0 && second > 0 && none > 0);
	assert_int_equal(first + second + none, 120);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_paper_s_shares_are_exact),
		cmocka_unit_test(long_trips_are_spread_evenly),
		cmocka_unit_test(a_table_holds_what_was_added),
		cmocka_unit_test(a_table_without_rows_is_one),
		cmocka_unit_test(what_does_not_fit_is_refused),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(a_table_larger_than_its_device_is_refused),
		cmocka_unit_test(a_table_is_whole_or_not_there),
		cmocka_unit_test(power_loss_leaves_a_whole_table_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
