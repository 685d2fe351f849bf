/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control block and the marks: memory that persisting threads, GPUs among them, share with
 * write-back. One mapping of a memfd, since CUDA can register that.
 */
#include "pm/pm_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Marks are taken 8 at a time. */
static uint64_t round_words(uint64_t bytes)
{
	return (bytes + 7) & ~(uint64_t)7;
}

static uint64_t marks_bytes(const struct fth_pm *pm)
{
	return pm->view.mode == FTH_PM_MODE_WRITE_BACK ? round_words(pm->length / FTH_PM_PAGE) : 0;
}

static uint64_t coarse_bytes(const struct fth_pm *pm)
{
	return round_words((marks_bytes(pm) >> FTH_PM_COARSE_SHIFT) + 1);
}

uint64_t fth_pm_control_bytes(const struct fth_pm *pm)
{
	uint64_t bytes = FTH_PM_PAGE;

	if (pm->view.mode == FTH_PM_MODE_WRITE_BACK)
		bytes += marks_bytes(pm) + coarse_bytes(pm);
	return (bytes + FTH_PM_PAGE - 1) / FTH_PM_PAGE * FTH_PM_PAGE;
}

static int map_control(uint64_t bytes, void **out)
{
	int fd = fth_fd_high(memfd_create("fathom-pm-control", MFD_CLOEXEC)), rc = 0;

	if (fd < 0)
		return fth_fail(-fd, "cannot map the control block: %s", strerror(-fd));
	*out = MAP_FAILED;
	if (ftruncate(fd, (off_t)bytes) == 0)
		*out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*out == MAP_FAILED)
		rc = fth_fail(errno, "cannot map the control block: %s", strerror(errno));
	close(fd);
	return rc;
}

int pm_control_open(struct fth_pm *pm)
{
	void *memory;
	int rc = map_control(fth_pm_control_bytes(pm), &memory);

	if (rc < 0)
		return rc;
	pm->view.control = memory;
	if (pm->view.mode == FTH_PM_MODE_WRITE_BACK) {
		pm->view.marks = (uint8_t *)memory + FTH_PM_PAGE;
		pm->view.coarse = (uint8_t *)memory + FTH_PM_PAGE + marks_bytes(pm);
	}
	return 0;
}

void pm_control_close(struct fth_pm *pm)
{
	if (pm->view.control)
		munmap(pm->view.control, fth_pm_control_bytes(pm));
	pm->view.control = NULL;
}
