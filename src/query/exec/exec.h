/* SPDX-License-Identifier: BSD-2-Clause */
/* The executor: runs a task set and hands over the rows of its result. */
#ifndef FTH_QUERY_EXEC_H
#define FTH_QUERY_EXEC_H

#include <stdatomic.h>

#include "query/task/task.h"

/*
 * A query that runs out of memory, or needs too many passes, before it has given rows to the client
 * is run again in another way.
 */
enum exec_thrift {
	EXEC_PLAIN, /* as planned */
	EXEC_CUT, /* tasks are cut between look-ups in structures that did not fit (cut_tasks.h) */
	EXEC_FRUGAL, /* tasks are cut in front of each look-up, one thread works */
};

struct exec_options {
	struct fth_qmem *mem;	   /* everything is allocated there */
	unsigned threads;	   /* 0: one for each processor */
	const atomic_bool *cancel; /* becomes true when the query is to end; or NULL */
	uint32_t *failed;	   /* set to the task that failed; or NULL */
	/*
	 * TASK_GIVEN: give all rows of the source of this task to take(), at most FTH_BATCH at a
	 * time, in vectors that have the types of its slots (rows_phys()) and base 0. Returns 0 or
	 * a negative errno.
	 */
	int (*given)(void *user, unsigned task,
		     int (*take)(void *to, const struct fth_vec *columns, unsigned n), void *to);
	void *given_user;
	const char *scratch;	     /* folder for what does not fit; NULL: TMPDIR, or /tmp */
	uint64_t scratch_limit;	     /* bytes of it, at most; 0: what is free there */
	struct fth_dev *scratch_dev; /* all of it is used instead of the folder; or NULL */
	bool once;		     /* do not run the query again if memory runs out */
	enum exec_thrift *thrift;    /* set to the way in which the query ended; or NULL */
};

/* The figures of a task that ran. */
struct exec_stats {
	uint64_t source_rows, rows; /* read; that reached the reducer */
	uint64_t groups_read, groups_skipped;
	uint64_t bytes, chunks; /* read from devices */
	uint64_t chunks_skipped;
	uint64_t spilled;	  /* bytes written to the scratch file */
	uint64_t memory;	  /* the most in use while the task ran */
	uint64_t wall_ns, cpu_ns; /* of a nested task: in those of its parent */
};

/* The threads that run a task over so many row groups; how many groups each takes at a time. */
unsigned exec_threads(unsigned wanted, uint32_t groups);
uint32_t exec_claim(unsigned threads, uint32_t groups);

/*
 * Run. `emit` gets the result batch by batch, in order if it is sorted, from one thread at a time:
 * n rows, of which those of `selected` count. It stops the query by returning a negative errno.
 * stats, with one element for each task, may be NULL. Returns 0 or the first error, with a text.
 */
int exec_run(const struct task_set *set, const struct exec_options *options,
	     int (*emit)(void *user, const struct fth_vec *columns, const struct fth_sel *selected),
	     void *user, struct exec_stats *stats);

#endif
