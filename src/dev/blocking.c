/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocking calls: a pool of channels for one request each, called slots.
 *
 * A call takes an idle slot or opens another one, copies its data into the slot's buffer, submits
 * the slot's request and waits for it, all without a lock. A call whose deadline passes leaves the
 * slot behind with the request in flight: the slot is parked. Later calls look at parked slots and
 * make those idle whose request has ended.
 *
 *	          open             done                    (none)
 *	(none) ---------> BUSY ------------> IDLE ---------> BUSY
 *	                   |  deadline         ^     take
 *	                   v                   | its request ended
 *	                 PARKED <---------> LOOKED_AT
 *	                          a call reaps
 *
 * Invariants
 * 1. pool->lock guards the table of slots and their states. It is held for table work only, never
 *    over a call into the device.
 * 2. A slot's channel, request and buffer belong to the thread that made it BUSY or LOOKED_AT. Of
 *    a PARKED slot they belong to the device.
 * 3. The device sees only memory of a slot, never the caller's, so that a caller that ran out of
 *    time may do with its buffer what it likes.
 * 4. A call on blocks that a parked write, zero or discard touches waits for that one: a late
 *    write must not land on top of a newer one.
 */
#include "dev/blocking.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Slots of a device, in use or parked. Beyond that calls wait for one. */
#define SLOTS_MAX 32
/* Idle slots that keep their channel and buffer for later calls. */
#define IDLE_MAX 4
/* Bytes of one request. A longer transfer is several, one after the other in the same buffer. */
#define CHUNK_MAX  (1u << 20)
#define PAGE_BYTES 4096u
/* How often a call that waits for a slot looks at the parked ones: nobody else does. */
#define LOOK_NS 1000000u
/* How soon to submit again when the device had no room though the slot's channel was empty. */
#define RETRY_NS 100000u

enum slot_state {
	SLOT_BUSY,
	SLOT_IDLE,
	SLOT_PARKED,
	SLOT_LOOKED_AT,
};

struct slot {
	enum slot_state state;
	struct fth_dev_chan *chan;
	struct fth_dev_req req;
	char *buf;
	uint64_t capacity;
};

struct fth_dev_blocking {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a slot became idle, or its place free */
	struct slot *slots[SLOTS_MAX];
};

struct fth_dev_blocking *fth_blocking_new(void)
{
	struct fth_dev_blocking *pool = calloc(1, sizeof(*pool));
	pthread_condattr_t attr;

	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* fth_now_ns()'s */
	pthread_cond_init(&pool->changed, &attr);
	pthread_condattr_destroy(&attr);
	return pool;
}

/* ---- waiting ---- */

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u)};
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool has_passed(uint64_t deadline)
{
	return deadline != FTH_NEVER && fth_now_ns() >= deadline;
}

static void wait_locked(struct fth_dev_blocking *pool, uint64_t until)
{
	struct timespec ts = timespec_of(until);

	if (until == FTH_NEVER)
		pthread_cond_wait(&pool->changed, &pool->lock);
	else
		pthread_cond_timedwait(&pool->changed, &pool->lock, &ts);
}

/* ---- slots ---- */

static void slot_release(struct slot *slot)
{
	fth_dev_chan_close(slot->chan);
	free(slot->buf);
}

static bool is_parked(const struct slot *slot)
{
	return slot && (slot->state == SLOT_PARKED || slot->state == SLOT_LOOKED_AT);
}

static unsigned count_idle(const struct fth_dev_blocking *pool)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SLOTS_MAX; i++)
		n += pool->slots[i] && pool->slots[i]->state == SLOT_IDLE;
	return n;
}

/* Where a slot is, or for NULL a free place; there is one. */
static unsigned place_of(const struct fth_dev_blocking *pool, const struct slot *slot)
{
	unsigned i = 0;

	while (pool->slots[i] != slot)
		i++;
	return i;
}

/* The calling thread is done with a slot that has nothing in flight. Drops the lock meanwhile. */
static void retire_locked(struct fth_dev_blocking *pool, struct slot *slot)
{
	if (slot->chan && count_idle(pool) < IDLE_MAX) {
		slot->state = SLOT_IDLE;
	} else {
		/* Its place stays taken until the channel is closed: SLOTS_MAX bounds those. */
		unsigned place = place_of(pool, slot);

		pthread_mutex_unlock(&pool->lock);
		slot_release(slot);
		pthread_mutex_lock(&pool->lock);
		pool->slots[place] = NULL;
		free(slot);
	}
	pthread_cond_broadcast(&pool->changed);
}

static void put_back(struct fth_dev_blocking *pool, struct slot *slot)
{
	pthread_mutex_lock(&pool->lock);
	if (fth_dev_chan_in_flight(slot->chan) > 0)
		slot->state = SLOT_PARKED;
	else
		retire_locked(pool, slot);
	/* Also when parked: threads that wait for a slot reap from parked ones from now on. */
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

/* Look whether a parked slot's request has ended. Drops the lock meanwhile. */
static void look_at_locked(struct fth_dev_blocking *pool, struct slot *slot)
{
	struct fth_dev_req *done;

	slot->state = SLOT_LOOKED_AT;
	pthread_mutex_unlock(&pool->lock);
	/* Its result has nobody to go to: the call that made the request has failed. */
	(void)fth_dev_reap(slot->chan, &done, 1, 0, 0);
	pthread_mutex_lock(&pool->lock);
	if (fth_dev_chan_in_flight(slot->chan) > 0)
		slot->state = SLOT_PARKED;
	else
		retire_locked(pool, slot);
}

/* Look at all parked slots. Returns how many are left. */
static unsigned look_at_parked_locked(struct fth_dev_blocking *pool)
{
	unsigned left = 0;

	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		if (pool->slots[i] && pool->slots[i]->state == SLOT_PARKED)
			look_at_locked(pool, pool->slots[i]);
		left += is_parked(pool->slots[i]);
	}
	return left;
}

/* ---- taking a slot ---- */

/* One blocking call. */
struct call {
	struct fth_dev *dev;
	enum fth_dev_op op;
	uint64_t length, offset; /* of all of it */
	uint64_t deadline;
};

static int out_of_time(const struct call *call)
{
	return fth_fail(ETIMEDOUT,
			"%s: %s of %llu bytes at %llu did not complete before its deadline",
			fth_dev_uri(call->dev), fth_dev_op_name(call->op),
			(unsigned long long)call->length, (unsigned long long)call->offset);
}

/* Whether a parked slot may still change blocks of this call. */
static bool is_blocked_by(const struct call *call, const struct slot *slot)
{
	const struct fth_dev_req *req = &slot->req;

	if (call->op == FTH_DEV_FLUSH || req->op == FTH_DEV_FLUSH || req->op == FTH_DEV_READ)
		return false;
	return call->offset < req->offset + req->length &&
	       req->offset < call->offset + call->length;
}

static bool is_blocked(const struct call *call)
{
	const struct fth_dev_blocking *pool = call->dev->blocking;

	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (is_parked(pool->slots[i]) && is_blocked_by(call, pool->slots[i]))
			return true;
	return false;
}

static struct slot *find_idle(const struct fth_dev_blocking *pool)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (pool->slots[i] && pool->slots[i]->state == SLOT_IDLE)
			return pool->slots[i];
	return NULL;
}

static bool has_slots(const struct fth_dev_blocking *pool)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (pool->slots[i])
			return true;
	return false;
}

static bool has_place(const struct fth_dev_blocking *pool)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (!pool->slots[i])
			return true;
	return false;
}

/* Open another slot, BUSY, in a free place. Drops the lock meanwhile. */
static int open_slot_locked(struct fth_dev *dev, struct slot **out)
{
	struct fth_dev_blocking *pool = dev->blocking;
	struct slot *slot = calloc(1, sizeof(*slot));
	int rc;

	*out = NULL;
	if (!slot)
		return -ENOMEM;
	pool->slots[place_of(pool, NULL)] = slot;
	pthread_mutex_unlock(&pool->lock);
	rc = fth_dev_chan_open(dev, 1, &slot->chan);
	pthread_mutex_lock(&pool->lock);
	if (rc == 0)
		*out = slot;
	else
		retire_locked(pool, slot);
	return rc;
}

/*
 * Take an idle slot or open one. Where no channel can be opened, but others are open, waits for
 * one of those: a device may have a limit of its own.
 */
static int take_locked(const struct call *call, struct slot **out)
{
	struct fth_dev_blocking *pool = call->dev->blocking;
	int refused = 0; /* why no channel could be opened */

	for (;;) {
		unsigned parked = look_at_parked_locked(pool);

		if (!is_blocked(call)) {
			*out = find_idle(pool);
			if (*out)
				break;
			if (!refused && has_place(pool)) {
				refused = open_slot_locked(call->dev, out);
				if (*out)
					break;
				continue; /* the lock was dropped: one may be idle now */
			}
			if (!has_slots(pool))
				return refused;
		}
		if (has_passed(call->deadline))
			return out_of_time(call);
		wait_locked(pool, parked == 0 ? call->deadline
					      : lesser(call->deadline, fth_deadline_ns(LOOK_NS)));
	}
	(*out)->state = SLOT_BUSY;
	return 0;
}

static int take(const struct call *call, struct slot **out)
{
	int rc;

	/* After its deadline a call starts nothing. */
	if (has_passed(call->deadline))
		return out_of_time(call);
	pthread_mutex_lock(&call->dev->blocking->lock);
	rc = take_locked(call, out);
	pthread_mutex_unlock(&call->dev->blocking->lock);
	return rc;
}

/* ---- one request ---- */

static int reserve(struct slot *slot, uint64_t bytes, uint64_t align)
{
	void *buf;

	if (slot->capacity >= bytes)
		return 0;
	bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	if (posix_memalign(&buf, align > PAGE_BYTES ? align : PAGE_BYTES, bytes) != 0)
		return -ENOMEM;
	free(slot->buf);
	slot->buf = buf;
	slot->capacity = bytes;
	return 0;
}

/* Submit, and again while the device is out of room: others hold what it needs. */
static int submit(const struct call *call, struct slot *slot)
{
	struct fth_dev_req *req = &slot->req;
	int rc;

	while ((rc = fth_dev_submit(slot->chan, &req, 1)) == -EAGAIN || rc == 0) {
		uint64_t until = lesser(call->deadline, fth_deadline_ns(RETRY_NS));
		struct timespec ts = timespec_of(until);

		if (has_passed(call->deadline))
			return out_of_time(call);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	}
	return rc < 0 ? rc : 0;
}

static int run(const struct call *call, struct slot *slot)
{
	struct fth_dev_req *done;
	int rc = submit(call, slot);

	if (rc < 0)
		return rc;
	rc = fth_dev_reap(slot->chan, &done, 1, 1, call->deadline);
	if (rc == -ETIME)
		return out_of_time(call);
	return rc < 0 ? rc : slot->req.result;
}

static uint64_t chunk_of(const struct fth_dev_info *info, uint64_t length)
{
	uint64_t chunk = lesser(info->max_length, CHUNK_MAX / info->block * info->block);

	if (chunk == 0) /* a block is longer */
		chunk = info->block;
	return lesser(chunk, length);
}

int fth_blocking_prepare(struct fth_dev *dev)
{
	struct fth_dev_blocking *pool = dev->blocking;
	const struct call call = {
		.dev = dev, .op = FTH_DEV_FLUSH, .deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS)};
	struct slot *slot;
	int rc = take(&call, &slot);

	if (rc < 0)
		return rc;
	rc = reserve(slot, chunk_of(&dev->info, CHUNK_MAX), dev->info.align);
	if (rc == 0)
		rc = fth_dev_chan_prepare(slot->chan);
	put_back(pool, slot);
	return rc;
}

/* ---- the calls ---- */

static int move(const struct call *call, struct slot *slot, char *buf)
{
	const struct fth_dev_info *info = &call->dev->info;
	uint64_t chunk = chunk_of(info, call->length), n;
	int rc = reserve(slot, chunk, info->align);

	for (uint64_t at = 0; rc == 0 && at < call->length; at += n) {
		n = lesser(chunk, call->length - at);
		if (at > 0 && has_passed(call->deadline))
			return out_of_time(call);
		if (call->op == FTH_DEV_WRITE)
			memcpy(slot->buf, buf + at, n);
		fth_dev_req_init(&slot->req, call->op, slot->buf, n, call->offset + at);
		rc = run(call, slot);
		if (rc == 0 && call->op == FTH_DEV_READ)
			memcpy(buf + at, slot->buf, n);
	}
	return rc;
}

static int call_device(struct fth_dev *dev, enum fth_dev_op op, void *buf, uint64_t length,
		       uint64_t offset, uint64_t deadline)
{
	const struct call call = {
		.dev = dev,
		.op = op,
		.length = length,
		.offset = offset,
		.deadline = deadline == FTH_DEV_TIMEOUT ? fth_deadline_ns(FTH_DEV_TIMEOUT_NS)
							: deadline,
	};
	struct slot *slot;
	int rc = op == FTH_DEV_FLUSH ? 0 : fth_dev_check_range(&dev->info, length, offset);

	if (rc == 0)
		rc = take(&call, &slot);
	if (rc < 0)
		return rc;
	if (op == FTH_DEV_READ || op == FTH_DEV_WRITE) {
		rc = move(&call, slot, buf);
	} else {
		fth_dev_req_init(&slot->req, op, NULL, length, offset);
		rc = run(&call, slot);
	}
	put_back(dev->blocking, slot);
	return rc;
}

int fth_dev_read(struct fth_dev *dev, void *buf, uint64_t length, uint64_t offset,
		 uint64_t deadline)
{
	return call_device(dev, FTH_DEV_READ, buf, length, offset, deadline);
}

int fth_dev_write(struct fth_dev *dev, const void *buf, uint64_t length, uint64_t offset,
		  uint64_t deadline)
{
	/* The cast is safe: a write only reads its buffer. */
	return call_device(dev, FTH_DEV_WRITE, (void *)(uintptr_t)buf, length, offset, deadline);
}

int fth_dev_flush(struct fth_dev *dev, uint64_t deadline)
{
	return call_device(dev, FTH_DEV_FLUSH, NULL, 0, 0, deadline);
}

int fth_dev_discard(struct fth_dev *dev, uint64_t length, uint64_t offset, uint64_t deadline)
{
	return call_device(dev, FTH_DEV_DISCARD, NULL, length, offset, deadline);
}

int fth_dev_zero(struct fth_dev *dev, uint64_t length, uint64_t offset, uint64_t deadline)
{
	return call_device(dev, FTH_DEV_ZERO, NULL, length, offset, deadline);
}

/* ---- the end ---- */

static bool is_quiet(const struct fth_dev_blocking *pool)
{
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (pool->slots[i] && pool->slots[i]->state != SLOT_IDLE)
			return false;
	return true;
}

int fth_blocking_settle(struct fth_dev *dev, uint64_t deadline)
{
	struct fth_dev_blocking *pool = dev->blocking;
	int rc = 0;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		(void)look_at_parked_locked(pool);
		if (is_quiet(pool))
			break;
		if (has_passed(deadline)) {
			rc = -ETIMEDOUT;
			break;
		}
		wait_locked(pool, lesser(deadline, fth_deadline_ns(LOOK_NS)));
	}
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

void fth_blocking_free(struct fth_dev_blocking *pool)
{
	if (!pool)
		return;
	for (unsigned i = 0; i < SLOTS_MAX; i++)
		if (pool->slots[i]) {
			slot_release(pool->slots[i]);
			free(pool->slots[i]);
		}
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}
