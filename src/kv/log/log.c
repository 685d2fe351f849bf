/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log: positions of records, and the buffers of chunks that are not on the device yet.
 *
 *	FREE --open_chunk--> OPEN --full--> SEALED --written (writer.c)--> FREE
 *
 * Invariants
 * 1. A position is assigned only once. Records of one key get positions in the order
 *    of their changes, because the key's buckets are locked meanwhile.
 * 2. A record is found in a buffer from kv_log_fill() until its chunk is on the device.
 * 3. tail is above every position whose place in the ring is, or may be, overwritten; it moves
 *    before the chunk that overwrites is opened. It moves by a chunk as well when the index is
 *    full.
 * 4. The last record of a chunk is a pad, for which there is always room. The space after it is
 *    zero: no record begins there. The header of the next chunk has the position at which that
 *    record ends, so that replay detects an incomplete chunk, and finds the chunk before one whose
 *    number follows a gap.
 * 5. With persistence chunk n is opened only when all before n - flight is flushed.
 * 6. After `error` is set nothing is added, until the device works again. With persistence the log
 *    then begins anew (log_restart.c): records after a hole in it would be lost.
 * 7. Headers and pads say how far the log was durable when they were written. A commit writes one
 *    of them at least, which vouches for the commit before it.
 * 8. With persistence every chunk begins with the last flush_all, if there was one: its first
 *    record may be overwritten before items that it covers are, those that are stored before its
 *    time comes.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- reserving ---- */

static struct kv_buffer *free_buffer(struct kv_log *log, unsigned keep)
{
	for (unsigned i = 0; i < log->count; i++)
		if (log->buffers[i].state == KV_BUFFER_FREE && keep-- == 0)
			return &log->buffers[i];
	return NULL;
}

/* Append a pad of so many bytes to the open chunk. */
static void put_pad(struct fth_kv *kv, uint64_t bytes)
{
	struct kv_buffer *b = kv->log.open;
	struct kv_record *pad = (struct kv_record *)(void *)(b->data + b->filled);
	uint64_t position = b->number * kv->super.chunk + b->filled;

	memset(pad, 0, bytes);
	pad->type = KV_PAD;
	pad->value_length = (uint32_t)(bytes - sizeof(*pad));
	pad->cas = kv->log.durable;
	pad->checksum = kv_record_sum(pad, kv->super.id, position);
	b->filled += bytes;
	b->end = b->filled;
	fth_store_relaxed_dev64(&kv->log.head, position + bytes);
}

static void seal(struct fth_kv *kv)
{
	struct kv_buffer *b = kv->log.open;

	if (b->filled < kv->super.chunk)
		put_pad(kv, sizeof(struct kv_record));
	memset(b->data + b->filled, 0, kv->super.chunk - b->filled);
	b->state = KV_BUFFER_SEALED;
	kv->log.open = NULL;
	kv->log.end = b->number * kv->super.chunk + b->end;
	kv_count(kv, FTH_KV_STAT_CHUNKS, 1);
	kv_writer_kick(kv);
}

/*
 * Of chunks that were not flushed any may be lost in a crash while later ones are there. Recovery
 * relies on a bound of their number.
 */
static bool flushed_enough(struct fth_kv *kv, uint64_t number)
{
	uint64_t durable = fth_load_relaxed_dev64(&kv->log.committed) / kv->super.chunk;

	if (!kv_persistent(kv))
		return true;
	if (number >= durable + kv->log.flight / 2 && kv->commit_due != 1)
		kv->commit_due = 1; /* in good time */
	return number < durable + kv->log.flight;
}

static void put_flush(struct fth_kv *kv, struct kv_buffer *b)
{
	struct kv_record *to = (struct kv_record *)(void *)(b->data + b->filled);

	if (kv->log.flush.type != KV_FLUSH)
		return;
	*to = kv->log.flush;
	to->checksum = kv_record_sum(to, kv->super.id, b->number * kv->super.chunk + b->filled);
	b->filled += kv_round(kv_record_bytes(to));
	b->end = b->filled;
}

static int open_chunk(struct fth_kv *kv, bool writer)
{
	struct kv_log *log = &kv->log;
	/* For hot items that are written again: the writer can not wait for itself. */
	unsigned keep = kv->options.readmit && !writer;
	struct kv_buffer *b = free_buffer(log, keep);
	uint64_t chunk = kv->super.chunk, number = log->next;
	struct kv_chunk_header header = {
		.magic = KV_CHUNK_MAGIC,
		.id = kv->super.id,
		.number = number,
		.before = log->end,
		.durable = log->durable,
	};

	if (!flushed_enough(kv, number) || !b ||
	    number + keep >= log->released + kv->super.chunks) {
		kv_writer_kick(kv);
		return -EAGAIN;
	}
	header.checksum =
		fth_checksum(&header, offsetof(struct kv_chunk_header, checksum), KV_CHUNK_SEED);
	memcpy(b->data, &header, sizeof(header));
	b->state = KV_BUFFER_OPEN;
	b->number = number;
	b->filled = b->end = sizeof(header);
	b->failures = 0;
	b->written = b->writing = 0;
	/* After a crash the tail is ahead: the oldest chunks are gone then. */
	if (log->tail < kv_log_tail(kv, number + 1)) {
		/* release: whoever finds an entry valid after this sees the new tail */
		fth_store_release_dev64(&log->tail, kv_log_tail(kv, number + 1));
		kv_count(kv, FTH_KV_STAT_RECLAIMED, 1);
	}
	put_flush(kv, b);
	fth_store_relaxed_dev64(&log->head, number * chunk + b->filled);
	log->next = number + 1;
	log->open = b;
	kv_writer_kick(kv); /* it sweeps, and makes the next chunk's place ready */
	return 0;
}

void kv_log_pad(struct fth_kv *kv)
{
	uint64_t filled = kv->log.open->filled, gap = kv->block - filled % kv->block;

	/* The chunk ends with a block, and has room for a pad: the gap does not reach beyond it. */
	if (gap < sizeof(struct kv_record))
		gap += kv->block;
	put_pad(kv, gap);
}

int kv_log_pad_room(struct fth_kv *kv)
{
	if (kv->log.open && kv->log.open->filled == kv->super.chunk)
		seal(kv);
	return kv->log.open ? 0 : open_chunk(kv, true);
}

/*
 * Does the write budget allow so many bytes? It fills evenly over the day, and what was not used is
 * kept for an hour.
 */
static bool in_budget(struct fth_kv *kv, uint64_t bytes)
{
	uint64_t daily = kv->options.daily_bytes, now, most;
	struct kv_log *log = &kv->log;

	if (!daily)
		return true;
	most = daily / 24 > kv->super.chunk ? daily / 24 : kv->super.chunk;
	now = fth_now_ns();
	log->budget += (double)(now - log->budget_at) * (double)daily / 86400e9;
	log->budget_at = now;
	if (log->budget > (double)most)
		log->budget = (double)most;
	return (double)bytes <= log->budget;
}

/* flush: the record is a flush_all; else NULL. */
static int reserve(struct fth_kv *kv, uint64_t bytes, bool writer, const struct kv_record *flush,
		   struct kv_room *out)
{
	struct kv_log *log = &kv->log;
	uint64_t rounded = kv_round(bytes);
	struct kv_buffer *b;
	int rc = 0;

	pthread_mutex_lock(&log->lock);
	if (log->error)
		rc = -EIO;
	else if (!in_budget(kv, rounded))
		rc = -EDQUOT;
	if (rc == 0 && log->open &&
	    log->open->filled + rounded > kv->super.chunk - sizeof(struct kv_record))
		seal(kv);
	if (rc == 0 && !log->open)
		rc = open_chunk(kv, writer);
	if (rc == 0) {
		b = log->open;
		out->buffer = b;
		out->at = (struct kv_record *)(void *)(b->data + b->filled);
		out->position = b->number * kv->super.chunk + b->filled;
		b->filled += rounded;
		b->end = b->filled;
		b->copying++;
		log->budget -= (double)rounded;
		if (flush)
			log->flush = *flush;
		fth_store_relaxed_dev64(&log->head, b->number * kv->super.chunk + b->filled);
	}
	pthread_mutex_unlock(&log->lock);
	if (rc == 0)
		kv_count(kv, FTH_KV_STAT_LOG_BYTES, rounded);
	return rc;
}

int kv_log_reserve(struct fth_kv *kv, uint64_t bytes, struct kv_room *out)
{
	return reserve(kv, bytes, false, NULL, out);
}

int kv_log_reserve_flush(struct fth_kv *kv, const struct kv_record *flush, struct kv_room *out)
{
	return reserve(kv, kv_record_bytes(flush), false, flush, out);
}

int kv_log_reserve_again(struct fth_kv *kv, uint64_t bytes, struct kv_room *out)
{
	return reserve(kv, bytes, true, NULL, out);
}

void kv_log_fill(struct fth_kv *kv, const struct kv_room *room, const struct kv_record *record)
{
	struct kv_log *log = &kv->log;
	uint64_t bytes = kv_record_bytes(record);

	memcpy(room->at, record, bytes);
	memset((uint8_t *)room->at + bytes, 0, kv_round(bytes) - bytes);
	room->at->checksum = kv_record_sum(room->at, kv->super.id, room->position);
	pthread_mutex_lock(&log->lock);
	/* Only where it may wait for this: else it would wake for every record. */
	if (--room->buffer->copying == 0 &&
	    (room->buffer->state == KV_BUFFER_SEALED || kv->commit_due))
		kv_writer_kick(kv);
	pthread_mutex_unlock(&log->lock);
}

int kv_log_copy(struct fth_kv *kv, uint64_t position, uint64_t bytes, void *to)
{
	struct kv_log *log = &kv->log;
	uint64_t number = position / kv->super.chunk, at = position % kv->super.chunk;
	int found = 0;

	pthread_mutex_lock(&log->lock);
	if (!kv_position_valid(kv, position))
		found = -ESTALE;
	for (unsigned i = 0; i < log->count && found == 0; i++) {
		const struct kv_buffer *b = &log->buffers[i];

		if (b->state == KV_BUFFER_FREE || b->number != number || at + bytes > b->filled)
			continue;
		memcpy(to, b->data + at, bytes);
		found = 1;
	}
	pthread_mutex_unlock(&log->lock);
	return found;
}

/* ---- giving up ---- */

bool kv_log_give_up(struct fth_kv *kv)
{
	struct kv_log *log = &kv->log;
	uint64_t chunk = kv->super.chunk, tail = 0;
	bool more = false;

	if (!kv->dev)
		return false;
	pthread_mutex_lock(&log->lock);
	tail = (log->tail / chunk + 1) * chunk;
	more = tail <= log->head / chunk * chunk;
	if (more) {
		log->given_up = tail;
		fth_store_relaxed_dev32(&kv->index_dropped, 1);
		/* release: as in open_chunk(), and index_dropped is set before */
		fth_store_release_dev64(&log->tail, tail);
	}
	pthread_mutex_unlock(&log->lock);
	if (more) {
		kv_count(kv, FTH_KV_STAT_RECLAIMED, 1);
		kv_count(kv, FTH_KV_STAT_INDEX_RECLAIMED, 1);
	}
	return more;
}

/* ---- life ---- */

int kv_log_init(struct fth_kv *kv)
{
	struct kv_log *log = &kv->log;

	log->count = kv->options.buffers;
	log->budget = 1e18; /* it begins full */
	log->budget_at = fth_now_ns();
	log->buffers = calloc(log->count, sizeof(*log->buffers));
	if (!log->buffers)
		return -ENOMEM;
	for (unsigned i = 0; i < log->count; i++) {
		log->buffers[i].data = fth_dev_buf_alloc(kv->dev, kv->super.chunk);
		if (!log->buffers[i].data)
			return fth_fail(ENOMEM, "no memory for %u chunks of %llu bytes", log->count,
					(unsigned long long)kv->super.chunk);
	}
	return 0;
}

void kv_log_release(struct fth_kv *kv)
{
	struct kv_log *log = &kv->log;

	for (unsigned i = 0; log->buffers && i < log->count; i++)
		fth_dev_buf_free(kv->dev, log->buffers[i].data, kv->super.chunk);
	free(log->buffers);
	free(log->again);
}
