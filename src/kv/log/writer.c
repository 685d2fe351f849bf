/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that writes the log. Other threads fill buffers; this one writes them to the device.
 *
 *	commit:  IDLE --due--> WRITING (all before target) --> FLUSHING --> IDLE, committed = target
 *
 * The pad of a commit vouches for the commit before it. When no commit follows for a while, one
 * that consists of a pad, a mark, vouches for the last one.
 *
 * Invariants
 * 1. Only this thread has writes of the log in flight, and only it frees buffers.
 * 2. A block that was written is not written again with other contents: a commit pads the open
 *    chunk to a whole block first. Durable data cannot be torn by a later write.
 * 3. committed moves only over records whose writes and whose flush have succeeded. A write is
 *    tried a few times. When it still fails, a flush fails, or no request completes for a long
 *    time, the log has failed: with persistence nothing is added or written, and buffers are kept,
 *    so that their records can still be read, until the device works again (log_restart.c).
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
#define AHEAD	   3u		/* chunks that are made ready to be overwritten */
#define TRIES	   3u		/* of a write */
#define MARK_NS	   20000000u	/* without a change, until the last commit gets its mark */
#define RETRY_NS   200000000u	/* after a failure, until the first attempt to go on; */
#define RETRY_MAX  10000000000u /* then twice as long each time, up to this */
#define TIMEOUTS   6u /* times options.timeout_ns, for something to come back from the device */

enum commit { COMMIT_IDLE, COMMIT_WRITING, COMMIT_FLUSHING };

struct writer {
	struct fth_kv *kv;
	struct fth_dev_chan *chan;
	unsigned in_flight;
	uint64_t since; /* when something was last submitted or came back */
	enum commit commit;
	uint64_t target;
	bool news;		     /* the commit under way has records, not a pad alone */
	uint64_t vouched;	     /* its pad says that all before this position is durable */
	uint64_t mark_due;	     /* when to write a mark, unless the last commit has one */
	bool flush_failed;	     /* since the log last worked */
	uint64_t retry_at, retry_ns; /* of a log that has failed */
	bool wake;		     /* there is news for workers that wait */
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
	/* Half of the window to begin with a commit, the other half for its end. */
	if (window && kv->committing && !kv->overdue_next)
		kv->overdue_next = fth_deadline_ns(2 * window);
	else if (window && !kv->committing && !kv->overdue)
		fth_store_relaxed_dev64(&kv->overdue, fth_deadline_ns(2 * window));
	pthread_mutex_unlock(&kv->log.lock);
}

bool kv_commit_overdue(const struct fth_kv *kv)
{
	/* relaxed: a look that comes a moment late is as good as a change made a moment before */
	uint64_t overdue = fth_load_relaxed_dev64(&kv->overdue);

	return overdue && fth_now_ns() > overdue;
}

static uint64_t whole_blocks(const struct fth_kv *kv, uint64_t bytes)
{
	return (bytes + kv->block - 1) / kv->block * kv->block;
}

/* ---- writes ---- */

/* 0, -EAGAIN: later, or what the device says. */
static int submit(struct writer *w, struct fth_dev_req *req)
{
	int rc = fth_dev_submit(w->chan, &req, 1);

	if (rc != 1)
		return rc < 0 ? rc : -EIO;
	if (w->in_flight++ == 0)
		w->since = fth_now_ns();
	return 0;
}

/* Nothing comes back any more. */
static bool stuck(const struct writer *w)
{
	return w->in_flight && fth_now_ns() - w->since > TIMEOUTS * w->kv->options.timeout_ns;
}

static void fail_log(struct writer *w, int rc)
{
	/* release: who sees it sees what was committed before */
	if (w->kv->log.error == 0) {
		__atomic_store_n(&w->kv->log.error, rc, __ATOMIC_RELEASE);
		kv_count(w->kv, FTH_KV_STAT_LOG_FAILURES, kv_persistent(w->kv));
		w->retry_ns = RETRY_NS;
		w->retry_at = fth_deadline_ns(RETRY_NS);
	}
	w->commit = COMMIT_IDLE;
	w->wake = true;
}

static bool failed(const struct fth_kv *kv)
{
	return kv->log.error && kv_persistent(kv);
}

static void free_buffer(struct writer *w, struct kv_buffer *b)
{
	b->state = KV_BUFFER_FREE;
	b->written = b->writing = b->filled = 0;
	w->wake = true;
}

static void write_failed(struct writer *w, struct kv_buffer *b, int rc)
{
	kv_count(w->kv, FTH_KV_STAT_WRITE_ERRORS, 1);
	b->writing = 0;
	if (++b->failures < TRIES)
		return;
	if (kv_persistent(w->kv))
		fail_log(w, rc);
	else
		free_buffer(w, b); /* its items are lost: reads will find that */
}

/* Write [written, to) of a buffer; both are multiples of the block. */
static void write_buffer(struct writer *w, struct kv_buffer *b, uint64_t to)
{
	struct fth_kv *kv = w->kv;
	uint64_t from = b->written;
	int rc;

	if (b->writing || to <= from)
		return;
	fth_dev_req_init(&b->req, FTH_DEV_WRITE, b->data + from, to - from,
			 kv_log_offset(kv, b->number * kv->super.chunk + from));
	rc = submit(w, &b->req);
	if (rc == 0)
		b->writing = to;
	else if (rc != -EAGAIN)
		write_failed(w, b, rc);
}

static void write_sealed(struct writer *w)
{
	struct kv_log *log = &w->kv->log;

	for (unsigned i = 0; i < log->count; i++) {
		struct kv_buffer *b = &log->buffers[i];
		uint64_t to = whole_blocks(w->kv, b->filled);

		if (b->state != KV_BUFFER_SEALED || b->copying || b->writing)
			continue;
		if (b->written < to)
			write_buffer(w, b, to);
		else
			free_buffer(w, b); /* a commit had written all of it */
	}
}

static void buffer_written(struct writer *w, struct kv_buffer *b)
{
	if (b->req.result < 0) {
		write_failed(w, b, b->req.result);
		return;
	}
	kv_count(w->kv, FTH_KV_STAT_CHUNK_BYTES, b->writing - b->written);
	b->written = b->writing;
	b->writing = 0;
	b->failures = 0;
	if (b->state == KV_BUFFER_SEALED && b->written >= whole_blocks(w->kv, b->filled))
		free_buffer(w, b);
}

/* ---- commits ---- */

static bool has_news(const struct fth_kv *kv)
{
	return fth_load_relaxed_dev64(&kv->log.head) > fth_load_relaxed_dev64(&kv->log.committed);
}

/*
 * Fill the open chunk to the end of a block, so that all of it can be written. False: somebody is
 * still copying.
 */
static bool pad_open(struct writer *w)
{
	struct fth_kv *kv = w->kv;
	struct kv_buffer *b = kv->log.open;

	if (b && b->copying)
		return false;
	if (!b || !has_news(kv) || b->filled == kv->super.chunk)
		return true;
	kv_log_pad(kv);
	w->vouched = kv->log.durable;
	return true;
}

static bool put_mark(struct writer *w)
{
	struct fth_kv *kv = w->kv;

	if (kv_log_pad_room(kv) < 0)
		return false;
	kv_log_pad(kv);
	w->vouched = kv->log.durable;
	return true;
}

static bool wants_mark(const struct fth_kv *kv)
{
	return kv->log.marked < kv->log.durable && kv->commit_due == 0 && !has_news(kv) &&
	       kv_persistent(kv) && !kv->stop;
}

/* The pad for the next commit, if one is due. False: none is due, or it has to wait. */
static bool begin_commit(struct writer *w, uint64_t now)
{
	struct fth_kv *kv = w->kv;

	w->news = has_news(kv);
	if (kv->commit_due)
		return now >= kv->commit_due && pad_open(w);
	if (!wants_mark(kv) || now < w->mark_due)
		return false;
	if (put_mark(w))
		return true;
	w->mark_due = now + MARK_NS;
	return false;
}

static void start_commit(struct writer *w, uint64_t now)
{
	struct fth_kv *kv = w->kv;

	if (w->commit != COMMIT_IDLE || !begin_commit(w, now))
		return;
	kv->commit_due = 0;
	kv->committing = true;
	w->commit = COMMIT_WRITING;
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
		if (b->state == KV_BUFFER_OPEN && b->writing == 0)
			write_buffer(w, b, whole_blocks(kv, to));
	}
	return all;
}

static void end_commit(struct writer *w, int rc)
{
	struct fth_kv *kv = w->kv;

	kv->committing = false;
	if (rc < 0) {
		/* Any of the writes since the last commit may be missing on the device. */
		w->flush_failed = true;
		kv_count(kv, FTH_KV_STAT_WRITE_ERRORS, 1);
		fail_log(w, rc);
		return;
	}
	/* release: who reads it finds all that was written before */
	fth_store_release_dev64(&kv->log.committed, w->target);
	if (w->news)
		kv->log.durable = w->target;
	kv->log.marked = w->vouched;
	w->mark_due = fth_deadline_ns(MARK_NS);
	fth_store_relaxed_dev64(&kv->overdue, kv->overdue_next);
	kv->overdue_next = 0;
	kv_count(kv, FTH_KV_STAT_COMMITS, 1);
	w->commit = COMMIT_IDLE;
	w->wake = true;
}

static void go_on_with_commit(struct writer *w)
{
	int rc;

	if (w->commit != COMMIT_WRITING || !target_written(w))
		return;
	fth_dev_req_init(&w->flush, FTH_DEV_FLUSH, NULL, 0, 0);
	rc = submit(w, &w->flush);
	if (rc == 0)
		w->commit = COMMIT_FLUSHING;
	else if (rc != -EAGAIN)
		end_commit(w, rc);
}

/* ---- what comes back ---- */

/* Without the lock. -ETIME: nothing came. */
static int wait_device(struct writer *w, struct fth_dev_req **done, unsigned max)
{
	return fth_dev_reap(w->chan, done, max, 1, fth_deadline_ns(POLL_NS));
}

static void take_back(struct writer *w, struct fth_dev_req *req)
{
	w->in_flight--;
	w->since = fth_now_ns();
	if (!kv_persistent(w->kv))
		__atomic_store_n(&w->kv->log.error, 0, __ATOMIC_RELAXED); /* it works again */
	if (req == &w->flush) {
		w->flush_failed |= req->result < 0; /* also after the log has failed */
		if (w->commit == COMMIT_FLUSHING)
			end_commit(w, req->result);
		return;
	}
	buffer_written(w, (struct kv_buffer *)((char *)req - offsetof(struct kv_buffer, req)));
}

/* ---- chunks that are about to be overwritten ---- */

/* A record of a chunk that goes: write it again if it is hot and still the item of its key. */
static bool readmit_record(struct fth_kv *kv, const struct kv_record *record, uint64_t position)
{
	struct kv_key_id id;
	struct kv_entry *e;
	struct kv_room room;
	bool again = false;

	if (record->type != KV_ITEM || kv_dead(kv, record))
		return false;
	kv_key_id(kv, kv_record_key(record), record->key_length, &id);
	kv_lock(kv, &id);
	e = kv_find_place(kv, &id, position / KV_UNIT);
	if (e && e->traits & KV_HOT_MASK &&
	    kv_log_reserve_again(kv, kv_record_bytes(record), &room) == 0) {
		kv_log_fill(kv, &room, record);
		kv_count(kv, FTH_KV_STAT_REWRITTEN_BYTES, kv_round(kv_record_bytes(record)));
		kv_entry_set(e, kv_entry_extent(room.position / KV_UNIT, kv_record_bytes(record)),
			     e->traits & ~KV_HOT_MASK);
		again = true;
	}
	kv_unlock(kv, &id);
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
		uint64_t bytes;

		if (!kv_record_good(kv, r, chunk - at, number * chunk + at))
			break;
		bytes = kv_round(kv_record_bytes(r));
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
	if (log->again_at < log->again_count) {
		bool more;

		pthread_mutex_unlock(&log->lock);
		more = kv_log_place_again(kv);
		kv_commit_wanted(kv);
		pthread_mutex_lock(&log->lock);
		if (kv->stop && kv->commit_due)
			kv->commit_due = 1; /* closing waits for it */
		if (more)
			return true;
	}
	if (kv->swept >= log->next)
		return false;
	kv->swept++;
	pthread_mutex_unlock(&log->lock);
	/* All buckets twice in the time in which all chunks are replaced. */
	kv_sweep(kv, 2 * (uint64_t)kv_bucket_count(kv) / chunks + 1);
	pthread_mutex_lock(&log->lock);
	return true;
}

/* ---- going on after a failure ---- */

/* Under log.lock, which is released meanwhile. */
static void restart(struct writer *w, uint64_t now)
{
	struct fth_kv *kv = w->kv;

	if (kv->stop || w->in_flight || now < w->retry_at)
		return;
	if (kv_log_restart(kv, &w->flush_failed) < 0) {
		w->retry_ns = 2 * w->retry_ns < RETRY_MAX ? 2 * w->retry_ns : RETRY_MAX;
		w->retry_at = fth_deadline_ns(w->retry_ns);
		return;
	}
	kv_count(kv, FTH_KV_STAT_LOG_RESTARTS, 1);
	w->flush_failed = false;
	w->vouched = kv->log.durable;
	w->wake = true;
}

/* ---- the thread ---- */

static bool nothing_left(const struct writer *w)
{
	const struct kv_log *log = &w->kv->log;

	if (w->in_flight || failed(w->kv))
		return w->in_flight == 0;
	for (unsigned i = 0; i < log->count; i++)
		if (log->buffers[i].state == KV_BUFFER_SEALED)
			return false;
	return w->commit == COMMIT_IDLE && w->kv->commit_due == 0 &&
	       log->again_at == log->again_count;
}

static void sleep_locked(struct writer *w, uint64_t now)
{
	struct fth_kv *kv = w->kv;
	uint64_t until = now + IDLE_NS;
	struct timespec ts;

	if (kv->commit_due && kv->commit_due > now && kv->commit_due < until)
		until = kv->commit_due;
	if (failed(kv))
		until = w->retry_at < until ? w->retry_at : until;
	if (wants_mark(kv) && w->mark_due > now && w->mark_due < until)
		until = w->mark_due;
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
	while (!kv->stop || !(nothing_left(w) || (stuck(w) && fth_now_ns() > kv->stop_by))) {
		struct fth_dev_req *done[16];
		uint64_t now = fth_now_ns();
		int n = 0;

		if (stuck(w) && log->error == 0)
			fail_log(w, -ETIMEDOUT);
		if (!failed(kv)) {
			write_sealed(w);
			start_commit(w, now);
			go_on_with_commit(w);
		} else {
			restart(w, now);
		}
		if (!w->wake && !failed(kv) && keep_house(w)) {
			w->wake = true;
		} else if (!w->wake && w->in_flight) {
			pthread_mutex_unlock(&log->lock);
			n = wait_device(w, done, 16);
			pthread_mutex_lock(&log->lock);
		} else if (!w->wake && !kv->stop) {
			sleep_locked(w, now);
		}
		for (int i = 0; i < n; i++)
			take_back(w, done[i]);
		if (w->wake) {
			w->wake = false;
			pthread_mutex_unlock(&log->lock);
			kv_wake_workers(kv);
			pthread_mutex_lock(&log->lock);
		}
	}
	if (w->in_flight)
		kv->left_behind = true; /* the device may use buffers and requests for ever */
	pthread_mutex_unlock(&log->lock);
	if (!kv->left_behind) {
		fth_dev_chan_close(w->chan);
		free(w->old);
		free(w);
	}
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
	if (rc == 0) {
		rc = -pthread_create(&kv->writer, NULL, writer_main, w);
		if (rc < 0)
			fth_fail(-rc, "cannot start the log writer thread: %s", strerror(-rc));
	}
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
	kv->stop_by = fth_deadline_ns(TIMEOUT_NS);
	if (kv_persistent(kv))
		kv->commit_due = 1; /* at once */
	kv_writer_kick(kv);
	pthread_mutex_unlock(&kv->log.lock);
	pthread_join(kv->writer, NULL);
	kv->writer_runs = false;
}
