/* SPDX-License-Identifier: BSD-2-Clause */
/* tail=on: files that end inside a block, with direct I/O where the filesystem allows it. */
#include "dev/file/dev_file_fixture.h"

#define SIZE	10000u
#define ROUNDED 12288u

static uint64_t file_size(unsigned place)
{
	struct stat st;

	assert_int_equal(stat(path_in(place, "a"), &st), 0);
	return (uint64_t)st.st_size;
}

static void read_plain(unsigned place, void *to, size_t n)
{
	int fd = open(path_in(place, "a"), O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, to, n, 0), (ssize_t)n);
	close(fd);
}

static bool is_rounded(const struct fth_dev *dev)
{
	return fth_dev_info(dev)->size == ROUNDED;
}

static void the_end_is_rounded_up_and_reads_as_zeroes(void **state)
{
	static unsigned char all[ROUNDED];
	struct fth_dev *dev;

	(void)state;
	for (unsigned place = 0; place < place_count; place++) {
		make_file(place, SIZE);
		assert_ok(open_a(place, "?tail=on", &dev));
		if (is_rounded(dev)) {
			memset(all, 1, sizeof(all));
			assert_ok(fth_dev_read(dev, all, ROUNDED, 0, FTH_DEV_TIMEOUT));
			assert_true(all_are(all, SIZE, 0xee));
			assert_true(all_are(all + SIZE, ROUNDED - SIZE, 0));
			memset(all, 1, sizeof(all));
			assert_ok(fth_dev_read(dev, all, 4096, 8192, FTH_DEV_TIMEOUT));
			assert_true(all_are(all, SIZE - 8192, 0xee));
			assert_true(all_are(all + SIZE - 8192, ROUNDED - SIZE, 0));
		} else {
			/* Without direct I/O there are no blocks to be inside of. */
			assert_int_equal(fth_dev_info(dev)->size, SIZE);
			assert_int_equal(fth_dev_info(dev)->block, 1);
		}
		fth_dev_close(dev);
	}
}

static void writes_never_make_the_file_longer(void **state)
{
	static unsigned char all[ROUNDED], got[SIZE];
	struct fth_dev *dev;

	(void)state;
	make_file(0, SIZE);
	assert_ok(open_a(0, "?tail=on", &dev));
	if (!is_rounded(dev)) {
		fth_dev_close(dev);
		skip();
	}
	fill_random(all, sizeof(all), 1);
	assert_ok(fth_dev_write(dev, all, ROUNDED, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(file_size(0), SIZE);
	read_plain(0, got, SIZE);
	assert_memory_equal(got, all, SIZE);
	/* One block of the last page directly, the last one through the page cache, in turn. */
	for (unsigned round = 2; round < 6; round++) {
		fill_random(all + 8192, 4096, round);
		assert_ok(fth_dev_write(dev, all + 8192, 512, 8192, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_write(dev, all + 8704, 3584, 8704, FTH_DEV_TIMEOUT));
		memset(got, 0, sizeof(got));
		assert_ok(fth_dev_read(dev, got, 512, 8192, FTH_DEV_TIMEOUT));
		assert_memory_equal(got, all + 8192, 512);
		read_plain(0, got, SIZE);
		assert_memory_equal(got, all, SIZE);
	}
	assert_ok(fth_dev_zero(dev, 4096, 8192, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_discard(dev, 4096, 8192, FTH_DEV_TIMEOUT));
	assert_int_equal(file_size(0), SIZE);
	read_plain(0, got, SIZE);
	assert_memory_equal(got, all, 8192);
	assert_true(all_are(got + 8192, SIZE - 8192, 0));
	fth_dev_close(dev);
	assert_int_equal(file_size(0), SIZE);
}

static void whole_files_and_other_options_are_unchanged(void **state)
{
	struct fth_dev *dev;

	(void)state;
	make_file(0, 8192);
	assert_ok(open_a(0, "?tail=on", &dev));
	assert_int_equal(fth_dev_info(dev)->size, 8192);
	fth_dev_close(dev);
	make_file(0, SIZE);
	assert_ok(open_a(0, "?tail=on&direct=off", &dev));
	assert_int_equal(fth_dev_info(dev)->size, SIZE);
	fth_dev_close(dev);
	assert_ok(open_a(0, "", &dev));
	assert_int_equal(fth_dev_info(dev)->size, SIZE);
	fth_dev_close(dev);
}

/* As an unprivileged reader: no way to the file but a path that may be read. */
static void readonly_is_enough_to_read(void **state)
{
	static unsigned char block[4096];
	struct fth_dev *dev;

	(void)state;
	make_file(0, 100);
	assert_int_equal(chmod(path_in(0, "a"), 0400), 0);
	assert_ok(open_a(0, "?tail=on&readonly=on", &dev));
	if (fth_dev_info(dev)->size == 4096) {
		assert_ok(fth_dev_read(dev, block, 4096, 0, FTH_DEV_TIMEOUT));
		assert_true(all_are(block, 100, 0xee));
		assert_int_equal(fth_dev_write(dev, block, 4096, 0, FTH_DEV_TIMEOUT), -EROFS);
	}
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_rounded_up_and_reads_as_zeroes),
		cmocka_unit_test(writes_never_make_the_file_longer),
		cmocka_unit_test(whole_files_and_other_options_are_unchanged),
		cmocka_unit_test(readonly_is_enough_to_read),
	};
	return run_with_each_engine(tests);
}
