/* SPDX-License-Identifier: BSD-2-Clause */
#include "random.h"

#include "fth_test.h"

#include <stdbool.h>

static uint32_t steps(uint32_t seed, unsigned count)
{
	while (count--)
		seed = (uint32_t)((uint64_t)seed * TPCH_MULTIPLIER % TPCH_MODULUS);
	return seed;
}

/* Park and Miller give the 10,000th number after 1 as the check of an implementation. */
static void the_sequence_is_the_minimal_standard(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (unsigned i = 0; i < 10000; i++)
		tpch_draw(&seed, 0, 1);
	assert_int_equal(seed, 1043618065);
}

static void multiplying_is_exact_at_the_edges(void **state)
{
	static const uint32_t values[] = {1, 2, 16807, 65536, TPCH_MODULUS - 2, TPCH_MODULUS - 1};
	const unsigned count = sizeof(values) / sizeof(values[0]);

	(void)state;
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < count; j++)
			assert_int_equal(tpch_multiply(values[i], values[j]),
					 (uint64_t)values[i] * values[j] % TPCH_MODULUS);
}

static void skipping_equals_stepping(void **state)
{
	(void)state;
	for (unsigned count = 0; count < 300; count++)
		assert_int_equal(tpch_multiply(933588178, tpch_power(count)),
				 steps(933588178, count));
	/* The sequence has a period of 2^31 - 2. */
	assert_int_equal(tpch_power(TPCH_MODULUS - 1), 1);
	assert_int_equal(tpch_power((uint64_t)(TPCH_MODULUS - 1) * 1000003 + 17), steps(1, 17));
}

static void draws_stay_in_their_range(void **state)
{
	uint32_t seed = 46831694, last = TPCH_MODULUS - 1, first = 1;
	bool seen[5] = {false};

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		int64_t value = tpch_draw(&seed, -2, 2);

		assert_in_range(value + 2, 0, 4);
		seen[value + 2] = true;
	}
	for (unsigned i = 0; i < 5; i++)
		assert_true(seen[i]);
	/* Seeds whose next ones are the least and the greatest. */
	for (unsigned i = 0; i < 2; i++) {
		uint32_t *edge = i ? &last : &first;
		uint32_t before = tpch_multiply(*edge, tpch_power(TPCH_MODULUS - 2));

		assert_int_equal(tpch_draw(&before, 100, 999), i ? 999 : 100);
		assert_int_equal(before, *edge);
	}
}

/* Seeds beside the multiples of modulus / range, where rounding could matter. */
static void integers_give_what_doubles_give(void **state)
{
	static const int64_t ranges[] = {2, 3, 11, 90, 340, 9999, 99901, (1 << 20) - 1, 1 << 20};
	const uint32_t back = tpch_power(TPCH_MODULUS - 2);

	(void)state;
	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		for (int64_t k = 1; k < ranges[i]; k += 1 + ranges[i] / 1000)
			for (int64_t beside = -1; beside <= 2; beside++) {
				uint32_t next = (uint32_t)(k * TPCH_MODULUS / ranges[i] + beside);
				uint32_t seed = tpch_multiply(next, back);
				int64_t value = tpch_draw(&seed, 0, ranges[i] - 1);

				assert_int_equal(seed, next);
				assert_true(value == (int64_t)((double)next / 2147483647.0 *
							       (double)ranges[i]));
			}
}

static void skipping_equals_stepping_in_64_bits(void **state)
{
	uint64_t seed = 851767375;

	(void)state;
	for (unsigned count = 0; count < 300; count++) {
		assert_true(tpch_advance64(851767375, count) == seed);
		assert_in_range(tpch_draw64(&seed, 1, 4500000000), 1, 4500000000);
	}
}

static void leaving_out_is_one_multiplication_per_bit(void **state)
{
	uint64_t seed = UINT64_C(0xfedcba9876543210);
	int64_t once = (int64_t)(seed * TPCH_MULTIPLIER) % (int64_t)TPCH_MODULUS;
	int64_t square = (int64_t)TPCH_MULTIPLIER * TPCH_MULTIPLIER % (int64_t)TPCH_MODULUS;

	(void)state;
	assert_true(tpch_leave_out64(seed, 0) == seed);
	assert_true((int64_t)tpch_leave_out64(seed, 1) == once);
	assert_true((int64_t)tpch_leave_out64(seed, 3) == once * square % (int64_t)TPCH_MODULUS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sequence_is_the_minimal_standard),
		cmocka_unit_test(multiplying_is_exact_at_the_edges),
		cmocka_unit_test(skipping_equals_stepping),
		cmocka_unit_test(draws_stay_in_their_range),
		cmocka_unit_test(integers_give_what_doubles_give),
		cmocka_unit_test(skipping_equals_stepping_in_64_bits),
		cmocka_unit_test(leaving_out_is_one_multiplication_per_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
