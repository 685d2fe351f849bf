/* SPDX-License-Identifier: BSD-2-Clause */
/* Bus addresses: ranges, alignment, exhaustion, reuse, and a long random run against a map. */
#include "fth_test.h"

#include "nvme/vfio/iova.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <string.h>

#define PAGE 4096u

static void lowest_first_and_aligned(void **state)
{
	struct iova_space space = {0};
	uint64_t at;

	(void)state;
	assert_ok(iova_add(&space, 0x101000, 0x10ffff));
	assert_ok(iova_add(&space, 0x200000, 0xfffffff));
	assert_ok(iova_alloc(&space, PAGE, PAGE, &at));
	assert_int_equal(at, 0x101000);
	assert_ok(iova_alloc(&space, PAGE, 0x8000, &at));
	assert_int_equal(at, 0x108000);
	/* The gap before it is used, and only what fits lies in the first range. */
	assert_ok(iova_alloc(&space, 0x6000, PAGE, &at));
	assert_int_equal(at, 0x102000);
	assert_ok(iova_alloc(&space, 0x8000, PAGE, &at));
	assert_int_equal(at, 0x200000);
	assert_ok(iova_alloc(&space, 0x7000, PAGE, &at));
	assert_int_equal(at, 0x109000);
	iova_release(&space);
}

static void full_is_an_error_and_freed_space_is_used_again(void **state)
{
	struct iova_space space = {0};
	uint64_t at[4], again;

	(void)state;
	assert_ok(iova_add(&space, 0x100000, 0x103fff));
	for (unsigned i = 0; i < 4; i++)
		assert_ok(iova_alloc(&space, PAGE, PAGE, &at[i]));
	assert_int_equal(iova_alloc(&space, PAGE, PAGE, &again), -ENOSPC);
	iova_free(&space, at[1], PAGE);
	iova_free(&space, at[3], PAGE);
	assert_int_equal(iova_alloc(&space, 2 * PAGE, PAGE, &again), -ENOSPC);
	/* The hole between them joins both. */
	iova_free(&space, at[2], PAGE);
	assert_ok(iova_alloc(&space, 3 * PAGE, PAGE, &again));
	assert_int_equal(again, at[1]);
	iova_free(&space, again, 3 * PAGE);
	iova_free(&space, at[0], PAGE);
	assert_int_equal(space.count, 1);
	assert_ok(iova_alloc(&space, 4 * PAGE, PAGE, &again));
	iova_release(&space);
}

static void nothing_overflows_at_either_end(void **state)
{
	struct iova_space space = {0};
	uint64_t at;

	(void)state;
	assert_int_equal(iova_alloc(&space, PAGE, PAGE, &at), -ENOSPC);
	assert_ok(iova_add(&space, 0, 0xfff));
	assert_ok(iova_add(&space, UINT64_MAX - 0x1fff, UINT64_MAX));
	assert_int_equal(iova_alloc(&space, UINT64_MAX, PAGE, &at), -ENOSPC);
	assert_int_equal(iova_alloc(&space, 0, PAGE, &at), -ENOSPC);
	assert_ok(iova_alloc(&space, 2 * PAGE, PAGE, &at));
	assert_int_equal(at, UINT64_MAX - 0x1fff);
	assert_int_equal(iova_alloc(&space, PAGE, (uint64_t)1 << 63, &at), 0);
	assert_int_equal(at, 0);
	iova_free(&space, UINT64_MAX - 0x1fff, 2 * PAGE);
	assert_int_equal(iova_alloc(&space, PAGE, (uint64_t)1 << 63, &at), -ENOSPC);
	iova_release(&space);
}

static void ranges_out_of_order_are_refused(void **state)
{
	struct iova_space space = {0};

	(void)state;
	assert_int_equal(iova_add(&space, 10, 9), -EINVAL);
	assert_ok(iova_add(&space, 0x1000, 0x1fff));
	assert_int_equal(iova_add(&space, 0x1fff, 0x2fff), -EINVAL);
	assert_int_equal(iova_add(&space, 0, 0xfff), -EINVAL);
	iova_release(&space);
}

/* Every page is handed out at most once, stays inside the ranges, and all come back. */
static void a_long_run_hands_nothing_out_twice(void **state)
{
	enum { PAGES = 256, LIVE = 64, ROUNDS = 20000 };
	static uint8_t used[PAGES];
	struct iova_space space = {0};
	struct {
		uint64_t at, len;
	} live[LIVE] = {{0, 0}};
	struct fth_rng rng = {1};
	uint64_t at;

	(void)state;
	memset(used, 1, sizeof(used));
	memset(used + 16, 0, 100);
	memset(used + 128, 0, 128);
	assert_ok(iova_add(&space, 16 * PAGE, 116 * PAGE - 1));
	assert_ok(iova_add(&space, 128 * PAGE, 256 * PAGE - 1));
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned i = (unsigned)fth_rng_below(&rng, LIVE);
		uint64_t pages = 1 + fth_rng_below(&rng, 12);
		uint64_t align = PAGE << fth_rng_below(&rng, 4);

		if (live[i].len) {
			iova_free(&space, live[i].at, live[i].len);
			memset(used + live[i].at / PAGE, 0, live[i].len / PAGE);
			live[i].len = 0;
		} else if (iova_alloc(&space, pages * PAGE, align, &at) == 0) {
			assert_int_equal(at % align, 0);
			for (uint64_t p = at / PAGE; p < at / PAGE + pages; p++) {
				assert_true(p < PAGES && !used[p]);
				used[p] = 1;
			}
			live[i].at = at;
			live[i].len = pages * PAGE;
		}
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].len)
			iova_free(&space, live[i].at, live[i].len);
	assert_int_equal(space.count, 2);
	assert_int_equal(space.alive, 0);
	assert_int_equal(space.free[0].last, 116 * PAGE - 1);
	iova_release(&space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lowest_first_and_aligned),
		cmocka_unit_test(full_is_an_error_and_freed_space_is_used_again),
		cmocka_unit_test(nothing_overflows_at_either_end),
		cmocka_unit_test(ranges_out_of_order_are_refused),
		cmocka_unit_test(a_long_run_hands_nothing_out_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
