/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Write-ahead logs in persistent memory, for CPU threads: entries of any size, appended by any
 * number of threads to one sequence, and trimmed from the front.
 *
 *	struct fth_pm_wal *wal;
 *	uint64_t number, cursor = 0;
 *	int64_t n;
 *
 *	fth_pm_wal_open_or_create(pm, 0, 16u << 20, &wal);
 *	while ((n = fth_pm_wal_read(wal, &cursor, record, sizeof(record))) >= 0)
 *		...
 *	fth_pm_wal_append(wal, record, sizeof(record), &number);
 *	fth_pm_wal_wait(wal, number);
 *	fth_pm_wal_trim(wal, number);
 *	fth_pm_wal_close(wal);
 *
 * An append stores the entry and returns its *number*. Numbers grow from entry to entry, with gaps,
 * and are never used again. The entry has the guarantee of the memory (fathom/pm.h) once
 * fth_pm_wal_wait() has returned 0 for its number, or for a later one. On drained memory, such as a
 * file, nothing is written before a thread waits; threads that wait at the same time share one write
 * and one flush, since their entries lie behind each other. In the other kinds of memory an append
 * is persistent when it returns.
 *
 * What survives a crash: all entries that were waited for, and of the others any number, in the
 * order of their numbers and without a gap. Each entry carries two check words of 32 bits; a torn
 * entry matches by chance in one case of 2^32. Damage to an entry, its length included, is reported
 * with -EBADMSG if a later entry shows that it was persistent. Damage to the newest entries, those
 * of the last write and up to as many bytes before it, looks like a torn append, which is dropped;
 * damage to the record of the last trim brings back what that trim removed.
 *
 * The log is a ring: its capacity bounds the entries between the oldest and the newest. An append to
 * a full log returns -ENOSPC until it is trimmed.
 *
 * Thread safety: any number of threads may append, wait, read and trim at the same time. Other
 * calls need exclusive access. An area is open once at a time. In a child of fork() append, wait and
 * trim return -EPERM; it may read entries that were there before.
 */
#ifndef FATHOM_PM_WAL_H
#define FATHOM_PM_WAL_H

#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/pm.h"

FTH_BEGIN_DECLS

struct fth_pm_wal;

#define FTH_PM_WAL_ENTRY 16u /* bytes that an entry takes beside its own, rounded up to 8 */

struct fth_pm_wal_info {
	uint64_t bytes;	   /* of the area */
	uint64_t capacity; /* bytes for entries */
	uint64_t used;	   /* of these */
	uint64_t entries;  /* that are in it */
	uint64_t oldest;   /* the number of the oldest entry, or `next` if there is none */
	uint64_t durable;  /* entries with numbers below it need no wait */
	uint64_t next;	   /* the number of the next entry */
};

/*
 * Bytes of persistent memory that a log takes whose entries have `capacity` bytes in all: a multiple
 * of 4096, from 4096 to 16 GiB. 0 if the capacity is invalid.
 */
uint64_t fth_pm_wal_bytes(uint64_t capacity);

/*
 * Create an empty log at byte `offset`, a multiple of 4096, of the memory, over whatever is there.
 * The memory must stay mapped while the log is open. Blocks as fth_pm_persist() does. Returns 0;
 * -EINVAL for an invalid capacity or offset; -ERANGE if the memory is too small; -EROFS; -EPERM in a
 * child of fork(); -ENOMEM; or the error of a persist. After an error there is no log at `offset`.
 */
int fth_pm_wal_create(struct fth_pm *pm, uint64_t offset, uint64_t capacity,
		      struct fth_pm_wal **out);

/*
 * Open the log at byte `offset`, find its entries and make them persistent: those that a crash left
 * without a wait are as certain afterwards as all others. Reads all of the area. On memory that is
 * mapped read-only, nothing is written. Blocks as fth_pm_persist() does. Returns 0; -ENOENT if none
 * was created there: the header is zero, or a creation was interrupted; -EBADMSG if it is damaged,
 * or something else is there; -EINVAL; -ERANGE; -EPERM in a child of fork(); -ENOMEM; -EOVERFLOW
 * after 268 million openings for writing; or the error of a persist.
 */
int fth_pm_wal_open(struct fth_pm *pm, uint64_t offset, struct fth_pm_wal **out);

/*
 * Open the log at byte `offset`, or create it if none was created there. A damaged log is left as it
 * is. Returns the same values as open and create; -EINVAL also if the log there has another
 * capacity.
 */
int fth_pm_wal_open_or_create(struct fth_pm *pm, uint64_t offset, uint64_t capacity,
			      struct fth_pm_wal **out);

/* Release the log; the entries stay. Does not wait for appends. Accepts NULL. */
void fth_pm_wal_close(struct fth_pm_wal *wal);

/* Sizes and numbers, as they are now. Any thread. */
void fth_pm_wal_info(struct fth_pm_wal *wal, struct fth_pm_wal_info *info);

/*
 * Append an entry of `bytes` bytes, 0 included, and set *number to its number; `number` may be NULL.
 * Any thread; does not wait for a device (a window() is persisted at once). Returns 0; -ENOSPC if
 * the log is full; -EINVAL if the entry has 1 GiB or more, or would not fit into the empty log;
 * -EROFS; -EPERM; or the error of an earlier persist: then nothing was appended. After the error of
 * a persist the entry may or may not be there after a crash.
 */
int fth_pm_wal_append(struct fth_pm_wal *wal, const void *data, uint32_t bytes, uint64_t *number);

/*
 * Wait until the entry `number` and all before it are persistent. Any thread. Blocks as
 * fth_pm_persist() does, unless they are persistent already. Returns 0; -EINVAL if there is no such
 * entry yet; -EROFS; -EPERM; or the error of the persist: then no entry that was not persistent
 * before is certain to survive.
 */
int fth_pm_wal_wait(struct fth_pm_wal *wal, uint64_t number);

/*
 * Read the entry with the number *cursor into `out`, and set *cursor to the number of the next one;
 * 0 is the oldest. Only persistent entries are read. Any thread; does not block. Returns the bytes
 * of the entry; -ENOENT after the newest persistent entry; -EMSGSIZE if the entry has more than
 * `capacity` bytes; -ESTALE if it was trimmed; -EBADMSG if it is damaged, or *cursor is not the
 * number of an entry. After an error *cursor is unchanged, and `out` holds anything.
 */
int64_t fth_pm_wal_read(struct fth_pm_wal *wal, uint64_t *cursor, void *out, uint32_t capacity);

/*
 * Remove all entries with numbers below `number`, persistently, so that their space can be used
 * again: the cursor of the first entry to keep, or `next` of fth_pm_wal_info() for none. Numbers up
 * to the oldest remove nothing. Any thread; blocks as fth_pm_persist() does, and other trims
 * meanwhile. Returns 0; -EINVAL if `number` is above `next`, or not the number of an entry; -EBADMSG
 * if an entry before it is damaged; -EROFS; -EPERM; or the error of the persist: then the entries
 * may or may not be there after a crash.
 */
int fth_pm_wal_trim(struct fth_pm_wal *wal, uint64_t number);

FTH_END_DECLS
#endif
