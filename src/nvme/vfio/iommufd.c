/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DMA through /dev/iommu and the device's own file (Linux 6.6 and later). Older systems' headers
 * lack these calls, so the few we use are declared here, as the kernel's user interface
 * (include/uapi/linux/iommufd.h and vfio.h) fixes them.
 *
 * UNTESTED: written after that interface, and never run on a kernel that has it.
 */
#include "vfio_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- the kernel's interface ---- */

#define IOMMU_CALL(nr) _IO(';', nr)

struct ioas_alloc {
	uint32_t size, flags, ioas;
};
#define IOAS_ALLOC IOMMU_CALL(0x81)

struct ioas_ranges {
	uint32_t size, ioas, count, reserved;
	uint64_t ranges; /* pointer to struct iova_range */
	uint64_t alignment;
};
#define IOAS_RANGES IOMMU_CALL(0x84)

struct ioas_map {
	uint32_t size, flags, ioas, reserved;
	uint64_t addr, len, iova;
};
#define IOAS_MAP	  IOMMU_CALL(0x85)
#define IOAS_MAP_FIXED	  1u
#define IOAS_MAP_WRITABLE 2u
#define IOAS_MAP_READABLE 4u

struct ioas_unmap {
	uint32_t size, ioas;
	uint64_t iova, len;
};
#define IOAS_UNMAP IOMMU_CALL(0x86)

struct device_bind {
	uint32_t argsz, flags;
	int32_t iommufd;
	uint32_t device_id;
};
#define DEVICE_BIND _IO(VFIO_TYPE, VFIO_BASE + 18)

struct device_attach {
	uint32_t argsz, flags, ioas;
};
#define DEVICE_ATTACH _IO(VFIO_TYPE, VFIO_BASE + 19)

_Static_assert(sizeof(struct ioas_alloc) == 12 && sizeof(struct ioas_ranges) == 32 &&
		       sizeof(struct ioas_map) == 40 && sizeof(struct ioas_unmap) == 24 &&
		       sizeof(struct device_bind) == 16 && sizeof(struct device_attach) == 12 &&
		       sizeof(struct iova_range) == 16,
	       "as the kernel lays them out");

/* ---- opening ---- */

static int bind_device(struct vfio_dma *dma, const char *bdf)
{
	struct device_bind bind = {.argsz = sizeof(bind), .iommufd = dma->iommu};
	struct ioas_alloc alloc = {.size = sizeof(alloc)};
	struct device_attach attach = {.argsz = sizeof(attach)};

	if (ioctl(dma->device, DEVICE_BIND, &bind) < 0)
		return errno == EBUSY || errno == EINVAL
			       ? fth_fail(EBUSY,
					  "%s is in use: a process has it open, or another device "
					  "of its IOMMU group",
					  bdf)
			       : fth_fail(errno, "cannot open %s: %s", bdf, strerror(errno));
	if (ioctl(dma->iommu, IOAS_ALLOC, &alloc) < 0)
		return fth_fail(errno, "cannot create an address space for %s: %s", bdf,
				strerror(errno));
	dma->ioas = alloc.ioas;
	attach.ioas = alloc.ioas;
	if (ioctl(dma->device, DEVICE_ATTACH, &attach) < 0)
		return fth_fail(errno, "cannot create an address space for %s: %s", bdf,
				strerror(errno));
	return 0;
}

/* After attaching: which addresses are allowed depends on the device. */
static int read_ranges(struct vfio_dma *dma)
{
	struct ioas_ranges ask = {.size = sizeof(ask), .ioas = dma->ioas};
	struct iova_range *ranges;
	int rc = 0;

	/* With no room for any, the call fails and says how many there are. */
	if (ioctl(dma->iommu, IOAS_RANGES, &ask) < 0 && errno != EMSGSIZE)
		return fth_fail(errno, "cannot read the address ranges of the IOMMU: %s",
				strerror(errno));
	ranges = calloc(ask.count ? ask.count : 1, sizeof(ranges[0]));
	if (!ranges)
		return -ENOMEM;
	ask.ranges = (uintptr_t)ranges;
	if (ioctl(dma->iommu, IOAS_RANGES, &ask) < 0)
		rc = fth_fail(errno, "cannot read the address ranges of the IOMMU: %s",
			      strerror(errno));
	else if (ask.alignment > FTH_NVME_PAGE_SIZE)
		rc = fth_fail(EOPNOTSUPP, "the IOMMU cannot map pages of 4 KiB");
	for (uint32_t i = 0; rc == 0 && i < ask.count; i++)
		rc = vfio_dma_allow(dma, ranges[i].start, ranges[i].last);
	free(ranges);
	return rc;
}

static void iommufd_close(struct vfio_dma *dma)
{
	if (dma->device >= 0)
		close(dma->device);
	if (dma->iommu >= 0)
		close(dma->iommu);
	dma->device = dma->iommu = -1;
	iova_release(&dma->space);
}

static int open_files(struct vfio_dma *dma, const char *devfs, const struct vfio_pci *pci)
{
	char name[sizeof("vfio/devices/") + VFIO_NAME_MAX];

	dma->iommu = pci->cdev[0] ? vfio_open_file(devfs, "iommu", pci->bdf) : -ENOENT;
	if (dma->iommu == -ENOENT)
		return fth_fail(EOPNOTSUPP, "this kernel does not support iommufd, or its module "
					    "is not loaded: use iommu=group");
	if (dma->iommu < 0)
		return dma->iommu;
	snprintf(name, sizeof(name), "vfio/devices/%s", pci->cdev);
	dma->device = vfio_open_file(devfs, name, pci->bdf);
	return dma->device < 0 ? dma->device : 0;
}

static int iommufd_open(struct vfio_dma *dma, const char *devfs, const struct vfio_pci *pci)
{
	int rc = open_files(dma, devfs, pci);

	if (rc == 0)
		rc = bind_device(dma, pci->bdf);
	if (rc == 0)
		rc = read_ranges(dma);
	if (rc < 0)
		iommufd_close(dma);
	return rc;
}

/* ---- mapping ---- */

static int iommufd_map(struct vfio_dma *dma, void *addr, uint64_t len, uint64_t iova)
{
	struct ioas_map map = {
		.size = sizeof(map),
		.flags = IOAS_MAP_FIXED | IOAS_MAP_WRITABLE | IOAS_MAP_READABLE,
		.ioas = dma->ioas,
		.addr = (uintptr_t)addr,
		.len = len,
		.iova = iova,
	};

	return ioctl(dma->iommu, IOAS_MAP, &map) < 0 ? vfio_dma_why(errno, len) : 0;
}

static int iommufd_unmap(struct vfio_dma *dma, uint64_t iova, uint64_t len)
{
	struct ioas_unmap unmap = {
		.size = sizeof(unmap), .ioas = dma->ioas, .iova = iova, .len = len};

	if (ioctl(dma->iommu, IOAS_UNMAP, &unmap) < 0)
		return fth_fail(errno, "cannot unmap from the IOMMU: %s", strerror(errno));
	return 0;
}

const struct vfio_dma_ops vfio_iommufd_ops = {
	.open = iommufd_open,
	.close = iommufd_close,
	.map = iommufd_map,
	.unmap = iommufd_unmap,
};
