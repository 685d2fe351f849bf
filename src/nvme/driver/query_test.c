/* SPDX-License-Identifier: BSD-2-Clause */
/* Asking a controller that is up: registers, identify pages, log pages. */
#include "fth_test.h"

#include "fathom/dev.h"
#include "nvme/driver.h"

#include <errno.h>
#include <string.h>

static struct fth_dev *dev;
static struct fth_nvme *nvme;

static int open_device(void **state)
{
	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:8M)?lba=4096&mdts=3", &dev));
	nvme = fth_nvme_of_dev(dev);
	assert_non_null(nvme);
	return 0;
}

static int close_device(void **state)
{
	(void)state;
	fth_dev_close(dev);
	return 0;
}

static void only_nvme_devices_have_a_driver(void **state)
{
	struct fth_dev *other;

	(void)state;
	assert_ok(fth_dev_open("mem:1M", &other));
	assert_null(fth_nvme_of_dev(other));
	fth_dev_close(other);
	assert_ok(fth_dev_open("delay(softnvme(mem:1M))", &other));
	assert_null(fth_nvme_of_dev(other));
	fth_dev_close(other);
}

static void registers_are_read(void **state)
{
	uint64_t cap = fth_nvme_register64(nvme, FTH_NVME_REG_CAP);

	(void)state;
	assert_true(cap & FTH_NVME_CAP_CSS_NVM);
	assert_int_equal(fth_nvme_register32(nvme, FTH_NVME_REG_CAP), (uint32_t)cap);
	assert_int_equal(fth_nvme_register32(nvme, FTH_NVME_REG_VS), FTH_NVME_VERSION_1_4);
	assert_true(fth_nvme_register32(nvme, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_READY);
}

static void identify_pages_come_whole(void **state)
{
	struct fth_nvme_id_ctrl ctrl;
	struct fth_nvme_id_ns ns;
	uint32_t active[1024];

	(void)state;
	memset(&ctrl, 0xa5, sizeof(ctrl));
	assert_ok(fth_nvme_identify(nvme, FTH_NVME_CNS_CONTROLLER, 0, &ctrl));
	assert_memory_equal(ctrl.sn, "FATHOM-SOFT ", 12);
	assert_int_equal(ctrl.mdts, 3);
	assert_int_equal(ctrl.vendor[1023], 0);
	assert_ok(fth_nvme_identify(nvme, FTH_NVME_CNS_NAMESPACE, 1, &ns));
	assert_int_equal(ns.nsze, (8 << 20) / 4096);
	assert_ok(fth_nvme_identify(nvme, FTH_NVME_CNS_ACTIVE_NAMESPACES, 0, active));
	assert_int_equal(active[0], 1);
	assert_int_equal(active[1], 0);
}

static void what_is_not_there_is_an_error(void **state)
{
	char page[FTH_NVME_IDENTIFY_SIZE];

	(void)state;
	memset(page, 7, sizeof(page));
	assert_int_equal(fth_nvme_identify(nvme, 0xee, 0, page), -EINVAL);
	assert_int_equal(fth_nvme_identify(nvme, FTH_NVME_CNS_NAMESPACE, 77, page), -ENODEV);
	assert_int_equal(fth_nvme_log_page(nvme, 0xc0, FTH_NVME_NSID_ALL, page, 512), -EINVAL);
	assert_int_equal(page[0], 7); /* an error leaves it alone */
	/* and none of it has hurt the controller */
	assert_ok(fth_nvme_identify(nvme, FTH_NVME_CNS_CONTROLLER, 0, page));
}

static void log_pages_are_read(void **state)
{
	struct fth_nvme_smart_log before, after;
	struct fth_nvme_error_entry error;
	char block[4096] = {0};

	(void)state;
	assert_ok(fth_nvme_log_page(nvme, FTH_NVME_LOG_SMART, FTH_NVME_NSID_ALL, &before,
				    sizeof(before)));
	assert_ok(fth_dev_write(dev, block, sizeof(block), 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_nvme_log_page(nvme, FTH_NVME_LOG_SMART, FTH_NVME_NSID_ALL, &after,
				    sizeof(after)));
	assert_int_equal(after.host_writes[0], before.host_writes[0] + 1);
	assert_int_equal(after.available_spare, 100);

	assert_int_equal(fth_nvme_identify(nvme, 0xee, 0, block), -EINVAL);
	assert_ok(fth_nvme_log_page(nvme, FTH_NVME_LOG_ERROR, FTH_NVME_NSID_ALL, &error,
				    sizeof(error)));
	assert_true(error.count > 0);
	assert_int_equal(error.sqid, 0);
}

static void a_log_page_has_a_length(void **state)
{
	static const size_t bad[] = {0, 3, 510, 4100, 1u << 20};
	char page[4096];

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fth_nvme_log_page(nvme, FTH_NVME_LOG_SMART, FTH_NVME_NSID_ALL,
						   page, bad[i]),
				 -EINVAL);
	memset(page, 0xff, sizeof(page));
	assert_ok(fth_nvme_log_page(nvme, FTH_NVME_LOG_SMART, FTH_NVME_NSID_ALL, page, 4));
	assert_int_equal((uint8_t)page[4], 0xff);
}

/* After a failure the driver says so, and recovers. */
static void a_failed_controller_is_not_asked(void **state)
{
	char page[4096];

	(void)state;
	fth_nvme_fail(nvme, EIO);
	assert_int_equal(fth_nvme_identify(nvme, FTH_NVME_CNS_CONTROLLER, 0, page), -EIO);
	assert_ok(fth_nvme_recover(nvme));
	assert_ok(fth_nvme_identify(nvme, FTH_NVME_CNS_CONTROLLER, 0, page));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_nvme_devices_have_a_driver),
		cmocka_unit_test(registers_are_read),
		cmocka_unit_test(identify_pages_come_whole),
		cmocka_unit_test(what_is_not_there_is_an_error),
		cmocka_unit_test(log_pages_are_read),
		cmocka_unit_test(a_log_page_has_a_length),
		cmocka_unit_test(a_failed_controller_is_not_asked),
	};
	return cmocka_run_group_tests(tests, open_device, close_device);
}
