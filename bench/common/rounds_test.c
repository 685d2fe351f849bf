/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "rounds.h"

static void medians_are_of_each_side(void **state)
{
	struct fth_rounds rounds = {0};

	(void)state;
	assert_true(fth_rounds_ours(&rounds) == 0);
	fth_rounds_add(&rounds, 5, 100);
	fth_rounds_add(&rounds, 1, 300);
	assert_true(fth_rounds_ours(&rounds) == 3);
	fth_rounds_add(&rounds, 50, 10);
	assert_true(fth_rounds_ours(&rounds) == 5);
	assert_true(fth_rounds_peer(&rounds) == 100);
	assert_true(fth_rounds_ratio(&rounds) == 0.05);
}

static void rounds_beyond_the_last_are_left_out(void **state)
{
	struct fth_rounds rounds = {0};

	(void)state;
	for (unsigned i = 0; i < 2 * FTH_ROUNDS_MAX; i++)
		fth_rounds_add(&rounds, i, 1);
	assert_int_equal(rounds.n, FTH_ROUNDS_MAX);
	assert_true(fth_rounds_ours(&rounds) == FTH_ROUNDS_MAX / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians_are_of_each_side),
		cmocka_unit_test(rounds_beyond_the_last_are_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
