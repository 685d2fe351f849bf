/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/exec.h"
#include "query/task/fetch.h"
#include "query/task/order.h"
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

struct ordered {
	struct fth_vec columns[COLUMNS_MAX];
	void *values[COLUMNS_MAX];
	uint64_t nulls[COLUMNS_MAX][FTH_BATCH_WORDS];
};

static int run_ordered(struct runner *r, const struct task *made, const struct result *from)
{
	struct fth_qmem *mem = r->mem;
	struct ordered *o = fth_qmem_zalloc(mem, sizeof(*o));
	int rc = o == NULL ? -ENOMEM : 0;

	for (unsigned i = 0; i < made->result_count && rc == 0; i++) {
		o->values[i] = fth_qmem_alloc(mem, FTH_BATCH * 16);
		rc = o->values[i] == NULL ? -ENOMEM : 0;
	}
	for (uint64_t at = 0; at < from->order_count && rc == 0; at += FTH_BATCH) {
		unsigned n = from->order_count - at < FTH_BATCH ? (unsigned)(from->order_count - at)
								: FTH_BATCH;

		for (unsigned i = 0; i < made->result_count; i++)
			rows_gather(from->blocks, &made->result[i], i,
				    from->order + from->order_first + at, n, &o->columns[i],
				    o->values[i], o->nulls[i]);
		rc = runner_block(r, o->columns, n);
	}
	for (unsigned i = 0; i < made->result_count && o != NULL; i++)
		fth_qmem_free(mem, o->values[i], FTH_BATCH * 16);
	fth_qmem_free(mem, o, sizeof(*o));
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
	for (unsigned i = 0; i < s->input_count && rc == 0; i++) {
		const struct result *from = &j->exec->results[s->inputs[i]];

		rc = from->order != NULL
			     ? run_ordered(j->runners[0], &j->exec->set->tasks[s->inputs[i]], from)
			     : run_plain(j->runners[0], from);
	}
	return rc;
}

/* ---- results ---- */

/* Groups become rows. */
static int finish_groups(struct job *j, struct result *result)
{
	const struct task *t = j->task;
	struct grouper *g = j->runners[0]->grouper;
	struct fth_vec columns[COLUMNS_MAX], *pointers[COLUMNS_MAX];
	struct fth_sel *sel = fth_qmem_alloc(j->exec->mem, sizeof(*sel));
	struct rows_writer *w = NULL;
	int rc = sel == NULL ? -ENOMEM : 0;

	for (unsigned i = 1; i < j->runner_count && rc == 0; i++)
		rc = grouper_merge(g, j->runners[i]->grouper);
	if (rc == 0 && t->reduce.key_count == 0 && !t->reduce.grouped)
		rc = grouper_one(g);
	if (rc == 0)
		rc = rows_new(j->exec->mem, t->result, t->result_count, &result->rows);
	if (rc == 0)
		rc = rows_writer_open(result->rows, &w);
	for (unsigned i = 0; i < t->result_count; i++)
		pointers[i] = &columns[i];
	for (uint32_t first = 0; rc == 0 && first < grouper_count(g); first += FTH_BATCH) {
		int n = grouper_batch(g, first, columns);

		if (n > 0)
			fth_sel_all(sel, (unsigned)n);
		rc = n < 0 ? n : rows_append(w, pointers, sel);
	}
	rows_writer_close(w);
	if (sel != NULL)
		fth_qmem_free(j->exec->mem, sel, sizeof(*sel));
	return rc;
}

static int finish_sort(struct job *j, struct result *result)
{
	const struct task_reduce *d = &j->task->reduce;
	struct order_key keys[COLUMNS_MAX];
	uint64_t count;
	int rc;

	result->rows = j->rows;
	j->rows = NULL;
	for (unsigned i = 0; i < d->order_count; i++)
		keys[i] = (struct order_key){d->column_count + i, d->order[i].descending,
					     d->order[i].nulls_first};
	rc = rows_list(result->rows, &result->blocks, &result->block_count);
	if (rc == 0)
		rc = order_rows(j->exec->mem, result->blocks, result->block_count, j->columns, keys,
				d->order_count, &result->order, &count);
	if (rc < 0)
		return rc;
	result->order_room = count;
	result->order_first = d->offset < count ? d->offset : count;
	result->order_count =
		count - result->order_first < d->limit ? count - result->order_first : d->limit;
	return 0;
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

static void release(struct exec *e, struct result *r)
{
	if (r->order != NULL)
		fth_qmem_free(e->mem, r->order, r->order_room * sizeof(*r->order));
	if (r->rows != NULL)
		rows_unlist(r->rows, r->blocks, r->block_count);
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

	if (last || j->task->reduce.kind == TASK_GROUP)
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
				release(e, &e->results[i]);
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
	e.results = fth_qmem_zalloc(e.mem, results);
	e.columns = fth_qmem_zalloc(e.mem, columns);
	e.stats = fth_qmem_zalloc(e.mem, own);
	if (e.results != NULL && e.stats != NULL && e.columns != NULL)
		rc = run_all(&e);
	if (stats != NULL && e.stats != NULL)
		memcpy(stats, e.stats, own);
	for (unsigned i = 0; i < set->task_count && e.results != NULL; i++)
		release(&e, &e.results[i]);
	fth_qmem_free(e.mem, e.results, results);
	fth_qmem_free(e.mem, e.columns, columns);
	fth_qmem_free(e.mem, e.stats, own);
	pthread_mutex_destroy(&e.emit_lock);
	return rc;
}
