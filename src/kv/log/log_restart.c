/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log that has failed goes on when the device works again. The writer's thread does that.
 *
 * 1. The chunks that are still in buffers are written, and the device is flushed: only a device
 *    that takes what it refused before works again.
 * 2. If a flush has failed before, nobody knows what became of all that was written after the last
 *    commit, though the device reported those writes as successful. Its places are given up: items
 *    of which there is another copy in memory get a new place, the others are dropped. None of
 *    these changes was acknowledged as durable.
 * 3. The log goes on with a new chunk. Changes that were refused meanwhile have removed items from
 *    the index, but not from the log, so a checkpoint comes first, from which a crash is recovered.
 *    It leaves nothing to the log: if it has not room for all entries, the oldest chunks are given
 *    up. The new chunk says that the log ended before it at a position where no record ends:
 *    recovery without a checkpoint drops the items before it (recover.c).
 * 4. Nothing is added until the checkpoint is durable. If it fails, it is tried again later.
 */
#include "kv/kv_internal.h"

#include "dev/forgive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_NS 30000000000u /* for all that one attempt writes */
#define ITEMS	 4096u	      /* that get new places in one go */

static bool anybody_copies(const struct kv_log *log)
{
	for (unsigned i = 0; i < log->count; i++)
		if (log->buffers[i].state != KV_BUFFER_FREE && log->buffers[i].copying)
			return true;
	return false;
}

/* Buffers do not change: the log has failed, and nobody copies. */
static int write_held(struct fth_kv *kv, bool *unknown, uint64_t deadline)
{
	struct kv_log *log = &kv->log;
	int rc = 0;

	if (*unknown && kv->owns_dev)
		dev_flush_forgive(kv->dev);

	for (unsigned i = 0; i < log->count && rc == 0; i++) {
		struct kv_buffer *b = &log->buffers[i];
		uint64_t to = (b->filled + kv->block - 1) / kv->block * kv->block;

		if (b->state == KV_BUFFER_FREE || b->written >= to)
			continue;
		memset(b->data + b->filled, 0, to - b->filled);
		rc = fth_dev_write(kv->dev, b->data + b->written, to - b->written,
				   kv_log_offset(kv, b->number * kv->super.chunk + b->written),
				   deadline);
	}
	if (rc < 0)
		return rc;
	rc = fth_dev_flush(kv->dev, deadline);
	*unknown |= rc < 0;
	return rc;
}

/*
 * Room to note all items in memory whose records are in `bytes` bytes of the log, beside those
 * noted already.
 */
static int expect_again(struct kv_log *log, uint64_t bytes)
{
	size_t more = (size_t)(bytes / kv_round(sizeof(struct kv_record) + 1)) + 1;
	uint64_t *again = realloc(log->again, (log->again_count + more) * sizeof(*again));

	if (!again)
		return -ENOMEM;
	log->again = again;
	return 0;
}

static void give_up_entry(struct fth_kv *kv, struct kv_entry *e, uint64_t from, uint64_t to)
{
	struct kv_slot *slot = kv_kind(e) == KV_MEMORY ? kv_slot_at(kv, kv_place(e)) : NULL;
	uint64_t position = slot ? slot->position : kv_position(kv, kv_place(e));

	if (kv_kind(e) == KV_EMPTY || position < from || position >= to)
		return;
	if (slot) {
		slot->position = KV_NOWHERE;
		kv->log.again[kv->log.again_count++] = e->traits & KV_TAG_MASK;
		return;
	}
	kv_entry_clear(kv, e);
	kv_count(kv, FTH_KV_STAT_DROPPED, 1);
}

/* Entries whose records are in [from, to) of the log. */
static void give_up(struct fth_kv *kv, uint64_t from, uint64_t to)
{
	/* No entry moves to a bucket that was looked through already. */
	pthread_mutex_lock(&kv->kick_lock);
	for (uint32_t b = 0; b < kv_bucket_count(kv); b++) {
		kv_lock_two(kv, b, b);
		for (unsigned w = 0; w < KV_WAYS; w++)
			give_up_entry(kv, &kv->buckets[b].way[w], from, to);
		kv_unlock_two(kv, b, b);
	}
	pthread_mutex_unlock(&kv->kick_lock);
}

/* Under log.lock: a new chunk comes next, which has no link to those before it. */
static void break_off(struct fth_kv *kv)
{
	struct kv_log *log = &kv->log;
	uint64_t chunk = kv->super.chunk, head = fth_load_relaxed_dev64(&log->head);

	for (unsigned i = 0; i < log->count; i++) {
		log->buffers[i].state = KV_BUFFER_FREE;
		log->buffers[i].filled = log->buffers[i].written = 0;
	}
	log->open = NULL;
	if (log->next <= head / chunk)
		log->next = head / chunk + 1; /* the last chunk was full to the end */
	log->end = log->durable = log->marked = head + 1;
	__atomic_store_n(&log->restarts, log->restarts + 1, __ATOMIC_RELAXED);
	fth_store_relaxed_dev64(&log->head, log->next * chunk);
	/*
	 * release: a thread that sees it sees the restart, and that its own records are not among
	 * those committed
	 */
	fth_store_release_dev64(&log->committed, log->next * chunk);
	kv->commit_due = 0;
	kv->overdue_next = 0;
	fth_store_relaxed_dev64(&kv->overdue, 0);
	kv->committing = false;
	log->broken_off = true;
	/* What refused changes have removed, and what is given up, is in the log still. */
	fth_store_relaxed_dev32(&kv->index_dropped, 1);
}

int kv_log_restart(struct fth_kv *kv, bool *unknown)
{
	struct kv_log *log = &kv->log;
	uint64_t deadline = fth_deadline_ns(WRITE_NS), from, to;
	int rc;

	if (anybody_copies(log))
		return -EAGAIN;
	pthread_mutex_unlock(&log->lock);
	rc = write_held(kv, unknown, deadline);
	pthread_mutex_lock(&log->lock);
	from = fth_load_relaxed_dev64(&log->committed);
	to = fth_load_relaxed_dev64(&log->head);
	if (rc == 0 && !log->broken_off)
		rc = expect_again(log, to - from);
	if (rc == 0 && !log->broken_off) {
		break_off(kv);
		pthread_mutex_unlock(&log->lock);
		if (*unknown)
			give_up(kv, from, to);
		pthread_mutex_lock(&log->lock);
	}
	if (rc == 0) {
		pthread_mutex_unlock(&log->lock);
		rc = kv_checkpoint_make_fit(kv);
		if (rc == 0)
			rc = kv_checkpoint_write(kv, false, deadline);
		pthread_mutex_lock(&log->lock);
		/* It may have been a flush: all that the log has was flushed before. */
		*unknown |= rc < 0;
	}
	if (rc < 0)
		return rc;
	log->broken_off = false;
	/* release: who sees that it works sees the new head */
	__atomic_store_n(&log->error, 0, __ATOMIC_RELEASE);
	return 0;
}

/* An item in memory whose place was given up. Its buckets are locked. */
static int place_again(struct fth_kv *kv, struct kv_slot *slot)
{
	struct kv_room room;
	int rc;

	if (slot->position != KV_NOWHERE || kv_dead(kv, &slot->record))
		return 0;
	rc = kv_log_reserve_again(kv, kv_record_bytes(&slot->record), &room);
	if (rc < 0)
		return rc;
	kv_log_fill(kv, &room, &slot->record);
	slot->position = room.position;
	return 0;
}

/* Whatever is in memory under a tag. */
static int place_tag_again(struct fth_kv *kv, uint64_t tag)
{
	struct kv_key_id id;
	int rc = 0;

	kv_key_id_of(kv, tag, &id);
	kv_lock(kv, &id);
	for (unsigned i = 0; i < 2 * KV_WAYS && rc == 0; i++) {
		struct kv_entry *e = &kv->buckets[id.bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if (kv_kind(e) == KV_MEMORY && (e->traits & KV_TAG_MASK) == tag)
			rc = place_again(kv, kv_slot_at(kv, kv_place(e)));
	}
	kv_unlock(kv, &id);
	return rc;
}

bool kv_log_place_again(struct fth_kv *kv)
{
	struct kv_log *log = &kv->log;

	for (unsigned n = 0; n < ITEMS && log->again_at < log->again_count; n++) {
		if (place_tag_again(kv, log->again[log->again_at]) < 0)
			return false;
		log->again_at++;
	}
	if (log->again_at == log->again_count) {
		free(log->again);
		log->again = NULL;
		log->again_at = log->again_count = 0;
	}
	return true;
}
