/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/exec/exec.h"
#include "query/exec/cut_tasks.h"
#include "query/exec/fetch.h"
#include "query/exec/job.h"
#include "query/exec/join_passes.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <unistd.h>

#define CLAIM_MAX	8u
#define ROW_GROUP_BYTES (1u << 20)
#define SQUEEZE_MAX	3u
#define TRIES_MAX \
	2u /* of a task that runs out of memory, where the query can be run in another way */
#define ROWS_SHARE (16u << 10) /* rows of an earlier result that are worth a thread */

/* How a task is run. */
struct attempt {
	unsigned number;
	uint64_t from, to; /* numbers of a structure's keys */
	bool list;	   /* the structure is one of rows with the number `from` */
	bool one_thread;
	bool had_threads; /* several worked */
	unsigned tries;	  /* that ran out of memory */
};

uint32_t exec_claim(unsigned threads, uint32_t groups)
{
	uint32_t part = groups / (threads * 4);

	return part < 1 ? 1 : part > CLAIM_MAX ? CLAIM_MAX : part;
}

unsigned exec_threads(unsigned wanted, uint32_t groups)
{
	unsigned n = wanted == 0 ? (unsigned)sysconf(_SC_NPROCESSORS_ONLN) : wanted;

	n = n > JOB_THREADS_MAX ? JOB_THREADS_MAX : n;
	return groups < n ? (groups == 0 ? 1 : groups) : n;
}

uint32_t exec_origin(const struct exec *e, uint32_t number)
{
	return e->origin ? e->origin[number] : number;
}

static unsigned threads_wanted(const struct exec *e)
{
	return exec_threads(e->options->threads, UINT32_MAX);
}

static unsigned thread_count(const struct job *j)
{
	const struct task_source *s = &j->task->source;
	uint64_t parts = s->kind == TASK_TABLE ? fth_table_groups(s->table) : 1;

	for (unsigned i = 0; i < s->input_count; i++)
		if (j->exec->results[s->inputs[i]].rows)
			parts += rows_count(j->exec->results[s->inputs[i]].rows) / ROWS_SHARE;
	return exec_threads(j->exec->options->threads,
			    parts > JOB_THREADS_MAX ? JOB_THREADS_MAX : (uint32_t)parts);
}

/*
 * The bytes that a runner takes while it works: text; for a row group, structures of nested tasks
 * and groups of RUNS steps.
 */
static uint64_t growth_of(const struct exec *e, const struct task *t)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < t->source.column_count && t->source.kind == TASK_TABLE; i++)
		bytes += decoder_growth(t->source.table, t->source.columns[i].column);
	for (unsigned i = 0; i < t->step_count; i++) {
		if (t->steps[i].kind == TASK_RUNS)
			bytes += ROW_GROUP_BYTES;
		else if (t->steps[i].kind == TASK_LOOKUP &&
			 e->tasks[t->steps[i].lookup.task].nested)
			bytes += ROW_GROUP_BYTES + growth_of(e, &e->tasks[t->steps[i].lookup.task]);
	}
	return bytes;
}

/* Whether that, and a part of the budget for groups and the like, is left. */
static bool has_slack(const struct job *j, unsigned part)
{
	uint64_t growth = growth_of(j->exec, j->task) * (j->runner_count + 1);
	uint64_t share = j->exec->structures * 2 / part;

	return fth_qmem_available(j->exec->mem) >= (growth > share ? growth : share);
}

/* Runners for up to n threads. Fewer threads are slower, but do not fail. */
static int open_runners(struct job *j, unsigned n)
{
	int rc = runner_open(j->exec, j->number, j->rows, j->build, &j->runners[0]);

	if (rc < 0)
		return rc;
	j->runner_count = 1;
	while (j->runner_count < n) {
		struct runner **next = &j->runners[j->runner_count];

		rc = runner_open(j->exec, j->number, j->rows, j->build, next);
		if (rc == 0 && !has_slack(j, 4)) {
			runner_close(*next);
			*next = NULL;
			rc = -ENOMEM;
		}
		if (rc < 0)
			return rc == -ENOMEM ? 0 : rc;
		j->runner_count++;
	}
	return 0;
}

/* ---- results ---- */

/* The threads' groups become one result. */
static int finish_groups(struct job *j, struct result *result)
{
	const struct task_reduce *d = &j->task->reduce;
	struct grouper *groupers[JOB_THREADS_MAX];

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
	struct sorter *sorters[JOB_THREADS_MAX];

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
		return rows_finish(result->rows);
	default:
		return build_finish(j->build, threads_wanted(j->exec), &result->index);
	}
}

void exec_release(struct exec *e, unsigned number)
{
	struct result *r = &e->results[number];

	group_store_close(r->groups);
	sorted_close(r->sorted);
	rows_free(r->rows);
	index_free(r->index);
	memset(r, 0, sizeof(*r));
}

/* ---- tasks ---- */

static int describe_columns(struct job *j)
{
	unsigned slots[JOB_COLUMNS_MAX];
	const struct task_reduce *d = &j->task->reduce;

	if (d->key_count + d->column_count + d->order_count + d->aggregate_count > JOB_COLUMNS_MAX)
		return fth_fail(EOPNOTSUPP, "a result with more than %u columns is not supported",
				JOB_COLUMNS_MAX);
	j->column_count = result_columns(j->task, slots);
	j->columns = j->exec->columns[j->number];
	if (!j->columns)
		j->columns = fth_arena_alloc(&j->exec->arena,
					     (j->column_count + 1) * sizeof(*j->columns), 16);
	if (!j->columns)
		return -ENOMEM;
	j->exec->columns[j->number] = j->columns;
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

		if (s->nested)
			gather_stats(e, s->nested);
		if (s->fetcher) {
			e->stats[r->number].bytes += fetcher_bytes(s->fetcher);
			e->stats[r->number].chunks += fetcher_chunks(s->fetcher);
		}
	}
}

/*
 * The bytes that rows of one more result may take; all results together get an eighth of the
 * budget.
 */
static uint64_t rows_room(const struct exec *e)
{
	uint64_t all = e->thrift == EXEC_FRUGAL ? 0 : e->structures / 4, used = 0;

	for (unsigned i = 0; i < e->task_count; i++)
		if (e->results[i].rows)
			used += rows_bytes(e->results[i].rows);
	return used < all ? all - used : 0;
}

static int open_result(struct job *j, const struct attempt *a)
{
	struct exec *e = j->exec;
	struct index_spec spec;

	if (j->task->reduce.kind == TASK_GROUP)
		return group_store_open(e->mem, &e->scratch, &e->store);
	/*
	 * Rows that the client has cannot be taken back, so a task that may have to run again keeps
	 * them.
	 */
	if (j->number == e->last)
		e->hold = !e->streams &&
			  (e->thrift != EXEC_PLAIN || e->tight || pass_uses_parts(e, j->number));
	if ((j->number == e->last && !e->hold) || j->task->reduce.kind == TASK_SORT)
		return 0;
	if (!task_builds_structure(j->task))
		return rows_new(e->mem, j->columns, j->column_count, &e->scratch, rows_room(e),
				&j->rows);
	spec = result_index(j->task, j->columns);
	spec.from = a->from;
	spec.to = a->to;
	spec.list = a->list;
	spec.scratch = &e->scratch;
	spec.room = pass_room(e, j->number);
	return build_open(e->mem, &spec, &j->build);
}

static int open_job(struct exec *e, const struct attempt *a, struct job **out)
{
	struct job *j = fth_qmem_zalloc(e->mem, sizeof(*j));
	bool one;
	int rc;

	*out = j;
	if (!j)
		return -ENOMEM;
	j->exec = e;
	j->number = a->number;
	j->task = &e->tasks[a->number];
	rc = describe_columns(j);
	if (rc == 0)
		rc = open_result(j, a);
	one = a->one_thread || e->thrift == EXEC_FRUGAL || (e->streams && a->number == e->last);
	if (rc == 0)
		rc = open_runners(j, one ? 1 : thread_count(j));
	job_limit(j);
	return rc;
}

/* Writers hand over their rows when they are closed; groupers are needed for one moment more. */
static void close_writers(struct job *j)
{
	for (unsigned i = 0; i < j->runner_count; i++) {
		gather_stats(j->exec, j->runners[i]);
		rows_writer_close(j->runners[i]->writer);
		j->runners[i]->writer = NULL;
		build_writer_close(j->runners[i]->builder);
		j->runners[i]->builder = NULL;
	}
}

static void close_job(struct job *j)
{
	if (!j)
		return;
	for (unsigned i = 0; i < j->runner_count; i++)
		runner_close(j->runners[i]);
	rows_free(j->rows);
	build_free(j->build);
	group_store_close(j->exec->store);
	j->exec->store = NULL;
	fth_qmem_free(j->exec->mem, j, sizeof(*j));
}

static void sleep_all(struct job *j)
{
	for (unsigned i = 0; i < j->runner_count; i++)
		runner_sleep(j->runners[i]);
}

static int wake_all(struct job *j)
{
	int rc = runner_wake(j->runners[0]);

	for (unsigned i = 1; i < j->runner_count && rc == 0; i++)
		rc = runner_wake(j->runners[i]);
	return rc;
}

/*
 * Structures that the task looks up in go on to their next parts. Meanwhile its sources give back
 * memory.
 */
static int next_parts(struct job *j)
{
	int rc, more;

	sleep_all(j);
	more = pass_next(j->exec, j->number);
	if (more <= 0)
		return more;
	rc = wake_all(j);
	return rc < 0 ? rc : more;
}

static int run_passes(struct job *j)
{
	int rc, more = 0;

	do {
		rc = job_run_source(j);
		more = rc == 0 && !job_has_enough(j) ? next_parts(j) : 0;
	} while (rc == 0 && more > 0);
	return rc == 0 ? more : rc;
}

/* All rows; and all of them once more, if the structure that is built asks for it. */
static int run_job(struct job *j)
{
	int rc = run_passes(j), again = rc == 0 && j->build ? build_second(j->build) : 0;

	if (rc != 0 || again <= 0)
		return rc != 0 ? rc : again;
	sleep_all(j);
	rc = pass_restart(j->exec, j->number);
	if (rc == 0)
		rc = wake_all(j);
	return rc < 0 ? rc : run_passes(j);
}

/*
 * Open the job. If the structures that it looks up in leave little memory for it, they are made
 * smaller.
 */
static int open_smaller(struct exec *e, const struct attempt *a, struct job **out)
{
	bool smallest = false;
	int rc = open_job(e, a, out);

	while (!smallest && (rc == -ENOMEM || (rc == 0 && !has_slack(*out, 8)))) {
		int shrunk;

		close_job(*out);
		*out = NULL;
		/*
		 * Structures below this size are not shrunk while the job can run: that would add
		 * passes and free too little.
		 */
		shrunk = pass_shrink(e, a->number, rc < 0 ? 0 : e->structures / 8);
		if (shrunk < 0 && (rc < 0 || shrunk != -ENOMEM))
			return shrunk;
		smallest = shrunk < 0;
		/*
		 * Prepare again: a structure that now has parts may split the task, one that failed
		 * must be built, others must return to their first part.
		 */
		rc = pass_prepare(e, a->number);
		if (rc == 0)
			rc = open_job(e, a, out);
	}
	return rc;
}

static int start_job(struct exec *e, const struct attempt *a, struct job **out)
{
	int rc = open_smaller(e, a, out);

	if (rc < 0 || a->number != e->last || e->hold || e->streams || has_slack(*out, 8))
		return rc;
	close_job(*out);
	*out = NULL;
	e->tight = true;
	return open_smaller(e, a, out);
}

static int try_task(struct exec *e, struct attempt *a)
{
	struct job *j;
	int rc = start_job(e, a, &j);

	if (rc == 0)
		rc = run_job(j);
	a->had_threads = j && j->runner_count > 1;
	if (j)
		close_writers(j);
	if (rc == 0 && (a->number != e->last || e->hold)) {
		/* Groups that are put together and structures can use the memory of the sources. */
		sleep_all(j);
		rc = finish(j, &e->results[a->number]);
		e->results[a->number].done = rc == 0;
		if (rc < 0)
			exec_release(e, a->number);
	}
	if (rc == -EAGAIN)
		a->to = build_to(j->build);
	close_job(j);
	return rc;
}

/*
 * Whether the query can start again with another exec_thrift. Then a task gives up after TRIES_MAX
 * attempts instead of shrinking structures further.
 */
static bool can_run_again(const struct exec *e)
{
	return !e->emitted && !e->options->once && e->thrift != EXEC_FRUGAL;
}

/* After a failure: whether another attempt with less may do. */
static bool may_retry(struct exec *e, struct attempt *a, int rc)
{
	if (rc == -EAGAIN) /* a structure holds up to a->to */
		return true;
	if (rc == -EOVERFLOW && !a->list) {
		a->to = a->from;
		a->list = true;
		return true;
	}
	if (rc != -ENOMEM || e->emitted)
		return false;
	if (++a->tries > TRIES_MAX && can_run_again(e))
		return false;
	if (!a->one_thread && a->had_threads) {
		a->one_thread = true;
		return true;
	}
	if (pass_shrink(e, a->number, 0) == 0)
		return true;
	if (pass_unnest(e, a->number) == 0)
		return true;
	if (e->squeeze == SQUEEZE_MAX)
		return false;
	e->squeeze++;
	return true;
}

int exec_task(struct exec *e, unsigned number, uint64_t from)
{
	struct attempt a = {.number = number, .from = from, .to = pass_to(e, number, from)};
	struct group_store *outer = e->store; /* of a task that waits for this one */
	unsigned squeeze = e->squeeze;
	uint64_t start = fth_now_ns();
	bool again;
	int rc;

	e->store = NULL;
	do {
		rc = pass_prepare(e, number);
		if (rc == 0)
			rc = try_task(e, &a);
		e->runs++;
		if (rc == -EAGAIN)
			e->spans[number] = a.to - a.from;
		if (rc < 0)
			atomic_store(&e->stop, false);
		again = rc < 0 && may_retry(e, &a, rc);
	} while (again);
	e->store = outer;
	e->squeeze = squeeze;
	e->stats[number].wall_ns += fth_now_ns() - start;
	return rc;
}

static int run_all(struct exec *e)
{
	int rc = 0;

	for (unsigned t = 0; t <= e->last && rc == 0; t++) {
		uint64_t cpu = job_thread_ns(), written = scratch_written(&e->scratch);

		if (e->tasks[t].nested || e->results[t].done)
			continue;
		fth_qmem_take_peak(e->mem);
		rc = exec_task(e, t, 0);
		e->stats[t].spilled = scratch_written(&e->scratch) - written;
		e->stats[t].memory = fth_qmem_take_peak(e->mem);
		e->stats[t].cpu_ns += job_thread_ns() - cpu;
		if (rc < 0 && e->options->failed)
			*e->options->failed = exec_origin(e, t);
		for (unsigned i = 0; i < e->task_count; i++)
			if (pass_last_user(e, i) <= t)
				exec_release(e, i);
	}
	return rc;
}

/* Halves that were split off have no figures of their own. */
static void add_split(struct exec *e, unsigned count)
{
	for (unsigned i = e->task_count; i-- > count;) {
		struct exec_stats *to = &e->stats[e->tasks[i].last_user];

		to->bytes += e->stats[i].bytes;
		to->chunks += e->stats[i].chunks;
		to->cpu_ns += e->stats[i].cpu_ns;
		to->groups_read += e->stats[i].groups_read;
		to->groups_skipped += e->stats[i].groups_skipped;
		to->chunks_skipped += e->stats[i].chunks_skipped;
	}
}

/* ---- rows that were kept ---- */

static int emit_batch(void *user, const struct fth_vec *columns, unsigned n)
{
	struct exec *e = user;
	struct fth_sel all;

	if (n == 0)
		return 0;
	fth_sel_all(&all, n);
	e->emitted = true;
	return e->emit(e->user, columns, &all);
}

/* All other memory is free by now. */
static int emit_held(struct exec *e)
{
	struct rows *rows = e->results[e->last].rows;
	int rc = 0;

	if (!rows)
		return 0;
	for (const struct rows_block *b = rows_first(rows); b && rc == 0; b = b->next)
		rc = emit_batch(e, b->columns, b->n);
	return rc < 0 ? rc : rows_read_spilled(rows, emit_batch, e);
}

/* ---- the whole set ---- */

static int open_exec(struct exec *e, const struct task_set *set)
{
	unsigned room = set->task_count * 3 + 4;
	size_t each = sizeof(*e->tasks) + sizeof(*e->results) + sizeof(*e->columns) +
		      sizeof(*e->stats) + sizeof(*e->limits) + sizeof(*e->spans);
	char *memory;

	memory = fth_arena_alloc(&e->arena, each * room, 16);
	if (!memory)
		return -ENOMEM;
	memset(memory, 0, each * room);
	e->tasks = (struct task *)memory;
	e->results = (struct result *)(e->tasks + room);
	e->columns = (struct task_slot **)(e->results + room);
	e->stats = (struct exec_stats *)(e->columns + room);
	e->limits = (uint64_t *)(e->stats + room);
	e->spans = e->limits + room;
	memcpy(e->tasks, set->tasks, set->task_count * sizeof(*e->tasks));
	e->task_count = set->task_count;
	e->task_room = room;
	e->last = set->task_count - 1;
	/* The other half is for readers, groups and rows. */
	e->structures = fth_qmem_available(e->mem) / 2;
	return 0;
}

static void add_task_stats(const struct exec *e, struct exec_stats *stats, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct exec_stats *to = &stats[exec_origin(e, i)];
		const struct exec_stats *from = &e->stats[i];

		add_stats(to, from);
		to->spilled += from->spilled;
		to->wall_ns += from->wall_ns;
		to->memory = from->memory > to->memory ? from->memory : to->memory;
	}
}

/*
 * One run of the query from its start. Nothing of it is left afterwards, except rows that the
 * client has.
 */
static int run_once(struct exec *e, const struct task_set *set, struct exec_stats *stats)
{
	const struct exec_options *o = e->options;
	struct cut_set cut = {.set = *set};
	int rc = 0;

	pthread_mutex_init(&e->emit_lock, NULL);
	scratch_init(&e->scratch, e->mem, o->scratch, o->scratch_limit);
	e->scratch.dev = o->scratch_dev;
	e->scratch.cancel[0] = &e->stop;
	e->scratch.cancel[1] = o->cancel;
	e->threads = e->thrift == EXEC_FRUGAL ? 1 : threads_wanted(e);
	fth_arena_init(&e->arena, e->mem, 16u << 10);
	if (e->thrift != EXEC_PLAIN)
		rc = cut_tasks(set, e->thrift == EXEC_CUT ? e->large : NULL, &e->arena, &cut);
	e->origin = cut.origin;
	if (rc == 0)
		rc = open_exec(e, &cut.set);
	if (rc == 0)
		rc = run_all(e);
	if (rc == 0)
		rc = emit_held(e);
	if (stats && e->stats) {
		add_split(e, cut.set.task_count);
		add_task_stats(e, stats, cut.set.task_count);
	}
	for (unsigned i = 0; i < e->task_count; i++)
		exec_release(e, i);
	fth_arena_release(&e->arena);
	scratch_release(&e->scratch);
	pthread_mutex_destroy(&e->emit_lock);
	return rc;
}

/* Whether a run that failed is to be followed by another; how that is to be done. */
static bool may_run_again(const struct exec *e, int rc, enum exec_thrift *thrift, bool *streams)
{
	/*
	 * A result that is larger than the scratch space is not kept, at the risk that memory runs
	 * out halfway.
	 */
	if (rc == -ENOSPC && e->hold && !e->emitted) {
		*streams = true;
		return true;
	}
	if ((rc != -ENOMEM && rc != PASS_TOO_MANY) || !can_run_again(e))
		return false;
	*thrift = rc == -ENOMEM || *thrift == EXEC_CUT ? EXEC_FRUGAL : EXEC_CUT;
	return true;
}

int exec_run(const struct task_set *set, const struct exec_options *options,
	     int (*emit)(void *user, const struct fth_vec *columns, const struct fth_sel *selected),
	     void *user, struct exec_stats *stats)
{
	bool *large = fth_qmem_zalloc(options->mem, set->task_count), again, streams = false;
	enum exec_thrift thrift = EXEC_PLAIN;
	int rc;

	if (!large)
		return -ENOMEM;
	if (stats)
		memset(stats, 0, set->task_count * sizeof(*stats));
	do {
		struct exec e = {.options = options,
				 .mem = options->mem,
				 .emit = emit,
				 .user = user,
				 .thrift = thrift,
				 .large = large,
				 .streams = streams};

		rc = run_once(&e, set, stats);
		again = may_run_again(&e, rc, &thrift, &streams);
	} while (again);
	if (options->thrift)
		*options->thrift = thrift;
	fth_qmem_free(options->mem, large, set->task_count);
	return rc;
}
