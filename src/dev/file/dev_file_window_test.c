/* SPDX-License-Identifier: BSD-2-Clause */
/* The window of file:, which no test machine has on DAX: pages of the page cache. */
#include "dev/file/dev_file_fixture.h"

#include "fathom/dev/window.h"

#define BYTES 65536u

static struct fth_dev *open_file(unsigned place, const char *options)
{
	char uri[640];
	struct fth_dev *dev;

	snprintf(uri, sizeof(uri), "file:%s?%s", path_in(place, "a"), options);
	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static void a_mapped_file_keeps_what_is_stored(void **state)
{
	(void)state;
	for (unsigned p = 0; p < place_count; p++) {
		struct fth_dev *dev = open_file(p, "size=64K&create=on&window=map");
		const struct fth_dev_window_info *info;
		struct fth_dev_window *window;
		bool in_memory = dev_file_lives_in_memory(((struct dev_file *)dev)->fd);
		char found[64];

		assert_ok(
			fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_EXIT, &window));
		info = fth_dev_window_info(window);
		assert_int_equal(info->kind, FTH_DEV_WINDOW_FILE);
		assert_int_equal(info->guarantee,
				 in_memory ? FTH_DEV_WINDOW_EXIT : FTH_DEV_WINDOW_POWER);
		assert_int_equal(info->flags, 0);
		assert_int_equal(info->size, BYTES);
		assert_ok(fth_dev_window_store(window, BYTES - 3, "abc", 3));
		memset((char *)info->base + 100, 'x', 50);
		assert_ok(fth_dev_window_persist(window, 0, BYTES, FTH_DEV_TIMEOUT));
		assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_FLUSHES), 1);
		assert_ok(fth_dev_window_check(window));
		fth_dev_window_close(window);
		fth_dev_close(dev);

		dev = open_file(p, "window=map&readonly=on");
		assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_FILE, FTH_DEV_WINDOW_EXIT,
					      &window));
		assert_int_equal(fth_dev_window_info(window)->flags, FTH_DEV_WINDOW_READ_ONLY);
		assert_int_equal(fth_dev_window_store(window, 0, "a", 1), -EROFS);
		assert_ok(fth_dev_window_load(window, BYTES - 3, found, 3));
		assert_memory_equal(found, "abc", 3);
		assert_ok(fth_dev_window_load(window, 90, found, 64));
		assert_int_equal(found[9], 0);
		assert_int_equal(found[10], 'x');
		assert_int_equal(found[59], 'x');
		assert_int_equal(found[60], 0);
		fth_dev_window_close(window);
		fth_dev_close(dev);
	}
}

/* All blocks are there before the first store: a full file system is an error, and no signal. */
static void blocks_are_allocated(void **state)
{
	(void)state;
	for (unsigned p = 0; p < place_count; p++) {
		struct fth_dev_window *window;
		struct fth_dev *dev;
		struct stat st;

		unlink(path_in(p, "a"));
		dev = open_file(p, "size=64K&create=on&window=map");
		assert_int_equal(stat(path_in(p, "a"), &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 < BYTES);
		assert_ok(
			fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_EXIT, &window));
		assert_int_equal(stat(path_in(p, "a"), &st), 0);
		assert_true((uint64_t)st.st_blocks * 512 >= BYTES);
		assert_int_equal(st.st_size, BYTES);
		fth_dev_window_close(window);
		fth_dev_close(dev);
	}
}

static void without_dax_it_has_to_be_asked_for(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char uri[640];

	(void)state;
	dev = open_file(0, "size=64K&create=on");
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window),
		-EOPNOTSUPP);
	assert_non_null(strstr(fth_error_text(-EOPNOTSUPP), "window=map"));
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_VOLATILE, &window),
		-EOPNOTSUPP);
	fth_dev_close(dev);
	snprintf(uri, sizeof(uri), "file:%s?window=mop", path_in(0, "a"));
	assert_int_equal(fth_dev_open(uri, &dev), -EINVAL);
}

/* The instruction that is chosen exists on this processor, and changes no byte. */
static void lines_are_written_back(void **state)
{
	char bytes[300];

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	for (unsigned at = 0; at < 130; at += 13)
		dev_file_write_back(bytes + at, 1 + at);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], (char)i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mapped_file_keeps_what_is_stored),
		cmocka_unit_test(without_dax_it_has_to_be_asked_for),
		cmocka_unit_test(lines_are_written_back),
		cmocka_unit_test(blocks_are_allocated),
	};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
