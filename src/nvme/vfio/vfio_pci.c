/* SPDX-License-Identifier: BSD-2-Clause */
/* What sysfs says about a PCI function, before anything is opened. */
#include "vfio_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS_NVME 0x010802

/* ---- sysfs ---- */

static int attribute_path(char path[VFIO_PATH_MAX], const char *sysfs, const char *bdf,
			  const char *name)
{
	int n = snprintf(path, VFIO_PATH_MAX, "%s/bus/pci/devices/%s/%s", sysfs, bdf, name);

	return n < VFIO_PATH_MAX ? 0 : fth_fail(ENAMETOOLONG, "%s: the path is too long", sysfs);
}

/* The last part of where a link leads, or "" when there is no such link. */
static int link_name(const char *sysfs, const char *bdf, const char *name, char out[VFIO_NAME_MAX])
{
	char path[VFIO_PATH_MAX], target[VFIO_PATH_MAX];
	const char *last;
	ssize_t n;
	int rc = attribute_path(path, sysfs, bdf, name);

	out[0] = '\0';
	if (rc < 0)
		return rc;
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return 0;
	target[n] = '\0';
	last = strrchr(target, '/');
	last = last ? last + 1 : target;
	if (strlen(last) >= VFIO_NAME_MAX)
		return fth_fail(ENAMETOOLONG, "the target of %s is too long", path);
	strcpy(out, last);
	return 0;
}

static int check_class(const char *sysfs, const char *bdf)
{
	char path[VFIO_PATH_MAX];
	unsigned class;
	FILE *file;
	int rc = attribute_path(path, sysfs, bdf, "class"), n;

	if (rc < 0)
		return rc;
	fth_fd_reserve();
	file = fopen(path, "re");
	fth_fd_release();
	if (!file)
		return fth_fail(ENODEV, "PCI device %s does not exist", bdf);
	n = fscanf(file, "%x", &class);
	fclose(file);
	if (n != 1)
		return fth_fail(EIO, "cannot read %s", path);
	if (class != CLASS_NVME)
		return fth_fail(EINVAL,
				"%s is not an NVMe controller: its class is 0x%06x, not 0x%06x",
				bdf, class, CLASS_NVME);
	return 0;
}

static int check_driver(const char *sysfs, const char *bdf)
{
	char driver[VFIO_NAME_MAX];
	int rc = link_name(sysfs, bdf, "driver", driver);

	if (rc < 0)
		return rc;
	if (!driver[0])
		return fth_fail(ENXIO,
				"%s has no driver: it must be bound to vfio-pci, "
				"which `fathom nvme bind %s` does",
				bdf, bdf);
	if (strcmp(driver, "vfio-pci") != 0)
		return fth_fail(EBUSY,
				"%s is bound to the driver %s, not to vfio-pci: "
				"`fathom nvme bind %s` changes that",
				bdf, driver, bdf);
	return 0;
}

int vfio_pci_look(const char *sysfs, const char *bdf, struct vfio_pci *pci)
{
	int rc;

	memset(pci, 0, sizeof(*pci));
	rc = fth_nvme_pci_bdf(bdf, pci->bdf);
	if (rc == 0)
		rc = check_class(sysfs, pci->bdf);
	if (rc == 0)
		rc = check_driver(sysfs, pci->bdf);
	if (rc == 0)
		rc = link_name(sysfs, pci->bdf, "iommu_group", pci->group);
	if (rc == 0 && !pci->group[0])
		rc = fth_fail(EOPNOTSUPP,
			      "%s is not in an IOMMU group: enable the IOMMU in the firmware setup "
			      "and with intel_iommu=on or amd_iommu=on on the kernel command line",
			      pci->bdf);
	return rc;
}
