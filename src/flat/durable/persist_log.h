/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of persistent ranges: bytes of the region that are durable before their page is written
 * in place.
 *
 * It lies in the window of the device, or on blocks of it:
 *
 *	window	two headers, the ring
 *	blocks	the ring, two headers, at the end of the region's part of the device
 *
 * A position counts bytes since the log was created; its place in the ring is position % size.
 * Records lie between the positions tail and head, one after the other. A record never crosses the
 * end of the ring, and on blocks never shares a block that was written before: a power loss during
 * a write cannot damage a record that is durable.
 *
 *	tail		 in the header: everything before it is in place
 *	  |   durable	 acknowledged
 *	  |     |   head
 *	  v     v     v
 *	..RRRRRRRRRRRR.....
 *
 * Invariants
 *  1. tail <= head, durable <= head, head - tail <= size. Of the ring only [head, tail + size) is
 *     written.
 *  2. A record's bytes are copied, and its place is allocated, while the pages are locked: of two
 *     records of one address the later has the later bytes.
 *  3. The header on the medium has this tail, or an older one while a new one is being written.
 *  4. After a failed write nothing is appended until a header with a new epoch is durable: records
 *     that the failed write left do not verify from then on.
 */
#ifndef FATHOM_SRC_FLAT_DURABLE_PERSIST_LOG_H
#define FATHOM_SRC_FLAT_DURABLE_PERSIST_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fathom/dev.h"
#include "fathom/dev/window.h"

#define LOG_PIECE     4096u /* most bytes of one record */
#define LOG_SIZE_MIN  65536u
#define LOG_SIZE_MAX  ((uint64_t)1 << 30)
#define LOG_SLOT      4096u /* bytes of a header on blocks */
#define LOG_SLOT_LINE 512u  /* and in a window */

/* On the medium; little-endian. */
struct log_header {
	uint64_t magic;
	uint64_t sum; /* of all that follows */
	uint64_t generation;
	uint64_t id; /* random; part of the checksum of records */
	uint64_t region_at, region_size;
	uint64_t size; /* of the ring */
	uint64_t tail, sequence;
	uint32_t epoch, version;
};
_Static_assert(sizeof(struct log_header) == 80, "no padding");

struct log_record {
	uint64_t sum; /* of the rest and the data */
	uint64_t at;  /* offset in the region */
	uint64_t sequence;
	uint32_t length; /* of the data, which follows, padded to 8 bytes */
	uint32_t epoch;
};
_Static_assert(sizeof(struct log_record) == 32, "no padding");

struct log_batch {
	uint8_t *bytes;
	uint64_t start, used;
};

struct flat_log {
	struct fth_dev *dev;
	struct fth_dev_window *window; /* NULL: on blocks of dev */
	uint64_t ring_at, headers_at;
	uint32_t slot, unit; /* bytes of a header; a write begins at a multiple of unit */
	uint64_t batch_size;
	uint64_t size, id;	  /* of the ring; of the log */
	struct log_header header; /* the newest that is known to be durable; under trimming */
	unsigned good;		  /* its slot */
	bool fresh;		  /* there is no header on the medium yet */
	uint32_t epoch_step;	  /* to the next epoch */

	pthread_mutex_t lock; /* of all that follows; held for copies, never during I/O */
	pthread_cond_t changed;
	uint64_t tail, durable, head, sequence;
	uint32_t epoch;
	struct log_batch pending, spare; /* on blocks: records that no write has taken */
	bool writing;
	bool trimming;	     /* one checkpoint at a time; set before it locks any page */
	bool broken;	     /* a write failed: invariant 4 */
	uint64_t failed_end; /* records before it that are not durable have failed, */
	int failed;	     /* with this */
	int dead; /* a write timed out and may still happen: nothing is appended any more */
	uint64_t commits, records, bytes;
};

/* Bytes of a record that lie together in memory. */
struct log_part {
	const void *from;
	uint64_t length;
};

/* A position that a checkpoint can move the tail to. */
struct log_mark {
	uint64_t position, sequence;
	bool reset;
};

/* What log_find() finds. */
enum log_found {
	LOG_NOTHING, /* neither a log nor anything else: zeroes */
	LOG_FOREIGN, /* other data */
	LOG_OURS,
};

/* ---- persist_log.c ---- */
/*
 * `size` bytes at `at` of the device, or of the window if there is one. Reads the headers and sets
 * *found; does not write. Returns 0, -EUCLEAN for a damaged header, or the error of the device.
 */
int log_find(struct flat_log *log, struct fth_dev *dev, struct fth_dev_window *window, uint64_t at,
	     uint64_t size, enum log_found *found);
/* Begin with an empty log; overwrites what is there. */
int log_format(struct flat_log *log, uint64_t region_at, uint64_t region_size);
/* Memory for appending. */
int log_begin(struct flat_log *log);
void log_close(struct flat_log *log);

/*
 * Append a record for the bytes at `at`, up to LOG_PIECE and log_piece(). The caller has locked
 * their pages. *position is its end. Returns 0; -ENOSPC: checkpoint first; -EAGAIN: log_commit()
 * what there is first; or the error that ended the log.
 */
int log_append(struct flat_log *log, uint64_t at, const struct log_part *parts, unsigned n,
	       uint64_t *position);
uint64_t log_piece(const struct flat_log *log);
/* Wait until all records before `position` are durable; writes them if nobody does. */
int log_commit(struct flat_log *log, uint64_t position, uint64_t deadline);
uint64_t log_head(struct flat_log *log);
/* Is there anything that a checkpoint would do away with? */
bool log_holds_records(struct flat_log *log);

/*
 * A checkpoint: log_mark(); then all changed pages are written, and the device flushed; then
 * log_trim().
 */
int log_lock(struct flat_log *log, uint64_t deadline);
void log_unlock(struct flat_log *log);
struct log_mark log_mark(struct flat_log *log);
int log_trim(struct flat_log *log, const struct log_mark *mark, uint64_t deadline);

/* ---- log_medium.c ---- */
int log_read(struct flat_log *log, uint64_t at, void *to, uint64_t length);
int log_write(struct flat_log *log, uint64_t at, const void *from, uint64_t length,
	      uint64_t deadline);
int log_flush(struct flat_log *log, uint64_t at, uint64_t length, uint64_t deadline);
/* Write a header where it does not overwrite the last good one. */
int log_write_header(struct flat_log *log, struct log_header *header, uint64_t deadline);
uint64_t log_record_sum(const struct flat_log *log, const struct log_record *record);

/* ---- log_replay.c ---- */
/*
 * Read all records that are valid. `each` gets them in order; they lie in *memory, which the caller
 * frees. *end is the position behind the last. Returns 0 or a negative errno.
 */
int log_replay(struct flat_log *log, int (*each)(void *user, const struct log_record *record),
	       void *user, struct log_mark *end, void **memory);

#endif
