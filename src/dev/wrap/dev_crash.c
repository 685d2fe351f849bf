/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crash(URI): a volatile write cache that can lose power. crash_log.c keeps what is pending.
 *
 * Invariants
 * 1. A write is in the log from its submission until a flush, the limit or a power loss takes it
 *    out. It counts as completed once reap hands it back with 0, and only then may a flush that
 *    is submitted later not leave it behind. A write with FTH_DEV_FUA leaves the log in that reap.
 * 2. `epoch` counts power losses. A request whose operation is of an earlier epoch was in flight
 *    when the power went, and comes back with -ENODEV.
 * 3. A read goes inside on its own only when nothing is pending on its sectors; else it is done
 *    under the lock. So of what is inside no two touch the same sectors, unless the caller's do.
 * 4. Lock order: the common part's lock, this device's, then those of the device inside.
 * 5. I/O under the lock has a deadline, one for all that an operation does. A write that timed out
 *    stays in the log. Whoever writes its sectors later goes through the log too, and the blocking
 *    calls of the device inside keep their order (blocking.c, invariant 4).
 * 6. The windows that are open and have power are in `windows`. A persist counts as a flush does.
 */
#include "dev/blocking.h"
#include "dev/wrap/crash_log.h"
#include "dev/wrap/crash_window.h"
#include "dev/wrap/dev_wrap.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT  ((uint64_t)1 << 30)
#define LIMIT_MIN      4096
#define DATA_ALIGN     4096
#define NS_PER_MS      1000000u
#define TIMEOUT_MAX_MS (3600u * 1000u)
/* Above this a zero or discard goes straight inside: its sectors would fill the index. */
#define THROUGH_MIN ((uint64_t)16 << 20)

struct dev_crash {
	struct fth_wrap_dev wrap;
	uint64_t limit;
	uint64_t timeout_ns; /* of what one operation does inside */
	bool lie, fua;

	pthread_mutex_t lock; /* guards all below, and the operations of all channels */
	struct fth_crash_log log;
	struct fth_crash_window *windows;
	struct fth_dev_crash_counts counts; /* without pending and pending_bytes */
	uint64_t crash_at;		    /* value of counts.operations, 0: never */
	uint64_t seed;
	uint64_t epoch;
	bool off;
	bool stalled; /* the device inside did not answer in time, and has not since */
	int lost;     /* why the contents are unknown, or 0 */
};

struct operation {
	uint64_t epoch;
	struct fth_crash_record *record; /* of a write that is pending, or NULL */
	unsigned next_free;
};

struct chan_crash {
	struct fth_wrap_chan wrap;
	unsigned first_free;
	struct operation operations[]; /* as many as the channel is deep */
};

/*
 * For one operation from now on: all that it does inside has to be done by then. While a request
 * that timed out is still inside, that is at once, so that those who wait for the lock do not all
 * wait for the device as well.
 */
static struct fth_crash_inside inside_of(struct dev_crash *crash)
{
	struct fth_crash_inside inside = {.dev = crash->wrap.inner,
					  .deadline = fth_deadline_ns(crash->timeout_ns)};

	if (crash->stalled)
		crash->stalled = fth_blocking_settle(inside.dev, fth_now_ns()) < 0;
	if (crash->stalled)
		inside.deadline = fth_now_ns();
	return inside;
}

/* ---- power ---- */

/*
 * Every open window loses what was not persisted, and must be opened again before it can be used.
 */
static int lose_windows(struct dev_crash *crash, uint64_t seed, uint64_t deadline)
{
	int rc = 0;

	while (crash->windows) {
		int result = fth_crash_window_power_loss(crash->windows, seed, deadline);

		rc = rc < 0 ? rc : result;
		crash->windows = crash->windows->next;
	}
	return rc;
}

static int lose_power(struct dev_crash *crash, uint64_t seed, const struct fth_crash_inside *inside)
{
	struct fth_crash_toll toll = {0};
	int rc = lose_windows(crash, seed, inside->deadline);

	crash->off = true;
	crash->epoch++;
	crash->crash_at = 0;
	crash->counts.crashes++;
	crash->lost = fth_crash_log_power_loss(&crash->log, inside, seed, &toll);
	if (crash->lost == 0)
		crash->lost = rc;
	crash->counts.survived += toll.survived;
	crash->counts.vanished += toll.vanished;
	crash->counts.torn += toll.torn;
	return crash->lost;
}

/* Count an operation and say whether the power goes with it. */
static bool count_operation(struct dev_crash *crash)
{
	return ++crash->counts.operations == crash->crash_at;
}

/* ---- operations, all under the lock ---- */

static int make_room(struct dev_crash *crash, uint64_t wanted,
		     const struct fth_crash_inside *inside)
{
	while (crash->log.count > 0 && crash->log.bytes + wanted > crash->limit) {
		int rc = fth_crash_log_write_back_oldest(&crash->log, inside);

		if (rc < 0)
			return rc;
		crash->counts.written_back++;
	}
	return 0;
}

static int through(struct dev_crash *crash, const struct fth_dev_req *req,
		   const struct fth_crash_inside *inside)
{
	uint64_t before = crash->log.count;
	int rc = fth_crash_log_write_back(&crash->log, inside, false);

	crash->counts.written_back += before - crash->log.count;
	if (rc < 0)
		return rc;
	if (req->op == FTH_DEV_ZERO)
		return fth_dev_zero(inside->dev, req->length, req->offset, inside->deadline);
	return fth_dev_discard(inside->dev, req->length, req->offset, inside->deadline);
}

static int change(struct dev_crash *crash, struct operation *op, const struct fth_dev_req *req,
		  const struct fth_crash_inside *inside)
{
	int rc;

	if (req->op != FTH_DEV_WRITE && req->length > THROUGH_MIN)
		return through(crash, req, inside);
	rc = make_room(crash, fth_crash_log_cost(req), inside);
	return rc < 0 ? rc : fth_crash_log_add(&crash->log, req, &op->record);
}

static int flush(struct dev_crash *crash, const struct fth_crash_inside *inside)
{
	int rc;

	if (crash->lie)
		return 0;
	rc = fth_crash_log_write_back(&crash->log, inside, true);
	return rc < 0 ? rc : fth_dev_flush(inside->dev, inside->deadline);
}

static uint64_t count_pending(const struct dev_crash *crash, const struct fth_dev_req *req)
{
	uint64_t first = req->offset / FTH_CRASH_SECTOR, n = 0;

	if (crash->log.count == 0)
		return 0;
	for (uint64_t i = 0; i < req->length / FTH_CRASH_SECTOR; i++)
		n += fth_crash_log_find(&crash->log, first + i) != NULL;
	return n;
}

static int read_mixed(const struct dev_crash *crash, const struct fth_dev_req *req, char *flat,
		      uint64_t count, const struct fth_crash_inside *inside)
{
	uint64_t first = req->offset / FTH_CRASH_SECTOR;

	/* When all of it is pending there is nothing to ask the medium for. */
	if (count * FTH_CRASH_SECTOR < req->length) {
		int rc =
			fth_dev_read(inside->dev, flat, req->length, req->offset, inside->deadline);

		if (rc < 0)
			return rc;
	}
	for (uint64_t i = 0; i < req->length / FTH_CRASH_SECTOR; i++) {
		const char *bytes = fth_crash_log_find(&crash->log, first + i);

		if (bytes)
			memcpy(flat + i * FTH_CRASH_SECTOR, bytes, FTH_CRASH_SECTOR);
	}
	fth_dev_req_scatter(req, flat);
	return 0;
}

/* 1: the request must go inside; else its result. */
static int read_pending(struct dev_crash *crash, const struct fth_dev_req *req,
			const struct fth_crash_inside *inside)
{
	uint64_t count = count_pending(crash, req);
	size_t bytes = req->length < DATA_ALIGN ? DATA_ALIGN : req->length;
	void *flat;
	int rc;

	if (count == 0)
		return 1;
	flat = fth_dev_memory_take(&crash->log.memory, bytes);
	if (!flat)
		return -ENOMEM;
	rc = read_mixed(crash, req, flat, count, inside);
	fth_dev_memory_give(&crash->log.memory, flat, bytes);
	return rc;
}

static int write_or_flush(struct dev_crash *crash, struct operation *op,
			  const struct fth_dev_req *req, const struct fth_crash_inside *inside)
{
	bool goes = count_operation(crash);
	int rc;

	if (req->op == FTH_DEV_FLUSH)
		rc = goes ? -ENODEV : flush(crash, inside);
	else
		rc = change(crash, op, req, inside);
	if (goes)
		(void)lose_power(crash, crash->seed, inside); /* restart returns its error */
	return rc;
}

/* 1: the request must go inside; else its result. */
static int execute(struct dev_crash *crash, struct operation *op, const struct fth_dev_req *req)
{
	const struct fth_crash_inside inside = inside_of(crash);
	int rc;

	if (crash->off)
		return -ENODEV;
	if (req->op == FTH_DEV_READ)
		rc = read_pending(crash, req, &inside);
	else
		rc = write_or_flush(crash, op, req, &inside);
	if (rc == -ETIMEDOUT)
		crash->stalled = true;
	return rc;
}

/* ---- channels ---- */

static int crash_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct dev_crash *crash = (struct dev_crash *)base->dev;
	struct chan_crash *chan = (struct chan_crash *)base;

	pthread_mutex_lock(&crash->lock);
	for (unsigned i = 0; i < n; i++) {
		unsigned at = chan->first_free;
		struct operation *op = &chan->operations[at];
		int rc;

		chan->first_free = op->next_free;
		op->epoch = crash->epoch;
		fth_wrap_tag(&chan->wrap, reqs[i], at);
		rc = execute(crash, op, reqs[i]);
		if (rc > 0) {
			fth_wrap_pass(&chan->wrap, &reqs[i], 1);
			continue;
		}
		reqs[i]->result = rc;
		fth_wrap_hold(&chan->wrap, reqs[i], FTH_WRAP_NOW);
	}
	pthread_mutex_unlock(&crash->lock);
	return (int)n;
}

static void crash_inner_done(struct fth_wrap_chan *chan, struct fth_dev_req *req)
{
	fth_wrap_hold(chan, req, FTH_WRAP_NOW);
}

/*
 * A write with FTH_DEV_FUA becomes durable when it is handed back. Older writes stay volatile.
 * Without a record the limit has already brought it inside.
 */
static int make_durable(struct dev_crash *crash, struct fth_crash_record *record)
{
	const struct fth_crash_inside inside = inside_of(crash);
	int rc = record ? fth_crash_log_write_back_one(&crash->log, &inside, record) : 0;

	if (rc == 0)
		rc = fth_dev_flush(inside.dev, inside.deadline);
	if (rc == -ETIMEDOUT)
		crash->stalled = true;
	return rc;
}

/* The request is about to be handed back: settle its result and end its operation. */
static void finish(struct dev_crash *crash, struct chan_crash *chan, struct fth_dev_req *req)
{
	struct operation *op;
	uint64_t at = 0;

	(void)fth_wrap_untag(&chan->wrap, req, &at);
	op = &chan->operations[at];
	if (op->epoch != crash->epoch)
		req->result = -ENODEV;
	else if (req->result == 0 && req->flags & FTH_DEV_FUA && !crash->lie)
		req->result = make_durable(crash, op->record);
	if (op->record)
		fth_crash_log_complete(op->record);
	op->next_free = chan->first_free;
	chan->first_free = (unsigned)at;
}

static int crash_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		      unsigned min, uint64_t deadline)
{
	struct dev_crash *crash = (struct dev_crash *)base->dev;
	int n = fth_wrap_reap(base, done, max, min, deadline);

	if (n <= 0)
		return n;
	pthread_mutex_lock(&crash->lock);
	for (int i = 0; i < n; i++)
		finish(crash, (struct chan_crash *)base, done[i]);
	pthread_mutex_unlock(&crash->lock);
	return n;
}

static int crash_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct chan_crash *chan = calloc(1, sizeof(*chan) + depth * sizeof(chan->operations[0]));
	int rc;

	if (!chan)
		return -ENOMEM;
	rc = fth_wrap_chan_init(&chan->wrap, ((struct fth_wrap_dev *)dev)->inner, depth,
				crash_inner_done);
	if (rc < 0) {
		free(chan);
		return rc;
	}
	for (unsigned i = 0; i < depth; i++)
		chan->operations[i].next_free = i + 1;
	*out = &chan->wrap.chan;
	return 0;
}

/* What it does inside under its lock goes through one slot of the blocking calls. */
static int crash_chan_prepare(struct fth_dev_chan *chan)
{
	int rc = fth_blocking_prepare(((struct fth_wrap_dev *)chan->dev)->inner);

	return rc < 0 ? rc : fth_wrap_chan_prepare(chan);
}

/* ---- windows ---- */

static struct dev_crash *crash_of(const struct fth_dev_window *window)
{
	return (struct dev_crash *)window->dev;
}

static int persist_locked(struct dev_crash *crash, struct fth_crash_window *window, uint64_t offset,
			  uint64_t length, uint64_t deadline)
{
	int rc;

	if (window->lost)
		return fth_fail(ENODEV, "simulated power loss since the window was opened");
	if (count_operation(crash)) {
		struct fth_crash_inside inside = inside_of(crash);

		(void)lose_power(crash, crash->seed, &inside); /* its error is kept for restart */
		return fth_fail(ENODEV, "simulated power loss");
	}
	if (crash->lie)
		return 0;
	rc = fth_crash_window_keep(window, offset, length);
	return rc < 0 ? rc : fth_dev_window_persist(window->inner, offset, length, deadline);
}

static int crash_window_persist(struct fth_dev_window *base, uint64_t offset, uint64_t length,
				uint64_t deadline)
{
	struct dev_crash *crash = crash_of(base);
	int rc;

	pthread_mutex_lock(&crash->lock); /* who holds it waits no longer than crash->timeout_ns */
	rc = persist_locked(crash, (struct fth_crash_window *)base, offset, length, deadline);
	pthread_mutex_unlock(&crash->lock);
	return rc;
}

static int crash_window_check(const struct fth_dev_window *base)
{
	const struct fth_crash_window *window = (const struct fth_crash_window *)base;
	bool lost;

	pthread_mutex_lock(&crash_of(base)->lock);
	lost = window->lost;
	pthread_mutex_unlock(&crash_of(base)->lock);
	if (lost)
		return fth_fail(ENODEV, "simulated power loss since the window was opened");
	return fth_dev_window_check(window->inner);
}

/* As closing the device: what is in front is stored inside, and not persisted. */
static void crash_window_close(struct fth_dev_window *base)
{
	struct fth_crash_window *window = (struct fth_crash_window *)base;
	struct dev_crash *crash = crash_of(base);

	pthread_mutex_lock(&crash->lock);
	for (struct fth_crash_window **at = &crash->windows; *at; at = &(*at)->next) {
		if (*at == window) {
			*at = window->next;
			break;
		}
	}
	if (!window->lost && !(base->info.flags & FTH_DEV_WINDOW_READ_ONLY))
		(void)fth_crash_window_keep(window, 0, base->info.size);
	pthread_mutex_unlock(&crash->lock);
	fth_crash_window_free(window);
}

static int crash_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			     struct fth_dev_window **out)
{
	static const struct fth_dev_window_ops ops = {
		.close = crash_window_close,
		.load = fth_crash_window_load,
		.store = fth_crash_window_store,
		.persist = crash_window_persist,
		.check = crash_window_check,
	};
	struct dev_crash *crash = (struct dev_crash *)dev;
	struct fth_crash_window *window;
	int rc;

	pthread_mutex_lock(&crash->lock);
	rc = crash->off ? fth_fail(ENODEV, "%s: the simulated power is off", fth_dev_uri(dev))
			: fth_crash_window_open(crash->wrap.inner, kind, &window);
	if (rc == 0) {
		window->window.ops = &ops;
		window->window.dev = dev;
		window->next = crash->windows;
		crash->windows = window;
		*out = &window->window;
	}
	pthread_mutex_unlock(&crash->lock);
	return rc;
}

/* ---- making and ending ---- */

static void crash_close(struct fth_dev *dev)
{
	struct dev_crash *crash = (struct dev_crash *)dev;
	const struct fth_crash_inside inside = inside_of(crash);

	/* There is nobody to tell of an error; without a flush nobody was promised anything. */
	(void)fth_crash_log_write_back(&crash->log, &inside, false);
	fth_crash_log_release(&crash->log);
	fth_dev_close(crash->wrap.inner);
	pthread_mutex_destroy(&crash->lock);
	free(crash);
}

static const struct fth_dev_ops crash_ops = {
	.close = crash_close,
	.chan_open = crash_chan_open,
	.chan_close = fth_wrap_chan_close,
	.submit = crash_submit,
	.reap = crash_reap,
	.chan_fd = fth_wrap_chan_fd,
	.chan_prepare = crash_chan_prepare,
	.map = fth_wrap_map,
	.unmap = fth_wrap_unmap,
	.window_open = crash_window_open,
};

static int parse(struct fth_uri *uri, struct dev_crash *crash)
{
	uint64_t timeout_ms = FTH_DEV_TIMEOUT_NS / NS_PER_MS;
	int rc;

	crash->limit = LIMIT_DEFAULT;
	crash->fua = true;
	if ((rc = fth_uri_take_u64(uri, "seed", 0, UINT64_MAX, &crash->seed)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "crash_at", 1, UINT64_MAX, &crash->crash_at)) < 0 ||
	    (rc = fth_uri_take_size(uri, "limit", LIMIT_MIN, UINT64_MAX / 2, &crash->limit)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "timeout_ms", 1, TIMEOUT_MAX_MS, &timeout_ms)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "lie", &crash->lie)) < 0 ||
	    (rc = fth_uri_take_bool(uri, "fua", &crash->fua)) < 0)
		return rc;
	crash->timeout_ns = timeout_ms * NS_PER_MS;
	return fth_uri_finish(uri);
}

/* Tearing at sectors needs blocks that are made of them. */
static int set_info(struct fth_dev_info *info, const struct fth_dev_info *inner)
{
	*info = *inner;
	if (info->block < FTH_CRASH_SECTOR)
		info->block = FTH_CRASH_SECTOR;
	info->max_length -= info->max_length % info->block;
	if (info->block % FTH_CRASH_SECTOR || info->block % inner->block ||
	    info->size % info->block || info->max_length == 0)
		return fth_fail(EINVAL,
				"crash: %llu bytes in blocks of %u bytes are not whole sectors of "
				"512 bytes",
				(unsigned long long)inner->size, inner->block);
	return 0;
}

static int crash_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct dev_crash *crash = calloc(1, sizeof(*crash));
	int rc;

	if (!crash)
		return -ENOMEM;
	rc = parse(uri, crash);
	if (rc == 0)
		rc = set_info(&crash->wrap.dev.info, fth_dev_info(inner));
	crash->wrap.dev.info.has_fua = crash->fua;
	if (rc < 0) {
		free(crash);
		return rc;
	}
	pthread_mutex_init(&crash->lock, NULL);
	crash->wrap.inner = inner;
	crash->wrap.dev.ops = &crash_ops;
	*out = &crash->wrap.dev;
	return 0;
}

const struct fth_dev_scheme fth_dev_scheme_crash = {
	.name = "crash", .wrapper = true, .open = crash_open};

/* ---- control ---- */

/* The crash device, locked; NULL, with a text for -EINVAL, when dev is none. */
static struct dev_crash *lock_crash(struct fth_dev *dev)
{
	struct dev_crash *crash = (struct dev_crash *)dev;

	if (dev->ops != &crash_ops) {
		(void)fth_fail(EINVAL, "%s is not a crash device", fth_dev_uri(dev));
		return NULL;
	}
	pthread_mutex_lock(&crash->lock);
	return crash;
}

int fth_dev_crash_power_loss(struct fth_dev *dev, uint64_t seed)
{
	struct dev_crash *crash = lock_crash(dev);
	struct fth_crash_inside inside;
	int rc;

	if (!crash)
		return -EINVAL;
	inside = inside_of(crash);
	rc = crash->off
		     ? fth_fail(ENODEV, "%s: the simulated power is already off", fth_dev_uri(dev))
		     : lose_power(crash, seed, &inside);
	pthread_mutex_unlock(&crash->lock);
	return rc;
}

int fth_dev_crash_restart(struct fth_dev *dev)
{
	struct dev_crash *crash = lock_crash(dev);
	int rc;

	if (!crash)
		return -EINVAL;
	if (!crash->off)
		rc = fth_fail(EALREADY, "%s: the simulated power is on", fth_dev_uri(dev));
	else
		rc = crash->lost;
	if (rc == 0)
		crash->off = false;
	pthread_mutex_unlock(&crash->lock);
	return rc;
}

int fth_dev_crash_at(struct fth_dev *dev, uint64_t nth, uint64_t seed)
{
	struct dev_crash *crash = lock_crash(dev);

	if (!crash)
		return -EINVAL;
	crash->crash_at = nth ? crash->counts.operations + nth : 0;
	crash->seed = seed;
	pthread_mutex_unlock(&crash->lock);
	return 0;
}

bool fth_dev_crash_powered(struct fth_dev *dev)
{
	struct dev_crash *crash = lock_crash(dev);
	bool on;

	if (!crash)
		return false;
	on = !crash->off;
	pthread_mutex_unlock(&crash->lock);
	return on;
}

int fth_dev_crash_counts(struct fth_dev *dev, struct fth_dev_crash_counts *counts)
{
	struct dev_crash *crash = lock_crash(dev);

	if (!crash)
		return -EINVAL;
	*counts = crash->counts;
	counts->pending = crash->log.count;
	counts->pending_bytes = crash->log.bytes;
	pthread_mutex_unlock(&crash->lock);
	return 0;
}
