/* SPDX-License-Identifier: BSD-2-Clause */
/* What is seen of drives in trees that look like sysfs, whole and broken. */
#include "fth_test.h"

#include "nvme/pci/pci_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DRIVE "0000:01:00.0"

static struct tree tree;
static struct fth_nvme_pci pci;

static int open_tree(void **state)
{
	(void)state;
	tree_open(&tree);
	return 0;
}

static int close_tree(void **state)
{
	(void)state;
	fth_nvme_pci_release(&pci);
	tree_close(&tree);
	return 0;
}

static void addresses_are_read(void **state)
{
	static const char *const bad[] = {"",
					  "nvme0",
					  "01:00.8",
					  "01:00.",
					  "0000:01:00.00",
					  "03:20.0",
					  "0000:103:0.0",
					  "0x3:00.0",
					  "-1:00.0",
					  "../01:00.0",
					  "0000:01:00.0/",
					  "123456789:01:00.0",
					  "mem:1M",
					  "0000:01:00",
					  "softnvme(mem:1M)"};
	char bdf[FTH_NVME_PCI_NAME];

	(void)state;
	assert_ok(fth_nvme_pci_bdf("1:0.0", bdf));
	assert_string_equal(bdf, "0000:01:00.0");
	assert_ok(fth_nvme_pci_bdf("01:00.0", bdf));
	assert_string_equal(bdf, "0000:01:00.0");
	assert_ok(fth_nvme_pci_bdf("0000:AF:1f.7", bdf));
	assert_string_equal(bdf, "0000:af:1f.7");
	assert_ok(fth_nvme_pci_bdf("10000:e1:00.0", bdf)); /* behind a VMD */
	assert_string_equal(bdf, "10000:e1:00.0");
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(fth_nvme_pci_bdf(bad[i], bdf), -EINVAL);
}

static void a_drive_is_described(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 1);
	tree_partition(&tree, 0, 2);
	assert_ok(fth_nvme_pci_get(tree.root, "01:00.0", &pci));
	assert_string_equal(pci.bdf, DRIVE);
	assert_int_equal(pci.vendor, 0x1b36);
	assert_int_equal(pci.device, 0x0010);
	assert_string_equal(pci.driver, "nvme");
	assert_string_equal(pci.driver_override, "");
	assert_string_equal(pci.controller, "nvme0");
	assert_string_equal(pci.model, "A Drive");
	assert_string_equal(pci.serial, "S-1234");
	assert_int_equal(pci.numa_node, -1);
	assert_int_equal(pci.iommu_group, 7);
	assert_int_equal(pci.bar_size[0], 0x4000);
	assert_int_equal(pci.bar_size[1], 0);
	assert_int_equal(pci.bar_size[2], 16 << 20);
	assert_int_equal(pci.block_count, 3);
	assert_string_equal(pci.blocks[0].name, "nvme0n1");
	assert_int_equal(pci.blocks[0].size, 1 << 20);
	assert_false(pci.blocks[0].partition);
	assert_string_equal(pci.blocks[2].name, "nvme0n1p2");
	assert_int_equal(pci.blocks[2].major, 259);
	assert_int_equal(pci.blocks[2].minor, 2);
	assert_true(pci.blocks[2].partition);
	assert_int_equal(pci.use_count, 0);
}

/* With native multipath the disk is not in the controller's folder; a path to it is. */
static void a_path_of_a_multipath_disk_leads_to_it(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 3, 7);
	tree_remove(&tree, "/sys/bus/pci/devices/" DRIVE "/nvme/nvme3/nvme3n1/nsid");
	tree_remove(&tree, "/sys/bus/pci/devices/" DRIVE "/nvme/nvme3/nvme3n1");
	tree_file(&tree, "/sys/bus/pci/devices/" DRIVE "/nvme/nvme3/nvme3c5n1/nsid", "1\n");
	tree_file(&tree, "/sys/bus/pci/devices/" DRIVE "/nvme/nvme3/hwmon2/name", "nvme\n");
	assert_ok(fth_nvme_pci_get(tree.root, DRIVE, &pci));
	assert_int_equal(pci.block_count, 1);
	assert_string_equal(pci.blocks[0].name, "nvme3n1");
}

static void other_classes_are_not_ours(void **state)
{
	(void)state;
	tree_function(&tree, "0000:00:1f.2", "0x010601\n", "ahci", 3);
	assert_int_equal(fth_nvme_pci_get(tree.root, "0000:00:1f.2", &pci), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "010601"));
	assert_int_equal(fth_nvme_pci_get(tree.root, "0000:00:1e.0", &pci), -ENODEV);
	assert_int_equal(fth_nvme_pci_get(tree.root, "../../etc", &pci), -EINVAL);
}

static void all_drives_are_listed_in_order(void **state)
{
	struct fth_nvme_pci *list;
	int n;

	(void)state;
	assert_int_equal(fth_nvme_pci_list(tree.root, &list), 0);
	fth_nvme_pci_list_free(list, 0);
	tree_drive(&tree, "0000:0a:00.0", 1, 8);
	tree_drive(&tree, "0000:02:00.0", 0, 7);
	tree_function(&tree, "0000:03:00.0", "0x020000\n", "e1000e", 9);
	tree_function(&tree, "0000:04:00.0", "0x010802\n", "vfio-pci", 10);
	tree_file(&tree, "/sys/bus/pci/devices/nonsense", "");
	n = fth_nvme_pci_list(tree.root, &list);
	assert_int_equal(n, 3);
	assert_string_equal(list[0].bdf, "0000:02:00.0");
	assert_string_equal(list[1].bdf, "0000:04:00.0");
	assert_string_equal(list[1].driver, "vfio-pci");
	assert_string_equal(list[1].controller, "");
	assert_string_equal(list[2].bdf, "0000:0a:00.0");
	fth_nvme_pci_list_free(list, n);
}

static void no_bus_means_no_drives(void **state)
{
	struct fth_nvme_pci *list;

	(void)state;
	assert_int_equal(fth_nvme_pci_list("/nonexistent", &list), 0);
	assert_null(list);
}

/* A drive that is going, or a tree that lies: fewer facts, no crash. */
static void broken_trees_are_read(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 1);
	tree_link(&tree, "/sys/bus/pci/devices/" DRIVE "/driver", "../../drivers/gone");
	tree_link(&tree, "/sys/bus/pci/devices/" DRIVE "/iommu_group", "/nowhere");
	tree_file(&tree, "/sys/bus/pci/devices/" DRIVE "/resource", "nonsense\n0x9 0x1 0x0\n");
	tree_file(&tree, "/sys/bus/pci/devices/" DRIVE "/numa_node", "many\n");
	tree_file(&tree, "/sys/bus/pci/devices/" DRIVE "/vendor", "");
	tree_file(&tree, "/sys/class/block/nvme0n1/dev", "259\n");
	tree_file(&tree, "/sys/class/block/nvme0n1p1/size", "-1x\n");
	tree_file(&tree, "/proc/self/mountinfo", "\n1 2\nx x x x x x\n22 1 8:1 / /x rw -\n");
	tree_link(&tree, "/proc/12/fd/3", "/dev/null");
	assert_ok(fth_nvme_pci_get(tree.root, DRIVE, &pci));
	assert_string_equal(pci.driver, "gone");
	assert_int_equal(pci.iommu_group, -1);
	assert_int_equal(pci.bar_size[0], 0);
	assert_int_equal(pci.bar_size[1], 0);
	assert_int_equal(pci.numa_node, -1);
	assert_int_equal(pci.vendor, 0);
	assert_int_equal(pci.block_count, 1); /* the disk has no number; its partition has */
	assert_int_equal(pci.blocks[0].size, 0);
	assert_int_equal(pci.use_count, 0);
}

/* ---- who uses it ---- */

static void expect_use(const char *name, const char *what)
{
	fth_nvme_pci_release(&pci);
	assert_ok(fth_nvme_pci_get(tree.root, DRIVE, &pci));
	for (unsigned i = 0; i < pci.use_count; i++)
		if (strcmp(pci.uses[i].name, name) == 0 && strcmp(pci.uses[i].what, what) == 0)
			return;
	for (unsigned i = 0; i < pci.use_count; i++)
		print_message("%s %s\n", pci.uses[i].name, pci.uses[i].what);
	fail_msg("%s %s is not seen", name, what);
}

static void mounts_are_seen(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 1);
	tree_file(&tree, "/proc/self/mountinfo",
		  "22 1 0:21 / /proc rw - proc proc rw\n"
		  "30 22 259:1 / /a\\040place rw,noatime shared:1 master:2 - ext4 /dev/root rw\n");
	expect_use("nvme0n1p1", "is mounted at /a place");
	assert_int_equal(pci.use_count, 1);
	/* the whole disk */
	tree_file(&tree, "/proc/self/mountinfo", "30 22 259:0 / /b rw - xfs /dev/nvme0n1 rw\n");
	expect_use("nvme0n1", "is mounted at /b");
	assert_int_equal(pci.use_count, 1);
	/* a file system with a device number of its own */
	tree_file(&tree, "/proc/self/mountinfo",
		  "30 22 0:44 /sub /c rw - btrfs /dev/nvme0n1p1 rw\n");
	expect_use("nvme0n1p1", "is mounted at /c");
	/* another drive's, whose name begins alike */
	tree_file(&tree, "/proc/self/mountinfo", "30 22 259:99 / /d rw - xfs /dev/nvme0n1p11 rw\n");
	fth_nvme_pci_release(&pci);
	assert_ok(fth_nvme_pci_get(tree.root, DRIVE, &pci));
	assert_int_equal(pci.use_count, 0);
}

static void swap_is_seen(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 2);
	tree_file(&tree, "/proc/swaps",
		  "Filename\t\tType\t\tSize\tUsed\tPriority\n"
		  "/dev/nvme0n1p2                          partition\t8191996\t0\t-2\n");
	expect_use("nvme0n1p2", "is swap");
}

static void devices_made_of_it_are_seen(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 1);
	tree_holder(&tree, "md0", "9:0\n", "nvme0n1p1");
	tree_holder(&tree, "dm-3", "253:3\n", "md0");
	tree_file(&tree, "/proc/self/mountinfo",
		  "30 22 253:3 / /home rw - ext4 /dev/mapper/vg-home rw\n");
	expect_use("nvme0n1p1", "is part of md0");
	expect_use("md0", "is part of dm-3");
	expect_use("dm-3", "is mounted at /home");
	/* a circle has an end */
	tree_holder(&tree, "md0", "9:0\n", "dm-3");
	expect_use("dm-3", "is part of md0");
}

static void processes_are_seen(void **state)
{
	(void)state;
	tree_drive(&tree, DRIVE, 0, 7);
	tree_partition(&tree, 0, 1);
	tree_file(&tree, "/proc/77/comm", "qemu\n");
	tree_link(&tree, "/proc/77/fd/0", "/dev/pts/0");
	tree_link(&tree, "/proc/77/fd/9", "/dev/nvme0n1p1");
	expect_use("nvme0n1p1", "is open in process 77 (qemu)");
	assert_int_equal(pci.use_count, 1);
	tree_link(&tree, "/proc/77/fd/9", "/dev/nvme0");
	expect_use("nvme0", "is open in process 77 (qemu)");
	tree_link(&tree, "/proc/77/fd/9", "/dev/nvme0n12");
	fth_nvme_pci_release(&pci);
	assert_ok(fth_nvme_pci_get(tree.root, DRIVE, &pci));
	assert_int_equal(pci.use_count, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_tree, close_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(addresses_are_read),
		TEST(a_drive_is_described),
		TEST(a_path_of_a_multipath_disk_leads_to_it),
		TEST(other_classes_are_not_ours),
		TEST(all_drives_are_listed_in_order),
		TEST(no_bus_means_no_drives),
		TEST(broken_trees_are_read),
		TEST(mounts_are_seen),
		TEST(swap_is_seen),
		TEST(devices_made_of_it_are_seen),
		TEST(processes_are_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
