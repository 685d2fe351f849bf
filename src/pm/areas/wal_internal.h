/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of a write-ahead log, little-endian, and its state in memory. wal.c appends, reads and
 * trims; wal_open.c creates and opens.
 *
 *	0	struct wal_header, written once, when the log is created
 *	128	struct wal_record, twice: the second one at 256
 *	4096	the ring
 *
 * A *position* counts bytes since the log was created; byte p is at p % capacity of the ring. The
 * number of an entry is its position. An entry, which may go over the end of the ring:
 *
 *	word 0	its length (30 bits), the distance (6), the session (28)
 *	word 1	the check of word 0 (32 bits), the check of the payload (32)
 *	payload, and zeroes up to a multiple of 8
 *
 * The distance says how far the entries before this one were persistent when it was stored. A
 * session is an opening for writing. Both checks begin with salt, position and word 0.
 *
 *	1. Entries are stored behind each other, and their pages marked, under `lock`. Any of their
 *	   words may be missing after a crash until a fence that began after they were stored.
 *	2. `durable` is the end of entries of which a fence has ended. It only grows. In memory
 *	   whose fence covers the calling thread alone, every append has its fence under `lock`.
 *	3. Opening takes entries from the head, as long as they match and their sessions do not
 *	   decrease. An entry that a crash left behind a torn one is never taken later, since what
 *	   is stored before it from then on has a greater session. So the session is persistent
 *	   before the first entry of it is stored.
 *	4. What opening has found is persistent before the first append, and the next session
 *	   begins there. A position is used once in a session.
 *	5. An entry that does not match, at a position that a later entry shows to have been
 *	   persistent, is damaged.
 *	6. The head, the oldest entry, is in the record with the greater position, or session. The
 *	   other one is overwritten: so a torn record leaves the one before. Space before the head
 *	   is used again after the record's fence.
 */
#ifndef FATHOM_SRC_PM_AREAS_WAL_INTERNAL_H
#define FATHOM_SRC_PM_AREAS_WAL_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>

#include "fathom/base/rng.h"
#include "fathom/pm/wal.h"
#include "pm/pm_internal.h"

#define WAL_MAGIC   0x4c41574d50485446u /* "FTHPMWAL" */
#define WAL_VERSION 1u
#define WAL_RECORD  128u  /* byte of the first record; the other follows as far behind */
#define WAL_DATA    4096u /* byte of the ring */

#define WAL_LENGTH_BITS	  30u
#define WAL_DISTANCE_BITS 6u
#define WAL_LENGTH_MAX	  ((1u << WAL_LENGTH_BITS) - 1)
#define WAL_SESSION_MAX	  ((1u << 28) - 1)

struct wal_header {
	uint64_t magic;
	uint32_t version;
	uint32_t zero;
	uint64_t bytes; /* of the area, this header included */
	uint64_t capacity;
	uint64_t salt;
	uint64_t check; /* of all of the above */
};

struct wal_record {
	uint64_t head; /* position of the oldest entry */
	uint64_t session;
	uint64_t check;
};

_Static_assert(sizeof(struct wal_header) == 48, "a format on media");
_Static_assert(sizeof(struct wal_record) == 24, "a format on media");

struct fth_pm_wal {
	struct fth_pm_view pm;
	const struct fth_pm *owner; /* NULL: of a view, in tests */
	uint8_t *area;
	uint64_t capacity, salt;
	bool deferred; /* entries become persistent by a wait, not by their append */
	pthread_mutex_t lock;
	uint64_t tail;	  /* the next position; written under the lock */
	uint64_t head;	  /* written under both locks */
	uint64_t durable; /* atomic */
	uint64_t entries; /* under the lock */
	uint32_t session;
	pthread_mutex_t trimming; /* taken before `lock`; guards the records */
	unsigned slot;		  /* of the record that counts */
};

/* The header of an entry, taken apart. */
struct wal_entry {
	uint32_t bytes, session;
	uint64_t space;	 /* that the entry takes */
	uint64_t proven; /* entries before this position were persistent when it was stored */
	uint64_t sum;	 /* that the check of the payload begins with */
	uint32_t check;	 /* of the payload, as it is stored */
};

/* ---- wal.c ---- */

/* Read and check the header of the entry at `position`. False if it does not match. */
bool pm_wal_entry(const struct fth_pm_wal *wal, uint64_t position, struct wal_entry *entry);

/* Whether the payload of that entry matches; writes it to `out`, unless that is NULL. */
bool pm_wal_payload(const struct fth_pm_wal *wal, uint64_t position, const struct wal_entry *entry,
		    void *out);

/* Bytes from one position to another were stored, and are to persist with the next fence. */
void pm_wal_flush(const struct fth_pm_wal *wal, uint64_t from, uint64_t to);

/* Make a new record persistent, in place of the older one. With `trimming` held, or alone. */
int pm_wal_put_record(struct fth_pm_wal *wal, uint64_t head, uint32_t session);

/* ---- wal_open.c ---- */

uint64_t pm_wal_header_sum(const struct wal_header *header);
uint64_t pm_wal_record_sum(const struct fth_pm_wal *wal, const struct wal_record *record);

/* Make an empty log on a view. `salt` is 0 for a random one. */
int pm_wal_make(const struct fth_pm_view *pm, uint64_t offset, uint64_t capacity, uint64_t salt);

/* Open a log of a view. `begin`: for writing, as a new session. */
int pm_wal_open_view(const struct fth_pm_view *pm, uint64_t offset, bool begin,
		     struct fth_pm_wal **out);

#endif
