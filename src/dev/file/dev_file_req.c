/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the kernel's answers to a request's result, whichever engine asked.
 *
 * The kernel may do less than it was asked for. What is left is then asked for again, piece by
 * piece when the request has several: that needs no copy of the vector, and it is rare.
 */
#include "dev/file/dev_file.h"

#include "fathom/hd/atomic.h"

#include <errno.h>

/* relaxed: a flush that races with a failing one may go either way. */
static int flush_refusal(const struct dev_file *file)
{
	return -(int)fth_load_relaxed_dev32(&file->flush_error);
}

int dev_file_req_refusal(const struct dev_file *file, const struct fth_dev_req *req)
{
	switch (req->op) {
	case FTH_DEV_READ:
		return 0;
	case FTH_DEV_FLUSH:
		return flush_refusal(file);
	default:
		if (file->readonly)
			return -EROFS;
		return req->flags & FTH_DEV_FUA ? flush_refusal(file) : 0;
	}
}

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

/* Several flushes may fail at once; the first error stays. */
static void keep_flush_error(struct dev_file *file, int answer)
{
	uint32_t none = 0;

	if (answer < 0)
		fth_cas_acqrel_dev32(&file->flush_error, &none, (uint32_t)-answer);
}

static bool flush_answer(struct dev_file *file, struct fth_dev_req *req, int answer)
{
	keep_flush_error(file, answer);
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
		if (req->flags & FTH_DEV_FUA)
			keep_flush_error(file, answer); /* it may be that of the flush */
		return transfer_answer(file, req, answer);
	case FTH_DEV_FLUSH:
		return flush_answer(file, req, answer);
	case FTH_DEV_DISCARD:
		return finish(req, is_unsupported(answer) ? 0 : answer);
	default:
		return zero_answer(file, req, answer);
	}
}
