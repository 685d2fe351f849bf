/* SPDX-License-Identifier: BSD-2-Clause */
/* Which pages stay longer in DRAM: those that came back soon after they had left. */
#include "fth_test.h"

#include "flat/flat_internal.h"

#define PAGES  64u
#define PLACES 8u /* of DRAM: pages of a generation */

static int set_up(void **state)
{
	static struct fth_flat flat;

	flat = (struct fth_flat){.pages = PAGES, .ring.limit = PLACES};
	*state = &flat;
	return readmission_open(&flat);
}

static int tear_down(void **state)
{
	readmission_close(*state);
	return 0;
}

/* How often it is spared when it is the oldest. */
static unsigned laps(struct fth_flat *flat, uint64_t page)
{
	unsigned n = 0;

	while (readmission_skip(flat, page))
		n++;
	return n;
}

static void leave(struct fth_flat *flat, uint64_t page, bool to_flash)
{
	readmission_left(flat, page);
	if (to_flash)
		readmission_gone(flat, page);
}

static void pass_generations(struct fth_flat *flat, unsigned n)
{
	for (unsigned i = 0; i < n * PLACES; i++)
		readmission_enter(flat, PAGES - 1 - i % PLACES);
}

static void a_new_page_is_not_spared(void **state)
{
	struct fth_flat *flat = *state;

	readmission_enter(flat, 3);
	assert_int_equal(laps(flat, 3), 0);
}

/* While the SSD-cache still has it. */
static void returning_doubles_the_laps(void **state)
{
	static const unsigned expected[] = {1, 3, 7, 15, 15};
	struct fth_flat *flat = *state;

	readmission_enter(flat, 3);
	for (unsigned i = 0; i < 5; i++) {
		leave(flat, 3, false);
		readmission_enter(flat, 3);
		assert_int_equal(laps(flat, 3), expected[i]);
		assert_int_equal(laps(flat, 3), 0); /* they are used up */
	}
}

static void from_flash_the_laps_stay(void **state)
{
	struct fth_flat *flat = *state;

	readmission_enter(flat, 3);
	for (unsigned i = 0; i < 3; i++) {
		leave(flat, 3, true);
		readmission_enter(flat, 3);
		assert_int_equal(laps(flat, 3), 1);
	}
	leave(flat, 3, false);
	readmission_enter(flat, 3);
	assert_int_equal(laps(flat, 3), 3);
	leave(flat, 3, true);
	readmission_enter(flat, 3);
	assert_int_equal(laps(flat, 3), 3);
}

static void a_page_is_forgotten_after_two_generations(void **state)
{
	struct fth_flat *flat = *state;

	for (unsigned generations = 0; generations < 120; generations++) {
		readmission_enter(flat, 3);
		pass_generations(flat, 3);
		leave(flat, 3, false);
		pass_generations(flat, 3);
		readmission_enter(flat, 3); /* no laps, whatever it had */
		(void)laps(flat, 3);
		leave(flat, 3, false);
		pass_generations(flat, generations);
		readmission_enter(flat, 3);
		assert_int_equal(laps(flat, 3), generations <= 2 ? 1 : 0);
		leave(flat, 3, false);
		pass_generations(flat, 3);
	}
}

/* Each page has laps of its own. */
static void pages_do_not_share_laps(void **state)
{
	struct fth_flat *flat = *state;

	readmission_enter(flat, 3);
	leave(flat, 3, false);
	readmission_enter(flat, 3);
	readmission_enter(flat, 4);
	assert_int_equal(laps(flat, 4), 0);
	assert_int_equal(laps(flat, 2), 0);
	assert_int_equal(laps(flat, 3), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_page_is_not_spared), TEST(returning_doubles_the_laps),
		TEST(from_flash_the_laps_stay), TEST(a_page_is_forgotten_after_two_generations),
		TEST(pages_do_not_share_laps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
