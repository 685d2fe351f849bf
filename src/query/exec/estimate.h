/* SPDX-License-Identifier: BSD-2-Clause */
/* The certificate: what each task of a set will read and need, before anything runs. */
#ifndef FTH_QUERY_ESTIMATE_H
#define FTH_QUERY_ESTIMATE_H

#include "query/task/task.h"

struct estimate_options {
	struct fth_qmem *mem; /* programs are compiled there, and freed */
	uint64_t budget;      /* bytes; a bound is never above */
	uint64_t base;	      /* in use before the first task runs */
	unsigned threads;     /* 0: one for each processor */
};

/*
 * Set the estimates of all tasks. `rows` and `rows_most` are there already. Bytes and memory are
 * bounds: bytes are those of all chunks that the statistics of row groups do not exclude, and
 * memory includes the results of earlier tasks that are still needed. Returns 0 or -ENOMEM.
 */
int estimate_tasks(struct task_set *set, const struct estimate_options *options);

/*
 * The bytes without which the set cannot run: for each task the buffers that one thread has before
 * the first row, for its largest row group. `base` is in use before.
 */
uint64_t estimate_least(const struct task_set *set, uint64_t base);

#endif
