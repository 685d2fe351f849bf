/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: operations in flight, and reads of the device.
 *
 * Invariants
 * 1. An operation that is in flight is in exactly one place: in a read, in `queued`, `failed`,
 *    `room` or `commit`, or in `done`.
 * 2. A read belongs to one operation until that is released, or to none any more: then it has run
 *    out of time and goes back to the pool when the device returns it.
 * 3. `reading` has the reads that are on the device, in the order of their deadlines. With
 *    batching, reads wait in `batch` until fth_kv_reap() and go to the device together.
 * 4. A worker that waits for another thread (room, commit) sets `waiting` before it looks a last
 *    time; kv_wake_workers() looks at `waiting` after the change. Both do so with a
 *    read-modify-write, so that one of them sees what the other did.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/fd.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEPTH	   512u	 /* reads of the device in flight */
#define FLIGHT_MAX 4096u /* operations */
#define BATCH	   16u	 /* reads that wait for fth_kv_reap(), at most: the device is not to idle */
#define PART	   2u	 /* one in so many of the reads in flight is collected in one go, */
#define PART_MIN   8u	 /* but so many at least */
#define BUFFER_MIN 4096u /* bytes of the buffers that are kept, two blocks at least */
#define ARENA	   DEPTH /* buffers that the device knows */
#define KEPT_MAX   256u	 /* other buffers */
#define CLOSE_NS   30000000000u /* for reads that ran out of time, when a cache is closed */

struct kv_read {
	struct fth_dev_req req; /* first: what the device hands back is a read */
	struct fth_kv_op *op;	/* NULL: nobody waits any more */
	struct kv_read *next;	/* in the pool or in the list of those in flight */
	struct kv_read **link;	/* to it, in the latter */
	uint8_t *buf;
	bool in_arena;
	uint64_t room;	   /* bytes of buf */
	uint64_t position; /* of the record */
	uint64_t skip;	   /* bytes in buf before it */
	uint64_t bytes;	   /* of it, at most */
	uint64_t deadline;
};

struct op_list {
	struct fth_kv_op *first, **last;
	unsigned count;
};

struct fth_kv_worker {
	struct fth_kv *kv;
	struct fth_dev_chan *chan; /* NULL without flash */
	struct fth_kv_worker *next;
	struct op_list done, room, commit;
	struct op_list queued; /* the device has no room */
	struct op_list failed; /* it did not take the read */
	unsigned in_flight;    /* operations, done ones not included */
	uint32_t reads;	       /* atomic: in flight on the device */
	struct kv_read *reading, **reading_end;
	bool batching;
	unsigned batched;
	struct fth_dev_req *batch[BATCH];
	uint64_t buffer; /* bytes of the buffers that are kept */
	uint8_t *arena;	 /* buffers that are mapped for the device; NULL: memory was short */
	struct kv_read *arena_reads;
	struct kv_read *pool;
	unsigned pooled;
	uint32_t waiting; /* atomic */
	int event;	  /* written by other threads */
	int epoll;	  /* -1: nobody has asked */
};

/* ---- lists ---- */

static void list_init(struct op_list *list)
{
	list->first = NULL;
	list->last = &list->first;
	list->count = 0;
}

static void push(struct op_list *list, struct fth_kv_op *op)
{
	kv_private(op)->next = NULL;
	*list->last = op;
	list->last = &kv_private(op)->next;
	list->count++;
}

static struct fth_kv_op *pop(struct op_list *list)
{
	struct fth_kv_op *op = list->first;

	if (!op)
		return NULL;
	list->first = kv_private(op)->next;
	if (!list->first)
		list->last = &list->first;
	list->count--;
	return op;
}

/* ---- reads ---- */

static struct kv_read *take_read(struct fth_kv_worker *w, uint64_t bytes)
{
	struct kv_read *read = w->pool;
	uint64_t room = bytes > w->buffer ? (bytes + 4095) / 4096 * 4096 : w->buffer;

	if (read && room == w->buffer) {
		w->pool = read->next;
		w->pooled--;
		return read;
	}
	read = calloc(1, sizeof(*read));
	if (read && posix_memalign((void **)&read->buf, 4096, room) == 0) {
		read->room = room;
		return read;
	}
	free(read);
	return NULL;
}

static void put_read(struct fth_kv_worker *w, struct kv_read *read)
{
	if (read->in_arena || (read->room == w->buffer && w->pooled < ARENA + KEPT_MAX)) {
		read->op = NULL;
		read->next = w->pool;
		w->pool = read;
		w->pooled++;
		return;
	}
	free(read->buf);
	free(read);
}

/* Tell the operation which record was read: none if it is not whole or another key's. */
static void check_read(struct fth_kv *kv, struct fth_kv_op *op, const struct kv_read *read)
{
	struct kv_record *record = (struct kv_record *)(void *)(read->buf + read->skip);

	if (read->bytes < sizeof(*record) || kv_record_bytes(record) > read->bytes ||
	    record->type != KV_ITEM ||
	    record->checksum != kv_record_sum(record, kv->super.id, read->position)) {
		/* A chunk that was reclaimed while it was read is no damage. */
		if (kv_position_valid(kv, read->position))
			kv_count(kv, FTH_KV_STAT_BAD_ITEMS, 1);
		kv_op_read_done(op, NULL, false);
		return;
	}
	if (record->key_length != op->key_length ||
	    memcmp(kv_record_key(record), op->key, op->key_length) != 0) {
		kv_count(kv, FTH_KV_STAT_FALSE_READS, 1);
		kv_op_read_done(op, NULL, true);
		return;
	}
	kv_op_read_done(op, record, true);
}

static void read_failed(struct fth_kv *kv, struct fth_kv_op *op)
{
	kv_count(kv, FTH_KV_STAT_READ_ERRORS, 1);
	kv_op_read_done(op, NULL, false);
}

static void link_reading(struct fth_kv_worker *w, struct kv_read *read)
{
	read->next = NULL;
	read->link = w->reading_end;
	*w->reading_end = read;
	w->reading_end = &read->next;
	fth_store_relaxed_dev32(&w->reads, w->reads + 1);
}

static void unlink_reading(struct fth_kv_worker *w, const struct kv_read *read)
{
	*read->link = read->next;
	if (read->next)
		read->next->link = read->link;
	else
		w->reading_end = read->link;
	fth_store_relaxed_dev32(&w->reads, w->reads - 1);
}

/* The device has a read. */
static void read_sent(struct fth_kv_worker *w, struct kv_read *read, uint64_t deadline)
{
	kv_count(w->kv, FTH_KV_STAT_FLASH_READS, 1);
	kv_count(w->kv, FTH_KV_STAT_FLASH_READ_BYTES, read->req.length);
	kv_private(read->op)->deadline = 0;
	read->deadline = deadline;
	link_reading(w, read);
}

/* The device has no room for the read of an operation. */
static void queue_op(struct fth_kv_worker *w, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);

	if (!p->deadline)
		p->deadline = fth_deadline_ns(w->kv->options.timeout_ns);
	push(&w->queued, op);
}

/*
 * Hand the reads that wait to the device. Those that it does not take go to `failed` or `queued`.
 */
static void push_batch(struct fth_kv_worker *w)
{
	unsigned n = w->batched, i = 0;
	uint64_t deadline;
	int rc = 0;

	if (!n)
		return;
	w->batched = 0;
	deadline = fth_deadline_ns(w->kv->options.timeout_ns);
	while (i < n && rc != -EAGAIN) {
		rc = fth_dev_submit(w->chan, w->batch + i, n - i);
		for (int sent = 0; sent < rc; sent++)
			read_sent(w, (struct kv_read *)w->batch[i++], deadline);
		if (rc <= 0 && rc != -EAGAIN)
			push(&w->failed, ((struct kv_read *)w->batch[i++])->op);
	}
	while (i < n)
		queue_op(w, ((struct kv_read *)w->batch[i++])->op);
}

enum sent { SENT, NO_ROOM, NOT_SENT };

/* Submit a read, or let it wait for those that come with it. */
static enum sent send_read(struct fth_kv_worker *w, struct kv_read *read)
{
	struct fth_dev_req *req = &read->req;
	int rc;

	if (w->batching && w->reads + w->batched < DEPTH) {
		w->batch[w->batched++] = req;
		if (w->batched == BATCH)
			push_batch(w);
		return SENT;
	}
	rc = w->batching ? -EAGAIN : fth_dev_submit(w->chan, &req, 1);
	if (rc == 1)
		read_sent(w, read, fth_deadline_ns(w->kv->options.timeout_ns));
	if (rc == -EAGAIN)
		return NO_ROOM;
	return rc == 1 ? SENT : NOT_SENT;
}

/*
 * Read the item that the operation needs: from a buffer of the log, or with a request of its own.
 * True: that has ended, and the operation can go on.
 */
static bool start_read(struct fth_kv_worker *w, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);
	struct fth_kv *kv = w->kv;
	uint64_t position = kv_position(kv, p->old_place), bytes = p->read_bytes;
	uint64_t at = kv_log_offset(kv, position), skip = at % kv->block;
	uint64_t length = (skip + bytes + kv->block - 1) / kv->block * kv->block;
	struct kv_read *read;
	int rc;

	if (p->read)
		put_read(w, p->read);
	p->read = read = take_read(w, length);
	if (!read) {
		read_failed(kv, op);
		return true;
	}
	read->op = op;
	read->position = position;
	read->bytes = bytes;
	read->skip = 0;
	rc = kv_log_copy(kv, position, bytes, read->buf);
	if (rc > 0)
		check_read(kv, op, read);
	else if (rc < 0)
		kv_op_read_done(op, NULL, false); /* it has been reclaimed */
	if (rc != 0)
		return true;
	read->skip = skip;
	fth_dev_req_init(&read->req, FTH_DEV_READ, read->buf, length, at - skip);
	op->from_flash = true;
	switch (send_read(w, read)) {
	case SENT:
		return false;
	case NO_ROOM:
		queue_op(w, op);
		return false;
	default:
		p->deadline = 0;
		read_failed(kv, op);
		return true;
	}
}

/* ---- operations ---- */

/* What the operation put into the log is not durable yet. Its result tells if it never will be. */
static bool awaits_commit(const struct fth_kv *kv, struct fth_kv_op *op)
{
	const struct kv_private *p = kv_private(op);

	/* acquire: what was committed before it failed is seen below */
	int error = __atomic_load_n(&kv->log.error, __ATOMIC_ACQUIRE);

	/* acquire: the flush that covers it has completed, or a restart is seen below */
	bool covered = p->commit_at <= fth_load_acquire_dev64(&kv->log.committed);

	if (p->restarts == __atomic_load_n(&kv->log.restarts, __ATOMIC_RELAXED) &&
	    (covered || !error))
		return !covered;
	op->result = -EIO;
	return false;
}

static void set_waiting(struct fth_kv_worker *w)
{
	/* acqrel, and a look afterwards: invariant 4 */
	fth_xchg_acqrel_dev32(&w->waiting, 1);
}

/* Take an operation as far as it goes without waiting. True: it is complete. */
static bool run(struct fth_kv_worker *w, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);
	bool second = false;

	for (;;) {
		switch (p->committing ? KV_STEP_COMMIT : kv_op_go(w->kv, op)) {
		case KV_STEP_READING:
			if (!start_read(w, op))
				return false;
			break;
		case KV_STEP_ROOM:
			if (second) {
				push(&w->room, op);
				return false;
			}
			set_waiting(w);
			kv_count(w->kv, FTH_KV_STAT_WAITS, 1);
			second = true;
			break;
		case KV_STEP_COMMIT:
			p->committing = true;
			set_waiting(w);
			if (!awaits_commit(w->kv, op))
				return true;
			push(&w->commit, op);
			return false;
		default:
			return true;
		}
	}
}

/* Nobody has to release an operation that has no data. */
static void complete(struct fth_kv_worker *w, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);

	if (!p->read || (op->data && !p->held))
		return;
	put_read(w, p->read);
	p->read = NULL;
}

int fth_kv_submit(struct fth_kv_worker *worker, struct fth_kv_op *op)
{
	int rc = kv_op_check(worker->kv, op);

	if (worker->in_flight >= FLIGHT_MAX)
		return -EAGAIN;
	memset(op->private_, 0, sizeof(op->private_));
	op->data = NULL;
	op->length = 0;
	op->from_flash = op->item_read = false;
	op->item_state = 0;
	op->item_cas = 0;
	op->item_age = op->item_flags = op->item_expires = 0;
	if (rc == -EMSGSIZE && kv_op_refused(op, rc)) {
		kv_private(op)->refused = (int16_t)rc;
	} else if (rc < 0) {
		op->result = rc;
		return 1;
	}
	if (op->verb != FTH_KV_FLUSH_ALL) {
		struct kv_key_id *id = &kv_private(op)->id;

		kv_key_id(worker->kv, op->key, op->key_length, id);
		/*
		 * Both at once: taking the lock would let the processor fetch only one at a time.
		 */
		__builtin_prefetch(&worker->kv->buckets[id->bucket[0]]);
		__builtin_prefetch(&worker->kv->buckets[id->bucket[1]]);
	}
	if (run(worker, op)) {
		complete(worker, op);
		return 1;
	}
	worker->in_flight++;
	return 0;
}

static void go_on(struct fth_kv_worker *w, struct fth_kv_op *op)
{
	if (!run(w, op))
		return;
	w->in_flight--;
	complete(w, op);
	push(&w->done, op);
}

void fth_kv_release(struct fth_kv_worker *worker, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);

	if (p->held)
		kv_slot_unref(worker->kv, p->held);
	if (p->read)
		put_read(worker, p->read);
	p->held = NULL;
	p->read = NULL;
	op->data = NULL;
	op->length = 0;
}

/* ---- collecting ---- */

static void read_ended(struct fth_kv_worker *w, struct kv_read *read)
{
	struct fth_kv_op *op = read->op;

	unlink_reading(w, read);
	if (!op) {
		put_read(w, read);
		return;
	}
	if (read->req.result < 0)
		read_failed(w->kv, op);
	else
		check_read(w->kv, op, read);
	go_on(w, op);
}

/*
 * How many reads to collect in one go. Some devices report most of their reads at once, and would
 * idle while all of these are processed. With batching the caller gets a part of them, and submits
 * new reads before it asks for the rest.
 */
static unsigned reads_wanted(const struct fth_kv_worker *w)
{
	unsigned part = w->reads / PART;

	if (!w->batching)
		return UINT_MAX;
	return part > PART_MIN ? part : PART_MIN;
}

static void reap_device(struct fth_kv_worker *w)
{
	unsigned wanted = reads_wanted(w);
	struct fth_dev_req *done[64];
	int n;

	if (!w->chan || !w->reads)
		return;
	do {
		n = fth_dev_reap(w->chan, done, wanted < 64 ? wanted : 64, 0, 0);
		for (int i = 0; i < n; i++)
			read_ended(w, (struct kv_read *)done[i]);
		wanted -= n > 0 ? (unsigned)n : 0;
	} while (n == 64 && wanted);
}

/* A read that takes too long counts as a miss; its buffer stays until the device returns it. */
static void time_out(struct fth_kv_worker *w)
{
	uint64_t now = fth_now_ns();

	/* Going on adds to the end of the list, and takes nothing out. */
	for (struct kv_read *read = w->reading; read && now >= read->deadline; read = read->next) {
		struct fth_kv_op *op = read->op;

		if (!op)
			continue;
		read->op = NULL;
		kv_private(op)->read = NULL;
		read_failed(w->kv, op);
		go_on(w, op);
	}
}

/* Each operation of a list once: those that still wait go back to it. */
static void retry(struct fth_kv_worker *w, struct op_list *list)
{
	for (unsigned n = list->count; n > 0; n--)
		go_on(w, pop(list));
}

/* As many as the device has room for, and those that have waited too long. */
static void retry_queued(struct fth_kv_worker *w)
{
	uint64_t now = w->queued.first ? fth_now_ns() : 0;

	for (unsigned n = w->queued.count; n > 0; n--) {
		struct fth_kv_op *op = w->queued.first;
		struct kv_read *read = kv_private(op)->read;

		if (w->reads + w->batched >= DEPTH && now < kv_private(op)->deadline)
			return;
		(void)pop(&w->queued);
		/* Its place may have been reclaimed meanwhile: from the beginning. */
		kv_private(op)->read = NULL;
		put_read(w, read);
		/* Requests that do not end may keep the channel full for ever. */
		if (now >= kv_private(op)->deadline) {
			kv_private(op)->deadline = 0;
			read_failed(w->kv, op);
		}
		go_on(w, op);
	}
}

/* Reads of operations that went on, and those that the device did not take. */
static void push_all(struct fth_kv_worker *w)
{
	do {
		push_batch(w);
		for (unsigned n = w->failed.count; n > 0; n--) {
			struct fth_kv_op *op = pop(&w->failed);

			kv_private(op)->deadline = 0;
			read_failed(w->kv, op);
			go_on(w, op);
		}
	} while (w->batched || w->failed.count);
}

static void collect(struct fth_kv_worker *w)
{
	uint64_t count;

	/* acqrel: what the waker did before is seen below */
	if (fth_xchg_acqrel_dev32(&w->waiting, 0))
		(void)!read(w->event, &count, sizeof(count));
	push_batch(w);
	reap_device(w);
	if (w->reading)
		time_out(w);
	retry_queued(w);
	retry(w, &w->room);
	retry(w, &w->commit);
	push_all(w);
}

void fth_kv_worker_batch(struct fth_kv_worker *worker, bool on)
{
	worker->batching = on;
	if (!on)
		push_batch(worker);
}

int fth_kv_worker_fd(struct fth_kv_worker *worker)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd, chan_fd;

	if (worker->epoll >= 0)
		return worker->epoll;
	fd = fth_fd_high(epoll_create1(EPOLL_CLOEXEC));
	if (fd < 0)
		return fd;
	chan_fd = worker->chan ? fth_dev_chan_fd(worker->chan) : -1;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, worker->event, &event) < 0 ||
	    (worker->chan && (chan_fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, chan_fd, &event) < 0))) {
		int rc = worker->chan && chan_fd < 0 ? chan_fd : -errno;

		close(fd);
		return rc;
	}
	worker->epoll = fd;
	return fd;
}

/*
 * Sleep until something happens; at most a while, since reads may run out of time. Where no
 * descriptor is to be had it looks again and again: what is in flight must be collected.
 */
static void sleep_until(struct fth_kv_worker *w, uint64_t deadline)
{
	struct pollfd poll_fd = {.fd = fth_kv_worker_fd(w), .events = POLLIN};
	uint64_t now = fth_now_ns();
	int ms = poll_fd.fd < 0 ? 1 : 100;

	if (deadline <= now)
		return;
	if (deadline - now < (uint64_t)ms * 1000000u)
		ms = (int)((deadline - now + 999999) / 1000000);
	(void)poll(&poll_fd, 1, ms); /* a negative descriptor is passed over */
}

int fth_kv_reap(struct fth_kv_worker *worker, struct fth_kv_op **done, unsigned max, unsigned min,
		uint64_t deadline)
{
	unsigned n = 0;

	for (;;) {
		collect(worker);
		while (n < max && worker->done.first)
			done[n++] = pop(&worker->done);
		if (n >= min || n == max || worker->in_flight == 0)
			return (int)n;
		if (deadline == 0 || fth_now_ns() >= deadline)
			return n > 0 ? (int)n : -ETIME;
		sleep_until(worker, deadline);
	}
}

int fth_kv_do(struct fth_kv_worker *worker, struct fth_kv_op *op, uint64_t deadline)
{
	struct fth_kv_op *done;
	int rc = fth_kv_submit(worker, op);

	if (rc == 0)
		rc = fth_kv_reap(worker, &done, 1, 1, deadline);
	if (rc < 0)
		return rc == -ETIME ? -ETIMEDOUT : rc;
	return op->result;
}

/* ---- waking ---- */

void kv_wake_workers(struct fth_kv *kv)
{
	static const uint64_t one = 1;

	pthread_mutex_lock(&kv->workers_lock);
	for (struct fth_kv_worker *w = kv->workers; w; w = w->next)
		/*
		 * A read-modify-write: if it comes before set_waiting(), that one sees the change.
		 */
		if (fth_add_acqrel_dev32(&w->waiting, 0))
			(void)!write(w->event, &one, sizeof(one));
	pthread_mutex_unlock(&kv->workers_lock);
}

/* ---- life ---- */

/* Reads whose buffers the device knows, into the pool. Without memory there are none. */
static void make_arena(struct fth_kv_worker *w)
{
	w->arena_reads = calloc(ARENA, sizeof(*w->arena_reads));
	w->arena = w->arena_reads ? fth_dev_buf_alloc(w->kv->dev, ARENA * w->buffer) : NULL;
	for (unsigned i = 0; w->arena && i < ARENA; i++) {
		struct kv_read *read = &w->arena_reads[i];

		read->buf = w->arena + i * w->buffer;
		read->room = w->buffer;
		read->in_arena = true;
		put_read(w, read);
	}
}

int fth_kv_worker_open(struct fth_kv *kv, struct fth_kv_worker **out)
{
	struct fth_kv_worker *w = calloc(1, sizeof(*w));
	int rc = 0;

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->kv = kv;
	w->epoll = -1;
	list_init(&w->done);
	list_init(&w->room);
	list_init(&w->commit);
	list_init(&w->queued);
	list_init(&w->failed);
	w->reading_end = &w->reading;
	w->buffer = kv->block > BUFFER_MIN / 2 ? 2 * kv->block : BUFFER_MIN;
	w->event = fth_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (w->event < 0)
		rc = w->event;
	if (rc == 0 && kv->dev)
		rc = fth_dev_chan_open(kv->dev, DEPTH, &w->chan);
	if (rc < 0) {
		if (w->event >= 0)
			close(w->event);
		free(w);
		return rc;
	}
	if (kv->dev)
		make_arena(w);
	pthread_mutex_lock(&kv->workers_lock);
	w->next = kv->workers;
	kv->workers = w;
	pthread_mutex_unlock(&kv->workers_lock);
	*out = w;
	return 0;
}

static void worker_free(struct fth_kv_worker *w)
{
	fth_dev_chan_close(w->chan);
	while (w->pool) {
		struct kv_read *read = w->pool;

		w->pool = read->next;
		if (read->in_arena)
			continue;
		free(read->buf);
		free(read);
	}
	if (w->arena)
		fth_dev_buf_free(w->kv->dev, w->arena, ARENA * w->buffer);
	free(w->arena_reads);
	free(w);
}

/* Collect reads that ran out of time. False: some did not come back by the deadline. */
static bool end_reads(struct fth_kv_worker *w, uint64_t deadline)
{
	while (w->reads) {
		struct fth_dev_req *req;

		if (fth_dev_reap(w->chan, &req, 1, 1, deadline) != 1)
			return false;
		read_ended(w, (struct kv_read *)req);
	}
	return true;
}

void fth_kv_worker_close(struct fth_kv_worker *worker)
{
	struct fth_kv *kv;
	struct fth_kv_op *op;
	bool ended;

	if (!worker)
		return;
	kv = worker->kv;
	/* Each operation ends: reads time out, and the writer fails what it can not write. */
	while (worker->in_flight || worker->done.first)
		if (fth_kv_reap(worker, &op, 1, 1, fth_deadline_ns(1000000000u)) == 1)
			fth_kv_release(worker, op);
	ended = end_reads(worker, fth_deadline_ns(kv->options.timeout_ns));
	pthread_mutex_lock(&kv->workers_lock);
	for (struct fth_kv_worker **link = &kv->workers; *link; link = &(*link)->next)
		if (*link == worker) {
			*link = worker->next;
			break;
		}
	if (!ended) {
		worker->next = kv->left_workers;
		kv->left_workers = worker;
	}
	pthread_mutex_unlock(&kv->workers_lock);
	if (worker->epoll >= 0)
		close(worker->epoll);
	close(worker->event);
	if (ended)
		worker_free(worker);
}

uint64_t kv_workers_reading(struct fth_kv *kv)
{
	uint64_t reads = 0;

	pthread_mutex_lock(&kv->workers_lock);
	for (const struct fth_kv_worker *w = kv->workers; w; w = w->next)
		reads += fth_load_relaxed_dev32(&w->reads);
	pthread_mutex_unlock(&kv->workers_lock);
	return reads;
}

void kv_workers_wait(struct fth_kv *kv)
{
	struct fth_kv_worker *w;

	while ((w = kv->left_workers)) {
		if (!end_reads(w, fth_deadline_ns(CLOSE_NS))) {
			kv->left_behind = true;
			return;
		}
		kv->left_workers = w->next;
		worker_free(w);
	}
}
