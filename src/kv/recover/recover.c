/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the device to an index: the last checkpoint, then what the log says after it.
 *
 * Records are replayed in the order of their positions, which is that of the changes of each key.
 * The log ends at the first chunk that is missing or incomplete, if nothing says that it was
 * durable farther than that (watermark.c). Chunks after it may have been written before a power
 * loss, while it was not: nothing in them was acknowledged as durable, but they verify. So that
 * they are never taken for a continuation, the `flight` places in which they can be are zeroed, and
 * a checkpoint follows, whose flush makes that durable before the cache is used. A crash during
 * recovery changes nothing: the zeroed places are not part of the log. The numbers are reused, so
 * the numbers of chunks have no gaps. The previous contents of these places stay lost: the cache
 * may have reported their items as missing already.
 *
 * If the log was durable farther than that, it is damaged, or it wrapped around since the
 * checkpoint. Then it is unknown which keys changed in the missing part: all items found so far are
 * dropped, and replay continues with the oldest chunk that exists. A cache may lose items; it never
 * returns an old value for a new one. If no chunk follows, the next one that is written says that
 * the log ended before it where it was durable, not where the damage is: a replay of both finds the
 * damage again.
 *
 * A damaged checkpoint costs time but no items, because every item is in the log. The chunks of the
 * log are found by their links (chain.c) and replayed from the checkpoint before it, if that one is
 * whole and the chain reaches back to it, else from the oldest chunk. The same if one superblock is
 * bad. The other one may be the older of the two: then the checkpoint that it names is good to
 * begin with, but that the cache was closed with it may be out of date.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_AHEAD 2u /* times the number of chunks that may not have been durable */

struct replay {
	struct fth_kv *kv;
	uint8_t *chunk;	 /* the one that is replayed */
	uint64_t number; /* of it */
	uint64_t end;	 /* behind its last record */
	uint8_t *other;	 /* a record somewhere else */
	bool torn;	 /* a record in it is bad */
	bool holes;	 /* parts of it cannot be read */
	bool new_holes;	 /* the same of the chunk that was read last */
	struct kv_watermark mark;
	uint64_t lost; /* the log ends with damage, and was durable up to here; 0: it does not */
};

/* Numbers of chunks. */
struct span {
	uint64_t end;	  /* behind the last one of the log */
	uint64_t unused;  /* this one and later ones are on no device, as far as is known */
	uint64_t durable; /* position: all before it was durable */
};

/* The record of an entry; NULL with *rc 0: it is not whole. */
static const struct kv_record *read_entry(struct replay *r, const struct kv_entry *e, int *rc)
{
	struct fth_kv *kv = r->kv;
	uint64_t position = kv_position(kv, kv_place(e)), bytes = kv_length(e);
	uint64_t at = kv_log_offset(kv, position), skip = at % kv->block;
	const struct kv_record *record;

	*rc = 0;
	if (position % kv->super.chunk + bytes > kv->super.chunk || bytes < sizeof(*record))
		return NULL;
	if (position / kv->super.chunk == r->number) {
		record = (const struct kv_record *)(void *)(r->chunk + position % kv->super.chunk);
	} else {
		uint64_t length = (skip + bytes + kv->block - 1) / kv->block * kv->block;

		*rc = kv_read_with_holes(kv, r->other, length, at - skip, &kv->recovery.unreadable);
		if (*rc < 0)
			return NULL;
		record = (const struct kv_record *)(void *)(r->other + skip);
	}
	return kv_record_bytes(record) <= bytes &&
			       record->checksum == kv_record_sum(record, kv->super.id, position)
		       ? record
		       : NULL;
}

/* Take out whatever the index has of this key, or may have: what is not whole is no loss. */
static int forget(struct replay *r, const struct kv_key_id *id, const struct kv_record *key)
{
	int rc = 0;

	for (unsigned i = 0; i < 2 * KV_WAYS && rc == 0; i++) {
		struct kv_entry *e = &r->kv->buckets[id->bucket[i / KV_WAYS]].way[i % KV_WAYS];
		const struct kv_record *record;

		if (kv_kind(e) != KV_FLASH || (e->traits & KV_TAG_MASK) != id->tag)
			continue;
		/* One that is not valid is overwritten, or comes later in the log. */
		record = kv_stale(r->kv, e) ? NULL : read_entry(r, e, &rc);
		if (rc == 0 && (!record || (record->key_length == key->key_length &&
					    memcmp(kv_record_key(record), kv_record_key(key),
						   key->key_length) == 0)))
			kv_entry_clear(r->kv, e);
	}
	return rc;
}

static void remember(struct replay *r, struct kv_key_id *id, const struct kv_record *record,
		     uint64_t position)
{
	struct fth_kv *kv = r->kv;
	struct kv_entry *e = kv_take_entry(kv, id);

	kv_entry_set(e, kv_entry_extent(position / KV_UNIT, kv_record_bytes(record)),
		     kv_entry_traits(id, KV_FLASH, 0, record->expires));
	kv->items++;
}

static int replay_record(struct replay *r, const struct kv_record *record, uint64_t position)
{
	struct fth_kv *kv = r->kv;
	struct kv_key_id id;
	int rc;

	if (record->type != KV_PAD && record->cas > kv->cas)
		kv->cas = record->cas;
	if (record->type == KV_FLUSH)
		kv_flush_set(kv, record);
	if ((record->type != KV_ITEM && record->type != KV_GONE) || record->key_length == 0)
		return 0;
	kv_key_id(kv, kv_record_key(record), record->key_length, &id);
	rc = forget(r, &id, record);
	if (rc == 0 && record->type == KV_ITEM)
		remember(r, &id, record, position);
	return rc;
}

/* The records of the chunk from `at` on. */
static int replay_chunk(struct replay *r, uint64_t at)
{
	struct fth_kv *kv = r->kv;
	uint64_t chunk = kv->super.chunk;
	int rc = 0;

	r->end = at;
	r->torn = false;
	r->holes = r->new_holes;
	kv->log.head = r->number * chunk + at;
	kv->log.tail = kv_log_tail(kv, r->number + 1);
	kv->recovery.chunks_read++;
	while (rc == 0 && r->end + sizeof(struct kv_record) <= chunk) {
		const struct kv_record *record =
			(const struct kv_record *)(void *)(r->chunk + r->end);
		uint64_t position = r->number * chunk + r->end;

		if (record->type == 0)
			return 0;
		r->torn = !kv_record_good(kv, record, chunk - r->end, position);
		if (r->torn)
			return 0;
		r->end += kv_round(kv_record_bytes(record));
		kv->log.head = r->number * chunk + r->end;
		rc = replay_record(r, record, position);
	}
	return rc;
}

bool kv_chunk_good(const struct fth_kv *kv, const struct kv_chunk_header *h)
{
	return h->magic == KV_CHUNK_MAGIC && h->id == kv->super.id &&
	       h->number <= KV_POSITION_MAX / kv->super.chunk &&
	       h->checksum ==
		       fth_checksum(h, offsetof(struct kv_chunk_header, checksum), KV_CHUNK_SEED);
}

/* The number of the chunk in the place of `number`; UINT64_MAX: there is none. */
static int read_number(struct replay *r, uint64_t number, uint64_t *out)
{
	struct fth_kv *kv = r->kv;
	struct kv_chunk_header h;
	uint64_t holes = 0; /* those that matter are found again */
	int rc = kv_read_with_holes(kv, r->other, kv->block,
				    kv_log_offset(kv, number * kv->super.chunk), &holes);

	*out = UINT64_MAX;
	if (rc < 0)
		return rc;
	memcpy(&h, r->other, sizeof(h));
	if (kv_chunk_good(kv, &h) && h.number % kv->super.chunks == number % kv->super.chunks)
		*out = h.number;
	return 0;
}

/* 1: the chunk with this number is in its place. 0: it is not. */
static int read_chunk(struct replay *r, uint64_t number, uint64_t *before)
{
	struct fth_kv *kv = r->kv;
	struct kv_chunk_header h;
	uint64_t holes = 0, at = kv_log_offset(kv, number * kv->super.chunk);
	int rc = kv_read_with_holes(kv, r->chunk, kv->super.chunk, at, &holes);
	bool there;

	if (rc < 0)
		return rc;
	kv->recovery.unreadable += holes;
	memcpy(&h, r->chunk, sizeof(h));
	*before = h.before;
	there = kv_chunk_good(kv, &h) && h.number == number;
	if (there)
		kv_watermark_header(&r->mark, &h);
	/* Without its header nothing in it was durable: only that one has to be readable. */
	if (!there && holes) {
		holes = 0;
		rc = kv_read_with_holes(kv, r->other, kv->block, at, &holes);
	}
	r->new_holes = holes;
	return rc < 0 ? rc : there;
}

/* The replay stopped at a position. Does the log end there, or is it damaged? */
static int is_damaged(struct replay *r, uint64_t position, bool holes, bool *out)
{
	struct fth_kv *kv = r->kv;
	int rc = kv_watermark_scan(kv, position / kv->super.chunk,
				   LOOK_AHEAD * kv->super.flight + 1, r->other, &r->mark);

	*out = holes || r->mark.position > position;
	return rc;
}

/*
 * The chunk `number` is damaged, or overwritten. *next is the oldest chunk behind it that is there,
 * and *newest the newest; UINT64_MAX: there is none.
 */
static int find_rest(struct replay *r, uint64_t number, uint64_t *next, uint64_t *newest)
{
	uint64_t chunks = r->kv->super.chunks, found;
	int rc = 0;

	*next = UINT64_MAX;
	*newest = 0;
	for (uint64_t i = 0; i < chunks && rc == 0; i++) {
		rc = read_number(r, number + i, &found);
		if (found > number && found < *next)
			*next = found;
		if (found != UINT64_MAX && found > *newest)
			*newest = found;
	}
	return rc;
}

/* Is the place of a chunk overwritten, or may a write that was not flushed have touched it? */
static bool overwritten(const struct fth_kv *kv, uint64_t number, uint64_t newest)
{
	return newest + kv->super.flight >= number + kv->super.chunks;
}

/* A part of the log is missing: what is known from before it may be out of date. */
static void forget_older(struct replay *r, bool damage)
{
	struct fth_kv *kv = r->kv;

	kv->recovery.damaged_chunks += damage;
	kv->recovery.bad_items += damage && r->torn;
	kv->recovery.went_round |= !damage;
	kv->index_dropped |= damage; /* the log still has what is dropped here */
	kv_index_clear(kv);
	r->torn = false;
}

/* Behind the last record that was replayed. */
static uint64_t replayed_to(const struct replay *r)
{
	return r->number * r->kv->super.chunk + r->end;
}

/* The log ends with damage: the numbers of all chunks that were found are used up. */
static void end_damaged(struct replay *r, uint64_t position, uint64_t *next)
{
	/*
	 * No record ends at this position: even if the damage has gone, the chunk does not verify.
	 */
	r->lost = (r->mark.position > position ? r->mark.position : position) + 1;
	if (*next < r->mark.chunks)
		*next = r->mark.chunks;
	if (*next <= (r->lost - 1) / r->kv->super.chunk)
		*next = (r->lost - 1) / r->kv->super.chunk + 1;
}

/*
 * The replay stopped at `position`, at chunk `number`. 1: the log is damaged there, or wrapped
 * around, and goes on with *rest. 0: it ends, and *next is the number of the next chunk.
 */
static int stopped(struct replay *r, uint64_t position, uint64_t number, bool holes, uint64_t *rest,
		   uint64_t *next)
{
	uint64_t newest;
	bool damaged;
	int rc = is_damaged(r, position, holes, &damaged);

	if (rc < 0 || !damaged)
		return rc;
	rc = find_rest(r, number, rest, &newest);
	if (rc < 0)
		return rc;
	forget_older(r, !overwritten(r->kv, number, newest));
	if (*rest != UINT64_MAX)
		return 1;
	end_damaged(r, position, next);
	return 0;
}

/* Replay from chunk `number` to the end, which is *next. */
static int replay_chunks(struct replay *r, uint64_t number, uint64_t at, uint64_t *next)
{
	uint64_t before = 0;
	bool first = true, holes;
	int rc;

	for (;;) {
		rc = read_chunk(r, number, &before);
		holes = r->new_holes;
		if (rc < 0)
			return rc;
		/*
		 * Is the one before it whole? That one is still the end of all that was replayed.
		 * Behind its last block may be what was there before: only this header knows.
		 */
		if (rc == 1 && !first && before != replayed_to(r)) {
			number--;
			holes = r->holes;
			rc = 0;
		}
		if (rc == 1) {
			r->number = number++;
			rc = replay_chunk(r, at ? at : sizeof(struct kv_chunk_header));
			if (rc < 0)
				return rc;
			first = false;
			at = 0;
			continue;
		}
		holes |= !first && r->holes; /* nothing says that the last chunk is whole */
		/*
		 * A chunk of which a part was replayed, or is in the checkpoint, is not written
		 * again.
		 */
		*next = (first ? at != 0 : number == r->number) ? number + 1 : number;
		rc = stopped(r, first ? number * r->kv->super.chunk + at : replayed_to(r), number,
			     holes, &number, next);
		if (rc <= 0)
			return rc;
		first = true;
		at = 0;
	}
}

/* Replay chunks of the chain, from the one with index `i` to the end of the log, which is *next. */
static int replay_chain(struct replay *r, const struct kv_chain *chain, uint64_t i, uint64_t at,
			uint64_t *next)
{
	uint64_t before = 0;
	bool first = true;
	int rc;

	for (; i < chain->count; i++, at = 0) {
		uint64_t number = chain->numbers[i];

		rc = read_chunk(r, number, &before);
		if (rc < 0)
			return rc;
		if (rc == 0) { /* its header cannot be read any more */
			forget_older(r, true);
			*next = number + 1;
			first = true;
			continue;
		}
		if (!first && before != replayed_to(r)) {
			/* The one before it is not whole. See chain.c: was that a crash? */
			if (number == r->number + 1 && !r->holes &&
			    r->mark.position <= replayed_to(r))
				return 0;
			forget_older(r, !overwritten(r->kv, r->number, chain->newest));
		}
		r->number = number;
		*next = number + 1;
		first = false;
		rc = replay_chunk(r, at ? at : sizeof(struct kv_chunk_header));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Where in the chain the replay after a checkpoint begins; count: nothing is to be replayed. */
static bool find_start(const struct kv_chain *chain, uint64_t number, uint64_t *start)
{
	uint64_t i = chain->count;

	while (i > 0 && chain->numbers[i - 1] > number)
		i--;
	*start = i;
	if (i == chain->count && (i == 0 || chain->numbers[i - 1] < number))
		return true;
	if (i == 0 || chain->numbers[i - 1] != number)
		return false;
	*start = i - 1;
	return true;
}

/* From the chunks alone, or from them and a checkpoint that is perhaps not the newest. */
static int rebuild(struct replay *r, bool checkpoint, uint64_t from, struct span *span)
{
	struct fth_kv *kv = r->kv;
	uint64_t chunk = kv->super.chunk, start = 0, at = from % chunk, stop;
	struct kv_chain chain;
	int rc = kv_chain_find(kv, r->other, &r->mark, &chain);

	if (rc == 0 && checkpoint && find_start(&chain, from / chunk, &start)) {
		span->end = from / chunk + (at != 0);
	} else if (rc == 0) {
		kv_index_clear(kv);
		kv_flush_set(kv, &(struct kv_record){0});
		kv->recovery.damaged_chunks += chain.broken;
		start = at = 0;
	}
	if (rc == 0)
		rc = replay_chain(r, &chain, start, at, &span->end);
	stop = r->number == UINT64_MAX ? from : replayed_to(r);
	if (rc == 0 && (r->mark.position > stop || (r->number != UINT64_MAX && r->holes))) {
		forget_older(r, true);
		end_damaged(r, stop, &span->end);
	}
	if (chain.newest != UINT64_MAX)
		span->unused = chain.newest + 1;
	kv_chain_release(&chain);
	return rc;
}

/*
 * whole: the checkpoint is the newest, or there has been none yet. checkpoint: there is one, and
 * the log from position `from` on is not in it.
 */
static int replay(struct fth_kv *kv, bool whole, bool checkpoint, uint64_t from, struct span *span)
{
	struct replay r = {.kv = kv, .number = UINT64_MAX};
	uint64_t chunk = kv->super.chunk;
	int rc = 0;

	if (posix_memalign((void **)&r.chunk, 4096, chunk) != 0 ||
	    posix_memalign((void **)&r.other, 4096, chunk + 4096) != 0)
		rc = -ENOMEM;
	kv_checkpoint_watermark(kv, &r.mark);
	if (rc == 0)
		rc = whole ? replay_chunks(&r, from / chunk, from % chunk, &span->end)
			   : rebuild(&r, checkpoint, from, span);
	if (rc == 0 && r.number != UINT64_MAX)
		kv->log.end = replayed_to(&r);
	if (rc == 0 && r.lost)
		kv->log.end = r.lost;
	span->durable = r.mark.position;
	free(r.chunk);
	free(r.other);
	return rc;
}

/* 1: *header is that of a checkpoint, which the index has now. 0: there is none. */
static int read_index(struct fth_kv *kv, struct kv_index_header *header, struct kv_recovered *out)
{
	struct kv_super *s = &kv->super;
	int rc;

	if (s->index_number == 0)
		return 0;
	rc = kv_checkpoint_read(kv, s->index_which, s->index_number, header);
	if (!kv_medium_error(rc))
		return rc < 0 ? rc : 1;
	snprintf(out->damage, sizeof(out->damage), "%s", fth_error_text(rc));
	kv->recovery.index_damaged = true;
	kv->index_dropped = 1; /* nobody knows */
	kv_index_clear(kv);
	rc = kv_checkpoint_read(kv, !s->index_which, s->index_number - 1, header);
	if (rc == 0) {
		s->index_which = !s->index_which; /* the next one overwrites the bad one */
		return 1;
	}
	kv_index_clear(kv);
	return kv_medium_error(rc) ? 0 : rc;
}

static void take_header(struct fth_kv *kv, const struct kv_index_header *header)
{
	kv->cas = header->cas;
	kv->flush_cas = header->flush_cas;
	kv->flush_before = (uint32_t)header->flush_before;
	kv->flush_when = (uint32_t)header->flush_when;
	kv->log.end = header->ends;
	kv->index_dropped |= header->dropped != 0;
}

int kv_recover_read(struct fth_kv *kv, struct kv_recovered *out)
{
	struct kv_index_header header = {0};
	struct span span = {0};
	bool checkpoint, whole;
	int rc;

	*out = (struct kv_recovered){0};
	rc = read_index(kv, &header, out);
	if (rc < 0)
		return rc;
	checkpoint = rc == 1;
	whole = !kv->super_alone && !kv->recovery.index_damaged;
	if (checkpoint)
		take_header(kv, &header);
	kv->recovery.clean = whole && header.clean;
	if (!kv->recovery.clean || header.replay_from < header.head)
		rc = replay(kv, whole, checkpoint, header.replay_from, &span);
	if (rc < 0)
		return rc;
	/* What replay did not come to is damaged. */
	kv->recovery.clean &= kv->log.end == header.ends;
	if (kv->recovery.clean) {
		span.end = header.next;
		out->head = header.head;
		kv->log.head = span.end * kv->super.chunk;
	} else {
		/*
		 * Numbers of changes that were lost may be known to somebody: they are not given
		 * again.
		 */
		kv->cas += UINT32_MAX;
	}
	out->end = span.end;
	out->durable = span.durable;
	out->stale = kv->recovery.clean ? span.end : span.end + kv->super.flight;
	if (out->stale < span.unused)
		out->stale = span.unused;
	if (out->stale > span.end + kv->super.chunks)
		out->stale = span.end + kv->super.chunks;
	/* Entries of the checkpoint that replay did not come to are not known to be the latest. */
	kv->log.tail = kv_log_tail(kv, out->stale);
	if (checkpoint && kv->log.tail < header.tail)
		kv->log.tail = header.tail;
	kv_sweep(kv, kv->bucket_count);
	kv->log.next = span.end;
	kv->log.head = span.end * kv->super.chunk;
	kv->recovery.items = kv->items;
	return 0;
}

/*
 * Chunks that were not durable when an earlier user of the cache ended may be on the device still:
 * what is said of their number never gets less, and is in both superblocks before more of them are
 * written.
 */
static int grow_flight(struct fth_kv *kv)
{
	if (kv->log.flight <= kv->super.flight)
		return 0;
	kv->super.flight = kv->log.flight;
	return kv_super_write(kv, FTH_DEV_TIMEOUT);
}

/*
 * Whatever a crash may have left behind the end of the log. The checkpoint that follows flushes it.
 */
static int erase_stale(struct fth_kv *kv, const struct kv_recovered *recovered)
{
	uint64_t chunk = kv->super.chunk;
	int rc = 0;

	for (uint64_t n = recovered->end; n < recovered->stale && rc == 0; n++)
		rc = fth_dev_zero(kv->dev, chunk, kv_log_offset(kv, n * chunk), FTH_DEV_TIMEOUT);
	return rc;
}

static struct kv_record flush_in_force(const struct fth_kv *kv)
{
	struct kv_record flush = {
		.cas = kv->flush_cas, .stored = kv->flush_before, .expires = kv->flush_when};

	if (flush.cas || flush.stored || flush.expires)
		flush.type = KV_FLUSH;
	return flush;
}

int kv_recover(struct fth_kv *kv)
{
	uint64_t begin = fth_now_ns();
	struct kv_recovered recovered;
	int rc = kv_recover_read(kv, &recovered);

	if (rc < 0)
		return rc;
	kv->log.flush = flush_in_force(kv);
	kv->log.committed = kv->log.head;
	kv->log.durable = kv->log.marked = kv->log.end;
	kv->log.released = kv->log.tail / kv->super.chunk;
	rc = erase_stale(kv, &recovered);
	if (rc == 0)
		rc = grow_flight(kv);
	/* See above; also takes back the word that it was closed in good order. */
	if (rc == 0)
		rc = kv_checkpoint_write(kv, false, FTH_DEV_TIMEOUT);
	kv->recovery.elapsed_ns = fth_now_ns() - begin;
	if (rc == -ENOSPC)
		return fth_fail(ENOSPC, "%s has no space left for the index; the items are intact",
				fth_dev_uri(kv->dev));
	return rc;
}
