/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/team.h"

#include "base/team.h"

#include <unistd.h>

const struct fth_graph_job fth_graph_no_job;

struct shared {
	struct fth_graph_team team;
	fth_graph_team_fn fn;
	void *context;
};

unsigned fth_graph_team_threads(const struct fth_graph_job *job)
{
	long cpus = job->threads ? (long)job->threads : sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		cpus = 1;
	return cpus > (long)FTH_GRAPH_THREADS_MAX ? FTH_GRAPH_THREADS_MAX : (unsigned)cpus;
}

static int work(void *context, unsigned worker)
{
	struct shared *shared = context;
	int rc = shared->fn(&shared->team, shared->context, worker);

	if (rc < 0)
		/* relaxed: only a matter of when the others stop. */
		fth_store_relaxed_dev32(&shared->team.failed, 1);
	return rc;
}

int fth_graph_team_run(const struct fth_graph_job *job, unsigned threads, fth_graph_team_fn fn,
		       void *context)
{
	struct shared shared = {.team = {.job = job, .threads = threads}, .fn = fn};

	shared.context = context;
	return fth_team_run(threads, work, &shared);
}
