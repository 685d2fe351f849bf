/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device for tests that completes requests when it is told to, and with the result it is told:
 *
 *	held:SIZE[?block=512][&align=1][&iov=1024][&max=1G]
 *
 * One is in use at a time, and from one thread. What it holds back touches neither the medium nor
 * the buffers before it is let go.
 */
#ifndef FTH_SRC_NVME_HELD_FIXTURE_H
#define FTH_SRC_NVME_HELD_FIXTURE_H

#include "fathom/dev/driver.h"

struct held_control {
	bool hold;	      /* keep requests from now on */
	unsigned let_go;      /* how many of the kept ones may complete, oldest first */
	int refuse;	      /* errno with which submit takes nothing, until it is cleared */
	int fail;	      /* errno for the next request that completes; used once */
	unsigned seen;	      /* requests that were submitted */
	enum fth_dev_op last; /* what the last of them was */
};

extern struct held_control held;

/* Make the scheme known and reset the control. */
void held_setup(void);

#endif
