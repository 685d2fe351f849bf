/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/exec/job.h"
#include "query/exec/join_passes.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <time.h>

/*
 * A task with a limit begins with one row group. Each round has so many times the groups of the one
 * before.
 */
#define ROUND_GROWTH 4u

/* ---- limits ---- */

void job_limit(struct job *j)
{
	const struct task_reduce *d = &j->task->reduce;

	if (!runner_limited(j->task))
		return;
	j->limit.wanted = d->offset > UINT64_MAX - d->limit ? UINT64_MAX : d->offset + d->limit;
	for (unsigned i = 0; i < j->runner_count; i++)
		j->runners[i]->limit = &j->limit;
}

bool job_has_enough(const struct job *j)
{
	return runner_limited(j->task) && atomic_load(&j->limit.taken) >= j->limit.wanted;
}

/* ---- threads ---- */

struct worker {
	struct job *job;
	struct runner *runner;
	uint32_t group, group_end; /* taken and not begun */
	bool helper;		   /* a thread of its own */
	pthread_t thread;
	int rc;
	char text[FTH_ERROR_TEXT_MAX];
};

/*
 * Neighbours go to one worker: structures of nested tasks are then built of the same row groups
 * again.
 */
static uint32_t next_group(void *user)
{
	struct worker *w = user;
	struct job *j = w->job;

	if (w->group == w->group_end) {
		w->group =
			atomic_fetch_add_explicit(&j->next_group, j->claim, memory_order_relaxed);
		w->group_end = w->group + j->claim;
	}
	return w->group < j->end ? w->group++ : UINT32_MAX;
}

/* Processor time of the thread. */
uint64_t job_thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const struct rows_block *next_block(struct job *j)
{
	const struct rows_block *b = j->next_block;

	/* Blocks are constant; who moves the pointer has the block to itself. */
	while (b && !atomic_compare_exchange_weak(&j->next_block, &b, b->next))
		;
	return b;
}

static int run_blocks(struct worker *w)
{
	const struct rows_block *b;
	int rc = 0;

	while (rc == 0 && (b = next_block(w->job))) {
		rc = runner_stopped(w->runner);
		if (rc == 0 && b->n > 0)
			rc = runner_block(w->runner, b->columns, b->n);
	}
	return rc;
}

static void *run_worker(void *user)
{
	struct worker *w = user;

	w->rc = w->job->task->source.kind == TASK_TABLE ? runner_table(w->runner, next_group, w)
							: run_blocks(w);
	if (w->rc == RUNNER_ENOUGH)
		w->rc = 0;
	if (w->rc < 0) {
		/* The text is this thread's; it goes with it. */
		strncpy(w->text, fth_error_text(w->rc), sizeof(w->text) - 1);
		atomic_store(&w->job->exec->stop, true);
	}
	if (w->helper)
		w->runner->stats.cpu_ns += job_thread_ns();
	return NULL;
}

/* The error that counts: not that of threads that were told to stop. */
static int first_error(const struct worker *w, unsigned n)
{
	const struct worker *found = NULL;

	for (unsigned i = 0; i < n; i++)
		if (w[i].rc < 0 && (!found || found->rc == -ECANCELED))
			found = &w[i];
	return found ? fth_fail(-found->rc, "%s", found->text) : 0;
}

/* One worker for each of n runners. */
static int run_workers(struct job *j, unsigned n)
{
	struct worker workers[JOB_THREADS_MAX];
	unsigned started = 0;

	for (; started < n; started++) {
		struct worker *w = &workers[started];

		memset(w, 0, sizeof(*w));
		w->job = j;
		w->runner = j->runners[started];
		w->helper = started > 0;
		if (started > 0 && pthread_create(&w->thread, NULL, run_worker, w) != 0)
			break;
	}
	run_worker(&workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	return first_error(workers, started);
}

/* Groups [next_group, end), on up to n threads. */
static int run_round(struct job *j, uint32_t from, uint32_t end, unsigned n)
{
	j->claim = exec_claim(n, end - from);
	j->next_group = from;
	j->end = end;
	return run_workers(j, n);
}

/* Most limits are reached within the first row group, and then no other should have been read. */
static int run_limited(struct job *j, uint32_t groups)
{
	uint32_t from = 0, round = 1;
	int rc = 0;

	while (rc == 0 && from < groups && !job_has_enough(j)) {
		uint32_t end = groups - from < round ? groups : from + round;

		rc = run_round(j, from, end, round < j->runner_count ? round : j->runner_count);
		from = end;
		round *= ROUND_GROWTH;
	}
	return rc;
}

static int run_table(struct job *j)
{
	uint32_t groups = fth_table_groups(j->task->source.table);

	return runner_limited(j->task) ? run_limited(j, groups)
				       : run_round(j, 0, groups, j->runner_count);
}

/* ---- rows of earlier results ---- */

static int run_groups(struct runner *r, struct group_store *groups)
{
	struct fth_vec *columns = fth_qmem_alloc(r->mem, JOB_COLUMNS_MAX * sizeof(*columns));
	int rc = columns ? 1 : -ENOMEM;

	group_store_rewind(groups);
	while (rc > 0) {
		int n = rc = group_store_next(groups, columns);

		if (n > 0)
			rc = runner_block(r, columns, (unsigned)n);
		if (n > 0 && rc == 0)
			rc = 1;
	}
	fth_qmem_free(r->mem, columns, JOB_COLUMNS_MAX * sizeof(*columns));
	return rc;
}

/* A batch of rows into a runner. */
static int take_batch(void *to, const struct fth_vec *columns, unsigned n)
{
	return n == 0 ? 0 : runner_block(to, columns, n);
}

/* Rows behind a limit are dropped: who gives rows does not know how to stop without an error. */
static int take_given(void *to, const struct fth_vec *columns, unsigned n)
{
	int rc = take_batch(to, columns, n);

	return rc == RUNNER_ENOUGH ? 0 : rc;
}

static int run_given(struct job *j)
{
	const struct exec_options *o = j->exec->options;

	if (!o->given)
		return fth_fail(EINVAL, "task %u: no earlier task produces its input", j->number);
	return o->given(o->given_user, exec_origin(j->exec, j->number), take_given, j->runners[0]);
}

static int run_sorted(struct runner *r, struct sorted *sorted)
{
	int n, rc = sorted_rewind(sorted);

	if (rc < 0)
		return rc;
	do {
		const struct fth_vec *columns;

		n = sorted_next(sorted, &columns);
		if (n > 0)
			rc = runner_block(r, columns, (unsigned)n);
	} while (n > 0 && rc == 0);
	return n < 0 ? n : rc;
}

static int run_rows(struct job *j)
{
	const struct task_source *s = &j->task->source;
	int rc = 0;

	for (unsigned i = 0; i < s->input_count && rc == 0 && !job_has_enough(j); i++) {
		const struct result *from = &j->exec->results[s->inputs[i]];

		if (from->groups) {
			rc = run_groups(j->runners[0], from->groups);
		} else if (from->sorted) {
			rc = run_sorted(j->runners[0], from->sorted);
		} else {
			j->next_block = rows_first(from->rows);
			rc = run_workers(j, j->runner_count);
			if (rc == 0)
				rc = rows_read_spilled(from->rows, take_batch, j->runners[0]);
		}
	}
	return rc;
}

int job_run_source(struct job *j)
{
	int rc;

	if (job_has_enough(j))
		return 0;
	switch (j->task->source.kind) {
	case TASK_TABLE:
		rc = run_table(j);
		break;
	case TASK_ROWS:
		rc = run_rows(j);
		break;
	case TASK_GIVEN:
		rc = run_given(j);
		break;
	default:
		rc = runner_values(j->runners[0]);
	}
	return rc == RUNNER_ENOUGH ? 0 : rc;
}
