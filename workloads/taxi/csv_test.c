/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/taxi/taxi.h"

#include "fth_test.h"

#include <errno.h>
#include <string.h>

#define TRIPS_MAX 16

struct seen {
	struct fth_taxi_trip trips[TRIPS_MAX];
	unsigned count;
	struct fth_taxi_csv_counts counts;
};

static int remember(void *context, const struct fth_taxi_trip *trip)
{
	struct seen *seen = context;

	assert_in_range(seen->count, 0, TRIPS_MAX - 1);
	seen->trips[seen->count++] = *trip;
	return 0;
}

/* Parse a text in pieces of so many characters. */
static int parse_cut(const char *text, size_t piece, bool lenient, struct seen *seen)
{
	struct fth_taxi_csv_options options = {.lenient = lenient};
	size_t length = strlen(text);
	struct fth_taxi_csv *csv;
	int rc = 0;

	memset(seen, 0, sizeof(*seen));
	assert_ok(fth_taxi_csv_open(&options, remember, seen, &csv));
	for (size_t at = 0; at < length && rc == 0; at += piece)
		rc = fth_taxi_csv_feed(csv, text + at, length - at < piece ? length - at : piece);
	if (rc == 0)
		rc = fth_taxi_csv_finish(csv);
	fth_taxi_csv_counts(csv, &seen->counts);
	fth_taxi_csv_close(csv);
	return rc;
}

static void expect_trip(const struct seen *seen, unsigned i, const double *columns)
{
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		assert_true(seen->trips[i].column[c] == columns[c]);
}

static void columns_are_found_by_name_in_any_order(void **state)
{
	const char *text = "mta_tax,total_amount,VendorID,trip_distance,tolls_amount,extra,"
			   "improvement_surcharge,ehail_fee,congestion_surcharge\n"
			   "0.5,20.25,2,3.75,6,1,0.25,4,2.5\n"
			   "0,1,x,2,3,4,5,6,7\n";
	struct seen seen;

	(void)state;
	assert_ok(parse_cut(text, 1000, false, &seen));
	assert_int_equal(seen.count, 2);
	expect_trip(&seen, 0, (double[]){3.75, 20.25, 3.75, 4, 6, 0.5});
	expect_trip(&seen, 1, (double[]){2, 1, 16, 6, 3, 0});
	assert_int_equal(seen.counts.absent, 0);
	assert_int_equal(seen.counts.trips, 2);
	assert_int_equal(seen.counts.empty, 0);
}

static void input_may_be_cut_anywhere(void **state)
{
	const char *text = "\"Trip_Distance\",\" Total_Amt \",surcharge\r\n\r\n"
			   "\"1.5\",2,\"3\"\r\n"
			   " 4 ,\"5\" ,6";
	struct seen seen;

	(void)state;
	for (size_t piece = 1; piece < strlen(text); piece++) {
		assert_ok(parse_cut(text, piece, false, &seen));
		assert_int_equal(seen.count, 2);
		expect_trip(&seen, 0, (double[]){1.5, 2, 3, 0, 0, 0});
		expect_trip(&seen, 1, (double[]){4, 5, 6, 0, 0, 0});
		assert_int_equal(seen.counts.lines, 4);
	}
}

static void what_is_missing_is_zero_and_counted(void **state)
{
	const char *text = "trip_distance,total_amount,tolls_amount,mta_tax\n"
			   "1,2,,\n"
			   "3,4\n"
			   "5,6,7,8,,\n";
	struct seen seen;

	(void)state;
	assert_ok(parse_cut(text, 7, false, &seen));
	assert_int_equal(seen.count, 3);
	expect_trip(&seen, 1, (double[]){3, 4, 0, 0, 0, 0});
	expect_trip(&seen, 2, (double[]){5, 6, 0, 0, 7, 8});
	assert_int_equal(seen.counts.empty, 4);
	assert_int_equal(seen.counts.short_lines, 1);
	assert_int_equal(seen.counts.long_lines, 1);
	assert_int_equal(seen.counts.absent, 1 << FTH_TAXI_SURCHARGES | 1 << FTH_TAXI_HAIL_FEE);
}

static void quoted_fields_hold_commas_quotes_and_line_ends(void **state)
{
	const char *text = "zone,trip_distance,total_amount\n"
			   "\"a, \"\"b\"\"\nc\",1,2\n"
			   "d,3,oops\n";
	struct seen seen;

	(void)state;
	assert_int_equal(parse_cut(text, 1, false, &seen), -EINVAL);
	assert_int_equal(seen.count, 1);
	expect_trip(&seen, 0, (double[]){1, 2, 0, 0, 0, 0});
	/* The line inside the quotes counts. */
	assert_string_equal(fth_error_text(-EINVAL),
			    "line 4, field 3 (total): \"oops\" is not a number");
}

static void bad_lines_are_skipped_if_so_wished(void **state)
{
	const char *text = "trip_distance,total_amount\n1,2\nx,4\n5,nan\n6,0x10\n7,8\n";
	struct seen seen;

	(void)state;
	assert_ok(parse_cut(text, 3, true, &seen));
	assert_int_equal(seen.count, 2);
	expect_trip(&seen, 1, (double[]){7, 8, 0, 0, 0, 0});
	assert_int_equal(seen.counts.skipped, 3);
}

static void expect_refusal(const char *text, const char *reason)
{
	struct seen seen;

	assert_int_equal(parse_cut(text, 5, false, &seen), -EINVAL);
	assert_string_equal(fth_error_text(-EINVAL), reason);
}

static void mistakes_are_named_with_their_line(void **state)
{
	(void)state;
	expect_refusal("", "the file is empty: expected a header line with column names");
	expect_refusal("\n\n", "the file is empty: expected a header line with column names");
	expect_refusal("trip_distance\n1\n", "line 1: column total_amount is missing");
	expect_refusal("a,total_amount\n1,2\n", "line 1: column trip_distance is missing");
	expect_refusal("extra,extra,trip_distance,total_amount\n",
		       "line 1: duplicate column extra");
	expect_refusal("trip_distance,total_amount\n1,2\n\"3,4\n",
		       "line 4: unexpected end of file inside quotes");
	expect_refusal("trip_distance,total_amount\n\"1\"2,2\n",
		       "line 2, field 1: unexpected text after the closing quote");
	expect_refusal("trip_distance,total_amount\n1,1e999\n",
		       "line 2, field 2 (total): \"1e999\" is not a number");
}

static int refuse(void *context, const struct fth_taxi_trip *trip)
{
	(void)context;
	(void)trip;
	return fth_fail(ENOSPC, "full");
}

static void an_error_of_the_receiver_ends_the_parse(void **state)
{
	const char *text = "trip_distance,total_amount\n1,2\n3,4\n";
	struct fth_taxi_csv *csv;

	(void)state;
	assert_ok(fth_taxi_csv_open(NULL, refuse, NULL, &csv));
	assert_int_equal(fth_taxi_csv_feed(csv, text, strlen(text)), -ENOSPC);
	fth_taxi_csv_close(csv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_found_by_name_in_any_order),
		cmocka_unit_test(input_may_be_cut_anywhere),
		cmocka_unit_test(what_is_missing_is_zero_and_counted),
		cmocka_unit_test(quoted_fields_hold_commas_quotes_and_line_ends),
		cmocka_unit_test(bad_lines_are_skipped_if_so_wished),
		cmocka_unit_test(mistakes_are_named_with_their_line),
		cmocka_unit_test(an_error_of_the_receiver_ends_the_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
