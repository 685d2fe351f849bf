/* SPDX-License-Identifier: BSD-2-Clause */
/* A channel of an open object, as the files of this folder share it. */
#ifndef FTH_VOL_CHANNEL_H
#define FTH_VOL_CHANNEL_H

#include "vol/open_object.h"

/* What goes to one device: a piece of a request on one replica, or a flush. */
struct vol_part {
	struct fth_dev_req req; /* first: what devices hand back is a part */
	struct fth_dev_req *parent;
	struct vol_part *next; /* in the pool, or of those that are being split */
	uint64_t offset;       /* in the object */
	uint64_t rest;	       /* bytes behind it that are to be read block by block */
	uint64_t tried;	       /* bit r: replica r failed to give it */
	bool noted;	       /* for repair, with all of the range that it was split from */
	unsigned device, replica;
	struct iovec pieces[VOL_PIECES_MAX];
};

struct vol_leg {
	struct fth_dev_chan *inner; /* NULL: the object has nothing on that device */
	struct fth_dev_req **staged;
	unsigned staged_count;
	unsigned load; /* staged and in flight */
};

struct vol_ring {
	struct fth_dev_req **reqs;
	unsigned head, count, room;
};

struct vol_chan {
	struct fth_dev_chan chan;
	struct vol_object *obj;
	bool readonly;
	unsigned leg_count;
	struct vol_leg legs[FTH_VOL_DEVICES_MAX];
	struct vol_part *parts, *pool, *splits;
	struct vol_ring backlog, done;
	bool head_begun;
	uint64_t head_at;      /* bytes issued; of a flush, devices */
	unsigned head_replica; /* replicas of the next piece that have their part */
	bool awaits_repair;    /* the head found a repair under way */
	unsigned asking;       /* requests that are the worker's */

	int set, timer; /* descriptors of channel_wait.c; -1: not made yet */
	bool timer_on;

	/* Under the worker's lock: */
	struct vol_ring asked, answered;
	struct vol_chan *next_asked, *next_awaiting;
	bool listed_awaiting; /* it is in the worker's list */
	bool repair_ended;    /* since then */
	bool unreaped;	      /* there are requests in `done` */
	bool bell_on;
	int bell; /* an eventfd; -1: not made yet */
};

static inline void vol_push(struct vol_ring *ring, struct fth_dev_req *req)
{
	unsigned at = ring->head + ring->count++;

	/* Not a remainder: a division per request would be seen. */
	ring->reqs[at < ring->room ? at : at - ring->room] = req;
}

static inline struct fth_dev_req *vol_pop(struct vol_ring *ring)
{
	struct fth_dev_req *req = ring->reqs[ring->head];

	if (++ring->head == ring->room)
		ring->head = 0;
	ring->count--;
	return req;
}

static inline bool vol_is_replicated(const struct vol_chan *chan)
{
	return chan->obj->entry->replicas > 1;
}

/* ---- channel_parts.c ---- */

/* A part for a request that is in the middle of its life; NULL: the pool is empty. */
struct vol_part *vol_part_take(struct vol_chan *chan, struct fth_dev_req *parent);
void vol_part_stage(struct vol_chan *chan, struct vol_part *part, unsigned device);

/* Aim a part at bytes [at, at + length) of its request, on one replica, and stage it. */
void vol_part_fill(struct vol_chan *chan, struct vol_part *part, const struct vol_place *place,
		   uint64_t at, uint64_t length, unsigned replica);

/*
 * The replica to read from: the one whose device has least to do here, or while replicas may
 * differ always the first good one. -1: none is left.
 */
int vol_choose(const struct vol_chan *chan, const struct vol_place *place, uint64_t tried);

/* Let free parts read blocks from the end of reads that are being split. */
void vol_parts_spread(struct vol_chan *chan);

/* Submit what is staged. */
void vol_parts_send(struct vol_chan *chan);

/* Take back what one device has done, waiting for one at most until `until`. */
int vol_parts_collect(struct vol_chan *chan, struct vol_leg *leg, unsigned min, uint64_t until);

/* ---- channel_wait.c ---- */

void vol_wait_init(struct vol_chan *chan);
void vol_wait_release(struct vol_chan *chan);

/* Wait until a device or the worker has done something, or the deadline. */
int vol_wait(struct vol_chan *chan, uint64_t deadline);

/* At the end of a submit or reap: what is left makes the descriptor readable, or does not. */
void vol_wait_settle(struct vol_chan *chan);

/* Make the bell say whether there is something. Under the worker's lock. */
void vol_bell_update(struct vol_chan *chan);

/* ---- worker.c ---- */

/* Hand over a request, all parts of which are back, that some devices failed. */
void vol_worker_ask(struct vol_chan *chan, struct fth_dev_req *req);

/* Begin a change; during a repair this is false, and the channel's bell rings at its end. */
bool vol_worker_await_repair(struct vol_chan *chan);

/* The channel goes: the worker has nothing of it, and does not ring it. */
void vol_worker_forget(struct vol_chan *chan);

/* ---- channel.c, for channel_parts.c ---- */

static inline bool vol_req_failed(const struct fth_dev_req *req)
{
	return req->scratch[0] >> 32 != 0;
}

void vol_req_error(struct fth_dev_req *req, int error);
/* One part, or the hold of a request that is being issued, is over. */
void vol_req_drop(struct vol_chan *chan, struct fth_dev_req *req);

#endif
