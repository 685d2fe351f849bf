/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transactions on persistent memory: changes of several places that survive a crash together or not
 * at all.
 *
 *	struct fth_pm_tx *tx;
 *
 *	fth_pm_tx_open_or_create(pm, offset, 4, 64u << 10, &tx);
 *	fth_pm_tx_begin(tx, 0);
 *	fth_pm_tx_add(tx, 0, &debit[i], sizeof(debit[i]));
 *	fth_pm_tx_add(tx, 0, &credit[i], sizeof(credit[i]));
 *	debit[i] -= amount;
 *	credit[i] += amount;
 *	fth_pm_tx_commit(tx, 0);
 *	fth_pm_tx_close(tx);
 *
 * The old contents are logged before they are changed. An area of the memory itself holds a number
 * of undo logs, each for one transaction at a time; `log` is the number of one. After a crash
 * fth_pm_tx_open() puts back the old contents of all transactions that were not committed. If the
 * crash tore the entry of a range, the range was not changed yet, and the entry does not count. A
 * mark that says how far the undo log is persistent distinguishes a damaged entry from a torn one;
 * it is stored after each add and becomes persistent with the next add or commit. Exception: if the
 * power fails before commit has written the changed ranges, damage to an entry of the last add may
 * pass for a torn one.
 *
 * Thread safety: different undo logs may be used by different threads at the same time; one of them
 * by one thread at a time. The library does not isolate transactions: two open transactions must
 * not change the same bytes.
 *
 * Kernels of a GPU use undo logs through fathom/detail/pm/tx.h, and the CPU recovers them.
 */
#ifndef FATHOM_PM_TX_H
#define FATHOM_PM_TX_H

#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/pm.h"

FTH_BEGIN_DECLS

struct fth_pm_tx;

#define FTH_PM_TX_LOGS_MAX 1048576u

/*
 * Bytes of an area of `logs` undo logs. `log_bytes` is rounded up to a multiple of 64. 0 if an
 * argument is invalid.
 */
uint64_t fth_pm_tx_bytes(uint32_t logs, uint64_t log_bytes);

/*
 * Make an area at offset `at` of the memory, a multiple of 64. An undo log needs 64 bytes, and for
 * each added range 40 and the old bytes, rounded up to a multiple of 64. What was there before is
 * lost. Blocks as fth_pm_persist() does. Returns 0; -EINVAL for invalid arguments; -ERANGE if the
 * area does not fit; -EBUSY if an area that overlaps it is open; -EROFS if the memory is mapped for
 * reading; -ENOMEM; or the error of persist.
 */
int fth_pm_tx_create(struct fth_pm *pm, uint64_t at, uint32_t logs, uint64_t log_bytes,
		     struct fth_pm_tx **out);

/*
 * Open an area and roll back the transactions that were open. Returns 0; -ENOENT if none was
 * created at this offset: the header is zero, or a creation was interrupted; -EBADMSG if it is
 * damaged, or something else is there, and then nothing was changed; -EINVAL or -ERANGE for an
 * invalid offset; -EBUSY if it is open already; -EROFS if the memory is mapped for reading;
 * -ENOMEM; or the error of persist. After damage fth_pm_tx_create() makes a new area; what the open
 * transactions had changed stays.
 */
int fth_pm_tx_open(struct fth_pm *pm, uint64_t at, struct fth_pm_tx **out);

/*
 * Open an area as fth_pm_tx_open() does, or create it if none was created at this offset. A damaged
 * one is left as it is. Returns the same values as open and create; -EINVAL also if the area there
 * has other logs.
 */
int fth_pm_tx_open_or_create(struct fth_pm *pm, uint64_t at, uint32_t logs, uint64_t log_bytes,
			     struct fth_pm_tx **out);

/*
 * Close it, before the memory is unmapped. Open transactions stay as they are: the next open rolls
 * them back. Accepts NULL.
 */
void fth_pm_tx_close(struct fth_pm_tx *tx);

/* The number of undo logs, and of those that open rolled back. Any thread. */
uint32_t fth_pm_tx_logs(const struct fth_pm_tx *tx);
uint32_t fth_pm_tx_rolled_back(const struct fth_pm_tx *tx);

/*
 * Begin a transaction in an undo log. Does not block. Returns 0; -EBUSY if the log has one; -EINVAL
 * for a log that is not there.
 */
int fth_pm_tx_begin(struct fth_pm_tx *tx, uint32_t log);

/*
 * Log the old contents of [ptr, ptr + length). The caller may change the range after this has
 * returned
 * 0. Returns 0; -ERANGE outside of the memory or inside of the area; -ENOSPC if the undo log is
 *    full; -EINVAL without a transaction; or the error of persist.
 */
int fth_pm_tx_add(struct fth_pm_tx *tx, uint32_t log, const void *ptr, uint64_t length);

/*
 * The same for n ranges, with one wait for all of them. After an error none of them may be changed.
 */
struct fth_pm_range {
	const void *ptr;
	uint64_t length;
};
int fth_pm_tx_add_all(struct fth_pm_tx *tx, uint32_t log, const struct fth_pm_range *ranges,
		      unsigned n);

/*
 * Commit the transaction: make the present contents of all added ranges persistent. Returns 0;
 * -EINVAL without a transaction; or the error of persist: the transaction is then still open, and
 * after a crash it is either committed or rolled back.
 */
int fth_pm_tx_commit(struct fth_pm_tx *tx, uint32_t log);

/*
 * Put the old contents back and end the transaction. Returns 0, -EINVAL without a transaction, or
 * the error of persist.
 */
int fth_pm_tx_abort(struct fth_pm_tx *tx, uint32_t log);

/*
 * Check an area without changing it; the memory may be mapped read-only. Sets *logs, unless NULL,
 * to the number of undo logs. Returns the number of them with an open transaction; or -ENOENT,
 * -EBADMSG, -EINVAL or -ERANGE as fth_pm_tx_open().
 */
int64_t fth_pm_tx_check(struct fth_pm *pm, uint64_t at, uint32_t *logs);

FTH_END_DECLS
#endif
