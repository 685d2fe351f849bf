/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A key-value cache: an index in memory, new and hot items in memory, the rest in a log on flash.
 *
 *	struct fth_kv_options options = FTH_KV_OPTIONS_INIT;
 *	struct fth_kv_worker *worker;
 *	struct fth_kv *kv;
 *	struct fth_kv_op op = {.verb = FTH_KV_GET, .key = "name", .key_length = 4};
 *
 *	options.flash = "file:/data/kv?create=on&size=10G";
 *	fth_kv_open(&options, &kv);
 *	fth_kv_worker_open(kv, &worker);
 *	if (fth_kv_do(worker, &op, FTH_NEVER) == 0)
 *		fwrite(op.data, 1, op.length, stdout);
 *	fth_kv_release(worker, &op);
 *	fth_kv_worker_close(worker);
 *	fth_kv_close(kv);
 *
 * An item is a key of 1 to 250 bytes, a value, 32 bits for the caller (flags), an expiry time and a
 * number that changes with every update (cas). The index takes 16 bytes per item and grows with
 * their number, by 18 to 20 bytes of memory for each; keys are stored with the values. A get of an
 * item on flash is one read.
 *
 * A cache is shared by all threads. A worker is a queue of operations on it: use each from one
 * thread at a time. Operations are submitted and reaped as requests of a device are (fathom/dev.h),
 * and many can be in flight. Operations on one key take effect one after the other, in the order in
 * which they complete; an operation that was started after another one completed sees its effect.
 *
 * Times are seconds since 1970. The system clock is read once, when the process first uses a cache;
 * from then on a monotonic clock counts, so that setting the system clock neither expires items nor
 * revives them.
 *
 * The oldest items are evicted when the log is full, or when the index is and cannot grow: no
 * change is refused because the index is full. A get never returns a wrong value. enum
 * fth_kv_persistence says what survives a restart.
 */
#ifndef FATHOM_KV_H
#define FATHOM_KV_H

#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_kv;
struct fth_kv_worker;

#define FTH_KV_KEY_MAX	       250u
#define FTH_KV_VALUE_MAX       (15u << 20) /* the largest that options.value_max may be */
#define FTH_KV_VALUE_MAX_USUAL (1u << 20)

/* What survives the end of the process, including a crash or a power loss. */
enum fth_kv_persistence {
	FTH_KV_VOLATILE,      /* nothing: every open begins empty */
	FTH_KV_WRITE_BACK,    /* all but the changes of the last window_ms; changes wait where the
				 device does not keep up */
	FTH_KV_WRITE_THROUGH, /* what was acknowledged: a change is durable when it completes */
};

/* Start from FTH_KV_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_kv_options {
	size_t size;	   /* of this structure */
	const char *flash; /* URI of the device for the log; NULL: items live in memory only */
	uint64_t memory;   /* bytes for items in memory; default 64 MiB, at least 4 MiB */
	uint64_t items; /* the index grows until it has room for so many; it may be another number
			       each time that a cache is opened. Default: as many as flash and memory can
			       hold, in at most half of the machine's memory. A new persistent cache
			       reserves 32 bytes of flash for each of them, by default one for each 512
			       bytes of flash; with more items opening it reads a part of the log */
	uint32_t value_max; /* bytes of a value; default 1 MiB */
	uint32_t chunk;	    /* bytes of the log written at once: a power of two, at least 64 KiB
			       and value_max + 1 KiB; default 1 MiB, or 2 * value_max if more */
	uint32_t buffers;   /* chunks in memory on their way to flash; default 8, at least 3 */
	enum fth_kv_persistence persistence;
	uint32_t window_ms;   /* of WRITE_BACK; default 100 */
	uint32_t readmit;     /* when a chunk is reclaimed, hot items in it are written again, up to
			       this percentage of its bytes; default 0, at most 90 */
	bool format;	      /* make a new cache, whatever the device holds */
	uint64_t timeout_ns;  /* of one read of the device; then it counts as a miss. Default 5 s.
				The log has failed when none of its writes completes in six times
				as long */
	uint32_t admit;	      /* percent of the items that go to flash among those that leave memory
				and were never read; the others are dropped. Default 100. VOLATILE
				only */
	uint64_t daily_bytes; /* write budget: bytes of items that may go to flash in a day; items
				 beyond it are dropped. It accrues evenly, for an hour at most.
				 0: no limit. VOLATILE only */
	uint32_t checkpoint_ms; /* with persistence: a thread of the cache writes a checkpoint this
				   often, if something has changed, as fth_kv_checkpoint() does.
				   0: none is written before the cache is closed */
};

#define FTH_KV_OPTIONS_INIT                                                                       \
	{                                                                                         \
		sizeof(struct fth_kv_options), NULL, 0, 0, 0, 0, 0, FTH_KV_VOLATILE, 0, 0, false, \
			0, 0, 0, 0                                                                \
	}

/* What fth_kv_open() found on the device of a persistent cache. */
struct fth_kv_recovery {
	bool found;	      /* there was a cache on the device */
	bool clean;	      /* it had been closed, and the index was read as it was then */
	uint64_t items;	      /* that the index has now */
	uint64_t chunks_read; /* of the log, after the last checkpoint */
	uint64_t bad_items;   /* records whose checksum is wrong; they are not in the index */
	uint64_t
		damaged_chunks; /* of the log, known to have been durable: all older items were dropped */
	bool went_round;	/* the log has wrapped around past its position at the last
				    checkpoint, and was read completely */
	bool index_damaged;  /* the last checkpoint did not verify: the index was rebuilt from the
				    log, and no item was lost by it */
	uint64_t unreadable; /* reads of parts of the log that failed: what is there is missing */
	uint64_t elapsed_ns;
};

/*
 * Open a cache. A device that holds none is formatted if its first block is all zeroes or `format`
 * is set. Returns -EINVAL for invalid options, -EBADMSG for a device that holds something else,
 * -EPROTONOSUPPORT for a cache of another version of the layout, -EBUSY if another process, cache
 * or volume uses the file, or the error of the device.
 */
int fth_kv_open(const struct fth_kv_options *options, struct fth_kv **out);
/*
 * The same on a device that is open already, and stays open after the cache is closed. Keeping
 * others out of it is the caller's task.
 */
int fth_kv_open_dev(const struct fth_kv_options *options, struct fth_dev *dev, struct fth_kv **out);

/*
 * Close a cache; all workers must be closed before. With persistence everything is made durable and
 * the index is written, so that the next open is quick. Returns the error of that; the cache is
 * closed all the same, and what was acknowledged as durable still is. Returns -ETIMEDOUT if
 * requests of the device did not complete: the device, which may still use their memory, is left
 * open and the memory is not freed. Accepts NULL.
 */
int fth_kv_close(struct fth_kv *kv);

/*
 * Write the index now, while the cache is in use, so that less of the log is read after a crash.
 * Any thread; concurrent calls run one after the other. Returns -EOPNOTSUPP without persistence,
 * -EAGAIN if too many entries were moved meanwhile, -ETIMEDOUT, or the error of the device; after
 * an error the previous checkpoint stays valid.
 */
int fth_kv_checkpoint(struct fth_kv *kv, uint64_t deadline);

/* What was found when the cache was opened. Any thread. */
void fth_kv_recovery(const struct fth_kv *kv, struct fth_kv_recovery *out);

/* ---- operations ---- */

enum fth_kv_verb {
	FTH_KV_GET,	/* the value */
	FTH_KV_TOUCH,	/* the value, and set the time when it expires */
	FTH_KV_SET,	/* store */
	FTH_KV_ADD,	/* store if the key does not exist; else -EEXIST */
	FTH_KV_REPLACE, /* store if the key exists; else -ENOENT */
	FTH_KV_APPEND,	/* append to the existing value; -ENOENT if the key does not exist */
	FTH_KV_PREPEND, /* prepend to the existing value; likewise */
	FTH_KV_INCREMENT, /* add delta to a decimal number, modulo 2^64; -EDOM if the value is not one. Spaces
			     around the number are allowed; a value does not become shorter */
	FTH_KV_DECREMENT, /* subtract delta; the result is at least zero */
	FTH_KV_DELETE,	  /* remove; -ENOENT if the key does not exist */
	FTH_KV_FLUSH_ALL, /* no key: all items stored before `expires` (0: now) become invalid at that
			     time */
	FTH_KV_INVALIDATE, /* mark the item stale, with a new cas, and release its token */
	FTH_KV_CLAIM,	   /* the value, and take the item's token; -EALREADY if it is taken */
	FTH_KV_VERB_COUNT
};

/*
 * An item can be marked stale: gets still return it, with FTH_KV_ITEM_STALE in item_state. Each
 * item has a token, so that only one of several callers recomputes a value: the one whose
 * FTH_KV_CLAIM takes the token. A store clears the stale mark and makes the token available again.
 */
enum fth_kv_item_state {
	FTH_KV_ITEM_STALE = 1,
	FTH_KV_ITEM_CLAIMED = 2, /* its token is taken */
};

/* Flags of fth_kv_op.options, combined with |. */
enum fth_kv_op_option {
	FTH_KV_KEEP_EXPIRES = 1,  /* INVALIDATE: do not set the time when it expires */
	FTH_KV_STORE_CLAIMED = 2, /* ADD: the caller takes the token of the new item */
	/*
	 * SET and REPLACE with cas: if the item has a higher number, replace its value only, and
	 * mark it stale. Its token and the time when it expires stay.
	 */
	FTH_KV_STORE_STALE = 4,
};

/*
 * One operation. The caller owns it, its key and its value, and leaves them alone until it is
 * complete. Zero-initialise, then set what the verb needs.
 */
struct fth_kv_op {
	enum fth_kv_verb verb;
	const void *key;
	uint32_t key_length;
	uint32_t options;  /* enum fth_kv_op_option */
	const void *value; /* to store, append or prepend */
	uint32_t value_length;
	uint32_t flags;	  /* to store */
	uint32_t expires; /* seconds since 1970 for what is stored or touched; 0: never */
	uint64_t cas;	  /* if not 0, change the item only if it has this number; else -EBUSY */
	uint64_t delta;	  /* of INCREMENT and DECREMENT */
	void *user;	  /* for the caller; not interpreted */

	/*
	 * Set when it is complete. result is 0 or a negative errno: the verb's, or -ENOENT (no such
	 * item), -EMSGSIZE (too long a value), -EINVAL (bad key length), -ENOMEM (no memory for the
	 * item; like memcached, a SET without cas that fails with one of these removes the item
	 * that is there), -EIO (with persistence: the log has failed. The change could not be made
	 * durable, and may or may not survive. Later changes fail as well, and remove the item that
	 * they would have replaced, changed or deleted, until the device works again; gets still
	 * work).
	 */
	int result;
	/*
	 * After a successful GET, TOUCH, CLAIM, INCREMENT or DECREMENT the item as it is now; valid
	 * until fth_kv_release(). After other changes only item_cas.
	 */
	const uint8_t *data;
	uint32_t length;
	uint32_t item_flags;
	uint32_t item_expires;
	uint64_t item_cas;
	uint32_t item_age;  /* seconds since it was last read before this, or stored */
	bool item_read;	    /* it had been read since it was stored */
	bool from_flash;    /* a read of the device was needed */
	uint8_t item_state; /* enum fth_kv_item_state */

	uint64_t private_[24]; /* used by the cache from submit to release */
};

/*
 * Open a worker. Any thread. The caller closes it before the cache. Returns 0, -ENOMEM, -EMFILE or
 * the error of the device.
 */
int fth_kv_worker_open(struct fth_kv *kv, struct fth_kv_worker **out);
/*
 * Close a worker. Waits for the operations in flight, each until its timeout at most, and drops
 * their results. Accepts NULL.
 */
void fth_kv_worker_close(struct fth_kv_worker *worker);

/*
 * Start an operation. Returns 1 if it is complete already, 0 if fth_kv_reap() will
 * return it later, or a negative errno if it was not started: -EAGAIN if too many are in flight.
 */
int fth_kv_submit(struct fth_kv_worker *worker, struct fth_kv_op *op);

/*
 * Process operations in flight and collect up to max complete ones. Waits until at least min are
 * complete (or all, if fewer are in flight) or the deadline, a time of fth_now_ns(), has passed (0:
 * do not wait). Returns their number; -ETIME if the deadline has passed and none is complete.
 */
int fth_kv_reap(struct fth_kv_worker *worker, struct fth_kv_op **done, unsigned max, unsigned min,
		uint64_t deadline);

/*
 * With `on`, reads of the device wait until the next fth_kv_reap() and go to the device together,
 * which costs less than one by one. The caller calls fth_kv_reap() after it has submitted
 * operations, and again while that returns max; only then does it wait for the descriptor below.
 * One call collects at most half of the reads in flight, or eight, so that the caller can submit
 * new reads before it processes the rest; the descriptor stays readable until then. Off when a
 * worker is opened.
 */
void fth_kv_worker_batch(struct fth_kv_worker *worker, bool on);

/* A descriptor that is readable when fth_kv_reap() has something to do; as fth_dev_chan_fd(). */
int fth_kv_worker_fd(struct fth_kv_worker *worker);

/*
 * Release the data of a complete operation. Does nothing if it has none, as after all verbs but
 * GET, TOUCH, CLAIM, INCREMENT and DECREMENT. The op may be used again.
 */
void fth_kv_release(struct fth_kv_worker *worker, struct fth_kv_op *op);

/*
 * Submit an operation and wait for it; nothing else may be in flight on this worker. Returns
 * op->result, or -ETIMEDOUT at the deadline: the operation is then still in flight, and
 * fth_kv_reap() will return it.
 */
int fth_kv_do(struct fth_kv_worker *worker, struct fth_kv_op *op, uint64_t deadline);

/* ---- statistics ---- */

enum fth_kv_stat {
	FTH_KV_STAT_GETS,
	FTH_KV_STAT_HITS_MEMORY,
	FTH_KV_STAT_HITS_FLASH,
	FTH_KV_STAT_MISSES,
	FTH_KV_STAT_SETS, /* items stored, by any verb */
	FTH_KV_STAT_DELETES,
	FTH_KV_STAT_EXPIRED,	 /* lookups that found an expired item */
	FTH_KV_STAT_FLASH_READS, /* requests */
	FTH_KV_STAT_FLASH_READ_BYTES,
	FTH_KV_STAT_FALSE_READS,     /* reads that found another key */
	FTH_KV_STAT_BAD_ITEMS,	     /* reads whose checksum was wrong: misses */
	FTH_KV_STAT_READ_ERRORS,     /* reads that failed or took too long: misses */
	FTH_KV_STAT_LOG_BYTES,	     /* of items and tombstones put into the log */
	FTH_KV_STAT_CHUNK_BYTES,     /* written to the device */
	FTH_KV_STAT_CHUNKS,	     /* of the log that were filled */
	FTH_KV_STAT_WRITE_ERRORS,    /* of the log */
	FTH_KV_STAT_EVICTED,	     /* items that left memory, to flash or dropped */
	FTH_KV_STAT_PROMOTED,	     /* items that came back from flash */
	FTH_KV_STAT_RECLAIMED,	     /* chunks that were given up for new ones */
	FTH_KV_STAT_READMITTED,	     /* hot items of these chunks, written again */
	FTH_KV_STAT_INDEX_DROPPED,   /* items dropped one by one: the index was full */
	FTH_KV_STAT_KICKS,	     /* entries moved to make room in the index */
	FTH_KV_STAT_COMMITS,	     /* flushes of the device */
	FTH_KV_STAT_WAITS,	     /* operations that waited for room in the log's buffers */
	FTH_KV_STAT_DROPPED,	     /* items that left memory when the log had failed */
	FTH_KV_STAT_REJECTED,	     /* items that left memory and were not admitted to flash */
	FTH_KV_STAT_OVER_BUDGET,     /* items that left memory when the write budget was used up */
	FTH_KV_STAT_REWRITTEN_BYTES, /* of LOG_BYTES: items that had been in the log before. Write
					amplification is CHUNK_BYTES / (LOG_BYTES - this) */
	FTH_KV_STAT_CHECKPOINTS,     /* that were written, by whichever call or thread */
	FTH_KV_STAT_CHECKPOINT_ERRORS, /* those that failed; the one before stays in force */
	FTH_KV_STAT_LOST, /* items lost for lack of space, whichever: dropped when they left memory,
			     in chunks that were reclaimed, or because the index was full. Those in
			     chunks count when their entries are cleared, some time after */
	FTH_KV_STAT_INDEX_RECLAIMED, /* of RECLAIMED: because the index was full */
	FTH_KV_STAT_LOG_FAILURES,    /* times that the log failed, with persistence */
	FTH_KV_STAT_LOG_RESTARTS,    /* times that it went on, when the device worked again */
	FTH_KV_STAT_COUNT
};

/* The value of a counter since the cache was opened, and its name. Any thread. */
uint64_t fth_kv_stat(const struct fth_kv *kv, enum fth_kv_stat which);
const char *fth_kv_stat_name(enum fth_kv_stat which);

struct fth_kv_usage {
	uint64_t items;	       /* that the index has, those that have expired included */
	uint64_t index_bytes;  /* memory of the index as it is now */
	uint64_t index_items;  /* entries that it has room for when it has grown to its limit */
	uint64_t memory_bytes; /* for items in memory, of options.memory */
	uint64_t memory_items;
	uint64_t flash_bytes;	/* of the log */
	uint64_t flash_used;	/* bytes of it that hold chunks not reclaimed */
	uint64_t flash_reading; /* reads of the device in flight */
	bool log_failed; /* with persistence: changes are refused until the device works again */
};
/* What the cache holds now. Any thread. */
void fth_kv_usage(struct fth_kv *kv, struct fth_kv_usage *out);

FTH_END_DECLS

#endif
