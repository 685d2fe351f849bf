/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that are done while they are submitted.
 *
 * io_uring tries a request without blocking first, and a filesystem that cannot promise not to
 * block has it sent to a worker thread. Filesystems in memory (tmpfs, ramfs) are among these,
 * although there is nothing to wait for: waking the worker costs several times the copy. So a small
 * transfer there is a plain system call if it is alone. With others in flight the workers are kept
 * busy with a few, so that they copy on other cores while the submitter copies the rest. Large
 * transfers always go to the workers.
 */
#include "dev/dev_file.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

bool dev_file_lives_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static ssize_t transfer_vector(int fd, const struct fth_dev_req *req)
{
	if (req->op == FTH_DEV_WRITE)
		return pwritev(fd, req->iov, (int)req->iov_count, (off_t)req->offset);
	return preadv(fd, req->iov, (int)req->iov_count, (off_t)req->offset);
}

static ssize_t transfer_piece(int fd, const struct fth_dev_req *req)
{
	struct iovec piece = dev_file_req_rest(req);
	off_t offset = (off_t)(req->offset + req->scratch[0]);

	if (req->op == FTH_DEV_WRITE)
		return pwrite(fd, piece.iov_base, piece.iov_len, offset);
	return pread(fd, piece.iov_base, piece.iov_len, offset);
}

/* One system call for all of the request, or for what is left of one of its pieces. */
static int transfer(int fd, const struct fth_dev_req *req)
{
	bool one = req->iov_count == 1 || req->scratch[0] > 0;
	ssize_t n = one ? transfer_piece(fd, req) : transfer_vector(fd, req);

	return n < 0 ? -errno : (int)n;
}

static bool is_for_us(const struct chan_file *chan, const struct fth_dev_req *req)
{
	if (req->length > chan_file_dev(chan)->inline_max || req->op > FTH_DEV_WRITE)
		return false;
	return chan->chan.in_flight == 0 || chan->with_kernel >= FILE_WORKERS_MAX;
}

bool chan_file_inline(struct chan_file *chan, struct fth_dev_req *req)
{
	struct dev_file *file = chan_file_dev(chan);

	if (!is_for_us(chan, req))
		return false;
	for (;;) {
		int answer = transfer(chan->fd, req);

		if (dev_file_req_answer(file, req, answer))
			return true;
		/* Asked to try again: the ring does that, and what was done stays done. */
		if (answer < 0)
			return false;
	}
}
