/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The door and the marks: memory that persisting threads, GPUs among them, share with the drain. One mapping of a memfd,
 * since CUDA can register that.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "pm/pm_internal.h"

/* Marks are taken 8 at a time. */
static uint64_t round_words(uint64_t bytes)
{
	return (bytes + 7) & ~(uint64_t)7;
}

static uint64_t marks_bytes(const struct fth_pm *pm)
{
	return pm->view.mode == FTH_PM_MODE_DRAIN ? round_words(pm->length / FTH_PM_PAGE) : 0;
}

static uint64_t coarse_bytes(const struct fth_pm *pm)
{
	return round_words((marks_bytes(pm) >> FTH_PM_COARSE_SHIFT) + 1);
}

static uint64_t door_bytes(const struct fth_pm *pm)
{
	uint64_t bytes = FTH_PM_PAGE;

	if (pm->view.mode == FTH_PM_MODE_DRAIN)
		bytes += marks_bytes(pm) + coarse_bytes(pm);
	return (bytes + FTH_PM_PAGE - 1) / FTH_PM_PAGE * FTH_PM_PAGE;
}

static int map_door(uint64_t bytes, void **out)
{
	int fd = fth_fd_high(memfd_create("fathom-pm-door", MFD_CLOEXEC)), rc = 0;

	if (fd < 0)
		return fth_fail(-fd, "cannot map the doorbell memory: %s", strerror(-fd));
	*out = MAP_FAILED;
	if (ftruncate(fd, (off_t)bytes) == 0)
		*out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*out == MAP_FAILED)
		rc = fth_fail(errno, "cannot map the doorbell memory: %s", strerror(errno));
	close(fd);
	return rc;
}

int pm_door_open(struct fth_pm *pm)
{
	void *memory;
	int rc = map_door(door_bytes(pm), &memory);

	if (rc < 0)
		return rc;
	pm->view.door = memory;
	if (pm->view.mode == FTH_PM_MODE_DRAIN) {
		pm->view.marks = (uint8_t *)memory + FTH_PM_PAGE;
		pm->view.coarse = (uint8_t *)memory + FTH_PM_PAGE + marks_bytes(pm);
	}
	return 0;
}

void pm_door_close(struct fth_pm *pm)
{
	if (pm->view.door)
		munmap(pm->view.door, door_bytes(pm));
	pm->view.door = NULL;
}
