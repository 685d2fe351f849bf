/* SPDX-License-Identifier: BSD-2-Clause */
/* I/O commands: what they do to the medium, and what is refused. ctrl/prp_test.c moves the data. */
#include "fth_test.h"

#include "nvme/ctrl/test/held_fixture.h"
#include "nvme/ctrl/test/ctrl_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK	512u
#define BLOCKS	2048u
#define UNOWNED 0x5000ull /* a bus address nobody granted */

static struct host host;
static char *page; /* of host memory */
static uint64_t iova;

static int setup(void **state)
{
	(void)state;
	held_setup();
	host_up(&host, "held:1M", 16);
	page = host_pages(&host, 1);
	iova = host_iova(&host, page);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_down(&host);
	return 0;
}

static uint16_t run(struct fth_nvme_sqe sqe)
{
	return host_run(&host, 1, &sqe, NULL);
}

static uint16_t rw(uint8_t opcode, uint64_t first, uint32_t blocks)
{
	return run(host_rw(opcode, first, blocks, iova, 0));
}

static void fill_device(int byte)
{
	memset(page, byte, HOST_PAGE);
	for (uint64_t at = 0; at < BLOCKS; at += 8)
		assert_int_equal(rw(FTH_NVME_WRITE, at, 8), FTH_NVME_SUCCESS);
}

static int device_byte(uint64_t block)
{
	char bytes[BLOCK];

	assert_ok(fth_dev_read(host.dev, bytes, BLOCK, block * BLOCK, FTH_DEV_TIMEOUT));
	for (unsigned i = 1; i < BLOCK; i++)
		assert_int_equal(bytes[i], bytes[0]);
	return (uint8_t)bytes[0];
}

/* ---- refused ---- */

static void unknown_opcodes_are_refused(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < 256; opcode++) {
		if (opcode <= 2 || opcode == 5 || opcode == 8 || opcode == 9)
			continue;
		assert_int_equal(rw((uint8_t)opcode, 0, 1), FTH_NVME_INVALID_OPCODE);
	}
	assert_int_equal(held.seen, 0);
}

static void only_namespace_1_is_there(void **state)
{
	static const uint8_t opcodes[] = {FTH_NVME_READ, FTH_NVME_WRITE, FTH_NVME_COMPARE,
					  FTH_NVME_WRITE_ZEROES, FTH_NVME_DSM};
	static const uint32_t bad[] = {0, 2, 0x80000001, FTH_NVME_NSID_ALL};
	struct fth_nvme_sqe flush = {.opcode = FTH_NVME_FLUSH};

	(void)state;
	for (unsigned o = 0; o < sizeof(opcodes); o++) {
		for (unsigned n = 0; n < 4; n++) {
			struct fth_nvme_sqe sqe = host_rw(opcodes[o], 0, 1, iova, 0);

			sqe.nsid = bad[n];
			assert_int_equal(run(sqe), FTH_NVME_INVALID_NAMESPACE);
		}
	}
	assert_int_equal(run(flush), FTH_NVME_INVALID_NAMESPACE);
	flush.nsid = 2;
	assert_int_equal(run(flush), FTH_NVME_INVALID_NAMESPACE);
	assert_int_equal(held.seen, 0);
}

static void ranges_end_with_the_namespace(void **state)
{
	static const uint8_t opcodes[] = {FTH_NVME_READ, FTH_NVME_WRITE, FTH_NVME_COMPARE,
					  FTH_NVME_WRITE_ZEROES};

	(void)state;
	for (unsigned i = 0; i < sizeof(opcodes); i++) {
		assert_int_equal(rw(opcodes[i], BLOCKS - 8, 8), FTH_NVME_SUCCESS);
		assert_int_equal(rw(opcodes[i], BLOCKS - 7, 8), FTH_NVME_LBA_RANGE);
		assert_int_equal(rw(opcodes[i], BLOCKS, 1), FTH_NVME_LBA_RANGE);
		assert_int_equal(rw(opcodes[i], UINT64_MAX, 1), FTH_NVME_LBA_RANGE);
		assert_int_equal(rw(opcodes[i], UINT64_MAX, 2), FTH_NVME_LBA_RANGE);
		assert_int_equal(rw(opcodes[i], UINT64_MAX / BLOCK + 1, 1), FTH_NVME_LBA_RANGE);
		memset(page, 0, HOST_PAGE);
	}
	assert_int_equal(rw(FTH_NVME_WRITE_ZEROES, 0, 2049), FTH_NVME_LBA_RANGE);
}

static void sgls_fused_commands_and_directives_are_refused(void **state)
{
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_WRITE, 0, 1, iova, 0);

	(void)state;
	for (unsigned flags = 1; flags < 256; flags++) {
		sqe.flags = (uint8_t)flags;
		assert_int_equal(run(sqe),
				 flags & 0xc3 ? FTH_NVME_INVALID_FIELD : FTH_NVME_SUCCESS);
	}
	sqe.flags = 0;
	sqe.cdw12 = 1 << 20;
	assert_int_equal(run(sqe), FTH_NVME_INVALID_FIELD);
}

static void transfers_have_a_limit(void **state)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct host small;
	struct fth_nvme_sqe sqe;

	(void)state;
	opts.threads = 0;
	opts.mdts = 1; /* 8 KiB */
	host_open(&small, host.dev, &opts);
	host_enable(&small, 8);
	assert_int_equal(host_create_cq(&small, 1, 4), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&small, 1, 1, 4), FTH_NVME_SUCCESS);
	host_pages(&small, 2);
	sqe = host_rw(FTH_NVME_READ, 0, 16, HOST_IOVA, HOST_IOVA + HOST_PAGE);
	assert_int_equal(host_run(&small, 1, &sqe, NULL), FTH_NVME_SUCCESS);
	sqe.cdw12 = 16;
	assert_int_equal(host_run(&small, 1, &sqe, NULL), FTH_NVME_INVALID_FIELD);
	sqe.opcode = FTH_NVME_COMPARE;
	assert_int_equal(host_run(&small, 1, &sqe, NULL), FTH_NVME_INVALID_FIELD);
	sqe.opcode = FTH_NVME_WRITE_ZEROES; /* moves nothing */
	assert_int_equal(host_run(&small, 1, &sqe, NULL), FTH_NVME_SUCCESS);
	host_close(&small);
}

static void memory_that_was_not_granted_is_not_touched(void **state)
{
	const uint64_t end = HOST_IOVA + HOST_ARENA_PAGES * HOST_PAGE;

	(void)state;
	assert_int_equal(run(host_rw(FTH_NVME_READ, 0, 1, 0, 0)), FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(run(host_rw(FTH_NVME_READ, 0, 1, UNOWNED, 0)),
			 FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(run(host_rw(FTH_NVME_READ, 0, 1, end, 0)), FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(run(host_rw(FTH_NVME_READ, 0, 1, (uintptr_t)page, 0)),
			 FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(run(host_rw(FTH_NVME_READ, 0, 16, iova, UNOWNED)),
			 FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(run(host_rw(FTH_NVME_READ, 0, 24, iova, UNOWNED)), /* the list */
			 FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(run(host_rw(FTH_NVME_WRITE, 0, 1, UINT64_MAX & ~7ull, 0)),
			 FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(held.seen, 0);
}

/* ---- done ---- */

static void flush_takes_one_namespace_or_all(void **state)
{
	struct fth_nvme_sqe flush = {.opcode = FTH_NVME_FLUSH, .nsid = 1};

	(void)state;
	assert_int_equal(run(flush), FTH_NVME_SUCCESS);
	flush.nsid = FTH_NVME_NSID_ALL;
	assert_int_equal(run(flush), FTH_NVME_SUCCESS);
	assert_int_equal(held.seen, 2);
	assert_int_equal(held.last, FTH_DEV_FLUSH);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_FLUSHES), 2);
}

static void a_forced_write_is_flushed(void **state)
{
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_WRITE, 0, 1, iova, 0);

	(void)state;
	assert_int_equal(run(sqe), FTH_NVME_SUCCESS);
	assert_int_equal(held.seen, 1);
	sqe.cdw12 |= FTH_NVME_RW_FORCE_ACCESS;
	assert_int_equal(run(sqe), FTH_NVME_SUCCESS);
	assert_int_equal(held.seen, 3);
	assert_int_equal(held.last, FTH_DEV_FLUSH);
	sqe.opcode = FTH_NVME_WRITE_ZEROES;
	assert_int_equal(run(sqe), FTH_NVME_SUCCESS);
	assert_int_equal(held.seen, 5);
	assert_int_equal(held.last, FTH_DEV_FLUSH);
	sqe.opcode = FTH_NVME_READ;
	assert_int_equal(run(sqe), FTH_NVME_SUCCESS);
	assert_int_equal(held.seen, 6);
}

static void without_the_write_cache_every_write_is_flushed(void **state)
{
	struct fth_nvme_sqe off = {.opcode = FTH_NVME_SET_FEATURES,
				   .cdw10 = FTH_NVME_FEAT_WRITE_CACHE};

	(void)state;
	assert_int_equal(host_run(&host, 0, &off, NULL), FTH_NVME_SUCCESS);
	assert_int_equal(rw(FTH_NVME_WRITE, 0, 1), FTH_NVME_SUCCESS);
	assert_int_equal(held.seen, 2);
	assert_int_equal(held.last, FTH_DEV_FLUSH);
}

static void zeroes_are_written(void **state)
{
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_WRITE_ZEROES, 3, 2, 0, 0);

	(void)state;
	fill_device(0x11);
	assert_int_equal(run(sqe), FTH_NVME_SUCCESS);
	assert_int_equal(device_byte(2), 0x11);
	assert_int_equal(device_byte(3), 0);
	assert_int_equal(device_byte(4), 0);
	assert_int_equal(device_byte(5), 0x11);
	sqe = host_rw(FTH_NVME_WRITE_ZEROES, 0, BLOCKS, 0, 0);
	sqe.cdw12 |= FTH_NVME_RW_DEALLOCATE;
	assert_int_equal(run(sqe), FTH_NVME_SUCCESS);
	assert_int_equal(device_byte(0), 0);
	assert_int_equal(device_byte(BLOCKS - 1), 0);
}

static struct fth_nvme_sqe dsm(unsigned ranges, uint32_t attributes)
{
	return (struct fth_nvme_sqe){.opcode = FTH_NVME_DSM,
				     .nsid = 1,
				     .prp1 = iova,
				     .cdw10 = ranges - 1,
				     .cdw11 = attributes};
}

static void ranges_are_deallocated(void **state)
{
	struct fth_nvme_dsm_range *ranges = (void *)page;

	(void)state;
	fill_device(0x11);
	memset(page, 0, HOST_PAGE);
	for (unsigned i = 0; i < 256; i++) /* every other block, and nothing now and then */
		ranges[i] = (struct fth_nvme_dsm_range){.blocks = i % 8 != 7, .first = 2 * i};
	assert_int_equal(run(dsm(256, FTH_NVME_DSM_DEALLOCATE)), FTH_NVME_SUCCESS);
	for (unsigned i = 0; i < 256; i++) {
		assert_int_equal(device_byte(2 * i), i % 8 != 7 ? 0xdd : 0x11);
		assert_int_equal(device_byte(2 * i + 1), 0x11);
	}
	held.seen = 0;
	assert_int_equal(run(dsm(256, 3)), FTH_NVME_SUCCESS); /* hints only */
	assert_int_equal(held.seen, 0);
	memset(page, 0, HOST_PAGE);
	assert_int_equal(run(dsm(256, FTH_NVME_DSM_DEALLOCATE)), FTH_NVME_SUCCESS); /* empty */
	assert_int_equal(held.seen, 0);
}

static void one_bad_range_spares_them_all(void **state)
{
	struct fth_nvme_dsm_range *ranges = (void *)page;
	struct fth_nvme_sqe sqe = dsm(3, FTH_NVME_DSM_DEALLOCATE);

	(void)state;
	ranges[0] = (struct fth_nvme_dsm_range){.blocks = 1, .first = 0};
	ranges[1] = (struct fth_nvme_dsm_range){.blocks = 1, .first = 1};
	ranges[2] = (struct fth_nvme_dsm_range){.blocks = UINT32_MAX, .first = UINT64_MAX - 5};
	assert_int_equal(run(sqe), FTH_NVME_LBA_RANGE);
	ranges[2] = (struct fth_nvme_dsm_range){.blocks = 1, .first = BLOCKS};
	assert_int_equal(run(sqe), FTH_NVME_LBA_RANGE);
	sqe.prp1 = UNOWNED;
	assert_int_equal(run(sqe), FTH_NVME_DATA_TRANSFER_ERROR);
	sqe.prp1 = iova + HOST_PAGE - 16; /* the second page is not ours to read */
	sqe.prp2 = UNOWNED;
	assert_int_equal(run(sqe), FTH_NVME_DATA_TRANSFER_ERROR);
	assert_int_equal(held.seen, 0);
}

static void compare_sees_every_byte(void **state)
{
	(void)state;
	fill_device(0x11);
	memset(page, 0x11, HOST_PAGE);
	assert_int_equal(rw(FTH_NVME_COMPARE, 5, 8), FTH_NVME_SUCCESS);
	for (unsigned at = 0; at < HOST_PAGE; at += 509) {
		page[at] ^= 1;
		assert_int_equal(rw(FTH_NVME_COMPARE, 5, 8), FTH_NVME_COMPARE_FAILURE);
		page[at] ^= 1;
	}
	page[BLOCK] ^= 1;
	assert_int_equal(rw(FTH_NVME_COMPARE, 5, 1), FTH_NVME_SUCCESS); /* beyond it */
	assert_int_equal(device_byte(5), 0x11);
}

/* ---- errors of the device ---- */

static uint16_t failing(int error, struct fth_nvme_sqe sqe)
{
	held.fail = error;
	return run(sqe);
}

static void errors_of_the_device_become_a_status(void **state)
{
	struct fth_nvme_sqe read = host_rw(FTH_NVME_READ, 0, 1, iova, 0);
	struct fth_nvme_sqe write = host_rw(FTH_NVME_WRITE, 0, 1, iova, 0);
	struct fth_nvme_sqe flush = {.opcode = FTH_NVME_FLUSH, .nsid = 1};
	struct fth_nvme_dsm_range *range = (void *)page;

	(void)state;
	assert_int_equal(failing(EIO, read), FTH_NVME_READ_ERROR);
	assert_int_equal(failing(EIO, host_rw(FTH_NVME_COMPARE, 0, 1, iova, 0)),
			 FTH_NVME_READ_ERROR);
	assert_int_equal(failing(EIO, write), FTH_NVME_WRITE_FAULT);
	assert_int_equal(failing(EIO, flush), FTH_NVME_WRITE_FAULT);
	assert_int_equal(failing(ENOSPC, write), FTH_NVME_CAPACITY_EXCEEDED);
	assert_int_equal(failing(ENODEV, read), FTH_NVME_INTERNAL_ERROR);
	assert_int_equal(failing(EPERM, host_rw(FTH_NVME_WRITE_ZEROES, 0, 1, 0, 0)),
			 FTH_NVME_INTERNAL_ERROR);
	range[0].blocks = 1;
	assert_int_equal(failing(EIO, dsm(1, FTH_NVME_DSM_DEALLOCATE)), FTH_NVME_WRITE_FAULT);
	assert_int_equal(run(read), FTH_NVME_SUCCESS);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_MEDIA_ERRORS), 8);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_ERRORS), 8);
}

/* Only where trying again is no use is "do not retry" set. */
static void do_not_retry_is_told(void **state)
{
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_READ, BLOCKS, 1, iova, 0);

	(void)state;
	host_push(&host, 1, &sqe);
	host_ring(&host, 1);
	assert_true(fth_nvme_cqe_status(host_wait(&host, 1).info) & FTH_NVME_STATUS_DO_NOT_RETRY);
	sqe.cdw10 = 0;
	host_push(&host, 1, &sqe);
	host_ring(&host, 1);
	held.fail = EIO;
	assert_int_equal(fth_nvme_cqe_status(host_wait(&host, 1).info), FTH_NVME_READ_ERROR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unknown_opcodes_are_refused),
		TEST(only_namespace_1_is_there),
		TEST(ranges_end_with_the_namespace),
		TEST(sgls_fused_commands_and_directives_are_refused),
		TEST(transfers_have_a_limit),
		TEST(memory_that_was_not_granted_is_not_touched),
		TEST(flush_takes_one_namespace_or_all),
		TEST(a_forced_write_is_flushed),
		TEST(without_the_write_cache_every_write_is_flushed),
		TEST(zeroes_are_written),
		TEST(ranges_are_deallocated),
		TEST(one_bad_range_spares_them_all),
		TEST(compare_sees_every_byte),
		TEST(errors_of_the_device_become_a_status),
		TEST(do_not_retry_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
