/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conventional log, for host and device: partitions, each with a lock, to which entries of any size
 * are appended.
 *
 *	0	epoch of the partition, with a check of its own (log_layout.h)
 *	128	entries, each at a multiple of 8:
 *		word: length, and the check word in the upper half; payload
 *
 * Locks are not persistent, nor is the end of a partition: fth_pm_conv_scan() finds it. The lock is
 * held across the fence, so that entry n is persistent before n + 1 is stored. Waiting for a lock
 * ends with the view's timeout.
 */
#ifndef FATHOM_DETAIL_PM_CONV_H
#define FATHOM_DETAIL_PM_CONV_H

#include "fathom/detail/pm/log_view.h"

#define FTH_PM_CONV_FIRST 128u /* byte of the first entry of a partition */
#define FTH_PM_CONV_WORD  8u   /* bytes before the payload */

FTH_HD uint8_t *fth_pm_conv_at(const struct fth_pm_log_view *log, uint32_t part, uint32_t offset)
{
	return log->data + (uint64_t)part * log->partition_bytes + offset;
}

/* Bytes that an entry takes; 0 if no partition has so many. */
FTH_HD uint32_t fth_pm_conv_space(const struct fth_pm_log_view *log, uint32_t bytes)
{
	uint32_t most = log->partition_bytes - FTH_PM_CONV_FIRST - FTH_PM_CONV_WORD;

	return bytes > most ? 0 : FTH_PM_CONV_WORD + (bytes + 7) / 8 * 8;
}

/* Word k of 8 bytes of data; zeroes follow its last byte. */
FTH_HD uint64_t fth_pm_conv_word_(const void *data, uint32_t bytes, uint32_t k)
{
	uint64_t word = 0;
	uint32_t left = bytes - 8 * k;

	if (left >= 8)
		return fth_pm_log_chunk(data, 2 * k) | (uint64_t)fth_pm_log_chunk(data, 2 * k + 1)
							       << 32;
	for (uint32_t i = 0; i < left; i++)
		word |= (uint64_t)((const uint8_t *)data)[8 * k + i] << 8 * i;
	return word;
}

FTH_HD uint32_t fth_pm_conv_add_(uint32_t sum, uint64_t word)
{
	return fth_pm_log_mix(fth_pm_log_mix(sum, (uint32_t)word), (uint32_t)(word >> 32));
}

/* ---- locks ---- */

/* acquire: what the last holder stored is seen. */
FTH_HD bool fth_pm_conv_try_lock_(struct fth_pm_conv_part *p)
{
	uint32_t unlocked = 0;

	return fth_load_relaxed_dev32(&p->lock) == 0 &&
	       fth_cas_acquire_dev32(&p->lock, &unlocked, 1);
}

/* release: the next holder sees what this one stored. */
FTH_HD void fth_pm_conv_unlock_(struct fth_pm_conv_part *p)
{
	fth_store_release_dev32(&p->lock, 0);
}

/* ---- with the lock held ---- */

FTH_HD int fth_pm_conv_append_(const struct fth_pm_log_view *log, uint32_t part, const void *data,
			       uint32_t bytes)
{
	struct fth_pm_conv_part *p = &log->partitions[part];
	uint32_t space = fth_pm_conv_space(log, bytes), words = (bytes + 7) / 8, sum;
	uint64_t *to = (uint64_t *)(void *)fth_pm_conv_at(log, part, p->tail);
	int rc;

	if (space > log->partition_bytes - p->tail)
		return -ENOSPC;
	sum = fth_pm_log_mix(fth_pm_log_seed(log->salt, part, p->tail), bytes);
	for (uint32_t k = 0; k < words; k++) {
		uint64_t word = fth_pm_conv_word_(data, bytes, k);

		fth_pm_put64(&log->pm, to + 1 + k, word);
		sum = fth_pm_conv_add_(sum, word);
	}
	fth_pm_put64(&log->pm, to, (uint64_t)fth_pm_log_check_word(sum, p->epoch) << 32 | bytes);
	rc = fth_pm_persist_range(&log->pm, to, space);
	if (rc == 0) {
		p->tail += space;
		p->count++;
	}
	return rc;
}

/* The length of the entry at `offset`, or -ENOENT if there is none. */
FTH_HD int64_t fth_pm_conv_entry_(const struct fth_pm_log_view *log, uint32_t part, uint32_t offset)
{
	const uint64_t *from = (const uint64_t *)(void *)fth_pm_conv_at(log, part, offset);
	uint32_t epoch = log->partitions[part].epoch, bytes, space, sum;
	uint64_t word;

	if (offset > log->partition_bytes - FTH_PM_CONV_WORD)
		return -ENOENT;
	word = fth_load_relaxed_sys64(from);
	bytes = (uint32_t)word;
	space = fth_pm_conv_space(log, bytes);
	if (word == 0 || space == 0 || space > log->partition_bytes - offset)
		return -ENOENT;
	sum = fth_pm_log_mix(fth_pm_log_seed(log->salt, part, offset), bytes);
	for (uint32_t k = 0; k < (bytes + 7) / 8; k++)
		sum = fth_pm_conv_add_(sum, fth_load_relaxed_sys64(from + 1 + k));
	return fth_pm_log_check_word(sum, epoch) == word >> 32 ? (int64_t)bytes : -ENOENT;
}

FTH_HD int fth_pm_conv_remove_(const struct fth_pm_log_view *log, uint32_t part)
{
	struct fth_pm_conv_part *p = &log->partitions[part];
	uint32_t at = FTH_PM_CONV_FIRST, last = 0;
	uint64_t *word;
	int rc;

	while (at < p->tail) {
		int64_t bytes = fth_pm_conv_entry_(log, part, at);

		if (bytes < 0)
			return -EBADMSG;
		last = at;
		at += fth_pm_conv_space(log, (uint32_t)bytes);
	}
	if (last == 0)
		return -ENOENT;
	word = (uint64_t *)(void *)fth_pm_conv_at(log, part, last);
	fth_pm_put64(&log->pm, word, 0);
	rc = fth_pm_persist_range(&log->pm, word, sizeof(*word));
	if (rc == 0) {
		p->tail = last;
		p->count--;
	}
	return rc;
}

/*
 * Zeroes in place of what was there: epochs begin anew. From the first entry on nothing is found.
 */
FTH_HD int fth_pm_conv_wipe_(const struct fth_pm_log_view *log, uint32_t part)
{
	uint64_t *first = (uint64_t *)(void *)fth_pm_conv_at(log, part, FTH_PM_CONV_FIRST);
	uint32_t bytes = log->partition_bytes - FTH_PM_CONV_FIRST;
	int rc;

	fth_pm_put64(&log->pm, first, 0);
	rc = fth_pm_persist_range(&log->pm, first, sizeof(*first));
	if (rc < 0)
		return rc;
	for (uint32_t k = 1; k < bytes / 8; k++)
		fth_pm_put64(&log->pm, first + k, 0);
	return fth_pm_persist_range(&log->pm, first, bytes);
}

FTH_HD int fth_pm_conv_clear_(const struct fth_pm_log_view *log, uint32_t part)
{
	uint64_t *word = (uint64_t *)(void *)fth_pm_conv_at(log, part, 0);
	struct fth_pm_conv_part *p = &log->partitions[part];
	uint32_t epoch = p->epoch == FTH_PM_LOG_EPOCH_MAX ? 1 : p->epoch + 1;
	int rc = epoch == 1 ? fth_pm_conv_wipe_(log, part) : 0;

	if (rc < 0)
		return rc;
	fth_pm_put64(&log->pm, word, fth_pm_log_epoch_word(epoch, log->salt, part));
	rc = fth_pm_persist_range(&log->pm, word, sizeof(*word));
	if (rc == 0) {
		p->epoch = epoch;
		p->tail = FTH_PM_CONV_FIRST;
		p->count = 0;
	}
	return rc;
}

/* ---- for any thread ---- */

/* Let others run for a moment; has the deadline passed? */
FTH_HD bool fth_pm_conv_pause_(struct fth_backoff *backoff, uint64_t deadline)
{
#ifdef FTH_PM_ON_GPU_
	(void)backoff;
	__nanosleep(20);
	return fth_now_ns() >= deadline;
#else
	return fth_backoff_expired(backoff, deadline);
#endif
}

enum fth_pm_conv_action { FTH_PM_CONV_APPEND, FTH_PM_CONV_REMOVE, FTH_PM_CONV_CLEAR };

/*
 * Lanes of a warp may want the same lock: the lane that has it acts and releases it inside the
 * loop.
 */
FTH_HD int fth_pm_conv_locked_(const struct fth_pm_log_view *log, uint32_t part,
			       enum fth_pm_conv_action action, const void *data, uint32_t bytes)
{
	struct fth_backoff backoff = {0};
	uint64_t deadline = 0;
	int rc;

	for (;;) {
		if (fth_pm_conv_try_lock_(&log->partitions[part])) {
			if (action == FTH_PM_CONV_APPEND)
				rc = fth_pm_conv_append_(log, part, data, bytes);
			else if (action == FTH_PM_CONV_REMOVE)
				rc = fth_pm_conv_remove_(log, part);
			else
				rc = fth_pm_conv_clear_(log, part);
			fth_pm_conv_unlock_(&log->partitions[part]);
			return rc;
		}
		if (deadline == 0)
			deadline = fth_deadline_ns(log->pm.timeout_ns);
		else if (fth_pm_conv_pause_(&backoff, deadline))
			return -ETIMEDOUT;
	}
}

/*
 * Append an entry to a partition, and make it persistent. Any number of threads may call it at the
 * same time. On a GPU data is aligned to 4 bytes. 0; -ENOSPC if the partition is full; -ETIMEDOUT
 * if the lock was not free in time; -EINVAL; or the error of the persist: then the entry may or may
 * not be found after a crash, and is not counted.
 */
FTH_HD int fth_pm_conv_insert(const struct fth_pm_log_view *log, uint32_t part, const void *data,
			      uint32_t bytes)
{
	if (part >= log->parts || fth_pm_conv_space(log, bytes) == 0)
		return -EINVAL;
	return fth_pm_conv_locked_(log, part, FTH_PM_CONV_APPEND, data, bytes);
}

/* Remove the newest entry of a partition, persistently. -ENOENT if there is none, and as above. */
FTH_HD int fth_pm_conv_remove(const struct fth_pm_log_view *log, uint32_t part)
{
	if (part >= log->parts)
		return -EINVAL;
	return fth_pm_conv_locked_(log, part, FTH_PM_CONV_REMOVE, NULL, 0);
}

/* Remove all entries of a partition, persistently. Returns as above. */
FTH_HD int fth_pm_conv_clear(const struct fth_pm_log_view *log, uint32_t part)
{
	if (part >= log->parts)
		return -EINVAL;
	return fth_pm_conv_locked_(log, part, FTH_PM_CONV_CLEAR, NULL, 0);
}

/*
 * Read the entry at *cursor, 0 for the oldest, and move *cursor to the next. Nobody may append to
 * or remove from the partition meanwhile. Returns its bytes; -ENOENT behind the last; -EMSGSIZE if
 * it has more than `capacity`; -EBADMSG if it is damaged; -EINVAL.
 */
FTH_HD int64_t fth_pm_conv_read(const struct fth_pm_log_view *log, uint32_t part, uint64_t *cursor,
				void *out, uint32_t capacity)
{
	uint64_t at = *cursor == 0 ? FTH_PM_CONV_FIRST : *cursor;
	int64_t bytes;

	if (part >= log->parts || at < FTH_PM_CONV_FIRST || at % 8)
		return -EINVAL;
	if (at >= log->partitions[part].tail)
		return -ENOENT;
	bytes = fth_pm_conv_entry_(log, part, (uint32_t)at);
	if (bytes < 0)
		return -EBADMSG;
	if (bytes > capacity)
		return -EMSGSIZE;
	memcpy(out, fth_pm_conv_at(log, part, (uint32_t)at + FTH_PM_CONV_WORD), (size_t)bytes);
	*cursor = at + fth_pm_conv_space(log, (uint32_t)bytes);
	return bytes;
}

/* Is the entry at `offset`, which is not valid, followed by one that is? No crash leaves that. */
FTH_HD bool fth_pm_conv_damaged_(const struct fth_pm_log_view *log, uint32_t part, uint32_t offset)
{
	const uint64_t *word = (const uint64_t *)(void *)fth_pm_conv_at(log, part, offset);
	uint32_t space;

	if (offset > log->partition_bytes - FTH_PM_CONV_WORD)
		return false;
	space = fth_pm_conv_space(log, (uint32_t)fth_load_relaxed_sys64(word));
	return space != 0 && space <= log->partition_bytes - offset &&
	       fth_pm_conv_entry_(log, part, offset + space) >= 0;
}

/*
 * Find the entries of a partition after a crash: sets its volatile state. 0, or -EBADMSG if its
 * epoch is damaged, or an entry before the last one.
 */
FTH_HD int fth_pm_conv_scan(const struct fth_pm_log_view *log, uint32_t part)
{
	uint64_t word = fth_load_relaxed_sys64((uint64_t *)(void *)fth_pm_conv_at(log, part, 0));
	struct fth_pm_conv_part *p = &log->partitions[part];
	int64_t bytes;

	p->lock = 0;
	p->count = 0;
	p->tail = FTH_PM_CONV_FIRST;
	p->epoch = fth_pm_log_epoch_of(word, log->salt, part);
	if (p->epoch == 0)
		return -EBADMSG;
	while ((bytes = fth_pm_conv_entry_(log, part, p->tail)) >= 0) {
		p->tail += fth_pm_conv_space(log, (uint32_t)bytes);
		p->count++;
	}
	return fth_pm_conv_damaged_(log, part, p->tail) ? -EBADMSG : 0;
}

#endif
