/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the device to an index: the last checkpoint, then what the log says after it.
 *
 * Records are replayed in the order of their positions, which is that of the changes of each key.
 * The log ends at the first chunk that is not there. Chunks behind a gap may have been written before
 * a power loss, while one before them was not: nothing in them was acknowledged as durable, but they
 * verify. So that they are never taken for a continuation, the next chunk gets a number behind all
 * that may have been in flight, and a checkpoint is written that says so before the cache is used.
 * Until then nothing is written, so a crash during recovery changes nothing.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct replay {
	struct fth_kv *kv;
	uint8_t *chunk;	 /* the one that is replayed */
	uint64_t number; /* of it */
	uint8_t *other;	 /* a record somewhere else */
};

/* Is the record at this place the key's? */
static bool place_has_key(struct replay *r, const struct kv_entry *e, const struct kv_record *key)
{
	struct fth_kv *kv = r->kv;
	uint64_t position = kv_position(kv, kv_place(e)), bytes = kv_length(e);
	uint64_t at = kv_log_offset(kv, position), skip = at % kv->block;
	const struct kv_record *record;

	if (position / kv->super.chunk == r->number) {
		record = (const struct kv_record *)(void *)(r->chunk + position % kv->super.chunk);
	} else {
		uint64_t length = (skip + bytes + kv->block - 1) / kv->block * kv->block;

		if (length > kv->super.chunk + kv->block ||
		    fth_dev_read(kv->dev, r->other, length, at - skip, FTH_DEV_TIMEOUT) < 0)
			return false;
		record = (const struct kv_record *)(void *)(r->other + skip);
	}
	return kv_record_bytes(record) <= bytes &&
	       record->checksum == kv_record_sum(record, kv->super.id, position) &&
	       record->key_length == key->key_length &&
	       memcmp(kv_record_key(record), kv_record_key(key), key->key_length) == 0;
}

/* Take out whatever the index has of this key. */
static void forget(struct replay *r, const struct kv_name *name, const struct kv_record *key)
{
	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &r->kv->buckets[name->bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if (kv_kind(e) == KV_FLASH && (e->what & KV_NAME_MASK) == name->what &&
		    place_has_key(r, e, key))
			kv_entry_clear(r->kv, e);
	}
}

static void remember(struct replay *r, const struct kv_name *name, const struct kv_record *record,
		     uint64_t position)
{
	struct fth_kv *kv = r->kv;
	struct kv_entry *e;

	while (!(e = kv_find_free(kv, name)))
		if (!kv_make_room(kv, name)) {
			kv_count(kv, FTH_KV_STAT_INDEX_DROPPED, 1);
			return;
		}
	kv_entry_set(e, kv_where(position / KV_UNIT, kv_record_bytes(record)),
		     kv_what(name, KV_FLASH, 0));
	kv->items++;
}

static void replay_record(struct replay *r, const struct kv_record *record, uint64_t position)
{
	struct fth_kv *kv = r->kv;
	struct kv_name name;

	if (record->cas > kv->cas)
		kv->cas = record->cas;
	if (record->type == KV_FLUSH) {
		kv->flush_cas = record->cas;
		kv->flush_when = record->expires;
	}
	if (record->type != KV_ITEM && record->type != KV_GONE)
		return;
	kv_name(kv, kv_record_key(record), record->key_length, &name);
	forget(r, &name, record);
	if (record->type == KV_ITEM)
		remember(r, &name, record, position);
}

static void replay_chunk(struct replay *r, uint64_t at)
{
	struct fth_kv *kv = r->kv;
	uint64_t chunk = kv->super.chunk;

	while (at + sizeof(struct kv_record) <= chunk) {
		const struct kv_record *record = (const struct kv_record *)(void *)(r->chunk + at);
		uint64_t position = r->number * chunk + at, bytes;

		if (record->type < KV_ITEM || record->type > KV_PAD)
			return;
		bytes = kv_record_bytes(record);
		if (bytes > chunk - at ||
		    record->checksum != kv_record_sum(record, kv->super.id, position)) {
			kv->recovery.bad_items++;
			return;
		}
		at += kv_round(bytes);
		kv->log.head = r->number * chunk + at;
		replay_record(r, record, position);
	}
}

/* 1: the chunk with this number is in its place. 0: it is not. */
static int read_chunk(struct replay *r, uint64_t number)
{
	struct fth_kv *kv = r->kv;
	struct kv_chunk_header h;
	int rc = fth_dev_read(kv->dev, r->chunk, kv->super.chunk,
			      kv_log_offset(kv, number * kv->super.chunk), FTH_DEV_TIMEOUT);

	if (rc < 0)
		return rc;
	memcpy(&h, r->chunk, sizeof(h));
	r->number = number;
	return h.magic == KV_CHUNK_MAGIC && h.id == kv->super.id && h.number == number &&
	       h.checksum ==
		       fth_checksum(&h, offsetof(struct kv_chunk_header, checksum), KV_CHUNK_SEED);
}

static uint64_t tail_for(const struct fth_kv *kv, uint64_t next)
{
	return next > kv->super.chunks ? (next - kv->super.chunks) * kv->super.chunk : 0;
}

static int replay(struct fth_kv *kv, uint64_t from, uint64_t *next)
{
	struct replay r = {.kv = kv};
	uint64_t chunk = kv->super.chunk, number = from / chunk;
	uint64_t at = from % chunk;
	int rc = 0;

	if (posix_memalign((void **)&r.chunk, 4096, chunk) != 0 ||
	    posix_memalign((void **)&r.other, 4096, chunk + 4096) != 0)
		rc = -ENOMEM;
	for (; rc == 0; number++) {
		rc = read_chunk(&r, number);
		if (rc <= 0)
			break;
		rc = 0;
		kv->log.tail = tail_for(kv, number + 1);
		kv->log.head = number * chunk + (at ? at : sizeof(struct kv_chunk_header));
		replay_chunk(&r, at ? at : sizeof(struct kv_chunk_header));
		kv->recovery.chunks_read++;
		at = 0;
	}
	*next = number;
	free(r.chunk);
	free(r.other);
	return rc;
}

int kv_recover(struct fth_kv *kv)
{
	uint64_t begin = fth_now_ns(), from = 0, next = 0;
	struct kv_index_header header;
	int rc = kv_checkpoint_read(kv, &header);

	if (rc < 0)
		return rc;
	if (rc == 1) {
		from = header.replay_from;
		kv->cas = header.cas;
		kv->flush_cas = header.flush_cas;
		kv->flush_when = (uint32_t)header.flush_when;
		kv->recovery.clean = header.clean;
		/* Positions in the index are below this; replay raises it. */
		kv->log.head = from;
		kv->log.tail = tail_for(kv, from / kv->super.chunk + 1);
	}
	if (rc == 1 && header.clean)
		next = header.next;
	else
		rc = replay(kv, from, &next);
	if (rc < 0)
		return rc;
	if (!kv->recovery.clean && next > 0)
		next += kv->super.buffers;
	kv->super.buffers = kv->options.buffers;
	kv->log.next = next;
	kv->log.head = next * kv->super.chunk;
	kv->log.committed = kv->log.head;
	kv->log.tail = tail_for(kv, next);
	kv->log.released = next > kv->super.chunks ? next - kv->super.chunks : 0;
	kv_sweep(kv, kv->bucket_count);
	kv->recovery.items = kv->items;
	/* See above; also takes back the word that it was closed in good order. */
	rc = kv_checkpoint_write(kv, false, FTH_NEVER);
	kv->recovery.elapsed_ns = fth_now_ns() - begin;
	return rc;
}
