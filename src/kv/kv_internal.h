/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the cache. README.md says how the parts work together and who may touch what.
 *
 *	open.c			options, opening, closing, statistics
 *	ops/op.c		the steps of an operation
 *	ops/verbs.c		what each verb does to the item
 *	ops/worker.c		operations in flight, reads of the device
 *	ops/flush_all.c		flush_all, and items that are dead
 *	memory/index.c		from a key's hash to an entry
 *	memory/slots.c		items in memory
 *	memory/visit.c		visiting the items in memory
 *	log/log.c		places in the log, and its buffers
 *	log/writer.c		the thread that writes the log
 *	log/log_restart.c	from a log that has failed to one that works
 *	media/superblock.c	the superblock; formatting
 *	media/checkpoint.c	the index on the device
 *	media/checkpointer.c	the thread that writes it now and then
 *	media/image.c		a cache on a device, read and checked while nobody uses it
 *	recover/recover.c	from the log to an index
 *	recover/chain.c		the order of the chunks, without an index
 *	recover/watermark.c	how far the log is known to have been durable
 *	recover/read_with_holes.c	reading a log of which parts cannot be read
 */
#ifndef FTH_KV_INTERNAL_H
#define FTH_KV_INTERNAL_H

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/base/stats.h"
#include "fathom/hd/wait.h"
#include "fathom/kv.h"

#include "kv/kv_access.h"
#include "kv/media/format.h"

#include <pthread.h>

/* ---- index entries ---- */

/*
 * extent: place (44 bits, in units of KV_UNIT) and length (20 bits, likewise: what a read moves);
 * traits: tag (40 bits of the key's hash), expiry (8), time of use (12), hot (2), kind (2).
 *
 * The tag alone gives both buckets of a key, for any number of buckets.
 */
struct kv_entry {
	uint64_t extent, traits;
};
_Static_assert(sizeof(struct kv_entry) == 16, "16 bytes for an item");

#define KV_WAYS	       4u
#define KV_BUCKETS_MAX (UINT32_MAX / 2)
#define KV_ITEMS_MAX   ((uint64_t)KV_BUCKETS_MAX * KV_WAYS / 4 * 3)
struct kv_bucket {
	struct kv_entry way[KV_WAYS];
};
_Static_assert(sizeof(struct kv_bucket) == 64, "a bucket is a line of the processor's cache");

enum kv_kind { KV_EMPTY, KV_MEMORY, KV_FLASH };

#define KV_LENGTH_BITS	20
#define KV_LENGTH_MASK	((UINT64_C(1) << KV_LENGTH_BITS) - 1)
#define KV_PLACE_BITS	44
#define KV_PLACE_MASK	((UINT64_C(1) << KV_PLACE_BITS) - 1)
#define KV_TAG_SHIFT	24
#define KV_TAG_MASK	(~UINT64_C(0) << KV_TAG_SHIFT)
#define KV_EXPIRY_SHIFT 16
#define KV_EXPIRY_MASK	(UINT64_C(0xff) << KV_EXPIRY_SHIFT)
#define KV_TIME_SHIFT	4
#define KV_TIME_MASK	(UINT64_C(0xfff) << KV_TIME_SHIFT)
#define KV_HOT_SHIFT	2
#define KV_HOT_MASK	(UINT64_C(3) << KV_HOT_SHIFT)
#define KV_KIND_MASK	UINT64_C(3)
#define KV_TICK		256u /* seconds of a unit of time of use */

static inline enum kv_kind kv_kind(const struct kv_entry *e)
{
	return (enum kv_kind)(e->traits & KV_KIND_MASK);
}

static inline uint64_t kv_place(const struct kv_entry *e)
{
	return e->extent >> KV_LENGTH_BITS;
}

static inline uint64_t kv_length(const struct kv_entry *e)
{
	return (e->extent & KV_LENGTH_MASK) * KV_UNIT;
}

/* A key as the index knows it: its hash, and where an entry for it may be. */
struct kv_key_id {
	uint64_t tag;	    /* in its place in an entry */
	uint32_t bucket[2]; /* valid while they are locked: the index grows */
};

/* ---- items in memory ---- */

/*
 * A slot of a size class. The low bits of refs count readers; KV_LINKED is set while the index
 * names the slot. The one that takes the last of these away frees it. KV_FREE: it belongs to its
 * class.
 */
#define KV_LINKED 0x80000000u
#define KV_FREE	  0x40000000u
struct kv_slot {
	uint32_t refs; /* atomic */
	uint32_t used; /* atomic: seconds since 1970 when it was last read; a hint */
	uint64_t tag;  /* atomic: of its key; read while looking for a victim */
	union {
		uint64_t position;    /* of the same record in the log, or KV_NOWHERE */
		struct kv_slot *next; /* KV_FREE: in the class's list */
	};
	struct kv_record record;
};
#define KV_NOWHERE UINT64_MAX

#define KV_CLASSES_MAX 64u
struct kv_class {
	pthread_mutex_t lock; /* pages, free */
	uint32_t bytes;	      /* of a slot */
	uint32_t per_page;
	uint32_t page_count;
	uint32_t *pages; /* which pages of the arena it has */
	struct kv_slot *free;
	struct fth_rng random;
};

struct kv_slots {
	uint8_t *arena;
	uint64_t bytes;
	uint32_t page; /* bytes */
	uint32_t pages, pages_used;
	pthread_mutex_t lock;  /* pages_used; inside a class's */
	pthread_mutex_t steal; /* for moving a page to another class; outside a class's */
	uint32_t turn;	       /* under steal: where to begin to look for a page */
	uint8_t *owner;	       /* [page] its class */
	uint8_t *emptying;     /* [page] under its class's lock: its slots are not given out */
	unsigned classes;
	struct kv_class class[KV_CLASSES_MAX];
	uint64_t items; /* atomic */
};

/* ---- the log ---- */

enum kv_buffer_state {
	KV_BUFFER_FREE,
	KV_BUFFER_OPEN,	  /* records are added; one buffer at most */
	KV_BUFFER_SEALED, /* full; being copied into or to be written */
};

struct kv_buffer {
	uint8_t *data;
	enum kv_buffer_state state;
	uint64_t number;   /* of the chunk */
	uint32_t copying;  /* reservations not filled yet */
	uint64_t filled;   /* bytes reserved, the header included */
	uint64_t end;	   /* of the last record in it */
	uint32_t failures; /* of writes, one after the other */
	uint64_t written;  /* bytes that are on the device, whole blocks */
	uint64_t writing;  /* up to here a write is in flight; 0: none */
	struct fth_dev_req req;
};

struct kv_log {
	pthread_mutex_t lock; /* everything here but what is marked atomic */
	struct kv_buffer *buffers;
	unsigned count;
	struct kv_buffer *open;
	uint64_t head;	    /* atomic: the next position */
	uint64_t tail;	    /* atomic: the oldest position that may be read */
	uint64_t given_up;  /* what lies before was given up for a full index */
	uint64_t committed; /* atomic: all before it is durable */
	uint64_t durable;   /* the end of the last commit that was not a mark: what is written next
			       says that all before it is durable */
	uint64_t marked;    /* headers and pads that are durable say so of all before it */
	uint64_t next;	    /* number of the next chunk */
	uint64_t flight;    /* so many chunks may be not durable yet */
	uint64_t end;	    /* position behind the last record of the last chunk that is
			       sealed, or was there when opened; 0: there is none */
	struct kv_record flush; /* the last flush_all; type 0: there is none */
	uint64_t released;	/* chunks below this number may be overwritten: readmission has seen
			       them */
	int error;		/* atomic: the log has failed, invariant 6 in log.c; else 0 */
	uint32_t restarts;	/* atomic: times that it went on after it had failed */
	bool broken_off;	/* it has failed, and a restart has begun */
	uint64_t *again; /* the writer's: tags of items in memory whose places were given up, */
	size_t again_at, again_count; /* from again_at on they are to get new ones */
	double budget;		      /* bytes that may be written, of options.daily_bytes */
	uint64_t budget_at;	      /* when it was last filled */
};

/* ---- the cache ---- */

#define KV_LOCKS 4096u /* spin locks over the buckets */

struct fth_kv {
	/* Fixed when opened. */
	struct fth_kv_options options;
	struct fth_dev *dev; /* NULL: no flash */
	bool owns_dev;
	int lock; /* descriptor that keeps others out of the file; -1: none */
	uint32_t block;
	struct kv_super super; /* what changes in it is under ckpt_lock */
	uint64_t ring;	       /* bytes of the log on the device */
	struct fth_stats *stats;
	struct fth_kv_recovery recovery;

	/* memory/index.c */
	struct kv_bucket *buckets; /* address space for bucket_limit */
	uint32_t bucket_count;	   /* atomic: in use; grows under kick_lock */
	uint32_t bucket_limit;
	uint32_t bucket_ready;	/* under kick_lock: so many have memory */
	bool bucket_short;	/* under kick_lock: there was no memory for more */
	uint32_t index_dropped; /* atomic: it has dropped items that the log still has */
	uint32_t *locks;
	pthread_mutex_t kick_lock; /* moving entries and growing, one at a time */
	uint64_t items;		   /* atomic */

	struct kv_slots slots;
	struct kv_log log;

	uint64_t cas;	  /* atomic: the last that was given */
	uint64_t rereads; /* atomic: of items on flash that had been read before */

	/* flush_all; changed under flush_lock, read without */
	pthread_mutex_t flush_lock;
	uint64_t flush_cas;    /* atomic: items up to this number are gone, */
	uint32_t flush_before; /* atomic: and those stored before this time, */
	uint32_t flush_when;   /* atomic: and before this one when it has come; 0: none is set */

	/* log/writer.c */
	pthread_t writer;
	bool writer_runs;
	pthread_cond_t work; /* with log.lock: something to write or commit, or stop */
	bool stop;
	uint64_t stop_by;    /* from then on requests that are stuck are left behind */
	bool left_behind;    /* requests of the writer or of a worker did not end */
	uint64_t commit_due; /* when to commit; 0: there is nothing to */
	bool committing;     /* a commit is under way */
	uint64_t overdue; /* atomic: from then on changes wait until they are durable; 0: never */
	uint64_t overdue_next; /* the same for changes that the commit under way does not cover */
	uint64_t swept;	       /* chunks for which the index was swept */
	uint64_t sweep_at;     /* bucket */

	/* media/checkpoint.c */
	pthread_mutex_t ckpt_lock;  /* one at a time; super */
	bool super_alone;	    /* when opened, only one of the two superblocks was good */
	bool super_doubtful;	    /* the device may have this superblock or the one before it */
	uint32_t ckpt_next;	    /* atomic: buckets below are written; 0: none is */
	uint32_t ckpt_cancel;	    /* atomic: end the one under way */
	pthread_mutex_t moved_lock; /* what follows */
	uint64_t *moved;	    /* tags */
	size_t moved_count, moved_room;

	/* media/checkpointer.c */
	pthread_t timer;
	bool timer_runs;
	pthread_mutex_t timer_lock; /* timer_stop */
	pthread_cond_t timer_wake;
	bool timer_stop;

	pthread_mutex_t workers_lock;
	struct fth_kv_worker *workers;
	struct fth_kv_worker *left_workers; /* closed, but reads of theirs have not ended */
};

static inline bool kv_persistent(const struct fth_kv *kv)
{
	return kv->options.persistence != FTH_KV_VOLATILE;
}

static inline void kv_count(const struct fth_kv *kv, enum fth_kv_stat which, uint64_t n)
{
	fth_stats_add(kv->stats, which, n);
}

/* ---- ops/flush_all.c ---- */

/* It has expired, or a flush_all came after it. */
bool kv_dead(const struct fth_kv *kv, const struct kv_record *record);
/* What a record of type KV_FLUSH says is in force. */
void kv_flush_set(struct fth_kv *kv, const struct kv_record *record);
/*
 * *position: where its record in the log ends, if there is one. Errors are those of
 * kv_log_reserve().
 */
int kv_flush_all(struct fth_kv *kv, uint32_t when, uint64_t *position);

/* ---- open.c ---- */

int kv_init(struct fth_kv *kv); /* locks and statistics */
void kv_free(struct fth_kv *kv);

/* ---- memory/index.c ---- */

static inline uint32_t kv_bucket_count(const struct fth_kv *kv)
{
	/* acquire: the memory of all these buckets is there */
	return __atomic_load_n(&kv->bucket_count, __ATOMIC_ACQUIRE);
}

/* An index that grows to `items` entries and more; 0: as many as memory and flash can need. */
int kv_index_init(struct fth_kv *kv, uint64_t items);
/* Make an empty index large enough for so many items, as far as that is possible. */
void kv_index_expect(struct fth_kv *kv, uint64_t items);
/* Forget all; nobody else uses the cache. */
void kv_index_clear(struct fth_kv *kv);
void kv_index_release(struct fth_kv *kv);
/* From what a slot or an entry keeps. */
void kv_key_id_of(const struct fth_kv *kv, uint64_t tag, struct kv_key_id *out);
void kv_key_id(const struct fth_kv *kv, const void *key, uint32_t key_length,
	       struct kv_key_id *out);
/* The bucket of an entry that is not `bucket`; that one, if it has no other. */
uint32_t kv_other_bucket(const struct fth_kv *kv, uint32_t bucket, uint64_t traits);

/* Lock both buckets of a key, found anew. Held briefly: the holder does nothing that waits. */
void kv_lock(struct fth_kv *kv, struct kv_key_id *id);
void kv_unlock(struct fth_kv *kv, const struct kv_key_id *id);
void kv_lock_two(struct fth_kv *kv, uint32_t a, uint32_t b);
void kv_unlock_two(struct fth_kv *kv, uint32_t a, uint32_t b);

/* An entry is gone already when the log has overwritten its place. */
bool kv_stale(const struct fth_kv *kv, const struct kv_entry *e);

/* Under the lock: the entry of a slot, or of a place on flash; NULL if it is not valid any more. */
struct kv_entry *kv_find_slot(struct fth_kv *kv, const struct kv_key_id *id,
			      const struct kv_slot *slot);
struct kv_entry *kv_find_place(struct fth_kv *kv, const struct kv_key_id *id, uint64_t place);
/* Under the lock: a free entry of either bucket, or NULL. */
struct kv_entry *kv_find_free(struct fth_kv *kv, const struct kv_key_id *id);
/*
 * Under the lock, of two buckets that are full: drop the oldest entry, one on flash if there is
 * any.
 */
struct kv_entry *kv_drop_oldest(struct fth_kv *kv, const struct kv_key_id *id);
/*
 * Without the lock: move entries or let the index grow, so that one of both buckets has room soon.
 * False: neither is possible.
 */
bool kv_make_room(struct fth_kv *kv, struct kv_key_id *id);
/* An entry for a new item. Nobody else uses the cache. */
struct kv_entry *kv_take_entry(struct fth_kv *kv, struct kv_key_id *id);
/*
 * Times that the oldest chunk is given up for one item before an entry of its buckets is dropped.
 */
#define KV_GIVE_UP_MAX 4u

void kv_entry_set(struct kv_entry *e, uint64_t extent, uint64_t traits);
void kv_entry_clear(struct fth_kv *kv, struct kv_entry *e);
/* expires: of the record; 0: never */
uint64_t kv_entry_traits(const struct kv_key_id *id, enum kv_kind kind, unsigned hot,
			 uint32_t expires);
uint64_t kv_entry_extent(uint64_t place, uint64_t bytes);
/* It was read: time and hot. */
void kv_entry_used(struct kv_entry *e);

/* Clear entries of the next `buckets` buckets that are stale or have expired. */
void kv_sweep(struct fth_kv *kv, uint64_t buckets);

/* ---- memory/slots.c ---- */

int kv_slots_init(struct fth_kv *kv);
void kv_slots_release(struct fth_kv *kv);
/* A slot for so many bytes of record, if one is free; refs is 1. */
struct kv_slot *kv_slot_try(struct fth_kv *kv, uint64_t record_bytes);
/* Make room in the class for so many bytes: 0 try again, -EAGAIN wait for the log, -ENOMEM. */
int kv_slots_evict(struct fth_kv *kv, uint64_t record_bytes);
uint64_t kv_slot_place(const struct fth_kv *kv, const struct kv_slot *slot); /* for an entry */
struct kv_slot *kv_slot_at(const struct fth_kv *kv, uint64_t place);
void kv_slot_ref(struct kv_slot *slot);
void kv_slot_unref(struct fth_kv *kv, struct kv_slot *slot);
/* The index names it no longer. */
void kv_slot_unlink(struct fth_kv *kv, struct kv_slot *slot);

/* ---- log/log.c ---- */

struct kv_room {
	struct kv_buffer *buffer;
	struct kv_record *at;
	uint64_t position;
};

int kv_log_init(struct fth_kv *kv);
void kv_log_release(struct fth_kv *kv);
/*
 * A place for a record of so many bytes. -EAGAIN: all buffers are full. -EIO: the log has failed.
 * -EDQUOT: the write budget is used up. May be called with buckets locked, so that records of one
 * key are in the log in the order of their changes. kv_log_fill() must follow.
 */
int kv_log_reserve(struct fth_kv *kv, uint64_t bytes, struct kv_room *out);
/* The same for a flush_all: from its place on, each chunk begins with a copy of the record. */
int kv_log_reserve_flush(struct fth_kv *kv, const struct kv_record *flush, struct kv_room *out);
/* The same for the writer's thread, which writes hot items again. */
int kv_log_reserve_again(struct fth_kv *kv, uint64_t bytes, struct kv_room *out);
/* Copy a record there and give it its checksum. */
void kv_log_fill(struct fth_kv *kv, const struct kv_room *room, const struct kv_record *record);
/*
 * If the record at `position` is in a buffer, copy `bytes` bytes of it to `to` and return 1. 0: it
 * is on the device. -ESTALE: it is gone.
 */
int kv_log_copy(struct fth_kv *kv, uint64_t position, uint64_t bytes, void *to);
/*
 * Fill the open chunk to the end of a block with a pad, which says how far the log is durable.
 * Under log.lock, with a chunk open that is not full and into which nobody copies.
 */
void kv_log_pad(struct fth_kv *kv);
/*
 * Room for a pad, in the open chunk or in a new one. Under log.lock, for the writer's thread.
 * -EAGAIN: later.
 */
int kv_log_pad_room(struct fth_kv *kv);
static inline uint64_t kv_log_offset(const struct fth_kv *kv, uint64_t position)
{
	return kv->super.log_at + position % kv->ring;
}
/* Positions in the index are cut to 44 bits of units; this gives the whole one back. */
static inline uint64_t kv_position(const struct fth_kv *kv, uint64_t place)
{
	/* relaxed: the place was given before, and head only grows */
	uint64_t head = fth_load_relaxed_dev64(&kv->log.head) / KV_UNIT;
	uint64_t units = (head & ~KV_PLACE_MASK) | place;

	if (units > head)
		units -= KV_PLACE_MASK + 1;
	return units * KV_UNIT;
}
/* The oldest position that may be read when the chunk before `next` has been opened. */
static inline uint64_t kv_log_tail(const struct fth_kv *kv, uint64_t next)
{
	uint64_t ring = next > kv->super.chunks ? (next - kv->super.chunks) * kv->super.chunk : 0;

	return ring > kv->log.given_up ? ring : kv->log.given_up;
}
/* Give up the oldest chunk, because the index is full. False: there is none but the last one. */
bool kv_log_give_up(struct fth_kv *kv);
static inline bool kv_position_valid(const struct fth_kv *kv, uint64_t position)
{
	/*
	 * acquire: tail is loaded before head, so a position between them was valid at the first
	 * load
	 */
	return position >= fth_load_acquire_dev64(&kv->log.tail) &&
	       position < fth_load_relaxed_dev64(&kv->log.head);
}
/*
 * A record that was read from a position of the log, of whose chunk `room` bytes are left, is
 * whole.
 */
static inline bool kv_record_good(const struct fth_kv *kv, const struct kv_record *r, uint64_t room,
				  uint64_t position)
{
	return r->type >= KV_ITEM && r->type <= KV_PAD && r->key_length <= FTH_KV_KEY_MAX &&
	       kv_record_bytes(r) <= room &&
	       r->checksum == kv_record_sum(r, kv->super.id, position);
}

/* ---- log/writer.c ---- */

int kv_writer_start(struct fth_kv *kv);
void kv_writer_stop(struct fth_kv *kv);
/* Something is to be written or committed. Under log.lock. */
void kv_writer_kick(struct fth_kv *kv);
/* Records were added that have to become durable, now or in a while. */
void kv_commit_wanted(struct fth_kv *kv);
/* WRITE_BACK: the device does not keep up, so a change is acknowledged only when it is durable. */
bool kv_commit_overdue(const struct fth_kv *kv);

/* ---- log/log_restart.c ---- */

/*
 * Let a log that has failed go on. Under log.lock, which is released meanwhile; for the writer's
 * thread, with nothing in flight. *unknown: a flush has failed, so all that was written since the
 * last commit may be lost; is set when another one fails. Returns 0, -EAGAIN or the error of the
 * device: then try again later.
 */
int kv_log_restart(struct fth_kv *kv, bool *unknown);
/*
 * Give items in memory whose places were given up new ones, some at a time. For the writer's
 * thread, without log.lock. False: wait for the log.
 */
bool kv_log_place_again(struct fth_kv *kv);

/* ---- ops/worker.c ---- */

/* Buffers became free, or something was committed: those who wait look again. Any thread. */
void kv_wake_workers(struct fth_kv *kv);
/* Wait for reads of closed workers, a while; sets left_behind if they do not end. */
void kv_workers_wait(struct fth_kv *kv);
/* Reads of the device in flight. Any thread. */
uint64_t kv_workers_reading(struct fth_kv *kv);

/* ---- ops/op.c ---- */

/* What an operation waits for next. */
enum kv_step {
	KV_STEP_READING, /* `read_bytes` bytes at `old_place` of the log are to be read */
	KV_STEP_ROOM,	 /* the log has no room */
	KV_STEP_COMMIT,	 /* the log before `commit_at` is to become durable */
	KV_STEP_DONE,	 /* nothing: it is complete */
};

#define KV_TRIED_MAX  (2 * KV_WAYS)
#define KV_UNREADABLE (UINT64_C(1) << 63) /* beside a place */
struct kv_private {
	struct kv_key_id id;
	bool committing; /* its change is made, and waits to be durable */
	uint16_t tried_count;
	int16_t refused;	/* the error with which the change was refused; 0: it was not */
	struct fth_kv_op *next; /* in a list of the worker */
	struct kv_slot *held;	/* whose value data points to */
	struct kv_read *read;	/* the same for flash; also the one in flight */
	struct kv_slot *fresh;	/* allocated for what will be stored */
	struct kv_record *old;	/* the item that was read from flash, in read */
	uint64_t old_place;	/* of it */
	uint64_t read_bytes;	/* bytes to read at old_place */
	uint64_t commit_at;	/* position where its record in the log ends; 0: it has none */
	uint32_t restarts;	/* of the log, before the record was added */
	uint64_t deadline;	/* for a request while the device takes none; 0: not set */
	uint64_t tried[KV_TRIED_MAX]; /* places that held another key, or nothing good */
};
_Static_assert(sizeof(struct kv_private) <= sizeof(((struct fth_kv_op *)0)->private_),
	       "it fits into an operation");

static inline struct kv_private *kv_private(struct fth_kv_op *op)
{
	return (struct kv_private *)op->private_;
}

/* Try the operation, as far as it goes without waiting. */
enum kv_step kv_op_go(struct fth_kv *kv, struct fth_kv_op *op);
/*
 * The read has ended: record is the item, checked, or NULL. readable: the place holds the item of
 * another key; else nobody knows what it holds.
 */
void kv_op_read_done(struct fth_kv_op *op, struct kv_record *record, bool readable);
int kv_op_check(const struct fth_kv *kv, const struct fth_kv_op *op);
/* With this result the change is refused, and the item that is there goes. */
bool kv_op_refused(const struct fth_kv_op *op, int result);

/* ---- media/superblock.c ---- */

/* Find a cache on the device, or make one. */
int kv_media_open(struct fth_kv *kv);
/* Find one with persistence, or return -ENODATA. Writes nothing. */
int kv_media_find(struct fth_kv *kv);
bool kv_super_good(const struct kv_super *super);
int kv_super_write(struct fth_kv *kv, uint64_t deadline);

/* ---- recover/recover.c ---- */

/* What recovery found beside the index. */
struct kv_recovered {
	uint64_t end;	/* number of the chunk behind the last one of the log */
	uint64_t stale; /* from `end` to before this number a crash may have left chunks */
	uint64_t head; /* position behind the last record, if it was closed in good order; else 0 */
	uint64_t durable; /* position: all before it was durable, as far as is known */
	char damage[FTH_ERROR_TEXT_MAX]; /* of the index; empty: none */
};

/* Fill the index and set the log from the device. Writes nothing. */
int kv_recover_read(struct fth_kv *kv, struct kv_recovered *out);
/* The same, then zero what a crash has left and write a checkpoint: the log can go on. */
int kv_recover(struct fth_kv *kv);
/* A header of a chunk of this cache, with any number. */
bool kv_chunk_good(const struct fth_kv *kv, const struct kv_chunk_header *h);

/* ---- recover/read_with_holes.c ---- */

/* A part of the device cannot be read; others may be. */
bool kv_medium_error(int rc);
/* Read; what cannot be read is zero, and each such piece is counted in *holes. */
int kv_read_with_holes(struct fth_kv *kv, void *to, uint64_t bytes, uint64_t at, uint64_t *holes);

/* ---- recover/watermark.c ---- */

struct kv_watermark {
	uint64_t position; /* all before it was durable */
	uint64_t chunks;   /* numbers of chunks in which something was found are below this */
};

/* A header that verifies has been read. */
void kv_watermark_header(struct kv_watermark *mark, const struct kv_chunk_header *h);
/* Look through `count` chunks from `number` on, read into `chunk`, for all that verifies there. */
int kv_watermark_scan(struct fth_kv *kv, uint64_t number, uint64_t count, uint8_t *chunk,
		      struct kv_watermark *mark);

/* ---- recover/chain.c ---- */

struct kv_chain {
	uint64_t *numbers; /* of the chunks of the log, the oldest one first */
	uint64_t count;
	uint64_t newest; /* number of any chunk on the device; UINT64_MAX: there is none */
	bool broken;	 /* a chunk that the oldest one follows is damaged */
};

/* `chunk` has room for one; mark is raised. Release the chain, also after an error. */
int kv_chain_find(struct fth_kv *kv, uint8_t *chunk, struct kv_watermark *mark,
		  struct kv_chain *chain);
void kv_chain_release(struct kv_chain *chain);

/* ---- media/checkpoint.c ---- */

int kv_checkpoint_write(struct fth_kv *kv, bool clean, uint64_t deadline);
/*
 * Give up the oldest chunks until the next checkpoint has room for the entries of all others.
 * Nothing is added to the log meanwhile.
 */
int kv_checkpoint_make_fit(struct fth_kv *kv);
/*
 * Fill the index, which is empty, from an area. -EBADMSG: this one is not there, or it is damaged.
 */
int kv_checkpoint_read(struct fth_kv *kv, uint64_t which, uint64_t number,
		       struct kv_index_header *header);
/* Raise the mark by what the headers of both areas say, whichever checkpoint is in force. */
void kv_checkpoint_watermark(struct fth_kv *kv, struct kv_watermark *mark);
/* Bytes of one area. */
uint64_t kv_checkpoint_bytes(uint64_t items);
/* Start and stop the thread, if the options say so. The writer's thread runs meanwhile. */
int kv_checkpointer_start(struct fth_kv *kv);
void kv_checkpointer_stop(struct fth_kv *kv);
/* An entry goes from bucket `from` to `to`; both are locked. */
void kv_checkpoint_moved(struct fth_kv *kv, const struct kv_entry *e, uint32_t from, uint32_t to);

#endif
