/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A wrapper that injects faults into any device.
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
 *				mode=fail	the operation fails without effect (the default)
 *				mode=late	the operation is executed, and fails
 *				mode=torn	a write stops at a random multiple of 512 bytes on
 *						the device (of the block size if that is larger)
 *						before its end, and fails; other operations as
 *						with mode=fail
 *				mode=timeout	as mode=fail, with ETIMEDOUT after hold_ms
 *				hold_ms=M	delay of the failure: 1000 for timeout, else 0
 *
 * fault(URI) without options injects nothing until fth_dev_fault_set(). Options without one of nth,
 * every and rate are an error. A flush has no range: it matches only if no range is set.
 *
 * Matching operations are numbered 1, 2, 3, ... over all channels in the order of submission. The
 * fate of number i depends only on the options and i, so a single thread that repeats its
 * operations gets the same faults again.
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
 * A fault plan; the fields are the options above. With FTH_DEV_FAULT_PLAN_INIT all operations match
 * and none fails; EIO, mode fail. Set nth, every or rate.
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
 * The functions below can be called at any time from any thread and do not wait for I/O. They apply
 * to operations submitted later. They return 0, or -EINVAL if dev is not a fault device (use
 * fth_dev_inner() for one inside a stack).
 */

/* Set the plan, reset the counts and arm the device. -EINVAL also if the plan is invalid. */
int fth_dev_fault_set(struct fth_dev *dev, const struct fth_dev_fault_plan *plan);
/* Copy the plan in effect. */
int fth_dev_fault_get(struct fth_dev *dev, struct fth_dev_fault_plan *plan);

/* A disarmed device injects and counts nothing. Arming it again keeps plan and counts. */
int fth_dev_fault_arm(struct fth_dev *dev);
int fth_dev_fault_disarm(struct fth_dev *dev);

/* Copy the counts since the plan was set. */
int fth_dev_fault_counts(struct fth_dev *dev, struct fth_dev_fault_counts *counts);

FTH_END_DECLS
#endif
