/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that writes the log. Others fill buffers; this one brings them to the device.
 *
 *	commit:  IDLE --due--> WRITING (all before target) --> FLUSHING --> IDLE, committed = target
 *
 * Invariants
 * 1. Only this thread has writes of the log in flight, and only it frees buffers.
 * 2. A block that was written is not written again with other contents: a commit pads the open
 *    chunk to a whole block first. What was durable can not be torn by a later write.
 * 3. committed moves only over records whose writes and whose flush have succeeded. Records that
 *    were not durable when one of these failed are below failed_to, for good.
 * 4. log.lock is held except while waiting, reading or sweeping; never across I/O.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IDLE_NS	   1000000000u
#define POLL_NS	   1000000u /* while writes are in flight: how soon to look for new work */
#define TIMEOUT_NS 30000000000u
#define AHEAD	   2u /* chunks that are made ready to be overwritten */

enum commit { COMMIT_IDLE, COMMIT_WRITING, COMMIT_FLUSHING };

struct writer {
	struct fth_kv *kv;
	struct fth_dev_chan *chan;
	unsigned in_flight;
	uint64_t since; /* when something was last submitted or came back */
	enum commit commit;
	uint64_t target;
	int error; /* of this commit */
	struct fth_dev_req flush;
	uint8_t *old; /* a chunk, for readmission */
};

void kv_writer_kick(struct fth_kv *kv)
{
	pthread_cond_signal(&kv->work);
}

void kv_commit_wanted(struct fth_kv *kv)
{
	uint64_t window = kv->options.persistence == FTH_KV_WRITE_BACK
				  ? (uint64_t)kv->options.window_ms * 1000000u / 2
				  : 0;

	pthread_mutex_lock(&kv->log.lock);
	if (kv->commit_due == 0) {
		kv->commit_due = fth_deadline_ns(window);
		kv_writer_kick(kv);
	}
	pthread_mutex_unlock(&kv->log.lock);
}

static uint64_t whole_blocks(const struct fth_kv *kv, uint64_t bytes)
{
	return (bytes + kv->block - 1) / kv->block * kv->block;
}

/* ---- writes ---- */

static bool submit(struct writer *w, struct fth_dev_req *req)
{
	if (fth_dev_submit(w->chan, &req, 1) != 1)
		return false;
	w->in_flight++;
	w->since = fth_now_ns();
	return true;
}

/* Write [written, to) of a buffer; both are multiples of the block. */
static void write_buffer(struct writer *w, struct kv_buffer *b, uint64_t to)
{
	struct fth_kv *kv = w->kv;
	uint64_t from = b->written;

	if (b->writing || to <= from)
		return;
	fth_dev_req_init(&b->req, FTH_DEV_WRITE, b->data + from, to - from,
			 kv_log_offset(kv, b->number * kv->super.chunk + from));
	if (submit(w, &b->req))
		b->writing = to;
}

static void free_buffer(struct kv_buffer *b)
{
	b->state = KV_BUFFER_FREE;
	b->written = b->writing = b->filled = 0;
}

/* True: a buffer became free, because a commit had written all of it before it was sealed. */
static bool write_sealed(struct writer *w)
{
	struct kv_log *log = &w->kv->log;
	bool freed = false;

	for (unsigned i = 0; i < log->count; i++) {
		struct kv_buffer *b = &log->buffers[i];
		uint64_t to = whole_blocks(w->kv, b->filled);

		if (b->state != KV_BUFFER_SEALED || b->copying || b->writing)
			continue;
		if (b->written < to) {
			write_buffer(w, b, to);
			continue;
		}
		free_buffer(b);
		freed = true;
	}
	return freed;
}

static void note_error(struct writer *w, int rc)
{
	struct kv_log *log = &w->kv->log;

	kv_count(w->kv, FTH_KV_STAT_WRITE_ERRORS, 1);
	__atomic_store_n(&log->error, rc, __ATOMIC_RELAXED);
	if (w->commit != COMMIT_IDLE && w->error == 0)
		w->error = rc;
}

/* The end of a write. True: a buffer is free now. */
static bool buffer_written(struct writer *w, struct kv_buffer *b)
{
	struct kv_log *log = &w->kv->log;
	uint64_t end = (b->number + 1) * w->kv->super.chunk;
	bool sealed = b->state == KV_BUFFER_SEALED;

	if (b->req.result < 0) {
		note_error(w, b->req.result);
		b->writing = 0;
		if (!sealed)
			return false; /* the next commit tries again */
		/* Its items are lost: reads will find that, and whoever waits for them is told. */
		if (kv_persistent(w->kv) && fth_load_relaxed_dev64(&log->failed_to) < end)
			fth_store_release_dev64(&log->failed_to, end);
		free_buffer(b);
		return true;
	}
	kv_count(w->kv, FTH_KV_STAT_CHUNK_BYTES, b->writing - b->written);
	b->written = b->writing;
	b->writing = 0;
	if (!sealed || b->written < whole_blocks(w->kv, b->filled))
		return false;
	free_buffer(b);
	return true;
}

/* ---- commits ---- */

/*
 * Fill the open chunk to the end of a block, so that all of it can be written. False: somebody is
 * still copying.
 */
static bool pad_open(struct fth_kv *kv)
{
	struct kv_buffer *b = kv->log.open;
	uint64_t gap, position;
	struct kv_record *pad;

	if (!b || b->filled == whole_blocks(kv, b->filled))
		return !b || b->copying == 0;
	if (b->copying)
		return false;
	gap = whole_blocks(kv, b->filled) - b->filled;
	if (gap < sizeof(*pad))
		gap += kv->block;
	if (b->filled + gap > kv->super.chunk) {
		/* Nothing fits behind it any more, a pad neither: zeroes end the chunk. */
		memset(b->data + b->filled, 0, kv->super.chunk - b->filled);
		b->filled = kv->super.chunk;
	} else {
		pad = (struct kv_record *)(void *)(b->data + b->filled);
		position = b->number * kv->super.chunk + b->filled;
		memset(pad, 0, gap);
		pad->type = KV_PAD;
		pad->value_length = (uint32_t)(gap - sizeof(*pad));
		pad->checksum = kv_record_sum(pad, kv->super.id, position);
		b->filled += gap;
	}
	fth_store_relaxed_dev64(&kv->log.head, b->number * kv->super.chunk + b->filled);
	return true;
}

static void start_commit(struct writer *w, uint64_t now)
{
	struct fth_kv *kv = w->kv;

	if (w->commit != COMMIT_IDLE || kv->commit_due == 0 || now < kv->commit_due)
		return;
	if (!pad_open(kv))
		return; /* kv_log_fill() wakes us */
	kv->commit_due = 0;
	w->commit = COMMIT_WRITING;
	w->error = 0;
	w->target = fth_load_relaxed_dev64(&kv->log.head);
}

/* Is all before the target on the device? Starts the writes that this takes. */
static bool target_written(struct writer *w)
{
	struct fth_kv *kv = w->kv;
	bool all = true;

	for (unsigned i = 0; i < kv->log.count; i++) {
		struct kv_buffer *b = &kv->log.buffers[i];
		uint64_t begin = b->number * kv->super.chunk, to;

		if (b->state == KV_BUFFER_FREE || begin >= w->target)
			continue;
		to = w->target - begin < b->filled ? w->target - begin : b->filled;
		if (b->written >= whole_blocks(kv, to))
			continue;
		all = false;
		if (b->state == KV_BUFFER_OPEN && b->writing == 0 && w->error == 0)
			write_buffer(w, b, whole_blocks(kv, to));
	}
	return all;
}

static void end_commit(struct writer *w, int rc)
{
	struct kv_log *log = &w->kv->log;

	if (rc < 0)
		/* release: who reads it finds all that was written before */
		fth_store_release_dev64(&log->failed_to, w->target);
	else
		fth_store_release_dev64(&log->committed, w->target);
	if (rc == 0)
		kv_count(w->kv, FTH_KV_STAT_COMMITS, 1);
	w->commit = COMMIT_IDLE;
}

/* True: somebody may be waiting for what has changed. */
static bool go_on_with_commit(struct writer *w)
{
	if (w->commit != COMMIT_WRITING)
		return false;
	if (w->error < 0) {
		end_commit(w, w->error);
		return true;
	}
	if (!target_written(w))
		return false;
	fth_dev_req_init(&w->flush, FTH_DEV_FLUSH, NULL, 0, 0);
	if (submit(w, &w->flush))
		w->commit = COMMIT_FLUSHING;
	return false;
}

/* ---- what comes back ---- */

/* Without the lock. -ETIME: nothing came. */
static int wait_device(struct writer *w, struct fth_dev_req **done, unsigned max)
{
	return fth_dev_reap(w->chan, done, max, 1, fth_deadline_ns(POLL_NS));
}

static bool take_back(struct writer *w, struct fth_dev_req *req)
{
	w->in_flight--;
	w->since = fth_now_ns();
	if (req == &w->flush) {
		if (req->result < 0)
			note_error(w, req->result);
		end_commit(w, req->result);
		return true;
	}
	return buffer_written(w,
			      (struct kv_buffer *)((char *)req - offsetof(struct kv_buffer, req)));
}

/* ---- chunks that are about to be overwritten ---- */

/* A record of a chunk that goes: write it again if it is hot and still the item of its key. */
static bool readmit_record(struct fth_kv *kv, const struct kv_record *record, uint64_t position)
{
	struct kv_name name;
	struct kv_entry *e;
	struct kv_room room;
	bool again = false;

	if (record->type != KV_ITEM || kv_dead(kv, record))
		return false;
	kv_name(kv, kv_record_key(record), record->key_length, &name);
	kv_lock(kv, &name);
	e = kv_find_place(kv, &name, position / KV_UNIT);
	if (e && e->what & KV_HOT_MASK && kv_log_reserve(kv, kv_record_bytes(record), &room) == 0) {
		kv_log_fill(kv, &room, record);
		kv_entry_set(e, kv_where(room.position / KV_UNIT, kv_record_bytes(record)),
			     e->what & ~KV_HOT_MASK);
		again = true;
	}
	kv_unlock(kv, &name);
	return again;
}

static void readmit_chunk(struct writer *w, uint64_t number)
{
	struct fth_kv *kv = w->kv;
	uint64_t chunk = kv->super.chunk, at = sizeof(struct kv_chunk_header), again = 0, items = 0;

	if (fth_dev_read(kv->dev, w->old, chunk, kv_log_offset(kv, number * chunk),
			 fth_deadline_ns(TIMEOUT_NS)) < 0)
		return;
	while (at + sizeof(struct kv_record) <= chunk) {
		const struct kv_record *r = (const struct kv_record *)(void *)(w->old + at);
		uint64_t bytes = kv_round(kv_record_bytes(r));

		if (r->type < KV_ITEM || r->type > KV_PAD || bytes > chunk - at ||
		    r->checksum != kv_record_sum(r, kv->super.id, number * chunk + at))
			break;
		if (again + bytes <= chunk * kv->options.readmit / 100 &&
		    readmit_record(kv, r, number * chunk + at)) {
			again += bytes;
			items++;
		}
		at += bytes;
	}
	kv_count(kv, FTH_KV_STAT_READMITTED, items);
}

/* Once for each chunk that was opened. The lock is let go meanwhile. */
static bool keep_house(struct writer *w)
{
	struct fth_kv *kv = w->kv;
	struct kv_log *log = &kv->log;
	uint64_t chunks = kv->super.chunks;

	if (kv->options.readmit && log->next + AHEAD > log->released + chunks) {
		uint64_t number = log->released;

		pthread_mutex_unlock(&log->lock);
		readmit_chunk(w, number);
		pthread_mutex_lock(&log->lock);
		log->released = number + 1;
		return true;
	}
	if (kv->swept >= log->next)
		return false;
	kv->swept++;
	pthread_mutex_unlock(&log->lock);
	/* All buckets twice in the time in which all chunks are replaced. */
	kv_sweep(kv, 2 * (uint64_t)kv->bucket_count / chunks + 1);
	pthread_mutex_lock(&log->lock);
	return true;
}

/* ---- the thread ---- */

static bool nothing_left(const struct writer *w)
{
	const struct kv_log *log = &w->kv->log;

	for (unsigned i = 0; i < log->count; i++)
		if (log->buffers[i].state == KV_BUFFER_SEALED)
			return false;
	return w->in_flight == 0 && w->commit == COMMIT_IDLE && w->kv->commit_due == 0;
}

static void sleep_locked(struct writer *w, uint64_t now)
{
	struct fth_kv *kv = w->kv;
	uint64_t until = now + IDLE_NS;
	struct timespec ts;

	if (kv->commit_due && kv->commit_due > now && kv->commit_due < until)
		until = kv->commit_due;
	ts.tv_sec = (time_t)(until / 1000000000u);
	ts.tv_nsec = (long)(until % 1000000000u);
	pthread_cond_timedwait(&kv->work, &kv->log.lock, &ts);
}

static void *writer_main(void *context)
{
	struct writer *w = context;
	struct fth_kv *kv = w->kv;
	struct kv_log *log = &kv->log;

	pthread_mutex_lock(&log->lock);
	while (!kv->stop || !nothing_left(w)) {
		struct fth_dev_req *done[16];
		uint64_t now = fth_now_ns();
		bool wake;
		int n = 0;

		wake = write_sealed(w);
		start_commit(w, now);
		wake |= go_on_with_commit(w);
		if (!wake && keep_house(w)) {
			wake = true;
		} else if (!wake && w->in_flight) {
			pthread_mutex_unlock(&log->lock);
			n = wait_device(w, done, 16);
			pthread_mutex_lock(&log->lock);
		} else if (!wake && !kv->stop) {
			sleep_locked(w, now);
		}
		for (int i = 0; i < n; i++)
			wake |= take_back(w, done[i]);
		if (wake) {
			pthread_mutex_unlock(&log->lock);
			kv_wake_workers(kv);
			pthread_mutex_lock(&log->lock);
		}
	}
	pthread_mutex_unlock(&log->lock);
	fth_dev_chan_close(w->chan);
	free(w->old);
	free(w);
	return NULL;
}

int kv_writer_start(struct fth_kv *kv)
{
	struct writer *w = calloc(1, sizeof(*w));
	int rc = w ? 0 : -ENOMEM;

	if (rc == 0) {
		w->kv = kv;
		rc = fth_dev_chan_open(kv->dev, kv->options.buffers + 2, &w->chan);
	}
	if (rc == 0 && kv->options.readmit &&
	    posix_memalign((void **)&w->old, 4096, kv->super.chunk) != 0)
		rc = -ENOMEM;
	if (rc == 0)
		rc = -pthread_create(&kv->writer, NULL, writer_main, w);
	if (rc < 0 && w) {
		fth_dev_chan_close(w->chan);
		free(w->old);
		free(w);
	}
	kv->writer_runs = rc == 0;
	return rc;
}

void kv_writer_stop(struct fth_kv *kv)
{
	if (!kv->writer_runs)
		return;
	pthread_mutex_lock(&kv->log.lock);
	kv->stop = true;
	if (kv_persistent(kv))
		kv->commit_due = 1; /* at once */
	kv_writer_kick(kv);
	pthread_mutex_unlock(&kv->log.lock);
	pthread_join(kv->writer, NULL);
	kv->writer_runs = false;
}
