/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes: channels that threads borrow for a call, with the requests to use on them.
 *
 * A port is a device with its lanes. A lane is free, borrowed, or parked: given back with requests
 * still in flight (a prefetch, or a wait that ran out of time). Parked lanes are looked after by
 * whoever waits for a line, by the worker, and by the next prefetch.
 *
 * Invariants
 * 1. Only the borrower touches a lane, apart from `uses` and the links, which the port's lock
 *    guards. Whoever looks after a parked lane borrows it for that.
 * 2. Each request is in one of: free_ios, open_io, batch, the device.
 * 3. A lane in the free list has nothing open, batched or in flight.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define REAP_MAX 64
/* A device that answers nothing parks a lane for every call that gives up; there it ends. */
#define PARKED_MAX 256u

struct cache_port {
	struct fth_cache *cache;
	struct fth_dev *dev;
	struct cache_port *next;
	uint32_t ranges; /* that use it; 0: it has no device, and may get another */
	uint32_t merge;	 /* lines per request */
	pthread_mutex_t lock;
	struct cache_lane *lanes; /* all */
	struct cache_lane *free;
	struct cache_lane *parked;
	uint32_t parked_count; /* atomic, to look at without the lock */
};

/* ---- ports ---- */

struct fth_dev *cache_port_dev(const struct cache_port *port)
{
	return port->dev;
}

struct cache_port *cache_port_next(const struct fth_cache *cache, const struct cache_port *port)
{
	/* acquire: a port is complete before it is in the list. */
	return port ? port->next : __atomic_load_n(&cache->ports, __ATOMIC_ACQUIRE);
}

static uint32_t merge_limit(const struct fth_cache *cache, const struct fth_dev_info *info)
{
	uint64_t merge = CACHE_MERGE_BYTES >> cache->line_shift;

	if (merge > CACHE_MERGE_MAX)
		merge = CACHE_MERGE_MAX;
	if (merge > info->max_length >> cache->line_shift)
		merge = info->max_length >> cache->line_shift;
	if (merge > info->max_iov)
		merge = info->max_iov;
	return merge ? (uint32_t)merge : 1;
}

static struct cache_port *port_find(struct fth_cache *cache, struct fth_dev *dev)
{
	struct cache_port *port, *unused = NULL;

	for (port = cache->ports; port; port = port->next) {
		if (port->ranges && port->dev == dev)
			return port;
		if (!port->ranges)
			unused = port;
	}
	return unused;
}

struct cache_port *cache_port_get(struct fth_cache *cache, struct fth_dev *dev)
{
	struct cache_port *port = port_find(cache, dev);

	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return NULL;
		port->cache = cache;
		pthread_mutex_init(&port->lock, NULL);
		port->next = cache->ports;
		/* release: others walk the list without the lock. */
		__atomic_store_n(&cache->ports, port, __ATOMIC_RELEASE);
	}
	if (port->ranges++ == 0) {
		port->dev = dev;
		port->merge = merge_limit(cache, fth_dev_info(dev));
		/* Only a matter of speed. */
		if (fth_dev_map(dev, cache->data, cache->data_bytes) < 0)
			fth_error_clear();
	}
	return port;
}

static void lane_free(struct cache_lane *lane)
{
	if (!lane)
		return;
	fth_dev_chan_close(lane->chan);
	if (lane->ios) {
		free(lane->ios[0].iov);
		free(lane->ios[0].part);
	}
	free(lane->ios);
	free(lane->batch);
	free(lane);
}

/* Its ranges are empty, so nothing is in flight; closing a channel waits for what is. */
void cache_port_put(struct cache_port *port)
{
	if (--port->ranges)
		return;
	pthread_mutex_lock(&port->lock);
	while (port->lanes) {
		struct cache_lane *lane = port->lanes;

		port->lanes = lane->next;
		lane_free(lane);
	}
	port->free = NULL;
	port->parked = NULL;
	fth_store_relaxed_dev32(&port->parked_count, 0);
	pthread_mutex_unlock(&port->lock);
	if (fth_dev_unmap(port->dev, port->cache->data, port->cache->data_bytes) < 0)
		fth_error_clear();
	port->dev = NULL;
}

void cache_ports_release(struct fth_cache *cache)
{
	while (cache->ports) {
		struct cache_port *port = cache->ports;

		cache->ports = port->next;
		pthread_mutex_destroy(&port->lock);
		free(port);
	}
}

/* ---- lanes ---- */

static int lane_new(struct cache_port *port, struct cache_lane **out)
{
	uint32_t depth = port->cache->depth, merge = port->merge;
	struct cache_lane *lane = calloc(1, sizeof(*lane));
	struct iovec *iov = calloc((size_t)depth * merge, sizeof(*iov));
	struct cache_part *part = calloc((size_t)depth * merge, sizeof(*part));
	int rc = -ENOMEM;

	if (!lane || !iov || !part)
		goto fail;
	lane->port = port;
	lane->batch = calloc(depth, sizeof(struct fth_dev_req *));
	lane->ios = calloc(depth, sizeof(*lane->ios));
	if (!lane->batch || !lane->ios)
		goto fail;
	for (uint32_t i = 0; i < depth; i++) {
		lane->ios[i].iov = iov + (size_t)i * merge;
		lane->ios[i].part = part + (size_t)i * merge;
		lane->ios[i].req.user = &lane->ios[i];
		lane->ios[i].next = i + 1 < depth ? &lane->ios[i + 1] : NULL;
	}
	lane->free_ios = lane->ios;
	iov = NULL;
	part = NULL;
	rc = fth_dev_chan_open(port->dev, depth, &lane->chan);
	if (rc == 0) {
		*out = lane;
		return 0;
	}
fail:
	free(iov);
	free(part);
	lane_free(lane);
	return rc;
}

static struct cache_lane *pop(struct cache_lane **list)
{
	struct cache_lane *lane = *list;

	if (lane)
		*list = lane->next_free;
	return lane;
}

static struct cache_lane *pop_parked(struct cache_port *port)
{
	struct cache_lane *lane = pop(&port->parked);

	if (lane)
		fth_add_relaxed_dev32(&port->parked_count, (uint32_t)-1);
	return lane;
}

int cache_lane_borrow(struct cache_port *port, bool parked, struct cache_lane **out)
{
	struct cache_lane *lane = NULL;
	int rc = 0;

	pthread_mutex_lock(&port->lock);
	if (parked)
		lane = pop_parked(port);
	if (!lane)
		lane = pop(&port->free);
	if (!lane && fth_load_relaxed_dev32(&port->parked_count) >= PARKED_MAX)
		rc = fth_fail(ETIMEDOUT, "the device has left %u calls without an answer",
			      PARKED_MAX);
	if (!lane && rc == 0) {
		rc = lane_new(port, &lane);
		if (rc == 0) {
			lane->next = port->lanes;
			port->lanes = lane;
		}
	}
	if (rc == 0)
		/* acqrel: tables are looked at after this shows; see cache_lanes_quiesce(). */
		fth_add_acqrel_dev64(&lane->uses, 1);
	pthread_mutex_unlock(&port->lock);
	*out = lane;
	return rc;
}

void cache_lane_return(struct cache_lane *lane)
{
	struct cache_port *port = lane->port;
	bool park = lane->in_flight > 0;

	lane->visit = NULL;
	lane->error = 0;
	lane->ahead = lane->ahead && park;
	pthread_mutex_lock(&port->lock);
	/* release: the borrower has done with all tables. */
	fth_add_acqrel_dev64(&lane->uses, 1);
	if (park) {
		lane->next_free = port->parked;
		port->parked = lane;
		fth_add_relaxed_dev32(&port->parked_count, 1);
	} else {
		lane->next_free = port->free;
		port->free = lane;
	}
	pthread_mutex_unlock(&port->lock);
}

void cache_lane_rest(struct cache_lane *lane)
{
	/* release: what was looked at before is not needed any more. */
	fth_add_acqrel_dev64(&lane->uses, 2);
}

/* ---- requests ---- */

static void finish(struct cache_lane *lane, struct cache_io *io, int result)
{
	if (io->req.op == FTH_DEV_READ)
		cache_fetch_done(lane, io, result);
	else
		cache_write_done(lane, io, result);
	lane->lines -= io->count;
	io->count = 0;
	io->next = lane->free_ios;
	lane->free_ios = io;
}

static void close_open(struct cache_lane *lane)
{
	struct cache_io *io = lane->open_io;

	if (!io)
		return;
	io->req.iov = io->iov;
	io->req.iov_count = io->count;
	io->req.flags = 0;
	lane->batch[lane->batched++] = &io->req;
	lane->open_io = NULL;
}

/* Is this line the one after the last of the request? */
static bool continues(const struct cache_io *io, const struct fth_cache_range *range,
		      enum fth_dev_op op, uint64_t line, uint32_t limit)
{
	return io && io->range == range && io->req.op == op && io->count < limit &&
	       io->part[io->count - 1].line + 1 == line;
}

bool cache_lane_has_room(const struct cache_lane *lane, const struct fth_cache_range *range,
			 enum fth_dev_op op, uint64_t line)
{
	return lane->free_ios || continues(lane->open_io, range, op, line, lane->port->merge);
}

bool cache_lane_add(struct cache_lane *lane, struct fth_cache_range *range, enum fth_dev_op op,
		    const struct cache_part *part)
{
	struct cache_io *io = lane->open_io;
	uint32_t bytes = cache_line_bytes(range, part->line);

	if (!continues(io, range, op, part->line, lane->port->merge)) {
		close_open(lane);
		io = lane->free_ios;
		if (!io)
			return false;
		lane->free_ios = io->next;
		lane->open_io = io;
		io->range = range;
		io->req.op = op;
		io->req.offset = cache_line_offset(range, part->line);
		io->req.length = 0;
	}
	io->iov[io->count].iov_base = cache_frame_data(range->cache, part->frame);
	io->iov[io->count].iov_len = bytes;
	io->part[io->count++] = *part;
	lane->lines++;
	io->req.length += bytes;
	return true;
}

static void count_requests(struct cache_lane *lane, struct fth_dev_req *const *reqs, uint32_t n)
{
	uint64_t requests[2] = {0, 0}, bytes[2] = {0, 0};

	for (uint32_t i = 0; i < n; i++) {
		bool write = reqs[i]->op == FTH_DEV_WRITE;

		requests[write]++;
		bytes[write] += reqs[i]->length;
	}
	if (requests[0]) {
		cache_count(lane->port->cache, FTH_CACHE_READ_REQUESTS, requests[0]);
		cache_count(lane->port->cache, FTH_CACHE_BYTES_READ, bytes[0]);
	}
	if (requests[1]) {
		cache_count(lane->port->cache, FTH_CACHE_WRITE_REQUESTS, requests[1]);
		cache_count(lane->port->cache, FTH_CACHE_BYTES_WRITTEN, bytes[1]);
	}
}

void cache_lane_submit(struct cache_lane *lane)
{
	uint32_t done = 0;

	close_open(lane);
	while (done < lane->batched) {
		int n = fth_dev_submit(lane->chan, lane->batch + done, lane->batched - done);

		if (n > 0) {
			count_requests(lane, lane->batch + done, (uint32_t)n);
			lane->in_flight += (uint32_t)n;
			done += (uint32_t)n;
		} else {
			/* As deep as the channel, so it was not depth: this one was refused. */
			finish(lane, lane->batch[done]->user, n < 0 ? n : -EIO);
			done++;
		}
	}
	lane->batched = 0;
}

int cache_lane_reap(struct cache_lane *lane, uint32_t min, uint64_t deadline)
{
	struct fth_dev_req *done[REAP_MAX];
	uint32_t got = 0, max = cache_batch(lane->port->cache);

	if (max > REAP_MAX)
		max = REAP_MAX;
	while (lane->in_flight && (got < min || min == 0)) {
		uint32_t want = min - got < max ? min - got : max;
		int n;

		if (want > lane->in_flight)
			want = lane->in_flight;
		n = fth_dev_reap(lane->chan, done, max, min ? want : 0, deadline);
		if (n < 0)
			return n;
		lane->in_flight -= (uint32_t)n;
		got += (uint32_t)n;
		for (int i = 0; i < n; i++)
			finish(lane, done[i]->user, done[i]->result);
		if (n == 0)
			break;
	}
	return 0;
}

/* ---- lanes left with requests in flight ---- */

static bool help_port(struct cache_port *port, uint64_t wait_ns)
{
	struct cache_lane *lane;
	uint32_t before;
	bool arrived;

	if (!fth_load_relaxed_dev32(&port->parked_count))
		return false;
	pthread_mutex_lock(&port->lock);
	lane = pop_parked(port);
	if (lane)
		fth_add_acqrel_dev64(&lane->uses, 1);
	pthread_mutex_unlock(&port->lock);
	if (!lane)
		return false;
	before = lane->in_flight;
	/* Its time running out is no error here: the lane is parked again. */
	if (cache_lane_reap(lane, wait_ns ? 1 : 0, wait_ns ? fth_deadline_ns(wait_ns) : 0) < 0)
		fth_error_clear();
	arrived = lane->in_flight < before;
	cache_lane_return(lane);
	return arrived;
}

bool cache_lanes_help(struct fth_cache *cache, uint64_t wait_ns)
{
	bool arrived = false;

	for (struct cache_port *port = NULL; (port = cache_port_next(cache, port));)
		arrived |= help_port(port, wait_ns);
	return arrived;
}

static int wait_for_lane(struct cache_lane *lane, uint64_t deadline)
{
	/* acquire: pairs with the return of the lane. */
	uint64_t uses = fth_load_acquire_dev64(&lane->uses);
	struct fth_backoff backoff = {0};

	while ((uses & 1) && fth_load_acquire_dev64(&lane->uses) == uses)
		if (fth_backoff_expired(&backoff, deadline))
			return -ETIMEDOUT;
	return 0;
}

int cache_lanes_quiesce(struct fth_cache *cache, uint64_t deadline)
{
	struct cache_port *port = NULL;
	int rc = 0;

	while (rc == 0 && (port = cache_port_next(cache, port))) {
		struct cache_lane *lane;

		pthread_mutex_lock(&port->lock);
		lane = port->lanes; /* newer ones are borrowed later than now */
		pthread_mutex_unlock(&port->lock);
		for (; lane && rc == 0; lane = lane->next)
			rc = wait_for_lane(lane, deadline);
	}
	return rc;
}
