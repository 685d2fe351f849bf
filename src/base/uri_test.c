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
		":x",
		"(x)",
		"?size=1",
		"/a%4",
		"/a?x",
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

static void a_plain_path_is_a_file(void **state)
{
	static const struct {
		const char *text, *path;
		unsigned options;
	} good[] = {
		{"/data/a", "/data/a", 0}, {"graph", "graph", 0},
		{"./a:b", "./a:b", 0},	   {"dir/a:b(c)", "dir/a:b(c)", 0},
		{"a b:c", "a b:c", 0},	   {"~/a%3F?size=1M&create=on", "~/a?", 2},
	};
	struct fth_uri uri;

	(void)state;
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_ok(fth_uri_parse(&uri, good[i].text));
		assert_string_equal(uri.scheme, "file");
		assert_string_equal(uri.path, good[i].path);
		assert_null(uri.inner);
		assert_int_equal(uri.option_count, good[i].options);
		fth_uri_release(&uri);
	}
}

static void assert_size(const char *text, uint64_t wanted)
{
	uint64_t size = ~wanted;

	if (fth_parse_size(text, &size) < 0)
		fail_msg("\"%s\" was refused", text);
	if (size != wanted)
		fail_msg("\"%s\" is %llu", text, (unsigned long long)size);
}

static void sizes(void **state)
{
	static const char *const bad[] = {
		"",
		"-1",
		"G",
		"4X",
		"4GX",
		"4iB",
		"4GiBs",
		"1.5",
		"1.5B",
		"1.G",
		".5G",
		"4 G",
		"4G ",
		"1e3",
		"0x",
		"16777216T",
		"16384P",
		"99999999999999999999",
		"1.0123456789G",
	};
	const uint64_t g = (uint64_t)1 << 30;
	uint64_t size;

	(void)state;
	assert_size("0", 0);
	assert_size("512", 512);
	assert_size("512B", 512);
	assert_size("0x200", 512);
	assert_size("010", 10);
	assert_size("64K", 65536);
	assert_size("4g", 4 * g);
	assert_size("4G", 4 * g);
	assert_size("4GiB", 4 * g);
	assert_size("4gib", 4 * g);
	assert_size("4GB", UINT64_C(4000000000));
	assert_size("1kB", 1000);
	assert_size("1.5G", g + g / 2);
	assert_size("1.5GB", UINT64_C(1500000000));
	assert_size("0.3K", 307);
	assert_size("0.000000001P", 1125899);
	assert_size("2.999999999T", 3 * (uint64_t)1099511627776 - 1100);
	assert_size("16383P", (uint64_t)16383 << 50);
	assert_size("18446744073709551615", UINT64_MAX);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (fth_parse_size(bad[i], &size) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
	assert_int_equal(fth_parse_u64("7K", &size), -EINVAL);
	assert_int_equal(fth_parse_u64("1.5", &size), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves),
		cmocka_unit_test(a_plain_path_is_a_file),
		cmocka_unit_test(what_is_escaped_is_read_back),
		cmocka_unit_test(wrappers_nest),
		cmocka_unit_test(bad_text_is_refused),
		cmocka_unit_test(options_are_typed_and_bounded),
		cmocka_unit_test(sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
