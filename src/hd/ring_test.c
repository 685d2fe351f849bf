/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/detail/hd/ring.h"

static void position_and_turn_cover_the_ticket(void **state)
{
	(void)state;
	for (uint32_t shift = 1; shift <= 16; shift++) {
		for (uint32_t ticket = 0; ticket < 5u << shift; ticket += 3) {
			assert_int_equal((fth_ring_turn(ticket, shift) << shift) +
						 fth_ring_position(ticket, shift),
					 ticket);
		}
	}
}

static void phase_flips_every_turn_and_starts_at_one(void **state)
{
	(void)state;
	assert_int_equal(fth_ring_phase(0, 2), 1);
	assert_int_equal(fth_ring_phase(3, 2), 1);
	assert_int_equal(fth_ring_phase(4, 2), 0);
	assert_int_equal(fth_ring_phase(8, 2), 1);
	/* across the wrap of the ticket itself */
	assert_int_not_equal(fth_ring_phase(UINT32_MAX, 2), fth_ring_phase(0, 2));
}

static void reported_position_becomes_a_ticket(void **state)
{
	(void)state;
	assert_int_equal(fth_ring_advance_to(5, 1, 2), 5);
	assert_int_equal(fth_ring_advance_to(5, 0, 2), 8);
	assert_int_equal(fth_ring_advance_to(7, 3, 2), 7);
	assert_int_equal(fth_ring_advance_to(UINT32_MAX, 1, 2), 1);
}

static void order_survives_the_wrap(void **state)
{
	(void)state;
	assert_true(fth_ring_before(1, 2));
	assert_false(fth_ring_before(2, 2));
	assert_true(fth_ring_before(UINT32_MAX, 0));
	assert_int_equal(fth_ring_used(UINT32_MAX, 1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(position_and_turn_cover_the_ticket),
		cmocka_unit_test(phase_flips_every_turn_and_starts_at_one),
		cmocka_unit_test(reported_position_becomes_a_ticket),
		cmocka_unit_test(order_survives_the_wrap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
