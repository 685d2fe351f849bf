/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel of an open object: requests come in, parts of them go to the devices and come back.
 * Siblings: channel_parts.c, what becomes of the parts; channel_wait.c, waiting; worker.c, what
 * takes longer.
 *
 *	backlog --issue--> parts, staged --send--> in flight --collect--> done --reap-->
 *	                     ^                        |  |                 ^
 *	    a read that failed, to another replica ---+  +-- the worker ---+
 *	                                       a change that some devices failed
 *
 * Invariants
 * 1. A request that was taken is in the backlog, has parts under way, is the worker's, or is done;
 *    never two.
 * 2. Only the head of the backlog is issued in part. How far is in head_*.
 * 3. scratch[0] of a request counts its parts under way, plus one until all are issued, and keeps
 *    the first error above that; scratch[1] is the set of devices that failed a change of it.
 * 4. Parts come from a pool made with the channel. When it is empty the backlog waits for parts in
 *    flight, and these need nothing that waits: so it goes on.
 * 5. A request that changes replicas counts in obj->changes from its first part to its end.
 * 6. Submit, and reap with deadline 0, take no lock that is held across I/O and do no I/O but
 *    through the channels to the devices.
 */
#include "vol/channel/channel.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL_SPARE 16u

static bool changes(const struct fth_dev_req *req)
{
	return req->op == FTH_DEV_WRITE || req->op == FTH_DEV_ZERO || req->op == FTH_DEV_DISCARD;
}

/* ---- the end of a request ---- */

void vol_req_error(struct fth_dev_req *req, int error)
{
	if (!vol_req_failed(req))
		req->scratch[0] |= (uint64_t)(uint32_t)-error << 32;
}

static void finish(struct vol_chan *chan, struct fth_dev_req *req)
{
	struct vol_object *obj = chan->obj;
	int error = -(int)(req->scratch[0] >> 32);
	uint64_t failed = req->scratch[1];

	if (req->op == FTH_DEV_FLUSH && !chan->readonly) {
		failed |= vol_lost_flushes(obj);
		if (failed && error == 0)
			error = -EIO;
	}
	if (failed && vol_is_replicated(chan) && !chan->readonly) {
		req->scratch[0] = (uint64_t)(uint32_t)-error << 32;
		req->scratch[1] = failed;
		vol_worker_ask(chan, req);
		return;
	}
	if (changes(req) && vol_is_replicated(chan))
		vol_change_end(obj);
	req->result = error;
	vol_push(&chan->done, req);
}

void vol_req_drop(struct vol_chan *chan, struct fth_dev_req *req)
{
	if ((uint32_t)--req->scratch[0] == 0)
		finish(chan, req);
}

/* ---- issuing ---- */

/* Before the first part: may it be done at all? 0, 1 for not yet, or the error. */
static int admit(struct vol_chan *chan, struct fth_dev_req *req)
{
	struct vol_object *obj = chan->obj;
	int rc;

	if (req->op == FTH_DEV_READ)
		return 0;
	if (chan->readonly)
		return req->op == FTH_DEV_FLUSH ? 0 : -EROFS;
	rc = vol_failed(obj->vol);
	if (rc < 0 || req->op == FTH_DEV_FLUSH)
		return rc;
	if (vol_is_replicated(chan)) {
		chan->awaits_repair = !vol_change_begin(obj) && !vol_worker_await_repair(chan);
		if (chan->awaits_repair)
			return 1;
	}
	/* relaxed: read when the object is closed, after everything in flight has come back */
	if (!fth_load_relaxed_dev32(&obj->written))
		fth_store_relaxed_dev32(&obj->written, 1);
	return 0;
}

static bool issue_flush(struct vol_chan *chan, struct fth_dev_req *req)
{
	/* acquire: see vol_choose() */
	uint64_t to = chan->obj->used & ~fth_load_acquire_dev64(&chan->obj->stale);

	for (; chan->head_at < chan->leg_count; chan->head_at++) {
		struct vol_part *part;

		if (!(to >> chan->head_at & 1))
			continue;
		part = vol_part_take(chan, req);
		if (!part)
			return false;
		part->req.op = FTH_DEV_FLUSH;
		part->req.flags = 0;
		vol_part_stage(chan, part, (unsigned)chan->head_at);
	}
	return true;
}

static bool issue_read(struct vol_chan *chan, struct fth_dev_req *req,
		       const struct vol_place *place, uint64_t length)
{
	int replica = vol_is_replicated(chan) ? vol_choose(chan, place, 0) : 0;
	struct vol_part *part;

	if (replica < 0) {
		vol_req_error(req, -EIO);
		return true;
	}
	part = vol_part_take(chan, req);
	if (!part)
		return false;
	vol_part_fill(chan, part, place, chan->head_at, length, (unsigned)replica);
	return true;
}

static bool issue_change(struct vol_chan *chan, struct fth_dev_req *req,
			 const struct vol_place *place, uint64_t length)
{
	/* acquire: see vol_choose() */
	uint64_t stale = fth_load_acquire_dev64(&chan->obj->stale);

	for (; chan->head_replica < chan->obj->entry->replicas; chan->head_replica++) {
		struct vol_part *part;

		if (stale >> vol_place_device(chan->obj, place, chan->head_replica) & 1)
			continue;
		part = vol_part_take(chan, req);
		if (!part)
			return false;
		vol_part_fill(chan, part, place, chan->head_at, length, chan->head_replica);
	}
	chan->head_replica = 0;
	return true;
}

static bool issue_pieces(struct vol_chan *chan, struct fth_dev_req *req)
{
	bool moves = req->op == FTH_DEV_READ || req->op == FTH_DEV_WRITE;

	while (chan->head_at < req->length) {
		struct vol_place place = vol_place(chan->obj, req->offset + chan->head_at);
		uint64_t length = req->length - chan->head_at;

		if (length > place.run)
			length = place.run;
		if (moves && length > chan->obj->max_piece)
			length = chan->obj->max_piece;
		if (chan->head_at == 0 && chan->head_replica == 0 && length < req->length)
			fth_stats_add(chan->obj->vol->stats, FTH_VOL_SPLIT_REQUESTS, 1);
		if (req->op == FTH_DEV_READ ? !issue_read(chan, req, &place, length)
					    : !issue_change(chan, req, &place, length))
			return false;
		chan->head_at += length;
	}
	return true;
}

/* Issue the head of the backlog as far as can be. True: all of it is under way, or it ended. */
static bool issue_head(struct vol_chan *chan)
{
	struct fth_dev_req *req = chan->backlog.reqs[chan->backlog.head];

	if (!chan->head_begun) {
		int rc = admit(chan, req);

		if (rc > 0)
			return false;
		req->scratch[0] = 1;
		req->scratch[1] = 0;
		if (rc < 0) { /* not by finish(): it is not in obj->changes */
			vol_pop(&chan->backlog);
			req->result = rc;
			vol_push(&chan->done, req);
			return true;
		}
		chan->head_begun = true;
		chan->head_at = 0;
		chan->head_replica = 0;
	}
	if (req->op == FTH_DEV_FLUSH ? !issue_flush(chan, req) : !issue_pieces(chan, req))
		return false;
	chan->head_begun = false;
	vol_pop(&chan->backlog);
	vol_req_drop(chan, req);
	return true;
}

/* ---- collecting ---- */

static void pump(struct vol_chan *chan)
{
	if (chan->splits)
		vol_parts_spread(chan);
	while (chan->backlog.count > 0 && issue_head(chan))
		;
	vol_parts_send(chan);
}

/* Take what the worker has answered. */
static void take_answers(struct vol_chan *chan)
{
	struct vol_worker *worker = &chan->obj->vol->worker;
	unsigned leaving = 0;

	pthread_mutex_lock(&worker->lock);
	chan->repair_ended = false; /* it is tried next */
	for (; chan->answered.count > 0; chan->asking--) {
		struct fth_dev_req *req = vol_pop(&chan->answered);

		leaving += changes(req);
		vol_push(&chan->done, req);
	}
	pthread_mutex_unlock(&worker->lock);
	while (leaving-- > 0)
		vol_change_end(chan->obj);
}

static int collect_all(struct vol_chan *chan)
{
	int rc = 0;

	for (unsigned i = 0; i < chan->leg_count; i++) {
		struct vol_leg *leg = &chan->legs[i];

		/* In a set, an idle channel may be readable without need; its reap ends that. */
		if (leg->load > leg->staged_count || (chan->set >= 0 && leg->inner)) {
			int one = vol_parts_collect(chan, leg, 0, 0);

			rc = rc == 0 ? one : rc;
		}
	}
	if (chan->asking > 0 || chan->awaits_repair)
		take_answers(chan);
	pump(chan);
	return rc;
}

int vol_chan_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max, unsigned min,
		  uint64_t deadline)
{
	struct vol_chan *chan = (struct vol_chan *)base;
	unsigned n = 0;
	int rc = collect_all(chan);

	while (rc == 0 && chan->done.count < min &&
	       (deadline == FTH_NEVER || fth_now_ns() < deadline)) {
		rc = vol_wait(chan, deadline);
		if (rc == 0)
			rc = collect_all(chan);
	}
	while (n < max && chan->done.count > 0)
		done[n++] = vol_pop(&chan->done);
	vol_wait_settle(chan);
	return n > 0 ? (int)n : rc;
}

int vol_chan_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct vol_chan *chan = (struct vol_chan *)base;

	for (unsigned i = 0; i < n; i++)
		vol_push(&chan->backlog, reqs[i]);
	pump(chan);
	vol_wait_settle(chan);
	return (int)n;
}

/* ---- making and ending ---- */

static bool ring_init(struct vol_ring *ring, unsigned room)
{
	ring->room = room;
	ring->reqs = calloc(room, sizeof(ring->reqs[0]));
	return ring->reqs != NULL;
}

static int open_leg(struct vol_chan *chan, unsigned i, unsigned depth)
{
	struct vol_leg *leg = &chan->legs[i];

	leg->staged = calloc(depth, sizeof(leg->staged[0]));
	if (!leg->staged)
		return -ENOMEM;
	return fth_dev_chan_open(chan->obj->vol->members[i].dev, depth, &leg->inner);
}

static void release(struct vol_chan *chan)
{
	vol_wait_release(chan); /* before what is in the set */
	for (unsigned i = 0; i < chan->leg_count; i++) {
		fth_dev_chan_close(chan->legs[i].inner);
		free(chan->legs[i].staged);
	}
	free(chan->parts);
	free(chan->backlog.reqs);
	free(chan->done.reqs);
	free(chan->asked.reqs);
	free(chan->answered.reqs);
	free(chan);
}

static int fill(struct vol_chan *chan, unsigned depth, unsigned pool)
{
	struct vol_object *obj = chan->obj;
	uint64_t used = obj->used & ~obj->vol->missing;

	chan->parts = calloc(pool, sizeof(chan->parts[0]));
	if (!chan->parts || !ring_init(&chan->backlog, depth) || !ring_init(&chan->done, depth) ||
	    !ring_init(&chan->asked, depth) || !ring_init(&chan->answered, depth))
		return -ENOMEM;
	for (unsigned i = 0; i < pool; i++) {
		chan->parts[i].next = chan->pool;
		chan->pool = &chan->parts[i];
	}
	for (unsigned i = 0; i < chan->leg_count; i++) {
		int rc = used >> i & 1 ? open_leg(chan, i, pool) : 0;

		if (rc < 0)
			return rc;
	}
	return 0;
}

int vol_chan_open(struct fth_dev *base, unsigned depth, struct fth_dev_chan **out)
{
	struct vol_dev *dev = (struct vol_dev *)base;
	struct vol_chan *chan = calloc(1, sizeof(*chan));
	uint64_t pool = (uint64_t)depth * dev->obj->entry->replicas + POOL_SPARE;
	int rc;

	if (!chan)
		return -ENOMEM;
	vol_wait_init(chan);
	chan->obj = dev->obj;
	chan->readonly = dev->readonly;
	chan->leg_count = dev->obj->vol->count;
	rc = fill(chan, depth, pool < UINT16_MAX ? (unsigned)pool : UINT16_MAX);
	if (rc < 0) {
		release(chan);
		return rc;
	}
	*out = &chan->chan;
	return 0;
}

int vol_chan_prepare(struct fth_dev_chan *base)
{
	struct vol_chan *chan = (struct vol_chan *)base;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < chan->leg_count; i++)
		rc = fth_dev_chan_prepare(chan->legs[i].inner);
	return rc;
}

void vol_chan_close(struct fth_dev_chan *base)
{
	vol_worker_forget((struct vol_chan *)base);
	release((struct vol_chan *)base);
}
