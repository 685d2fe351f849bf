/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of a channel that both engines share: what comes before the engine and after it, and
 * transfers that are done while they are submitted.
 *
 * io_uring tries a request without blocking first, and a filesystem that cannot promise not to
 * block has it sent to a worker thread. Filesystems in memory (tmpfs, ramfs) are among these,
 * although there is nothing to wait for: waking the worker costs several times the copy. So a small
 * transfer there is a plain system call if it is alone. With others in flight the workers are kept
 * busy with a few, so that they copy on other cores while the submitter copies the rest. Large
 * transfers always go to the workers. The threads of the other engine are such workers too.
 *
 * With inline=on a flush that is alone is a plain system call as well. That saves two wake-ups, and
 * gives up the deadline of the waiting thread.
 *
 * A small read that finds its data in the page cache is done here as well with engine=threads:
 * RWF_NOWAIT reads no more than is there. io_uring does so by itself.
 */
#include "dev/file/dev_file.h"

#include "fathom/base/fd.h"
#include "fathom/hd/atomic.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The same file with a description of its own; dev_file_flush.c says why. */
static int reopen(const struct dev_file *file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	fd = fth_fd_open(path, file->open_flags, 0);
	return fd >= 0 ? fd : file->fd;
}

void chan_file_init(struct chan_file *chan, struct dev_file *file)
{
	chan->chan.dev = &file->dev;
	chan->fd = reopen(file);
}

void chan_file_release(struct chan_file *chan)
{
	if (chan->fd != chan_file_dev(chan)->fd)
		close(chan->fd);
}

/* ---- transfers inside submit ---- */

bool dev_file_lives_in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static bool is_for_us(const struct chan_file *chan, const struct fth_dev_req *req)
{
	if (req->op == FTH_DEV_FLUSH)
		return chan_file_dev(chan)->inline_flush && chan->chan.in_flight == 0;
	if (req->length > chan_file_dev(chan)->inline_max || req->op > FTH_DEV_WRITE)
		return false;
	/* On a disk, requests that are submitted together wait together. */
	if (chan->batch && chan_file_dev(chan)->inline_flush)
		return false;
	return chan->chan.in_flight == 0 || chan->with_kernel >= FILE_WORKERS_MAX;
}

static bool transfer_now(struct chan_file *chan, struct fth_dev_req *req)
{
	struct dev_file *file = chan_file_dev(chan);

	for (;;) {
		int answer = dev_file_call(file, chan->fd, req);

		if (dev_file_req_answer(file, req, answer))
			return true;
		/* Asked to try again: the engine does that, and what was done stays done. */
		if (answer < 0)
			return false;
	}
}

/* relaxed: an old value costs one more attempt. */
static bool may_be_cached(const struct dev_file *file, const struct fth_dev_req *req)
{
	return req->op == FTH_DEV_READ && req->length <= FILE_INLINE_MAX &&
	       fth_load_relaxed_dev32(&file->try_cached);
}

static bool read_cached(struct chan_file *chan, struct fth_dev_req *req)
{
	struct dev_file *file = chan_file_dev(chan);
	int answer = dev_file_call_cached(chan->fd, req);

	if (answer == -EOPNOTSUPP) {
		fth_store_relaxed_dev32(&file->try_cached, 0);
		return false;
	}
	return dev_file_req_answer(file, req, answer);
}

/* Do a transfer now, if it is one for that. True when it is complete and its result set. */
static bool do_inline(struct chan_file *chan, struct fth_dev_req *req)
{
	if (is_for_us(chan, req))
		return transfer_now(chan, req);
	return may_be_cached(chan_file_dev(chan), req) && read_cached(chan, req);
}

/* ---- before and after the engine ---- */

bool chan_file_begin(struct chan_file *chan, struct fth_dev_req *req)
{
	int refusal = dev_file_req_refusal(chan_file_dev(chan), req);

	req->scratch[0] = 0;
	if (refusal < 0) {
		req->result = refusal;
		file_list_push(&chan->done, req);
		return false;
	}
	if (chan_file_tail(chan, req) || do_inline(chan, req)) {
		file_list_push(&chan->done, req);
		return false;
	}
	if (req->op == FTH_DEV_FLUSH && !chan_file_flush_begin(chan, req))
		return false;
	chan->with_kernel++;
	return true;
}

void chan_file_end(struct chan_file *chan, struct fth_dev_req *req)
{
	chan->with_kernel--;
	if (req->op == FTH_DEV_FLUSH)
		chan_file_flush_end(chan, req->result);
}

unsigned chan_file_take_done(struct chan_file *chan, struct fth_dev_req **done, unsigned max)
{
	unsigned n = 0;

	while (n < max && chan->done.first)
		done[n++] = file_list_pop(&chan->done);
	return n;
}
