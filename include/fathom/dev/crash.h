/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that can lose power, around any other device: what a program promises about durability
 * is tested here.
 *
 *	crash(URI)?OPTIONS
 *
 *	seed=S		of the power loss that crash_at brings
 *	crash_at=N	the power goes by itself at the Nth write, zero, discard or flush
 *	limit=1G	memory for unflushed data; beyond it the oldest is written back, as
 *			drives do
 *	lie=on		flush returns 0 and makes nothing durable, as some drives do
 *
 * Like a drive with a volatile write cache it keeps what is written in memory, where reads see
 * it, and brings it to the device inside on a flush: all that had completed (that is, was handed
 * back by reap) when the flush was submitted. What is still in flight then is not covered.
 *
 * When the power goes, every write, zero and discard that no flush has covered survives, vanishes
 * or is torn: of each of its 512-byte sectors it is random whether it survives. They reach the
 * medium in random order, so of two that overlap either may win, sector by sector. The same seed
 * after the same operations gives the same contents. Requests in flight fail with -ENODEV, and so
 * does everything until fth_dev_crash_restart(); from then on reads return what survived.
 *
 * Zeroes and discards above 16 MiB are not kept apart: all that is pending is written back and
 * they are done inside at once, which is a drive's right too.
 *
 * Blocks are at least 512 bytes, also where the device inside has smaller ones. Closing writes
 * back what is pending, without a flush: a shutdown, not a crash. Operations wait for each other,
 * and flushes, and reads of pending data, are done while they are submitted: this device is for
 * tests, not for speed.
 */
#ifndef FATHOM_DEV_CRASH_H
#define FATHOM_DEV_CRASH_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_dev_crash_counts {
	uint64_t operations;	/* writes, zeroes, discards and flushes that came in with power */
	uint64_t pending;	/* of them not covered by a flush, nor written back */
	uint64_t pending_bytes; /* memory that these take */
	uint64_t written_back;	/* because of the limit, or of a large zero or discard */
	uint64_t crashes;
	uint64_t survived, vanished, torn; /* what became of pending operations in crashes */
};

/*
 * All below: any thread. -EINVAL when dev is no crash device (see fth_dev_inner() for one inside
 * a stack).
 */

/*
 * Lose the power. -ENODEV when it is gone already. An error of the device inside while survivors
 * are written leaves the contents unknown: it is returned, and again by restart. May block.
 */
int fth_dev_crash_power_loss(struct fth_dev *dev, uint64_t seed);

/* The power is back. -EALREADY when it never went. */
int fth_dev_crash_restart(struct fth_dev *dev);

/* Lose the power by itself at the nth write, zero, discard or flush from now; 0: do not. */
int fth_dev_crash_at(struct fth_dev *dev, uint64_t nth, uint64_t seed);

/* Whether the power is on. */
bool fth_dev_crash_powered(struct fth_dev *dev);

int fth_dev_crash_counts(struct fth_dev *dev, struct fth_dev_crash_counts *counts);

FTH_END_DECLS
#endif
