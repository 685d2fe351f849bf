/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Passwords, and files of them that change. tests/kv/kv_tls_test.sh does the same with
 * certificates.
 */
#include "server_fixture.h"

static void test_auth(void **state)
{
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	static const char *const wrong[] = {"set x 0 0 9\r\nann wrong\r\n",
					    "set x 0 0 3\r\nann\r\n",
					    "set x 0 0 10\r\nann secre1\r\n", "set x 0 0 0\r\n\r\n",
					    "set x 0 0 10\r\nann secretx\r\n"};
	static const char *const others[] = {
		"get a\r\n",	       "version\r\n", "mn\r\n", "add x 0 0 10\r\nann secret\r\n",
		"set x 0 0 99999\r\n", "\r\n"};
	char path[] = "/tmp/fathom-kv-auth-XXXXXX";
	struct fixture f;
	int fd;

	(void)state;
	write_file(path, "ann:secret\n\nbob:two:words\r\n");
	o.auth_file = path;
	start(&f, NULL, &o);
	fd = dial(&f);
	ask(fd, "set x 0 0 10\r\nann secret\r\n", "STORED\r\n");
	ask(fd, "get x\r\nset a 0 0 1\r\n1\r\n", "END\r\nSTORED\r\n");
	close(fd);
	fd = dial(&f);
	ask(fd, "set x 0 0 13\r\nbob two:words\r\nget a\r\n",
	    "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
	close(fd);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fd = dial(&f);
		put(fd, wrong[i], strlen(wrong[i]));
		expect_text(fd, "CLIENT_ERROR authentication failure\r\n");
		expect_closed(fd);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		fd = dial(&f);
		put(fd, others[i], strlen(others[i]));
		expect_text(fd, "CLIENT_ERROR unauthenticated\r\n");
		expect_closed(fd);
	}
	stop(&f);
	unlink(path);
}

static void change_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* "STORED", or an error. */
static void give(const struct fixture *f, const char *say, const char *answer)
{
	int fd = dial(f);

	ask(fd, say, answer);
	close(fd);
}

static void test_reload(void **state)
{
	static const char old[] = "set x 0 0 7\r\nann old\r\n",
			  new[] = "set x 0 0 7\r\nann new\r\n";
	static const char yes[] = "STORED\r\n", no[] = "CLIENT_ERROR authentication failure\r\n";
	struct fth_kv_server_options o = FTH_KV_SERVER_OPTIONS_INIT;
	char path[] = "/tmp/fathom-kv-auth-XXXXXX";
	struct fixture f;
	int before, silent;

	(void)state;
	write_file(path, "ann:old\n");
	o.auth_file = path;
	start(&f, NULL, &o);
	before = dial(&f);
	ask(before, old, yes);
	silent = dial(&f);
	change_file(path, "ann:new\n");
	give(&f, old, yes); /* nobody has asked for the new one */
	assert_ok(fth_kv_server_reload(f.server));
	ask(before, "mn\r\n", "MN\r\n");
	ask(silent, old, no);
	give(&f, old, no);
	give(&f, new, yes);
	/* A file that is none changes nothing. */
	change_file(path, "ann\n");
	assert_int_equal(fth_kv_server_reload(f.server), -EINVAL);
	give(&f, new, yes);
	unlink(path);
	assert_int_equal(fth_kv_server_reload(f.server), -ENOENT);
	give(&f, new, yes);
	give(&f, old, no);
	close(before);
	close(silent);
	stop(&f);
}

static void test_nothing_to_reload(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, NULL, NULL);
	assert_ok(fth_kv_server_reload(f.server));
	give(&f, "mn\r\n", "MN\r\n");
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_auth),
		cmocka_unit_test(test_reload),
		cmocka_unit_test(test_nothing_to_reload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
