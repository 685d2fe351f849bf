/* SPDX-License-Identifier: BSD-2-Clause */
/* A request as an entry of the ring. */
#include "dev/file/dev_file.h"

#include "fathom/hd/atomic.h"

#include <linux/falloc.h>

static void prepare_piece(struct chan_ring *chan, struct io_uring_sqe *sqe, bool write,
			  struct iovec piece, uint64_t offset)
{
	int slot = chan_ring_map_slot(chan, piece.iov_base, piece.iov_len);
	unsigned len = (unsigned)piece.iov_len;

	if (slot >= 0) {
		io_uring_prep_rw(write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED, sqe, -1,
				 piece.iov_base, len, offset);
		sqe->buf_index = (__u16)slot;
	} else {
		io_uring_prep_rw(write ? IORING_OP_WRITE : IORING_OP_READ, sqe, -1, piece.iov_base,
				 len, offset);
	}
}

static void prepare_transfer(struct chan_ring *chan, struct io_uring_sqe *sqe,
			     struct fth_dev_req *req)
{
	bool write = req->op == FTH_DEV_WRITE;
	uint64_t done = req->scratch[0];

	if (req->iov_count == 1 || done > 0)
		prepare_piece(chan, sqe, write, dev_file_req_rest(req), req->offset + done);
	else
		io_uring_prep_rw(write ? IORING_OP_WRITEV : IORING_OP_READV, sqe, -1, req->iov,
				 req->iov_count, req->offset);
	if (req->flags & FTH_DEV_FUA)
		sqe->rw_flags = RWF_DSYNC;
}

static void prepare_fallocate(struct io_uring_sqe *sqe, const struct fth_dev_req *req, int mode)
{
	io_uring_prep_fallocate(sqe, -1, mode | FALLOC_FL_KEEP_SIZE, (off_t)req->offset,
				(off_t)req->length);
}

static void prepare_zero(struct chan_ring *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req)
{
	struct dev_file *file = chan_file_dev(&chan->file);
	uint64_t left = req->length - req->scratch[0];

	/* relaxed: an old value costs one more attempt. */
	req->scratch[1] = fth_load_relaxed_dev32(&file->zero_way);
	if (req->scratch[1] == FILE_ZERO_RANGE)
		prepare_fallocate(sqe, req, FALLOC_FL_ZERO_RANGE);
	else if (req->scratch[1] == FILE_ZERO_PUNCH)
		prepare_fallocate(sqe, req, FALLOC_FL_PUNCH_HOLE);
	else
		io_uring_prep_rw(IORING_OP_WRITE, sqe, -1, file->zeroes,
				 left < FILE_ZEROES_BYTES ? (unsigned)left : FILE_ZEROES_BYTES,
				 req->offset + req->scratch[0]);
}

void chan_ring_prepare(struct chan_ring *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req)
{
	switch (req->op) {
	case FTH_DEV_READ:
	case FTH_DEV_WRITE:
		prepare_transfer(chan, sqe, req);
		break;
	case FTH_DEV_FLUSH:
		io_uring_prep_fsync(sqe, -1, IORING_FSYNC_DATASYNC);
		break;
	case FTH_DEV_DISCARD:
		prepare_fallocate(sqe, req, FALLOC_FL_PUNCH_HOLE);
		break;
	default:
		prepare_zero(chan, sqe, req);
		break;
	}
	if (chan->has_file_slot) {
		sqe->fd = 0;
		sqe->flags = IOSQE_FIXED_FILE;
	} else {
		sqe->fd = chan->file.fd;
	}
	sqe->user_data = (uint64_t)(uintptr_t)req;
}
