/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loans: channels that threads borrow for a call, with the requests to use on them.
 *
 * A cache_device is a device with its loans. A loan is free (in the list, for the next borrower),
 * borrowed, or parked: returned with requests still in flight (a prefetch, or a wait that timed
 * out). Threads that wait for a line, the worker and the next prefetch reap parked loans.
 *
 * Invariants
 * 1. Only the borrower accesses a loan, except for `epoch`, and for `borrowed` and the links, which
 *    the device's lock protects. A thread that reaps a parked loan borrows it first.
 * 2. Each request is in one of: free_ios, open_io, batch, the device.
 * 3. A loan in the free list has nothing open, batched or in flight.
 * 4. A loan's epoch is 0 while its borrower uses no range, tag or table other than those that it
 *    holds references on; otherwise it is the cache's epoch when that use began.
 *    cache_loans_quiesce() increments the cache's epoch and waits until no loan has an older one.
 * 5. A failed request for several lines is retried line by line, by the same request on the
 *    same loan: io->at is the current line.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

/*
 * A line may be changed while it is written: it is DIRTY again then, and written again. A device
 * that copies in this thread races with the writer on purpose; ThreadSanitizer ignores its reads.
 */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
#else
#define AnnotateIgnoreReadsBegin(file, line) (void)0
#define AnnotateIgnoreReadsEnd(file, line)   (void)0
#endif

#define REAP_MAX 64
/* A device that answers nothing parks a loan for every call that gives up; there it ends. */
#define PARKED_MAX 256u

struct cache_device {
	struct fth_cache *cache;
	struct fth_dev *dev;
	struct cache_device *next;
	uint32_t ranges;   /* that use it; 0: it has no device, and may get another */
	uint32_t slabs;	   /* of the cache's memory that the device knows; under setup */
	bool maps_no_more; /* a slab was refused; under setup */
	uint32_t merge;	   /* lines per request */
	pthread_mutex_t lock;
	struct cache_loan *loans; /* all */
	struct cache_loan *free;
	struct cache_loan *parked;
	uint32_t parked_count; /* atomic, to look at without the lock */
};

/* ---- devices ---- */

struct cache_device *cache_device_next(const struct fth_cache *cache,
				       const struct cache_device *device)
{
	/* acquire: a device is complete before it is in the list. */
	return device ? device->next : __atomic_load_n(&cache->devices, __ATOMIC_ACQUIRE);
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

static struct cache_device *device_find(struct fth_cache *cache, struct fth_dev *dev)
{
	struct cache_device *device, *unused = NULL;

	for (device = cache->devices; device; device = device->next) {
		if (device->ranges && device->dev == dev)
			return device;
		if (!device->ranges)
			unused = device;
	}
	return unused;
}

/* ---- memory known to devices ---- */

/* Under setup: make slabs [0, upto) known to the device. Only a matter of speed. */
static void map_slabs(struct cache_device *device, uint32_t upto)
{
	struct fth_cache *cache = device->cache;

	while (!device->maps_no_more && device->slabs < upto) {
		if (fth_dev_map(device->dev, cache_slab(cache, device->slabs),
				cache_slab_bytes(cache, device->slabs)) < 0) {
			device->maps_no_more = true;
			fth_error_clear();
			return;
		}
		device->slabs++;
	}
}

static void unmap_slabs(struct cache_device *device)
{
	struct fth_cache *cache = device->cache;

	for (uint32_t i = 0; i < device->slabs; i++)
		if (fth_dev_unmap(device->dev, cache_slab(cache, i), cache_slab_bytes(cache, i)) <
		    0)
			fth_error_clear();
	device->slabs = 0;
	device->maps_no_more = false;
}

void cache_devices_map(struct fth_cache *cache)
{
	/* If it is taken, its holder or the next slab sees to it. A miss does not wait for that. */
	if (pthread_mutex_trylock(&cache->setup))
		return;
	for (struct cache_device *device = NULL; (device = cache_device_next(cache, device));)
		if (device->ranges)
			map_slabs(device, cache_slabs_in_use(cache));
	pthread_mutex_unlock(&cache->setup);
}

/* ---- devices that come and go ---- */

struct cache_device *cache_device_get(struct fth_cache *cache, struct fth_dev *dev)
{
	struct cache_device *device = device_find(cache, dev);

	if (!device) {
		device = calloc(1, sizeof(*device));
		if (!device)
			return NULL;
		device->cache = cache;
		pthread_mutex_init(&device->lock, NULL);
		device->next = cache->devices;
		/* release: others walk the list without the lock. */
		__atomic_store_n(&cache->devices, device, __ATOMIC_RELEASE);
	}
	if (device->ranges++ == 0) {
		device->dev = dev;
		device->merge = merge_limit(cache, fth_dev_info(dev));
		map_slabs(device, cache_slabs_in_use(cache));
	}
	return device;
}

static void loan_free(struct cache_loan *loan)
{
	if (!loan)
		return;
	fth_dev_chan_close(loan->chan);
	if (loan->ios) {
		free(loan->ios[0].iov);
		free(loan->ios[0].part);
	}
	free(loan->ios);
	free(loan->batch);
	free(loan);
}

static bool device_idle(struct cache_device *device)
{
	bool idle;

	pthread_mutex_lock(&device->lock);
	idle = !device->parked;
	for (struct cache_loan *loan = device->loans; loan && idle; loan = loan->next)
		idle = !loan->borrowed;
	pthread_mutex_unlock(&device->lock);
	return idle;
}

bool cache_devices_idle(struct fth_cache *cache)
{
	struct cache_device *device = NULL;

	while ((device = cache_device_next(cache, device)))
		if (!device_idle(device))
			return false;
	return true;
}

int cache_device_settle(struct cache_device *device, uint64_t deadline)
{
	struct fth_backoff backoff = {0};

	while (!device_idle(device)) {
		cache_loans_help(device->cache, CACHE_HELP_NS);
		if (cache_pause_expired(&backoff, deadline))
			return fth_fail(ETIMEDOUT,
					"cache: requests of the device did not complete in %llu ms",
					(unsigned long long)device->cache->timeout_ns / 1000000);
	}
	return 0;
}

bool cache_device_last(const struct cache_device *device)
{
	return device->ranges == 1;
}

void cache_device_put(struct cache_device *device)
{
	struct cache_loan *loans;

	if (--device->ranges)
		return;
	pthread_mutex_lock(&device->lock);
	loans = device->loans;
	device->loans = NULL;
	device->free = NULL;
	pthread_mutex_unlock(&device->lock);
	while (loans) {
		struct cache_loan *loan = loans;

		loans = loan->next;
		loan_free(loan);
	}
	unmap_slabs(device);
	device->dev = NULL;
}

void cache_devices_release(struct fth_cache *cache)
{
	while (cache->devices) {
		struct cache_device *device = cache->devices;

		cache->devices = device->next;
		pthread_mutex_destroy(&device->lock);
		free(device);
	}
}

/* ---- loans ---- */

static int loan_new(struct cache_device *device, struct cache_loan **out)
{
	uint32_t depth = device->cache->depth, merge = device->merge;
	struct cache_loan *loan = calloc(1, sizeof(*loan));
	struct iovec *iov = calloc((size_t)depth * merge, sizeof(*iov));
	struct cache_part *part = calloc((size_t)depth * merge, sizeof(*part));
	int rc = -ENOMEM;

	if (!loan || !iov || !part)
		goto fail;
	loan->device = device;
	loan->batch = calloc(depth, sizeof(struct fth_dev_req *));
	loan->ios = calloc(depth, sizeof(*loan->ios));
	if (!loan->batch || !loan->ios)
		goto fail;
	for (uint32_t i = 0; i < depth; i++) {
		loan->ios[i].iov = iov + (size_t)i * merge;
		loan->ios[i].part = part + (size_t)i * merge;
		loan->ios[i].req.user = &loan->ios[i];
		loan->ios[i].next = i + 1 < depth ? &loan->ios[i + 1] : NULL;
	}
	loan->free_ios = loan->ios;
	iov = NULL;
	part = NULL;
	rc = fth_dev_chan_open(device->dev, depth, &loan->chan);
	if (rc == 0) {
		*out = loan;
		return 0;
	}
fail:
	free(iov);
	free(part);
	loan_free(loan);
	return rc;
}

static struct cache_loan *pop(struct cache_loan **list)
{
	struct cache_loan *loan = *list;

	if (loan)
		*list = loan->next_free;
	return loan;
}

static struct cache_loan *pop_parked(struct cache_device *device)
{
	struct cache_loan *loan = pop(&device->parked);

	if (loan)
		fth_add_relaxed_dev32(&device->parked_count, (uint32_t)-1);
	return loan;
}

/* A loan that is free, or parked; NULL if there is none. With the device's lock held. */
static struct cache_loan *take_loan(struct cache_device *device, bool parked)
{
	struct cache_loan *loan = parked ? pop_parked(device) : NULL;

	return loan ? loan : pop(&device->free);
}

/*
 * From here on the borrower may look at ranges, tags and tables (invariant 4). seq_cst, here and in
 * cache_loans_quiesce(): either the epoch that is read here is the raised one, and a range that was
 * hidden before is not seen, or quiesce sees this loan with the old one.
 */
static void loan_enter(struct cache_loan *loan)
{
	struct fth_cache *cache = loan->device->cache;
	uint64_t epoch;

	do {
		epoch = __atomic_load_n(&cache->epoch, __ATOMIC_SEQ_CST);
		__atomic_store_n(&loan->epoch, epoch, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&cache->epoch, __ATOMIC_SEQ_CST) != epoch);
}

static void loan_leave(struct cache_loan *loan)
{
	/* release: what was looked at before is not needed any more. */
	fth_store_release_dev64(&loan->epoch, 0);
}

int cache_loan_borrow(struct cache_device *device, bool parked, struct cache_loan **out)
{
	struct cache_loan *loan;
	int rc = 0;

	*out = NULL;
	pthread_mutex_lock(&device->lock);
	loan = take_loan(device, parked);
	if (loan)
		loan->borrowed = true;
	else if (fth_load_relaxed_dev32(&device->parked_count) >= PARKED_MAX)
		rc = fth_fail(ETIMEDOUT, "cache: timed out with %u calls waiting for the device",
			      PARKED_MAX);
	pthread_mutex_unlock(&device->lock);
	if (!loan && rc == 0) {
		/* Without the lock: opening a channel may take its time. */
		rc = loan_new(device, &loan);
		if (rc < 0)
			return rc;
		loan->borrowed = true;
		pthread_mutex_lock(&device->lock);
		loan->next = device->loans;
		device->loans = loan;
		pthread_mutex_unlock(&device->lock);
	}
	if (rc < 0)
		return rc;
	loan_enter(loan);
	*out = loan;
	return 0;
}

void cache_loan_return(struct cache_loan *loan)
{
	struct cache_device *device = loan->device;
	bool park = loan->in_flight > 0;

	loan->visit = NULL;
	loan->error = 0;
	loan->ahead = loan->ahead && park;
	loan_leave(loan);
	pthread_mutex_lock(&device->lock);
	loan->borrowed = false;
	if (park) {
		loan->next_free = device->parked;
		device->parked = loan;
		fth_add_relaxed_dev32(&device->parked_count, 1);
	} else {
		loan->next_free = device->free;
		device->free = loan;
	}
	pthread_mutex_unlock(&device->lock);
}

/* ---- requests ---- */

static void end_part(struct cache_loan *loan, struct cache_io *io, uint32_t i, int result)
{
	if (io->req.op == FTH_DEV_READ)
		cache_fetch_done(loan, io->range, &io->part[i], result);
	else
		cache_write_done(loan, io->range, &io->part[i], result);
}

static void free_io(struct cache_loan *loan, struct cache_io *io)
{
	loan->lines -= io->count;
	io->count = 0;
	io->alone = false;
	io->next = loan->free_ios;
	loan->free_ios = io;
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
static bool finish(struct cache_loan *loan, struct cache_io *io, int result)
{
	if (io->req.op == FTH_DEV_FLUSH) {
		loan->error = result;
	} else if (io->alone) {
		end_part(loan, io, io->at++, result);
	} else if (result < 0 && io->count > 1 && worth_another_try(result)) {
		io->alone = true;
		io->at = 0;
	} else {
		for (uint32_t i = 0; i < io->count; i++)
			end_part(loan, io, i, result);
	}
	if (io->alone && io->at < io->count) {
		io->req.offset = cache_line_offset(io->range, io->part[io->at].line);
		io->req.length = io->iov[io->at].iov_len;
		io->req.iov = &io->iov[io->at];
		io->req.iov_count = 1;
		return true;
	}
	free_io(loan, io);
	return false;
}

static void close_open(struct cache_loan *loan)
{
	struct cache_io *io = loan->open_io;

	if (!io)
		return;
	io->req.iov = io->iov;
	io->req.iov_count = io->count;
	io->req.flags = 0;
	loan->batch[loan->batched++] = &io->req;
	loan->open_io = NULL;
}

/* Is this line the one after the last of the request? */
static bool continues(const struct cache_io *io, const struct fth_cache_range *range,
		      enum fth_dev_op op, uint64_t line, uint32_t limit)
{
	return io && io->range == range && io->req.op == op && io->count < limit &&
	       io->part[io->count - 1].line + 1 == line;
}

bool cache_loan_has_room(const struct cache_loan *loan, const struct fth_cache_range *range,
			 enum fth_dev_op op, uint64_t line)
{
	return loan->free_ios || continues(loan->open_io, range, op, line, loan->device->merge);
}

bool cache_loan_add(struct cache_loan *loan, struct fth_cache_range *range, enum fth_dev_op op,
		    const struct cache_part *part)
{
	struct cache_io *io = loan->open_io;
	uint32_t bytes = cache_line_bytes(range, part->line);

	if (!continues(io, range, op, part->line, loan->device->merge)) {
		close_open(loan);
		io = loan->free_ios;
		if (!io)
			return false;
		loan->free_ios = io->next;
		loan->open_io = io;
		io->range = range;
		io->req.op = op;
		io->req.offset = cache_line_offset(range, part->line);
		io->req.length = 0;
	}
	io->iov[io->count].iov_base = cache_frame_data(range->cache, part->frame);
	io->iov[io->count].iov_len = bytes;
	io->part[io->count++] = *part;
	loan->lines++;
	io->req.length += bytes;
	return true;
}

static void count_requests(struct cache_loan *loan, struct fth_dev_req *const *reqs, uint32_t n)
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
		cache_count(loan->device->cache, FTH_CACHE_READ_REQUESTS, requests[0]);
		cache_count(loan->device->cache, FTH_CACHE_BYTES_READ, bytes[0]);
	}
	if (requests[1]) {
		cache_count(loan->device->cache, FTH_CACHE_WRITE_REQUESTS, requests[1]);
		cache_count(loan->device->cache, FTH_CACHE_BYTES_WRITTEN, bytes[1]);
	}
}

static int submit_some(struct cache_loan *loan, struct fth_dev_req **reqs, uint32_t n)
{
	bool writes = reqs[0]->op == FTH_DEV_WRITE;
	int rc;

	if (writes)
		AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
	rc = fth_dev_submit(loan->chan, reqs, n);
	if (writes)
		AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
	return rc;
}

void cache_loan_submit(struct cache_loan *loan)
{
	uint32_t done = 0;

	close_open(loan);
	while (done < loan->batched) {
		int n = submit_some(loan, loan->batch + done, loan->batched - done);

		if (n > 0) {
			count_requests(loan, loan->batch + done, (uint32_t)n);
			loan->in_flight += (uint32_t)n;
			done += (uint32_t)n;
		} else if (!finish(loan, loan->batch[done]->user, n < 0 ? n : -EIO)) {
			/* As deep as the channel, so it was not depth: this one was refused. */
			done++;
		}
	}
	loan->batched = 0;
}

/* Up to max of the requests in flight, waiting for min until the deadline. */
static int reap_some(struct cache_loan *loan, uint32_t max, uint32_t min, uint64_t deadline)
{
	struct fth_dev_req *done[REAP_MAX];
	int n;

	loan_leave(loan);
	n = fth_dev_reap(loan->chan, done, max, min, deadline);
	loan_enter(loan);
	if (n < 0)
		return n;
	loan->in_flight -= (uint32_t)n;
	for (int i = 0; i < n; i++)
		if (finish(loan, done[i]->user, done[i]->result))
			loan->batch[loan->batched++] = done[i];
	if (n > 0 && loan->batched)
		cache_loan_submit(loan);
	return n;
}

int cache_loan_reap(struct cache_loan *loan, uint32_t min, uint64_t deadline)
{
	uint32_t got = 0, max = cache_batch(loan->device->cache);

	if (max > REAP_MAX)
		max = REAP_MAX;
	while (loan->in_flight && (got < min || min == 0)) {
		uint32_t want = min - got < max ? min - got : max;
		int n;

		if (want > loan->in_flight)
			want = loan->in_flight;
		n = reap_some(loan, max, min ? want : 0, deadline);
		if (n < 0)
			return n;
		got += (uint32_t)n;
		if (n == 0)
			break;
	}
	return 0;
}

int cache_device_flush(struct cache_device *device, uint64_t deadline)
{
	struct cache_loan *loan;
	struct cache_io *io;
	int rc = cache_loan_borrow(device, false, &loan);

	if (rc < 0)
		return rc;
	io = loan->free_ios;
	loan->free_ios = io->next;
	io->req.op = FTH_DEV_FLUSH;
	io->req.offset = 0;
	io->req.length = 0;
	io->req.iov = NULL;
	io->req.iov_count = 0;
	io->req.flags = 0;
	loan->batch[loan->batched++] = &io->req;
	cache_loan_submit(loan);
	rc = cache_loan_reap(loan, 1, deadline);
	if (rc == -ETIME)
		rc = fth_fail(ETIMEDOUT, "cache: the device's flush did not complete in %llu ms",
			      (unsigned long long)device->cache->timeout_ns / 1000000);
	rc = loan->error ? loan->error : rc;
	cache_loan_return(loan);
	return rc;
}

/* ---- loans left with requests in flight ---- */

static bool help_device(struct cache_device *device, uint64_t wait_ns)
{
	struct cache_loan *loan;
	uint32_t before;
	bool arrived;

	if (!fth_load_relaxed_dev32(&device->parked_count))
		return false;
	pthread_mutex_lock(&device->lock);
	loan = pop_parked(device);
	if (loan)
		loan->borrowed = true;
	pthread_mutex_unlock(&device->lock);
	if (!loan)
		return false;
	loan_enter(loan);
	before = loan->in_flight;
	/* Its time running out is no error here: the loan is parked again. */
	if (cache_loan_reap(loan, wait_ns ? 1 : 0, wait_ns ? fth_deadline_ns(wait_ns) : 0) < 0)
		fth_error_clear();
	arrived = loan->in_flight < before;
	cache_loan_return(loan);
	return arrived;
}

bool cache_loans_help(struct fth_cache *cache, uint64_t wait_ns)
{
	bool arrived = false;

	for (struct cache_device *device = NULL; (device = cache_device_next(cache, device));)
		arrived |= help_device(device, wait_ns);
	return arrived;
}

/* Does a borrower of one of this device's loans still look at what there was before this epoch? */
static bool device_behind(struct cache_device *device, uint64_t epoch)
{
	bool behind = false;

	pthread_mutex_lock(&device->lock);
	for (struct cache_loan *loan = device->loans; loan && !behind; loan = loan->next) {
		/* seq_cst: see loan_enter(). */
		uint64_t at = __atomic_load_n(&loan->epoch, __ATOMIC_SEQ_CST);

		behind = at && at < epoch;
	}
	pthread_mutex_unlock(&device->lock);
	return behind;
}

int cache_loans_quiesce(struct fth_cache *cache, uint64_t deadline)
{
	uint64_t epoch = __atomic_add_fetch(&cache->epoch, 1, __ATOMIC_SEQ_CST);
	struct cache_device *device = NULL;
	struct fth_backoff backoff = {0};

	while ((device = cache_device_next(cache, device)))
		while (device_behind(device, epoch))
			if (cache_pause_expired(&backoff, deadline))
				return fth_fail(ETIMEDOUT, "cache: timed out waiting for another "
							   "thread to leave the range");
	return 0;
}
