/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/remote/offload.h"

#include "fathom/base/error.h"
#include "query/remote/split_tasks.h"

#include <errno.h>
#include <string.h>

struct offload {
	struct remote *remote;
	const struct task_set *set;
	const struct exec_options *options;
	int (*emit)(void *user, const struct fth_vec *columns, const struct fth_sel *selected);
	void *user;
	struct fth_sel *all;
	uint64_t rows;		  /* that emit() got */
	struct exec_stats *stats; /* of tasks at the daemon, by number in `set` */
	struct offload_report *report;
	struct fth_arena arena; /* of a run */
	uint32_t lost;		/* a task whose rows the daemon did not give, or TASK_NONE */
	int taken;		/* the error of a take(), which is no suspension */
};

/* ---- suspensions ---- */

/* The task and all behind it go to the host, and so do the nested tasks of those. */
static void take_over(struct offload *o, uint32_t from, int rc)
{
	bool *at_storage = o->report->at_storage;

	o->report->suspensions++;
	strncpy(o->report->reason, fth_error_text(rc), sizeof(o->report->reason) - 1);
	for (unsigned t = 0; t < o->set->task_count; t++) {
		const struct task *task = &o->set->tasks[t];

		if (from == TASK_NONE || t >= from || (task->nested && task->parent >= from))
			at_storage[t] = false;
	}
}

/* A nested task has no result of its own, so the daemon cannot send its rows. */
static bool can_be_given(const struct offload *o, unsigned t)
{
	return !o->set->tasks[t].nested;
}

/* ---- all of it at the daemon ---- */

static int emit_batch(void *user, const struct fth_vec *columns, unsigned n)
{
	struct offload *o = user;

	fth_sel_all(o->all, n);
	o->rows += n;
	o->taken = o->emit(o->user, columns, o->all);
	return o->taken;
}

static int run_whole(struct offload *o, struct remote_end *end)
{
	int rc = remote_run(o->remote, o->set, o->options, emit_batch, o, o->stats, end);

	if (o->taken < 0)
		end->suspended = false;
	if (rc < 0 && end->suspended && o->rows > 0) {
		char text[FTH_ERROR_TEXT_MAX];

		strncpy(text, fth_error_text(rc), sizeof(text) - 1);
		text[sizeof(text) - 1] = '\0';
		end->suspended = false;
		return fth_fail(-rc, "storage daemon failed after returning %llu rows: %.200s",
				(unsigned long long)o->rows, text);
	}
	return rc;
}

/* ---- in parts ---- */

struct taking {
	int (*take)(void *to, const struct fth_vec *columns, unsigned n);
	void *to;
	int rc;
};

static int pass_on(void *user, const struct fth_vec *columns, unsigned n)
{
	struct taking *t = user;

	t->rc = t->take(t->to, columns, n);
	return t->rc;
}

static void add_stats(struct exec_stats *to, const struct exec_stats *from)
{
	to->source_rows += from->source_rows;
	to->rows += from->rows;
	to->groups_read += from->groups_read;
	to->groups_skipped += from->groups_skipped;
	to->bytes += from->bytes;
	to->chunks += from->chunks;
	to->chunks_skipped += from->chunks_skipped;
	to->spilled += from->spilled;
	to->memory = from->memory > to->memory ? from->memory : to->memory;
	to->wall_ns += from->wall_ns;
	to->cpu_ns += from->cpu_ns;
}

/* The rows of a task at the daemon, for the host's executor. */
static int give(void *user, unsigned task,
		int (*take)(void *to, const struct fth_vec *columns, unsigned n), void *to)
{
	struct offload *o = user;
	struct taking taking = {take, to, 0};
	struct remote_end end;
	struct exec_stats *stats;
	struct task_set part;
	uint32_t *numbers =
		fth_arena_alloc(&o->arena, (o->set->task_count + 1) * sizeof(*numbers), 16);
	int rc = numbers ? split_part(o->set, task, &o->arena, &part, numbers) : -ENOMEM;

	stats = rc < 0 ? NULL : fth_arena_alloc(&o->arena, part.task_count * sizeof(*stats), 16);
	if (!stats)
		return -ENOMEM;
	memset(stats, 0, part.task_count * sizeof(*stats));
	rc = remote_run(o->remote, &part, o->options, pass_on, &taking, stats, &end);
	for (unsigned i = 0; i < part.task_count; i++)
		if (numbers[i] != TASK_NONE)
			add_stats(&o->stats[numbers[i]], &stats[i]);
	if (rc < 0 && end.suspended && taking.rc == 0)
		o->lost = task;
	return rc;
}

static int count_rows(void *user, const struct fth_vec *columns, const struct fth_sel *selected)
{
	struct offload *o = user;

	o->rows += selected->count;
	return o->emit(o->user, columns, selected);
}

static int run_parts(struct offload *o, struct exec_stats *stats)
{
	struct exec_options options = *o->options;
	struct task_set rest;
	int rc = split_rest(o->set, o->report->at_storage, &o->arena, &rest);

	options.given = give;
	options.given_user = o;
	o->lost = TASK_NONE;
	return rc < 0 ? rc : exec_run(&rest, &options, count_rows, o, stats);
}

/* Once more without a task whose rows did not come, until it works. */
static int run_rest(struct offload *o, struct exec_stats *stats)
{
	int rc;

	do {
		for (unsigned t = 0; t < o->set->task_count; t++)
			if (o->report->at_storage[t] && !can_be_given(o, t) &&
			    split_is_needed(o->set, o->report->at_storage, t))
				o->report->at_storage[t] = false;
		fth_arena_init(&o->arena, o->options->mem, 1u << 14);
		rc = run_parts(o, stats);
		if (rc < 0 && o->lost != TASK_NONE && o->rows == 0)
			take_over(o, o->lost, rc);
		else
			o->lost = TASK_NONE;
		fth_arena_release(&o->arena);
	} while (o->lost != TASK_NONE);
	return rc;
}

static int run(struct offload *o, struct exec_stats *stats)
{
	struct remote_end end;
	int rc = run_whole(o, &end);

	if (rc == 0 || !end.suspended)
		return rc;
	take_over(o, end.task, rc);
	return run_rest(o, stats);
}

int offload_run(struct remote *r, const struct task_set *set, const struct exec_options *options,
		int (*emit)(void *user, const struct fth_vec *columns,
			    const struct fth_sel *selected),
		void *user, struct exec_stats *stats, struct offload_report *report)
{
	uint64_t sent = atomic_load(&r->sent), received = atomic_load(&r->received);
	size_t bytes = set->task_count * sizeof(*stats);
	struct offload o = {.remote = r,
			    .set = set,
			    .options = options,
			    .emit = emit,
			    .user = user,
			    .report = report,
			    .lost = TASK_NONE};
	int rc = -ENOMEM;

	for (unsigned t = 0; t < set->task_count; t++)
		report->at_storage[t] = true;
	memset(stats, 0, bytes);
	o.all = fth_qmem_alloc(options->mem, sizeof(*o.all));
	o.stats = fth_qmem_zalloc(options->mem, bytes);
	if (o.all && o.stats)
		rc = run(&o, stats);
	for (unsigned t = 0; t < set->task_count && o.stats; t++) {
		report->storage_bytes += o.stats[t].bytes;
		add_stats(&stats[t], &o.stats[t]);
	}
	fth_qmem_free(options->mem, o.all, sizeof(*o.all));
	fth_qmem_free(options->mem, o.stats, bytes);
	report->sent += atomic_load(&r->sent) - sent;
	report->received += atomic_load(&r->received) - received;
	return rc;
}
