/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvme_source.h"

#include "fathom/base/error.h"
#include "nvme/pci.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define KERNEL_TIMEOUT_MS 30000

const char *nvme_sysroot(void)
{
	const char *root = getenv("FATHOM_SYSROOT");

	return root && strcmp(root, "/") != 0 ? root : "";
}

static int open_uri(struct nvme_source *source)
{
	int rc = fth_dev_open(source->name, &source->dev);

	if (rc < 0)
		return rc;
	source->nvme = fth_nvme_of_dev(source->dev);
	if (source->nvme)
		return 0;
	nvme_source_close(source);
	return fth_fail(EINVAL, "not an NVMe device");
}

static int open_kernel(struct nvme_source *source, const struct fth_nvme_pci *pci)
{
	if (!pci->controller[0])
		return fth_fail(ENODEV, "the kernel driver has not initialized the controller");
	snprintf(source->name, sizeof(source->name), "%s/dev/%s", nvme_sysroot(), pci->controller);
	source->fd = open(source->name, O_RDONLY | O_CLOEXEC);
	if (source->fd >= 0)
		return 0;
	return fth_fail(errno, "%s: %s%s", source->name, strerror(errno),
			errno == EACCES ? "; this requires root" : "");
}

/* By whichever driver has it. */
static int open_bdf(struct nvme_source *source, const char *bdf)
{
	struct fth_nvme_pci pci;
	int rc = fth_nvme_pci_get(nvme_sysroot(), bdf, &pci);

	if (rc < 0)
		return rc;
	if (strcmp(pci.driver, FTH_NVME_PCI_KERNEL) == 0) {
		rc = open_kernel(source, &pci);
	} else if (strcmp(pci.driver, FTH_NVME_PCI_VFIO) == 0) {
		snprintf(source->name, sizeof(source->name), "nvme:%s", pci.bdf);
		rc = open_uri(source);
	} else {
		rc = fth_fail(ENODEV,
			      "bound to %s; expected driver nvme (fathom nvme unbind %s) or "
			      "vfio-pci (fathom nvme bind %s)",
			      pci.driver[0] ? pci.driver : "no driver", pci.bdf, pci.bdf);
	}
	fth_nvme_pci_release(&pci);
	return rc;
}

int nvme_source_open(struct nvme_source *source, const char *uri_or_bdf)
{
	char bdf[FTH_NVME_PCI_NAME];

	memset(source, 0, sizeof(*source));
	source->fd = -1;
	if (fth_nvme_pci_bdf(uri_or_bdf, bdf) == 0)
		return open_bdf(source, bdf);
	if (strlen(uri_or_bdf) >= sizeof(source->name))
		return fth_fail(ENAMETOOLONG, "the name is too long");
	memcpy(source->name, uri_or_bdf, strlen(uri_or_bdf) + 1);
	return open_uri(source);
}

void nvme_source_close(struct nvme_source *source)
{
	fth_dev_close(source->dev);
	if (source->fd >= 0)
		close(source->fd);
	source->dev = NULL;
	source->fd = -1;
}

/* An admin command through the kernel: a positive answer is an NVMe status. */
static int kernel_admin(struct nvme_source *source, struct nvme_admin_cmd *command)
{
	int rc;

	command->timeout_ms = KERNEL_TIMEOUT_MS;
	rc = ioctl(source->fd, NVME_IOCTL_ADMIN_CMD, command);
	if (rc < 0)
		return fth_fail(errno, "%s: %s%s", source->name, strerror(errno),
				errno == EACCES ? "; this requires root" : "");
	return fth_nvme_status_errno((uint32_t)rc);
}

int nvme_source_identify(struct nvme_source *source, uint32_t cns, uint32_t nsid, void *page)
{
	struct nvme_admin_cmd command = {.opcode = FTH_NVME_IDENTIFY,
					 .nsid = nsid,
					 .addr = (uintptr_t)page,
					 .data_len = FTH_NVME_IDENTIFY_SIZE,
					 .cdw10 = cns};

	return source->nvme ? fth_nvme_identify(source->nvme, cns, nsid, page)
			    : kernel_admin(source, &command);
}

int nvme_source_log(struct nvme_source *source, uint32_t id, void *buf, size_t len)
{
	struct nvme_admin_cmd command = {.opcode = FTH_NVME_GET_LOG_PAGE,
					 .nsid = FTH_NVME_NSID_ALL,
					 .addr = (uintptr_t)buf,
					 .data_len = (uint32_t)len};

	if (source->nvme)
		return fth_nvme_log_page(source->nvme, id, FTH_NVME_NSID_ALL, buf, len);
	command.cdw10 = id | FTH_NVME_LOG_RETAIN_EVENT |
			(uint32_t)(len / 4 - 1) << FTH_NVME_LOG_LENGTH_SHIFT;
	return kernel_admin(source, &command);
}
