/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller's windows at its registers: with no driver, and with ends that are not orderly. */
#include "fth_test.h"

#include "fathom/hd/wait.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include <errno.h>
#include <string.h>

#define SIZE 4096u
#define SHUT (2u << FTH_NVME_CSTS_SHUTDOWN_SHIFT)

static struct fth_nvme_ctrl_options both(void)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;

	opts.threads = 0;
	opts.pmr_size = SIZE;
	opts.cmb_size = 2 * SIZE;
	return opts;
}

static void open_with(struct host *host, const struct fth_nvme_ctrl_options *opts)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open("mem:64K", &dev));
	host_open(host, dev, opts);
}

static void close_all(struct host *host)
{
	struct fth_dev *dev = host->dev;

	host_close(host);
	fth_dev_close(dev);
}

static uint32_t get(struct host *host, uint32_t offset)
{
	return fth_nvme_ctrl_read32(host->ctrl, offset);
}

static void put(struct host *host, uint32_t offset, uint32_t value)
{
	fth_nvme_ctrl_write32(host->ctrl, offset, value);
}

static char *bar(struct host *host, unsigned number)
{
	uint64_t size;

	return fth_nvme_ctrl_bar(host->ctrl, number, &size);
}

static void without_windows_nothing_is_there(void **state)
{
	static const uint32_t offsets[] = {
		FTH_NVME_REG_CMBLOC, FTH_NVME_REG_CMBSZ,  FTH_NVME_REG_CMBMSC,
		FTH_NVME_REG_CMBSTS, FTH_NVME_REG_PMRCAP, FTH_NVME_REG_PMRCTL,
		FTH_NVME_REG_PMRSTS, FTH_NVME_REG_PMREBS, FTH_NVME_REG_PMRMSC};
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct host host;
	uint64_t size;

	(void)state;
	opts.threads = 0;
	open_with(&host, &opts);
	assert_int_equal(fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_CAP) &
				 (FTH_NVME_CAP_PMRS | FTH_NVME_CAP_CMBS),
			 0);
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		put(&host, offsets[i], UINT32_MAX);
		assert_int_equal(get(&host, offsets[i]), 0);
	}
	for (unsigned number = 0; number < 7; number++) {
		assert_null(fth_nvme_ctrl_bar(host.ctrl, number, &size));
		assert_int_equal(size, 0);
	}
	close_all(&host);
}

static void registers_as_the_specification_has_them(void **state)
{
	struct fth_nvme_ctrl_options opts = both();
	struct host host;
	uint32_t cap;

	(void)state;
	open_with(&host, &opts);
	assert_true(fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_CAP) & 1ull << 56);
	assert_true(fth_nvme_ctrl_read64(host.ctrl, FTH_NVME_REG_CAP) & 1ull << 57);

	assert_int_equal(get(&host, 0x38), 0); /* not before CRE */
	assert_int_equal(get(&host, 0x3c), 0);
	put(&host, 0x50, 1);
	put(&host, 0x54, 7);
	assert_int_equal(get(&host, 0x38), 2);	     /* BAR 2, offset 0 */
	assert_int_equal(get(&host, 0x3c), 2 << 12); /* two units of 4 KiB, no queues, no data */
	assert_int_equal(fth_nvme_ctrl_read64(host.ctrl, 0x50), 7ull << 32 | 1);
	put(&host, 0x50, UINT32_MAX);
	assert_int_equal(get(&host, 0x50), 0xfffff003); /* the reserved bits are not kept */

	cap = get(&host, 0xe00);
	assert_int_equal(cap >> 5 & 7, 4);    /* BIR */
	assert_int_equal(cap >> 10 & 0xf, 2); /* PMRWBM: a read of PMRSTS */
	assert_int_equal(cap >> 8 & 3, 0);    /* PMRTO in 500 ms */
	assert_true((cap >> 16 & 0xff) > 0);
	assert_int_equal(get(&host, 0xe08), 1 << 8); /* NRDY */
	put(&host, 0xe04, 1);
	assert_int_equal(get(&host, 0xe04), 1);
	assert_int_equal(get(&host, 0xe08), 0);
	put(&host, 0xe00, 0); /* read-only */
	assert_int_equal(get(&host, 0xe00), cap);
	close_all(&host);
}

/* An enabled region is loaded, and what was stored while it was not is nothing. */
static void stores_while_disabled_are_lost(void **state)
{
	struct fth_nvme_ctrl_options opts = both();
	struct host host;
	char *pmr;

	(void)state;
	open_with(&host, &opts);
	pmr = bar(&host, FTH_NVME_CTRL_PMR_BAR);
	pmr[0] = 1;
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, 0, SIZE, FTH_NEVER),
			 FTH_NVME_PMRSTS_NRDY);
	put(&host, FTH_NVME_REG_PMRCTL, 1);
	assert_int_equal(pmr[0], 0);
	pmr[0] = 2;
	put(&host, FTH_NVME_REG_PMRCTL, 0); /* orderly: kept */
	pmr[0] = 3;
	put(&host, FTH_NVME_REG_PMRCTL, 1);
	assert_int_equal(pmr[0], 2);
	close_all(&host);
}

/* A controller that just ends is a power loss that keeps nothing but what had to be kept. */
static void a_sudden_end_leaves_what_a_barrier_covered(void **state)
{
	struct fth_nvme_ctrl_options opts = both();
	struct fth_dev *keeper;
	struct host host;
	char *pmr, now[SIZE];

	(void)state;
	assert_ok(fth_dev_open("mem:8K?block=512", &keeper));
	opts.pmr_dev = keeper;
	open_with(&host, &opts);
	assert_ptr_equal(fth_nvme_ctrl_pmr_dev(host.ctrl), keeper);
	pmr = bar(&host, FTH_NVME_CTRL_PMR_BAR);
	put(&host, FTH_NVME_REG_PMRCTL, 1);
	memset(pmr, 1, SIZE);
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, 600, 500, FTH_NEVER),
			 0); /* blocks 1 and 2 */
	close_all(&host);
	assert_ok(fth_dev_read(keeper, now, SIZE, 0, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < SIZE; i++)
		assert_int_equal(now[i], i >= 512 && i < 1536);
	fth_dev_close(keeper);
}

static void barriers_out_of_range_are_cut(void **state)
{
	struct fth_nvme_ctrl_options opts = both();
	struct host host;

	(void)state;
	open_with(&host, &opts);
	put(&host, FTH_NVME_REG_PMRCTL, 1);
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, 0, UINT64_MAX, FTH_NEVER), 0);
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, SIZE - 1, UINT64_MAX, FTH_NEVER), 0);
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, SIZE, 1, FTH_NEVER), 0);
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, UINT64_MAX, UINT64_MAX, FTH_NEVER),
			 0);
	assert_int_equal(fth_nvme_ctrl_pmr_barrier(host.ctrl, 5, 0, FTH_NEVER), 0);
	close_all(&host);
}

/* A barrier writes only what has changed, in runs, and flushes only what it wrote. */
static void a_barrier_writes_what_has_changed(void **state)
{
	struct fth_nvme_ctrl_options opts = both();
	struct fth_dev *keeper;
	struct host host;
	char *pmr;

	(void)state;
	assert_ok(fth_dev_open("mem:4K?block=512", &keeper));
	opts.pmr_dev = keeper;
	open_with(&host, &opts);
	pmr = bar(&host, FTH_NVME_CTRL_PMR_BAR);
	put(&host, FTH_NVME_REG_PMRCTL, 1);
	get(&host, FTH_NVME_REG_PMRSTS);
	assert_int_equal(fth_dev_stat(keeper, FTH_DEV_STAT_WRITES), 0);
	assert_int_equal(fth_dev_stat(keeper, FTH_DEV_STAT_FLUSHES), 0);
	pmr[0] = pmr[1023] = pmr[4095] = 1; /* blocks 0, 1 and 7 */
	get(&host, FTH_NVME_REG_PMRSTS);
	assert_int_equal(fth_dev_stat(keeper, FTH_DEV_STAT_WRITES), 2);
	assert_int_equal(fth_dev_stat(keeper, FTH_DEV_STAT_BYTES_WRITTEN), 1536);
	assert_int_equal(fth_dev_stat(keeper, FTH_DEV_STAT_FLUSHES), 1);
	close_all(&host);
	fth_dev_close(keeper);
}

static void shut_down(struct host *host)
{
	host_enable(host, 8);
	put(host, FTH_NVME_REG_CC, get(host, FTH_NVME_REG_CC) | 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(host);
	assert_int_equal(get(host, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_SHUTDOWN_MASK, SHUT);
}

static void a_shutdown_keeps_everything(void **state)
{
	static const char *const keepers[] = {"mem:4K", "fault(mem:4K)?kind=write&nth=1"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_nvme_ctrl_options opts = both();
		struct fth_dev *keeper;
		struct host host;
		char now[SIZE];

		assert_ok(fth_dev_open(keepers[i], &keeper));
		opts.pmr_dev = keeper;
		open_with(&host, &opts);
		put(&host, FTH_NVME_REG_PMRCTL, 1);
		bar(&host, FTH_NVME_CTRL_PMR_BAR)[100] = 5;
		shut_down(&host);
		assert_int_equal(!!(get(&host, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_FATAL), i);
		close_all(&host);
		assert_ok(fth_dev_read(keeper, now, SIZE, 0, FTH_DEV_TIMEOUT));
		assert_int_equal(now[100], i ? 0 : 5);
		fth_dev_close(keeper);
	}
}

/* A reset by CC.EN need not leave the CMB alone, and leaves the registers of both windows. */
static void a_reset_may_cost_the_cmb(void **state)
{
	static const uint64_t seeds[] = {0, 99};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_nvme_ctrl_options opts = both();
		char *cmb, *pmr, zeroes[SIZE] = {0}, first[SIZE];
		struct host host;

		opts.cmb_garbage = seeds[i];
		open_with(&host, &opts);
		cmb = bar(&host, FTH_NVME_CTRL_CMB_BAR);
		pmr = bar(&host, FTH_NVME_CTRL_PMR_BAR);
		put(&host, FTH_NVME_REG_CMBMSC, FTH_NVME_CMBMSC_CRE);
		put(&host, FTH_NVME_REG_PMRCTL, 1);
		pmr[0] = 1;
		host_enable(&host, 8);
		put(&host, FTH_NVME_REG_CC, 0);
		host_settle(&host);
		assert_int_equal(memcmp(cmb, zeroes, SIZE) != 0, seeds[i] != 0);
		memcpy(first, cmb, SIZE);
		host_enable(&host, 8);
		put(&host, FTH_NVME_REG_CC, 0);
		host_settle(&host);
		assert_int_equal(memcmp(cmb, first, SIZE) != 0, seeds[i] != 0);
		assert_int_equal(get(&host, FTH_NVME_REG_CMBMSC), FTH_NVME_CMBMSC_CRE);
		assert_int_equal(get(&host, FTH_NVME_REG_PMRCTL), 1);
		assert_int_equal(pmr[0], 1);
		close_all(&host);
	}
}

static void sizes_are_checked(void **state)
{
	static const struct {
		uint64_t pmr, cmb;
	} bad[] = {{1, 0},   {2048, 0},	 {12288, 0},	 {2ull << 40, 0},
		   {0, 100}, {0, 12288}, {0, 4ull << 30}};
	struct fth_nvme_ctrl *ctrl;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:64K", &dev));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fth_nvme_ctrl_options opts = both();

		opts.pmr_size = bad[i].pmr;
		opts.cmb_size = bad[i].cmb;
		assert_int_equal(fth_nvme_ctrl_new(dev, &opts, &ctrl), -EINVAL);
	}
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_windows_nothing_is_there),
		cmocka_unit_test(registers_as_the_specification_has_them),
		cmocka_unit_test(stores_while_disabled_are_lost),
		cmocka_unit_test(a_sudden_end_leaves_what_a_barrier_covered),
		cmocka_unit_test(barriers_out_of_range_are_cut),
		cmocka_unit_test(a_barrier_writes_what_has_changed),
		cmocka_unit_test(a_shutdown_keeps_everything),
		cmocka_unit_test(a_reset_may_cost_the_cmb),
		cmocka_unit_test(sizes_are_checked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
