/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request as a system call: what chan_ring_prepare() is for a ring, for a thread that may block.
 */
#include "dev/file/dev_file.h"

#include "fathom/hd/atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/uio.h>
#include <unistd.h>

static int answer_of(ssize_t n)
{
	return n < 0 ? -errno : (int)n;
}

/* Some filesystems, and systems that imitate Linux such as gVisor, do not know the flag. */
static int write_durably(int fd, const struct iovec *pieces, int count, off_t offset)
{
	ssize_t n = pwritev2(fd, pieces, count, offset, RWF_DSYNC);

	if (n < 0 && errno == EOPNOTSUPP) {
		n = pwritev(fd, pieces, count, offset);
		if (n > 0 && fdatasync(fd) < 0)
			n = -1;
	}
	return answer_of(n);
}

static int call_vector(int fd, const struct fth_dev_req *req, int flags)
{
	int count = (int)req->iov_count;

	if (req->op == FTH_DEV_WRITE)
		return answer_of(pwritev2(fd, req->iov, count, (off_t)req->offset, flags));
	return answer_of(preadv2(fd, req->iov, count, (off_t)req->offset, flags));
}

/* Without a vector and flags, which cost a tenth of a copy of 4 KiB. */
static int call_piece(int fd, const struct fth_dev_req *req)
{
	struct iovec piece = dev_file_req_rest(req);
	off_t offset = (off_t)(req->offset + req->scratch[0]);

	if (req->flags & FTH_DEV_FUA)
		return write_durably(fd, &piece, 1, offset);
	if (req->op == FTH_DEV_WRITE)
		return answer_of(pwrite(fd, piece.iov_base, piece.iov_len, offset));
	return answer_of(pread(fd, piece.iov_base, piece.iov_len, offset));
}

/* All of the request, or what is left of one of its pieces. */
int dev_file_call_transfer(int fd, const struct fth_dev_req *req)
{
	bool one = req->iov_count == 1 || req->scratch[0] > 0;

	if (one)
		return call_piece(fd, req);
	if (req->flags & FTH_DEV_FUA)
		return write_durably(fd, req->iov, (int)req->iov_count, (off_t)req->offset);
	return call_vector(fd, req, 0);
}

/* For requests that nothing was done of yet. */
int dev_file_call_cached(int fd, const struct fth_dev_req *req)
{
	return call_vector(fd, req, RWF_NOWAIT);
}

static int call_fallocate(int fd, const struct fth_dev_req *req, int mode)
{
	return answer_of(
		fallocate(fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)req->offset, (off_t)req->length));
}

static int call_zero(struct dev_file *file, int fd, struct fth_dev_req *req)
{
	uint64_t left = req->length - req->scratch[0];

	/* relaxed: an old value costs one more attempt. */
	req->scratch[1] = fth_load_relaxed_dev32(&file->zero_way);
	if (req->scratch[1] == FILE_ZERO_RANGE)
		return call_fallocate(fd, req, FALLOC_FL_ZERO_RANGE);
	if (req->scratch[1] == FILE_ZERO_PUNCH)
		return call_fallocate(fd, req, FALLOC_FL_PUNCH_HOLE);
	return answer_of(pwrite(fd, file->zeroes,
				left < FILE_ZEROES_BYTES ? left : FILE_ZEROES_BYTES,
				(off_t)(req->offset + req->scratch[0])));
}

int dev_file_call(struct dev_file *file, int fd, struct fth_dev_req *req)
{
	switch (req->op) {
	case FTH_DEV_READ:
	case FTH_DEV_WRITE:
		return dev_file_call_transfer(fd, req);
	case FTH_DEV_FLUSH:
		return answer_of(fdatasync(fd));
	case FTH_DEV_DISCARD:
		return call_fallocate(fd, req, FALLOC_FL_PUNCH_HOLE);
	default:
		return call_zero(file, fd, req);
	}
}
