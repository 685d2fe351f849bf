/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions: the layout of their area, and the steps of an undo log, for CPU and GPU.
 * fathom/pm/tx.h is the interface.
 *
 *	area	header of 64 bytes, then undo logs of log_bytes each
 *	log	a line with `sequence` and `fenced`, then the entries, one after the other
 *	entry	{offset, length, sequence, previous, check}, then the old bytes, padded to a
 *		multiple of 64 in all
 *
 * Invariants:
 *
 *	1. The entries of a log's open transaction are the longest run from the start of the log
 *	   whose entries have the log's sequence and a matching check. Anything after them is old or
 *	   torn, unless `fenced` covers it: then it is damaged.
 *	2. Bytes are changed only after the entry with their old contents is persistent.
 *	3. The sequence is incremented when the new bytes (commit) or the old ones (abort,
 *	   recovery) are persistent. From then on the entries are void. It is one word, so it is
 *	   never torn, and carries a check of its own.
 *	4. `fenced` says up to where the entries of a sequence were persistent. It is stored after
 *	   their fence, so it never covers a torn entry; and before the caller changes the bytes of
 *	   these entries.
 *
 * `fenced` has no fence of its own: it becomes persistent with the log's next one, at the latest
 * with that of commit which writes the new bytes. A crash during that one may keep new bytes and
 * lose `fenced`: then a damaged entry of the last fence passes for a torn one.
 *
 * Recovery restores the old bytes of open transactions, last entry first, and can itself be
 * interrupted: until the sequence is incremented it does the same again. `salt` is part of each
 * check: entries that an earlier area left in the same place do not verify.
 */
#ifndef FATHOM_DETAIL_PM_TX_H
#define FATHOM_DETAIL_PM_TX_H

#include "fathom/base/rng.h"
#include "fathom/detail/pm/view.h"

#define FTH_PM_TX_MAGIC	  0x317874706d687466u /* "fthmptx1" */
#define FTH_PM_TX_VERSION 2u
/*
 * Stored sequences are multiples of it. It is a prime with the primitive root 2: no one or two
 * flipped bits make another multiple.
 */
#define FTH_PM_TX_CODE 4093u

struct fth_pm_tx_header {
	uint64_t magic;
	uint32_t version;
	uint32_t logs;
	uint64_t log_bytes; /* with the line of the sequence; a multiple of 64 */
	uint64_t salt;
	uint64_t pad[3];
	uint64_t check; /* of the words from version on */
};

struct fth_pm_tx_entry {
	uint64_t offset; /* from the view's base */
	uint64_t length;
	uint64_t sequence;
	uint64_t previous; /* offset in the log of the entry before; 0: none */
	uint64_t check;	   /* of the words before, the salt, the log and the old bytes */
};

/* The first line of an undo log. */
struct fth_pm_tx_line {
	uint64_t sequence; /* times FTH_PM_TX_CODE */
	uint64_t fenced;   /* fth_pm_tx_fenced_() */
};

/* An undo log in use; volatile. */
struct fth_pm_undo {
	const struct fth_pm_view *view;
	uint8_t *at;	   /* of the log, as this processor sees it */
	uint64_t capacity; /* log_bytes */
	uint64_t seed;	   /* of its checks */
	uint64_t sequence; /* 0: the stored one is damaged */
	uint64_t used;	   /* bytes, with the first line; 0: no transaction is open */
	uint64_t last;	   /* offset of the last entry; 0: none */
};

FTH_HD uint64_t fth_pm_tx_mix_(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

/* Of the words of a header from version on, up to its check. */
FTH_HD uint64_t fth_pm_tx_header_check(const struct fth_pm_tx_header *h)
{
	uint64_t check = fth_pm_tx_mix_(FTH_PM_TX_MAGIC, ((uint64_t)h->logs << 32) | h->version);

	check = fth_pm_tx_mix_(check, h->log_bytes);
	return fth_pm_tx_mix_(check, h->salt);
}

/* `length` bytes at `from`, the last word filled with zeroes. */
FTH_HD uint64_t fth_pm_tx_check_(const struct fth_pm_undo *log, const struct fth_pm_tx_entry *e,
				 const uint8_t *from)
{
	uint64_t h = log->seed, word, i;

	h = fth_pm_tx_mix_(h, e->offset);
	h = fth_pm_tx_mix_(h, e->length);
	h = fth_pm_tx_mix_(h, e->sequence);
	h = fth_pm_tx_mix_(h, e->previous);
	for (i = 0; i + 8 <= e->length; i += 8) {
		memcpy(&word, from + i, 8);
		h = fth_pm_tx_mix_(h, word);
	}
	if (i < e->length) {
		word = 0;
		memcpy(&word, from + i, e->length - i);
		h = fth_pm_tx_mix_(h, word);
	}
	return fth_mix64(h);
}

FTH_HD uint64_t fth_pm_tx_entry_bytes_(uint64_t length)
{
	return (sizeof(struct fth_pm_tx_entry) + length + FTH_PM_LINE - 1) &
	       ~(uint64_t)(FTH_PM_LINE - 1);
}

FTH_HD struct fth_pm_tx_line *fth_pm_tx_line_(const struct fth_pm_undo *log)
{
	return (struct fth_pm_tx_line *)(void *)log->at;
}

/*
 * The mark for entries up to byte `end` of a log: their sequence, and the end in lines. A log has
 * 2^34 lines at most.
 */
FTH_HD uint64_t fth_pm_tx_fenced_(uint64_t sequence, uint64_t end)
{
	return sequence << 34 | end / FTH_PM_LINE;
}

/* Undo log `number` of an area at `area`; reads the header, which was checked. */
FTH_HD void fth_pm_undo_init(struct fth_pm_undo *log, const struct fth_pm_view *view, uint8_t *area,
			     uint32_t number)
{
	const struct fth_pm_tx_header *h = (const struct fth_pm_tx_header *)(const void *)area;
	uint64_t word;

	log->view = view;
	log->at = area + sizeof(*h) + number * h->log_bytes;
	log->capacity = h->log_bytes;
	log->seed = fth_mix64(h->salt + number);
	word = fth_pm_tx_line_(log)->sequence;
	log->sequence = word % FTH_PM_TX_CODE == 0 ? word / FTH_PM_TX_CODE : 0;
	log->used = log->last = 0;
}

FTH_HD int fth_pm_undo_begin(struct fth_pm_undo *log)
{
	if (log->used)
		return -EBUSY;
	if (log->sequence == 0)
		return -EBADMSG;
	log->used = FTH_PM_LINE;
	log->last = 0;
	return 0;
}

/* Log the old bytes; they may be changed after fth_pm_undo_fence(). -ENOSPC if the log is full. */
FTH_HD int fth_pm_undo_append(struct fth_pm_undo *log, const void *ptr, uint64_t length)
{
	const struct fth_pm_view *view = log->view;
	uint8_t *to = log->at + log->used;
	struct fth_pm_tx_entry e;

	if (!log->used)
		return -EINVAL;
	if (length > log->capacity || fth_pm_tx_entry_bytes_(length) > log->capacity - log->used)
		return -ENOSPC;
	e.offset = (uint64_t)((const uint8_t *)ptr - view->base);
	e.length = length;
	e.sequence = log->sequence;
	e.previous = log->last;
	e.check = fth_pm_tx_check_(log, &e, (const uint8_t *)ptr);
	fth_pm_put(view, to, &e, sizeof(e));
	fth_pm_put(view, to + sizeof(e), ptr, length);
	fth_pm_flush_range(view, to, sizeof(e) + length);
	log->last = log->used;
	log->used += fth_pm_tx_entry_bytes_(length);
	return 0;
}

/* Make all entries that were logged persistent, and say so: invariant 4. */
FTH_HD int fth_pm_undo_fence(const struct fth_pm_undo *log)
{
	uint64_t *fenced = &fth_pm_tx_line_(log)->fenced;
	int rc = fth_pm_fence(log->view);

	if (rc < 0)
		return rc;
	fth_pm_put64(log->view, fenced, fth_pm_tx_fenced_(log->sequence, log->used));
	fth_pm_flush_range(log->view, fenced, sizeof(*fenced));
	return 0;
}

/* Invariant 3: what was flushed before becomes persistent, then the entries stop to count. */
FTH_HD int fth_pm_undo_end_(struct fth_pm_undo *log)
{
	uint64_t *sequence = &fth_pm_tx_line_(log)->sequence;
	int rc = fth_pm_fence(log->view);

	if (rc < 0)
		return rc;
	fth_pm_put64(log->view, sequence, (log->sequence + 1) * FTH_PM_TX_CODE);
	rc = fth_pm_persist_range(log->view, sequence, sizeof(*sequence));
	if (rc < 0)
		return rc;
	log->sequence++;
	log->used = 0;
	return 0;
}

FTH_HD int fth_pm_undo_commit(struct fth_pm_undo *log)
{
	const uint8_t *base = log->view->base;

	if (!log->used)
		return -EINVAL;
	if (log->used == FTH_PM_LINE) { /* nothing was added */
		log->used = 0;
		return 0;
	}
	for (uint64_t at = FTH_PM_LINE; at < log->used;) {
		const struct fth_pm_tx_entry *e =
			(const struct fth_pm_tx_entry *)(const void *)(log->at + at);

		fth_pm_flush_range(log->view, base + e->offset, e->length);
		at += fth_pm_tx_entry_bytes_(e->length);
	}
	return fth_pm_undo_end_(log);
}

/*
 * Put the old bytes back, last entry first: of a range that was added twice the first entry is the
 * oldest.
 */
FTH_HD int fth_pm_undo_restore_(struct fth_pm_undo *log)
{
	uint64_t at = log->last;

	while (at) {
		const struct fth_pm_tx_entry *e =
			(const struct fth_pm_tx_entry *)(const void *)(log->at + at);

		fth_pm_put(log->view, log->view->base + e->offset, e + 1, e->length);
		fth_pm_flush_range(log->view, log->view->base + e->offset, e->length);
		at = e->previous;
	}
	return fth_pm_undo_end_(log);
}

/* By invariant 1: whether a fence had made entries persistent that are not there now. */
FTH_HD bool fth_pm_undo_damaged_(const struct fth_pm_undo *log)
{
	uint64_t fenced = fth_pm_tx_line_(log)->fenced;
	uint64_t found = fth_pm_tx_fenced_(log->sequence, log->used);

	return log->sequence == 0 || (fenced >> 34 == found >> 34 && fenced > found);
}

/*
 * Entries that count, by invariant 1: `used` becomes their end. Trusts nothing but the header.
 * Returns their number, or -EBADMSG if the log is damaged.
 */
FTH_HD int64_t fth_pm_undo_scan(struct fth_pm_undo *log)
{
	int64_t count = 0;

	log->used = FTH_PM_LINE;
	log->last = 0;
	while (log->capacity - log->used >= sizeof(struct fth_pm_tx_entry)) {
		struct fth_pm_tx_entry e;

		memcpy(&e, log->at + log->used, sizeof(e));
		if (e.sequence != log->sequence || e.previous != log->last ||
		    e.length > log->capacity - log->used - sizeof(e) ||
		    e.offset > log->view->size || e.length > log->view->size - e.offset ||
		    e.check != fth_pm_tx_check_(log, &e, log->at + log->used + sizeof(e)))
			break;
		log->last = log->used;
		log->used += fth_pm_tx_entry_bytes_(e.length);
		count++;
	}
	return fth_pm_undo_damaged_(log) ? -EBADMSG : count;
}

FTH_HD int fth_pm_undo_abort(struct fth_pm_undo *log)
{
	return log->used ? fth_pm_undo_restore_(log) : -EINVAL;
}

/*
 * May a slot hold an entry of this sequence? A crash before the fence of several entries can leave
 * a whole one behind a torn one, and a later transaction with the same sequence would take it for
 * its own.
 */
FTH_HD bool fth_pm_undo_stale_(const struct fth_pm_undo *log)
{
	for (uint64_t at = FTH_PM_LINE; at < log->capacity; at += FTH_PM_LINE)
		if (((const struct fth_pm_tx_entry *)(const void *)(log->at + at))->sequence ==
		    log->sequence)
			return true;
	return false;
}

/* Roll an open transaction back. Returns the number of its entries, or a negative errno. */
FTH_HD int64_t fth_pm_undo_recover(struct fth_pm_undo *log)
{
	int64_t count = fth_pm_undo_scan(log);
	int rc = count < 0 ? (int)count : 0;

	if (count > 0 || (count == 0 && fth_pm_undo_stale_(log)))
		rc = fth_pm_undo_restore_(log);
	log->used = log->last = 0;
	return rc < 0 ? rc : count;
}

#endif
