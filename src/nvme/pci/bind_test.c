/* SPDX-License-Identifier: BSD-2-Clause */
/* Drives that may be taken from the kernel and drives that may not; taking and giving back. */
#include "fth_test.h"

#include "nvme/pci/pci_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define DRIVE	 "0000:01:00.0"
#define OTHER	 "0000:02:00.0"
#define OVERRIDE "/sys/bus/pci/devices/" DRIVE "/driver_override"
#define PROBE	 "/sys/bus/pci/drivers_probe"

static struct tree tree;
static struct fth_nvme_pci pci;

static int open_tree(void **state)
{
	(void)state;
	tree_open(&tree);
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 1);
	return 0;
}

static int close_tree(void **state)
{
	(void)state;
	fth_nvme_pci_release(&pci);
	tree_close(&tree);
	return 0;
}

static void look(void)
{
	fth_nvme_pci_release(&pci);
	assert_ok(fth_nvme_pci_get(tree.root, DRIVE, &pci));
}

static int may_bind(void)
{
	look();
	return fth_nvme_pci_may_bind(tree.root, &pci, NULL, 0);
}

static void expect_refused(int rc, const char *why)
{
	assert_int_equal(may_bind(), rc);
	if (!strstr(fth_error_text(rc), why))
		fail_msg("\"%s\" does not say \"%s\"", fth_error_text(rc), why);
}

static void a_drive_that_nobody_uses_may_be_taken(void **state)
{
	(void)state;
	assert_ok(may_bind());
}

static void a_drive_in_use_is_refused(void **state)
{
	(void)state;
	tree_file(&tree, "/proc/self/mountinfo", "30 22 259:1 / /boot rw - ext4 /dev/root rw\n");
	expect_refused(-EBUSY, "nvme0n1p1 is mounted at /boot");
	tree_file(&tree, "/proc/self/mountinfo", "");
	assert_ok(may_bind());
	tree_file(&tree, "/proc/swaps", "/dev/nvme0n1 partition 1 0 -2\n");
	expect_refused(-EBUSY, "nvme0n1 is swap");
	tree_file(&tree, "/proc/swaps", "");
	tree_holder(&tree, "dm-0", "253:0\n", "nvme0n1p1");
	expect_refused(-EBUSY, "nvme0n1p1 is part of dm-0");
}

static void a_drive_that_can_not_be_checked_is_refused(void **state)
{
	(void)state;
	tree_remove(&tree, "/dev/nvme0n1");
	expect_refused(-ENOENT, "whether it is in use");
}

static void without_an_iommu_it_is_refused(void **state)
{
	(void)state;
	tree_remove(&tree, "/sys/bus/pci/devices/" DRIVE "/iommu_group");
	expect_refused(-ENODEV, "not in an IOMMU group");
}

static void a_group_goes_as_a_whole(void **state)
{
	const char *both[] = {OTHER, DRIVE};

	(void)state;
	/* bridges, functions without a driver and those that VFIO has do not matter */
	tree_function(&tree, "0000:00:1c.0", "0x060400\n", "pcieport", 7);
	tree_function(&tree, "0000:01:00.1", "0x010802\n", "vfio-pci", 7);
	tree_function(&tree, "0000:01:00.2", "0x020000\n", "", 7);
	assert_ok(may_bind());
	/* in another group */
	tree_drive(&tree, OTHER, 1, 8);
	assert_ok(may_bind());
	/* in the same */
	tree_drive(&tree, OTHER, 1, 7);
	expect_refused(-EBUSY, OTHER " (driver nvme)");
	assert_ok(fth_nvme_pci_may_bind(tree.root, &pci, both, 2));
	tree_function(&tree, "0000:03:00.0", "0x020000\n", "e1000e", 7);
	assert_int_equal(fth_nvme_pci_may_bind(tree.root, &pci, both, 2), -EBUSY);
	assert_non_null(strstr(fth_error_text(-EBUSY), "e1000e"));
}

static void the_plan_is_what_is_written(void **state)
{
	struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX];

	(void)state;
	look();
	assert_int_equal(fth_nvme_pci_plan("", &pci, true, steps), 3);
	assert_string_equal(steps[0].path, OVERRIDE);
	assert_string_equal(steps[0].value, "vfio-pci");
	assert_string_equal(steps[1].path, "/sys/bus/pci/drivers/nvme/unbind");
	assert_string_equal(steps[1].value, DRIVE);
	assert_string_equal(steps[2].path, PROBE);
	assert_string_equal(steps[2].value, DRIVE);
	tree_remove(&tree, "/sys/bus/pci/devices/" DRIVE "/driver");
	look();
	assert_int_equal(fth_nvme_pci_plan("", &pci, false, steps), 2);
	assert_string_equal(steps[0].value, "\n");
	assert_string_equal(steps[1].path, PROBE);
}

static void a_drive_goes_to_vfio_and_back(void **state)
{
	(void)state;
	tree_kernel_start(&tree, DRIVE);
	look();
	assert_ok(fth_nvme_pci_bind(tree.root, &pci));
	assert_string_equal(tree_read(&tree, OVERRIDE), "vfio-pci");
	assert_string_equal(tree_read(&tree, "/sys/bus/pci/drivers/nvme/unbind"), DRIVE);
	look();
	assert_string_equal(pci.driver, "vfio-pci");
	assert_string_equal(pci.driver_override, "vfio-pci");
	assert_ok(fth_nvme_pci_unbind(tree.root, &pci));
	assert_string_equal(tree_read(&tree, "/sys/bus/pci/drivers/vfio-pci/unbind"), DRIVE);
	look();
	assert_string_equal(pci.driver, "nvme");
	assert_string_equal(pci.driver_override, "");
	tree_kernel_stop(&tree);
}

/* vfio-pci does not take it: after two seconds the kernel's driver may have it again. */
static void a_bind_that_fails_is_undone(void **state)
{
	(void)state;
	tree.deaf = true;
	tree_kernel_start(&tree, DRIVE);
	look();
	assert_int_equal(fth_nvme_pci_bind(tree.root, &pci), -EIO);
	assert_non_null(strstr(fth_error_text(-EIO), "did not bind " DRIVE));
	assert_string_equal(tree_read(&tree, OVERRIDE), "\n");
	tree_kernel_stop(&tree);
	/* a step that can not be done: likewise, and at once */
	tree_file(&tree, OVERRIDE, "(null)\n");
	tree_remove(&tree, "/sys/bus/pci/drivers/nvme/unbind");
	look();
	assert_int_equal(fth_nvme_pci_bind(tree.root, &pci), -ENOENT);
	assert_non_null(strstr(fth_error_text(-ENOENT), "nvme/unbind"));
	assert_string_equal(tree_read(&tree, OVERRIDE), "\n");
}

static void drivers_are_looked_for(void **state)
{
	(void)state;
	assert_true(fth_nvme_pci_has_driver(tree.root, FTH_NVME_PCI_VFIO));
	assert_false(fth_nvme_pci_has_driver(tree.root, "another"));
}

static void giving_back_looks_at_the_group(void **state)
{
	(void)state;
	look();
	assert_ok(fth_nvme_pci_may_unbind(tree.root, &pci));
	tree_link(&tree, "/sys/bus/pci/devices/" DRIVE "/driver", "../../drivers/vfio-pci");
	tree_file(&tree, "/dev/vfio/7", "");
	look();
	assert_ok(fth_nvme_pci_may_unbind(tree.root, &pci));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_tree, close_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_drive_that_nobody_uses_may_be_taken),
		TEST(a_drive_in_use_is_refused),
		TEST(a_drive_that_can_not_be_checked_is_refused),
		TEST(without_an_iommu_it_is_refused),
		TEST(a_group_goes_as_a_whole),
		TEST(the_plan_is_what_is_written),
		TEST(a_drive_goes_to_vfio_and_back),
		TEST(a_bind_that_fails_is_undone),
		TEST(drivers_are_looked_for),
		TEST(giving_back_looks_at_the_group),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
