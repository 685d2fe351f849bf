/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts of requests: on their way to the devices, back, and to another replica.
 *
 *	taken --fill--> staged --send--> in flight --collect--> back in the pool
 *	                  ^                  | a read that failed
 *	                  +------------------+
 *
 * A read that fails goes to another replica. When no replica can give all of it, it is split: each
 * block is read by itself, from the first replica that can give that block. While replicas may
 * differ (`unsynced`) it is split at once, so that each block comes from the first replica that
 * can give it, whatever happens to its neighbours.
 *
 * Invariants
 * 1. Parts come from a pool made with the channel. A part that is split reads its blocks one after
 *    the other by itself; parts that are free take blocks off its end. So it needs none to go on.
 * 2. A part is in the pool, or staged or in flight and counted in the load of its device. A part
 *    with a rest is in chan->splits as well.
 */
#include "vol/channel/channel.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define REAP_BATCH 32u

/* ---- taking and filling ---- */

struct vol_part *vol_part_take(struct vol_chan *chan, struct fth_dev_req *parent)
{
	struct vol_part *part = chan->pool;

	if (!part)
		return NULL;
	chan->pool = part->next;
	part->parent = parent;
	part->tried = 0;
	part->rest = 0;
	part->noted = false;
	parent->scratch[0]++;
	return part;
}

void vol_part_stage(struct vol_chan *chan, struct vol_part *part, unsigned device)
{
	struct vol_leg *leg = &chan->legs[device];

	part->device = device;
	leg->staged[leg->staged_count++] = &part->req;
	leg->load++;
}

/* Give a part the bytes [at, at + length) of its request's buffers. */
static void cut_pieces(struct vol_part *part, uint64_t at, uint64_t length)
{
	const struct fth_dev_req *from = part->parent;
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

void vol_part_fill(struct vol_chan *chan, struct vol_part *part, const struct vol_place *place,
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
		cut_pieces(part, at, length);
	/* Replicas of a discarded block would differ from then on. */
	else if (vol_is_replicated(chan))
		part->req.op = FTH_DEV_ZERO;
	vol_part_stage(chan, part, vol_place_device(chan->obj, place, replica));
}

/* ---- replicas to read from ---- */

static bool is_ordered(const struct vol_object *obj)
{
	/* relaxed: a read that misses it by a moment overlapped the change that set it */
	return fth_load_relaxed_dev32(&obj->unsynced) != 0;
}

int vol_choose(const struct vol_chan *chan, const struct vol_place *place, uint64_t tried)
{
	const struct vol_object *obj = chan->obj;
	unsigned replicas = obj->entry->replicas, least = UINT32_MAX;
	/* acquire: a device that went out of date before a write was acknowledged is seen so */
	uint64_t stale = fth_load_acquire_dev64(&obj->stale);
	bool ordered = is_ordered(obj);
	int best = -1;

	for (unsigned k = 0; k < replicas; k++) {
		unsigned r = ordered ? k : (unsigned)((place->row + k) % replicas);
		unsigned device = vol_place_device(obj, place, r);

		if (stale >> device & 1 || tried >> r & 1 || chan->legs[device].load >= least)
			continue;
		best = (int)r;
		if (ordered)
			break;
		least = chan->legs[device].load;
	}
	return best;
}

/* Read `length` bytes at part->offset from a replica that was not tried. False: none is left. */
static bool read_from_any(struct vol_chan *chan, struct vol_part *part, uint64_t length)
{
	struct vol_place place = vol_place(chan->obj, part->offset);
	int replica = vol_choose(chan, &place, part->tried);

	if (replica < 0)
		return false;
	vol_part_fill(chan, part, &place, part->offset - part->parent->offset, length,
		      (unsigned)replica);
	return true;
}

/* ---- splitting ---- */

static void part_over(struct vol_chan *chan, struct vol_part *part);

static void leave_splits(struct vol_chan *chan, struct vol_part *part)
{
	struct vol_part **link = &chan->splits;

	while (*link != part)
		link = &(*link)->next;
	*link = part->next;
}

static void give_up_rest(struct vol_chan *chan, struct vol_part *part)
{
	leave_splits(chan, part);
	part->rest = 0;
}

/* Replicas that failed to give all of a part are to be repaired, where it is needed. */
static void note_repairs(struct vol_chan *chan, const struct vol_part *part)
{
	for (unsigned r = 0; !chan->readonly && r < chan->obj->entry->replicas; r++)
		if (part->tried >> r & 1)
			vol_note_repair(chan->obj, part->offset, part->req.length, r);
}

/* Its first block is read now, the others by itself afterwards or by parts that are free. */
static bool split_read(struct vol_chan *chan, struct vol_part *part)
{
	uint32_t block = chan->obj->vol->space.block;

	if (part->tried) {
		note_repairs(chan, part);
		part->noted = true;
	}
	part->tried = 0;
	part->rest = part->req.length - block;
	part->next = chan->splits;
	chan->splits = part;
	if (read_from_any(chan, part, block))
		return true;
	give_up_rest(chan, part);
	return false;
}

void vol_parts_spread(struct vol_chan *chan)
{
	uint32_t block = chan->obj->vol->space.block;

	while (chan->splits && chan->pool) {
		struct vol_part *part = chan->splits, *helper;

		if (vol_req_failed(part->parent)) {
			give_up_rest(chan, part);
			continue;
		}
		helper = vol_part_take(chan, part->parent);
		helper->offset = part->offset + part->rest;
		helper->noted = part->noted;
		part->rest -= block;
		if (part->rest == 0)
			chan->splits = part->next;
		if (!read_from_any(chan, helper, block)) {
			vol_req_error(helper->parent, -EIO);
			part_over(chan, helper);
		}
	}
}

/* One block of a split read is over: read the next one. False: there is none, or no need. */
static bool next_block(struct vol_chan *chan, struct vol_part *part)
{
	uint32_t block = chan->obj->vol->space.block;

	if (part->rest == 0)
		return false;
	if (vol_req_failed(part->parent)) {
		give_up_rest(chan, part);
		return false;
	}
	part->offset += block;
	part->rest -= block;
	part->tried = 0;
	if (part->rest == 0)
		leave_splits(chan, part);
	if (read_from_any(chan, part, block))
		return true;
	vol_req_error(part->parent, -EIO);
	if (part->rest > 0)
		give_up_rest(chan, part);
	return false;
}

/* ---- what comes back ---- */

/* The part is not needed any more. */
static void part_over(struct vol_chan *chan, struct vol_part *part)
{
	part->next = chan->pool;
	chan->pool = part;
	vol_req_drop(chan, part->parent);
}

/* A read failed: ask another replica, or for each block by itself. False: nothing is left. */
static bool read_elsewhere(struct vol_chan *chan, struct vol_part *part)
{
	bool many = part->req.length > chan->obj->vol->space.block;

	if (many && is_ordered(chan->obj))
		return split_read(chan, part);
	part->tried |= (uint64_t)1 << part->replica;
	return read_from_any(chan, part, part->req.length) || (many && split_read(chan, part));
}

static void note_failures(struct vol_chan *chan, struct vol_part *part)
{
	struct vol_object *obj = chan->obj;

	if (part->req.op == FTH_DEV_FLUSH)
		/* relaxed: a count; the flush that must see it is this one, or comes later */
		fth_add_relaxed_dev32(&obj->vol->members[part->device].flush_failures, 1);
	if (part->req.op != FTH_DEV_READ)
		part->parent->scratch[1] |= (uint64_t)1 << part->device;
	vol_req_error(part->parent, part->req.result);
}

static void part_done(struct vol_chan *chan, struct vol_part *part)
{
	chan->legs[part->device].load--;
	if (part->req.result < 0) {
		if (part->req.op == FTH_DEV_READ && vol_is_replicated(chan) &&
		    read_elsewhere(chan, part))
			return;
		note_failures(chan, part);
	} else if (part->tried) {
		fth_stats_add(chan->obj->vol->stats, FTH_VOL_FAILOVERS, 1);
		if (!part->noted)
			note_repairs(chan, part);
	}
	if (!next_block(chan, part))
		part_over(chan, part);
}

/* ---- to and from the devices ---- */

/*
 * Submit what is staged for a device. What it refuses for good comes back at once, and may be
 * staged for another one: true.
 */
static bool send_leg(struct vol_chan *chan, struct vol_leg *leg)
{
	bool any_refused = false;

	while (leg->staged_count > 0) {
		int rc = fth_dev_submit(leg->inner, leg->staged, leg->staged_count);
		struct fth_dev_req *refused = NULL;

		if (rc == -EAGAIN)
			break;
		if (rc <= 0) {
			refused = leg->staged[0];
			refused->result = rc < 0 ? rc : -EIO;
			rc = 1;
		}
		leg->staged_count -= (unsigned)rc;
		memmove(leg->staged, leg->staged + rc, leg->staged_count * sizeof(leg->staged[0]));
		if (refused) {
			part_done(chan, (struct vol_part *)refused);
			any_refused = true;
		}
	}
	return any_refused;
}

void vol_parts_send(struct vol_chan *chan)
{
	bool again;

	/* Ends: a part is refused once by each replica, as a whole and for each block. */
	do {
		again = false;
		for (unsigned i = 0; i < chan->leg_count; i++)
			if (chan->legs[i].staged_count > 0)
				again = send_leg(chan, &chan->legs[i]) || again;
	} while (again);
}

int vol_parts_collect(struct vol_chan *chan, struct vol_leg *leg, unsigned min, uint64_t until)
{
	struct fth_dev_req *batch[REAP_BATCH];
	int n = fth_dev_reap(leg->inner, batch, REAP_BATCH, min, until);

	while (n > 0) {
		for (int i = 0; i < n; i++)
			part_done(chan, (struct vol_part *)batch[i]);
		n = n < (int)REAP_BATCH ? 0 : fth_dev_reap(leg->inner, batch, REAP_BATCH, 0, 0);
	}
	return n == -ETIME ? 0 : n;
}
