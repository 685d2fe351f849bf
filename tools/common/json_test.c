/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t text_size;

static void start(struct fth_json *j)
{
	FILE *out = open_memstream(&text, &text_size);

	assert_non_null(out);
	fth_json_begin(j, out);
}

static void expect(struct fth_json *j, const char *wanted)
{
	fth_json_finish(j);
	fclose(j->out);
	assert_string_equal(text, wanted);
	free(text);
}

static void an_empty_object_is_two_braces(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	expect(&j, "{}\n");
}

static void values_have_keys_in_objects_and_none_in_arrays(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_string(&j, "s", "x");
	fth_json_array(&j, "a");
	fth_json_u64(&j, NULL, 1);
	fth_json_object(&j, NULL);
	fth_json_bool(&j, "t", true);
	fth_json_bool(&j, "f", false);
	fth_json_end(&j);
	fth_json_array(&j, NULL);
	fth_json_end(&j);
	fth_json_end(&j);
	fth_json_string(&j, "n", NULL);
	fth_json_digits(&j, "d", "18446744073709551616");
	expect(&j, "{\"s\":\"x\",\"a\":[1,{\"t\":true,\"f\":false},[]],\"n\":null,"
		   "\"d\":18446744073709551616}\n");
}

static void finish_closes_all_that_is_open(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_object(&j, "o");
	fth_json_array(&j, "a");
	expect(&j, "{\"o\":{\"a\":[]}}\n");
}

static void text_of_any_bytes_is_a_string(void **state)
{
	static const struct {
		const char *text;
		size_t length;
		const char *json;
	} cases[] = {
		{"a\xff", 2, "\"a\\ufffd\""},
		{"\xc3\xa4", 2, "\"\xc3\xa4\""},
		{"\xc3", 1, "\"\\ufffd\""},
		{"\xc3\xa4", 1, "\"\\ufffd\""},
		{"\0\n", 2, "\"\\u0000\\n\""},
		{"\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""},
		{"", 0, "\"\""},
	};
	char *text;
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *out = open_memstream(&text, &size);

		assert_non_null(out);
		fth_json_text(out, cases[i].text, cases[i].length);
		fclose(out);
		assert_string_equal(text, cases[i].json);
		free(text);
	}
}

static void integers_keep_all_their_digits(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_u64(&j, "u", UINT64_MAX);
	fth_json_i64(&j, "i", INT64_MIN);
	expect(&j, "{\"u\":18446744073709551615,\"i\":-9223372036854775808}\n");
}

static void doubles_read_back_the_same(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_array(&j, "d");
	fth_json_double(&j, NULL, 0.1);
	fth_json_double(&j, NULL, -2);
	fth_json_double(&j, NULL, 1e300);
	fth_json_double(&j, NULL, 1.0 / 3);
	expect(&j, "{\"d\":[0.1,-2,1e+300,0.3333333333333333]}\n");
}

static void what_is_no_number_is_null(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_array(&j, "d");
	fth_json_double(&j, NULL, NAN);
	fth_json_double(&j, NULL, INFINITY);
	fth_json_double(&j, NULL, -INFINITY);
	expect(&j, "{\"d\":[null,null,null]}\n");
}

static void strings_are_escaped(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_string(&j, "a\"b", "\\ \n \t \x01 \x7f /");
	expect(&j, "{\"a\\\"b\":\"\\\\ \\n \\t \\u0001 \\u007f /\"}\n");
}

static void utf8_passes_and_other_bytes_are_replaced(void **state)
{
	struct fth_json j;

	(void)state;
	start(&j);
	fth_json_array(&j, "s");
	fth_json_string(&j, NULL, "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f");
	fth_json_string(&j, NULL, "\xff|\xc0\xaf|\xed\xa0\x80|\xe2\x82");
	expect(&j, "{\"s\":[\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f\","
		   "\"\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\"]}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_object_is_two_braces),
		cmocka_unit_test(values_have_keys_in_objects_and_none_in_arrays),
		cmocka_unit_test(finish_closes_all_that_is_open),
		cmocka_unit_test(text_of_any_bytes_is_a_string),
		cmocka_unit_test(integers_keep_all_their_digits),
		cmocka_unit_test(doubles_read_back_the_same),
		cmocka_unit_test(what_is_no_number_is_null),
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(utf8_passes_and_other_bytes_are_replaced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
