/* SPDX-License-Identifier: BSD-2-Clause */
/* A benchmark's check of its data must notice wrong data. */
#include "fth_test.h"

#include "stamp.h"

#include <string.h>

static _Alignas(8) char block[FTH_STAMP_BLOCK], other[FTH_STAMP_BLOCK];
static const struct fth_stamp stamp = {.address = 40960, .generation = 7, .body = 3};

static int make_block(void **state)
{
	(void)state;
	fth_stamp_fill(block, &stamp);
	return 0;
}

static void a_block_matches_its_own_stamp_only(void **state)
{
	(void)state;
	assert_true(fth_stamp_matches(block, 40960, 7));
	assert_true(fth_stamp_ends_match(block, 40960, 7));
	assert_false(fth_stamp_matches(block, 45056, 7));
	assert_false(fth_stamp_ends_match(block, 45056, 7));
	assert_false(fth_stamp_matches(block, 40960, 6));
	assert_false(fth_stamp_ends_match(block, 40960, 6));
}

static void a_renewed_block_matches(void **state)
{
	struct fth_stamp next = {.address = 8192, .generation = 9, .body = 3};

	(void)state;
	fth_stamp_renew(block, &next);
	assert_true(fth_stamp_matches(block, 8192, 9));
	assert_false(fth_stamp_ends_match(block, 40960, 7));
}

static void every_changed_byte_is_found(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FTH_STAMP_BLOCK; i++) {
		block[i] ^= 0x10;
		assert_false(fth_stamp_matches(block, 40960, 7));
		block[i] ^= 0x10;
	}
}

static void a_torn_block_is_found(void **state)
{
	struct fth_stamp next = stamp;

	(void)state;
	next.generation = 8;
	next.body = 4;
	fth_stamp_fill(other, &next);
	for (unsigned i = 1; i < FTH_STAMP_SECTORS; i++) {
		char torn[FTH_STAMP_BLOCK];

		memcpy(torn, other, sizeof(torn));
		memcpy(torn, block, i * FTH_STAMP_SECTOR);
		assert_false(fth_stamp_matches(torn, 40960, 7));
		assert_false(fth_stamp_matches(torn, 40960, 8));
		assert_false(fth_stamp_ends_match(torn, 40960, 7));
		assert_false(fth_stamp_ends_match(torn, 40960, 8));
	}
}

static void a_spoilt_block_matches_nothing(void **state)
{
	(void)state;
	fth_stamp_spoil(block);
	assert_false(fth_stamp_matches(block, 40960, 7));
	assert_false(fth_stamp_ends_match(block, 40960, 7));
}

#define TEST(name) cmocka_unit_test_setup(name, make_block)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_block_matches_its_own_stamp_only), TEST(a_renewed_block_matches),
		TEST(every_changed_byte_is_found),	  TEST(a_torn_block_is_found),
		TEST(a_spoilt_block_matches_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
