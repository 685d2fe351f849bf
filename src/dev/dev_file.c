/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * file:PATH: blocks in a regular file or a block device, through io_uring.
 *
 * dev_file.h says which sibling does what, and what holds between them.
 */
#include "dev/dev_file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Also what is left of a device whose opening failed half-way. */
static void file_close(struct fth_dev *dev)
{
	struct dev_file *file = (struct dev_file *)dev;

	if (file->zeroes != MAP_FAILED)
		munmap(file->zeroes, FILE_ZEROES_BYTES);
	if (file->fd >= 0)
		close(file->fd);
	pthread_mutex_destroy(&file->map_lock);
	free(file);
}

const struct fth_dev_ops dev_file_ops = {
	.close = file_close,
	.chan_open = dev_file_chan_open,
	.chan_close = dev_file_chan_close,
	.submit = dev_file_submit,
	.reap = dev_file_reap,
	.map = dev_file_map,
	.unmap = dev_file_unmap,
};

const struct fth_dev_scheme fth_dev_scheme_file = {.name = "file", .open = dev_file_open};
