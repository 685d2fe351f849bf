/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mem:SIZE: blocks in the memory of this process. A request is done when it is submitted; reap
 * only hands it back. Like a real drive it promises nothing about two requests on overlapping
 * blocks that are in flight together.
 */
#include "dev/schemes.h"
#include "dev/wake.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK_DEFAULT 512
#define BLOCK_MAX     65536
#define MEM_SIZE_MAX  ((uint64_t)1 << 46)

struct dev_mem {
	struct fth_dev dev;
	char *bytes;
};

struct chan_mem {
	struct fth_dev_chan chan;
	unsigned head, count; /* the done requests are ring[head .. head + count) */
	unsigned capacity;
	struct fth_wake wake; /* set while count > 0 */
	struct fth_dev_req *ring[];
};

static void mem_close(struct fth_dev *dev)
{
	struct dev_mem *mem = (struct dev_mem *)dev;

	munmap(mem->bytes, dev->info.size);
	free(mem);
}

static int mem_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct chan_mem *chan = calloc(1, sizeof(*chan) + depth * sizeof(chan->ring[0]));

	(void)dev;
	if (!chan)
		return -ENOMEM;
	chan->capacity = depth;
	chan->wake = (struct fth_wake)FTH_WAKE_NONE;
	*out = &chan->chan;
	return 0;
}

static void mem_chan_close(struct fth_dev_chan *chan)
{
	fth_wake_close(&((struct chan_mem *)chan)->wake);
	free(chan);
}

static int mem_chan_fd(struct fth_dev_chan *base)
{
	struct chan_mem *chan = (struct chan_mem *)base;
	int fd = fth_wake_open(&chan->wake);

	fth_wake_set(&chan->wake, chan->count > 0);
	return fd;
}

static void execute(struct dev_mem *mem, struct fth_dev_req *req)
{
	char *at = mem->bytes + req->offset;

	switch (req->op) {
	case FTH_DEV_READ:
		fth_dev_req_scatter(req, at);
		break;
	case FTH_DEV_WRITE:
		fth_dev_req_gather(req, at);
		break;
	case FTH_DEV_ZERO:
		memset(at, 0, req->length);
		break;
	case FTH_DEV_FLUSH:
	case FTH_DEV_DISCARD: /* allowed to keep the old bytes, and does */
	case FTH_DEV_OP_COUNT:
		break;
	}
	req->result = 0;
}

static int mem_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct chan_mem *chan = (struct chan_mem *)base;

	for (unsigned i = 0; i < n; i++) {
		execute((struct dev_mem *)base->dev, reqs[i]);
		chan->ring[(chan->head + chan->count++) % chan->capacity] = reqs[i];
	}
	fth_wake_set(&chan->wake, true);
	return (int)n;
}

static int mem_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		    unsigned min, uint64_t deadline)
{
	struct chan_mem *chan = (struct chan_mem *)base;
	unsigned n = chan->count < max ? chan->count : max;

	(void)min;
	(void)deadline;
	for (unsigned i = 0; i < n; i++)
		done[i] = chan->ring[(chan->head + i) % chan->capacity];
	chan->head = (chan->head + n) % chan->capacity;
	chan->count -= n;
	fth_wake_set(&chan->wake, chan->count > 0);
	return (int)n;
}

/* ---- the window: the bytes themselves ---- */

static void mem_window_close(struct fth_dev_window *window)
{
	free(window);
}

static int mem_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			   struct fth_dev_window **out)
{
	static const struct fth_dev_window_ops ops = {.close = mem_window_close};
	struct fth_dev_window *window;

	if (kind != FTH_DEV_WINDOW_ANY && kind != FTH_DEV_WINDOW_MEMORY)
		return fth_fail(EOPNOTSUPP, "mem: has no window of kind %s",
				fth_dev_window_kind_name(kind));
	window = calloc(1, sizeof(*window));
	if (!window)
		return -ENOMEM;
	window->ops = &ops;
	window->info = (struct fth_dev_window_info){
		.kind = FTH_DEV_WINDOW_MEMORY,
		.guarantee = FTH_DEV_WINDOW_VOLATILE,
		.base = ((struct dev_mem *)dev)->bytes,
		.size = dev->info.size,
	};
	snprintf(window->text, sizeof(window->text),
		 "Memory of this process: nothing survives closing the device.");
	*out = window;
	return 0;
}

static const struct fth_dev_ops mem_ops = {
	.close = mem_close,
	.chan_open = mem_chan_open,
	.chan_close = mem_chan_close,
	.submit = mem_submit,
	.reap = mem_reap,
	.chan_fd = mem_chan_fd,
	.window_open = mem_window_open,
};

static int mem_parse(struct fth_uri *uri, uint64_t *size, uint64_t *block)
{
	int rc;

	*block = BLOCK_DEFAULT;
	if (fth_parse_size(uri->path, size) < 0 || *size == 0 || *size > MEM_SIZE_MAX)
		return fth_fail(EINVAL, "mem:%s: expected a size such as 4G", uri->path);
	rc = fth_uri_take_size(uri, "block", 1, BLOCK_MAX, block);
	if (rc < 0)
		return rc;
	if (*block & (*block - 1))
		return fth_fail(EINVAL, "mem: block=%llu is not a power of two",
				(unsigned long long)*block);
	if (*size % *block)
		return fth_fail(EINVAL, "mem:%s is not whole blocks of %llu bytes", uri->path,
				(unsigned long long)*block);
	return fth_uri_finish(uri);
}

static int mem_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	uint64_t size, block;
	struct dev_mem *mem;
	int rc = mem_parse(uri, &size, &block);

	(void)inner;
	if (rc < 0)
		return rc;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	/* Pages appear when they are first written, so a large device costs what is in it. */
	mem->bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem->bytes == MAP_FAILED) {
		rc = fth_fail(errno, "mem:%s: %s", uri->path, strerror(errno));
		free(mem);
		return rc;
	}
	mem->dev.ops = &mem_ops;
	mem->dev.info = (struct fth_dev_info){
		.size = size,
		.block = (uint32_t)block,
		.align = 1,
		.max_iov = 1024,
		.max_length = (uint64_t)1 << 30,
		.engine = "memory",
		.keeps = FTH_DEV_KEEPS_NOTHING,
	};
	*out = &mem->dev;
	return 0;
}

const struct fth_dev_scheme fth_dev_scheme_mem = {.name = "mem", .open = mem_open};
