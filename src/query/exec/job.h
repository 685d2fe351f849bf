/* SPDX-License-Identifier: BSD-2-Clause */
/* One run of a task: its threads, and the rows of its source on their way to them. */
#ifndef FTH_QUERY_JOB_H
#define FTH_QUERY_JOB_H

#include "query/exec/runner.h"

#define JOB_THREADS_MAX 64u
#define JOB_COLUMNS_MAX 256u

struct job {
	struct exec *exec;
	unsigned number;
	const struct task *task;
	struct rows *rows;
	struct build *build;
	struct task_slot *columns; /* of rows */
	unsigned column_count;
	_Atomic uint32_t next_group;
	uint32_t end;	/* of the groups that are taken in this round */
	uint32_t claim; /* groups that a worker takes at a time */
	_Atomic(const struct rows_block *) next_block;
	struct runner *runners[JOB_THREADS_MAX];
	unsigned runner_count;
	struct row_limit limit; /* of a task that wants only so many rows */
};

/* The limit of the task, for its runners. After they are open. */
void job_limit(struct job *j);
/* Whether the task has all rows that it wants. */
bool job_has_enough(const struct job *j);

/* Give all rows of the source to the runners. Returns 0 or the first error, with a text. */
int job_run_source(struct job *j);
/* Processor time of the calling thread. */
uint64_t job_thread_ns(void);

#endif
