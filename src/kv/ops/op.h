/* SPDX-License-Identifier: BSD-2-Clause */
/* Between op.c, which takes an operation through its steps, and verbs.c. */
#ifndef FTH_KV_OP_H
#define FTH_KV_OP_H

#include "kv/kv_internal.h"

#include <errno.h>

#define NO_SLOT UINT64_MAX /* the operation stores no value */

/* What was found for a key, with its buckets locked. */
struct found {
	struct kv_entry *entry;	    /* NULL: none */
	struct kv_slot *slot;	    /* if it is in memory */
	struct kv_record *record;   /* NULL: there is none, or it is dead */
	struct kv_record *readable; /* dead or not */
};

/* What a try of an operation comes to. */
enum verdict {
	OP_DONE,  /* its result is set */
	OP_AGAIN, /* try again, with a slot or with room in the index */
	OP_READS, /* try again when the item at old_place has been read */
	OP_WAITS, /* try again when the log has room */
};

enum tried { NOT_TRIED, OTHER_KEY, UNREADABLE };

static inline enum verdict finish_with(struct fth_kv_op *op, int result)
{
	op->result = result;
	return OP_DONE;
}

/* The log gave no room: wait for it, or it has failed and never will. */
static inline enum verdict no_room(struct fth_kv_op *op, int rc)
{
	return rc == -EAGAIN ? OP_WAITS : finish_with(op, rc);
}

/* Was the item at this place of the log read, and what came of it? */
static inline enum tried was_tried(const struct kv_private *p, uint64_t place)
{
	for (unsigned i = 0; i < p->tried_count && i < KV_TRIED_MAX; i++)
		if ((p->tried[i] & KV_PLACE_MASK) == place)
			return p->tried[i] & KV_UNREADABLE ? UNREADABLE : OTHER_KEY;
	return NOT_TRIED;
}

/* Does the operation have a slot whose value has so many bytes? */
static inline bool has_slot(struct fth_kv_op *op, uint64_t value_bytes)
{
	const struct kv_slot *fresh = kv_private(op)->fresh;

	return fresh && fresh->record.value_length == value_bytes;
}

/* ---- verbs.c ---- */

/* With both buckets locked. OP_AGAIN with *need set: it needs a slot for so many bytes of value. */
enum verdict kv_apply_verb(struct fth_kv *kv, struct fth_kv_op *op, const struct found *f,
			   bool last_try, uint64_t *need);

#endif
