/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of an operation, which is tried until it is done: try_op() looks its key up with both
 * buckets locked, and either applies the verb (verbs.c) or unlocks and says what the operation
 * lacks: the item on flash (KV_STEP_READING), a slot, room in the log (KV_STEP_ROOM). The next try
 * looks the key up again: an item that was read counts only while the entry still names its place.
 *
 * Of several entries with the tag of the key, the one in memory is compared; those on flash are
 * tried from the newest to the oldest. A SET of a volatile cache replaces an entry on flash by tag
 * alone: if that was another key, which happens once in 10^4 sets with 10^8 items, and in 10^6 with
 * a million, a cache has forgotten an item. With persistence the key is read first.
 *
 * A change that is refused for want of memory or of a working log goes round once more, to take the
 * item out: its caller has a later value, so what is there is out of date.
 */
#include "kv/ops/op.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define PROMOTE_EVERY 4u
#define FULL_MAX      64u /* times that room is made in the index before an operation gives up */

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

/* ---- looking up ---- */

static bool same_key(const struct kv_record *record, const struct fth_kv_op *op)
{
	return record->key_length == op->key_length &&
	       memcmp(kv_record_key(record), op->key, op->key_length) == 0;
}

/* The entry in memory, or the newest on flash that is not known to be another key's. */
static void look_up(struct fth_kv *kv, struct fth_kv_op *op, struct found *f)
{
	struct kv_private *p = kv_private(op);
	uint64_t newest = 0;

	*f = (struct found){0};
	for (unsigned i = 0; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[p->id.bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if ((e->traits & KV_TAG_MASK) != p->id.tag || kv_kind(e) == KV_EMPTY)
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

/* ---- trying ---- */

static enum verdict get_slot(struct fth_kv *kv, struct fth_kv_op *op, uint64_t bytes)
{
	struct kv_private *p = kv_private(op);

	if (p->fresh) { /* of another size: the item has changed meanwhile */
		kv_slot_unref(kv, p->fresh);
		p->fresh = NULL;
	}
	while (!(p->fresh = kv_slot_try(kv, bytes))) {
		int rc = kv_slots_evict(kv, bytes);

		if (rc == -EAGAIN)
			return OP_WAITS;
		if (rc < 0)
			return finish_with(op, rc);
	}
	p->fresh->record.value_length =
		(uint32_t)(bytes - sizeof(struct kv_record) - op->key_length);
	return OP_AGAIN;
}

/* Does the item have to be read before this operation can go on? */
static bool must_read(const struct fth_kv *kv, const struct fth_kv_op *op, const struct found *f)
{
	if (!f->entry || f->readable)
		return false;
	return op->verb != FTH_KV_SET || op->cas || kv_persistent(kv);
}

static enum verdict try_op(struct fth_kv *kv, struct fth_kv_op *op, bool last_try, uint64_t *need)
{
	struct kv_private *p = kv_private(op);
	struct found f;
	enum verdict verdict;

	kv_lock(kv, &p->id);
	look_up(kv, op, &f);
	if (must_read(kv, op, &f)) {
		p->old_place = kv_place(f.entry);
		p->read_bytes = kv_length(f.entry);
		verdict = OP_READS;
	} else {
		verdict = kv_apply_verb(kv, op, &f, last_try, need);
	}
	kv_unlock(kv, &p->id);
	return verdict;
}

static enum verdict flush_all(struct fth_kv *kv, struct fth_kv_op *op)
{
	int rc = kv_flush_all(kv, op->expires, &kv_private(op)->commit_at);

	return rc < 0 ? no_room(op, rc) : finish_with(op, 0);
}

/*
 * Not every read of an item that was read before brings it to memory: items that are popular come
 * soon all the same, and the others do not take turns.
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
	fth_store_relaxed_dev64(&slot->tag, p->id.tag);
	fth_store_relaxed_dev32(&slot->used, kv_now());
	kv_lock(kv, &p->id);
	e = kv_find_place(kv, &p->id, p->old_place);
	if (e) {
		fth_add_relaxed_dev32(&slot->refs, KV_LINKED);
		kv_entry_set(e, kv_entry_extent(kv_slot_place(kv, slot), bytes),
			     (e->traits & ~KV_KIND_MASK) | KV_MEMORY);
		kv_count(kv, FTH_KV_STAT_PROMOTED, 1);
	}
	kv_unlock(kv, &p->id);
	kv_slot_unref(kv, slot);
}

static bool reads(enum fth_kv_verb verb)
{
	return verb == FTH_KV_GET || verb == FTH_KV_TOUCH;
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

/* A SET without a condition stores its value whatever it finds: it can ask for the slot at once. */
static bool slot_known(struct fth_kv_op *op)
{
	return op->verb == FTH_KV_SET && !op->cas && !kv_private(op)->refused &&
	       !has_slot(op, op->value_length);
}

/*
 * The index has no entry for the item. `full`: times that it had none; FULL_MAX: the oldest entry
 * goes.
 */
static void make_room(struct fth_kv *kv, struct kv_private *p, unsigned *full, unsigned *given_up)
{
	if (kv_make_room(kv, &p->id))
		(*full)++;
	else if ((*given_up)++ == KV_GIVE_UP_MAX || !kv_log_give_up(kv))
		*full = FULL_MAX;
}

enum kv_step kv_op_go(struct fth_kv *kv, struct fth_kv_op *op)
{
	struct kv_private *p = kv_private(op);
	unsigned full = 0;     /* times that the index had no entry, or others took it, */
	unsigned given_up = 0; /* and that the oldest chunk was given up for one */
	enum verdict verdict = OP_AGAIN;
	uint64_t need = slot_known(op) ? op->value_length : NO_SLOT;

	p->commit_at = 0;
	/* relaxed: a restart in between makes an error of a success, not the other way */
	p->restarts = __atomic_load_n(&kv->log.restarts, __ATOMIC_RELAXED);
	while (verdict == OP_AGAIN) {
		if (need != NO_SLOT) {
			verdict =
				get_slot(kv, op, sizeof(struct kv_record) + op->key_length + need);
			need = NO_SLOT;
		} else if (op->verb == FTH_KV_FLUSH_ALL) {
			verdict = flush_all(kv, op);
		} else {
			verdict = try_op(kv, op, full >= FULL_MAX, &need);
			if (verdict == OP_AGAIN && need == NO_SLOT)
				make_room(kv, p, &full, &given_up);
		}
		if (verdict == OP_DONE && !p->refused && kv_op_refused(op, op->result)) {
			p->refused = (int16_t)op->result;
			verdict = OP_AGAIN;
		}
	}
	if (verdict == OP_READS)
		return KV_STEP_READING;
	if (verdict == OP_WAITS)
		return KV_STEP_ROOM;
	if (op->verb == FTH_KV_GET && op->result == 0 && !p->held && p->old && op->item_read &&
	    is_promoted(kv))
		promote(kv, op);
	finish(kv, op);
	if (p->commit_at && kv_persistent(kv))
		kv_commit_wanted(kv);
	if (p->commit_at && (op->result == 0 || op->result == -ENOENT || p->refused) &&
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
	/* The ring has a place for each entry of both buckets: an older one was replaced since. */
	p->tried[p->tried_count++ % KV_TRIED_MAX] = p->old_place | (readable ? 0 : KV_UNREADABLE);
}
