/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A controller to ask, however it is reached: through our driver when it is given as a URI, or as
 * the PCI address of a drive that vfio-pci has; through the kernel's driver when that has it.
 */
#ifndef FTH_TOOLS_NVME_SOURCE_H
#define FTH_TOOLS_NVME_SOURCE_H

#include "nvme/driver.h"

#include <stdint.h>

struct nvme_source {
	char name[160];	       /* the URI, or /dev/nvme0 */
	struct fth_dev *dev;   /* ours, or NULL */
	struct fth_nvme *nvme; /* its driver */
	int fd;		       /* the kernel's, or -1 */
};

/* Where sys/, proc/ and dev/ are looked for: "" or what FATHOM_SYSROOT says. */
const char *nvme_sysroot(void);

/* 0, or a negative errno with its text. */
int nvme_source_open(struct nvme_source *source, const char *uri_or_bdf);
void nvme_source_close(struct nvme_source *source);

/* As fth_nvme_identify() and fth_nvme_log_page(). */
int nvme_source_identify(struct nvme_source *source, uint32_t cns, uint32_t nsid, void *page);
int nvme_source_log(struct nvme_source *source, uint32_t id, void *buf, size_t len);

#endif
