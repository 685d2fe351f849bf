/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "dev/wrap/memory.h"

#include "fathom/base/rng.h"

#include <string.h>

#define BLOCKS 200

struct block {
	uint8_t *at;
	size_t bytes;
};

static bool has_only(const struct block *block, int byte)
{
	for (size_t i = 0; i < block->bytes; i++)
		if (block->at[i] != byte)
			return false;
	return true;
}

/* Blocks of all sizes, in any order: none overlaps another, and all are aligned. */
static void blocks_do_not_overlap(void **unused)
{
	static struct block blocks[BLOCKS];
	struct fth_dev_memory memory = {0};
	struct fth_rng rng = {3};

	(void)unused;
	for (unsigned i = 0; i < 20000; i++) {
		unsigned which = (unsigned)fth_rng_below(&rng, BLOCKS);
		struct block *block = &blocks[which];

		if (block->at) {
			assert_true(has_only(block, (int)which));
			fth_dev_memory_give(&memory, block->at, block->bytes);
		}
		block->bytes = 1 + fth_rng_below(&rng, (size_t)1 << fth_rng_below(&rng, 18));
		block->at = fth_dev_memory_take(&memory, block->bytes);
		assert_non_null(block->at);
		assert_int_equal((uintptr_t)block->at % (block->bytes < 4096 ? 64 : 4096), 0);
		memset(block->at, (int)which, block->bytes);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		fth_dev_memory_give(&memory, blocks[i].at, blocks[i].bytes);
	fth_dev_memory_give(&memory, NULL, 10);
	fth_dev_memory_release(&memory);
	assert_null(memory.chunks);
	assert_non_null(fth_dev_memory_take(&memory, 10)); /* usable again */
	fth_dev_memory_release(&memory);
}

/* What was given back is used again. */
static void memory_does_not_grow(void **unused)
{
	struct fth_dev_memory memory = {0};
	void *first = fth_dev_memory_take(&memory, 5000);
	size_t used = memory.used;

	(void)unused;
	fth_dev_memory_give(&memory, first, 5000);
	for (unsigned i = 0; i < 1000; i++) {
		void *again = fth_dev_memory_take(&memory, 4097 + i);

		assert_ptr_equal(again, first);
		fth_dev_memory_give(&memory, again, 4097 + i);
	}
	assert_int_equal(memory.used, used);
	fth_dev_memory_release(&memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_do_not_overlap),
		cmocka_unit_test(memory_does_not_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
