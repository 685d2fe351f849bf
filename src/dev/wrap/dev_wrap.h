/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the wrapper devices share: a channel over a channel of the device inside, in which a
 * request is in one of three places until reap hands it back.
 *
 *	backlog		accepted, but the device inside had no room for it yet
 *	inside		in flight in the device inside
 *	held		its result is known; it is handed back when its time has come
 *
 * A wrapper's submit sends each request inside (fth_wrap_pass) or holds it with a result of its
 * own (fth_wrap_hold), and so takes all of them. Its `inner_done` is told of each request that
 * comes back from inside and holds it, or another one in its place.
 *
 * The device inside owns req->scratch while it has the request, so what a wrapper must know about
 * it meanwhile is kept in a table beside: fth_wrap_tag and fth_wrap_untag.
 */
#ifndef FTH_DEV_WRAP_INTERNAL_H
#define FTH_DEV_WRAP_INTERNAL_H

#include "dev/wake.h"

#include "fathom/dev/driver.h"
#include "fathom/dev/wrap.h"

#define FTH_WRAP_NOW 0 /* the due time of what need not be held */

struct fth_wrap_dev {
	struct fth_dev dev;
	struct fth_dev *inner; /* owned */
};

struct fth_wrap_held {
	uint64_t due; /* on fth_now_ns()'s clock */
	uint64_t order;
	struct fth_dev_req *req;
};

struct fth_wrap_tag {
	const struct fth_dev_req *req; /* NULL: a free place */
	uint64_t value;
};

struct fth_wrap_chan {
	struct fth_dev_chan chan;
	struct fth_dev_chan *inner;
	void (*inner_done)(struct fth_wrap_chan *chan, struct fth_dev_req *req);

	struct fth_wrap_held *held; /* a min-heap by due, then order */
	unsigned held_count;
	uint64_t held_order;

	struct fth_dev_req **backlog; /* a ring */
	unsigned backlog_head, backlog_count;
	unsigned capacity; /* of held and backlog: the channel's depth */

	struct fth_wrap_tag *tags; /* open addressing, never more than half full */
	unsigned tag_mask;

	/* For fth_dev_chan_fd(): the set has the timer, those of wrappers inside, the innermost. */
	int fd_set;
	struct fth_wake_timer timer; /* when reap has something to do of its own */
	bool in_reap;		     /* the timer is set once at its end */
};

/*
 * Set up a zeroed channel over a new channel of inner. When it fails nothing is left to release.
 */
int fth_wrap_chan_init(struct fth_wrap_chan *chan, struct fth_dev *inner, unsigned depth,
		       void (*inner_done)(struct fth_wrap_chan *, struct fth_dev_req *));
void fth_wrap_chan_release(struct fth_wrap_chan *chan);

/*
 * Send requests inside. What the device inside has no room for waits in the backlog; what it
 * refuses for another reason comes back to inner_done with that as its result.
 */
void fth_wrap_pass(struct fth_wrap_chan *chan, struct fth_dev_req *const *reqs, unsigned n);

/* Hand req back, its result being set, once `due` has come. */
void fth_wrap_hold(struct fth_wrap_chan *chan, struct fth_dev_req *req, uint64_t due);

/* Remember a number with a request; at most depth requests have one. */
void fth_wrap_tag(struct fth_wrap_chan *chan, const struct fth_dev_req *req, uint64_t value);
/* Take it back: false when req has none. */
bool fth_wrap_untag(struct fth_wrap_chan *chan, const struct fth_dev_req *req, uint64_t *value);

/* A channel that has nothing of its own, on the heap; ended by fth_wrap_chan_close(). */
int fth_wrap_chan_new(struct fth_dev *dev, unsigned depth,
		      void (*inner_done)(struct fth_wrap_chan *, struct fth_dev_req *),
		      struct fth_dev_chan **out);

/* For struct fth_dev_ops. A wrapper is known by its map, so every wrapper uses this one. */
void fth_wrap_chan_close(struct fth_dev_chan *chan);
int fth_wrap_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max, unsigned min,
		  uint64_t deadline);
int fth_wrap_chan_fd(struct fth_dev_chan *chan);
int fth_wrap_chan_prepare(struct fth_dev_chan *chan);
int fth_wrap_map(struct fth_dev *dev, void *addr, size_t len);
int fth_wrap_unmap(struct fth_dev *dev, void *addr, size_t len);
/* The window of the device inside, as it is. */
int fth_wrap_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			 struct fth_dev_window **out);

#endif
