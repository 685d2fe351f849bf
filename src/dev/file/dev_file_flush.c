/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flushes of a channel share fdatasync calls. While one is with the kernel, later ones wait; when
 * it comes back, one call is made for all that waited, since each was submitted before that call.
 *
 *	submit --> waiting --> riders (of the flush in the kernel) --> done
 *	      \--> in the kernel, when no other is
 *
 * It is also what makes a 0 trustworthy. The kernel reports a lost write-back once for each open
 * file description: of two fdatasync calls that overlap one fails, and the other returns 0
 * although the same data is lost. So every channel has a description of its own where that is
 * possible, and never two calls at once on it.
 */
#include "dev/file/dev_file.h"

#include "fathom/hd/atomic.h"

static void park(struct chan_file *chan, struct fth_dev_req *req)
{
	file_list_push(&chan->flush.waiting, req);
	chan->flush.parked++;
}

bool chan_file_flush_begin(struct chan_file *chan, struct fth_dev_req *req)
{
	if (chan->flush.active) {
		park(chan, req);
		return false;
	}
	chan->flush.active = true;
	return true;
}

static void answer_all(struct chan_file *chan, struct file_list *list, int result)
{
	struct fth_dev_req *req;

	while ((req = file_list_pop(list))) {
		req->result = result;
		file_list_push(&chan->done, req);
		chan->flush.parked--;
	}
}

/* One of those that waited goes to the kernel, and the others share its result. */
static void begin_next(struct chan_file *chan)
{
	struct fth_dev_req *leader = file_list_pop(&chan->flush.waiting);

	chan->flush.riders = chan->flush.waiting;
	chan->flush.waiting = (struct file_list){0};
	chan->flush.parked--;
	chan->with_kernel++;
	file_list_push(&chan->again, leader);
}

void chan_file_flush_end(struct chan_file *chan, int result)
{
	/* relaxed: an error on another channel that is not yet seen was reported there. */
	uint32_t error = fth_load_relaxed_dev32(&chan_file_dev(chan)->flush_error);

	answer_all(chan, &chan->flush.riders, result);
	if (error)
		answer_all(chan, &chan->flush.waiting, -(int)error);
	chan->flush.active = chan->flush.waiting.first != NULL;
	if (chan->flush.active)
		begin_next(chan);
}

void dev_file_flush_forgive(struct fth_dev *dev)
{
	/* relaxed: as for the error itself, a flush that races with this may go either way */
	fth_store_relaxed_dev32(&((struct dev_file *)dev)->flush_error, 0);
}
