/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A channel of an open object: requests come in, parts of them go to the devices and come back.
 *
 *	backlog --issue--> parts, staged --send--> in flight --collect--> done --reap-->
 *	                     ^                        |
 *	                     +-- a read that failed, to another replica
 *
 * Invariants
 * 1. A request that was taken is in the backlog, has parts under way, or is done; never two.
 * 2. Only the head of the backlog is issued in part. How far is in head_*.
 * 3. scratch[0] of a request counts its parts under way, plus one until all are issued, and keeps
 *    the first error above that; scratch[1] is the set of devices that failed a change of it.
 * 4. Parts come from a pool made with the channel. When it is empty the backlog waits for parts in
 *    flight, and these need nothing that waits: so it goes on.
 * 5. A request that changes replicas is inside the gate from its first part to its end.
 */
#include "vol/object.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOL_SPARE 16u
#define REAP_BATCH 32u
/* With parts on several devices, how long one is waited for before the others are looked at. */
#define TURN_NS	 100000u
#define RETRY_NS 50000u

struct part {
	struct fth_dev_req req; /* first: what devices hand back is a part */
	struct fth_dev_req *parent;
	struct part *next; /* in the pool */
	uint64_t offset;   /* in the object */
	uint64_t tried;	   /* bit r: replica r failed to give it */
	unsigned device, replica;
	struct iovec pieces[VOL_PIECES_MAX];
};

struct lane {
	struct fth_dev_chan *inner; /* NULL: the object has nothing on that device */
	struct fth_dev_req **staged;
	unsigned staged_count;
	unsigned load; /* staged and in flight */
};

struct ring {
	struct fth_dev_req **reqs;
	unsigned head, count, room;
};

struct vol_chan {
	struct fth_dev_chan chan;
	struct vol_object *obj;
	bool readonly;
	unsigned lane_count;
	struct lane lanes[FTH_VOL_DEVICES_MAX];
	struct part *parts, *pool;
	struct ring backlog, done;
	bool head_begun;
	uint64_t head_at;      /* bytes issued; of a flush, devices */
	unsigned head_replica; /* replicas of the next piece that have their part */
};

static void push(struct ring *ring, struct fth_dev_req *req)
{
	unsigned at = ring->head + ring->count++;

	/* Not a remainder: a division per request would be seen. */
	ring->reqs[at < ring->room ? at : at - ring->room] = req;
}

static struct fth_dev_req *pop(struct ring *ring)
{
	struct fth_dev_req *req = ring->reqs[ring->head];

	if (++ring->head == ring->room)
		ring->head = 0;
	ring->count--;
	return req;
}

static bool changes(const struct fth_dev_req *req)
{
	return req->op == FTH_DEV_WRITE || req->op == FTH_DEV_ZERO || req->op == FTH_DEV_DISCARD;
}

static bool is_replicated(const struct vol_chan *chan)
{
	return chan->obj->entry->replicas > 1;
}

/* ---- the end of a request ---- */

static void set_error(struct fth_dev_req *req, int error)
{
	if (!(req->scratch[0] >> 32))
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
	if (failed && is_replicated(chan) && !chan->readonly)
		error = vol_devices_failed(obj, failed, error);
	if (changes(req) && is_replicated(chan))
		vol_gate_leave(obj);
	req->result = error;
	push(&chan->done, req);
}

/* One part, or the hold of a request that is being issued, is over. */
static void drop(struct vol_chan *chan, struct fth_dev_req *req)
{
	if ((uint32_t)--req->scratch[0] == 0)
		finish(chan, req);
}

/* ---- parts ---- */

static struct part *take_part(struct vol_chan *chan, struct fth_dev_req *parent)
{
	struct part *part = chan->pool;

	if (!part)
		return NULL;
	chan->pool = part->next;
	part->parent = parent;
	part->tried = 0;
	parent->scratch[0]++;
	return part;
}

static void stage(struct vol_chan *chan, struct part *part, unsigned device)
{
	struct lane *lane = &chan->lanes[device];

	part->device = device;
	lane->staged[lane->staged_count++] = &part->req;
	lane->load++;
}

/* Give a part the bytes [at, at + length) of its request's buffers. */
static void cut_pieces(struct part *part, const struct fth_dev_req *from, uint64_t at,
		       uint64_t length)
{
	unsigned n = 0;

	if (length == from->length) {
		part->req.iov = from->iov;
		part->req.iov_count = from->iov_count;
		return;
	}
	for (const struct iovec *piece = from->iov; length > 0; piece++) {
		uint64_t take;

		if (at >= piece->iov_len) {
			at -= piece->iov_len;
			continue;
		}
		take = piece->iov_len - at < length ? piece->iov_len - at : length;
		part->pieces[n++] = (struct iovec){(char *)piece->iov_base + at, take};
		length -= take;
		at = 0;
	}
	part->req.iov = part->pieces;
	part->req.iov_count = n;
}

static void fill_part(struct vol_chan *chan, struct part *part, const struct vol_place *place,
		      uint64_t at, uint64_t length, unsigned replica)
{
	const struct fth_dev_req *from = part->parent;

	part->offset = from->offset + at;
	part->replica = replica;
	part->req.op = from->op;
	part->req.flags = from->flags;
	part->req.offset = vol_place_offset(chan->obj, place, replica);
	part->req.length = length;
	if (from->op == FTH_DEV_READ || from->op == FTH_DEV_WRITE)
		cut_pieces(part, from, at, length);
	/* Replicas of a discarded block would differ from then on. */
	else if (is_replicated(chan))
		part->req.op = FTH_DEV_ZERO;
	stage(chan, part, vol_place_device(chan->obj, place, replica));
}

/*
 * The replica to read from: the one whose device has least to do here, or while replicas may
 * differ always the first good one. -1: none is left.
 */
static int choose(const struct vol_chan *chan, const struct vol_place *place, uint64_t tried)
{
	const struct vol_object *obj = chan->obj;
	unsigned replicas = obj->entry->replicas, least = UINT32_MAX;
	/* acquire: a device that went out of date before a write was acknowledged is seen so */
	uint64_t stale = fth_load_acquire_dev64(&obj->stale);
	bool ordered = fth_load_relaxed_dev32(&obj->unsynced) != 0;
	int best = -1;

	for (unsigned k = 0; k < replicas; k++) {
		unsigned r = ordered ? k : (unsigned)((place->row + k) % replicas);
		unsigned device = vol_place_device(obj, place, r);

		if (stale >> device & 1 || tried >> r & 1 || chan->lanes[device].load >= least)
			continue;
		best = (int)r;
		if (ordered)
			break;
		least = chan->lanes[device].load;
	}
	return best;
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
	if (is_replicated(chan) && !vol_gate_enter(obj))
		return 1;
	/* relaxed: read when the object is closed, after everything in flight has come back */
	if (!fth_load_relaxed_dev32(&obj->written))
		fth_store_relaxed_dev32(&obj->written, 1);
	return 0;
}

static bool issue_flush(struct vol_chan *chan, struct fth_dev_req *req)
{
	/* acquire: see choose() */
	uint64_t to = chan->obj->used & ~fth_load_acquire_dev64(&chan->obj->stale);

	for (; chan->head_at < chan->lane_count; chan->head_at++) {
		struct part *part;

		if (!(to >> chan->head_at & 1))
			continue;
		part = take_part(chan, req);
		if (!part)
			return false;
		part->req.op = FTH_DEV_FLUSH;
		part->req.flags = 0;
		stage(chan, part, (unsigned)chan->head_at);
	}
	return true;
}

static bool issue_read(struct vol_chan *chan, struct fth_dev_req *req,
		       const struct vol_place *place, uint64_t length)
{
	int replica = is_replicated(chan) ? choose(chan, place, 0) : 0;
	struct part *part;

	if (replica < 0) {
		set_error(req, -EIO);
		return true;
	}
	part = take_part(chan, req);
	if (!part)
		return false;
	fill_part(chan, part, place, chan->head_at, length, (unsigned)replica);
	return true;
}

static bool issue_change(struct vol_chan *chan, struct fth_dev_req *req,
			 const struct vol_place *place, uint64_t length)
{
	/* acquire: see choose() */
	uint64_t stale = fth_load_acquire_dev64(&chan->obj->stale);

	for (; chan->head_replica < chan->obj->entry->replicas; chan->head_replica++) {
		struct part *part;

		if (stale >> vol_place_device(chan->obj, place, chan->head_replica) & 1)
			continue;
		part = take_part(chan, req);
		if (!part)
			return false;
		fill_part(chan, part, place, chan->head_at, length, chan->head_replica);
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
		if (rc < 0) { /* not by finish(): it has not passed the gate */
			pop(&chan->backlog);
			req->result = rc;
			push(&chan->done, req);
			return true;
		}
		chan->head_begun = true;
		chan->head_at = 0;
		chan->head_replica = 0;
	}
	if (req->op == FTH_DEV_FLUSH ? !issue_flush(chan, req) : !issue_pieces(chan, req))
		return false;
	chan->head_begun = false;
	pop(&chan->backlog);
	drop(chan, req);
	return true;
}

/* ---- what comes back ---- */

/* A read failed: ask the next replica. False: there is none. */
static bool read_elsewhere(struct vol_chan *chan, struct part *part)
{
	struct vol_place place = vol_place(chan->obj, part->offset);
	int replica;

	part->tried |= (uint64_t)1 << part->replica;
	replica = choose(chan, &place, part->tried);
	if (replica < 0)
		return false;
	part->replica = (unsigned)replica;
	part->req.offset = vol_place_offset(chan->obj, &place, part->replica);
	stage(chan, part, vol_place_device(chan->obj, &place, part->replica));
	return true;
}

static void note_failures(struct vol_chan *chan, struct part *part)
{
	struct vol_object *obj = chan->obj;

	if (part->req.op == FTH_DEV_FLUSH)
		/* relaxed: a count; the flush that must see it is this one, or comes later */
		fth_add_relaxed_dev32(&obj->vol->members[part->device].flush_failures, 1);
	if (part->req.op != FTH_DEV_READ)
		part->parent->scratch[1] |= (uint64_t)1 << part->device;
	set_error(part->parent, part->req.result);
}

static void part_done(struct vol_chan *chan, struct part *part)
{
	chan->lanes[part->device].load--;
	if (part->req.result < 0) {
		if (part->req.op == FTH_DEV_READ && is_replicated(chan) &&
		    read_elsewhere(chan, part))
			return;
		note_failures(chan, part);
	} else if (part->tried) {
		fth_stats_add(chan->obj->vol->stats, FTH_VOL_FAILOVERS, 1);
		for (unsigned r = 0; r < chan->obj->entry->replicas; r++)
			if (part->tried >> r & 1)
				vol_note_repair(chan->obj, part->offset, part->req.length, r);
	}
	part->next = chan->pool;
	chan->pool = part;
	drop(chan, part->parent);
}

/* Submit what is staged for a device. What it refuses for good comes back at once. */
static void send(struct vol_chan *chan, struct lane *lane)
{
	while (lane->staged_count > 0) {
		int rc = fth_dev_submit(lane->inner, lane->staged, lane->staged_count);
		struct fth_dev_req *refused = NULL;

		if (rc == -EAGAIN)
			return;
		if (rc <= 0) {
			refused = lane->staged[0];
			refused->result = rc < 0 ? rc : -EIO;
			rc = 1;
		}
		lane->staged_count -= (unsigned)rc;
		memmove(lane->staged, lane->staged + rc,
			lane->staged_count * sizeof(lane->staged[0]));
		if (refused)
			part_done(chan, (struct part *)refused);
	}
}

static void send_all(struct vol_chan *chan)
{
	for (unsigned i = 0; i < chan->lane_count; i++)
		if (chan->lanes[i].staged_count > 0)
			send(chan, &chan->lanes[i]);
}

static void pump(struct vol_chan *chan)
{
	while (chan->backlog.count > 0 && issue_head(chan))
		;
	send_all(chan);
}

/* Take back what one device has done, waiting for one at most until `until`. */
static int collect(struct vol_chan *chan, struct lane *lane, unsigned min, uint64_t until)
{
	struct fth_dev_req *batch[REAP_BATCH];
	int n = fth_dev_reap(lane->inner, batch, REAP_BATCH, min, until);

	while (n > 0) {
		for (int i = 0; i < n; i++)
			part_done(chan, (struct part *)batch[i]);
		n = n < (int)REAP_BATCH ? 0 : fth_dev_reap(lane->inner, batch, REAP_BATCH, 0, 0);
	}
	return n == -ETIME ? 0 : n;
}

static int collect_all(struct vol_chan *chan)
{
	int rc = 0;

	for (unsigned i = 0; i < chan->lane_count; i++) {
		struct lane *lane = &chan->lanes[i];

		if (lane->load > lane->staged_count) {
			int one = collect(chan, lane, 0, 0);

			rc = rc == 0 ? one : rc;
		}
	}
	/* relaxed: seen late, it is done late */
	if (fth_load_relaxed_dev32(&chan->obj->repair_count) > 0 && !chan->readonly)
		vol_run_repairs(chan->obj);
	pump(chan);
	return rc;
}

/* Wait on the device with most in flight, for a turn only where there are others as well. */
static int wait_for_any(struct vol_chan *chan, uint64_t deadline)
{
	struct lane *busiest = NULL;
	unsigned most = 0, busy = 0;
	uint64_t turn;

	for (unsigned i = 0; i < chan->lane_count; i++) {
		unsigned in_flight = chan->lanes[i].load - chan->lanes[i].staged_count;

		busy += in_flight > 0;
		if (in_flight > most) {
			most = in_flight;
			busiest = &chan->lanes[i];
		}
	}
	if (busy == 1 && chan->backlog.count == 0)
		return collect(chan, busiest, 1, deadline);
	turn = fth_deadline_ns(busy ? TURN_NS : RETRY_NS);
	if (turn > deadline)
		turn = deadline;
	if (busy)
		return collect(chan, busiest, 1, turn);
	/* Nothing in flight: a gate is closed, or a device is full of others' requests. */
	for (struct fth_backoff backoff = {0}; !fth_backoff_expired(&backoff, turn);)
		;
	return 0;
}

int vol_chan_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max, unsigned min,
		  uint64_t deadline)
{
	struct vol_chan *chan = (struct vol_chan *)base;
	unsigned n = 0;
	int rc = collect_all(chan);

	while (rc == 0 && chan->done.count < min &&
	       (deadline == FTH_NEVER || fth_now_ns() < deadline)) {
		rc = wait_for_any(chan, deadline);
		if (rc == 0)
			rc = collect_all(chan);
	}
	while (n < max && chan->done.count > 0)
		done[n++] = pop(&chan->done);
	return n > 0 ? (int)n : rc;
}

int vol_chan_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct vol_chan *chan = (struct vol_chan *)base;

	for (unsigned i = 0; i < n; i++)
		push(&chan->backlog, reqs[i]);
	pump(chan);
	return (int)n;
}

/* ---- making and ending ---- */

static bool ring_init(struct ring *ring, unsigned room)
{
	ring->room = room;
	ring->reqs = calloc(room, sizeof(ring->reqs[0]));
	return ring->reqs != NULL;
}

static int open_lane(struct vol_chan *chan, unsigned i, unsigned depth)
{
	struct lane *lane = &chan->lanes[i];

	lane->staged = calloc(depth, sizeof(lane->staged[0]));
	if (!lane->staged)
		return -ENOMEM;
	return fth_dev_chan_open(chan->obj->vol->members[i].dev, depth, &lane->inner);
}

static void release(struct vol_chan *chan)
{
	for (unsigned i = 0; i < chan->lane_count; i++) {
		fth_dev_chan_close(chan->lanes[i].inner);
		free(chan->lanes[i].staged);
	}
	free(chan->parts);
	free(chan->backlog.reqs);
	free(chan->done.reqs);
	free(chan);
}

static int fill(struct vol_chan *chan, unsigned depth, unsigned pool)
{
	struct vol_object *obj = chan->obj;
	uint64_t used = obj->used & ~obj->vol->missing;

	chan->parts = calloc(pool, sizeof(chan->parts[0]));
	if (!chan->parts || !ring_init(&chan->backlog, depth) || !ring_init(&chan->done, depth))
		return -ENOMEM;
	for (unsigned i = 0; i < pool; i++) {
		chan->parts[i].next = chan->pool;
		chan->pool = &chan->parts[i];
	}
	for (unsigned i = 0; i < chan->lane_count; i++) {
		int rc = used >> i & 1 ? open_lane(chan, i, pool) : 0;

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
	chan->obj = dev->obj;
	chan->readonly = dev->readonly;
	chan->lane_count = dev->obj->vol->count;
	rc = fill(chan, depth, pool < UINT16_MAX ? (unsigned)pool : UINT16_MAX);
	if (rc < 0) {
		release(chan);
		return rc;
	}
	*out = &chan->chan;
	return 0;
}

void vol_chan_close(struct fth_dev_chan *base)
{
	release((struct vol_chan *)base);
}
