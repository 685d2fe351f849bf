/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines and arrays on drives with blocks of all sizes: where they lie, and what is refused. */
#include "cache_layout.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES (1u << 20) /* of an SSD */

static struct fth_gpu_view drive_of(uint32_t block_shift, uint32_t ssds)
{
	return (struct fth_gpu_view){
		.blocks = BYTES >> block_shift, .block_shift = block_shift, .ssds = ssds};
}

static struct fth_gpu_cache_state *state_of(uint32_t block_shift, uint32_t ssds, uint32_t line)
{
	static struct fth_gpu_cache_state state;
	struct fth_gpu_view drive = drive_of(block_shift, ssds);

	memset(&state, 0, sizeof(state));
	assert_int_equal(fth_gpu_layout_check_line(&drive, line), 0);
	fth_gpu_layout_set_lines(&state, &drive, line);
	return &state;
}

static struct fth_gpu_array_options at(uint64_t offset, uint64_t count)
{
	struct fth_gpu_array_options o = FTH_GPU_ARRAY_OPTIONS_INIT;

	o.offset = offset;
	o.count = count;
	return o;
}

static void refuse_line(const struct fth_gpu_view *drive, uint32_t line, const char *text)
{
	assert_int_equal(fth_gpu_layout_check_line(drive, line), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), text));
}

static void test_lines(void **state)
{
	(void)state;
	for (uint32_t shift = 9; shift <= 13; shift++) {
		struct fth_gpu_view drive = drive_of(shift, 1);

		for (uint32_t line = 1u << shift; line <= FTH_GPU_LINE_MAX; line *= 2) {
			const struct fth_gpu_cache_state *cache = state_of(shift, 1, line);

			assert_int_equal(1u << cache->line_shift, line);
			assert_int_equal(cache->blocks_per_line << shift, line);
			assert_int_equal(cache->drive.block_shift, shift);
		}
		refuse_line(&drive, 256, "512 to 8192");
		refuse_line(&drive, 3 << 10, "512 to 8192");
		refuse_line(&drive, 16384, "512 to 8192");
		for (uint32_t line = FTH_GPU_LINE_MIN; line < 1u << shift; line *= 2)
			refuse_line(&drive, line, "smaller than the drive's blocks");
	}
}

/* Data that goes by way of slots has room in one. */
static void test_slots(void **state)
{
	struct fth_gpu_view drive = drive_of(12, 1);
	uint8_t slots;

	(void)state;
	drive.bounce = &slots;
	drive.bounce_slot = 4096;
	assert_int_equal(fth_gpu_layout_check_line(&drive, 4096), 0);
	refuse_line(&drive, 8192, "greater than the drive's slot, 4096");
	refuse_line(&drive, 2048, "smaller than the drive's blocks, 4096");
}

static void test_arrays(void **state)
{
	struct fth_gpu_array_options o = at(0, 0);

	(void)state;
	for (uint32_t shift = 9; shift <= 13; shift++) {
		const struct fth_gpu_cache_state *cache = state_of(shift, 1, 8192);

		o = at(0, 0);
		assert_int_equal(fth_gpu_layout_room(cache, &o), BYTES);
		o = at(5u << shift, 10);
		assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), 0);
		assert_int_equal(fth_gpu_layout_first_block(cache, &o), 5);
		assert_int_equal(fth_gpu_layout_room(cache, &o), BYTES - (5u << shift));
		o = at(1u << (shift - 1), 10);
		assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -EINVAL);
		o = at(0, BYTES / 8);
		assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), 0);
		o.count++;
		assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -ERANGE);
		o = at(BYTES, 0);
		assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -ERANGE);
	}
}

/* Every element that is allowed is on the drive, whatever the offset; of stripes whole lines. */
static void check_end(uint32_t shift, uint32_t ssds, bool replicated, uint64_t blocks,
		      uint64_t offset)
{
	struct fth_gpu_cache_state *cache = state_of(shift, ssds, 8192);
	uint64_t stripes = replicated ? 1 : ssds, room;
	struct fth_gpu_array_options o = at(offset, 0);

	o.replicated = o.readonly = replicated;
	cache->drive.blocks = blocks;
	room = fth_gpu_layout_room(cache, &o);
	if (fth_gpu_layout_check_array(cache, 8, &o) < 0) {
		assert_int_equal(room, 0);
		return;
	}
	assert_true(stripes == 1 || room % (8192 * stripes) == 0);
	assert_true((fth_gpu_layout_first_block(cache, &o) << shift) + room / stripes <=
		    blocks << shift);
	assert_true(stripes > 1 || offset + room == blocks << shift);
	o.count = room / 8 + 1;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -ERANGE);
}

static void test_ends(void **state)
{
	(void)state;
	for (uint32_t shift = 9; shift <= 13; shift++)
		for (uint64_t blocks = 1; blocks < 70; blocks++) {
			for (uint64_t first = 0; first < blocks + 2; first++) {
				check_end(shift, 1, false, blocks, first << shift);
				check_end(shift, 3, true, blocks, first << shift);
			}
			for (uint64_t first = 0; first < 6; first++)
				check_end(shift, 3, false, blocks, first * 3 * 8192);
		}
}

/* Where a drive ends within a line, an array has what is there of it; stripes have whole lines. */
static void test_last_line(void **state)
{
	struct fth_gpu_cache_state *cache = state_of(9, 1, 4096);
	struct fth_gpu_array_options o = at(3 * 512, 0);

	(void)state;
	assert_int_equal(fth_gpu_layout_room(cache, &o), BYTES - 3 * 512);
	cache->drive.blocks -= 5;
	o.offset = 0;
	assert_int_equal(fth_gpu_layout_room(cache, &o), BYTES - 5 * 512);
	o.count = (BYTES - 5 * 512) / 8;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), 0);
	o.count++;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -ERANGE);
	cache->drive.ssds = 2;
	assert_int_equal(fth_gpu_layout_room(cache, &o), 2 * (BYTES - 4096));
	o.replicated = true;
	assert_int_equal(fth_gpu_layout_room(cache, &o), BYTES - 5 * 512);
	/* A drive that is smaller than a line. */
	cache->drive.ssds = 1;
	cache->drive.blocks = 1;
	o = at(0, 64);
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), 0);
	o = at(512, 0);
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -ERANGE);
}

/* Striped arrays begin at the same block of each SSD. */
static void test_stripes(void **state)
{
	const struct fth_gpu_cache_state *cache = state_of(12, 4, 8192);
	struct fth_gpu_array_options o = at(4 * 8192 * 3, 0);

	(void)state;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), 0);
	assert_int_equal(fth_gpu_layout_first_block(cache, &o), 3 * 2);
	assert_int_equal(fth_gpu_layout_room(cache, &o), 4 * BYTES - 4 * 8192 * 3);
	o.offset = 8192;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -EINVAL);
	/* Replicas are whole on each: blocks matter there, stripes do not. */
	o.replicated = true;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -EINVAL);
	o.readonly = true;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), 0);
	assert_int_equal(fth_gpu_layout_first_block(cache, &o), 2);
	o.offset = 512;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -EINVAL);
}

static void test_elements(void **state)
{
	const struct fth_gpu_cache_state *cache = state_of(12, 1, 4096);
	struct fth_gpu_array_options o = at(0, 0);

	(void)state;
	assert_int_equal(fth_gpu_layout_check_array(cache, 4096, &o), 0);
	assert_int_equal(fth_gpu_layout_check_array(cache, 8192, &o), -EINVAL);
	assert_int_equal(fth_gpu_layout_check_array(cache, 12, &o), -EINVAL);
	assert_int_equal(fth_gpu_layout_check_array(cache, 0, &o), -EINVAL);
	o.size--;
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &o), -EINVAL);
}

/* Typed handles are made of arrays whose elements have their size. */
static void test_types(void **state)
{
	struct fth_gpu_array_base a = {.element_shift = 2};

	(void)state;
	assert_int_equal(fth_gpu_array_check(&a, 4), 0);
	assert_int_equal(fth_gpu_array_check(&a, 8), -EINVAL);
	assert_int_equal(fth_gpu_array_check(&a, 2), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),	  cmocka_unit_test(test_slots),
		cmocka_unit_test(test_arrays),	  cmocka_unit_test(test_stripes),
		cmocka_unit_test(test_elements),  cmocka_unit_test(test_ends),
		cmocka_unit_test(test_last_line), cmocka_unit_test(test_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
