/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvme/ctrl/test/held_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct held_control held;

struct held_dev {
	struct fth_dev dev;
	char *bytes;
};

struct held_chan {
	struct fth_dev_chan chan;
	unsigned count, capacity;
	struct fth_dev_req *kept[];
};

static void held_close(struct fth_dev *dev)
{
	free(((struct held_dev *)dev)->bytes);
	free(dev);
}

static int held_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct held_chan *chan = calloc(1, sizeof(*chan) + depth * sizeof(chan->kept[0]));

	(void)dev;
	if (!chan)
		return -ENOMEM;
	chan->capacity = depth;
	*out = &chan->chan;
	return 0;
}

static void held_chan_close(struct fth_dev_chan *chan)
{
	free(chan);
}

static int held_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct held_chan *chan = (struct held_chan *)base;

	if (held.refuse)
		return -held.refuse;
	for (unsigned i = 0; i < n; i++)
		chan->kept[chan->count++] = reqs[i];
	held.seen += n;
	held.last = reqs[n - 1]->op;
	return (int)n;
}

static void execute(struct held_dev *dev, struct fth_dev_req *req)
{
	char *at = dev->bytes + req->offset;

	req->result = -held.fail;
	held.fail = 0;
	if (req->result < 0)
		return;
	if (req->op == FTH_DEV_READ)
		fth_dev_req_scatter(req, at);
	else if (req->op == FTH_DEV_WRITE)
		fth_dev_req_gather(req, at);
	else if (req->op == FTH_DEV_ZERO)
		memset(at, 0, req->length);
	else if (req->op == FTH_DEV_DISCARD)
		memset(at, 0xdd, req->length); /* so that it can be seen */
}

/* A wait without a deadline only comes from a closing channel: it lets everything go. */
static int held_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		     unsigned min, uint64_t deadline)
{
	struct held_chan *chan = (struct held_chan *)base;
	unsigned n = held.hold && !min ? held.let_go : chan->count;

	(void)deadline;
	if (n > chan->count)
		n = chan->count;
	if (n > max)
		n = max;
	for (unsigned i = 0; i < n; i++) {
		execute((struct held_dev *)base->dev, chan->kept[i]);
		done[i] = chan->kept[i];
	}
	chan->count -= n;
	memmove(chan->kept, chan->kept + n, chan->count * sizeof(chan->kept[0]));
	held.let_go -= held.let_go < n ? held.let_go : n;
	return (int)n;
}

static const struct fth_dev_ops held_ops = {
	.close = held_close,
	.chan_open = held_chan_open,
	.chan_close = held_chan_close,
	.submit = held_submit,
	.reap = held_reap,
};

static int held_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	uint64_t size, block = 512, align = 1, iov = 1024, max = 1 << 30;
	struct held_dev *dev;

	(void)inner;
	if (fth_parse_size(uri->path, &size) < 0 ||
	    fth_uri_take_size(uri, "block", 1, 65536, &block) < 0 ||
	    fth_uri_take_size(uri, "align", 1, 65536, &align) < 0 ||
	    fth_uri_take_size(uri, "iov", 1, 1024, &iov) < 0 ||
	    fth_uri_take_size(uri, "max", 1, 1 << 30, &max) < 0 || fth_uri_finish(uri) < 0)
		return -EINVAL;
	dev = calloc(1, sizeof(*dev));
	if (dev)
		dev->bytes = calloc(1, size);
	if (!dev || !dev->bytes) {
		free(dev);
		return -ENOMEM;
	}
	dev->dev.ops = &held_ops;
	dev->dev.info = (struct fth_dev_info){.size = size,
					      .block = (uint32_t)block,
					      .align = (uint32_t)align,
					      .max_iov = (uint32_t)iov,
					      .max_length = max};
	*out = &dev->dev;
	return 0;
}

void held_setup(void)
{
	static const struct fth_dev_scheme scheme = {.name = "held", .open = held_open};

	(void)fth_dev_scheme_register(&scheme); /* -EEXIST from the second time on */
	memset(&held, 0, sizeof(held));
}
