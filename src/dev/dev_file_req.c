/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a request to an entry of the ring, and from the kernel's answer to a result.
 *
 * The kernel may do less than it was asked for. What is left is then asked for again, piece by
 * piece when the request has several: that needs no copy of the vector, and it is rare.
 */
#include "dev/dev_file.h"

#include "fathom/hd/atomic.h"

#include <errno.h>
#include <linux/falloc.h>

int dev_file_req_refusal(const struct dev_file *file, const struct fth_dev_req *req)
{
	switch (req->op) {
	case FTH_DEV_READ:
		return 0;
	case FTH_DEV_FLUSH:
		/* relaxed: a flush that races with a failing one may go either way. */
		return -(int)fth_load_relaxed_dev32(&file->flush_error);
	default:
		return file->readonly ? -EROFS : 0;
	}
}

/* ---- preparing ---- */

struct iovec dev_file_req_rest(const struct fth_dev_req *req)
{
	const struct iovec *piece = req->iov;
	uint64_t done = req->scratch[0];

	while (done >= piece->iov_len)
		done -= piece++->iov_len;
	return (struct iovec){
		.iov_base = (char *)piece->iov_base + done,
		.iov_len = piece->iov_len - done,
	};
}

static void prepare_piece(struct chan_file *chan, struct io_uring_sqe *sqe, bool write,
			  struct iovec piece, uint64_t offset)
{
	int slot = chan_file_map_slot(chan, piece.iov_base, piece.iov_len);
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

static void prepare_transfer(struct chan_file *chan, struct io_uring_sqe *sqe,
			     struct fth_dev_req *req)
{
	bool write = req->op == FTH_DEV_WRITE;
	uint64_t done = req->scratch[0];

	if (req->iov_count == 1 || done > 0)
		prepare_piece(chan, sqe, write, dev_file_req_rest(req), req->offset + done);
	else
		io_uring_prep_rw(write ? IORING_OP_WRITEV : IORING_OP_READV, sqe, -1, req->iov,
				 req->iov_count, req->offset);
}

static void prepare_fallocate(struct io_uring_sqe *sqe, const struct fth_dev_req *req, int mode)
{
	io_uring_prep_fallocate(sqe, -1, mode | FALLOC_FL_KEEP_SIZE, (off_t)req->offset,
				(off_t)req->length);
}

static void prepare_zero(struct chan_file *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req)
{
	struct dev_file *file = chan_file_dev(chan);
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

void dev_file_req_prepare(struct chan_file *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req)
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
		sqe->fd = chan->fd;
	}
	sqe->user_data = (uint64_t)(uintptr_t)req;
}

/* ---- answers ---- */

/*
 * The kernel asks for another attempt. ECANCELED: the thread that submitted has ended, and the
 * kernel dropped what it had not begun; the channel goes on in another thread.
 */
static bool wants_retry(int answer)
{
	return answer == -EAGAIN || answer == -EINTR || answer == -ECANCELED;
}

static bool is_unsupported(int answer)
{
	return answer == -EOPNOTSUPP || answer == -ENOSYS;
}

static bool finish(struct fth_dev_req *req, int result)
{
	req->result = result;
	return true;
}

/* `moved` more bytes are done; nothing at all means that the file has become shorter. */
static bool progress(const struct dev_file *file, struct fth_dev_req *req, int moved)
{
	req->scratch[0] += (uint64_t)moved;
	if (req->scratch[0] == req->length)
		return finish(req, 0);
	/* Direct I/O stops inside a block at the end of the file only, and cannot go on there. */
	if (moved == 0 || (file->direct && req->scratch[0] % file->dev.info.block))
		return finish(req, -EIO);
	return false;
}

static bool transfer_answer(const struct dev_file *file, struct fth_dev_req *req, int answer)
{
	return answer < 0 ? finish(req, answer) : progress(file, req, answer);
}

static bool flush_answer(struct dev_file *file, struct fth_dev_req *req, int answer)
{
	uint32_t none = 0;

	/* Several flushes may fail at once; the first error stays. */
	if (answer < 0)
		fth_cas_acqrel_dev32(&file->flush_error, &none, (uint32_t)-answer);
	return finish(req, answer);
}

static void give_up_zero_way(struct dev_file *file, uint32_t way)
{
	uint32_t next = way == FILE_ZERO_RANGE && !file->is_block_device ? FILE_ZERO_PUNCH
									 : FILE_ZERO_WRITE;

	/* Another request may have given it up already, and even the one after. */
	fth_cas_acqrel_dev32(&file->zero_way, &way, next);
}

static bool zero_answer(struct dev_file *file, struct fth_dev_req *req, int answer)
{
	if (req->scratch[1] == FILE_ZERO_WRITE)
		return transfer_answer(file, req, answer);
	if (!is_unsupported(answer))
		return finish(req, answer);
	give_up_zero_way(file, (uint32_t)req->scratch[1]);
	return false;
}

bool dev_file_req_answer(struct dev_file *file, struct fth_dev_req *req, int answer)
{
	if (wants_retry(answer))
		return false;
	switch (req->op) {
	case FTH_DEV_READ:
	case FTH_DEV_WRITE:
		return transfer_answer(file, req, answer);
	case FTH_DEV_FLUSH:
		return flush_answer(file, req, answer);
	case FTH_DEV_DISCARD:
		return finish(req, is_unsupported(answer) ? 0 : answer);
	default:
		return zero_answer(file, req, answer);
	}
}
