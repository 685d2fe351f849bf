/* SPDX-License-Identifier: BSD-2-Clause */
/* Column lists, dates and keys. */
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/table/schema.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void a_list_is_parsed(void **state)
{
	struct fth_table_schema s;
	char text[FTH_TABLE_TYPE_TEXT];

	(void)state;
	assert_ok(fth_table_schema_parse(
		&s, "a int not null, b DECIMAL(15,2),c double precision, d char, "
		    "e varchar(7) , f text, g numeric(38,10) cluster by (B)"));
	assert_int_equal(s.columns, 7);
	assert_int_equal(s.cluster_by, 1);
	assert_true(s.column[0].not_null);
	assert_false(s.column[1].not_null);
	assert_string_equal(fth_table_type_text(&s.column[1], text), "decimal(15,2)");
	assert_string_equal(fth_table_type_text(&s.column[3], text), "char(1)");
	assert_string_equal(fth_table_type_text(&s.column[5], text), "varchar");
	assert_int_equal(fth_table_kind(&s.column[6]), FTH_TABLE_KIND_WIDE);
	assert_int_equal(fth_table_schema_find(&s, "G"), 6);
	assert_int_equal(fth_table_schema_find(&s, "h"), FTH_TABLE_NO_COLUMN);
	fth_table_schema_release(&s);
}

static void bad_lists_are_refused(void **state)
{
	static const char *const lists[] = {
		"",
		"a",
		"a int,",
		"a int b int",
		"a int, A int",
		"a decimal(39,0)",
		"a decimal(5,6)",
		"a varchar(0)",
		"a char(99999999)",
		"1a int",
		"a blob",
		"a int not",
		"a int cluster by (b)",
		"a int cluster by a",
		"a decimal(5",
		"abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcd int",
	};
	struct fth_table_schema s;

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		assert_int_equal(fth_table_schema_parse(&s, lists[i]), -EINVAL);
		assert_int_equal(s.columns, 0);
	}
}

static void every_day_has_one_number(void **state)
{
	unsigned year, month, day;
	int32_t number;

	(void)state;
	assert_ok(fth_table_date_days(1970, 1, 1, &number));
	assert_int_equal(number, 0);
	assert_ok(fth_table_date_days(2000, 3, 1, &number));
	assert_int_equal(number, 11017);
	assert_ok(fth_table_date_days(1, 1, 1, &number));
	for (int32_t i = number; i <= 2932896; i++) {
		fth_table_date_split(i, &year, &month, &day);
		assert_ok(fth_table_date_days(year, month, day, &number));
		assert_int_equal(number, i);
	}
	assert_int_equal(year, 9999);
	assert_int_equal(fth_table_date_days(1900, 2, 29, &number), -EINVAL);
	assert_int_equal(fth_table_date_days(2001, 4, 31, &number), -EINVAL);
	assert_int_equal(fth_table_date_days(2001, 13, 1, &number), -EINVAL);
	assert_int_equal(fth_table_date_days(2001, 1, 0, &number), -EINVAL);
}

static void keys_order_as_values_do(void **state)
{
	static const double doubles[] = {-INFINITY, -1e300, -1,	 -1e-310, 0,
					 1e-310,    1,	    2.5, 1e300,	  INFINITY};
	static const char *const strings[] = {"",	  "A", "AB", "ABCDEFG",
					      "ABCDEFGH", "B", "a",  "\xc3\xa4"};

	(void)state;
	for (size_t i = 0; i < sizeof(doubles) / sizeof(*doubles); i++) {
		assert_true(fth_table_double_of_key(fth_table_double_key(doubles[i])) ==
			    doubles[i]);
		if (i)
			assert_true(fth_table_double_key(doubles[i]) >
				    fth_table_double_key(doubles[i - 1]));
	}
	assert_true(fth_table_double_key(NAN) > fth_table_double_key(INFINITY));
	assert_true(isnan(fth_table_double_of_key(fth_table_double_key(NAN))));
	assert_int_equal(fth_table_double_key(-0.0), fth_table_double_key(0.0));
	for (size_t i = 1; i < sizeof(strings) / sizeof(*strings); i++)
		assert_true(fth_table_string_key(strings[i], strlen(strings[i])) >
			    fth_table_string_key(strings[i - 1], strlen(strings[i - 1])));
	assert_int_equal(fth_table_string_key("ABCDEFGHI", 9),
			 fth_table_string_key("ABCDEFGHJ", 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_parsed),
		cmocka_unit_test(bad_lists_are_refused),
		cmocka_unit_test(every_day_has_one_number),
		cmocka_unit_test(keys_order_as_values_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
