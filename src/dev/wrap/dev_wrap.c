/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The channel that all wrappers share; dev_wrap.h says how it is used.
 *
 * Invariants
 * 1. A request that submit took is in exactly one place: backlog, inside, or held.
 * 2. held and backlog have room for depth requests each, so neither can overflow.
 * 3. While the backlog is not empty every new request joins it: none overtakes for ever.
 * 4. A held request never keeps reap from looking inside, nor one inside from handing back a held
 *    one that is due: waiting for either ends when the other may have something.
 * 5. Whenever submit or reap returns, the timer is set to the time at which reap has something to
 *    do that the device inside does not announce: a held request is due, or the backlog is to be
 *    tried again.
 */
#include "dev/wrap/dev_wrap.h"

#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define REAP_BATCH 32
/* Waits are slept up to this long before their end, and spun from there: a sleep ends late. */
#define SPIN_NS 50000u
/* How soon to try again when the device inside has no room though nothing is in flight in it. */
#define RETRY_NS 100000u

/* ---- tags ---- */

static unsigned tag_home(const struct fth_wrap_chan *chan, const struct fth_dev_req *req)
{
	return (unsigned)fth_mix64((uintptr_t)req) & chan->tag_mask;
}

void fth_wrap_tag(struct fth_wrap_chan *chan, const struct fth_dev_req *req, uint64_t value)
{
	unsigned i = tag_home(chan, req);

	while (chan->tags[i].req)
		i = (i + 1) & chan->tag_mask;
	chan->tags[i] = (struct fth_wrap_tag){.req = req, .value = value};
}

/* Empty place i, moving up those behind it that would no longer be found. */
static void tag_remove(struct fth_wrap_chan *chan, unsigned i)
{
	unsigned mask = chan->tag_mask;

	for (unsigned j = (i + 1) & mask; chan->tags[j].req; j = (j + 1) & mask) {
		unsigned home = tag_home(chan, chan->tags[j].req);

		/* j may move to i unless its home lies behind i on the way to j. */
		if (((j - home) & mask) < ((j - i) & mask))
			continue;
		chan->tags[i] = chan->tags[j];
		i = j;
	}
	chan->tags[i].req = NULL;
}

bool fth_wrap_untag(struct fth_wrap_chan *chan, const struct fth_dev_req *req, uint64_t *value)
{
	unsigned i = tag_home(chan, req);

	while (chan->tags[i].req && chan->tags[i].req != req)
		i = (i + 1) & chan->tag_mask;
	if (!chan->tags[i].req)
		return false;
	*value = chan->tags[i].value;
	tag_remove(chan, i);
	return true;
}

/* ---- when to wake up ---- */

/* When reap is to be called though the device inside has announced nothing. */
static uint64_t wake_time(const struct fth_wrap_chan *chan)
{
	uint64_t at = FTH_WAKE_TIMER_OFF;

	if (chan->held_count > 0)
		at = chan->held[0].due == FTH_WRAP_NOW ? FTH_WAKE_TIMER_NOW : chan->held[0].due;
	if (chan->backlog_count > 0 && fth_dev_chan_in_flight(chan->inner) == 0) {
		uint64_t retry = fth_deadline_ns(RETRY_NS);

		if (at == FTH_WAKE_TIMER_OFF || retry < at)
			at = retry;
	}
	return at;
}

static void set_timer(struct fth_wrap_chan *chan)
{
	if (chan->timer.fd >= 0 && !chan->in_reap)
		fth_wake_timer_set(&chan->timer, wake_time(chan));
}

/* ---- held requests ---- */

static bool earlier(const struct fth_wrap_held *a, const struct fth_wrap_held *b)
{
	return a->due != b->due ? a->due < b->due : a->order < b->order;
}

void fth_wrap_hold(struct fth_wrap_chan *chan, struct fth_dev_req *req, uint64_t due)
{
	struct fth_wrap_held item = {.due = due, .order = chan->held_order++, .req = req};
	unsigned i = chan->held_count++;

	while (i > 0 && earlier(&item, &chan->held[(i - 1) / 2])) {
		chan->held[i] = chan->held[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	chan->held[i] = item;
	set_timer(chan);
}

static struct fth_dev_req *pop_held(struct fth_wrap_chan *chan)
{
	struct fth_dev_req *first = chan->held[0].req;
	struct fth_wrap_held item = chan->held[--chan->held_count];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < chan->held_count) {
		if (child + 1 < chan->held_count &&
		    earlier(&chan->held[child + 1], &chan->held[child]))
			child++;
		if (!earlier(&chan->held[child], &item))
			break;
		chan->held[i] = chan->held[child];
		i = child;
	}
	chan->held[i] = item;
	return first;
}

static bool first_is_due(const struct fth_wrap_chan *chan)
{
	if (chan->held_count == 0)
		return false;
	return chan->held[0].due == FTH_WRAP_NOW || chan->held[0].due <= fth_now_ns();
}

static unsigned pop_due(struct fth_wrap_chan *chan, struct fth_dev_req **done, unsigned max)
{
	unsigned n = 0;

	while (n < max && first_is_due(chan))
		done[n++] = pop_held(chan);
	return n;
}

/* ---- the device inside ---- */

/* Submit as many as there is room for; what is refused for good is done with. Returns how many. */
static unsigned submit_inside(struct fth_wrap_chan *chan, struct fth_dev_req *const *reqs,
			      unsigned n)
{
	unsigned taken = 0;

	while (taken < n) {
		int rc = fth_dev_submit(chan->inner, reqs + taken, n - taken);

		if (rc == -EAGAIN)
			break;
		if (rc <= 0) {
			reqs[taken]->result = rc < 0 ? rc : -EIO;
			chan->inner_done(chan, reqs[taken]);
			rc = 1;
		}
		taken += (unsigned)rc;
	}
	return taken;
}

void fth_wrap_pass(struct fth_wrap_chan *chan, struct fth_dev_req *const *reqs, unsigned n)
{
	unsigned i = chan->backlog_count == 0 ? submit_inside(chan, reqs, n) : 0;

	for (; i < n; i++) {
		unsigned tail = (chan->backlog_head + chan->backlog_count++) % chan->capacity;

		chan->backlog[tail] = reqs[i];
	}
	set_timer(chan);
}

static void push_backlog(struct fth_wrap_chan *chan)
{
	while (chan->backlog_count > 0 &&
	       submit_inside(chan, &chan->backlog[chan->backlog_head], 1) == 1) {
		chan->backlog_head = (chan->backlog_head + 1) % chan->capacity;
		chan->backlog_count--;
	}
}

/* Collect what is done inside, waiting for one at most until `until`. 0 or an error. */
static int collect(struct fth_wrap_chan *chan, unsigned min, uint64_t until)
{
	struct fth_dev_req *batch[REAP_BATCH];
	int n = fth_dev_reap(chan->inner, batch, REAP_BATCH, min, until);

	while (n > 0) {
		for (int i = 0; i < n; i++)
			chan->inner_done(chan, batch[i]);
		n = n < REAP_BATCH ? 0 : fth_dev_reap(chan->inner, batch, REAP_BATCH, 0, 0);
	}
	push_backlog(chan);
	return n == -ETIME ? 0 : n;
}

static void sleep_until(uint64_t until)
{
	struct fth_backoff backoff = {0};
	uint64_t now = fth_now_ns();

	if (until > now && until - now > SPIN_NS) {
		uint64_t wake = until - SPIN_NS;
		struct timespec ts = {.tv_sec = (time_t)(wake / 1000000000u),
				      .tv_nsec = (long)(wake % 1000000000u)};

		/* A signal ends it early; the caller looks at the clock and comes back. */
		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0)
			return;
	}
	while (!fth_backoff_expired(&backoff, until))
		;
}

/* Wait until something may have become due, at most until the deadline. */
static int wait_for_any(struct fth_wrap_chan *chan, uint64_t deadline)
{
	uint64_t until = deadline;

	if (chan->held_count > 0 && chan->held[0].due < until)
		until = chan->held[0].due;
	if (fth_dev_chan_in_flight(chan->inner) > 0)
		return collect(chan, 1, until);
	if (chan->backlog_count > 0 && fth_deadline_ns(RETRY_NS) < until)
		until = fth_deadline_ns(RETRY_NS);
	sleep_until(until);
	push_backlog(chan);
	return 0;
}

int fth_wrap_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max, unsigned min,
		  uint64_t deadline)
{
	struct fth_wrap_chan *chan = (struct fth_wrap_chan *)base;
	unsigned n;
	int rc;

	chan->in_reap = true;
	rc = collect(chan, 0, 0);
	n = pop_due(chan, done, max);
	while (rc == 0 && n < min && (deadline == FTH_NEVER || fth_now_ns() < deadline)) {
		rc = wait_for_any(chan, deadline);
		n += pop_due(chan, done + n, max - n);
	}
	chan->in_reap = false;
	set_timer(chan);
	return n > 0 ? (int)n : rc;
}

/* ---- descriptors ---- */

/*
 * Add what wakes this channel to a set. Wrappers inside add theirs to the same set rather than
 * have one each: the kernel allows epoll sets in each other only a few levels deep.
 */
static int join_set(struct fth_wrap_chan *chan, int set)
{
	int rc = fth_wake_timer_open(&chan->timer);

	if (rc < 0)
		return rc;
	set_timer(chan);
	rc = fth_wake_set_add(set, chan->timer.fd);
	if (rc < 0)
		return rc;
	chan->chan.has_fd = true; /* of one inside fth_dev_chan_fd() is not called */
	if (chan->inner->dev->ops->chan_fd == fth_wrap_chan_fd)
		return join_set((struct fth_wrap_chan *)chan->inner, set);
	rc = fth_dev_chan_fd(chan->inner);
	return rc < 0 ? rc : fth_wake_set_add(set, rc);
}

int fth_wrap_chan_fd(struct fth_dev_chan *base)
{
	struct fth_wrap_chan *chan = (struct fth_wrap_chan *)base;
	int set, rc;

	if (chan->fd_set >= 0)
		return chan->fd_set;
	set = fth_wake_set_new();
	if (set < 0)
		return set;
	rc = join_set(chan, set);
	if (rc < 0) {
		close(set);
		return rc;
	}
	chan->fd_set = set;
	return set;
}

/* ---- making and ending ---- */

static unsigned tag_places(unsigned depth)
{
	unsigned n = 4;

	while (n < 2 * depth)
		n *= 2;
	return n;
}

int fth_wrap_chan_init(struct fth_wrap_chan *chan, struct fth_dev *inner, unsigned depth,
		       void (*inner_done)(struct fth_wrap_chan *, struct fth_dev_req *))
{
	unsigned places = tag_places(depth);
	int rc;

	chan->fd_set = -1;
	chan->timer = (struct fth_wake_timer)FTH_WAKE_NONE;
	chan->inner_done = inner_done;
	chan->capacity = depth;
	chan->tag_mask = places - 1;
	chan->held = calloc(depth, sizeof(chan->held[0]));
	chan->backlog = calloc(depth, sizeof(chan->backlog[0]));
	chan->tags = calloc(places, sizeof(chan->tags[0]));
	rc = chan->held && chan->backlog && chan->tags
		     ? fth_dev_chan_open(inner, depth, &chan->inner)
		     : -ENOMEM;
	if (rc < 0)
		fth_wrap_chan_release(chan);
	return rc;
}

void fth_wrap_chan_release(struct fth_wrap_chan *chan)
{
	if (chan->fd_set >= 0)
		close(chan->fd_set);
	fth_wake_timer_close(&chan->timer);
	fth_dev_chan_close(chan->inner);
	free(chan->held);
	free(chan->backlog);
	free(chan->tags);
	chan->fd_set = -1;
	chan->inner = NULL;
	chan->held = NULL;
	chan->backlog = NULL;
	chan->tags = NULL;
}

int fth_wrap_chan_new(struct fth_dev *dev, unsigned depth,
		      void (*inner_done)(struct fth_wrap_chan *, struct fth_dev_req *),
		      struct fth_dev_chan **out)
{
	struct fth_wrap_chan *chan = calloc(1, sizeof(*chan));
	int rc;

	if (!chan)
		return -ENOMEM;
	rc = fth_wrap_chan_init(chan, ((struct fth_wrap_dev *)dev)->inner, depth, inner_done);
	if (rc < 0) {
		free(chan);
		return rc;
	}
	*out = &chan->chan;
	return 0;
}

void fth_wrap_chan_close(struct fth_dev_chan *chan)
{
	fth_wrap_chan_release((struct fth_wrap_chan *)chan);
	free(chan);
}

int fth_wrap_chan_prepare(struct fth_dev_chan *chan)
{
	return fth_dev_chan_prepare(((struct fth_wrap_chan *)chan)->inner);
}

int fth_wrap_map(struct fth_dev *dev, void *addr, size_t len)
{
	return fth_dev_map(((struct fth_wrap_dev *)dev)->inner, addr, len);
}

int fth_wrap_unmap(struct fth_dev *dev, void *addr, size_t len)
{
	return fth_dev_unmap(((struct fth_wrap_dev *)dev)->inner, addr, len);
}

int fth_wrap_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			 struct fth_dev_window **out)
{
	return fth_dev_window_open(((struct fth_wrap_dev *)dev)->inner, kind,
				   FTH_DEV_WINDOW_VOLATILE, out);
}

struct fth_dev *fth_dev_inner(const struct fth_dev *dev)
{
	return dev->ops->map == fth_wrap_map ? ((const struct fth_wrap_dev *)dev)->inner : NULL;
}
