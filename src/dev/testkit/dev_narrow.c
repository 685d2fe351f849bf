/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/testkit/dev_narrow.h"

#include "dev/wrap/dev_wrap.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM 2

struct chan_narrow {
	struct fth_dev_chan chan;
	struct fth_dev_chan *inner;
};

static int narrow_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct chan_narrow *chan = calloc(1, sizeof(*chan));
	int rc;

	(void)depth;
	if (!chan)
		return -ENOMEM;
	rc = fth_dev_chan_open(((struct fth_wrap_dev *)dev)->inner, ROOM, &chan->inner);
	if (rc < 0) {
		free(chan);
		return rc;
	}
	*out = &chan->chan;
	return 0;
}

static void narrow_chan_close(struct fth_dev_chan *base)
{
	fth_dev_chan_close(((struct chan_narrow *)base)->inner);
	free(base);
}

static int narrow_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	(void)n;
	return fth_dev_submit(((struct chan_narrow *)base)->inner, reqs, 1);
}

static int narrow_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		       unsigned min, uint64_t deadline)
{
	int n = fth_dev_reap(((struct chan_narrow *)base)->inner, done, max, min, deadline);

	if (n == 2) {
		struct fth_dev_req *first = done[0];

		done[0] = done[1];
		done[1] = first;
	}
	return n == -ETIME ? 0 : n;
}

static int narrow_chan_fd(struct fth_dev_chan *base)
{
	return fth_dev_chan_fd(((struct chan_narrow *)base)->inner);
}

static void narrow_close(struct fth_dev *dev)
{
	fth_dev_close(((struct fth_wrap_dev *)dev)->inner);
	free(dev);
}

static const struct fth_dev_ops narrow_ops = {
	.close = narrow_close,
	.chan_open = narrow_chan_open,
	.chan_close = narrow_chan_close,
	.submit = narrow_submit,
	.reap = narrow_reap,
	.chan_fd = narrow_chan_fd,
	.map = fth_wrap_map,
	.unmap = fth_wrap_unmap,
};

static int narrow_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct fth_wrap_dev *narrow;
	int rc = fth_uri_finish(uri);

	if (rc < 0)
		return rc;
	narrow = calloc(1, sizeof(*narrow));
	if (!narrow)
		return -ENOMEM;
	narrow->inner = inner;
	narrow->dev.ops = &narrow_ops;
	narrow->dev.info = *fth_dev_info(inner);
	if (narrow->dev.info.align < 4)
		narrow->dev.info.align = 4;
	*out = &narrow->dev;
	return 0;
}

const struct fth_dev_scheme fth_dev_scheme_narrow = {
	.name = "narrow", .wrapper = true, .open = narrow_open};
