/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lanes: channels that threads borrow for a call, with the requests to use on them.
 *
 * A port is a device with its lanes. A lane is free, borrowed, or parked: returned with requests
 * still in flight (a prefetch, or a wait that timed out). Threads that wait for a line, the
 * worker and the next prefetch reap parked lanes.
 *
 * Invariants
 * 1. Only the borrower accesses a lane, except for `epoch`, and for `borrowed` and the links, which
 *    the port's lock protects. A thread that reaps a parked lane borrows it first.
 * 2. Each request is in one of: free_ios, open_io, batch, the device.
 * 3. A lane in the free list has nothing open, batched or in flight.
 * 4. A lane's epoch is 0 while its borrower uses no range, tag or table other than those that it holds
 *    references on; otherwise it is the cache's epoch when that use began. cache_lanes_quiesce()
 *    increments the cache's epoch and waits until no lane has an older one.
 * 5. A failed request for several lines is retried line by line, by the same request on the
 *    same lane: io->at is the current line.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A line may be changed while it is written: it is DIRTY again then, and written again. Devices
 * that copy it in our thread are told about to ThreadSanitizer as what they are, on purpose.
 */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#else
#define AnnotateIgnoreReadsBegin(file, line) (void)0
#define AnnotateIgnoreReadsEnd(file, line)   (void)0
#endif

#define REAP_MAX 64
/* A device that answers nothing parks a lane for every call that gives up; there it ends. */
#define PARKED_MAX 256u

struct cache_port {
	struct fth_cache *cache;
	struct fth_dev *dev;
	struct cache_port *next;
	uint32_t ranges;   /* that use it; 0: it has no device, and may get another */
	uint32_t slabs;	   /* of the cache's memory that the device knows; under setup */
	bool maps_no_more; /* a slab was refused; under setup */
	uint32_t merge;	   /* lines per request */
	pthread_mutex_t lock;
	struct cache_lane *lanes; /* all */
	struct cache_lane *free;
	struct cache_lane *parked;
	uint32_t parked_count; /* atomic, to look at without the lock */
};

/* ---- ports ---- */

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

/* ---- memory known to devices ---- */

/* Under setup: make slabs [0, upto) known to the device. Only a matter of speed. */
static void map_slabs(struct cache_port *port, uint32_t upto)
{
	struct fth_cache *cache = port->cache;

	while (!port->maps_no_more && port->slabs < upto) {
		if (fth_dev_map(port->dev, cache_slab(cache, port->slabs),
				cache_slab_bytes(cache, port->slabs)) < 0) {
			port->maps_no_more = true;
			fth_error_clear();
			return;
		}
		port->slabs++;
	}
}

static void unmap_slabs(struct cache_port *port)
{
	struct fth_cache *cache = port->cache;

	for (uint32_t i = 0; i < port->slabs; i++)
		if (fth_dev_unmap(port->dev, cache_slab(cache, i), cache_slab_bytes(cache, i)) < 0)
			fth_error_clear();
	port->slabs = 0;
	port->maps_no_more = false;
}

void cache_ports_map(struct fth_cache *cache)
{
	/* If it is taken, its holder or the next slab sees to it. A miss does not wait for that. */
	if (pthread_mutex_trylock(&cache->setup))
		return;
	for (struct cache_port *port = NULL; (port = cache_port_next(cache, port));)
		if (port->ranges)
			map_slabs(port, cache_slabs_in_use(cache));
	pthread_mutex_unlock(&cache->setup);
}

/* ---- ports that come and go ---- */

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
		map_slabs(port, cache_slabs_in_use(cache));
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

static bool port_idle(struct cache_port *port)
{
	bool idle;

	pthread_mutex_lock(&port->lock);
	idle = !port->parked;
	for (struct cache_lane *lane = port->lanes; lane && idle; lane = lane->next)
		idle = !lane->borrowed;
	pthread_mutex_unlock(&port->lock);
	return idle;
}

bool cache_ports_idle(struct fth_cache *cache)
{
	struct cache_port *port = NULL;

	while ((port = cache_port_next(cache, port)))
		if (!port_idle(port))
			return false;
	return true;
}

int cache_port_drain(struct cache_port *port, uint64_t deadline)
{
	struct fth_backoff backoff = {0};

	while (!port_idle(port)) {
		cache_lanes_help(port->cache, CACHE_HELP_NS);
		if (cache_pause_expired(&backoff, deadline))
			return fth_fail(ETIMEDOUT,
					"cache: requests of the device did not complete in %llu ms",
					(unsigned long long)port->cache->timeout_ns / 1000000);
	}
	return 0;
}

bool cache_port_last(const struct cache_port *port)
{
	return port->ranges == 1;
}

void cache_port_put(struct cache_port *port)
{
	struct cache_lane *lanes;

	if (--port->ranges)
		return;
	pthread_mutex_lock(&port->lock);
	lanes = port->lanes;
	port->lanes = NULL;
	port->free = NULL;
	pthread_mutex_unlock(&port->lock);
	while (lanes) {
		struct cache_lane *lane = lanes;

		lanes = lane->next;
		lane_free(lane);
	}
	unmap_slabs(port);
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

/* A lane that is free, or parked; NULL if there is none. With the port's lock held. */
static struct cache_lane *take_lane(struct cache_port *port, bool parked)
{
	struct cache_lane *lane = parked ? pop_parked(port) : NULL;

	return lane ? lane : pop(&port->free);
}

/*
 * From here on the borrower may look at ranges, tags and tables (invariant 4). seq_cst, here and in
 * cache_lanes_quiesce(): either the epoch that is read here is the raised one, and a range that was
 * hidden before is not seen, or quiesce sees this lane with the old one.
 */
static void lane_enter(struct cache_lane *lane)
{
	struct fth_cache *cache = lane->port->cache;
	uint64_t epoch;

	do {
		epoch = __atomic_load_n(&cache->epoch, __ATOMIC_SEQ_CST);
		__atomic_store_n(&lane->epoch, epoch, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&cache->epoch, __ATOMIC_SEQ_CST) != epoch);
}

static void lane_leave(struct cache_lane *lane)
{
	/* release: what was looked at before is not needed any more. */
	fth_store_release_dev64(&lane->epoch, 0);
}

int cache_lane_borrow(struct cache_port *port, bool parked, struct cache_lane **out)
{
	struct cache_lane *lane;
	int rc = 0;

	*out = NULL;
	pthread_mutex_lock(&port->lock);
	lane = take_lane(port, parked);
	if (lane)
		lane->borrowed = true;
	else if (fth_load_relaxed_dev32(&port->parked_count) >= PARKED_MAX)
		rc = fth_fail(ETIMEDOUT, "cache: timed out with %u calls waiting for the device",
			      PARKED_MAX);
	pthread_mutex_unlock(&port->lock);
	if (!lane && rc == 0) {
		/* Without the lock: opening a channel may take its time. */
		rc = lane_new(port, &lane);
		if (rc < 0)
			return rc;
		lane->borrowed = true;
		pthread_mutex_lock(&port->lock);
		lane->next = port->lanes;
		port->lanes = lane;
		pthread_mutex_unlock(&port->lock);
	}
	if (rc < 0)
		return rc;
	lane_enter(lane);
	*out = lane;
	return 0;
}

void cache_lane_return(struct cache_lane *lane)
{
	struct cache_port *port = lane->port;
	bool park = lane->in_flight > 0;

	lane->visit = NULL;
	lane->error = 0;
	lane->ahead = lane->ahead && park;
	lane_leave(lane);
	pthread_mutex_lock(&port->lock);
	lane->borrowed = false;
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

/* ---- requests ---- */

static void end_part(struct cache_lane *lane, struct cache_io *io, uint32_t i, int result)
{
	if (io->req.op == FTH_DEV_READ)
		cache_fetch_done(lane, io->range, &io->part[i], result);
	else
		cache_write_done(lane, io->range, &io->part[i], result);
}

static void free_io(struct cache_lane *lane, struct cache_io *io)
{
	lane->lines -= io->count;
	io->count = 0;
	io->alone = false;
	io->next = lane->free_ios;
	lane->free_ios = io;
}

/* May lines fare better alone? Not on a device that does not answer, or is gone. */
static bool worth_another_try(int result)
{
	return result != -ETIMEDOUT && result != -ECANCELED && result != -ENODEV;
}

/*
 * A request has ended. True: it failed, had several lines, and is to be submitted again for the
 * next of them, so that one bad block fails one line.
 */
static bool finish(struct cache_lane *lane, struct cache_io *io, int result)
{
	if (io->req.op == FTH_DEV_FLUSH) {
		lane->error = result;
	} else if (io->alone) {
		end_part(lane, io, io->at++, result);
	} else if (result < 0 && io->count > 1 && worth_another_try(result)) {
		io->alone = true;
		io->at = 0;
	} else {
		for (uint32_t i = 0; i < io->count; i++)
			end_part(lane, io, i, result);
	}
	if (io->alone && io->at < io->count) {
		io->req.offset = cache_line_offset(io->range, io->part[io->at].line);
		io->req.length = io->iov[io->at].iov_len;
		io->req.iov = &io->iov[io->at];
		io->req.iov_count = 1;
		return true;
	}
	free_io(lane, io);
	return false;
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

		if (reqs[i]->op == FTH_DEV_FLUSH)
			continue;
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

static int submit_some(struct cache_lane *lane, struct fth_dev_req **reqs, uint32_t n)
{
	bool writes = reqs[0]->op == FTH_DEV_WRITE;
	int rc;

	if (writes)
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	rc = fth_dev_submit(lane->chan, reqs, n);
	if (writes)
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	return rc;
}

void cache_lane_submit(struct cache_lane *lane)
{
	uint32_t done = 0;

	close_open(lane);
	while (done < lane->batched) {
		int n = submit_some(lane, lane->batch + done, lane->batched - done);

		if (n > 0) {
			count_requests(lane, lane->batch + done, (uint32_t)n);
			lane->in_flight += (uint32_t)n;
			done += (uint32_t)n;
		} else if (!finish(lane, lane->batch[done]->user, n < 0 ? n : -EIO)) {
			/* As deep as the channel, so it was not depth: this one was refused. */
			done++;
		}
	}
	lane->batched = 0;
}

/* Up to max of the requests in flight, waiting for min until the deadline. */
static int reap_some(struct cache_lane *lane, uint32_t max, uint32_t min, uint64_t deadline)
{
	struct fth_dev_req *done[REAP_MAX];
	int n;

	lane_leave(lane);
	n = fth_dev_reap(lane->chan, done, max, min, deadline);
	lane_enter(lane);
	if (n < 0)
		return n;
	lane->in_flight -= (uint32_t)n;
	for (int i = 0; i < n; i++)
		if (finish(lane, done[i]->user, done[i]->result))
			lane->batch[lane->batched++] = done[i];
	if (n > 0 && lane->batched)
		cache_lane_submit(lane);
	return n;
}

int cache_lane_reap(struct cache_lane *lane, uint32_t min, uint64_t deadline)
{
	uint32_t got = 0, max = cache_batch(lane->port->cache);

	if (max > REAP_MAX)
		max = REAP_MAX;
	while (lane->in_flight && (got < min || min == 0)) {
		uint32_t want = min - got < max ? min - got : max;
		int n;

		if (want > lane->in_flight)
			want = lane->in_flight;
		n = reap_some(lane, max, min ? want : 0, deadline);
		if (n < 0)
			return n;
		got += (uint32_t)n;
		if (n == 0)
			break;
	}
	return 0;
}

int cache_port_flush(struct cache_port *port, uint64_t deadline)
{
	struct cache_lane *lane;
	struct cache_io *io;
	int rc = cache_lane_borrow(port, false, &lane);

	if (rc < 0)
		return rc;
	io = lane->free_ios;
	lane->free_ios = io->next;
	io->req.op = FTH_DEV_FLUSH;
	io->req.offset = 0;
	io->req.length = 0;
	io->req.iov = NULL;
	io->req.iov_count = 0;
	io->req.flags = 0;
	lane->batch[lane->batched++] = &io->req;
	cache_lane_submit(lane);
	rc = cache_lane_reap(lane, 1, deadline);
	if (rc == -ETIME)
		rc = fth_fail(ETIMEDOUT, "cache: the device's flush did not complete in %llu ms",
			      (unsigned long long)port->cache->timeout_ns / 1000000);
	rc = lane->error ? lane->error : rc;
	cache_lane_return(lane);
	return rc;
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
		lane->borrowed = true;
	pthread_mutex_unlock(&port->lock);
	if (!lane)
		return false;
	lane_enter(lane);
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

/* Does a borrower of one of this port's lanes still look at what there was before this epoch? */
static bool port_behind(struct cache_port *port, uint64_t epoch)
{
	bool behind = false;

	pthread_mutex_lock(&port->lock);
	for (struct cache_lane *lane = port->lanes; lane && !behind; lane = lane->next) {
		/* seq_cst: see lane_enter(). */
		uint64_t at = __atomic_load_n(&lane->epoch, __ATOMIC_SEQ_CST);

		behind = at && at < epoch;
	}
	pthread_mutex_unlock(&port->lock);
	return behind;
}

int cache_lanes_quiesce(struct fth_cache *cache, uint64_t deadline)
{
	uint64_t epoch = __atomic_add_fetch(&cache->epoch, 1, __ATOMIC_SEQ_CST);
	struct cache_port *port = NULL;
	struct fth_backoff backoff = {0};

	while ((port = cache_port_next(cache, port)))
		while (port_behind(port, epoch))
			if (cache_pause_expired(&backoff, deadline))
				return fth_fail(ETIMEDOUT, "cache: timed out waiting for another "
							   "thread to leave the range");
	return 0;
}
