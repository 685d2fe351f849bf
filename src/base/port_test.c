/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/port.h"

#include "fathom/base/error.h"

#include "fth_test.h"

#include <errno.h>

static void ports_up_to_65535_pass(void **state)
{
	static const char *const good[] = {"h:0",    "h:65535",	 "[::1]:80", ":11211", "host",
					   "h:http", "h:99999x", "::1",	     "h:",     ""};

	(void)state;
	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_ok(fth_port_check(good[i]));
}

static void ports_above_are_refused(void **state)
{
	static const char *const bad[] = {"h:65536", "[::1]:85948", ":4294967296",
					  "h:99999999999999999999999999"};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fth_port_check(bad[i]), -EINVAL);
	assert_int_equal(fth_port_check("h:85948"), -EINVAL);
	assert_string_equal(fth_error_text(-EINVAL), "h:85948: port 85948 is above 65535");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_up_to_65535_pass),
		cmocka_unit_test(ports_above_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
