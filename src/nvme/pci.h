/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The NVMe functions on this machine's PCI bus, as sysfs shows them: which driver has each, who
 * uses its blocks, and how one is handed from the kernel's driver to vfio-pci and back.
 *
 *	struct fth_nvme_pci pci;
 *
 *	fth_nvme_pci_get("", "0000:01:00.0", &pci);
 *	if (fth_nvme_pci_may_bind("", &pci, NULL, 0) == 0)
 *		fth_nvme_pci_bind("", &pci);
 *	fth_nvme_pci_release(&pci);
 *
 * `root` is a folder that has sys/, proc/ and dev/ in it; "" stands for the system itself. Tests
 * give a tree of their own.
 *
 * A drive that somebody uses is never taken from the kernel: see fth_nvme_pci_may_bind().
 */
#ifndef FATHOM_NVME_PCI_H
#define FATHOM_NVME_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FTH_NVME_PCI_NAME 32
#define FTH_NVME_PCI_TEXT 256
#define FTH_NVME_PCI_PATH 1024
#define FTH_NVME_PCI_BARS 6

/* A block device of the kernel on a drive: a namespace or a partition of one. */
struct fth_nvme_pci_block {
	char name[FTH_NVME_PCI_NAME]; /* "nvme0n1", "nvme0n1p2" */
	uint32_t major, minor;
	uint64_t size; /* bytes */
	bool partition;
};

/* A reason not to take a drive away. */
struct fth_nvme_pci_use {
	char name[FTH_NVME_PCI_NAME]; /* what is used: a block device, or one made of it */
	char what[FTH_NVME_PCI_TEXT]; /* "is mounted at /home" */
};

/* One NVMe function (class 01 08 02). Text that is not known is "". */
struct fth_nvme_pci {
	char bdf[FTH_NVME_PCI_NAME]; /* "0000:01:00.0" */
	uint16_t vendor, device;
	char driver[FTH_NVME_PCI_NAME];		 /* "nvme", "vfio-pci", or none */
	char driver_override[FTH_NVME_PCI_NAME]; /* the only driver it may have, or none */
	char controller[FTH_NVME_PCI_NAME];	 /* the kernel's name for it: "nvme0" */
	char model[FTH_NVME_PCI_TEXT], serial[FTH_NVME_PCI_TEXT];
	int numa_node;	 /* -1: unknown */
	int iommu_group; /* -1: none */
	uint64_t bar_size[FTH_NVME_PCI_BARS];
	unsigned block_count, use_count;
	struct fth_nvme_pci_block *blocks;
	struct fth_nvme_pci_use *uses;
};

/* "01:00.0" or "0000:01:00.0" in its long form. 0, or -EINVAL if it is no PCI address. */
int fth_nvme_pci_bdf(const char *text, char bdf[FTH_NVME_PCI_NAME]);

/*
 * Look at one function. 0 and *pci filled, to be released; or *pci empty and -ENODEV (no such
 * function), -EINVAL (it is no NVMe controller), -ENOMEM. Any thread. Who is not root may not see
 * every process that has a drive open.
 */
int fth_nvme_pci_get(const char *root, const char *bdf, struct fth_nvme_pci *pci);
void fth_nvme_pci_release(struct fth_nvme_pci *pci);

/* Look at all of them, by address. How many, and *list to be freed; or a negative errno. */
int fth_nvme_pci_list(const char *root, struct fth_nvme_pci **list);
void fth_nvme_pci_list_free(struct fth_nvme_pci *list, int count);

/*
 * May this drive be handed to vfio-pci? 0, or with a text that names the reason:
 *
 *	-EBUSY	it or a partition is mounted, swap, part of another block device (dm, md), open in
 *		a process, or open exclusively by anybody, the kernel included; or another function
 *		of its IOMMU group has a driver, unless that is one of the n addresses `together`
 *	-ENODEV	it is in no IOMMU group
 *	-E...	a block device can not be opened to find out
 */
int fth_nvme_pci_may_bind(const char *root, const struct fth_nvme_pci *pci,
			  const char *const *together, unsigned n);

/* May it be given back to the kernel's driver? 0, or -EBUSY while a process uses it. */
int fth_nvme_pci_may_unbind(const char *root, const struct fth_nvme_pci *pci);

/* A text that is written to a file of sysfs. */
struct fth_nvme_pci_step {
	char path[FTH_NVME_PCI_PATH];
	char value[FTH_NVME_PCI_NAME];
};

#define FTH_NVME_PCI_STEPS_MAX 3

/* What bind (or unbind) writes, in order. Returns how many steps. */
int fth_nvme_pci_plan(const char *root, const struct fth_nvme_pci *pci, bool bind,
		      struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX]);

/*
 * Hand the drive to vfio-pci, or back to nvme. 0 once the driver has it. If it does not take it
 * within two seconds, or a step fails, bind gives the drive back to the kernel's driver and
 * returns why. bind holds every namespace exclusively while it works, so that nobody can mount
 * it in between, and refuses with -EBUSY where that fails; the rest of may_bind is the caller's
 * to ask. Needs root, and the driver to be loaded (fth_nvme_pci_has_driver()). To be left in
 * peace by signals is the caller's business as well.
 */
int fth_nvme_pci_bind(const char *root, const struct fth_nvme_pci *pci);
int fth_nvme_pci_unbind(const char *root, const struct fth_nvme_pci *pci);

#define FTH_NVME_PCI_VFIO   "vfio-pci"
#define FTH_NVME_PCI_KERNEL "nvme"

/* Is a driver of that name loaded? */
bool fth_nvme_pci_has_driver(const char *root, const char *driver);

#ifdef __cplusplus
}
#endif
#endif
