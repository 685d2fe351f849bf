/* SPDX-License-Identifier: BSD-2-Clause */
/* Windows that need no drive: the common part, plain memory, and wrappers around it. */
#include "fth_test.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/fault.h"
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

/* ---- wrappers ---- */

static void delay_passes_the_window_on(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char block[512];

	(void)state;
	window = open_on("delay(mem:1M)?read_us=1", &dev);
	assert_ok(fth_dev_window_store(window, 0, "ab", 2));
	assert_ok(fth_dev_window_persist(window, 0, 2, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, block, 512, 0, FTH_DEV_TIMEOUT));
	assert_memory_equal(block, "ab", 2);
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

static void a_persist_fails_as_a_flush_does(void **state)
{
	struct fth_dev_fault_counts counts;
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char found[2];

	(void)state;
	window = open_on("fault(mem:1M)?kind=flush&every=2&error=EIO", &dev);
	for (unsigned i = 0; i < 4; i++) {
		assert_ok(fth_dev_window_store(window, i, "ab", 2));
		assert_ok(fth_dev_window_load(window, i, found, 2));
		assert_memory_equal(found, "ab", 2);
		assert_int_equal(fth_dev_window_persist(window, i, 2, FTH_DEV_TIMEOUT),
				 i % 2 ? -EIO : 0);
	}
	assert_ok(fth_dev_fault_counts(dev, &counts));
	assert_int_equal(counts.matched, 4);
	assert_int_equal(counts.injected, 2);
	assert_ok(fth_dev_window_check(window));
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

/* Lines that were stored in one run and not persisted. */
enum { LINES = 64 };

static void store_lines(struct fth_dev_window *window, char byte)
{
	char line[64];

	memset(line, byte, sizeof(line));
	for (unsigned i = 0; i < LINES; i++)
		assert_ok(fth_dev_window_store(window, i * 64, line, 64));
}

/* How many of the lines hold this byte; each holds one byte throughout. */
static unsigned count_lines(struct fth_dev_window *window, char byte)
{
	unsigned n = 0;
	char line[64];

	for (unsigned i = 0; i < LINES; i++) {
		assert_ok(fth_dev_window_load(window, i * 64, line, 64));
		for (unsigned at = 1; at < 64; at++)
			assert_int_equal(line[at], line[0]);
		n += line[0] == byte;
	}
	return n;
}

static void a_power_loss_takes_what_was_not_persisted(void **state)
{
	unsigned kept[2], lucky = 0;
	struct fth_dev_window *window;
	struct fth_dev *dev;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		window = open_on("crash(mem:1M)", &dev);
		assert_true(fth_dev_window_info(window)->flags & FTH_DEV_WINDOW_EMULATED);
		store_lines(window, 'a');
		assert_ok(fth_dev_window_persist(window, 0, LINES * 64, FTH_DEV_TIMEOUT));
		store_lines(window, 'b');
		/* Only this line is certain; it is rounded to whole lines. */
		assert_ok(fth_dev_window_persist(window, 64 * 7 + 3, 1, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_crash_power_loss(dev, 5));
		assert_int_equal(fth_dev_window_persist(window, 0, 1, FTH_DEV_TIMEOUT), -ENODEV);
		assert_int_equal(fth_dev_window_check(window), -ENODEV);
		fth_dev_window_close(window);
		assert_int_equal(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY,
						     FTH_DEV_WINDOW_VOLATILE, &window),
				 -ENODEV);
		assert_ok(fth_dev_crash_restart(dev));
		assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE,
					      &window));
		kept[round] = count_lines(window, 'b');
		assert_int_equal(count_lines(window, 'a'), LINES - kept[round]);
		lucky += *((char *)fth_dev_window_info(window)->base + 64 * 7) == 'b';
		fth_dev_window_close(window);
		fth_dev_close(dev);
	}
	assert_int_equal(lucky, 2);
	assert_in_range(kept[0], 2, LINES - 2);
	assert_int_equal(kept[0], kept[1]); /* the same seed, the same loss */
}

static void a_power_loss_at_a_persist(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;

	(void)state;
	window = open_on("crash(mem:1M)?crash_at=2", &dev);
	store_lines(window, 'a');
	assert_ok(fth_dev_window_persist(window, 0, LINES * 64, FTH_DEV_TIMEOUT));
	store_lines(window, 'b');
	assert_int_equal(fth_dev_window_persist(window, 0, LINES * 64, FTH_DEV_TIMEOUT), -ENODEV);
	assert_false(fth_dev_crash_powered(dev));
	fth_dev_window_close(window);
	assert_ok(fth_dev_crash_restart(dev));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window));
	assert_in_range(count_lines(window, 'b'), 1, LINES - 1);
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

static void a_drive_that_lies_about_persist(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;

	(void)state;
	window = open_on("crash(mem:1M)?lie=on", &dev);
	store_lines(window, 'a');
	assert_ok(fth_dev_window_persist(window, 0, LINES * 64, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_crash_power_loss(dev, 1));
	fth_dev_window_close(window);
	assert_ok(fth_dev_crash_restart(dev));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window));
	assert_in_range(count_lines(window, 'a'), 1, LINES - 1);
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

/* Without a power loss nothing is lost, persisted or not. */
static void closing_a_window_is_no_power_loss(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;

	(void)state;
	window = open_on("crash(mem:1M)", &dev);
	store_lines(window, 'a');
	fth_dev_window_close(window);
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window));
	assert_int_equal(count_lines(window, 'a'), LINES);
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_shows_the_blocks),
		cmocka_unit_test(copies_of_every_length),
		cmocka_unit_test(ranges_are_checked),
		cmocka_unit_test(kinds_and_guarantees_are_kept),
		cmocka_unit_test(delay_passes_the_window_on),
		cmocka_unit_test(a_persist_fails_as_a_flush_does),
		cmocka_unit_test(a_power_loss_takes_what_was_not_persisted),
		cmocka_unit_test(a_power_loss_at_a_persist),
		cmocka_unit_test(a_drive_that_lies_about_persist),
		cmocka_unit_test(closing_a_window_is_no_power_loss),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
