/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fault(URI): fails chosen operations. fault_plan.c says which; here they are made to fail.
 *
 * Invariants
 * 1. An operation gets its number when it is submitted, under the lock, and is taken: numbers are
 *    neither skipped nor given twice.
 * 2. A request is tagged while it is inside if and only if it must come back with an error; the
 *    tag is its `struct doomed`, which is freed when it comes back.
 */
#include "dev/wrap/dev_wrap.h"
#include "dev/wrap/fault_plan.h"
#include "dev/wrap/memory.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>

struct dev_fault {
	struct fth_wrap_dev wrap;
	pthread_mutex_t lock; /* guards all below */
	struct fth_dev_fault_plan plan;
	struct fth_dev_fault_counts counts;
	struct fth_dev_memory memory; /* of operations that are doomed */
	bool armed;
};

/* What is going to happen to one operation. */
struct fate {
	bool hit;
	enum fth_dev_fault_mode mode;
	int error;
	uint64_t due;
	uint64_t prefix; /* torn: bytes that are written */
};

/* An operation that is done inside, but fails: as it is (late), or the first part of it (torn). */
struct doomed {
	struct fate fate;
	struct fth_dev_req *caller; /* the caller's request */
	struct fth_dev_req part;    /* torn: what is done instead */
	size_t bytes;		    /* of this */
	struct iovec iov[];
};

/* ---- deciding ---- */

static struct fate decide_locked(struct dev_fault *fault, const struct fth_dev_req *req)
{
	const struct fth_dev_fault_plan *plan = &fault->plan;
	struct fate fate = {.mode = plan->mode, .error = plan->error};

	if (!fault->armed || !fth_fault_plan_matches(plan, req))
		return fate;
	fault->counts.matched++;
	if (fault->counts.injected >= plan->count ||
	    !fth_fault_plan_hits(plan, fault->counts.matched))
		return fate;
	fault->counts.injected++;
	fate.hit = true;
	fate.due = plan->hold_ns ? fth_deadline_ns(plan->hold_ns) : FTH_WRAP_NOW;
	if (plan->mode == FTH_DEV_FAULT_TORN && req->op == FTH_DEV_WRITE)
		fate.prefix = fth_fault_plan_prefix(plan, fault->counts.matched, req,
						    fault->wrap.dev.info.block);
	return fate;
}

static struct fate decide(struct dev_fault *fault, const struct fth_dev_req *req)
{
	struct fate fate;

	pthread_mutex_lock(&fault->lock);
	fate = decide_locked(fault, req);
	pthread_mutex_unlock(&fault->lock);
	return fate;
}

/* ---- failing ---- */

static void fail_now(struct fth_wrap_chan *chan, struct fth_dev_req *req, const struct fate *fate)
{
	req->result = -fate->error;
	fth_wrap_hold(chan, req, fate->due);
}

/* The first `length` bytes of a request, as pieces of their own. */
static void cut(struct doomed *doomed, uint64_t length)
{
	const struct fth_dev_req *whole = doomed->caller;
	struct fth_dev_req *part = &doomed->part;

	fth_dev_req_init(part, whole->op, NULL, length, whole->offset);
	part->iov = doomed->iov;
	part->iov_count = 0;
	while (length > 0) {
		struct iovec *piece = &doomed->iov[part->iov_count];

		*piece = whole->iov[part->iov_count++];
		if (piece->iov_len > length)
			piece->iov_len = length;
		length -= piece->iov_len;
	}
}

static struct doomed *doomed_new(struct dev_fault *fault, unsigned iov_count)
{
	size_t bytes = sizeof(struct doomed) + iov_count * sizeof(struct iovec);
	struct doomed *doomed;

	pthread_mutex_lock(&fault->lock);
	doomed = fth_dev_memory_take(&fault->memory, bytes);
	pthread_mutex_unlock(&fault->lock);
	if (doomed)
		doomed->bytes = bytes;
	return doomed;
}

static void doomed_free(struct dev_fault *fault, struct doomed *doomed)
{
	pthread_mutex_lock(&fault->lock);
	fth_dev_memory_give(&fault->memory, doomed, doomed->bytes);
	pthread_mutex_unlock(&fault->lock);
}

/* Let a request, or a part of it, be done inside, and fail when it comes back. */
static void fail_after(struct fth_wrap_chan *chan, struct fth_dev_req *req, const struct fate *fate)
{
	struct doomed *doomed = doomed_new((struct dev_fault *)chan->chan.dev, req->iov_count);
	struct fth_dev_req *inside = req;

	if (!doomed) {
		/* Not done at all is the one outcome that needs no memory. */
		fail_now(chan, req, fate);
		return;
	}
	doomed->fate = *fate;
	doomed->caller = req;
	if (fate->prefix) {
		cut(doomed, fate->prefix);
		inside = &doomed->part;
	}
	fth_wrap_tag(chan, inside, (uintptr_t)doomed);
	fth_wrap_pass(chan, &inside, 1);
}

static void fault_inner_done(struct fth_wrap_chan *chan, struct fth_dev_req *req)
{
	struct doomed *doomed;
	uint64_t tag;

	if (!fth_wrap_untag(chan, req, &tag)) {
		fth_wrap_hold(chan, req, FTH_WRAP_NOW);
		return;
	}
	doomed = (struct doomed *)(uintptr_t)tag;
	fail_now(chan, doomed->caller, &doomed->fate);
	doomed_free((struct dev_fault *)chan->chan.dev, doomed);
}

static int fault_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct fth_wrap_chan *chan = (struct fth_wrap_chan *)base;
	unsigned passed = 0; /* reqs[passed .. i) are to be passed on, in one go */

	for (unsigned i = 0; i < n; i++) {
		struct fate fate = decide((struct dev_fault *)base->dev, reqs[i]);

		if (!fate.hit)
			continue;
		fth_wrap_pass(chan, reqs + passed, i - passed);
		passed = i + 1;
		if (fate.mode == FTH_DEV_FAULT_LATE || fate.prefix)
			fail_after(chan, reqs[i], &fate);
		else
			fail_now(chan, reqs[i], &fate);
	}
	fth_wrap_pass(chan, reqs + passed, n - passed);
	return (int)n;
}

/* ---- windows: a persist may fail as a flush does ---- */

struct fault_window {
	struct fth_dev_window window;
	struct fth_dev_window *inner;
};

static struct fth_dev_window *inner_window(const struct fth_dev_window *window)
{
	return ((const struct fault_window *)window)->inner;
}

static void fault_window_close(struct fth_dev_window *window)
{
	fth_dev_window_close(inner_window(window));
	free(window);
}

static void fault_window_load(const struct fth_dev_window *window, uint64_t offset, void *to,
			      uint64_t length)
{
	(void)fth_dev_window_load(inner_window(window), offset, to, length);
}

static void fault_window_store(struct fth_dev_window *window, uint64_t offset, const void *from,
			       uint64_t length)
{
	(void)fth_dev_window_store(inner_window(window), offset, from, length);
}

static int fault_window_persist(struct fth_dev_window *window, uint64_t offset, uint64_t length,
				uint64_t deadline)
{
	struct fth_dev_req flush = {.op = FTH_DEV_FLUSH};
	struct fate fate = decide((struct dev_fault *)window->dev, &flush);
	struct fth_backoff backoff = {0};

	if (!fate.hit || fate.mode == FTH_DEV_FAULT_LATE) {
		int rc = fth_dev_window_persist(inner_window(window), offset, length, deadline);

		if (rc < 0 || !fate.hit)
			return rc;
	}
	if (fate.due > deadline)
		fate = (struct fate){.error = ETIMEDOUT, .due = deadline};
	while (fate.due != FTH_WRAP_NOW && !fth_backoff_expired(&backoff, fate.due))
		;
	return fth_fail(fate.error, "injected fault");
}

static int fault_window_check(const struct fth_dev_window *window)
{
	return fth_dev_window_check(inner_window(window));
}

static int fault_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			     struct fth_dev_window **out)
{
	static const struct fth_dev_window_ops ops = {
		.close = fault_window_close,
		.load = fault_window_load,
		.store = fault_window_store,
		.persist = fault_window_persist,
		.check = fault_window_check,
	};
	struct fault_window *window = calloc(1, sizeof(*window));
	int rc;

	if (!window)
		return -ENOMEM;
	rc = fth_dev_window_open(((struct fth_wrap_dev *)dev)->inner, kind, FTH_DEV_WINDOW_VOLATILE,
				 &window->inner);
	if (rc < 0) {
		free(window);
		return rc;
	}
	window->window = *window->inner;
	window->window.ops = &ops;
	*out = &window->window;
	return 0;
}

/* ---- making and ending ---- */

static int fault_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	return fth_wrap_chan_new(dev, depth, fault_inner_done, out);
}

static void fault_close(struct fth_dev *dev)
{
	struct dev_fault *fault = (struct dev_fault *)dev;

	fth_dev_close(fault->wrap.inner);
	pthread_mutex_destroy(&fault->lock);
	fth_dev_memory_release(&fault->memory);
	free(fault);
}

static const struct fth_dev_ops fault_ops = {
	.close = fault_close,
	.chan_open = fault_chan_open,
	.chan_close = fth_wrap_chan_close,
	.submit = fault_submit,
	.reap = fth_wrap_reap,
	.chan_fd = fth_wrap_chan_fd,
	.chan_prepare = fth_wrap_chan_prepare,
	.map = fth_wrap_map,
	.unmap = fth_wrap_unmap,
	.window_open = fault_window_open,
};

static int fault_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct fth_dev_fault_plan plan;
	struct dev_fault *fault;
	bool given;
	int rc = fth_fault_plan_parse(uri, &plan, &given);

	if (rc < 0)
		return rc;
	fault = calloc(1, sizeof(*fault));
	if (!fault)
		return -ENOMEM;
	pthread_mutex_init(&fault->lock, NULL);
	fault->plan = plan;
	fault->armed = given;
	fault->wrap.inner = inner;
	fault->wrap.dev.ops = &fault_ops;
	fault->wrap.dev.info = *fth_dev_info(inner);
	*out = &fault->wrap.dev;
	return 0;
}

const struct fth_dev_scheme fth_dev_scheme_fault = {
	.name = "fault", .wrapper = true, .open = fault_open};

/* ---- control ---- */

/* The fault device, locked; NULL, with a text for -EINVAL, when dev is none. */
static struct dev_fault *lock_fault(struct fth_dev *dev)
{
	struct dev_fault *fault = (struct dev_fault *)dev;

	if (dev->ops != &fault_ops) {
		(void)fth_fail(EINVAL, "%s is not a fault device", fth_dev_uri(dev));
		return NULL;
	}
	pthread_mutex_lock(&fault->lock);
	return fault;
}

int fth_dev_fault_set(struct fth_dev *dev, const struct fth_dev_fault_plan *plan)
{
	struct dev_fault *fault;
	int rc = fth_fault_plan_check(plan);

	if (rc < 0)
		return rc;
	fault = lock_fault(dev);
	if (!fault)
		return -EINVAL;
	fault->plan = *plan;
	fault->counts = (struct fth_dev_fault_counts){0};
	fault->armed = true;
	pthread_mutex_unlock(&fault->lock);
	return 0;
}

int fth_dev_fault_get(struct fth_dev *dev, struct fth_dev_fault_plan *plan)
{
	struct dev_fault *fault = lock_fault(dev);

	if (!fault)
		return -EINVAL;
	*plan = fault->plan;
	pthread_mutex_unlock(&fault->lock);
	return 0;
}

static int set_armed(struct fth_dev *dev, bool armed)
{
	struct dev_fault *fault = lock_fault(dev);

	if (!fault)
		return -EINVAL;
	fault->armed = armed;
	pthread_mutex_unlock(&fault->lock);
	return 0;
}

int fth_dev_fault_arm(struct fth_dev *dev)
{
	return set_armed(dev, true);
}

int fth_dev_fault_disarm(struct fth_dev *dev)
{
	return set_armed(dev, false);
}

int fth_dev_fault_counts(struct fth_dev *dev, struct fth_dev_fault_counts *counts)
{
	struct dev_fault *fault = lock_fault(dev);

	if (!fault)
		return -EINVAL;
	*counts = fault->counts;
	pthread_mutex_unlock(&fault->lock);
	return 0;
}
