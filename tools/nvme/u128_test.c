/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "u128.h"

static void expect(uint64_t low, uint64_t high, const char *wanted)
{
	const uint64_t words[2] = {low, high};
	char text[FTH_U128_MAX];

	assert_string_equal(fth_u128_text(text, words), wanted);
}

static void all_128_bits_are_printed(void **state)
{
	(void)state;
	expect(0, 0, "0");
	expect(7, 0, "7");
	expect(UINT64_MAX, 0, "18446744073709551615");
	expect(0, 1, "18446744073709551616");
	expect(100, 1, "18446744073709551716");
	expect(UINT64_MAX, UINT64_MAX, "340282366920938463463374607431768211455");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_128_bits_are_printed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
