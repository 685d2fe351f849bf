/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of every device: checks, counting, channels.
 *
 * Siblings: open.c finds the scheme of a URI; blocking.c has the blocking calls; wake.c the
 * descriptors of channels; window.c the windows; dev_mem.c is mem:. file/ has file:, wrap/ the
 * devices around others: fault(), delay(), crash(); testkit/ what tests need.
 *
 * Invariants
 * 1. An operation of struct fth_dev_ops never sees a malformed request (check_request()).
 * 2. chan->in_flight is what was taken by submit and not yet handed back by reap, at most depth.
 * 3. A request's result is final when reap hands it back; nothing writes to it before or after.
 */
#include "dev/blocking.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAP_ALIGN 4096

const struct fth_dev_info *fth_dev_info(const struct fth_dev *dev)
{
	return &dev->info;
}

const char *fth_dev_uri(const struct fth_dev *dev)
{
	return dev->uri;
}

uint64_t fth_dev_stat(const struct fth_dev *dev, enum fth_dev_stat which)
{
	return fth_stats_read(dev->stats, which);
}

const char *fth_dev_stat_name(enum fth_dev_stat which)
{
	static const char *const names[FTH_DEV_STAT_COUNT] = {
		"reads",  "writes",	"flushes",	 "discards",
		"zeroes", "bytes_read", "bytes_written", "errors",
	};

	return which < FTH_DEV_STAT_COUNT ? names[which] : "unknown";
}

const char *fth_dev_op_name(enum fth_dev_op op)
{
	static const char *const names[FTH_DEV_OP_COUNT] = {
		"read", "write", "flush", "discard", "zero",
	};

	return op < FTH_DEV_OP_COUNT ? names[op] : "unknown";
}

void fth_dev_close(struct fth_dev *dev)
{
	char *uri;
	struct fth_stats *stats;

	if (!dev)
		return;
	/* What the device may still write to is not freed: fth_dev_close() in dev.h says so. */
	if (dev->blocking && fth_blocking_settle(dev, fth_deadline_ns(FTH_DEV_TIMEOUT_NS)) < 0)
		return;
	fth_blocking_free(dev->blocking);
	pthread_mutex_destroy(&dev->lock);
	uri = dev->uri;
	stats = dev->stats;
	dev->ops->close(dev);
	free(uri);
	fth_stats_free(stats);
}

/* ---- buffers ---- */

static int change_map(struct fth_dev *dev, void *addr, size_t len,
		      int (*operation)(struct fth_dev *, void *, size_t))
{
	int rc;

	if (!addr || !len || (uintptr_t)addr % MAP_ALIGN || len % MAP_ALIGN)
		return fth_fail(EINVAL, "map: %zu bytes at %p are not whole pages of %d bytes", len,
				addr, MAP_ALIGN);
	if (!operation)
		return 0;
	pthread_mutex_lock(&dev->lock);
	rc = operation(dev, addr, len);
	pthread_mutex_unlock(&dev->lock);
	return rc;
}

int fth_dev_map(struct fth_dev *dev, void *addr, size_t len)
{
	return change_map(dev, addr, len, dev->ops->map);
}

int fth_dev_unmap(struct fth_dev *dev, void *addr, size_t len)
{
	return change_map(dev, addr, len, dev->ops->unmap);
}

static size_t whole_pages(size_t len)
{
	return (len + MAP_ALIGN - 1) / MAP_ALIGN * MAP_ALIGN;
}

void *fth_dev_buf_alloc(struct fth_dev *dev, size_t len)
{
	size_t align = dev->info.align > MAP_ALIGN ? dev->info.align : MAP_ALIGN;
	size_t bytes = whole_pages(len);
	void *buf;

	if (!len || bytes < len || posix_memalign(&buf, align, bytes) != 0)
		return NULL;
	memset(buf, 0, bytes);
	/* A full table costs speed, not correctness. */
	(void)fth_dev_map(dev, buf, bytes);
	return buf;
}

void fth_dev_buf_free(struct fth_dev *dev, void *buf, size_t len)
{
	if (!buf)
		return;
	(void)fth_dev_unmap(dev, buf, whole_pages(len));
	free(buf);
}

/* ---- channels ---- */

int fth_dev_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	int rc;

	*out = NULL;
	if (depth == 0 || depth > UINT16_MAX)
		return fth_fail(EINVAL, "channel depth %u is not between 1 and %d", depth,
				UINT16_MAX);
	rc = dev->ops->chan_open(dev, depth, out);
	if (rc < 0)
		return rc;
	(*out)->dev = dev;
	(*out)->depth = depth;
	(*out)->in_flight = 0;
	(*out)->has_fd = false;
	return 0;
}

void fth_dev_chan_close(struct fth_dev_chan *chan)
{
	struct fth_dev_req *done[16];

	if (!chan)
		return;
	while (chan->in_flight > 0 && fth_dev_reap(chan, done, 16, 1, FTH_NEVER) >= 0)
		;
	chan->dev->ops->chan_close(chan);
}

struct fth_dev *fth_dev_chan_dev(const struct fth_dev_chan *chan)
{
	return chan->dev;
}

unsigned fth_dev_chan_in_flight(const struct fth_dev_chan *chan)
{
	return chan->in_flight;
}

int fth_dev_chan_fd(struct fth_dev_chan *chan)
{
	int fd;

	if (!chan->dev->ops->chan_fd)
		return fth_fail(EOPNOTSUPP, "%s: the device has no descriptors for poll()",
				fth_dev_uri(chan->dev));
	fd = chan->dev->ops->chan_fd(chan);
	chan->has_fd = chan->has_fd || fd >= 0;
	return fd;
}

int fth_dev_chan_prepare(struct fth_dev_chan *chan)
{
	return chan->dev->ops->chan_prepare ? chan->dev->ops->chan_prepare(chan) : 0;
}

/* ---- requests ---- */

void fth_dev_req_init(struct fth_dev_req *req, enum fth_dev_op op, void *buf, uint64_t length,
		      uint64_t offset)
{
	memset(req, 0, sizeof(*req));
	req->op = op;
	req->offset = offset;
	req->length = length;
	if (op == FTH_DEV_READ || op == FTH_DEV_WRITE) {
		req->single.iov_base = buf;
		req->single.iov_len = length;
		req->iov = &req->single;
		req->iov_count = 1;
	}
}

void fth_dev_req_gather(const struct fth_dev_req *req, void *to)
{
	for (unsigned i = 0; i < req->iov_count; i++) {
		memcpy(to, req->iov[i].iov_base, req->iov[i].iov_len);
		to = (char *)to + req->iov[i].iov_len;
	}
}

void fth_dev_req_scatter(const struct fth_dev_req *req, const void *from)
{
	for (unsigned i = 0; i < req->iov_count; i++) {
		memcpy(req->iov[i].iov_base, from, req->iov[i].iov_len);
		from = (const char *)from + req->iov[i].iov_len;
	}
}

int fth_dev_check_range(const struct fth_dev_info *info, uint64_t length, uint64_t offset)
{
	if (length == 0 || length % info->block || offset % info->block)
		return fth_fail(EINVAL, "%llu bytes at %llu are not whole blocks of %u bytes",
				(unsigned long long)length, (unsigned long long)offset,
				info->block);
	if (offset > info->size || length > info->size - offset)
		return fth_fail(ERANGE, "%llu bytes at %llu exceed the size of %llu bytes",
				(unsigned long long)length, (unsigned long long)offset,
				(unsigned long long)info->size);
	return 0;
}

static int check_pieces(const struct fth_dev_info *info, const struct fth_dev_req *req)
{
	uint64_t sum = 0;

	if (!req->iov || req->iov_count == 0 || req->iov_count > info->max_iov)
		return fth_fail(EINVAL, "%u iovecs in a request, the device takes 1 to %u",
				req->iov_count, info->max_iov);
	for (unsigned i = 0; i < req->iov_count; i++) {
		const struct iovec *piece = &req->iov[i];

		if (!piece->iov_base || piece->iov_len == 0 || piece->iov_len % info->block ||
		    (uintptr_t)piece->iov_base % info->align)
			return fth_fail(
				EINVAL,
				"iovec %u (%p, %zu bytes) is not aligned to %u bytes or not "
				"whole blocks of %u bytes",
				i, piece->iov_base, piece->iov_len, info->align, info->block);
		if (piece->iov_len > req->length - sum)
			return fth_fail(EINVAL,
					"the iovecs hold more than the length of %llu bytes",
					(unsigned long long)req->length);
		sum += piece->iov_len;
	}
	if (sum != req->length)
		return fth_fail(EINVAL, "the iovecs hold %llu bytes, the length is %llu",
				(unsigned long long)sum, (unsigned long long)req->length);
	return 0;
}

static int check_flags(const struct fth_dev_info *info, const struct fth_dev_req *req)
{
	if (req->flags & ~FTH_DEV_FUA || req->op != FTH_DEV_WRITE)
		return fth_fail(EINVAL, "flags 0x%x are invalid for a %s", req->flags,
				fth_dev_op_name(req->op));
	if (!info->has_fua)
		return fth_fail(EOPNOTSUPP,
				"the device does not support FTH_DEV_FUA; flush after the write");
	return 0;
}

static int check_request(const struct fth_dev_info *info, const struct fth_dev_req *req)
{
	int rc;

	if (req->op >= FTH_DEV_OP_COUNT)
		return fth_fail(EINVAL, "unknown operation %u", (unsigned)req->op);
	if (req->flags) {
		rc = check_flags(info, req);
		if (rc < 0)
			return rc;
	}
	if (req->op == FTH_DEV_FLUSH)
		return 0;
	rc = fth_dev_check_range(info, req->length, req->offset);
	if (rc < 0)
		return rc;
	if (req->op != FTH_DEV_READ && req->op != FTH_DEV_WRITE)
		return 0;
	if (req->length > info->max_length)
		return fth_fail(EINVAL, "%llu bytes in one request, the device takes up to %llu",
				(unsigned long long)req->length,
				(unsigned long long)info->max_length);
	return check_pieces(info, req);
}

int fth_dev_submit(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n)
{
	unsigned room = chan->depth - chan->in_flight, good = 0;
	int rc = 0;

	if (n == 0)
		return 0;
	if (room == 0)
		return -EAGAIN;
	if (n > room)
		n = room;
	while (good < n && (rc = check_request(&chan->dev->info, reqs[good])) == 0)
		good++;
	if (good == 0)
		return rc;
	rc = chan->dev->ops->submit(chan, reqs, good);
	if (rc > 0)
		chan->in_flight += (unsigned)rc;
	return rc;
}

static void count(struct fth_dev *dev, const struct fth_dev_req *req)
{
	if (req->result < 0) {
		fth_stats_add(dev->stats, FTH_DEV_STAT_ERRORS, 1);
		return;
	}
	fth_stats_add(dev->stats, (unsigned)req->op, 1);
	if (req->op == FTH_DEV_READ)
		fth_stats_add(dev->stats, FTH_DEV_STAT_BYTES_READ, req->length);
	else if (req->op == FTH_DEV_WRITE)
		fth_stats_add(dev->stats, FTH_DEV_STAT_BYTES_WRITTEN, req->length);
}

int fth_dev_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max, unsigned min,
		 uint64_t deadline)
{
	int n;

	if (min > max)
		return fth_fail(EINVAL, "reap: min %u is greater than max %u", min, max);
	if (min > chan->in_flight)
		min = chan->in_flight;
	/* A descriptor that became readable without need is made unreadable by the device. */
	if (max == 0 || (chan->in_flight == 0 && !chan->has_fd))
		return 0;
	n = chan->dev->ops->reap(chan, done, max, min, deadline);
	if (n < 0)
		return n;
	chan->in_flight -= (unsigned)n;
	for (int i = 0; i < n; i++)
		count(chan->dev, done[i]);
	return n == 0 && min > 0 ? -ETIME : n;
}
