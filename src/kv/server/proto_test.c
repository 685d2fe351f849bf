/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of memcached's protocol: every command, every flag, every error. */
#include "kv/server/proto.h"

#include "fth_test.h"

#include <string.h>

#define VALUE_MAX 1048576u

static struct kvp_line parse(const char *text)
{
	struct kvp_line line;

	kvp_parse(text, strlen(text), VALUE_MAX, &line);
	return line;
}

static void expect_key(const struct kvp_line *line, const char *key)
{
	assert_null(line->error);
	assert_int_equal(line->key.length, strlen(key));
	assert_memory_equal(line->key.at, key, line->key.length);
}

static void test_errors(void **state)
{
	static const char format[] = "CLIENT_ERROR bad command line format";
	static const struct {
		const char *line, *error;
	} cases[] = {
		{"", "ERROR"},
		{" ", "ERROR"},
		{"foo", "ERROR"},
		{"GET a", "ERROR"},
		{"mx a", "ERROR"},
		{"get", "ERROR"},
		{"gets ", "ERROR"},
		{"gat", "ERROR"},
		{"gat 10", "ERROR"},
		{"gat x a", "CLIENT_ERROR invalid exptime argument"},
		{"set", "ERROR"},
		{"set a 0 0", "ERROR"},
		{"set a 0 0 1 2 3", "ERROR"},
		{"set a x 0 1", format},
		{"set a -1 0 1", format},
		{"set a 4294967296 0 1", format},
		{"set a 0 x 1", format},
		{"set a 0 0 x", format},
		{"set a 0 0 -1", format},
		{"set a 0 0 2147483646", format},
		{"set a 0 0 99999999999999999999", format},
		{"set a 0 0 1048577", "SERVER_ERROR object too large for cache"},
		{"cas a 0 0 1", "ERROR"},
		{"cas a 0 0 1 x", format},
		{"incr a", "ERROR"},
		{"incr a 1 2 3", "ERROR"},
		{"incr a x", "CLIENT_ERROR invalid numeric delta argument"},
		{"decr a -1", "CLIENT_ERROR invalid numeric delta argument"},
		{"delete", "ERROR"},
		{"delete a 1 2 3", "ERROR"},
		{"delete a 1",
		 "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"},
		{"delete a 0 x",
		 "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"},
		{"touch a", "ERROR"},
		{"touch a 1 2 3", "ERROR"},
		{"touch a x", "CLIENT_ERROR invalid exptime argument"},
		{"flush_all x", "CLIENT_ERROR invalid exptime argument"},
		{"flush_all 1 2 3", "ERROR"},
		{"verbosity", "ERROR"},
		{"verbosity x", format},
		{"verbosity 1 2 3", "ERROR"},
		{"shutdown", "ERROR: shutdown not enabled"},
		{"mg", "ERROR"},
		{"me", format},
		{"mg a x", "CLIENT_ERROR invalid flag"},
		{"mg a E", "CLIENT_ERROR invalid flag"},
		{"mg a \x80", "CLIENT_ERROR invalid flag"},
		{"mg a v v", "CLIENT_ERROR duplicate flag"},
		{"mg a Tx", "CLIENT_ERROR bad token in command line format"},
		{"mg a T", "CLIENT_ERROR bad token in command line format"},
		{"mg a Cx", "CLIENT_ERROR bad token in command line format"},
		{"mg a Dx", "CLIENT_ERROR bad token in command line format"},
		{"mg a Jx", "CLIENT_ERROR bad token in command line format"},
		{"mg a Nx", "CLIENT_ERROR bad token in command line format"},
		{"mg a M", "CLIENT_ERROR incorrect length for M token"},
		{"mg a Nx", "CLIENT_ERROR bad token in command line format"},
		{"mg a R", "CLIENT_ERROR bad token in command line format"},
		{"mg a O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"},
		{"ms a", format},
		{"ms a x", format},
		{"ms a -1", format},
		{"ms a 3 Z", "CLIENT_ERROR invalid flag"},
		{"ms a 3 Fx", format},
		{"ms a 3 Mx", "CLIENT_ERROR invalid mode for ms M token"},
		{"ms a 3 MSS", "CLIENT_ERROR incorrect length for M token"},
		{"ms a 1048577", "SERVER_ERROR object too large for cache"},
		{"md a x", "CLIENT_ERROR invalid or duplicate flag"},
		{"md a q q", "CLIENT_ERROR invalid or duplicate flag"},
		{"md a Cx", "CLIENT_ERROR invalid or duplicate flag"},
		{"ma a Dx", "CLIENT_ERROR invalid or duplicate flag"},
		{"ma a Mincr", "CLIENT_ERROR invalid or duplicate flag"},
		{"ma a Mx", "CLIENT_ERROR invalid mode for ma M token"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kvp_line line = parse(cases[i].line);

		if (!line.error)
			fail_msg("\"%s\" has no error", cases[i].line);
		else if (strcmp(line.error, cases[i].error) != 0)
			fail_msg("\"%s\": %s", cases[i].line, line.error);
	}
}

static void test_long_keys(void **state)
{
	static const char *const before[] = {"get ",   "gat 0 ", "set ", "incr ", "delete ",
					     "touch ", "mg ",	 "ms ",	 "me ",	  "ma "};
	static const char *const after[] = {"", "", " 0 0 1", " 1", "", " 1", "", " 1", "", ""};

	(void)state;
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		for (unsigned length = 250; length <= 251; length++) {
			char text[400] = "";
			size_t head = strlen(before[i]);
			struct kvp_line line;

			memcpy(text, before[i], head);
			memset(text + head, 'k', length);
			strcpy(text + head + length, after[i]);
			line = parse(text);
			assert_true((line.error != NULL) == (length > 250));
		}
}

static void test_classic(void **state)
{
	struct kvp_line line = parse("  gets  a b");

	(void)state;
	expect_key(&line, "a");
	assert_int_equal(line.command, KVP_GET);
	assert_true(line.with_cas && !line.touch && line.verb == FTH_KV_GET);
	line = parse("gat -5 a");
	expect_key(&line, "a");
	assert_true(!line.with_cas && line.touch && line.verb == FTH_KV_TOUCH);
	assert_int_equal(line.expires, -5);
	line = parse("append key 4294967295 -1 1048576 noreply");
	expect_key(&line, "key");
	assert_int_equal(line.verb, FTH_KV_APPEND);
	assert_int_equal(line.flags, UINT32_MAX);
	assert_int_equal(line.bytes, VALUE_MAX);
	assert_true(line.has_bytes && line.noreply && !line.has_cas);
	line = parse("cas key 1 2 3 18446744073709551615");
	expect_key(&line, "key");
	assert_true(line.has_cas && line.cas == UINT64_MAX && line.verb == FTH_KV_SET);
	line = parse("decr n 18446744073709551615 noreply");
	expect_key(&line, "n");
	assert_true(line.delta == UINT64_MAX && line.noreply && line.verb == FTH_KV_DECREMENT);
	line = parse("delete a 0 noreply");
	expect_key(&line, "a");
	assert_true(line.noreply);
	line = parse("touch a 10");
	expect_key(&line, "a");
	assert_int_equal(line.expires, 10);
	line = parse("flush_all noreply");
	assert_true(!line.error && line.noreply && line.expires == 0);
	line = parse("flush_all 10 noreply");
	assert_true(!line.error && line.noreply && line.expires == 10);
	line = parse("verbosity noreply");
	assert_true(!line.error && line.noreply);
	line = parse("stats settings x");
	assert_true(!line.error && kvp_is(kvp_word(&line.rest), "settings"));
}

/* A wrong line tells how many bytes of value come after it, if that can be known. */
static void test_skips(void **state)
{
	struct kvp_line line = parse("set a x 0 7");

	(void)state;
	assert_true(line.has_bytes && line.bytes == 7 && !line.too_large);
	line = parse("set a 0 0 2000000");
	assert_true(line.has_bytes && line.bytes == 2000000 && line.too_large);
	line = parse("ms a 7 Z");
	assert_true(line.has_bytes && line.bytes == 7);
	line = parse("set a 0 0 x");
	assert_false(line.has_bytes);
	line = parse("set a 0 0 4294967296");
	assert_false(line.has_bytes);
	line = parse("set a 0 0");
	assert_false(line.has_bytes);
}

static void test_meta(void **state)
{
	static const struct {
		const char *mode;
		enum fth_kv_verb verb;
	} modes[] = {{"ms a 1 MS", FTH_KV_SET},	     {"ms a 1 Me", FTH_KV_ADD},
		     {"ms a 1 MA", FTH_KV_APPEND},   {"ms a 1 Mp", FTH_KV_PREPEND},
		     {"ms a 1 MR", FTH_KV_REPLACE},  {"ms a 1", FTH_KV_SET},
		     {"ma a", FTH_KV_INCREMENT},     {"ma a MI", FTH_KV_INCREMENT},
		     {"ma a M+", FTH_KV_INCREMENT},  {"ma a MD", FTH_KV_DECREMENT},
		     {"ma a M-", FTH_KV_DECREMENT},  {"mg a", FTH_KV_GET},
		     {"mg a T5", FTH_KV_TOUCH},	     {"md a", FTH_KV_DELETE},
		     {"mg a N5 R5", FTH_KV_GET},     {"md a I", FTH_KV_INVALIDATE},
		     {"me a nonsense b", FTH_KV_GET}};
	struct kvp_line line = parse("mg a s v k f t h l c O123 q b T30");

	(void)state;
	expect_key(&line, "a");
	assert_int_equal(line.order_count, 12);
	assert_memory_equal(line.order, "svkfthlcOqbT", 12);
	assert_memory_equal(line.opaque, "123", 3);
	assert_int_equal(line.opaque_length, 3);
	assert_int_equal(line.expires, 30);
	assert_true(kvp_has(&line, 'q') && kvp_has(&line, 'T') && !kvp_has(&line, 'M'));
	assert_false(kvp_has(&line, '!'));
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		line = parse(modes[i].mode);
		expect_key(&line, "a");
		assert_int_equal(line.verb, modes[i].verb);
	}
	line = parse("ms a 3 F7 T-1 C9");
	assert_true(line.flags == 7 && line.expires == -1 && line.has_cas && line.cas == 9);
	line = parse("ms a 3 ME C9");
	assert_false(line.has_cas);
	line = parse("mg a N-60 R30");
	assert_true(line.vivify == -60 && line.recache == 30);
	line = parse("ma a N60 J13 D2 T5");
	assert_true(line.vivify == 60 && line.initial == 13 && line.delta == 2);
	line = parse("ma a");
	assert_true(line.delta == 1 && line.initial == 0);
}

/* The request line of HTTP ends the connection, and no command of memcached is taken for one. */
static void test_http(void **state)
{
	static const char *const requests[] = {"GET / HTTP/1.1", "POST /a b HTTP/1.0 ",
					       "PRI * HTTP/2.0", "OPTIONS * HTTP/1.1"};
	static const char *const others[] = {"GET a", "POST HTTP/1.1 a", "GET /HTTP/1.1",
					     "GET / HTTP"};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct kvp_line line = parse(requests[i]);

		assert_int_equal(line.command, KVP_QUIT);
		assert_null(line.error);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_string_equal(parse(others[i]).error, "ERROR");
	assert_int_equal(parse("get a HTTP/1.1").command, KVP_GET);
	assert_int_equal(parse("set HTTP/1.1 0 0 1").command, KVP_STORE);
}

static void test_numbers(void **state)
{
	uint64_t u;
	int64_t i;

	(void)state;
	assert_true(kvp_u64((struct kvp_text){"18446744073709551615", 20}, &u) && u == UINT64_MAX);
	assert_false(kvp_u64((struct kvp_text){"18446744073709551616", 20}, &u));
	assert_false(kvp_u64((struct kvp_text){"", 0}, &u));
	assert_true(kvp_i64((struct kvp_text){"-9223372036854775807", 20}, &i) && i == -INT64_MAX);
	assert_false(kvp_i64((struct kvp_text){"9223372036854775808", 19}, &i));
	assert_false(kvp_i64((struct kvp_text){"-", 1}, &i));
	assert_int_equal(kvp_expires(0, 1000), 0);
	assert_int_equal(kvp_expires(-1, 1000), 1);
	assert_int_equal(kvp_expires(60, 1000), 1060);
	assert_int_equal(kvp_expires(60 * 60 * 24 * 30, 1000), 1000 + 60 * 60 * 24 * 30);
	assert_int_equal(kvp_expires(60 * 60 * 24 * 30 + 1, 1000), 60 * 60 * 24 * 30 + 1);
	assert_int_equal(kvp_expires(INT64_MAX, 1000), UINT32_MAX);
}

static void test_base64(void **state)
{
	static const struct {
		const char *plain, *coded;
	} cases[] = {{"a", "YQ=="}, {"ab", "YWI="}, {"abc", "YWJj"}, {"\xff\xfe\xfd", "//79"}};
	static const char *const wrong[] = {"", "YQ", "YQ=", "!!!!", "====", "Y===", "YQ==YQ=="};
	uint8_t bytes[16];
	char text[16];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t plain = strlen(cases[i].plain), coded = strlen(cases[i].coded);

		assert_int_equal(kvp_base64_encode((const uint8_t *)cases[i].plain, plain, text),
				 coded);
		assert_memory_equal(text, cases[i].coded, coded);
		assert_int_equal(kvp_base64_decode((struct kvp_text){cases[i].coded, coded}, bytes,
						   sizeof(bytes)),
				 plain);
		assert_memory_equal(bytes, cases[i].plain, plain);
		assert_int_equal(kvp_base64_decode((struct kvp_text){cases[i].coded, coded}, bytes,
						   plain - 1),
				 -1);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_true(kvp_base64_decode((struct kvp_text){wrong[i], strlen(wrong[i])}, bytes,
					      sizeof(bytes)) <= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors),	cmocka_unit_test(test_long_keys),
		cmocka_unit_test(test_classic), cmocka_unit_test(test_skips),
		cmocka_unit_test(test_meta),	cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_base64),	cmocka_unit_test(test_http),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
