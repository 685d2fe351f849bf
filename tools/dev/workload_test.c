/* SPDX-License-Identifier: BSD-2-Clause */
/* What checks others must itself be able to find fault. */
#include "fth_test.h"

#include "workload.h"

#include "fathom/dev/crash.h"

#include <errno.h>
#include <string.h>

#define BLOCK  512
#define BLOCKS 256

static uint32_t generations[BLOCKS];

static struct fth_workload new_workload(const char *uri)
{
	struct fth_workload w = {
		.seed = 7,
		.block = BLOCK,
		.blocks = BLOCKS,
		.threads = 4,
		.depth = 8,
		.ops = 500,
		.write_share = 0.5,
		.generations = generations,
	};

	memset(generations, 0, sizeof(generations));
	assert_ok(fth_dev_open(uri, &w.dev));
	return w;
}

static void a_good_device_has_nothing_wrong(void **state)
{
	struct fth_workload w = new_workload("mem:128K");
	struct fth_workload_result r;

	(void)state;
	assert_ok(fth_workload_run(&w, &r));
	assert_int_equal(r.reads + r.writes, 4 * 500);
	assert_int_equal(r.checked, r.reads);
	assert_int_equal(r.wrong, 0);
	assert_int_equal(r.errors, 0);
	assert_ok(fth_workload_verify(&w, &r));
	assert_true(r.checked > r.reads);
	assert_int_equal(r.wrong, 0);
	assert_int_equal(fth_dev_stat(w.dev, FTH_DEV_STAT_WRITES), r.writes);
	fth_dev_close(w.dev);
}

static uint64_t first_written(void)
{
	uint64_t block = 0;

	while (block < BLOCKS && generations[block] == 0)
		block++;
	assert_true(block < BLOCKS);
	return block;
}

static void one_changed_byte_is_found(void **state)
{
	struct fth_workload w = new_workload("mem:128K");
	struct fth_workload_result r;
	char block[BLOCK];
	uint64_t at;

	(void)state;
	assert_ok(fth_workload_run(&w, &r));
	at = first_written() * BLOCK;
	assert_ok(fth_dev_read(w.dev, block, BLOCK, at, FTH_DEV_TIMEOUT));
	block[BLOCK - 1] ^= 1;
	assert_ok(fth_dev_write(w.dev, block, BLOCK, at, FTH_DEV_TIMEOUT));
	assert_ok(fth_workload_verify(&w, &r));
	assert_int_equal(r.wrong, 1);
	fth_dev_close(w.dev);
}

static void a_block_in_the_wrong_place_is_found(void **state)
{
	struct fth_workload w = new_workload("mem:128K");
	struct fth_workload_result r;
	char block[BLOCK];

	(void)state;
	assert_ok(fth_workload_run(&w, &r));
	assert_true(generations[0] && generations[1]);
	assert_ok(fth_dev_read(w.dev, block, BLOCK, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(w.dev, block, BLOCK, BLOCK, FTH_DEV_TIMEOUT));
	assert_ok(fth_workload_verify(&w, &r));
	assert_int_equal(r.wrong, 1);
	fth_dev_close(w.dev);
}

static void a_failed_write_leaves_its_block_unknown(void **state)
{
	struct fth_workload w = new_workload("fault(mem:128K)?kind=read,write&every=7&mode=torn");
	struct fth_workload_result r;

	(void)state;
	assert_ok(fth_workload_run(&w, &r));
	assert_int_equal(r.errors, 4 * 500 / 7);
	assert_int_equal(r.reads + r.writes + r.errors, 4 * 500);
	assert_int_equal(r.wrong, 0);
	fth_dev_close(w.dev);
}

static void doubted_blocks_are_not_looked_at(void **state)
{
	struct fth_workload w = new_workload("mem:128K");
	uint32_t since[BLOCKS];
	struct fth_workload_result r;

	(void)state;
	assert_ok(fth_workload_run(&w, &r));
	memcpy(since, generations, sizeof(since));
	since[0]--;
	assert_ok(fth_dev_zero(w.dev, 2 * BLOCK, 0, FTH_DEV_TIMEOUT));
	fth_workload_doubt(&w, since);
	assert_ok(fth_workload_verify(&w, &r));
	assert_int_equal(r.wrong, 1); /* block 1 */
	fth_dev_close(w.dev);
}

/* Write, flush, lose the power; returns how many blocks are not what they were. */
static uint64_t lost_by(const char *uri)
{
	struct fth_workload w = new_workload(uri);
	struct fth_workload_result r;

	assert_ok(fth_workload_run(&w, &r));
	assert_ok(fth_dev_flush(w.dev, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_crash_power_loss(w.dev, 3));
	assert_ok(fth_dev_crash_restart(w.dev));
	assert_ok(fth_workload_verify(&w, &r));
	fth_dev_close(w.dev);
	return r.wrong;
}

static void a_drive_that_lies_about_flushes_is_found_out(void **state)
{
	(void)state;
	assert_int_equal(lost_by("crash(mem:128K)"), 0);
	assert_int_not_equal(lost_by("crash(mem:128K)?lie=on"), 0);
}

static void what_does_not_fit_is_refused(void **state)
{
	struct fth_workload w = new_workload("mem:128K");
	struct fth_workload_result r;

	(void)state;
	w.blocks = BLOCKS + 1;
	assert_int_equal(fth_workload_run(&w, &r), -EINVAL);
	w.blocks = 32;
	assert_int_equal(fth_workload_run(&w, &r), -EINVAL); /* 4 threads, 8 each: none is left */
	w.blocks = BLOCKS;
	w.block = 100;
	assert_int_equal(fth_workload_run(&w, &r), -EINVAL);
	fth_dev_close(w.dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_device_has_nothing_wrong),
		cmocka_unit_test(one_changed_byte_is_found),
		cmocka_unit_test(a_block_in_the_wrong_place_is_found),
		cmocka_unit_test(a_failed_write_leaves_its_block_unknown),
		cmocka_unit_test(doubted_blocks_are_not_looked_at),
		cmocka_unit_test(a_drive_that_lies_about_flushes_is_found_out),
		cmocka_unit_test(what_does_not_fit_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
