/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warps of CPU threads (service_warp_fixture.h) on devices whose blocks have other than 512 bytes:
 * they are the drive's, for commands, slots, ranges and a cache; and what is refused. Runs where
 * there is no GPU.
 */
#include "service_warp_fixture.h"

#include "fathom/vol.h"

#include <stdio.h>
#include <unistd.h>

/* Of a page, of half a page and less, of two; and smaller ones, which go by 512. */
static void test_blocks(void **state)
{
	static const struct {
		const char *uri;
		struct shape shape;
		uint32_t block;
	} cases[] = {
		/* entries slot blocks lanes rounds */
		{"mem:1M?block=4096", {64, 4096, 1, ~0u, 2}, 4096},
		{"mem:1M?block=4096", {16, 8192, 2, 0x80300f01u, 1}, 4096},
		{"mem:1M?block=2048", {64, 8192, 3, 0xaaaaaaaau, 1}, 2048},
		{"mem:1M?block=1024", {64, 4096, 4, 0x0000ffffu, 1}, 1024},
		{"mem:1M?block=8192", {64, 0, 1, 0x000000ffu, 1}, 8192},
		{"mem:1M?block=64", {64, 4096, 4, ~0u, 1}, 512},
	};

	(void)state;
	for (const auto &c : cases)
		try_shape(c.uri, &c.shape, c.block);
}

static const struct shape by_pages = {64, 4096, 1, ~0u, 2};

/* A file of so many bytes. False: this machine does not allow io_uring. */
static bool make_file(char *path, uint64_t bytes, char uri[96])
{
	int fd = mkstemp(path), rc;
	struct fth_dev *dev;

	assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	close(fd);
	snprintf(uri, 96, "file:%s?block=4096", path);
	rc = fth_dev_open(uri, &dev);
	if (rc == 0)
		fth_dev_close(dev);
	else
		unlink(path);
	return rc == 0;
}

/* As on a disk that has no smaller blocks; past the page cache where that is possible. */
static void test_file(void **state)
{
	char path[] = "/tmp/fathom_blocks_XXXXXX", uri[96];

	(void)state;
	if (!make_file(path, BYTES, uri))
		skip();
	try_shape(uri, &by_pages, 4096);
	unlink(path);
}

/* An object of a volume has the volume's blocks: by default those of its devices. */
static void test_volume(void **state)
{
	char path[] = "/tmp/fathom_blocks_XXXXXX", file[96], uri[128];
	const char *uris[] = {file};
	struct fth_vol *vol;

	(void)state;
	if (!make_file(path, 16 * BYTES, file))
		skip();
	assert_int_equal(fth_vol_format_uris(uris, 1, NULL), 0);
	assert_int_equal(fth_vol_open_uris(uris, 1, 0, &vol), 0);
	assert_int_equal(fth_vol_create(vol, "x", BYTES, NULL), 0);
	fth_vol_close(vol);
	snprintf(uri, sizeof(uri), "vol(%s)?object=x", file);
	try_shape(uri, &by_pages, 4096);
	try_cache(uri, 8192, 9, 0);
	unlink(path);
}

/* The namespace's blocks are the drive's. Its queues are given away: the device is not read. */
static void test_nvme(void **state)
{
	static const struct shape shape = {64, 8192, 2, ~0u, 1};
	struct bed *bed = open_bed("softnvme(mem:1M)?queues=1&depth=32&lba=4096", &shape);

	(void)state;
	assert_non_null(bed);
	assert_true(bed->service->of_dev);
	assert_int_equal(block_of(bed), 4096);
	assert_int_equal(bed->view.blocks, BYTES / 4096);
	run(bed, WARPS, write_and_read);
	check_end(bed);
	close_bed(bed);
}

static void test_cache(void **state)
{
	(void)state;
	try_cache("mem:1M?block=4096", 4096, 9, 0);
	try_cache("mem:1M?block=4096", 8192, 3, 4096 * 3);
	try_cache("mem:1M?block=2048", 4096, 5, 2048);
	try_cache("mem:1M?block=8192", 8192, 5, 8192);
	/* The device ends within a line of two blocks, of two pages. */
	try_cache("mem:1M?block=4096", 8192, 3, BYTES - 63 * 8192 - 4096);
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
	(void)state;
	try_refused("mem:1M?block=4096", 4096);
	try_refused("mem:1M?block=8192", 8192);
}

static void refuse(const char *uri, uint32_t slot, uint32_t block, int error, const char *text)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_service *service = NULL;

	opts.entries = 16;
	opts.slot = slot;
	opts.block = block;
	assert_int_equal(fth_gpu_service_open(uri, &opts, &service), error);
	assert_null(service);
	assert_non_null(strstr(fth_error_text(error), text));
}

static void test_options(void **state)
{
	(void)state;
	refuse("mem:1M?block=16384", 0, 0, -EOPNOTSUPP, "blocks of 16384 bytes, larger than 8192");
	refuse("softnvme(mem:1M)?lba=16384", 0, 0, -EOPNOTSUPP, "larger than 8192");
	refuse("mem:1M?block=4096", 2048, 0, -EINVAL, "slot 2048 is smaller than the device's blocks");
	refuse("softnvme(mem:1M)?lba=4096", 512, 0, -EINVAL, "smaller than the device's blocks of 4096");
	refuse("mem:1M?block=4096", 0, 4096, -EINVAL, "apply to gpu: drives only");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),	cmocka_unit_test(test_file),
		cmocka_unit_test(test_nvme),	cmocka_unit_test(test_cache),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_options),
		cmocka_unit_test(test_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
