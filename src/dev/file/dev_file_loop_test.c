/* SPDX-License-Identifier: BSD-2-Clause */
/* file: on a real block device, made of a file. Skipped where that is not allowed. */
#include "dev/file/dev_file_fixture.h"

#include <linux/loop.h>
#include <sys/ioctl.h>

#define FILE_BYTES (4u << 20)

static int loop_fd = -1;
static char loop_path[64];

/* Others may take the free device first, so try a few times. */
static bool attach(int backing)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	for (unsigned i = 0; control >= 0 && i < 8 && loop_fd < 0; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);

		snprintf(loop_path, sizeof(loop_path), "/dev/loop%d", number);
		loop_fd = number < 0 ? -1 : open(loop_path, O_RDWR | O_CLOEXEC);
		if (loop_fd >= 0 && ioctl(loop_fd, LOOP_SET_FD, backing) < 0) {
			close(loop_fd);
			loop_fd = -1;
		}
	}
	if (control >= 0)
		close(control);
	return loop_fd >= 0;
}

static int set_up(void **state)
{
	int backing;

	if (make_places(state) < 0)
		return -1;
	make_file(0, FILE_BYTES);
	backing = open(path_in(0, "a"), O_RDWR | O_CLOEXEC);
	if (!attach(backing)) {
		close(backing);
		remove_places(state);
		printf("no loop device can be had here\n");
		exit(77);
	}
	close(backing);
	return 0;
}

static int tear_down(void **state)
{
	ioctl(loop_fd, LOOP_CLR_FD);
	close(loop_fd);
	return remove_places(state);
}

static int open_loop(const char *options, struct fth_dev **dev)
{
	char uri[256];

	snprintf(uri, sizeof(uri), "file:%s%s", loop_path, options);
	return fth_dev_open(uri, dev);
}

static void blocks_on_a_block_device(void **state)
{
	static const char *const ways[] = {
		"", "?direct=off", "?block=4096", "?engine=threads", "?engine=threads&direct=off",
	};
	static char out[65536], in[65536];

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct fth_dev *dev;

		assert_ok(open_loop(ways[i], &dev));
		assert_int_equal(fth_dev_info(dev)->size, FILE_BYTES);
		assert_true(fth_dev_info(dev)->block >= 512);
		fill_random(out, sizeof(out), i);
		assert_ok(fth_dev_write(dev, out, sizeof(out), 65536, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_read(dev, in, sizeof(in), 65536, FTH_DEV_TIMEOUT));
		assert_memory_equal(in, out, sizeof(in));
		assert_ok(fth_dev_zero(dev, 8192, 65536 + 4096, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_read(dev, in, sizeof(in), 65536, FTH_DEV_TIMEOUT));
		assert_true(all_are(in + 4096, 8192, 0));
		assert_memory_equal(in + 12288, out + 12288, sizeof(in) - 12288);
		assert_ok(fth_dev_discard(dev, 1 << 20, 1 << 20, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_read(dev, in, sizeof(in), 1 << 20, FTH_DEV_TIMEOUT));
		fth_dev_close(dev);
	}
}

static void a_block_device_in_use_is_not_written_to(void **state)
{
	struct fth_dev *dev, *other;

	(void)state;
	assert_ok(open_loop("", &dev));
	assert_int_equal(open_loop("", &other), -EBUSY);
	assert_non_null(strstr(fth_error_text(-EBUSY), "in use"));
	assert_ok(open_loop("?readonly=on", &other));
	fth_dev_close(other);
	fth_dev_close(dev);
	assert_int_equal(open_loop("?block=256", &dev), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_on_a_block_device),
		cmocka_unit_test(a_block_device_in_use_is_not_written_to),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
