/* SPDX-License-Identifier: BSD-2-Clause */
/* Windows that need no drive: the common part, plain memory, and wrappers around it. */
#include "fth_test.h"

#include "fathom/dev/window.h"

#include <errno.h>
#include <string.h>

static struct fth_dev_window *open_on(const char *uri, struct fth_dev **dev)
{
	struct fth_dev_window *window;

	assert_ok(fth_dev_open(uri, dev));
	assert_ok(fth_dev_window_open(*dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window));
	return window;
}

static void memory_shows_the_blocks(void **state)
{
	const struct fth_dev_window_info *info;
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char block[512];

	(void)state;
	window = open_on("mem:1M", &dev);
	info = fth_dev_window_info(window);
	assert_int_equal(info->kind, FTH_DEV_WINDOW_MEMORY);
	assert_int_equal(info->guarantee, FTH_DEV_WINDOW_VOLATILE);
	assert_int_equal(info->flags, 0);
	assert_int_equal(info->size, 1u << 20);
	assert_non_null(strstr(fth_dev_window_text(window), "nothing survives"));
	assert_ok(fth_dev_window_store(window, 600, "abcdefgh", 8));
	assert_ok(fth_dev_window_persist(window, 600, 8, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_window_check(window));
	assert_ok(fth_dev_read(dev, block, 512, 512, FTH_DEV_TIMEOUT));
	assert_memory_equal(block + 88, "abcdefgh", 8);
	((char *)info->base)[601] = 'X';
	assert_ok(fth_dev_window_load(window, 600, block, 4));
	assert_memory_equal(block, "aXcd", 4);
	fth_dev_window_close(window);
	fth_dev_window_close(NULL);
	fth_dev_close(dev);
}

/* Every length and alignment, through the accesses that are made at once and those that are not. */
static void copies_of_every_length(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char expect[96], found[96];

	(void)state;
	window = open_on("mem:4096", &dev);
	for (unsigned at = 0; at < 17; at++) {
		for (unsigned length = 0; length < 40; length++) {
			memset(expect, (int)(at + length), sizeof(expect));
			assert_ok(fth_dev_window_store(window, 0, expect, sizeof(expect)));
			for (unsigned i = 0; i < length; i++)
				expect[at + i] = (char)(100 + i);
			assert_ok(fth_dev_window_store(window, at, expect + at, length));
			assert_ok(fth_dev_window_load(window, 0, found, sizeof(found)));
			assert_memory_equal(found, expect, sizeof(expect));
			memset(found, 0, sizeof(found));
			assert_ok(fth_dev_window_load(window, at, found, length));
			assert_memory_equal(found, expect + at, length);
			assert_int_equal(found[length], 0);
		}
	}
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

static void ranges_are_checked(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char byte = 1;

	(void)state;
	window = open_on("mem:4096", &dev);
	assert_ok(fth_dev_window_store(window, 4095, &byte, 1));
	assert_ok(fth_dev_window_store(window, 4096, &byte, 0));
	assert_ok(fth_dev_window_persist(window, 0, 4096, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_window_store(window, 4096, &byte, 1), -ERANGE);
	assert_int_equal(fth_dev_window_store(window, 4095, "ab", 2), -ERANGE);
	assert_int_equal(fth_dev_window_load(window, UINT64_MAX, &byte, 1), -ERANGE);
	assert_int_equal(fth_dev_window_load(window, 4097, &byte, 0), -ERANGE);
	assert_int_equal(fth_dev_window_persist(window, 1, 4096, FTH_DEV_TIMEOUT), -ERANGE);
	assert_int_equal(fth_dev_window_persist(window, 1, UINT64_MAX, 0), -ERANGE);
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

static void kinds_and_guarantees_are_kept(void **state)
{
	struct fth_dev_window *window = (void *)1;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:4096", &dev));
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_VOLATILE, &window),
		-EOPNOTSUPP);
	assert_null(window);
	assert_int_equal(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_EXIT, &window),
			 -EOPNOTSUPP);
	assert_non_null(strstr(fth_error_text(-EOPNOTSUPP), "\"volatile\", not \"exit\""));
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_KINDS, FTH_DEV_WINDOW_VOLATILE, &window),
		-EINVAL);
	assert_int_equal(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY,
					     (enum fth_dev_window_guarantee)3, &window),
			 -EINVAL);
	assert_ok(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_MEMORY, FTH_DEV_WINDOW_VOLATILE, &window));
	fth_dev_window_close(window);
	fth_dev_close(dev);
	assert_string_equal(fth_dev_window_kind_name(FTH_DEV_WINDOW_PMR), "pmr");
	assert_string_equal(fth_dev_window_kind_name(FTH_DEV_WINDOW_KINDS), "unknown");
	assert_string_equal(fth_dev_window_guarantee_name(FTH_DEV_WINDOW_POWER), "power");
	assert_string_equal(fth_dev_window_guarantee_name((enum fth_dev_window_guarantee)3),
			    "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_shows_the_blocks),
		cmocka_unit_test(copies_of_every_length),
		cmocka_unit_test(ranges_are_checked),
		cmocka_unit_test(kinds_and_guarantees_are_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
