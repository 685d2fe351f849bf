/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data through PRPs: PRP1 alone, PRP2, lists, lists of lists, at all offsets where something
 * changes, over devices that ask for alignment or take little at a time. Every byte is checked:
 * those that should move, and those that should not.
 */
#include "fth_test.h"

#include "nvme/ctrl/test/held_fixture.h"
#include "nvme/ctrl/test/ctrl_fixture.h"

#include "fathom/base/rng.h"

#include <stdlib.h>
#include <string.h>

#define DEVICE_BYTES (2u << 20)
#define PAGES	     300u /* for data, scattered */
#define PATTERN(i)   ((uint8_t)((i)*167 + ((i) >> 9) * 13 + 1))
#define POISON	     0xa5

static struct host host;
static char *data, *lists; /* PAGES pages, and pages for lists */
static uint32_t order[PAGES];
static uint8_t *expected, *found;

static void shuffle(struct fth_rng *rng)
{
	for (uint32_t i = 0; i < PAGES; i++)
		order[i] = i;
	for (uint32_t i = PAGES - 1; i > 0; i--) {
		uint32_t other = (uint32_t)fth_rng_below(rng, i + 1), was = order[i];

		order[i] = order[other];
		order[other] = was;
	}
}

static void open_host(const char *uri, bool scattered)
{
	struct fth_rng rng = {.state = 7};

	held_setup();
	host_up(&host, uri, 16);
	data = host_pages(&host, PAGES);
	lists = host_pages(&host, 8);
	shuffle(&rng);
	for (uint32_t i = 0; i < PAGES && !scattered; i++)
		order[i] = i;
	expected = malloc(DEVICE_BYTES);
	found = malloc(DEVICE_BYTES);
	assert_non_null(expected);
	assert_non_null(found);
}

static void close_host(void)
{
	free(expected);
	free(found);
	host_down(&host);
}

/* The byte of host memory that is number i of a transfer whose PRP1 has this offset. */
static char *host_byte(uint32_t offset, uint64_t i)
{
	uint64_t at = offset + i;

	return data + (size_t)order[at / HOST_PAGE] * HOST_PAGE + at % HOST_PAGE;
}

static uint64_t page_iova(uint32_t i)
{
	return host_iova(&host, data + (size_t)order[i] * HOST_PAGE);
}

/* PRP entries for `pages` pages, the list beginning at list_offset in its first page. */
static void set_prps(struct fth_nvme_sqe *sqe, uint32_t offset, uint32_t pages,
		     uint32_t list_offset)
{
	uint64_t *entry = (uint64_t *)(lists + list_offset);
	char *next_list = lists + HOST_PAGE;

	sqe->prp1 = page_iova(0) + offset;
	sqe->prp2 = pages == 2 ? page_iova(1) : 0;
	if (pages <= 2)
		return;
	sqe->prp2 = host_iova(&host, entry);
	for (uint32_t i = 1; i < pages; i++) {
		bool last = ((uintptr_t)entry + 8) % HOST_PAGE == 0;

		if (last && i + 1 < pages) {
			*entry = host_iova(&host, next_list);
			entry = (uint64_t *)next_list;
			next_list += HOST_PAGE;
		}
		*entry++ = page_iova(i);
	}
}

static struct fth_nvme_sqe command(uint8_t opcode, uint64_t first, uint32_t bytes, uint32_t block,
				   uint32_t offset, uint32_t list_offset)
{
	struct fth_nvme_sqe sqe = host_rw(opcode, first, bytes / block, 0, 0);

	set_prps(&sqe, offset, (offset + bytes + HOST_PAGE - 1) / HOST_PAGE, list_offset);
	return sqe;
}

static void check_write(uint64_t first, uint32_t bytes, uint32_t block, uint32_t offset,
			uint32_t list_offset)
{
	struct fth_nvme_sqe sqe = command(FTH_NVME_WRITE, first, bytes, block, offset, list_offset);

	assert_ok(fth_dev_read(host.dev, expected, DEVICE_BYTES, 0, FTH_DEV_TIMEOUT));
	for (uint32_t i = 0; i < bytes; i++) {
		*host_byte(offset, i) = (char)PATTERN(i + offset + bytes);
		expected[first * block + i] = PATTERN(i + offset + bytes);
	}
	assert_int_equal(host_run(&host, 1, &sqe, NULL), FTH_NVME_SUCCESS);
	assert_ok(fth_dev_read(host.dev, found, DEVICE_BYTES, 0, FTH_DEV_TIMEOUT));
	if (memcmp(expected, found, DEVICE_BYTES) != 0)
		fail_msg("write of %u bytes, offset %u, list at %u", bytes, offset, list_offset);
}

static void check_read(uint64_t first, uint32_t bytes, uint32_t block, uint32_t offset,
		       uint32_t list_offset)
{
	struct fth_nvme_sqe sqe = command(FTH_NVME_READ, first, bytes, block, offset, list_offset);
	char untouched[HOST_PAGE];

	memset(untouched, POISON, HOST_PAGE);
	memset(data, POISON, (size_t)PAGES * HOST_PAGE);
	assert_ok(fth_dev_read(host.dev, expected, bytes, first * block, FTH_DEV_TIMEOUT));
	assert_int_equal(host_run(&host, 1, &sqe, NULL), FTH_NVME_SUCCESS);
	for (uint32_t i = 0; i < bytes; i++) {
		if ((uint8_t)*host_byte(offset, i) != expected[i])
			fail_msg("read of %u bytes, offset %u, list at %u: byte %u", bytes, offset,
				 list_offset, i);
		*host_byte(offset, i) = (char)POISON;
	}
	for (uint32_t i = 0; i < PAGES; i++)
		if (memcmp(data + (size_t)i * HOST_PAGE, untouched, HOST_PAGE) != 0)
			fail_msg("read of %u bytes, offset %u, list at %u: page %u was touched",
				 bytes, offset, list_offset, i);
}

static void check_compare(uint64_t first, uint32_t bytes, uint32_t block, uint32_t offset,
			  uint32_t list_offset)
{
	struct fth_nvme_sqe sqe =
		command(FTH_NVME_COMPARE, first, bytes, block, offset, list_offset);

	assert_ok(fth_dev_read(host.dev, expected, bytes, first * block, FTH_DEV_TIMEOUT));
	for (uint32_t i = 0; i < bytes; i++)
		*host_byte(offset, i) = (char)expected[i];
	assert_int_equal(host_run(&host, 1, &sqe, NULL), FTH_NVME_SUCCESS);
	*host_byte(offset, bytes - 1) ^= 0x10;
	assert_int_equal(host_run(&host, 1, &sqe, NULL), FTH_NVME_COMPARE_FAILURE);
}

static const uint32_t list_offsets[] = {0, 8, HOST_PAGE - 24, HOST_PAGE - 16, HOST_PAGE - 8};

/* Everything at one length: every offset, and every place of the list where there is one. */
static void check_length(uint32_t bytes, uint32_t block)
{
	static const uint32_t offsets[] = {0, 4, 508, 512, 516, 1024, 2048, 3584, 3588, 4088, 4092};
	uint64_t first = bytes / block % 7;

	for (unsigned o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
		uint32_t offset = offsets[o];
		bool list = offset + bytes > 2 * HOST_PAGE;

		for (unsigned l = 0; l < (list ? 5 : 1); l++) {
			check_write(first, bytes, block, offset, list_offsets[l]);
			check_read(first, bytes, block, offset, list_offsets[l]);
		}
		check_compare(first, bytes, block, offset, list_offsets[o % 5]);
	}
}

static void check_device(const char *uri, uint32_t block, bool scattered)
{
	static const uint32_t lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 24, 65};

	open_host(uri, scattered);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_length(lengths[i] * block, block);
	close_host();
}

static void scattered_pages(void **state)
{
	(void)state;
	check_device("held:2M", 512, true);
}

static void contiguous_pages(void **state)
{
	(void)state;
	check_device("held:2M", 512, false);
}

static void a_device_that_wants_alignment(void **state)
{
	(void)state;
	check_device("held:2M?align=512", 512, true);
}

static void a_device_with_large_blocks(void **state)
{
	static const uint32_t lengths[] = {1, 2, 3, 5};

	(void)state;
	open_host("held:2M?block=4096&align=4096", true);
	for (unsigned i = 0; i < 4; i++)
		check_length(lengths[i] * 4096, 4096);
	close_host();
}

static void a_device_that_takes_little_at_a_time(void **state)
{
	(void)state;
	check_device("held:2M?iov=2&max=4096", 512, true);
}

static void a_device_that_takes_one_piece_and_wants_alignment(void **state)
{
	(void)state;
	check_device("held:2M?iov=1&max=1024&align=512", 512, true);
}

static void the_longest_transfer(void **state)
{
	(void)state;
	open_host("held:2M", true);
	for (unsigned l = 0; l < 5; l++) {
		check_write(1, 1 << 20, 512, 0, list_offsets[l]);
		check_read(1, 1 << 20, 512, 512, list_offsets[l]);
	}
	check_write(0, 1 << 20, 512, 4, 0);
	check_compare(0, 1 << 20, 512, 4, 8);
	close_host();
}

/* 2 MiB from one page used 512 times: a list page that is full, and one after it. */
static void no_limit_means_none(void **state)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_sqe sqe;
	struct fth_dev *dev;

	(void)state;
	opts.threads = 0;
	opts.mdts = 0;
	assert_ok(fth_dev_open("mem:2M", &dev));
	host_open(&host, dev, &opts);
	host_enable(&host, 8);
	assert_int_equal(host_create_cq(&host, 1, 4), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 4), FTH_NVME_SUCCESS);
	data = host_pages(&host, 1);
	lists = host_pages(&host, 3);
	for (uint32_t i = 0; i < HOST_PAGE; i++)
		data[i] = (char)PATTERN(i);
	for (uint32_t i = 0; i < 3 * 512; i++)
		((uint64_t *)lists)[i] = host_iova(&host, data);
	((uint64_t *)lists)[511] = host_iova(&host, lists + HOST_PAGE);
	sqe = host_rw(FTH_NVME_WRITE, 0, 4096, host_iova(&host, data),
		      host_iova(&host, lists) + 16);
	assert_int_equal(host_run(&host, 1, &sqe, NULL), FTH_NVME_SUCCESS);
	found = malloc(DEVICE_BYTES);
	assert_non_null(found);
	assert_ok(fth_dev_read(dev, found, DEVICE_BYTES, 0, FTH_DEV_TIMEOUT));
	for (uint32_t i = 0; i < DEVICE_BYTES; i++)
		assert_int_equal(found[i], PATTERN(i % HOST_PAGE));
	free(found);
	host_down(&host);
}

/* Pages that follow each other are one piece, so that even an odd offset needs no copy. */
static void neighbours_are_merged(void **state)
{
	(void)state;
	open_host("held:2M?iov=1", false);
	check_write(0, 64 * HOST_PAGE, 512, 4, 0);
	check_read(0, 64 * HOST_PAGE, 512, 4, HOST_PAGE - 8);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_BOUNCED), 0);
	close_host();
	open_host("held:2M?align=512", false);
	check_write(0, 64 * HOST_PAGE, 512, 4, 0);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_BOUNCED), 4);
	close_host();
}

static uint16_t try(struct fth_nvme_sqe sqe)
{
	return host_run(&host, 1, &sqe, NULL);
}

static void offsets_are_checked(void **state)
{
	const uint32_t bytes = 4 * HOST_PAGE;
	struct fth_nvme_sqe sqe;

	(void)state;
	open_host("held:2M", true);
	held.seen = 0;
	for (uint32_t low = 1; low < 4; low++)
		assert_int_equal(try(host_rw(FTH_NVME_READ, 0, 1, page_iova(0) + low, 0)),
				 FTH_NVME_PRP_OFFSET_INVALID);
	assert_int_equal(try(host_rw(FTH_NVME_READ, 0, 16, page_iova(0), page_iova(1) + 512)),
			 FTH_NVME_PRP_OFFSET_INVALID);
	sqe = command(FTH_NVME_READ, 0, bytes, 512, 0, 0);
	sqe.prp2 += 4; /* a list is of qwords */
	assert_int_equal(try(sqe), FTH_NVME_PRP_OFFSET_INVALID);
	sqe = command(FTH_NVME_READ, 0, bytes, 512, 0, 0);
	((uint64_t *)lists)[1] += 4;
	assert_int_equal(try(sqe), FTH_NVME_PRP_OFFSET_INVALID);
	sqe = command(FTH_NVME_READ, 0, bytes, 512, 0, HOST_PAGE - 8);
	((uint64_t *)lists)[511] += 8; /* a further list begins with its page */
	assert_int_equal(try(sqe), FTH_NVME_PRP_OFFSET_INVALID);
	sqe = command(FTH_NVME_READ, 0, bytes, 512, 0, HOST_PAGE - 8);
	((uint64_t *)lists)[511] = 0x7000;
	assert_int_equal(try(sqe), FTH_NVME_DATA_TRANSFER_ERROR);
	sqe = command(FTH_NVME_READ, 0, bytes, 512, 0, 0);
	((uint64_t *)lists)[2] = 0x7000;
	assert_int_equal(try(sqe), FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(held.seen, 0);
	close_host();
}

/* A list that points at itself is just a list: the transfer's length ends it. */
static void a_list_that_loops_ends(void **state)
{
	struct fth_nvme_sqe sqe;

	(void)state;
	open_host("held:2M", true);
	for (uint32_t i = 0; i < 511; i++)
		((uint64_t *)lists)[i] = host_iova(&host, lists);
	((uint64_t *)lists)[511] = host_iova(&host, lists);
	sqe = host_rw(FTH_NVME_WRITE, 0, 2048, host_iova(&host, lists),
		      host_iova(&host, lists) + HOST_PAGE - 8);
	assert_int_equal(try(sqe), FTH_NVME_SUCCESS);
	close_host();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scattered_pages),
		cmocka_unit_test(contiguous_pages),
		cmocka_unit_test(a_device_that_wants_alignment),
		cmocka_unit_test(a_device_with_large_blocks),
		cmocka_unit_test(a_device_that_takes_little_at_a_time),
		cmocka_unit_test(a_device_that_takes_one_piece_and_wants_alignment),
		cmocka_unit_test(the_longest_transfer),
		cmocka_unit_test(neighbours_are_merged),
		cmocka_unit_test(no_limit_means_none),
		cmocka_unit_test(offsets_are_checked),
		cmocka_unit_test(a_list_that_loops_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
