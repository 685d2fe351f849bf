/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A wrapper that simulates power loss, to test the durability that a program promises.
 *
 *	crash(URI)?OPTIONS
 *
 *	seed=S		seed of the power loss by crash_at
 *	crash_at=N	lose power at the Nth write, zero, discard or flush
 *	limit=1G	memory for unflushed data; above it the oldest data is written back
 *	lie=on		flush and FTH_DEV_FUA make nothing durable, as with some drives
 *	fua=off		do not support FTH_DEV_FUA
 *	timeout_ms=M	how long one operation waits for the device inside; 30000
 *
 * The wrapper is a volatile write cache. It keeps writes in memory, where reads see them, until a
 * flush brings them to the device inside. A flush covers the writes that reap had returned when the
 * flush was submitted, and not those in flight. A write with FTH_DEV_FUA is durable when reap
 * returns it; it makes no other write durable, unless their sectors overlap.
 *
 * A power loss decides at random for each write, zero and discard that is not durable: it
 * survives, vanishes, or is torn, which means that each of its 512-byte sectors survives or
 * vanishes. Survivors reach the medium in random order, so that either of two overlapping writes
 * may win in each sector. The same seed after the same operations gives the same contents. Requests
 * in flight and all later ones fail with -ENODEV until fth_dev_crash_restart(). Reads return what
 * survived from then on.
 *
 * Zeroes and discards above 16 MiB are not kept in memory: they write back all pending data and
 * are executed inside at once, as a drive may do too.
 *
 * Blocks are at least 512 bytes, even if the device inside has smaller ones. Close writes back
 * pending data without a flush, as an orderly shutdown does.
 *
 * This device is for tests and slow: operations wait for each other, and submit itself executes
 * flushes and reads of pending data. An operation that needs the device inside waits for it up to
 * timeout_ms, then fails with -ETIMEDOUT and keeps the data. As long as the device inside does not
 * answer, later operations that need it fail at once.
 */
#ifndef FATHOM_DEV_CRASH_H
#define FATHOM_DEV_CRASH_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_dev_crash_counts {
	uint64_t operations;	/* writes, zeroes, discards and flushes while the power was on */
	uint64_t pending;	/* of them neither covered by a flush nor written back */
	uint64_t pending_bytes; /* memory used by these */
	uint64_t written_back;	/* because of the limit, or of a large zero or discard */
	uint64_t crashes;
	uint64_t survived, vanished, torn; /* pending operations at all crashes */
};

/*
 * The functions below can be called from any thread. They return 0, or -EINVAL if dev is not a
 * crash device (use fth_dev_inner() for one inside a stack).
 */

/*
 * Lose power. May block, for timeout_ms at most. Returns -ENODEV if the power is off already. If
 * the device inside fails while survivors are written, the contents are unknown: this function
 * returns the error, and so does fth_dev_crash_restart().
 */
int fth_dev_crash_power_loss(struct fth_dev *dev, uint64_t seed);

/* Switch the power on again. Returns -EALREADY if it is on. */
int fth_dev_crash_restart(struct fth_dev *dev);

/* Lose power at the nth write, zero, discard or flush from now; 0 cancels this. */
int fth_dev_crash_at(struct fth_dev *dev, uint64_t nth, uint64_t seed);

/* Whether the power is on; false if dev is not a crash device. */
bool fth_dev_crash_powered(struct fth_dev *dev);

/* Copy the counts. They are consistent with each other. */
int fth_dev_crash_counts(struct fth_dev *dev, struct fth_dev_crash_counts *counts);

FTH_END_DECLS
#endif
