/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pairs that `fathom bench queue` compares, on the same rings in the same memory with
 * the same controller behind them.
 *
 *	ours	fathom/detail/nvme/queue.h
 *	lock	one lock around everything: submission, completion, both doorbells
 *
 * The lock is here to be measured, not to be used: it has no deadlines and trusts the controller.
 */
#ifndef FTH_BENCH_QUEUE_DESIGN_H
#define FTH_BENCH_QUEUE_DESIGN_H

#include "fathom/detail/nvme/queue.h"

struct queue_design {
	const char *name;
	/* Take over the rings of a fresh queue pair. NULL when memory is short. */
	void *(*open)(struct fth_nvme_qp *qp);
	void (*close)(void *queue);
	/* Execute one command and wait for it; returns the status field. Any thread. */
	uint16_t (*exec)(void *queue, const struct fth_nvme_sqe *command, uint32_t hint);
	/* How often the submission and the completion doorbell were written. */
	uint64_t (*doorbells)(void *queue);
};

extern const struct queue_design queue_design_ours;
extern const struct queue_design queue_design_lock;

#endif
