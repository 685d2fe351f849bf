/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/utf8.h"

#include "fth_test.h"

#include <stdio.h>
#include <string.h>

static size_t text_of(const char *s)
{
	return utf8_text(s, strlen(s));
}

static void valid_text_is_accepted(void **state)
{
	static const char *const good[] = {
		"",
		"a",
		"\x01\x7f",
		"\xc2\x80\xdf\xbf",
		"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
		"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
		"seven b\xc3\xa4 and more than eight bytes of ASCII",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(text_of(good[i]), strlen(good[i]));
}

/* Overlong, surrogates, beyond U+10FFFF, cut off, a continuation alone. */
static void other_bytes_are_refused(void **state)
{
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc3",
		"\xc3(",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xe2\x82",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xf0\x9f\x98",
		"\xff",
		"\xfe",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(text_of(bad[i]), 0);
}

/* Wherever it is, and whatever is around it: text is looked at by eight bytes at a time. */
static void the_first_bad_byte_is_found(void **state)
{
	static const char bad[] = {0, '\x80', '\xff', '\xc3'};
	char text[40];

	(void)state;
	for (size_t b = 0; b < sizeof(bad); b++)
		for (size_t n = 1; n <= sizeof(text); n++)
			for (size_t at = 0; at < n; at++) {
				memset(text, 'x', sizeof(text));
				text[at] = bad[b];
				assert_int_equal(utf8_text(text, n), at);
				assert_false(utf8_ascii(text, n));
				memset(text, '\x01', sizeof(text));
				assert_true(utf8_ascii(text, n));
				text[at] = bad[b];
				assert_int_equal(utf8_text(text, n), at);
			}
}

static void what_is_wrong_is_said_as_postgresql_does(void **state)
{
	char out[UTF8_COMPLAINT];

	(void)state;
	assert_string_equal(utf8_complaint("ab\xff", 3, out),
			    "invalid byte sequence for encoding \"UTF8\": 0xff");
	assert_string_equal(utf8_complaint("ab\xe4 x", 5, out),
			    "invalid byte sequence for encoding \"UTF8\": 0xe4 0x20 0x78");
	assert_string_equal(utf8_complaint("\xf0\x9f", 2, out),
			    "invalid byte sequence for encoding \"UTF8\": 0xf0 0x9f");
	assert_string_equal(utf8_complaint("a\0b", 3, out),
			    "invalid byte sequence for encoding \"UTF8\": 0x00");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(valid_text_is_accepted),
		cmocka_unit_test(other_bytes_are_refused),
		cmocka_unit_test(the_first_bad_byte_is_found),
		cmocka_unit_test(what_is_wrong_is_said_as_postgresql_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
