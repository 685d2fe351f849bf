/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file:PATH: blocks in a regular file or a block device, through io_uring or through threads.
 *
 * dev_file.h says which sibling does what, and what holds between them.
 */
#include "dev/file/dev_file.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Also what is left of a device whose opening failed half-way. */
void dev_file_close(struct fth_dev *dev)
{
	struct dev_file *file = (struct dev_file *)dev;

	if (file->engine->close)
		file->engine->close(file);
	if (file->zeroes != MAP_FAILED)
		munmap(file->zeroes, FILE_ZEROES_BYTES);
	if (file->tail_fd >= 0)
		close(file->tail_fd);
	if (file->fd >= 0)
		close(file->fd);
	pthread_mutex_destroy(&file->map_lock);
	free(file);
}

/*
 * Errors of the probe that say that io_uring cannot be had here, rather than that something is
 * wrong: no such system call, a sysctl or a container's filter, a limit on locked memory.
 */
static bool is_unavailable(int rc)
{
	return rc == -ENOSYS || rc == -EPERM || rc == -EACCES || rc == -ENOMEM;
}

int dev_file_choose_engine(const char *name, const struct file_engine **out)
{
	bool any = strcmp(name, "auto") == 0;
	int rc;

	*out = &dev_file_threads;
	if (strcmp(name, dev_file_threads.name) == 0)
		return 0;
	if (!any && strcmp(name, dev_file_uring.name) != 0)
		return fth_fail(EINVAL, "engine=%s is not one of auto, uring and threads", name);
	rc = dev_file_uring.probe();
	if (any && is_unavailable(rc))
		return 0;
	*out = &dev_file_uring;
	return rc;
}

const struct fth_dev_scheme fth_dev_scheme_file = {.name = "file", .open = dev_file_open};
