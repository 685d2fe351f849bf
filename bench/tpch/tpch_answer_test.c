/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "tpch_answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void put_file(char path[64], const char *text)
{
	FILE *file;
	int fd;

	snprintf(path, 64, "/tmp/tpch-answer-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	file = fdopen(fd, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int compare(const char *got, const char *expected, unsigned skip)
{
	char a[64], b[64];
	int rc;

	put_file(a, got);
	put_file(b, expected);
	rc = tpch_answer_compare(a, b, skip);
	unlink(a);
	unlink(b);
	return rc;
}

static void equal_answers(void **state)
{
	(void)state;
	assert_ok(compare("", "", 0));
	assert_ok(compare("\n", "\n", 0)); /* a row with one null */
	assert_ok(compare("a|1\nb|2\n", "a|1\nb|2\n", 0));
	assert_ok(compare("a|1\n", "name|n\na|1\n", 1));
	assert_ok(compare("a  |1\n", "a|1\n", 0));
	assert_ok(compare("0.05008133906964237698|x\n", "0.05008133906964238|x\n", 0));
	assert_ok(compare("5|-7.00\n", "5|-7\n", 0));
}

/* Query 11 has no rows at scale factor 10; any row is wrong then, and everywhere else no rows are. */
static void known_answers(void **state)
{
	char path[64];

	(void)state;
	assert_true(tpch_answer_known(0.01) && tpch_answer_known(1) && tpch_answer_known(10));
	assert_false(tpch_answer_known(2));
	put_file(path, "");
	assert_ok(tpch_answer_verify(path, 10, 11));
	assert_int_equal(tpch_answer_verify(path, 1, 11), -EBADMSG);
	unlink(path);
	put_file(path, "1|2.00\n");
	assert_int_equal(tpch_answer_verify(path, 10, 11), -EBADMSG);
	unlink(path);
	assert_int_equal(tpch_answer_verify(path, 10, 11), -ENOENT);
}

static void rows_in_any_order(void **state)
{
	(void)state;
	assert_ok(compare("b|2\na|1\nc|3\n", "c|3\nb|2\na|1\n", 0));
	assert_ok(compare("1.0000000000001|x\n1|y\n", "1|y\n1.0|x\n", 0));
}

static void different_answers(void **state)
{
	(void)state;
	assert_int_equal(compare("a|1\n", "a|2\n", 0), -EBADMSG);
	assert_int_equal(compare("a|1\n", "a|1\na|1\n", 0), -EBADMSG);
	assert_int_equal(compare("a|1\na|1\n", "a|1\na|2\n", 0), -EBADMSG);
	assert_int_equal(compare("\n", "", 0), -EBADMSG);
	assert_int_equal(compare("a|1|\n", "a|1\n", 0), -EBADMSG);
	assert_int_equal(compare("a\n", "a|1\n", 0), -EBADMSG);
	assert_int_equal(compare("|1\n", "0|1\n", 0), -EBADMSG); /* null is not zero */
	assert_int_equal(compare("100.001\n", "100.002\n", 0), -EBADMSG);
	assert_int_equal(compare("1995-03-05\n", "1995-03-06\n", 0), -EBADMSG);
	assert_int_equal(compare("nan\n", "inf\n", 0), -EBADMSG);
}

static void a_missing_file(void **state)
{
	(void)state;
	assert_int_equal(tpch_answer_compare("/nowhere/a", "/nowhere/b", 0), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_answers),     cmocka_unit_test(known_answers),
		cmocka_unit_test(rows_in_any_order), cmocka_unit_test(different_answers),
		cmocka_unit_test(a_missing_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
