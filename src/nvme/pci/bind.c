/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A drive from the kernel's driver to vfio-pci and back.
 *
 * Invariants
 * 1. A drive leaves the kernel's driver only while every namespace is held exclusively by us:
 *    what is mounted, swap or part of another device can not be, and nobody mounts meanwhile.
 * 2. driver_override names vfio-pci only while vfio-pci has the drive: a bind that fails clears
 *    it and lets the kernel's driver have the drive again.
 */
#include "sysfs.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CLASS_BRIDGE   0x0604u /* the upper two bytes of the class */
#define DRIVER_WAIT_NS 2000000000ull
#define POLL_SLEEP_NS  10000000

/* ---- holding the namespaces ---- */

struct claim {
	int *fds;
	unsigned count;
};

static void claim_release(struct claim *claim)
{
	for (unsigned i = 0; i < claim->count; i++)
		close(claim->fds[i]);
	free(claim->fds);
	memset(claim, 0, sizeof(*claim));
}

/* Open a block device exclusively: the descriptor, or why not. */
static int open_exclusively(const char *root, const struct fth_nvme_pci_block *block)
{
	char path[FTH_NVME_PCI_PATH];
	struct stat st;
	int fd;

	pci_path(path, root, "/dev/%s", block->name);
	fd = fth_fd_open(path, O_RDONLY | O_EXCL | O_CLOEXEC, 0);
	if (fd < 0)
		return errno == EBUSY
			       ? fth_fail(EBUSY,
					  "%s is in use: a file system or another process holds it "
					  "exclusively",
					  block->name)
			       : fth_fail(errno, "%s: %s: cannot find out whether it is in use",
					  path, strerror(errno));
	/* Only in a tree of a test may it be something else than the device. */
	if (fstat(fd, &st) < 0 ||
	    (S_ISBLK(st.st_mode) ? st.st_rdev != makedev(block->major, block->minor)
				 : root[0] == '\0')) {
		close(fd);
		return fth_fail(EINVAL, "%s is not the block device %u:%u", path, block->major,
				block->minor);
	}
	return fd;
}

/* Which partition is it that keeps us from having the whole disk? */
static int blame_partition(const char *root, const struct fth_nvme_pci *pci, unsigned disk, int rc)
{
	for (unsigned i = disk + 1; i < pci->block_count && pci->blocks[i].partition; i++) {
		int fd = open_exclusively(root, &pci->blocks[i]);

		if (fd == -EBUSY)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	/* None: leave the text that names the disk itself. */
	return rc == -EBUSY ? fth_fail(EBUSY,
				       "%s is in use: a file system or another process holds it "
				       "exclusively",
				       pci->blocks[disk].name)
			    : rc;
}

/* An exclusive open of a disk excludes those of its partitions as well. */
static int claim_disks(const char *root, const struct fth_nvme_pci *pci, struct claim *claim)
{
	memset(claim, 0, sizeof(*claim));
	for (unsigned i = 0; i < pci->block_count; i++) {
		int fd, *place;

		if (pci->blocks[i].partition)
			continue;
		fd = open_exclusively(root, &pci->blocks[i]);
		if (fd == -EBUSY)
			fd = blame_partition(root, pci, i, fd);
		place = fd < 0 ? NULL : pci_append(&claim->fds, &claim->count, sizeof(*place));
		if (!place) {
			if (fd >= 0)
				close(fd);
			claim_release(claim);
			return fd < 0 ? fd : -ENOMEM;
		}
		*place = fd;
	}
	return 0;
}

/* ---- may it? ---- */

struct group {
	const char *root;
	const struct fth_nvme_pci *pci;
	const char *const *together;
	unsigned n;
};

static bool is_together(const struct group *group, const char *bdf)
{
	for (unsigned i = 0; i < group->n; i++)
		if (strcmp(group->together[i], bdf) == 0)
			return true;
	return strcmp(group->pci->bdf, bdf) == 0;
}

/* Another function of the group: VFIO needs it without a driver, or with its own. */
static int check_peer(const char *bdf, void *arg)
{
	const struct group *group = arg;
	char path[FTH_NVME_PCI_PATH], driver[FTH_NVME_PCI_NAME];
	uint64_t class = 0;

	if (is_together(group, bdf))
		return 0;
	pci_path(path, group->root, "/sys/bus/pci/devices/%s/class", bdf);
	(void)pci_read_number(path, 16, &class);
	pci_path(path, group->root, "/sys/bus/pci/devices/%s/driver", bdf);
	if (class >> 8 == CLASS_BRIDGE || pci_link_name(path, driver, sizeof(driver)) < 0 ||
	    strcmp(driver, FTH_NVME_PCI_VFIO) == 0 || strcmp(driver, "pci-stub") == 0)
		return 0;
	return fth_fail(EBUSY,
			"%s (driver %s) is also in IOMMU group %d, and a group must be bound as a "
			"whole: bind both, or unbind that one",
			bdf, driver, group->pci->iommu_group);
}

int fth_nvme_pci_may_bind(const char *root, const struct fth_nvme_pci *pci,
			  const char *const *together, unsigned n)
{
	struct group group = {root, pci, together, n};
	char path[FTH_NVME_PCI_PATH];
	struct claim claim;
	int rc;

	if (pci->use_count > 0)
		return fth_fail(EBUSY, "%s %s", pci->uses[0].name, pci->uses[0].what);
	if (pci->iommu_group < 0)
		return fth_fail(ENODEV,
				"not in an IOMMU group: enable the IOMMU in the firmware setup and "
				"with intel_iommu=on or amd_iommu=on on the kernel command line");
	pci_path(path, root, "/sys/bus/pci/devices/%s/iommu_group/devices", pci->bdf);
	rc = pci_each(path, check_peer, &group);
	if (rc == 0)
		rc = claim_disks(root, pci, &claim);
	if (rc == 0)
		claim_release(&claim);
	return rc;
}

/* A group is open once at most, so whoever can open it knows that nobody uses it. */
int fth_nvme_pci_may_unbind(const char *root, const struct fth_nvme_pci *pci)
{
	char path[FTH_NVME_PCI_PATH];
	int fd;

	if (strcmp(pci->driver, FTH_NVME_PCI_VFIO) != 0 || pci->iommu_group < 0)
		return 0;
	pci_path(path, root, "/dev/vfio/%d", pci->iommu_group);
	fd = fth_fd_open(path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0 && errno == EBUSY)
		return fth_fail(EBUSY, "a process uses %s (IOMMU group %d)", pci->bdf,
				pci->iommu_group);
	if (fd >= 0)
		close(fd);
	return 0;
}

/* ---- doing it ---- */

bool fth_nvme_pci_has_driver(const char *root, const char *driver)
{
	char path[FTH_NVME_PCI_PATH];

	pci_path(path, root, "/sys/bus/pci/drivers/%s", driver);
	return access(path, F_OK) == 0;
}

static void set_step(struct fth_nvme_pci_step *step, const char *value)
{
	snprintf(step->value, sizeof(step->value), "%s", value);
}

int fth_nvme_pci_plan(const char *root, const struct fth_nvme_pci *pci, bool bind,
		      struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX])
{
	int n = 0;

	pci_path(steps[n].path, root, "/sys/bus/pci/devices/%s/driver_override", pci->bdf);
	set_step(&steps[n++], bind ? FTH_NVME_PCI_VFIO : "\n"); /* an empty line clears it */
	if (pci->driver[0]) {
		pci_path(steps[n].path, root, "/sys/bus/pci/drivers/%s/unbind", pci->driver);
		set_step(&steps[n++], pci->bdf);
	}
	pci_path(steps[n].path, root, "/sys/bus/pci/drivers_probe");
	set_step(&steps[n++], pci->bdf);
	return n;
}

static int write_step(const struct fth_nvme_pci_step *step)
{
	int fd = fth_fd_open(step->path, O_WRONLY | O_TRUNC | O_CLOEXEC, 0), rc = 0;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", step->path, strerror(errno));
	if (write(fd, step->value, strlen(step->value)) < 0)
		rc = fth_fail(errno, "%s: %s", step->path, strerror(errno));
	if (close(fd) < 0 && rc == 0)
		rc = fth_fail(errno, "%s: %s", step->path, strerror(errno));
	return rc;
}

/* Wait, not for long, until the driver has the function. */
static int wait_driver(const char *root, const struct fth_nvme_pci *pci, const char *wanted)
{
	uint64_t deadline = fth_deadline_ns(DRIVER_WAIT_NS);
	const struct timespec pause = {0, POLL_SLEEP_NS};
	char path[FTH_NVME_PCI_PATH], driver[FTH_NVME_PCI_NAME];

	pci_path(path, root, "/sys/bus/pci/devices/%s/driver", pci->bdf);
	for (;;) {
		if (pci_link_name(path, driver, sizeof(driver)) == 0 && strcmp(driver, wanted) == 0)
			return 0;
		if (fth_now_ns() >= deadline)
			return fth_fail(EIO, "%s did not bind %s; its driver is %s", wanted,
					pci->bdf, driver[0] ? driver : "none");
		nanosleep(&pause, NULL);
	}
}

static int carry_out(const char *root, const struct fth_nvme_pci *pci, bool bind)
{
	struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX];
	int n = fth_nvme_pci_plan(root, pci, bind, steps), rc = 0;

	for (int i = 0; rc == 0 && i < n; i++)
		rc = write_step(&steps[i]);
	return rc < 0 ? rc : wait_driver(root, pci, bind ? FTH_NVME_PCI_VFIO : FTH_NVME_PCI_KERNEL);
}

/* After a bind that failed: the kernel's driver shall have it again (invariant 2). */
static void undo(const char *root, const struct fth_nvme_pci *pci)
{
	struct fth_nvme_pci now = *pci;
	struct fth_nvme_pci_step steps[FTH_NVME_PCI_STEPS_MAX];
	char path[FTH_NVME_PCI_PATH];
	int n;

	pci_path(path, root, "/sys/bus/pci/devices/%s/driver", pci->bdf);
	(void)pci_link_name(path, now.driver, sizeof(now.driver));
	if (strcmp(now.driver, pci->driver) == 0)
		now.driver[0] = '\0'; /* it never went: only the override is to be cleared */
	n = fth_nvme_pci_plan(root, &now, false, steps);
	/* As far as it goes: the error that is told is the first one. */
	for (int i = 0; i < n; i++)
		(void)write_step(&steps[i]);
}

int fth_nvme_pci_bind(const char *root, const struct fth_nvme_pci *pci)
{
	char why[FTH_ERROR_TEXT_MAX];
	struct claim claim;
	int rc = claim_disks(root, pci, &claim);

	if (rc < 0)
		return rc;
	rc = carry_out(root, pci, true);
	claim_release(&claim);
	if (rc < 0) {
		snprintf(why, sizeof(why), "%s", fth_error_text(rc));
		undo(root, pci);
		return fth_fail(-rc, "%s", why);
	}
	return 0;
}

int fth_nvme_pci_unbind(const char *root, const struct fth_nvme_pci *pci)
{
	return carry_out(root, pci, false);
}
