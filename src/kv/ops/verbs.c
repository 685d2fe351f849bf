/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each verb does to the item that was found. All of it happens with both buckets of the key
 * locked.
 *
 * A key has one entry at most. So a change takes out every entry of its tag that may be the key's:
 * one that could not be read now may be readable later, and would bring back an old value.
 *
 * An item that the full index has dropped is still in the log, and a crash may bring it back: with
 * its last value, unless the key is deleted meanwhile. So once the index has dropped something, a
 * DELETE of a key that is not there puts a tombstone into the log too.
 */
#include "kv/ops/op.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 20u

/* ---- storing ---- */

static void unlink_old(struct fth_kv *kv, const struct found *f)
{
	if (f->slot)
		kv_slot_unlink(kv, f->slot);
}

/* Could an entry with the key's tag not be read? */
static bool has_unreadable(struct fth_kv *kv, struct fth_kv_op *op)
{
	const struct kv_private *p = kv_private(op);

	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[p->id.bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if (kv_kind(e) == KV_FLASH && (e->traits & KV_TAG_MASK) == p->id.tag &&
		    was_tried(p, kv_place(e)) == UNREADABLE)
			return true;
	}
	return false;
}

/* The item changes: take out the entries that may be an older one of it, but for `keep`. */
static void drop_doubtful(struct fth_kv *kv, struct fth_kv_op *op, const struct kv_entry *keep)
{
	const struct kv_private *p = kv_private(op);
	bool by_tag = op->verb == FTH_KV_SET && !kv_persistent(kv);

	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[p->id.bucket[i / KV_WAYS]].way[i % KV_WAYS];
		enum tried tried;

		if (e == keep || kv_kind(e) != KV_FLASH || (e->traits & KV_TAG_MASK) != p->id.tag)
			continue;
		tried = was_tried(p, kv_place(e));
		if (tried == UNREADABLE || (tried == NOT_TRIED && by_tag))
			kv_entry_clear(kv, e);
	}
}

/* The entry that a new item gets. NULL: there is none yet. */
static struct kv_entry *entry_for(struct fth_kv *kv, const struct fth_kv_op *op,
				  const struct found *f, bool last_try)
{
	const struct kv_key_id *id = &kv_private((struct fth_kv_op *)(uintptr_t)op)->id;
	struct kv_entry *e = f->entry ? f->entry : kv_find_free(kv, id);

	return e || !last_try ? e : kv_drop_oldest(kv, id);
}

/* cas 0: a new number */
static void fill_head(struct fth_kv *kv, const struct fth_kv_op *op, struct kv_slot *slot,
		      uint32_t flags, uint32_t expires, uint64_t cas, uint16_t state)
{
	struct kv_record *r = &slot->record;

	r->checksum = 0;
	r->type = KV_ITEM;
	r->key_length = (uint8_t)op->key_length;
	r->state = state;
	r->flags = flags;
	r->expires = expires;
	r->stored = kv_now();
	r->cas = cas ? cas : fth_add_relaxed_dev64(&kv->cas, 1) + 1;
	memcpy(r + 1, op->key, op->key_length);
}

/* The verb changes what is known about a value, not the value. */
static bool same_value(enum fth_kv_verb verb)
{
	return verb == FTH_KV_TOUCH || verb == FTH_KV_INVALIDATE || verb == FTH_KV_CLAIM;
}

/* The fresh slot is complete: put it into the log, if it has to be there, and into the index. */
static enum verdict link_slot(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
			      bool last_try)
{
	struct kv_private *p = kv_private(op);
	struct kv_slot *slot = p->fresh;
	struct kv_entry *e = entry_for(kv, op, f, last_try);
	unsigned hot = 0;
	struct kv_room room;

	if (!e)
		return OP_AGAIN;
	slot->position = KV_NOWHERE;
	if (kv_persistent(kv)) {
		int rc = kv_log_reserve(kv, kv_record_bytes(&slot->record), &room);

		if (rc < 0)
			return no_room(op, rc);
		kv_log_fill(kv, &room, &slot->record);
		slot->position = room.position;
		p->commit_at = room.position + kv_round(kv_record_bytes(&slot->record));
	}
	fth_store_relaxed_dev64(&slot->tag, p->id.tag);
	fth_store_relaxed_dev32(&slot->used, kv_now());
	fth_add_relaxed_dev32(&slot->refs, KV_LINKED);
	if (kv_kind(e) == KV_EMPTY)
		fth_add_relaxed_dev64(&kv->items, 1);
	if (same_value(op->verb)) /* what was read of it counts */
		hot = (unsigned)((e->traits & KV_HOT_MASK) >> KV_HOT_SHIFT);
	unlink_old(kv, f);
	drop_doubtful(kv, op, e);
	kv_entry_set(e, kv_entry_extent(kv_slot_place(kv, slot), kv_record_bytes(&slot->record)),
		     kv_entry_traits(&p->id, KV_MEMORY, hot, slot->record.expires));
	op->item_cas = slot->record.cas;
	kv_count(kv, FTH_KV_STAT_SETS, 1);
	return finish_with(op, 0);
}

static uint8_t *value_of(struct kv_slot *slot)
{
	return (uint8_t *)(slot + 1) + slot->record.key_length;
}

/* FTH_KV_STORE_STALE, and the item is newer than the number that the caller has. */
static bool stores_stale(const struct fth_kv_op *op, const struct kv_record *record)
{
	return op->options & FTH_KV_STORE_STALE && op->cas && record && op->cas < record->cas &&
	       (op->verb == FTH_KV_SET || op->verb == FTH_KV_REPLACE);
}

static enum verdict store_value(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
				bool last_try)
{
	struct kv_slot *slot = kv_private(op)->fresh;

	if (stores_stale(op, f->record))
		fill_head(kv, op, slot, op->flags, f->record->expires, 0,
			  f->record->state | FTH_KV_ITEM_STALE);
	else
		fill_head(kv, op, slot, op->flags, op->expires, 0,
			  op->options & FTH_KV_STORE_CLAIMED ? FTH_KV_ITEM_CLAIMED : 0);
	if (op->value_length)
		memcpy(value_of(slot), op->value, op->value_length);
	return link_slot(kv, op, f, last_try);
}

/* Append and prepend. */
static enum verdict store_joined(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
				 bool last_try)
{
	struct kv_slot *slot = kv_private(op)->fresh;
	uint32_t old = f->record->value_length, more = op->value_length;
	bool append = op->verb == FTH_KV_APPEND;

	fill_head(kv, op, slot, f->record->flags, f->record->expires, 0, 0);
	memcpy(value_of(slot) + (append ? 0 : more), kv_record_value(f->record), old);
	if (more)
		memcpy(value_of(slot) + (append ? old : 0), op->value, more);
	return link_slot(kv, op, f, last_try);
}

/* ---- results ---- */

static void describe(struct fth_kv_op *op, const struct kv_record *record)
{
	op->data = kv_record_value(record);
	op->length = record->value_length;
	op->item_flags = record->flags;
	op->item_expires = record->expires;
	op->item_cas = record->cas;
	op->item_state = (uint8_t)record->state;
}

/* The fresh slot is the item now, and what the caller sees. */
static void hold_fresh(struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);

	describe(op, &p->fresh->record);
	p->held = p->fresh;
	p->fresh = NULL;
}

static void note_use(struct fth_kv_op *op, const struct found *f)
{
	uint32_t now = kv_now();

	op->item_read = (f->entry->traits & KV_HOT_MASK) != 0;
	if (f->slot) {
		op->item_age = now - fth_load_relaxed_dev32(&f->slot->used);
		fth_store_relaxed_dev32(&f->slot->used, now);
	} else {
		uint64_t used = (f->entry->traits & KV_TIME_MASK) >> KV_TIME_SHIFT;
		uint64_t ticks = (now / KV_TICK - used) & KV_TIME_MASK >> KV_TIME_SHIFT;
		uint32_t stored = now - f->record->stored;

		op->item_age =
			(uint32_t)ticks * KV_TICK < stored ? (uint32_t)ticks * KV_TICK : stored;
	}
	kv_entry_used(f->entry);
}

static enum verdict get(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	struct kv_private *p = kv_private(op);

	note_use(op, f);
	describe(op, f->record);
	if (f->slot) {
		kv_slot_ref(f->slot);
		p->held = f->slot;
	}
	kv_count(kv, f->slot ? FTH_KV_STAT_HITS_MEMORY : FTH_KV_STAT_HITS_FLASH, 1);
	return finish_with(op, 0);
}

/* ---- verbs that need the item ---- */

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* As strtoull() reads one, without a minus sign: blanks before it, and a blank may end it. */
static bool parse_number(const struct kv_record *record, uint64_t *out)
{
	const uint8_t *at = kv_record_value(record), *end = at + record->value_length;
	const uint8_t *first;
	uint64_t n = 0;

	while (at < end && is_blank(*at))
		at++;
	if (at < end && *at == '+')
		at++;
	first = at;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *at - '0', &n))
			return false;
	*out = n;
	return at > first && (at == end || is_blank(*at));
}

static enum verdict add_to_counter(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
				   bool last_try, uint64_t *need)
{
	struct kv_slot *slot = kv_private(op)->fresh;
	uint32_t length, old = f->record->value_length;
	char text[DIGITS + 1];
	enum verdict verdict;
	uint64_t n;

	if (!parse_number(f->record, &n))
		return finish_with(op, -EDOM);
	if (op->verb == FTH_KV_INCREMENT)
		n += op->delta;
	else
		n = n > op->delta ? n - op->delta : 0;
	length = (uint32_t)snprintf(text, sizeof(text), "%" PRIu64, n);
	/*
	 * A number that became shorter keeps its length, and the item its state, as in memcached.
	 */
	if (!has_slot(op, length > old ? length : old)) {
		*need = length > old ? length : old;
		return OP_AGAIN;
	}
	fill_head(kv, op, slot, f->record->flags, f->record->expires, 0,
		  length > old ? 0 : f->record->state);
	memcpy(value_of(slot), text, length);
	if (length < old)
		memset(value_of(slot) + length, ' ', old - length);
	verdict = link_slot(kv, op, f, last_try);
	if (verdict == OP_DONE && op->result == 0)
		hold_fresh(op);
	return verdict;
}

/* The same value with another time to expire, another state, another number. */
static enum verdict change_head(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
				bool last_try)
{
	const struct kv_record *old = f->record;
	struct kv_slot *slot = kv_private(op)->fresh;
	bool keeps = op->verb == FTH_KV_CLAIM ||
		     (op->verb == FTH_KV_INVALIDATE && op->options & FTH_KV_KEEP_EXPIRES);
	uint64_t cas = op->verb == FTH_KV_INVALIDATE ? 0 : old->cas;
	uint16_t state = op->verb == FTH_KV_INVALIDATE ? FTH_KV_ITEM_STALE
			 : op->verb == FTH_KV_CLAIM    ? old->state | FTH_KV_ITEM_CLAIMED
						       : old->state;

	fill_head(kv, op, slot, old->flags, keeps ? old->expires : op->expires, cas, state);
	memcpy(value_of(slot), kv_record_value(old), old->value_length);
	return link_slot(kv, op, f, last_try);
}

static enum verdict claim(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
			  bool last_try)
{
	enum verdict verdict;

	if (f->record->state & FTH_KV_ITEM_CLAIMED)
		return finish_with(op, -EALREADY);
	verdict = change_head(kv, op, f, last_try);
	if (verdict == OP_DONE && op->result == 0)
		hold_fresh(op);
	return verdict;
}

static enum verdict touch(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
			  bool last_try)
{
	enum verdict verdict;

	note_use(op, f);
	verdict = change_head(kv, op, f, last_try);
	if (verdict == OP_DONE && op->result == 0) {
		hold_fresh(op);
		kv_count(kv, f->slot ? FTH_KV_STAT_HITS_MEMORY : FTH_KV_STAT_HITS_FLASH, 1);
	}
	return verdict;
}

/* Put a tombstone into the log, if it has to be there. */
static int log_removal(struct fth_kv *kv, struct fth_kv_op *op)
{
	struct {
		struct kv_record record;
		uint8_t key[FTH_KV_KEY_MAX];
	} gone = {.record = {.type = KV_GONE,
			     .key_length = (uint8_t)op->key_length,
			     .stored = kv_now(),
			     .cas = fth_add_relaxed_dev64(&kv->cas, 1) + 1}};
	struct kv_private *p = kv_private(op);
	struct kv_room room;
	int rc;

	if (!kv_persistent(kv))
		return 0;
	memcpy(gone.key, op->key, op->key_length);
	rc = kv_log_reserve(kv, kv_record_bytes(&gone.record), &room);
	if (rc < 0)
		return rc;
	kv_log_fill(kv, &room, &gone.record);
	p->commit_at = room.position + kv_round(kv_record_bytes(&gone.record));
	return 0;
}

static void unlink_item(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	unlink_old(kv, f);
	if (f->entry)
		kv_entry_clear(kv, f->entry);
	drop_doubtful(kv, op, NULL);
}

static enum verdict remove_item(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	int rc = log_removal(kv, op);

	if (rc < 0)
		return no_room(op, rc);
	unlink_item(kv, op, f);
	kv_count(kv, FTH_KV_STAT_DELETES, 1);
	return finish_with(op, 0);
}

/* The change was refused. If the log has failed, the removal holds until the cache is closed. */
static enum verdict remove_refused(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	if (f->entry || has_unreadable(kv, op) || fth_load_relaxed_dev32(&kv->index_dropped)) {
		int rc = log_removal(kv, op);

		if (rc == -EAGAIN)
			return OP_WAITS;
		if (rc < 0) /* the log still has it: a delete that finds nothing is refused, too */
			fth_store_relaxed_dev32(&kv->index_dropped, 1);
		unlink_item(kv, op, f);
	}
	return finish_with(op, kv_private(op)->refused);
}

/* ---- all of it ---- */

/* A condition on the item that is there, for those who have one. */
static int check_condition(const struct fth_kv_op *op, const struct kv_record *record)
{
	if (op->verb == FTH_KV_ADD && record)
		return -EEXIST;
	if (op->verb != FTH_KV_SET && op->verb != FTH_KV_ADD && !record)
		return -ENOENT;
	if (op->cas && op->verb != FTH_KV_GET && op->verb != FTH_KV_TOUCH) {
		if (!record)
			return -ENOENT;
		if (record->cas != op->cas && !stores_stale(op, record))
			return -EBUSY;
	}
	return 0;
}

/* How many bytes of value the operation is going to store, or NO_SLOT. */
static uint64_t value_bytes(const struct fth_kv_op *op, const struct kv_record *record)
{
	switch (op->verb) {
	case FTH_KV_SET:
	case FTH_KV_ADD:
	case FTH_KV_REPLACE:
		return op->value_length;
	case FTH_KV_APPEND:
	case FTH_KV_PREPEND:
		return (uint64_t)record->value_length + op->value_length;
	case FTH_KV_TOUCH:
	case FTH_KV_INVALIDATE:
	case FTH_KV_CLAIM:
		return record->value_length;
	default:
		return NO_SLOT;
	}
}

/*
 * There is nothing to remove, and the caller relies on it, after a crash too: the log gets a
 * tombstone if it may have the item still, and a removal that came before and is not durable yet is
 * waited for.
 */
static int note_absence(struct fth_kv *kv, struct fth_kv_op *op)
{
	/* relaxed: its buckets are locked, as they were when it was removed */
	uint64_t head = fth_load_relaxed_dev64(&kv->log.head);

	/*
	 * relaxed: a thread that finds the item gone has seen the tail, or the entry, that was set
	 * after it
	 */
	if (fth_load_relaxed_dev32(&kv->index_dropped))
		return log_removal(kv, op);
	if (head > fth_load_acquire_dev64(&kv->log.committed))
		kv_private(op)->commit_at = head;
	return 0;
}

/* The item is not as the operation wants it. */
static enum verdict refuse(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f, int rc)
{
	bool removes = op->verb == FTH_KV_DELETE || op->verb == FTH_KV_INVALIDATE;
	int logged = rc == -ENOENT && removes ? note_absence(kv, op) : 0;

	if (logged < 0)
		return no_room(op, logged);
	if (f->entry && f->readable && !f->record) {
		/* Dead: nobody will miss it. */
		unlink_old(kv, f);
		kv_entry_clear(kv, f->entry);
	}
	return finish_with(op, rc);
}

enum verdict kv_apply_verb(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
			   bool last_try, uint64_t *need)
{
	int rc = check_condition(op, f->record);
	uint64_t bytes;

	if (kv_private(op)->refused)
		return remove_refused(kv, op, f);
	/* What is deleted must not come back when it can be read again. */
	if (rc == -ENOENT && op->verb == FTH_KV_DELETE && has_unreadable(kv, op))
		rc = 0;
	if (rc < 0)
		return refuse(kv, op, f, rc);
	bytes = value_bytes(op, f->record);
	if (bytes != NO_SLOT && bytes > kv->options.value_max)
		return finish_with(op, -EMSGSIZE);
	if (bytes != NO_SLOT && !has_slot(op, bytes)) {
		*need = bytes;
		return OP_AGAIN;
	}
	switch (op->verb) {
	case FTH_KV_GET:
		return get(kv, op, f);
	case FTH_KV_TOUCH:
		return touch(kv, op, f, last_try);
	case FTH_KV_INVALIDATE:
		return change_head(kv, op, f, last_try);
	case FTH_KV_CLAIM:
		return claim(kv, op, f, last_try);
	case FTH_KV_APPEND:
	case FTH_KV_PREPEND:
		return store_joined(kv, op, f, last_try);
	case FTH_KV_INCREMENT:
	case FTH_KV_DECREMENT:
		return add_to_counter(kv, op, f, last_try, need);
	case FTH_KV_DELETE:
		return remove_item(kv, op, f);
	default:
		return store_value(kv, op, f, last_try);
	}
}
