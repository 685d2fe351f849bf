/* SPDX-License-Identifier: BSD-2-Clause */
/* DMA through an IOMMU group and a container of its own, type 1 version 2. */
#include "vfio_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- what both ways of DMA share ---- */

static int open_file(const char *devfs, const char *name, const char *bdf)
{
	char path[VFIO_PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", devfs, name) >= (int)sizeof(path))
		return fth_fail(ENAMETOOLONG, "%s: the path is too long", devfs);
	fd = fth_fd_open(path, O_RDWR | O_CLOEXEC, 0);
	if (fd >= 0)
		return fd;
	switch (errno) {
	case ENOENT:
		return fth_fail(ENOENT, "%s does not exist: load the kernel module vfio-pci", path);
	case EACCES:
	case EPERM:
		return fth_fail(EACCES, "cannot open %s: run as root, or change its owner", path);
	case EBUSY:
		return fth_fail(EBUSY,
				"%s is in use: a process has it open, or another device of its "
				"IOMMU group (%s)",
				bdf, path);
	default:
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	}
}

/* Nothing is mapped at the bottom: an address of zero, or near it, is somebody's mistake. */
#define IOVA_MIN ((uint64_t)1 << 20)

int vfio_dma_allow(struct vfio_dma *dma, uint64_t start, uint64_t last)
{
	if (last < IOVA_MIN)
		return 0;
	return iova_add(&dma->space, start < IOVA_MIN ? IOVA_MIN : start, last);
}

int vfio_dma_why(int err, uint64_t len)
{
	unsigned long long kib = (unsigned long long)len / 1024;
	struct rlimit limit = {0, 0};

	switch (err) {
	case ENOMEM:
		(void)getrlimit(RLIMIT_MEMLOCK, &limit);
		if (limit.rlim_cur == RLIM_INFINITY)
			return fth_fail(ENOMEM, "the IOMMU could not map %llu KiB", kib);
		return fth_fail(ENOMEM,
				"%llu KiB more cannot be locked in memory; the limit is %llu KiB: "
				"raise it with ulimit -l",
				kib, (unsigned long long)limit.rlim_cur / 1024);
	case ENOSPC:
		return fth_fail(ENOSPC, "the IOMMU accepts no more mappings (see dma_entry_limit "
					"of the kernel module vfio_iommu_type1)");
	case EFAULT:
		return fth_fail(EFAULT,
				"the memory to map is not mapped in this process or not writable");
	default:
		return fth_fail(err, "the IOMMU could not map %llu KiB: %s", kib, strerror(err));
	}
}

/* ---- the container's description ---- */

/*
 * Copy out `len` bytes at an offset of the description; false when they do not lie inside. Copies,
 * because kernels before 6.6 put capabilities at any multiple of 4.
 */
static bool copy_at(const char *info, uint32_t size, uint64_t offset, void *to, size_t len)
{
	if (offset < sizeof(struct vfio_iommu_type1_info) || offset > size || size - offset < len)
		return false;
	memcpy(to, info + offset, len);
	return true;
}

static int cut_off(void)
{
	return fth_fail(EPROTO, "the IOMMU's capability list is truncated");
}

static int add_ranges(struct vfio_dma *dma, const char *info, uint32_t size, uint64_t offset)
{
	struct vfio_iommu_type1_info_cap_iova_range cap;
	struct vfio_iova_range range;
	int rc = 0;

	if (!copy_at(info, size, offset, &cap, sizeof(cap)))
		return cut_off();
	offset += sizeof(cap);
	for (uint32_t i = 0; rc == 0 && i < cap.nr_iovas; i++, offset += sizeof(range)) {
		if (!copy_at(info, size, offset, &range, sizeof(range)))
			return cut_off();
		rc = vfio_dma_allow(dma, range.start, range.end);
	}
	return rc;
}

/* Kernels before 5.4 do not tell. 39 bits are what any IOMMU has; the gap is for x86's MSIs. */
static int add_default_ranges(struct vfio_dma *dma)
{
	int rc = vfio_dma_allow(dma, 0, 0xfedfffff);

	return rc < 0 ? rc : vfio_dma_allow(dma, 0xfef00000, ((uint64_t)1 << 39) - 1);
}

int vfio_group_ranges(struct vfio_dma *dma, const void *description, uint32_t size)
{
	const struct vfio_iommu_type1_info *info = description;
	struct vfio_info_cap_header cap;
	uint32_t offset;

	if (size < sizeof(*info))
		return cut_off();
	if (info->flags & VFIO_IOMMU_INFO_PGSIZES && !(info->iova_pgsizes & FTH_NVME_PAGE_SIZE))
		return fth_fail(EOPNOTSUPP, "the IOMMU cannot map pages of 4 KiB");
	offset = info->flags & VFIO_IOMMU_INFO_CAPS ? info->cap_offset : 0;
	while (offset != 0) {
		if (!copy_at(description, size, offset, &cap, sizeof(cap)))
			return cut_off();
		if (cap.id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE)
			return add_ranges(dma, description, size, offset);
		/* Forward only: a chain that leads back would have no end. */
		if (cap.next != 0 && cap.next <= offset)
			return fth_fail(EPROTO, "the IOMMU's capability list has a loop");
		offset = cap.next;
	}
	return add_default_ranges(dma);
}

static int read_ranges(struct vfio_dma *dma)
{
	struct vfio_iommu_type1_info head = {.argsz = sizeof(head)}, *info;
	int rc;

	if (ioctl(dma->container, VFIO_IOMMU_GET_INFO, &head) < 0)
		return fth_fail(errno, "cannot read the description of the IOMMU: %s",
				strerror(errno));
	if (head.argsz < sizeof(head))
		head.argsz = sizeof(head);
	info = calloc(1, head.argsz);
	if (!info)
		return -ENOMEM;
	info->argsz = head.argsz;
	rc = ioctl(dma->container, VFIO_IOMMU_GET_INFO, info) < 0
		     ? fth_fail(errno, "cannot read the description of the IOMMU: %s",
				strerror(errno))
		     : vfio_group_ranges(dma, info, head.argsz);
	free(info);
	return rc;
}

/* ---- opening ---- */

static int open_container(struct vfio_dma *dma, const char *devfs, const char *bdf)
{
	int fd = open_file(devfs, "vfio/vfio", bdf);

	if (fd < 0)
		return fd;
	dma->container = fd;
	if (ioctl(fd, VFIO_GET_API_VERSION) != VFIO_API_VERSION)
		return fth_fail(EOPNOTSUPP, "unsupported VFIO API version");
	if (ioctl(fd, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) != 1)
		return fth_fail(EOPNOTSUPP, "VFIO has no driver for the IOMMU: load the kernel "
					    "module vfio_iommu_type1");
	return 0;
}

static int open_group(struct vfio_dma *dma, const char *devfs, const struct vfio_pci *pci)
{
	struct vfio_group_status status = {.argsz = sizeof(status)};
	char name[sizeof("vfio/") + VFIO_NAME_MAX];
	int fd;

	snprintf(name, sizeof(name), "vfio/%s", pci->group);
	fd = open_file(devfs, name, pci->bdf);
	if (fd < 0)
		return fd;
	dma->group = fd;
	if (ioctl(fd, VFIO_GROUP_GET_STATUS, &status) < 0)
		return fth_fail(errno, "IOMMU group %s: %s", pci->group, strerror(errno));
	if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
		return fth_fail(EBUSY,
				"IOMMU group %s is not viable: other devices in it have other "
				"drivers (see /sys/kernel/iommu_groups/%s/devices)",
				pci->group, pci->group);
	if (ioctl(fd, VFIO_GROUP_SET_CONTAINER, &dma->container) < 0)
		return fth_fail(errno, "IOMMU group %s: %s", pci->group, strerror(errno));
	return 0;
}

static int open_device(struct vfio_dma *dma, const char *bdf)
{
	int fd;

	if (ioctl(dma->container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) < 0)
		return fth_fail(errno, "the IOMMU of %s: %s", bdf, strerror(errno));
	fth_fd_reserve();
	fd = fth_fd_high(ioctl(dma->group, VFIO_GROUP_GET_DEVICE_FD, bdf));
	fth_fd_release();
	if (fd < 0)
		return fth_fail(errno, "cannot open %s: %s", bdf, strerror(errno));
	dma->device = fd;
	return 0;
}

void vfio_group_close(struct vfio_dma *dma)
{
	if (dma->device >= 0)
		close(dma->device);
	if (dma->group >= 0)
		close(dma->group);
	if (dma->container >= 0)
		close(dma->container);
	dma->device = dma->group = dma->container = -1;
	iova_release(&dma->space);
}

int vfio_group_open(struct vfio_dma *dma, const char *devfs, const struct vfio_pci *pci)
{
	int rc = open_container(dma, devfs, pci->bdf);

	if (rc == 0)
		rc = open_group(dma, devfs, pci);
	if (rc == 0)
		rc = open_device(dma, pci->bdf);
	if (rc == 0)
		rc = read_ranges(dma);
	if (rc < 0)
		vfio_group_close(dma);
	return rc;
}

/* ---- mapping ---- */

int vfio_group_map(struct vfio_dma *dma, void *addr, uint64_t len, uint64_t iova)
{
	struct vfio_iommu_type1_dma_map map = {
		.argsz = sizeof(map),
		.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
		.vaddr = (uintptr_t)addr,
		.iova = iova,
		.size = len,
	};

	return ioctl(dma->container, VFIO_IOMMU_MAP_DMA, &map) < 0 ? vfio_dma_why(errno, len) : 0;
}

int vfio_group_unmap(struct vfio_dma *dma, uint64_t iova, uint64_t len)
{
	struct vfio_iommu_type1_dma_unmap unmap = {
		.argsz = sizeof(unmap),
		.iova = iova,
		.size = len,
	};

	if (ioctl(dma->container, VFIO_IOMMU_UNMAP_DMA, &unmap) < 0)
		return fth_fail(errno, "cannot unmap from the IOMMU: %s", strerror(errno));
	return unmap.size == len
		       ? 0
		       : fth_fail(EINVAL, "the IOMMU unmapped a different number of bytes");
}
