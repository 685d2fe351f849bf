/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/base/uri.h"

#include <errno.h>

static void leaves(void **state)
{
	struct fth_uri uri;

	(void)state;
	assert_ok(fth_uri_parse(&uri, "mem:4G"));
	assert_string_equal(uri.scheme, "mem");
	assert_string_equal(uri.path, "4G");
	assert_null(uri.inner);
	fth_uri_release(&uri);

	assert_ok(fth_uri_parse(&uri, "file:/a%3Fb%28c%29%25?direct=off&size=1M"));
	assert_string_equal(uri.path, "/a?b(c)%");
	assert_int_equal(uri.option_count, 2);
	fth_uri_release(&uri);

	/* a path may hold colons and equal signs: nvme:0000:03:00.0/1 */
	assert_ok(fth_uri_parse(&uri, "nvme:0000:03:00.0/1"));
	assert_string_equal(uri.path, "0000:03:00.0/1");
	fth_uri_release(&uri);
}

static void what_is_escaped_is_read_back(void **state)
{
	static const char path[] = "/a?b(c)%&d\n\x7f\xc3\xa4 e";
	char text[128] = "file:", small[12];
	struct fth_uri uri;

	(void)state;
	assert_ok(fth_uri_escape(path, text + 5, sizeof(text) - 5));
	assert_string_equal(text, "file:/a%3Fb%28c%29%25%26d%0A%7F\xc3\xa4 e");
	assert_ok(fth_uri_parse(&uri, text));
	assert_string_equal(uri.path, path);
	fth_uri_release(&uri);

	assert_ok(fth_uri_escape("%%ab", small, sizeof(small)));
	assert_string_equal(small, "%25%25ab");
	assert_int_equal(fth_uri_escape("%%%%", small, sizeof(small)), -ENAMETOOLONG);
	assert_ok(fth_uri_escape("", small, 1));
	assert_string_equal(small, "");
}

static void wrappers_nest(void **state)
{
	struct fth_uri uri;
	const char *text;

	(void)state;
	assert_ok(fth_uri_parse(&uri, "fault(delay(mem:1M?block=4K)?read_us=5)?kind=read"));
	assert_string_equal(uri.scheme, "fault");
	assert_null(uri.path);
	assert_string_equal(uri.inner, "delay(mem:1M?block=4K)?read_us=5");
	assert_int_equal(fth_uri_take_string(&uri, "kind", &text), 1);
	assert_string_equal(text, "read");
	assert_ok(fth_uri_finish(&uri));
	fth_uri_release(&uri);
}

static void bad_text_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"mem",
		"/path",
		":x",
		"a b:c",
		"mem:1?x",
		"mem:1?=3",
		"mem:%4",
		"mem:%",
		"mem:%zz",
		"mem:%00",
		"w(mem:1",
		"w(mem:1))",
		"w(mem:1)x",
		"mem:1?a=1&a=2",
		"mem:1?a=%1",
		"averylongschemenamethatnobodywouldeverwrite:x",
		"a(a(a(a(a(a(a(a(a(a(a(a(a(a(a(a(a(m:1)))))))))))))))))",
	};
	struct fth_uri uri;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (fth_uri_parse(&uri, bad[i]) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
		fth_uri_release(&uri); /* harmless after a failure */
	}
}

static void options_are_typed_and_bounded(void **state)
{
	struct fth_uri uri;
	uint64_t number = 9;
	double real = 0.5;
	bool flag = false;

	(void)state;
	assert_ok(fth_uri_parse(&uri, "x:?n=12&s=3K&d=0.25&b=yes&big=99&nan=nan&word=w"));
	assert_int_equal(fth_uri_take_u64(&uri, "absent", 0, 1, &number), 0);
	assert_int_equal(number, 9);
	assert_int_equal(fth_uri_take_u64(&uri, "n", 0, 12, &number), 1);
	assert_int_equal(number, 12);
	assert_int_equal(fth_uri_take_size(&uri, "s", 0, 4096, &number), 1);
	assert_int_equal(number, 3072);
	assert_int_equal(fth_uri_take_double(&uri, "d", 0, 1, &real), 1);
	assert_true(real == 0.25);
	assert_int_equal(fth_uri_take_bool(&uri, "b", &flag), 1);
	assert_true(flag);
	assert_int_equal(fth_uri_finish(&uri), -EINVAL); /* big, nan and word are left */
	assert_int_equal(fth_uri_take_u64(&uri, "big", 0, 98, &number), -EINVAL);
	assert_int_equal(fth_uri_take_double(&uri, "nan", 0, 1, &real), -EINVAL);
	assert_int_equal(fth_uri_take_bool(&uri, "word", &flag), -EINVAL);
	assert_int_equal(number, 3072);
	assert_ok(fth_uri_finish(&uri));
	fth_uri_release(&uri);
}

static void sizes(void **state)
{
	uint64_t size;

	(void)state;
	assert_int_equal(fth_parse_size("0", &size), 0);
	assert_int_equal(size, 0);
	assert_int_equal(fth_parse_size("4g", &size), 0);
	assert_true(size == (uint64_t)4 << 30);
	assert_int_equal(fth_parse_size("16777216T", &size), -EINVAL);
	assert_int_equal(fth_parse_size("99999999999999999999", &size), -EINVAL);
	assert_int_equal(fth_parse_size("4GB", &size), -EINVAL);
	assert_int_equal(fth_parse_size("-1", &size), -EINVAL);
	assert_int_equal(fth_parse_size("", &size), -EINVAL);
	assert_int_equal(fth_parse_u64("7K", &size), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves),
		cmocka_unit_test(what_is_escaped_is_read_back),
		cmocka_unit_test(wrappers_nest),
		cmocka_unit_test(bad_text_is_refused),
		cmocka_unit_test(options_are_typed_and_bounded),
		cmocka_unit_test(sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
