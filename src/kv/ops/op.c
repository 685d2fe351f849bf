/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each verb does. An operation goes round until it is done: it looks its key up with both
 * buckets locked, and either finishes there or unlocks and asks for what it lacks: the item on flash
 * (KV_STEP_READING), a slot, room in the log (KV_STEP_ROOM). What it got is checked again the next
 * time round: an item that was read counts only while the entry still names its place.
 *
 * Of several entries with the name of the key, the one in memory is compared; those on flash are
 * tried from the newest to the oldest. A SET of a volatile cache replaces an entry on flash by name
 * alone: if that was another key, which happens once in 10^4 sets with 10^8 items, and in 10^6 with a
 * million, a cache has forgotten an item. With persistence the key is read first.
 *
 * A key has one entry at most. So a change takes out every entry of its name that may be the key's:
 * one that could not be read now may be readable later, and would bring back an old value.
 *
 * An item that the full index has dropped is still in the log, and a crash may bring it back: with its
 * last value, unless the key is deleted meanwhile. So once the index has dropped something, a DELETE
 * of a key that is not there puts a tombstone into the log too.
 *
 * A change that is refused for want of memory or of a working log goes round once more, to take the item
 * out: its caller has a later value, so what is there is out of date.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS	      20u
#define PROMOTE_EVERY 4u
#define FULL_MAX      64u /* times that room is made in the index before an operation gives up */

/* What was found for a key, with its buckets locked. */
struct found {
	struct kv_entry *entry;	    /* NULL: none */
	struct kv_slot *slot;	    /* if it is in memory */
	struct kv_record *record;   /* NULL: there is none, or it is dead */
	struct kv_record *readable; /* dead or not */
};

enum go { GO_DONE, GO_AGAIN, GO_READ, GO_ROOM };

int kv_op_check(const struct fth_kv *kv, const struct fth_kv_op *op)
{
	if ((unsigned)op->verb >= FTH_KV_VERB_COUNT)
		return fth_fail(EINVAL, "unknown verb %u", (unsigned)op->verb);
	if (op->verb == FTH_KV_FLUSH_ALL)
		return 0;
	if (op->key_length == 0 || op->key_length > FTH_KV_KEY_MAX)
		return fth_fail(EINVAL, "keys must have 1 to %u bytes, this one has %u",
				FTH_KV_KEY_MAX, op->key_length);
	if (op->value_length > kv->options.value_max)
		return fth_fail(EMSGSIZE, "values have at most %u bytes, this one has %u",
				kv->options.value_max, op->value_length);
	return 0;
}

bool kv_op_refused(const struct fth_kv_op *op, int result)
{
	switch (op->verb) {
	case FTH_KV_SET: /* has no condition: each error is a refusal */
		return result < 0 && (!op->cas || result == -EIO);
	case FTH_KV_REPLACE:
	case FTH_KV_APPEND:
	case FTH_KV_PREPEND:
	case FTH_KV_INCREMENT:
	case FTH_KV_DECREMENT:
	case FTH_KV_INVALIDATE:
	case FTH_KV_DELETE:
		return result == -EIO; /* else the item is as before, as in memcached */
	default:
		return false;
	}
}

static enum go done(struct fth_kv_op *op, int result)
{
	op->result = result;
	return GO_DONE;
}

/* The log gave no room: wait for it, or it has failed and never will. */
static enum go no_room(struct fth_kv_op *op, int rc)
{
	return rc == -EAGAIN ? GO_ROOM : done(op, rc);
}

/* ---- looking up ---- */

static bool same_key(const struct kv_record *record, const struct fth_kv_op *op)
{
	return record->key_length == op->key_length &&
	       memcmp(kv_record_key(record), op->key, op->key_length) == 0;
}

enum tried { NOT_TRIED, OTHER_KEY, UNREADABLE };

static enum tried was_tried(const struct kv_private *p, uint64_t place)
{
	for (unsigned i = 0; i < p->tried_count && i < KV_TRIED_MAX; i++)
		if ((p->tried[i] & KV_PLACE_MASK) == place)
			return p->tried[i] & KV_UNREADABLE ? UNREADABLE : OTHER_KEY;
	return NOT_TRIED;
}

/* The entry in memory, or the newest on flash that is not known to be another key's. */
static void look_up(struct fth_kv *kv, struct fth_kv_op *op, struct found *f)
{
	struct kv_private *p = kv_private(op);
	uint64_t newest = 0;

	*f = (struct found){0};
	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[p->name.bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if ((e->what & KV_TAG_MASK) != p->name.tag || kv_kind(e) == KV_EMPTY)
			continue;
		if (kv_kind(e) == KV_MEMORY) {
			struct kv_slot *slot = kv_slot_at(kv, kv_place(e));

			if (!same_key(&slot->record, op))
				continue;
			*f = (struct found){e, slot, &slot->record, &slot->record};
			break;
		}
		if (!kv_stale(kv, e) && was_tried(p, kv_place(e)) == NOT_TRIED &&
		    kv_position(kv, kv_place(e)) >= newest) {
			newest = kv_position(kv, kv_place(e));
			f->entry = e;
		}
	}
	if (f->entry && !f->slot && p->old && p->old_place == kv_place(f->entry))
		f->record = f->readable = p->old;
	if (f->record && kv_dead(kv, f->record)) {
		kv_count(kv, FTH_KV_STAT_EXPIRED, 1);
		f->record = NULL;
	}
}

/* ---- storing ---- */

static enum go get_slot(struct fth_kv *kv, struct fth_kv_op *op, uint64_t bytes)
{
	struct kv_private *p = kv_private(op);

	if (p->fresh) { /* of another size: the item has changed meanwhile */
		kv_slot_unref(kv, p->fresh);
		p->fresh = NULL;
	}
	while (!(p->fresh = kv_slot_try(kv, bytes))) {
		int rc = kv_slots_evict(kv, bytes);

		if (rc == -EAGAIN)
			return GO_ROOM;
		if (rc < 0)
			return done(op, rc);
	}
	p->fresh->record.value_length =
		(uint32_t)(bytes - sizeof(struct kv_record) - op->key_length);
	return GO_AGAIN;
}

/* Does the operation have a slot whose value has so many bytes? */
static bool has_slot(struct fth_kv_op *op, uint64_t value_bytes)
{
	const struct kv_slot *fresh = kv_private(op)->fresh;

	return fresh && fresh->record.value_length == value_bytes;
}

static void unlink_old(struct fth_kv *kv, const struct found *f)
{
	if (f->slot)
		kv_slot_unlink(kv, f->slot);
}

/* Could an entry of the key's name not be read? */
static bool has_unreadable(struct fth_kv *kv, struct fth_kv_op *op)
{
	const struct kv_private *p = kv_private(op);

	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[p->name.bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if (kv_kind(e) == KV_FLASH && (e->what & KV_TAG_MASK) == p->name.tag &&
		    was_tried(p, kv_place(e)) == UNREADABLE)
			return true;
	}
	return false;
}

/* The item changes: take out the entries that may be an older one of it, but for `keep`. */
static void drop_doubtful(struct fth_kv *kv, struct fth_kv_op *op, const struct kv_entry *keep)
{
	const struct kv_private *p = kv_private(op);
	bool by_name = op->verb == FTH_KV_SET && !kv_persistent(kv);

	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[p->name.bucket[i / KV_WAYS]].way[i % KV_WAYS];
		enum tried tried;

		if (e == keep || kv_kind(e) != KV_FLASH || (e->what & KV_TAG_MASK) != p->name.tag)
			continue;
		tried = was_tried(p, kv_place(e));
		if (tried == UNREADABLE || (tried == NOT_TRIED && by_name))
			kv_entry_clear(kv, e);
	}
}

/* The entry that a new item gets. NULL: there is none yet. */
static struct kv_entry *entry_for(struct fth_kv *kv, const struct fth_kv_op *op,
				  const struct found *f, bool last_try)
{
	const struct kv_name *name = &kv_private((struct fth_kv_op *)(uintptr_t)op)->name;
	struct kv_entry *e = f->entry ? f->entry : kv_find_free(kv, name);

	return e || !last_try ? e : kv_drop_oldest(kv, name);
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
static enum go link_slot(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
			 bool last_try)
{
	struct kv_private *p = kv_private(op);
	struct kv_slot *slot = p->fresh;
	struct kv_entry *e = entry_for(kv, op, f, last_try);
	unsigned hot = 0;
	struct kv_room room;

	if (!e)
		return GO_AGAIN;
	slot->position = KV_NOWHERE;
	if (kv_persistent(kv)) {
		int rc = kv_log_reserve(kv, kv_record_bytes(&slot->record), &room);

		if (rc < 0)
			return no_room(op, rc);
		kv_log_fill(kv, &room, &slot->record);
		slot->position = room.position;
		p->position = room.position + kv_round(kv_record_bytes(&slot->record));
	}
	fth_store_relaxed_dev64(&slot->tag, p->name.tag);
	fth_store_relaxed_dev32(&slot->used, kv_now());
	fth_add_relaxed_dev32(&slot->refs, KV_LINKED);
	if (kv_kind(e) == KV_EMPTY)
		fth_add_relaxed_dev64(&kv->items, 1);
	if (same_value(op->verb)) /* what was read of it counts */
		hot = (unsigned)((e->what & KV_HOT_MASK) >> KV_HOT_SHIFT);
	unlink_old(kv, f);
	drop_doubtful(kv, op, e);
	kv_entry_set(e, kv_where(kv_slot_place(kv, slot), kv_record_bytes(&slot->record)),
		     kv_what(&p->name, KV_MEMORY, hot, slot->record.expires));
	op->item_cas = slot->record.cas;
	kv_count(kv, FTH_KV_STAT_SETS, 1);
	return done(op, 0);
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

static enum go store_value(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
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
static enum go store_joined(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
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

	op->item_read = (f->entry->what & KV_HOT_MASK) != 0;
	if (f->slot) {
		op->item_age = now - fth_load_relaxed_dev32(&f->slot->used);
		fth_store_relaxed_dev32(&f->slot->used, now);
	} else {
		uint64_t used = (f->entry->what & KV_TIME_MASK) >> KV_TIME_SHIFT;
		uint64_t ticks = (now / KV_TICK - used) & KV_TIME_MASK >> KV_TIME_SHIFT;
		uint32_t stored = now - f->record->stored;

		op->item_age =
			(uint32_t)ticks * KV_TICK < stored ? (uint32_t)ticks * KV_TICK : stored;
	}
	kv_entry_used(f->entry);
}

static enum go get(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	struct kv_private *p = kv_private(op);

	note_use(op, f);
	describe(op, f->record);
	if (f->slot) {
		kv_slot_ref(f->slot);
		p->held = f->slot;
	}
	kv_count(kv, f->slot ? FTH_KV_STAT_HITS_MEMORY : FTH_KV_STAT_HITS_FLASH, 1);
	return done(op, 0);
}

/*
 * Not every read of an item that was read before brings it to memory: items that are popular come soon
 * all the same, and the others do not take turns.
 */
static bool is_promoted(struct fth_kv *kv)
{
	return fth_add_relaxed_dev64(&kv->rereads, 1) % PROMOTE_EVERY == 0;
}

/* An item on flash that is read often comes to memory, if that takes no waiting. */
static void promote(struct fth_kv *kv, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);
	uint64_t bytes = kv_record_bytes(p->old), position = kv_position(kv, p->old_place);
	struct kv_slot *slot = kv_slot_try(kv, bytes);
	struct kv_entry *e;

	if (!slot && kv_slots_evict(kv, bytes) == 0)
		slot = kv_slot_try(kv, bytes);
	if (!slot)
		return;
	memcpy(&slot->record, p->old, bytes);
	slot->position = position;
	fth_store_relaxed_dev64(&slot->tag, p->name.tag);
	fth_store_relaxed_dev32(&slot->used, kv_now());
	kv_lock(kv, &p->name);
	e = kv_find_place(kv, &p->name, p->old_place);
	if (e) {
		fth_add_relaxed_dev32(&slot->refs, KV_LINKED);
		kv_entry_set(e, kv_where(kv_slot_place(kv, slot), bytes),
			     (e->what & ~KV_KIND_MASK) | KV_MEMORY);
		kv_count(kv, FTH_KV_STAT_PROMOTED, 1);
	}
	kv_unlock(kv, &p->name);
	kv_slot_unref(kv, slot);
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

static enum go count(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f, bool last_try,
		     uint64_t *need)
{
	struct kv_slot *slot = kv_private(op)->fresh;
	uint32_t length, old = f->record->value_length;
	char text[DIGITS + 1];
	enum go go;
	uint64_t n;

	if (!parse_number(f->record, &n))
		return done(op, -EDOM);
	if (op->verb == FTH_KV_INCREMENT)
		n += op->delta;
	else
		n = n > op->delta ? n - op->delta : 0;
	length = (uint32_t)snprintf(text, sizeof(text), "%" PRIu64, n);
	/* A number that became shorter keeps its length, and the item its state, as in memcached. */
	if (!has_slot(op, length > old ? length : old)) {
		*need = length > old ? length : old;
		return GO_AGAIN;
	}
	fill_head(kv, op, slot, f->record->flags, f->record->expires, 0,
		  length > old ? 0 : f->record->state);
	memcpy(value_of(slot), text, length);
	if (length < old)
		memset(value_of(slot) + length, ' ', old - length);
	go = link_slot(kv, op, f, last_try);
	if (go == GO_DONE && op->result == 0)
		hold_fresh(op);
	return go;
}

/* The same value with another time to expire, another state, another number. */
static enum go change_head(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
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

static enum go claim(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f, bool last_try)
{
	enum go go;

	if (f->record->state & FTH_KV_ITEM_CLAIMED)
		return done(op, -EALREADY);
	go = change_head(kv, op, f, last_try);
	if (go == GO_DONE && op->result == 0)
		hold_fresh(op);
	return go;
}

static enum go touch(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f, bool last_try)
{
	enum go go;

	note_use(op, f);
	go = change_head(kv, op, f, last_try);
	if (go == GO_DONE && op->result == 0) {
		hold_fresh(op);
		kv_count(kv, f->slot ? FTH_KV_STAT_HITS_MEMORY : FTH_KV_STAT_HITS_FLASH, 1);
	}
	return go;
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
	p->position = room.position + kv_round(kv_record_bytes(&gone.record));
	return 0;
}

static void unlink_item(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	unlink_old(kv, f);
	if (f->entry)
		kv_entry_clear(kv, f->entry);
	drop_doubtful(kv, op, NULL);
}

static enum go remove_item(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	int rc = log_removal(kv, op);

	if (rc < 0)
		return no_room(op, rc);
	unlink_item(kv, op, f);
	kv_count(kv, FTH_KV_STAT_DELETES, 1);
	return done(op, 0);
}

/* The change was refused. If the log has failed, the removal holds until the cache is closed. */
static enum go remove_refused(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f)
{
	if (f->entry || has_unreadable(kv, op) || fth_load_relaxed_dev32(&kv->index_dropped)) {
		int rc = log_removal(kv, op);

		if (rc == -EAGAIN)
			return GO_ROOM;
		if (rc < 0) /* the log still has it: a delete that finds nothing is refused, too */
			fth_store_relaxed_dev32(&kv->index_dropped, 1);
		unlink_item(kv, op, f);
	}
	return done(op, kv_private(op)->refused);
}

/* ---- all of it ---- */

static bool reads(enum fth_kv_verb verb)
{
	return verb == FTH_KV_GET || verb == FTH_KV_TOUCH;
}

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

/* How many bytes of value the operation is going to store; UINT64_MAX: it stores none. */
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
		return UINT64_MAX;
	}
}

/*
 * There is nothing to remove, and the caller relies on it, after a crash too: the log gets a tombstone if it
 * may have the item still, and a removal that came before and is not durable yet is waited for.
 */
static int note_absence(struct fth_kv *kv, struct fth_kv_op *op)
{
	/* relaxed: its buckets are locked, as they were when it was removed */
	uint64_t head = fth_load_relaxed_dev64(&kv->log.head);

	/* relaxed: a thread that finds the item gone has seen the tail, or the entry, that was set after it */
	if (fth_load_relaxed_dev32(&kv->index_dropped))
		return log_removal(kv, op);
	if (head > fth_load_acquire_dev64(&kv->log.committed))
		kv_private(op)->position = head;
	return 0;
}

/* The item is not as the operation wants it. */
static enum go refuse(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f, int rc)
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
	return done(op, rc);
}

/* With both buckets locked. GO_AGAIN with *need set: a slot for so many bytes of value. */
static enum go apply(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f, bool last_try,
		     uint64_t *need)
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
	if (bytes != UINT64_MAX && bytes > kv->options.value_max)
		return done(op, -EMSGSIZE);
	if (bytes != UINT64_MAX && !has_slot(op, bytes)) {
		*need = bytes;
		return GO_AGAIN;
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
		return count(kv, op, f, last_try, need);
	case FTH_KV_DELETE:
		return remove_item(kv, op, f);
	default:
		return store_value(kv, op, f, last_try);
	}
}

/* Does the item have to be read before this operation can go on? */
static bool must_read(const struct fth_kv *kv, const struct fth_kv_op *op, const struct found *f)
{
	if (!f->entry || f->readable)
		return false;
	return op->verb != FTH_KV_SET || op->cas || kv_persistent(kv);
}

static enum go once(struct fth_kv *kv, struct fth_kv_op *op, bool last_try, uint64_t *need)
{
	struct kv_private *p = kv_private(op);
	struct found f;
	enum go go;

	kv_lock(kv, &p->name);
	look_up(kv, op, &f);
	if (must_read(kv, op, &f)) {
		p->old_place = kv_place(f.entry);
		p->position = kv_length(f.entry);
		go = GO_READ;
	} else {
		go = apply(kv, op, &f, last_try, need);
	}
	kv_unlock(kv, &p->name);
	return go;
}

static enum go flush_all(struct fth_kv *kv, struct fth_kv_op *op)
{
	int rc = kv_flush_all(kv, op->expires, &kv_private(op)->position);

	return rc < 0 ? no_room(op, rc) : done(op, 0);
}

static void finish(struct fth_kv *kv, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);

	if (p->fresh)
		kv_slot_unref(kv, p->fresh);
	p->fresh = NULL;
	if (reads(op->verb)) {
		kv_count(kv, FTH_KV_STAT_GETS, 1);
		if (op->result == -ENOENT)
			kv_count(kv, FTH_KV_STAT_MISSES, 1);
	}
}

enum kv_step kv_op_go(struct fth_kv *kv, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);
	unsigned full = 0;     /* times that the index had no entry, or others took it, */
	unsigned given_up = 0; /* and that the oldest chunk was given up for one */
	enum go go = GO_AGAIN;

	p->position = 0;
	/* relaxed: a restart in between makes an error of a success, not the other way */
	p->restarts = __atomic_load_n(&kv->log.restarts, __ATOMIC_RELAXED);
	while (go == GO_AGAIN) {
		uint64_t need = UINT64_MAX;

		go = op->verb == FTH_KV_FLUSH_ALL ? flush_all(kv, op)
						  : once(kv, op, full >= FULL_MAX, &need);
		if (go == GO_AGAIN && need != UINT64_MAX)
			go = get_slot(kv, op, sizeof(struct kv_record) + op->key_length + need);
		else if (go == GO_AGAIN && kv_make_room(kv, &p->name))
			full++;
		else if (go == GO_AGAIN && (given_up++ == KV_GIVE_UP_MAX || !kv_log_give_up(kv)))
			full = FULL_MAX;
		if (go == GO_DONE && !p->refused && kv_op_refused(op, op->result)) {
			p->refused = (int16_t)op->result;
			go = GO_AGAIN;
		}
	}
	if (go == GO_READ)
		return KV_STEP_READING;
	if (go == GO_ROOM)
		return KV_STEP_ROOM;
	if (op->verb == FTH_KV_GET && op->result == 0 && !p->held && p->old && op->item_read &&
	    is_promoted(kv))
		promote(kv, op);
	finish(kv, op);
	if (p->position && kv_persistent(kv))
		kv_commit_wanted(kv);
	if (p->position && (op->result == 0 || op->result == -ENOENT || p->refused) &&
	    (kv->options.persistence == FTH_KV_WRITE_THROUGH || kv_commit_overdue(kv)))
		return KV_STEP_COMMIT;
	return KV_STEP_DONE;
}

void kv_op_read_done(struct fth_kv_op *op, struct kv_record *record, bool readable)
{
	struct kv_private *p = kv_private(op);

	p->old = record;
	if (record)
		return;
	/* As many as there are entries to look at: what is forgotten has been replaced meanwhile. */
	p->tried[p->tried_count++ % KV_TRIED_MAX] = p->old_place | (readable ? 0 : KV_UNREADABLE);
}
