/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of a channel that both engines share: what comes before the engine and after it. */
#include "dev/file/dev_file.h"

#include "fathom/base/fd.h"

#include <stdio.h>
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

bool chan_file_begin(struct chan_file *chan, struct fth_dev_req *req)
{
	int refusal = dev_file_req_refusal(chan_file_dev(chan), req);

	req->scratch[0] = 0;
	if (refusal < 0) {
		req->result = refusal;
		file_list_push(&chan->done, req);
		return false;
	}
	if (chan_file_inline(chan, req)) {
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
