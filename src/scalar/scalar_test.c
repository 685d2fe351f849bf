/* SPDX-License-Identifier: BSD-2-Clause */
/* Decimals, doubles, dates and strings. */
#include "fth_test.h"

#include "scalar/calendar.h"
#include "scalar/math.h"
#include "scalar/num.h"
#include "scalar/text.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <math.h>

static fth_i128 dec(const char *text, unsigned scale)
{
	fth_i128 x = -1;

	assert_ok(fth_dec_parse(fth_str_of(text), scale, &x));
	return x;
}

static void text_is(fth_i128 x, unsigned scale, const char *want)
{
	char text[FTH_NUM_TEXT + 1];

	text[fth_dec_text(x, scale, text)] = '\0';
	assert_string_equal(text, want);
}

static void decimals_are_read_and_written(void **state)
{
	static const char *const bad[] = {"", "-", ".", "1.2.3", "1e", "0x1", "1 2", "abc", "1e+"};
	fth_i128 x;

	(void)state;
	text_is(dec("12.345", 2), 2, "12.35");
	text_is(dec("-12.345", 2), 2, "-12.35");
	text_is(dec(" 1e3 ", 1), 1, "1000.0");
	text_is(dec("125e-2", 1), 1, "1.3");
	text_is(dec("-0.004", 2), 2, "0.00");
	text_is(dec(".5", 0), 0, "1");
	text_is(dec("5.", 3), 3, "5.000");
	text_is(-5, 3, "-0.005");
	text_is(dec("99999999999999999999999999999999999999", 0), 0,
		"99999999999999999999999999999999999999");
	assert_int_equal(
		fth_dec_parse(fth_str_of("100000000000000000000000000000000000000"), 0, &x),
		-ERANGE);
	assert_int_equal(fth_dec_parse(fth_str_of("1e38"), 0, &x), -ERANGE);
	assert_int_equal(
		fth_dec_parse(fth_str_of("99999999999999999999999999999999999999.5"), 0, &x),
		-ERANGE);
	assert_true(dec("1e-90000", 5) == 0 && dec("0e99999", 5) == 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fth_dec_parse(fth_str_of(bad[i]), 2, &x), -EINVAL);
	assert_int_equal(fth_int_parse(fth_str_of("1.5"), &x), -EINVAL);
	assert_ok(fth_int_parse(fth_str_of("-17"), &x));
	assert_true(x == -17);
}

/* |a * 10^k / b - q| <= 1/2, by multiplication. */
static void quotients_are_rounded_half_away(void **state)
{
	struct fth_rng rng = {1};
	fth_i128 q;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		fth_i128 a = (int64_t)fth_rng_next(&rng) >> fth_rng_below(&rng, 60);
		fth_i128 b = (int64_t)fth_rng_next(&rng) >> (20 + fth_rng_below(&rng, 43));
		fth_i128 scaled = a * fth_pow10(16), rest;

		if (b == 0)
			continue;
		assert_ok(fth_dec_div(a, 0, b, 0, 16, &q));
		rest = scaled - q * b;
		rest = rest < 0 ? -rest : rest;
		assert_true(2 * rest <= (b < 0 ? -b : b));
		if (2 * rest == (b < 0 ? -b : b)) /* exactly half: away from zero */
			assert_true((q < 0 ? -q : q) * (b < 0 ? -b : b) >
				    (scaled < 0 ? -scaled : scaled));
	}
	assert_ok(fth_dec_div(1, 0, 3, 0, 16, &q));
	text_is(q, 16, "0.3333333333333333");
	assert_ok(fth_dec_div(200, 2, 300, 2, 16, &q));
	text_is(q, 16, "0.6666666666666667");
	assert_int_equal(fth_dec_div(1, 0, 0, 0, 16, &q), -EDOM);
	assert_int_equal(fth_dec_div(fth_dec_max(), 0, 1, 0, 16, &q), -ERANGE);
	/* Divisors so large that the remainder times ten does not fit. */
	assert_ok(fth_dec_div(fth_dec_max(), 0, fth_dec_max(), 0, 16, &q));
	assert_true(q == fth_pow10(16));
	assert_ok(fth_dec_div(fth_dec_max() - 1, 0, fth_dec_max(), 0, 16, &q));
	assert_true(q == fth_pow10(16));
	assert_ok(fth_dec_div(fth_pow10(37), 0, fth_pow10(38) - 1, 0, 16, &q));
	assert_true(q == fth_pow10(15));
	assert_true(fth_dec_round(15, 1) == 2 && fth_dec_round(-15, 1) == -2 &&
		    fth_dec_round(14, 1) == 1);
	assert_true(fth_dec_round(fth_dec_max(), 38) == 1);
}

static void f64_text_is(double x, const char *want)
{
	char text[FTH_NUM_TEXT + 1];

	text[fth_f64_text(x, text)] = '\0';
	assert_string_equal(text, want);
}

static void doubles_are_printed_as_postgresql_does(void **state)
{
	(void)state;
	f64_text_is(100000, "100000");
	f64_text_is(-1200000, "-1200000");
	f64_text_is(0, "0");
	f64_text_is(-0.0, "-0");
	f64_text_is(0.1, "0.1");
	f64_text_is(1.5, "1.5");
	f64_text_is(0.1 + 0.2, "0.30000000000000004");
	f64_text_is(0.0001, "0.0001");
	f64_text_is(0.00012345, "0.00012345");
	f64_text_is(0.00001, "1e-05");
	f64_text_is(999999999999999, "999999999999999");
	f64_text_is(1e15, "1e+15");
	f64_text_is(1234567890123456, "1.234567890123456e+15");
	f64_text_is(123456789012345.6, "123456789012345.6");
	f64_text_is(5e-324, "5e-324");
	f64_text_is(-1.7976931348623157e308, "-1.7976931348623157e+308");
}

static void doubles_convert_as_postgresql_does(void **state)
{
	fth_i128 x;
	double f;

	(void)state;
	assert_ok(fth_f64_to_int(2.5, INT32_MIN, INT32_MAX, &x));
	assert_true(x == 2);
	assert_ok(fth_f64_to_int(3.5, INT32_MIN, INT32_MAX, &x));
	assert_true(x == 4);
	assert_int_equal(fth_f64_to_int(NAN, INT32_MIN, INT32_MAX, &x), -ERANGE);
	assert_int_equal(fth_f64_to_int(3e9, INT32_MIN, INT32_MAX, &x), -ERANGE);
	assert_ok(fth_f64_to_dec(0.1, 2, &x));
	assert_true(x == 10);
	assert_ok(fth_f64_to_dec(1e20, 0, &x));
	assert_true(x == fth_pow10(20));
	assert_int_equal(fth_f64_to_dec(INFINITY, 2, &x), -ERANGE);
	assert_true(fth_dec_to_f64(1, 1) == 0.1);
	assert_true(fth_dec_to_f64(fth_pow10(30) + 1, 20) == 1e10);
	assert_ok(fth_f64_parse(fth_str_of(" -1.5e3 "), &f));
	assert_true(f == -1500);
	assert_int_equal(fth_f64_parse(fth_str_of("0x10"), &f), -EINVAL);
	assert_int_equal(fth_f64_parse(fth_str_of("1.5 x"), &f), -EINVAL);
	assert_int_equal(fth_f64_parse(fth_str_of("1e999"), &f), -ERANGE);
	assert_true(fth_f64_order(-0.0) == fth_f64_order(0.0));
	assert_true(fth_f64_order(NAN) > fth_f64_order(INFINITY));
	assert_true(fth_f64_order(-1) > fth_f64_order(-2) &&
		    fth_f64_order(1e-300) > fth_f64_order(-1e-300));
	assert_true(fth_f64_order(-INFINITY) < fth_f64_order(-1e308));
}

static void dates_are_read_and_written(void **state)
{
	static const char *const bad[] = {"1995-02-29", "1995-13-01", "1995-00-10", "0000-01-01"};
	char text[FTH_NUM_TEXT + 1];
	int32_t day;

	(void)state;
	assert_ok(fth_date_parse(fth_str_of("1970-01-01"), &day));
	assert_int_equal(day, 0);
	assert_ok(fth_date_parse(fth_str_of(" 2000-02-29 "), &day));
	text[fth_date_text(day, text)] = '\0';
	assert_string_equal(text, "2000-02-29");
	text[fth_date_text(-719163, text)] = '\0';
	assert_string_equal(text, "0001-12-31 BC");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fth_date_parse(fth_str_of(bad[i]), &day), -ERANGE);
	assert_int_equal(fth_date_parse(fth_str_of("1995/01/01"), &day), -EINVAL);
	assert_int_equal(fth_date_parse(fth_str_of("1995-01"), &day), -EINVAL);
	assert_int_equal(fth_date_parse(fth_str_of("95-01-01"), &day), -EINVAL);
	assert_int_equal(fth_date_parse(fth_str_of("199501"), &day), -EINVAL);
	assert_ok(fth_date_parse(fth_str_of("20000229"), &day));
	assert_int_equal(day, 11016);
	for (int32_t d = -1000000; d < 1000000; d += 777) {
		int64_t year;
		unsigned month, dom;

		fth_civil(d, &year, &month, &dom);
		assert_true(fth_days(year, month, dom) == d);
	}
}

static int32_t date(const char *text)
{
	int32_t day = 0;

	assert_ok(fth_date_parse(fth_str_of(text), &day));
	return day;
}

static void months_end_with_the_month(void **state)
{
	int32_t day;

	(void)state;
	assert_ok(fth_add_months(date("1995-01-31"), 1, &day));
	assert_int_equal(day, date("1995-02-28"));
	assert_ok(fth_add_months(date("1996-02-29"), -12, &day));
	assert_int_equal(day, date("1995-02-28"));
	assert_ok(fth_add_months(date("1995-11-30"), 3, &day));
	assert_int_equal(day, date("1996-02-29"));
	assert_int_equal(fth_add_months(INT32_MAX, 1, &day), -ERANGE);
	assert_int_equal(fth_add_months(0, INT64_MAX, &day), -ERANGE);
}

static void substrings_count_characters(void **state)
{
	struct fth_str s = fth_str_of("Gr\xc3\xbc\xc3\x9f"
				      "e"),
		       out;

	(void)state;
	assert_int_equal(fth_str_chars(s), 5);
	assert_ok(fth_str_substring(s, 3, 2, &out));
	assert_true(fth_str_equal(out, fth_str_of("\xc3\xbc\xc3\x9f")));
	assert_ok(fth_str_substring(s, -1, 4, &out));
	assert_true(fth_str_equal(out, fth_str_of("Gr")));
	assert_ok(fth_str_substring(s, 5, FTH_STR_REST, &out));
	assert_true(fth_str_equal(out, fth_str_of("e")));
	assert_ok(fth_str_substring(s, 9, 2, &out));
	assert_int_equal(out.len, 0);
	assert_int_equal(fth_str_substring(s, 1, -1, &out), -EINVAL);
}

static void bools_are_read(void **state)
{
	bool b = false;

	(void)state;
	assert_ok(fth_bool_parse(fth_str_of(" T "), &b));
	assert_true(b);
	assert_ok(fth_bool_parse(fth_str_of("of"), &b));
	assert_false(b);
	assert_int_equal(fth_bool_parse(fth_str_of("o"), &b), -EINVAL);
	assert_int_equal(fth_bool_parse(fth_str_of("truth"), &b), -EINVAL);
}

static void roots_are_rounded(void **state)
{
	fth_i128 root;
	double x;

	(void)state;
	for (int64_t i = 0; i < 3000; i++) {
		assert_null(fth_dec_sqrt((fth_i128)i * i, 4, 20, &root));
		assert_true(root == (fth_i128)i * fth_pow10(18));
	}
	assert_null(fth_dec_sqrt(2, 0, 16, &root));
	text_is(root, 16, "1.4142135623730950");
	assert_null(fth_dec_sqrt(fth_dec_max(), 38, 38, &root));
	text_is(root, 38, "0.99999999999999999999999999999999999999");
	assert_null(fth_dec_sqrt(fth_dec_max(), 0, 16, &root));
	text_is(root, 16, "10000000000000000000.0000000000000000");
	assert_non_null(fth_dec_sqrt(-1, 0, 16, &root));
	assert_non_null(fth_f64_math(FTH_MATH_SQRT, -1, 0, &x));
	assert_non_null(fth_f64_math(FTH_MATH_EXP, 800, 0, &x));
	assert_null(fth_f64_math(FTH_MATH_POWER, 2, 10, &x));
	assert_true(x == 1024);
}

static void weeks_and_centuries(void **state)
{
	int64_t monday = fth_days(2021, 1, 4);

	(void)state;
	assert_int_equal(fth_date_part(FTH_DATE_WEEK, monday), 1);
	assert_int_equal(fth_date_part(FTH_DATE_WEEK, monday - 1), 53);
	assert_int_equal(fth_date_part(FTH_DATE_ISOYEAR, monday - 1), 2020);
	assert_int_equal(fth_date_part(FTH_DATE_DOW, monday - 1), 0);
	assert_int_equal(fth_date_part(FTH_DATE_ISODOW, monday - 1), 7);
	assert_int_equal(fth_date_part(FTH_DATE_CENTURY, fth_days(2000, 12, 31)), 20);
	assert_int_equal(fth_date_part(FTH_DATE_CENTURY, fth_days(0, 1, 1)), -1);
	for (int64_t day = -1000000; day < 1000000; day += 13) {
		int64_t week = fth_date_part(FTH_DATE_FIRST_OF_WEEK, day);
		int64_t month = fth_date_part(FTH_DATE_FIRST_OF_MONTH, day);

		assert_true(week <= day && day - week < 7);
		assert_int_equal(fth_date_part(FTH_DATE_ISODOW, week), 1);
		assert_true(month <= day && day - month < 31);
		assert_in_range(fth_date_part(FTH_DATE_WEEK, day), 1, 53);
	}
}

static void texts_are_made(void **state)
{
	struct fth_str s = fth_str_of("äbä"), a = fth_str_of("ä");
	char out[32] = {0};

	(void)state;
	assert_int_equal(fth_str_replace(s, a, fth_str_of("xyz"), NULL), 7);
	assert_int_equal(fth_str_replace(s, a, fth_str_of("xyz"), out), 7);
	assert_memory_equal(out, "xyzbxyz", 7);
	assert_int_equal(fth_str_replace(s, fth_str_of(""), a, NULL), s.len);
	assert_int_equal(fth_str_pad(s, 5, fth_str_of("-+="), true, out), 7);
	assert_memory_equal(out, "-+äbä", 7);
	assert_int_equal(fth_str_pad(s, 2, a, false, out), 3);
	assert_int_equal(fth_str_pad(s, 9, fth_str_of(""), false, out), s.len);
	assert_int_equal(fth_str_repeat(s, 2, out), 10);
	assert_true(fth_str_repeat(s, INT64_MAX, NULL) > FTH_STR_MADE_MAX);
	assert_true(fth_str_pad(s, INT64_MAX, a, true, NULL) > FTH_STR_MADE_MAX);
	fth_str_reverse(fth_str_of("aäb"), out);
	assert_memory_equal(out, "bäa", 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decimals_are_read_and_written),
		cmocka_unit_test(roots_are_rounded),
		cmocka_unit_test(weeks_and_centuries),
		cmocka_unit_test(texts_are_made),
		cmocka_unit_test(quotients_are_rounded_half_away),
		cmocka_unit_test(doubles_convert_as_postgresql_does),
		cmocka_unit_test(doubles_are_printed_as_postgresql_does),
		cmocka_unit_test(dates_are_read_and_written),
		cmocka_unit_test(months_end_with_the_month),
		cmocka_unit_test(substrings_count_characters),
		cmocka_unit_test(bools_are_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
