/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller's life: options, grants, registers, enable, reset and shutdown. */
#include "fth_test.h"

#include "nvme/ctrl/test/held_fixture.h"
#include "nvme/ctrl/ctrl_internal.h"
#include "nvme/ctrl/test/ctrl_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CC_GOOD (FTH_NVME_CC_ENABLE | 6u << FTH_NVME_CC_SQES_SHIFT | 4u << FTH_NVME_CC_CQES_SHIFT)
#define SHST	(FTH_NVME_CSTS_SHUTDOWN_MASK)
#define SHUT	(2u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)

static uint32_t csts(struct host *host)
{
	return fth_nvme_ctrl_read32(host->ctrl, FTH_NVME_REG_CSTS);
}

static void write_cc(struct host *host, uint32_t value)
{
	fth_nvme_ctrl_write32(host->ctrl, FTH_NVME_REG_CC, value);
}

static void open_off(struct host *host, const char *uri)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_dev *dev;

	opts.threads = 0;
	assert_ok(fth_dev_open(uri, &dev));
	host_open(host, dev, &opts);
}

static void options_out_of_range_are_refused(void **state)
{
	static const struct fth_nvme_ctrl_options good = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_ctrl_options bad[8];
	struct fth_nvme_ctrl *ctrl;
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].queue_entries = 1;
	bad[1].queue_entries = 65537;
	bad[2].io_queues = 1025;
	bad[3].mdts = 17;
	bad[4].threads = 65;
	bad[5].lba_shift = 8;
	bad[6].serial = "a serial number of more than twenty";
	bad[7].size = 4;
	assert_ok(fth_dev_open("mem:64K", &dev));
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(fth_nvme_ctrl_new(dev, &bad[i], &ctrl), -EINVAL);
		assert_null(ctrl);
	}
	fth_dev_close(dev);
}

static void zero_is_the_default_where_it_makes_no_sense(void **state)
{
	struct fth_nvme_ctrl_options opts = {.size = sizeof(opts)};
	struct fth_nvme_ctrl *ctrl;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:64K", &dev));
	assert_ok(fth_nvme_ctrl_new(dev, &opts, &ctrl));
	assert_int_equal(fth_nvme_cap_mqes(fth_nvme_ctrl_read64(ctrl, FTH_NVME_REG_CAP)), 4095);
	assert_int_equal(ctrl->doorbells_size, HOST_PAGE);
	assert_int_equal((uintptr_t)fth_nvme_ctrl_doorbells(ctrl) % HOST_PAGE, 0);
	fth_nvme_ctrl_free(ctrl);
	opts.io_queues = 1024;
	opts.depth = 65535;
	assert_ok(fth_nvme_ctrl_new(dev, &opts, &ctrl));
	assert_int_equal(ctrl->doorbells_size, 3 * HOST_PAGE);
	fth_nvme_ctrl_free(ctrl);
	opts.depth = 65536;
	assert_int_equal(fth_nvme_ctrl_new(dev, &opts, &ctrl), -EINVAL);
	fth_dev_close(dev);
	fth_nvme_ctrl_free(NULL);
}

static void blocks_are_never_smaller_than_the_devices(void **state)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_ctrl *ctrl;
	struct fth_dev *dev;

	(void)state;
	opts.threads = 0;
	assert_ok(fth_dev_open("mem:64K?block=4096", &dev));
	opts.lba_shift = 9;
	assert_int_equal(fth_nvme_ctrl_new(dev, &opts, &ctrl), -EINVAL);
	opts.lba_shift = 12;
	assert_ok(fth_nvme_ctrl_new(dev, &opts, &ctrl));
	fth_nvme_ctrl_free(ctrl);
	opts.lba_shift = 0;
	assert_ok(fth_nvme_ctrl_new(dev, &opts, &ctrl));
	fth_nvme_ctrl_free(ctrl);
	fth_dev_close(dev);

	assert_ok(fth_dev_open("mem:1K?block=1", &dev));
	opts.lba_shift = 12; /* not even one */
	assert_int_equal(fth_nvme_ctrl_new(dev, &opts, &ctrl), -EINVAL);
	fth_dev_close(dev);
}

static void grants_do_not_overlap(void **state)
{
	const uint64_t top = UINT64_MAX - HOST_PAGE + 1;
	struct host host;
	char *memory = NULL;

	(void)state;
	open_off(&host, "mem:64K");
	assert_int_equal(posix_memalign((void **)&memory, HOST_PAGE, 8 * HOST_PAGE), 0);
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, memory, 2 * HOST_PAGE, 0x10000));
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, memory, 2 * HOST_PAGE, 0x14000));
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, memory, 2 * HOST_PAGE, 0x12000));
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, memory, HOST_PAGE, top));
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, HOST_PAGE, 0x10000), -EEXIST);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, HOST_PAGE, 0x15000), -EEXIST);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, 2 * HOST_PAGE, 0xf000), -EEXIST);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, HOST_PAGE, top), -EEXIST);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, 2 * HOST_PAGE, top), -EINVAL);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory + 8, HOST_PAGE, 0), -EINVAL);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, 100, 0), -EINVAL);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, memory, HOST_PAGE, 100), -EINVAL);
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, NULL, HOST_PAGE, 0), -EINVAL);

	assert_int_equal(fth_nvme_ctrl_revoke(host.ctrl, 0x12000, HOST_PAGE), -ENOENT);
	assert_int_equal(fth_nvme_ctrl_revoke(host.ctrl, 0x13000, HOST_PAGE), -ENOENT);
	assert_int_equal(fth_nvme_ctrl_revoke(host.ctrl, 0x99000, HOST_PAGE), -ENOENT);
	assert_ok(fth_nvme_ctrl_revoke(host.ctrl, 0x12000, 2 * HOST_PAGE));
	assert_int_equal(fth_nvme_ctrl_revoke(host.ctrl, 0x12000, 2 * HOST_PAGE), -ENOENT);
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, memory, 2 * HOST_PAGE, 0x12000));
	host_down(&host);
	free(memory);
}

static void capabilities_are_as_documented(void **state)
{
	struct host host;
	uint64_t cap;

	(void)state;
	open_off(&host, "mem:64K");
	cap = fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_CAP);
	assert_int_equal(fth_nvme_cap_mqes(cap), 4095);
	assert_int_equal(fth_nvme_cap_stride(cap), 4);
	assert_int_equal(fth_nvme_cap_page_min(cap), 0);
	assert_true(fth_nvme_cap_timeout(cap) > 0);
	assert_true(cap & FTH_NVME_CAP_CQR);
	assert_true(cap & FTH_NVME_CAP_CSS_NVM);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_VS), 0x00010400);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_CMBSZ), 0);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_PMRCAP), 0);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, 0xfffffffc), 0);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, 1), 0);
	assert_int_equal(fth_nvme_ctrl_read64(host.ctrl, 4), 0);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CAP, 0); /* read only */
	fth_nvme_ctrl_write32(host.ctrl, 0xfffffffc, 1);
	fth_nvme_ctrl_write32(host.ctrl, 0x2000, 1);
	fth_nvme_ctrl_write64(host.ctrl, 4, 1);
	assert_true(fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_CAP) == cap);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_INTMS, 5);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_INTMC, 4);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_INTMS), 1);
	host_down(&host);
}

/* Try to enable with one thing wrong; it must fail, and a reset must clear that. */
static void expect_fatal(struct host *host, uint32_t cc, uint32_t aqa, uint64_t asq, uint64_t acq)
{
	fth_nvme_ctrl_write32(host->ctrl, FTH_NVME_REG_AQA, aqa);
	fth_nvme_ctrl_write64(host->ctrl, FTH_NVME_REG_ASQ, asq);
	fth_nvme_ctrl_write64(host->ctrl, FTH_NVME_REG_ACQ, acq);
	write_cc(host, cc);
	assert_int_equal(csts(host), FTH_NVME_CSTS_FATAL);
	host_settle(host);
	write_cc(host, 0);
	assert_int_equal(csts(host), 0);
}

static void a_bad_configuration_is_fatal(void **state)
{
	const uint32_t aqa = 15 | 15 << 16;
	const uint64_t end = HOST_IOVA + HOST_ARENA_PAGES * HOST_PAGE;
	struct host host;

	(void)state;
	open_off(&host, "mem:64K");
	expect_fatal(&host, FTH_NVME_CC_ENABLE, aqa, HOST_IOVA, HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD | 1u << FTH_NVME_CC_PAGE_SHIFT, aqa, HOST_IOVA,
		     HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD | 1u << FTH_NVME_CC_CSS_SHIFT, aqa, HOST_IOVA,
		     HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD | 1u << FTH_NVME_CC_AMS_SHIFT, aqa, HOST_IOVA,
		     HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD ^ 1u << FTH_NVME_CC_SQES_SHIFT, aqa, HOST_IOVA,
		     HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD, 15, HOST_IOVA, HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD, 15 << 16, HOST_IOVA, HOST_IOVA + HOST_PAGE);
	expect_fatal(&host, CC_GOOD, aqa, 0, HOST_IOVA);
	expect_fatal(&host, CC_GOOD, aqa, HOST_IOVA, end);
	expect_fatal(&host, CC_GOOD, 255 | 15 << 16, end - HOST_PAGE, HOST_IOVA); /* too long */
	host_enable(&host, 16);
	host_down(&host);
}

static void registers_keep_still_while_enabled(void **state)
{
	struct host host;
	uint64_t asq;

	(void)state;
	open_off(&host, "mem:64K");
	host_enable(&host, 16);
	asq = fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_ASQ);
	fth_nvme_ctrl_write64(host.ctrl, FTH_NVME_REG_ASQ, asq + HOST_PAGE);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_AQA, 0);
	assert_true(fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_ASQ) == asq);
	assert_int_equal(fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_AQA), 15 | 15 << 16);
	host_down(&host);
}

static void a_reset_forgets_queues_and_doorbells(void **state)
{
	struct fth_nvme_sqe queues = {.opcode = FTH_NVME_SET_FEATURES,
				      .cdw10 = FTH_NVME_FEAT_QUEUES};
	struct fth_nvme_sqe cache = {.opcode = FTH_NVME_SET_FEATURES,
				     .cdw10 = FTH_NVME_FEAT_WRITE_CACHE};
	struct host host;
	uint32_t result;

	(void)state;
	for (unsigned turn = 0; turn < 3; turn++) {
		if (turn == 0)
			host_up(&host, "mem:64K", 16);
		else
			host_enable(&host, 16);
		if (turn > 0) { /* nothing is left of the time before */
			assert_int_equal(host_run(&host, 0, &queues, NULL), FTH_NVME_SUCCESS);
			assert_int_equal(host_create_cq(&host, 1, 16), FTH_NVME_SUCCESS);
			assert_int_equal(host_create_sq(&host, 1, 1, 16), FTH_NVME_SUCCESS);
		}
		cache.opcode = FTH_NVME_GET_FEATURES;
		assert_int_equal(host_run(&host, 0, &cache, &result), FTH_NVME_SUCCESS);
		assert_int_equal(result, 1);
		cache.opcode = FTH_NVME_SET_FEATURES;
		assert_int_equal(host_run(&host, 0, &cache, NULL), FTH_NVME_SUCCESS);
		write_cc(&host, 0);
		assert_int_equal(csts(&host), 0);
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(host.doorbells[i], 0);
		host_settle(&host);
	}
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_RESETS), 3);
	host_down(&host);
}

static void a_shutdown_flushes_the_device(void **state)
{
	struct host host;

	(void)state;
	held_setup();
	host_up(&host, "held:64K", 16);
	held.hold = true;
	write_cc(&host, CC_GOOD | 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(&host);
	assert_int_equal(csts(&host) & SHST, 1u << FTH_NVME_CSTS_SHUTDOWN_SHIFT);
	assert_int_equal(held.last, FTH_DEV_FLUSH);
	held.hold = false;
	host_settle(&host);
	assert_int_equal(csts(&host), SHUT | FTH_NVME_CSTS_READY);
	host_ring(&host, 1); /* nothing is fetched any more */
	write_cc(&host, 0);
	assert_int_equal(csts(&host), 0);
	host_enable(&host, 16);
	host_down(&host);
}

static void a_shutdown_that_can_not_flush_is_fatal(void **state)
{
	struct host host;

	(void)state;
	held_setup();
	host_up(&host, "held:64K", 16);
	held.fail = EIO;
	write_cc(&host, CC_GOOD | 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(&host);
	assert_int_equal(csts(&host), SHUT | FTH_NVME_CSTS_READY | FTH_NVME_CSTS_FATAL);
	host_down(&host);
}

static void a_reset_during_the_flush_waits_for_it(void **state)
{
	struct host host;

	(void)state;
	held_setup();
	host_up(&host, "held:64K", 16);
	held.hold = true;
	write_cc(&host, CC_GOOD | 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(&host);
	write_cc(&host, 0);
	host_settle(&host);
	assert_true(csts(&host) & FTH_NVME_CSTS_READY);
	held.hold = false;
	host_settle(&host);
	assert_int_equal(csts(&host), 0);
	host_enable(&host, 16);
	host_down(&host);
}

static void a_controller_that_is_off_shuts_down_too(void **state)
{
	struct host host;

	(void)state;
	held_setup();
	open_off(&host, "held:64K");
	write_cc(&host, 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(&host);
	assert_int_equal(csts(&host), SHUT);
	assert_int_equal(held.last, FTH_DEV_FLUSH);
	write_cc(&host, 0);
	assert_int_equal(csts(&host), 0);
	write_cc(&host, 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(&host);
	host_enable(&host, 16); /* straight out of it */
	host_down(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_out_of_range_are_refused),
		cmocka_unit_test(zero_is_the_default_where_it_makes_no_sense),
		cmocka_unit_test(blocks_are_never_smaller_than_the_devices),
		cmocka_unit_test(grants_do_not_overlap),
		cmocka_unit_test(capabilities_are_as_documented),
		cmocka_unit_test(a_bad_configuration_is_fatal),
		cmocka_unit_test(registers_keep_still_while_enabled),
		cmocka_unit_test(a_reset_forgets_queues_and_doorbells),
		cmocka_unit_test(a_shutdown_flushes_the_device),
		cmocka_unit_test(a_shutdown_that_can_not_flush_is_fatal),
		cmocka_unit_test(a_reset_during_the_flush_waits_for_it),
		cmocka_unit_test(a_controller_that_is_off_shuts_down_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
