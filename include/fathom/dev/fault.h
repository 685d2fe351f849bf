/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that fails on purpose, around any other device.
 *
 *	fault(URI)?OPTIONS
 *
 *	which operations	kind=read,write,flush,discard,zero	or all, the default
 *				from=OFFSET&to=OFFSET	only those that touch [from, to)
 *	when			nth=N		the Nth of these, once
 *				every=N		each Nth; with nth, each Nth from that one on
 *				rate=P		each with probability P, drawn from seed=S
 *				count=N		at most N faults
 *	what			error=EIO	the errno, by name
 *				mode=fail	not done, and fails (the default)
 *				mode=late	done, and fails all the same
 *				mode=torn	a write stops at a random 512-byte boundary (at the
 *						block size if that is larger) and fails; another
 *						operation fails and is not done
 *				mode=timeout	not done, held, then fails with ETIMEDOUT
 *				hold_ms=M	how long it is held: 1000 for timeout, else 0
 *
 * fault(URI) without options does nothing until fth_dev_fault_set() tells it to. Options that say
 * what to fail but not when are refused. A flush has no range: it matches only where none is set.
 *
 * Matching operations are numbered 1, 2, 3, ... over all channels in the order in which they are
 * submitted, and what happens to number i depends on the options and i alone. One thread that
 * repeats its operations therefore meets the same faults again.
 */
#ifndef FATHOM_DEV_FAULT_H
#define FATHOM_DEV_FAULT_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

#include <errno.h>

FTH_BEGIN_DECLS

enum fth_dev_fault_mode {
	FTH_DEV_FAULT_FAIL,
	FTH_DEV_FAULT_LATE,
	FTH_DEV_FAULT_TORN,
	FTH_DEV_FAULT_TIMEOUT,
};

#define FTH_DEV_FAULT_ALL_KINDS ((1u << FTH_DEV_OP_COUNT) - 1)

/*
 * What to fail, and when; the options above say what each means. FTH_DEV_FAULT_PLAN_INIT: every
 * operation matches, none is hit; EIO, mode fail. Set nth, every or rate next.
 */
struct fth_dev_fault_plan {
	size_t size;	/* of this struct */
	uint32_t kinds; /* bit 1 << op for each kind that matches */
	uint64_t from, to;
	uint64_t nth, every; /* 0: unset */
	double rate;
	uint64_t seed;
	uint64_t count;
	int error; /* a positive errno */
	enum fth_dev_fault_mode mode;
	uint64_t hold_ns;
};

#define FTH_DEV_FAULT_PLAN_INIT                                                                  \
	{                                                                                        \
		sizeof(struct fth_dev_fault_plan), FTH_DEV_FAULT_ALL_KINDS, 0, UINT64_MAX, 0, 0, \
			0, 0, UINT64_MAX, EIO, FTH_DEV_FAULT_FAIL, 0                             \
	}

struct fth_dev_fault_counts {
	uint64_t matched;  /* operations that matched while armed, since the plan was set */
	uint64_t injected; /* faults among them */
};

/*
 * All below: any thread, at any time; what is submitted later sees the change. They do not wait
 * for I/O. -EINVAL when dev is no fault device (see fth_dev_inner() for one inside a stack).
 */

/* Replace the plan, start counting anew and arm. -EINVAL also for a plan that can not be. */
int fth_dev_fault_set(struct fth_dev *dev, const struct fth_dev_fault_plan *plan);
int fth_dev_fault_get(struct fth_dev *dev, struct fth_dev_fault_plan *plan);

/* A disarmed device passes everything through and counts nothing. Arming goes on where it was. */
int fth_dev_fault_arm(struct fth_dev *dev);
int fth_dev_fault_disarm(struct fth_dev *dev);

int fth_dev_fault_counts(struct fth_dev *dev, struct fth_dev_fault_counts *counts);

FTH_END_DECLS
#endif
