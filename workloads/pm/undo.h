/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The undo log of a transaction in which each thread overwrites one thing: an HCL log with one
 * entry a thread.
 */
#ifndef FTH_WORKLOADS_PM_UNDO_H
#define FTH_WORKLOADS_PM_UNDO_H

#include "fathom/pm/log.h"

#define PMW_UNDO_BLOCK 128u /* threads of a block of the log */

struct pmw_undo {
	struct fth_pm_log_view log;
	/* set when an entry could not be made durable: the transaction must not commit */
	uint32_t *failed;
	uint32_t on; /* 0: nothing is logged */
};

/* Thread i may overwrite what it logged if this returns true. */
FTH_HD bool pmw_undo_log(const struct pmw_undo *undo, uint64_t i, const void *entry, uint32_t bytes)
{
	if (!undo->on || fth_pm_hcl_insert(&undo->log, (uint32_t)i, entry, bytes) == 0)
		return true;
	fth_store_relaxed_dev32(undo->failed, 1);
	return false;
}

/* Has thread i logged something? */
FTH_HD bool pmw_undo_read(const struct pmw_undo *undo, uint64_t i, void *entry, uint32_t bytes)
{
	uint64_t cursor = 0;

	return fth_pm_log_read_hd(&undo->log, (uint32_t)i, &cursor, entry, bytes) == (int64_t)bytes;
}

#endif
