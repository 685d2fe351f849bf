/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/base/version.h"

#include <stdio.h>

static void the_text_is_made_of_the_numbers(void **state)
{
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%d.%d.%d", FTH_VERSION_MAJOR, FTH_VERSION_MINOR,
		 FTH_VERSION_PATCH);
	assert_string_equal(FTH_VERSION_STRING, text);
	assert_string_equal(fth_version(), text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_text_is_made_of_the_numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
