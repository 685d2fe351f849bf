/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A step as a transaction: each thread logs what it overwrites, and a step that was not committed
 * is undone at the next start (GPM, section 5.2).
 *
 * Invariants
 * - state->active = step + 1 is durable before a step changes anything, and the log is empty at
 *   that time.
 * - state->done = step + 1 is durable after all that the step stored. Then the log is cleared.
 * - active > done: the log has what must be undone. Undoing leaves the log alone; it is cleared
 *   after all of it is durable, so a crash while undoing does no harm.
 */
#ifndef FTH_WORKLOADS_PM_TRANSACTION_H
#define FTH_WORKLOADS_PM_TRANSACTION_H

#include "workloads/pm/job.h"
#include "workloads/pm/undo.h"

/* Bytes of persistent memory for the log. */
uint64_t pmw_transaction_bytes(uint64_t threads, uint32_t entry_bytes);

/* Make or open the log, and undo what was not committed: `undo` puts back what the log has. */
int pmw_transaction_open(struct pmw_job *job, uint64_t threads, uint32_t entry_bytes,
			 int (*undo)(struct pmw_job *job, const struct pmw_undo *log));
int pmw_transaction_begin(struct pmw_job *job, uint64_t step, struct pmw_undo *undo);
int pmw_transaction_commit(struct pmw_job *job, uint64_t step);
uint64_t pmw_transaction_done(struct pmw_job *job);

#endif
