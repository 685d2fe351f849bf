/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants
 * 1. A request is in mover->free[0 .. depth - in flight), or in flight.
 * 2. None is in flight when gpufile_move() returns, but after -ETIME: the device is dead then, and
 *    closing the channel waits for it.
 */
#include "gpufile_host.h"

#include "base/team.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>

#define REAP_NS	   ((uint64_t)30 * 1000000000) /* a device that is silent for so long is dead */
#define REAP_SHARE 16 /* of the depth, at once: more lets the device run dry; see bench_dev.c */
#define FILL_BYTES (4u << 20)
#define FILL_DEPTH 8u

/* ---- moving ---- */

int gpufile_mover_open(struct fth_dev *dev, unsigned depth, struct gpufile_mover *m)
{
	int rc = fth_dev_chan_open(dev, depth, &m->chan);

	if (rc < 0)
		return rc;
	m->depth = depth;
	m->reqs = calloc(depth, sizeof(*m->reqs));
	m->free = calloc(depth, sizeof(struct fth_dev_req *));
	if (!m->reqs || !m->free) {
		gpufile_mover_close(m);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < depth; i++)
		m->free[i] = &m->reqs[i];
	return 0;
}

void gpufile_mover_close(struct gpufile_mover *m)
{
	fth_dev_chan_close(m->chan);
	free(m->reqs);
	free(m->free);
	*m = (struct gpufile_mover){0};
}

/* The last `count` of mover->free go on their way with pieces c, c + 1, ... */
static int send(struct gpufile_mover *m, enum fth_dev_op op, const struct gpufile_order *order,
		uint64_t c, unsigned count, char *buf)
{
	uint32_t bytes = gpufile_bytes(order);
	struct fth_dev_req **go = m->free + m->depth - fth_dev_chan_in_flight(m->chan) - count;
	int taken;

	for (unsigned i = 0; i < count; i++)
		fth_dev_req_init(go[i], op, buf + (uint64_t)i * bytes, bytes,
				 gpufile_piece(order, c + i) * bytes);
	taken = fth_dev_submit(m->chan, go, count);
	if (taken < 0)
		return taken;
	return (unsigned)taken == count ? 0 : fth_fail(EIO, "the device accepted too few requests");
}

/* Wait for some; the first that failed. */
static int receive(struct gpufile_mover *m)
{
	struct fth_dev_req **back = m->free + m->depth - fth_dev_chan_in_flight(m->chan);
	unsigned most = m->depth / REAP_SHARE ? m->depth / REAP_SHARE : 1;
	int n = fth_dev_reap(m->chan, back, most, 1, fth_deadline_ns(REAP_NS));

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		if (back[i]->result < 0)
			return fth_fail(-back[i]->result, "a host request failed");
	return 0;
}

int gpufile_move(struct gpufile_mover *m, enum fth_dev_op op, const struct gpufile_order *order,
		 uint64_t c, uint64_t n, char *buf)
{
	uint64_t sent = 0;
	int rc = 0, got;

	while ((rc == 0 && sent < n) || fth_dev_chan_in_flight(m->chan) > 0) {
		unsigned room = m->depth - fth_dev_chan_in_flight(m->chan);
		unsigned count = n - sent < room ? (unsigned)(n - sent) : room;

		if (rc == 0 && count > 0) {
			rc = send(m, op, order, c + sent, count, buf + sent * gpufile_bytes(order));
			sent += count;
		}
		if (fth_dev_chan_in_flight(m->chan) == 0)
			continue;
		got = receive(m);
		if (rc == 0)
			rc = got;
		if (got == -ETIME)
			break;
	}
	return rc;
}

/* ---- data ---- */

void gpufile_stamp(const struct gpufile_order *order, uint64_t c, uint64_t n, char *buf)
{
	uint64_t *words = (uint64_t *)(void *)buf;

	for (uint64_t s = 0; s < n << order->shift; s++, words += GPU_SECTOR_WORDS) {
		uint64_t first = gpufile_sector(order, c, s) * GPU_SECTOR_WORDS;

		for (unsigned i = 0; i < GPU_SECTOR_WORDS; i++)
			words[i] = gpu_word(first + i, order->stamp);
	}
}

bool gpufile_matches(const struct gpufile_order *order, uint64_t c, uint64_t n, const char *buf)
{
	const uint64_t *words = (const uint64_t *)(const void *)buf;

	for (uint64_t s = 0; s < n << order->shift; s++, words += GPU_SECTOR_WORDS) {
		uint64_t first = gpufile_sector(order, c, s) * GPU_SECTOR_WORDS;

		for (unsigned i = 0; i < GPU_SECTOR_WORDS; i++)
			if (words[i] != gpu_word(first + i, order->stamp))
				return false;
	}
	return true;
}

/* ---- filling ---- */

struct fill {
	struct fth_dev *dev;
	const struct gpufile_order *order;
	unsigned threads;
	const struct gpufile_watch *watch;
};

static int fill_pieces(const struct fill *f, struct gpufile_mover *m, unsigned thread, char *buf)
{
	uint64_t each = FILL_BYTES / gpufile_bytes(f->order), first, end;
	int rc = 0;

	fth_team_part(f->order->mask + 1, 1, f->threads, thread, &first, &end);
	for (uint64_t at = first; rc == 0 && at < end; at += each) {
		uint64_t n = end - at < each ? end - at : each;

		if (f->watch->stopped && f->watch->stopped())
			return -EINTR;
		if (thread == 0 && f->watch->progress)
			f->watch->progress(at - first, end - first);
		gpufile_stamp(f->order, at, n, buf);
		rc = gpufile_move(m, FTH_DEV_WRITE, f->order, at, n, buf);
	}
	return rc;
}

static int fill_part(void *context, unsigned thread)
{
	const struct fill *f = context;
	struct gpufile_mover mover = {0};
	char *buf = fth_dev_buf_alloc(f->dev, FILL_BYTES);
	int rc = buf ? gpufile_mover_open(f->dev, FILL_DEPTH, &mover) : -ENOMEM;

	if (rc == 0)
		rc = fill_pieces(f, &mover, thread, buf);
	gpufile_mover_close(&mover);
	fth_dev_buf_free(f->dev, buf, FILL_BYTES);
	return rc;
}

int gpufile_fill(struct fth_dev *dev, const struct gpufile_order *order, unsigned threads,
		 const struct gpufile_watch *watch)
{
	struct fill fill = {dev, order, threads, watch};
	int rc = fth_team_run(threads, fill_part, &fill);

	return rc < 0 ? rc : fth_dev_flush(dev, FTH_DEV_TIMEOUT);
}
