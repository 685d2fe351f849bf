/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs in persistent memory, for CPU threads and GPU threads. A log written by one is read by the
 * other.
 *
 *	hierarchical	each thread has slots of its own, for entries of one size. There are no
 *	coalesced (HCL)	locks; the 32 threads of a warp fill stripes of 128 bytes together. For
 *			kernels in which all threads log.
 *	conventional	partitions with a lock each, for entries of any size. For few threads, and
 *			for the CPU.
 *
 * For threads of the CPU alone there is a third kind, with one sequence of entries for all threads:
 * fathom/pm/wal.h. On a disk it is faster than both, since the entries of all threads share pages.
 *
 * An insertion that has returned 0 has the guarantee of the memory (fathom/pm.h). An insertion that
 * a crash interrupted is dropped when the log is opened: entries carry a check word of 32 bits over
 * payload, place and epoch, and a torn entry matches in one case of 2^31. For the same reason a
 * damaged bit in the newest entry of a part drops that entry. Damage to an older entry, to the
 * header or to an epoch is reported with -EBADMSG. Exception: if the length of an entry of a
 * conventional log is damaged, this entry and all later ones of the partition are dropped without
 * an error.
 *
 *	struct fth_pm_log_shape shape = {.blocks = 2, .threads = 64};
 *	struct fth_pm_log *log;
 *
 *	shape.entry_bytes = sizeof(record);
 *	shape.entries = 4;
 *	fth_pm_log_open_or_create_hcl(pm, 0, &shape, &log);
 *	fth_pm_log_insert(log, 7, record, sizeof(record));
 *	...
 *	fth_pm_log_clear(log);
 *	fth_pm_log_close(log);
 *
 * A *part* of a log is a thread of an HCL log, numbered block * (threads of a block, rounded up to
 * a multiple of 32) + thread in the block; or a partition of a conventional log.
 *
 * Thread safety: threads may use different parts at the same time, and the same partition of a
 * conventional log for insertions and removals. All other calls need exclusive access to
 * the log.
 */
#ifndef FATHOM_PM_LOG_H
#define FATHOM_PM_LOG_H

#include "fathom/base/decls.h"
#include "fathom/detail/pm/conv.h"
#include "fathom/detail/pm/hcl.h"
#include "fathom/pm.h"

FTH_BEGIN_DECLS

struct fth_pm_log;

/* The grid that an HCL log is for, and what each of its threads may log. */
struct fth_pm_log_shape {
	uint32_t blocks;      /* 1 or more */
	uint32_t threads;     /* of a block: 1 to 1024 */
	uint32_t entry_bytes; /* a multiple of 4, up to 4096 */
	uint32_t entries;     /* of each thread: 1 or more */
};

struct fth_pm_log_info {
	enum fth_pm_log_kind kind;
	struct fth_pm_log_shape shape; /* HCL; else zeroes */
	uint32_t partition_bytes;      /* conventional; else 0 */
	uint32_t parts;
	uint64_t bytes;	  /* in persistent memory */
	uint64_t entries; /* that are in it now */
};

/* Bytes of persistent memory that such a log takes, a multiple of 4096; 0 for an invalid shape. */
uint64_t fth_pm_log_hcl_bytes(const struct fth_pm_log_shape *shape);

/* The same; partition_bytes is a multiple of 128, from 256 to 1 GiB. */
uint64_t fth_pm_log_conv_bytes(uint32_t partitions, uint32_t partition_bytes);

/*
 * Create an empty log at byte `offset`, a multiple of 4096, of the memory, over whatever is there.
 * The memory must stay mapped while the log is open. 0; -EINVAL for an invalid shape or offset;
 * -ERANGE if the memory is too small; -EROFS; -ENOMEM; or the error of a persist. After an error
 * there is no log at `offset`.
 */
int fth_pm_log_create_hcl(struct fth_pm *pm, uint64_t offset, const struct fth_pm_log_shape *shape,
			  struct fth_pm_log **out);
int fth_pm_log_create_conv(struct fth_pm *pm, uint64_t offset, uint32_t partitions,
			   uint32_t partition_bytes, struct fth_pm_log **out);

/*
 * Open the log at byte `offset`, and find its entries: reads all of it, writes nothing. 0; -ENOENT
 * if none was created there: the header is zero, or a creation was interrupted; -EBADMSG if it is
 * damaged, or something else is there; -EINVAL; -ERANGE; -ENOMEM.
 */
int fth_pm_log_open(struct fth_pm *pm, uint64_t offset, struct fth_pm_log **out);

/*
 * Open the log at byte `offset`, or create it if none was created there. A damaged log is left as
 * it is. Returns the same values as open and create; -EINVAL also if the log there has another kind
 * or shape.
 */
int fth_pm_log_open_or_create_hcl(struct fth_pm *pm, uint64_t offset,
				  const struct fth_pm_log_shape *shape, struct fth_pm_log **out);
int fth_pm_log_open_or_create_conv(struct fth_pm *pm, uint64_t offset, uint32_t partitions,
				   uint32_t partition_bytes, struct fth_pm_log **out);

/* Release it; the entries stay. Accepts NULL. */
void fth_pm_log_close(struct fth_pm_log *log);

/* Kind, shape, size and number of entries. */
void fth_pm_log_info(const struct fth_pm_log *log, struct fth_pm_log_info *info);

/* Find the entries again, after a GPU has changed them. As fth_pm_log_open(). */
int fth_pm_log_rescan(struct fth_pm_log *log);

/* The number of entries of a part; 0 for one that does not exist. */
uint32_t fth_pm_log_count(const struct fth_pm_log *log, uint32_t part);

/*
 * Add an entry, and make it persistent. `bytes` of an HCL log is the size of its entries. 0;
 * -ENOSPC if the part is full; -EINVAL; -EROFS; -ETIMEDOUT if the lock of a partition was not free
 * in time; or the error of the persist: then the entry may or may not be found after a crash.
 */
int fth_pm_log_insert(struct fth_pm_log *log, uint32_t part, const void *data, uint32_t bytes);

/*
 * Read the entry at *cursor, and move *cursor to the next; 0 is the oldest. Returns its bytes;
 * -ENOENT after the newest; -EMSGSIZE if it has more than `capacity`; -EBADMSG if it is damaged;
 * -EINVAL.
 */
int64_t fth_pm_log_read(const struct fth_pm_log *log, uint32_t part, uint64_t *cursor, void *out,
			uint32_t capacity);

/*
 * Remove the newest entry of a part, persistently. Returns 0; -ENOENT if the part is empty; or an
 * error of fth_pm_log_insert().
 */
int fth_pm_log_remove(struct fth_pm_log *log, uint32_t part);

/* Remove all entries, persistently. A crash leaves a prefix of a part's entries. */
int fth_pm_log_clear(struct fth_pm_log *log);

/* For the functions below, on the CPU. Valid until the log is cleared or closed. */
struct fth_pm_log_view fth_pm_log_view(struct fth_pm_log *log);

FTH_END_DECLS

/* ---- the same for host and device ---- */

/* fth_pm_log_insert() for threads of the CPU or a GPU, with the same results. */
FTH_HD int fth_pm_log_insert_hd(const struct fth_pm_log_view *log, uint32_t part, const void *data,
				uint32_t bytes)
{
	return log->kind == FTH_PM_LOG_HCL ? fth_pm_hcl_insert(log, part, data, bytes)
					   : fth_pm_conv_insert(log, part, data, bytes);
}

/* fth_pm_log_read() for threads of the CPU or a GPU, with the same results. */
FTH_HD int64_t fth_pm_log_read_hd(const struct fth_pm_log_view *log, uint32_t part,
				  uint64_t *cursor, void *out, uint32_t capacity)
{
	int rc;

	if (log->kind != FTH_PM_LOG_HCL)
		return fth_pm_conv_read(log, part, cursor, out, capacity);
	if (capacity < log->entry_bytes)
		return -EMSGSIZE;
	if (*cursor >= log->entries)
		return -ENOENT;
	rc = fth_pm_hcl_read(log, part, (uint32_t)*cursor, out, log->entry_bytes);
	if (rc < 0)
		return rc;
	*cursor += 1;
	return log->entry_bytes;
}

/* fth_pm_log_remove() for threads of the CPU or a GPU, with the same results. */
FTH_HD int fth_pm_log_remove_hd(const struct fth_pm_log_view *log, uint32_t part)
{
	return log->kind == FTH_PM_LOG_HCL ? fth_pm_hcl_remove(log, part)
					   : fth_pm_conv_remove(log, part);
}

/*
 * The number of entries of a part. On a conventional log, call it only while no thread changes the
 * part.
 */
FTH_HD uint32_t fth_pm_log_count_hd(const struct fth_pm_log_view *log, uint32_t part)
{
	if (part >= log->parts)
		return 0;
	return log->kind == FTH_PM_LOG_HCL ? log->counts[part] : log->partitions[part].count;
}

#endif
