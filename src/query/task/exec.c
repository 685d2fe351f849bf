/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/exec.h"
#include "query/task/fetch.h"
#include "query/task/runner.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64u
#define COLUMNS_MAX 256u
#define CLAIM_MAX   8u

/* One task on several threads. */
struct job {
	struct exec *exec;
	unsigned number;
	const struct task *task;
	struct rows *rows;
	struct build *build;
	struct task_slot *columns; /* of rows */
	unsigned column_count;
	_Atomic uint32_t next_group;
	uint32_t claim; /* groups that a worker takes at a time */
	struct runner *runners[THREADS_MAX];
	unsigned runner_count;
};

struct worker {
	struct job *job;
	struct runner *runner;
	uint32_t group, group_end; /* taken and not begun */
	bool helper;		   /* a thread of its own */
	pthread_t thread;
	int rc;
	char text[FTH_ERROR_TEXT_MAX];
};

/* Neighbours go to one worker: structures of nested tasks are then built of the same row groups again. */
static uint32_t next_group(void *user)
{
	struct worker *w = user;
	struct job *j = w->job;
	uint32_t groups = fth_table_groups(j->task->source.table);

	if (w->group == w->group_end) {
		w->group =
			atomic_fetch_add_explicit(&j->next_group, j->claim, memory_order_relaxed);
		w->group_end = w->group + j->claim;
	}
	return w->group < groups ? w->group++ : UINT32_MAX;
}

uint32_t exec_claim(unsigned threads, uint32_t groups)
{
	uint32_t part = groups / (threads * 4);

	return part < 1 ? 1 : part > CLAIM_MAX ? CLAIM_MAX : part;
}

unsigned exec_threads(unsigned wanted, uint32_t groups)
{
	unsigned n = wanted == 0 ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN) : wanted;

	n = n > THREADS_MAX ? THREADS_MAX : n;
	return groups < n ? (groups == 0 ? 1 : groups) : n;
}

/* Processor time of the thread. */
static uint64_t thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *run_worker(void *user)
{
	struct worker *w = user;

	w->rc = runner_table(w->runner, next_group, w);
	if (w->rc < 0) {
		/* The text is this thread's; it goes with it. */
		strncpy(w->text, fth_error_text(w->rc), sizeof(w->text) - 1);
		atomic_store(&w->job->exec->stop, true);
	}
	if (w->helper)
		w->runner->stats.cpu_ns = thread_ns();
	return NULL;
}

/* The error that counts: not that of threads that were told to stop. */
static int first_error(const struct worker *w, unsigned n)
{
	const struct worker *found = NULL;

	for (unsigned i = 0; i < n; i++)
		if (w[i].rc < 0 && (found == NULL || found->rc == -ECANCELED))
			found = &w[i];
	return found == NULL ? 0 : fth_fail(-found->rc, "%s", found->text);
}

static unsigned threads_wanted(const struct exec *e)
{
	return exec_threads(e->options->threads, UINT32_MAX);
}

static unsigned thread_count(const struct job *j)
{
	return exec_threads(j->exec->options->threads, fth_table_groups(j->task->source.table));
}

static int run_table(struct job *j)
{
	struct worker workers[THREADS_MAX];
	unsigned n = thread_count(j), started = 0;
	int rc = 0;

	for (; j->runner_count < n && rc == 0; j->runner_count += rc == 0)
		rc = runner_open(j->exec, j->number, j->rows, j->build,
				 &j->runners[j->runner_count]);
	/* Fewer threads are slower, but do not fail. */
	if (rc == -ENOMEM && j->runner_count > 0)
		rc = 0;
	if (rc < 0)
		return rc;
	j->claim = exec_claim(j->runner_count, fth_table_groups(j->task->source.table));
	for (; started < j->runner_count; started++) {
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

/* ---- rows of earlier results ---- */

static int run_plain(struct runner *r, const struct result *from)
{
	int rc = 0;

	for (const struct rows_block *b = rows_first(from->rows); b != NULL && rc == 0; b = b->next)
		rc = b->n == 0 ? 0 : runner_block(r, b->columns, b->n);
	return rc;
}

static int run_groups(struct runner *r, struct group_store *groups)
{
	struct fth_vec *columns = fth_qmem_alloc(r->mem, COLUMNS_MAX * sizeof(*columns));
	int rc = columns == NULL ? -ENOMEM : 1;

	group_store_rewind(groups);
	while (rc > 0) {
		int n = rc = group_store_next(groups, columns);

		if (n > 0)
			rc = runner_block(r, columns, (unsigned)n);
		if (n > 0 && rc == 0)
			rc = 1;
	}
	fth_qmem_free(r->mem, columns, COLUMNS_MAX * sizeof(*columns));
	return rc;
}

static int take_given(void *to, const struct fth_vec *columns, unsigned n)
{
	return n == 0 ? 0 : runner_block(to, columns, n);
}

static int run_given(struct job *j)
{
	const struct exec_options *o = j->exec->options;

	if (o->given == NULL)
		return fth_fail(EINVAL, "task %u: nobody gives its rows", j->number);
	return o->given(o->given_user, j->number, take_given, j->runners[0]);
}

static int run_sorted(struct runner *r, struct sorted *sorted)
{
	int n, rc = 0;

	do {
		const struct fth_vec *columns;

		n = sorted_next(sorted, &columns);
		if (n > 0)
			rc = runner_block(r, columns, (unsigned)n);
	} while (n > 0 && rc == 0);
	return n < 0 ? n : rc;
}

static int run_result(struct runner *r, const struct result *from)
{
	if (from->groups != NULL)
		return run_groups(r, from->groups);
	return from->sorted != NULL ? run_sorted(r, from->sorted) : run_plain(r, from);
}

static int run_rows(struct job *j)
{
	const struct task_source *s = &j->task->source;
	int rc = runner_open(j->exec, j->number, j->rows, j->build, &j->runners[0]);

	if (rc < 0)
		return rc;
	j->runner_count = 1;
	if (s->kind == TASK_VALUES)
		return runner_values(j->runners[0]);
	if (s->kind == TASK_GIVEN)
		return run_given(j);
	for (unsigned i = 0; i < s->input_count && rc == 0; i++)
		rc = run_result(j->runners[0], &j->exec->results[s->inputs[i]]);
	return rc;
}

/* ---- results ---- */

/* The threads' groups become one result. */
static int finish_groups(struct job *j, struct result *result)
{
	const struct task_reduce *d = &j->task->reduce;
	struct grouper *groupers[THREADS_MAX];

	result->groups = j->exec->store;
	j->exec->store = NULL;
	for (unsigned i = 0; i < j->runner_count; i++) {
		groupers[i] = j->runners[i]->grouper;
		j->runners[i]->grouper = NULL;
	}
	return group_store_finish(result->groups, groupers, j->runner_count,
				  d->key_count == 0 && !d->grouped);
}

static int finish_sort(struct job *j, struct result *result)
{
	struct sorter *sorters[THREADS_MAX];

	for (unsigned i = 0; i < j->runner_count; i++) {
		sorters[i] = j->runners[i]->sorter;
		j->runners[i]->sorter = NULL;
	}
	return sorted_open(j->exec->mem, sorters, j->runner_count, &result->sorted);
}

static int finish(struct job *j, struct result *result)
{
	switch (j->task->reduce.kind) {
	case TASK_GROUP:
		return finish_groups(j, result);
	case TASK_SORT:
		return finish_sort(j, result);
	case TASK_OUTPUT:
		result->rows = j->rows;
		j->rows = NULL;
		return 0;
	default:
		return build_finish(j->build, threads_wanted(j->exec), &result->index);
	}
}

static void release(struct result *r)
{
	group_store_close(r->groups);
	sorted_close(r->sorted);
	rows_free(r->rows);
	index_free(r->index);
	memset(r, 0, sizeof(*r));
}

/* ---- tasks ---- */

static int describe_columns(struct job *j)
{
	unsigned slots[COLUMNS_MAX];
	const struct task_reduce *d = &j->task->reduce;

	if (d->key_count + d->column_count + d->order_count + d->aggregate_count > COLUMNS_MAX)
		return fth_fail(EOPNOTSUPP, "a result with more than %u columns is not supported",
				COLUMNS_MAX);
	j->column_count = result_columns(j->task, slots);
	for (unsigned i = 0; i < j->column_count; i++)
		j->columns[i] = j->task->slots[slots[i]];
	return 0;
}

static void add_stats(struct exec_stats *to, const struct exec_stats *from)
{
	to->source_rows += from->source_rows;
	to->rows += from->rows;
	to->groups_read += from->groups_read;
	to->bytes += from->bytes;
	to->chunks += from->chunks;
	to->cpu_ns += from->cpu_ns;
	to->groups_skipped += from->groups_skipped;
	to->chunks_skipped += from->chunks_skipped;
}

/* A nested task has figures of its own; what a step fetches belongs to the task. */
static void gather_stats(struct exec *e, const struct runner *r)
{
	add_stats(&e->stats[r->number], &r->stats);
	for (unsigned i = 0; i < r->task->step_count; i++) {
		const struct step_state *s = &r->steps[i];

		if (s->nested != NULL)
			gather_stats(e, s->nested);
		if (s->fetcher != NULL) {
			e->stats[r->number].bytes += fetcher_bytes(s->fetcher);
			e->stats[r->number].chunks += fetcher_chunks(s->fetcher);
		}
	}
}

static int open_result(struct job *j, bool last)
{
	struct exec *e = j->exec;
	struct index_spec spec;

	if (j->task->reduce.kind == TASK_GROUP)
		return group_store_open(e->mem, &e->scratch, &e->store);
	if (last || j->task->reduce.kind == TASK_SORT)
		return 0;
	if (!reduces_to_index(j->task))
		return rows_new(e->mem, j->columns, j->column_count, &j->rows);
	spec = result_index(j->task, j->columns);
	return build_open(e->mem, &spec, &j->build);
}

static int run_task(struct exec *e, unsigned number)
{
	struct job *j = fth_qmem_zalloc(e->mem, sizeof(*j));
	bool last = number + 1 == e->set->task_count;
	uint64_t start = fth_now_ns();
	int rc;

	if (j == NULL)
		return -ENOMEM;
	j->exec = e;
	j->number = number;
	j->task = &e->set->tasks[number];
	j->columns = e->columns[number];
	rc = describe_columns(j);
	if (rc == 0)
		rc = open_result(j, last);
	if (rc == 0)
		rc = j->task->source.kind == TASK_TABLE ? run_table(j) : run_rows(j);
	for (unsigned i = 0; i < j->runner_count; i++)
		gather_stats(e, j->runners[i]);
	/* Writers hand over their rows when they are closed; groupers are needed for one moment more. */
	for (unsigned i = 0; i < j->runner_count; i++) {
		rows_writer_close(j->runners[i]->writer);
		j->runners[i]->writer = NULL;
		build_writer_close(j->runners[i]->builder);
		j->runners[i]->builder = NULL;
	}
	if (rc == 0 && !last)
		rc = finish(j, &e->results[number]);
	for (unsigned i = 0; i < j->runner_count; i++)
		runner_close(j->runners[i]);
	rows_free(j->rows);
	build_free(j->build);
	group_store_close(e->store);
	e->store = NULL;
	fth_qmem_free(e->mem, j, sizeof(*j));
	e->stats[number].wall_ns = fth_now_ns() - start;
	return rc;
}

static int run_measured(struct exec *e, unsigned number)
{
	struct exec_stats *s = &e->stats[number];
	uint64_t cpu = thread_ns();
	int rc;

	fth_qmem_take_peak(e->mem);
	rc = run_task(e, number);
	s->memory = fth_qmem_take_peak(e->mem);
	s->cpu_ns += thread_ns() - cpu;
	return rc;
}

static int run_all(struct exec *e)
{
	int rc = 0;

	for (unsigned t = 0; t < e->set->task_count && rc == 0; t++) {
		if (e->set->tasks[t].nested)
			continue;
		rc = run_measured(e, t);
		if (rc < 0 && e->options->failed != NULL)
			*e->options->failed = t;
		for (unsigned i = 0; i < t; i++)
			if (e->set->tasks[i].last_user == t)
				release(&e->results[i]);
	}
	return rc;
}

int exec_run(const struct task_set *set, const struct exec_options *options,
	     int (*emit)(void *user, const struct fth_vec *columns, const struct fth_sel *selected),
	     void *user, struct exec_stats *stats)
{
	struct exec e = {
		.set = set, .options = options, .mem = options->mem, .emit = emit, .user = user};
	size_t results = set->task_count * sizeof(*e.results),
	       own = set->task_count * sizeof(*stats);
	size_t columns = set->task_count * sizeof(*e.columns);
	int rc = -ENOMEM;

	pthread_mutex_init(&e.emit_lock, NULL);
	scratch_init(&e.scratch, e.mem, options->scratch, options->scratch_limit);
	e.threads = threads_wanted(&e);
	e.results = fth_qmem_zalloc(e.mem, results);
	e.columns = fth_qmem_zalloc(e.mem, columns);
	e.stats = fth_qmem_zalloc(e.mem, own);
	if (e.results != NULL && e.stats != NULL && e.columns != NULL)
		rc = run_all(&e);
	if (stats != NULL && e.stats != NULL)
		memcpy(stats, e.stats, own);
	for (unsigned i = 0; i < set->task_count && e.results != NULL; i++)
		release(&e.results[i]);
	fth_qmem_free(e.mem, e.results, results);
	fth_qmem_free(e.mem, e.columns, columns);
	fth_qmem_free(e.mem, e.stats, own);
	scratch_release(&e.scratch);
	pthread_mutex_destroy(&e.emit_lock);
	return rc;
}
