/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that work on one thing together: each takes what is next until nothing is left. Worker 0
 * is the calling thread, the only one that reports progress. The first error ends them all, and
 * reaches the caller with its text.
 */
#ifndef FTH_GRAPH_TEAM_H
#define FTH_GRAPH_TEAM_H

#include "fathom/graph.h"

struct fth_graph_team;

/* What each worker does. Work is handed out as it goes, so that any number of workers will do. */
typedef int (*fth_graph_team_fn)(struct fth_graph_team *team, void *context, unsigned worker);

struct fth_graph_team {
	const struct fth_graph_job *job; /* never NULL */
	unsigned threads;
	uint32_t failed; /* somebody did: stop */
};

/* The number of threads of a job, its default put in. */
unsigned fth_graph_team_threads(const struct fth_graph_job *job);

/* Run fn on up to `threads` workers and wait for them. */
int fth_graph_team_run(const struct fth_graph_job *job, unsigned threads, fth_graph_team_fn fn,
		       void *context);

/* Did a worker fail? relaxed: only a matter of when the others stop. */
static inline bool fth_graph_team_failed(const struct fth_graph_team *team)
{
	return fth_load_relaxed_dev32(&team->failed);
}

/* Report, if this is worker 0 and anyone wants to know. Negative: stop, with this error. */
static inline int fth_graph_team_tell(const struct fth_graph_team *team, unsigned worker,
				      const char *what, uint64_t done, uint64_t total)
{
	const struct fth_graph_job *job = team->job;

	if (worker != 0 || !job->progress)
		return 0;
	return job->progress(job->context, what, done < total ? done : total, total);
}

/* Take the next `step` of `total` things: the first of them, or `total` when none is left. */
static inline uint64_t fth_graph_team_take(uint64_t *next, uint64_t step, uint64_t total)
{
	/* relaxed: each number is given out once; what it stands for was there before the team. */
	uint64_t first = fth_add_relaxed_dev64(next, step);

	return first < total ? first : total;
}

extern const struct fth_graph_job fth_graph_no_job;

#endif
