/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tail=on: a file that ends inside a block, read and written with direct I/O all the same. The
 * device is longer than the file, up to a whole block; requests that reach behind the end of the
 * file are done here, inside submit, through the page cache, cut at the end of the file. So the
 * file never becomes longer, whatever happens in between. The kernel keeps the two ways coherent:
 * it writes back and drops cached pages before direct I/O on them.
 */
#include "dev/file/dev_file.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int dev_file_tail_open(struct dev_file *file, uint64_t end)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	file->tail_fd = fth_fd_open(path, file->open_flags & ~O_DIRECT, 0);
	if (file->tail_fd < 0)
		return fth_fail(errno, "tail=on: cannot open the file again: %s", strerror(errno));
	file->end = end;
	return 0;
}

/* One piece of memory; what is behind the end of the file reads as zeroes. */
static int transfer_piece(const struct dev_file *file, enum fth_dev_op op, uint8_t *at,
			  uint64_t length, uint64_t offset)
{
	uint64_t inside = offset < file->end ? file->end - offset : 0, done = 0;

	inside = inside < length ? inside : length;
	while (done < inside) {
		ssize_t n = op == FTH_DEV_READ ? pread(file->tail_fd, at + done, inside - done,
						       (off_t)(offset + done))
					       : pwrite(file->tail_fd, at + done, inside - done,
							(off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO; /* the file was cut */
		done += n > 0 ? (uint64_t)n : 0;
	}
	if (op == FTH_DEV_READ)
		memset(at + inside, 0, length - inside);
	return 0;
}

static int zero_tail(const struct dev_file *file, const struct fth_dev_req *req)
{
	uint64_t at = 0;
	int rc = 0;

	while (rc == 0 && at < req->length) {
		uint64_t n = req->length - at;

		n = n < FILE_ZEROES_BYTES ? n : FILE_ZEROES_BYTES;
		rc = transfer_piece(file, FTH_DEV_WRITE, file->zeroes, n, req->offset + at);
		at += n;
	}
	return rc;
}

bool chan_file_tail(struct chan_file *chan, struct fth_dev_req *req)
{
	const struct dev_file *file = chan_file_dev(chan);
	uint64_t offset = req->offset;
	int rc = 0;

	if (file->tail_fd < 0 || req->op == FTH_DEV_FLUSH || req->offset + req->length <= file->end)
		return false;
	if (req->op == FTH_DEV_ZERO)
		rc = zero_tail(file, req);
	for (unsigned k = 0; req->op <= FTH_DEV_WRITE && k < req->iov_count && rc == 0; k++) {
		rc = transfer_piece(file, req->op, req->iov[k].iov_base, req->iov[k].iov_len,
				    offset);
		offset += req->iov[k].iov_len;
	}
	if (rc == 0 && req->flags & FTH_DEV_FUA && fdatasync(file->tail_fd) < 0)
		rc = -errno;
	req->result = rc;
	return true;
}
