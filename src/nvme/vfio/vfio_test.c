/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What of VFIO needs no drive: addresses, URIs, what sysfs says (a made-up tree of files), the
 * IOMMU's description, and the texts of refusals. The guest tests have the rest.
 */
#include "fth_test.h"

#include "nvme/vfio/vfio_internal.h"

#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void bad_uris_are_refused(void **state)
{
	static const char *const bad[] = {
		"nvme:nonsense",
		"nvme:03:00.0/0",
		"nvme:03:00.0/x",
		"nvme:03:00.0/4294967295",
		"nvme:03:00.0/1/2",
		"nvme:/1",
		"nvme:03:00.0?queues=0",
		"nvme:03:00.0?queues=65",
		"nvme:03:00.0?depth=1",
		"nvme:03:00.0?timeout_ms=0",
		"nvme:03:00.0?irq=maybe",
		"nvme:03:00.0?iommu=none",
		"nvme:03:00.0?nope=1",
		"nvme(mem:1M)",
		"nvme:0000000000000000000000000000000000000000000000000000000000000000000:00.0",
	};
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (fth_dev_open(bad[i], &dev) != -EINVAL)
			fail_msg("\"%s\" is not refused", bad[i]);
	/* A good one gets as far as sysfs, where no machine has this device. */
	assert_int_equal(fth_dev_open("nvme:ffff:ff:1f.7/1?queues=2&irq=on", &dev), -ENODEV);
	assert_string_equal(fth_error_text(-ENODEV), "PCI device ffff:ff:1f.7 does not exist");
}

/* ---- sysfs ---- */

static char root[] = "/tmp/fathom-vfio-XXXXXX";

static void run(const char *format, const char *argument)
{
	char command[1024];

	snprintf(command, sizeof(command), format, root, argument);
	assert_int_equal(system(command), 0);
}

static int make_root(void **state)
{
	(void)state;
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	(void)state;
	run("rm -rf %s", "");
	return 0;
}

static void make_function(const char *class, const char *driver, const char *group)
{
	run("cd %s && rm -rf bus && mkdir -p bus/pci/devices/0000:03:00.0", "");
	run("cd %s/bus/pci/devices/0000:03:00.0 && echo %s >class", class);
	if (driver)
		run("cd %s/bus/pci/devices/0000:03:00.0 && ln -s ../../drivers/%s driver", driver);
	if (group)
		run("cd %s/bus/pci/devices/0000:03:00.0 && ln -s ../../iommu_groups/%s iommu_group",
		    group);
}

static void expect_refusal(int err, const char *words)
{
	struct vfio_pci pci;
	int rc = vfio_pci_look(root, "03:00.0", &pci);

	assert_int_equal(rc, -err);
	if (!strstr(fth_error_text(rc), words))
		fail_msg("\"%s\" lacks \"%s\"", fth_error_text(rc), words);
}

static void sysfs_is_asked_before_anything_is_opened(void **state)
{
	struct vfio_pci pci;

	(void)state;
	expect_refusal(ENODEV, "PCI device 0000:03:00.0 does not exist");
	make_function("0x020000", "e1000", "4");
	expect_refusal(EINVAL, "its class is 0x020000");
	make_function("nonsense", "e1000", "4");
	expect_refusal(EIO, "cannot read");
	make_function("0x010802", "nvme", "4");
	expect_refusal(EBUSY, "bound to the driver nvme");
	expect_refusal(EBUSY, "`fathom nvme bind 0000:03:00.0`");
	make_function("0x010802", NULL, "4");
	expect_refusal(ENXIO, "has no driver");
	make_function("0x010802", "vfio-pci", NULL);
	expect_refusal(EOPNOTSUPP, "not in an IOMMU group");
	make_function("0x010802", "vfio-pci", "14");
	assert_ok(vfio_pci_look(root, "03:00.0", &pci));
	assert_string_equal(pci.bdf, "0000:03:00.0");
	assert_string_equal(pci.group, "14");
}

/* ---- /dev ---- */

static int try_open(void)
{
	struct vfio_dma dma = {.device = -1, .container = -1, .group = -1};
	struct vfio_pci pci = {.bdf = "0000:03:00.0", .group = "14"};

	return vfio_group_open(&dma, root, &pci);
}

/* Plain files in the place of VFIO's: they open, and know nothing. */
static void files_that_are_missing_or_something_else(void **state)
{
	int rc;

	(void)state;
	rc = try_open();
	assert_int_equal(rc, -ENOENT);
	assert_non_null(strstr(fth_error_text(rc), "load the kernel module vfio-pci"));
	run("mkdir -p %s/vfio && cd %s && touch vfio/vfio vfio/14", root);
	rc = try_open();
	assert_int_equal(rc, -EOPNOTSUPP);
	if (getuid() == 0)
		return; /* root may open anything */
	run("chmod 0 %s/vfio/vfio", "");
	rc = try_open();
	assert_int_equal(rc, -EACCES);
	assert_non_null(strstr(fth_error_text(rc), "run as root, or change its owner"));
}

static void reasons_for_failed_mappings(void **state)
{
	(void)state;
	assert_int_equal(vfio_dma_why(ENOSPC, 4096), -ENOSPC);
	assert_non_null(strstr(fth_error_text(-ENOSPC), "dma_entry_limit"));
	assert_int_equal(vfio_dma_why(ENOMEM, 8192), -ENOMEM);
	assert_non_null(strstr(fth_error_text(-ENOMEM), "8 KiB"));
	assert_int_equal(vfio_dma_why(EFAULT, 4096), -EFAULT);
}

/* ---- the IOMMU's description ---- */

/* As Linux 6.1 lays it out: a capability of 12 bytes first, so that the next is not aligned. */
struct description {
	struct vfio_iommu_type1_info info;
	struct vfio_iommu_type1_info_dma_avail avail;
	char ranges[sizeof(struct vfio_iommu_type1_info_cap_iova_range) +
		    2 * sizeof(struct vfio_iova_range)];
} __attribute__((packed));

static void describe(struct description *d, uint32_t nr)
{
	const struct vfio_iova_range two[] = {{0, 0xfedfffff}, {0xfef00000, 0x7fffffffff}};
	struct vfio_iommu_type1_info_cap_iova_range cap = {
		.header = {.id = VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE, .version = 1},
		.nr_iovas = nr};

	memset(d, 0, sizeof(*d));
	d->info.argsz = sizeof(*d);
	d->info.flags = VFIO_IOMMU_INFO_PGSIZES | VFIO_IOMMU_INFO_CAPS;
	d->info.iova_pgsizes = 0x40201000;
	d->info.cap_offset = sizeof(d->info);
	d->avail.header.id = VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL;
	d->avail.header.next = sizeof(d->info) + sizeof(d->avail);
	memcpy(d->ranges, &cap, sizeof(cap));
	memcpy(d->ranges + sizeof(cap), two, sizeof(two));
}

static int read_description(const struct description *d, uint32_t size, struct vfio_dma *dma)
{
	iova_release(&dma->space);
	return vfio_group_ranges(dma, d, size);
}

static void address_ranges_are_read(void **state)
{
	struct vfio_dma dma = {0};
	struct description d;

	(void)state;
	describe(&d, 2);
	assert_ok(read_description(&d, sizeof(d), &dma));
	assert_int_equal(dma.space.count, 2);
	assert_int_equal(dma.space.free[0].start, 1 << 20);
	assert_int_equal(dma.space.free[0].last, 0xfedfffff);
	assert_int_equal(dma.space.free[1].start, 0xfef00000);
	assert_int_equal(dma.space.free[1].last, 0x7fffffffff);
	/* A kernel that does not tell: still nothing where x86 has its interrupts. */
	d.info.flags = VFIO_IOMMU_INFO_PGSIZES;
	assert_ok(read_description(&d, sizeof(d.info), &dma));
	assert_int_equal(dma.space.free[0].last, 0xfedfffff);
	assert_int_equal(dma.space.free[1].start, 0xfef00000);
	iova_release(&dma.space);
}

static void a_broken_description_is_not_believed(void **state)
{
	struct vfio_dma dma = {0};
	struct description d;

	(void)state;
	describe(&d, 2);
	for (uint32_t size = 0; size < sizeof(d); size++)
		assert_int_equal(read_description(&d, size, &dma), -EPROTO);
	describe(&d, UINT32_MAX);
	assert_int_equal(read_description(&d, sizeof(d), &dma), -EPROTO);
	describe(&d, 2);
	d.avail.header.next = d.info.cap_offset; /* a loop */
	assert_int_equal(read_description(&d, sizeof(d), &dma), -EPROTO);
	d.info.cap_offset = UINT32_MAX - 2;
	assert_int_equal(read_description(&d, sizeof(d), &dma), -EPROTO);
	describe(&d, 2);
	d.info.iova_pgsizes = 0x10000;
	assert_int_equal(read_description(&d, sizeof(d), &dma), -EOPNOTSUPP);
	iova_release(&dma.space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_uris_are_refused),
		cmocka_unit_test(sysfs_is_asked_before_anything_is_opened),
		cmocka_unit_test(files_that_are_missing_or_something_else),
		cmocka_unit_test(reasons_for_failed_mappings),
		cmocka_unit_test(address_ranges_are_read),
		cmocka_unit_test(a_broken_description_is_not_believed),
	};
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
