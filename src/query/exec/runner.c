/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/exec/runner.h"
#include "query/exec/fetch.h"
#include "query/task/slot_use.h"

#include "fathom/base/error.h"

#include <errno.h>

#define SHARE_MIN ((uint64_t)1 << 20) /* of a reducer; halved with the usual share */

/* For each step the slots that are used behind it. */
static int find_live(struct runner *r)
{
	const struct task *t = r->task;
	size_t bytes = t->slot_count + 1;
	bool *live = fth_arena_alloc(&r->arena, bytes, 1);

	if (!live)
		return -ENOMEM;
	memset(live, 0, bytes);
	reduce_uses(&t->reduce, live);
	for (unsigned i = t->step_count; i-- > 0;) {
		r->steps[i].carried = fth_arena_alloc(&r->arena, bytes, 1);
		if (!r->steps[i].carried)
			return -ENOMEM;
		memcpy(r->steps[i].carried, live, bytes);
		step_uses(&t->steps[i], live);
	}
	return 0;
}

/* ---- opening ---- */

static void *arena_zero(struct runner *r, size_t bytes)
{
	void *p = fth_arena_alloc(&r->arena, bytes + 1, 16);

	return p ? memset(p, 0, bytes) : NULL;
}

static int init_frame(struct runner *r, struct frame *f)
{
	f->vecs = arena_zero(r, r->task->slot_count * sizeof(*f->vecs));
	f->have = arena_zero(r, r->task->slot_count * sizeof(*f->have));
	return !f->vecs || !f->have ? -ENOMEM : 0;
}

static int new_frame(struct runner *r, struct frame **out)
{
	*out = fth_qmem_zalloc(r->mem, sizeof(**out));
	return *out ? init_frame(r, *out) : -ENOMEM;
}

static int open_program(struct runner *r, struct step_state *s, struct fth_expr *e)
{
	int rc = fth_prog_compile(r->mem, &e, 1, &s->prog);

	return rc < 0 ? rc : fth_prog_run_new(s->prog, r->mem, &s->run);
}

/* Values of a slot, in whatever type they come. */
static size_t slot_bytes(const struct task_slot *slot)
{
	bool wide = fth_type_is_text(slot->type) || rows_phys(slot) == FTH_I128;

	return (size_t)FTH_BATCH * (wide ? 16 : 8);
}

static int open_slot(struct runner *r, struct step_state *s, unsigned slot)
{
	if (s->values[slot])
		return 0;
	s->values[slot] = fth_qmem_alloc(r->mem, slot_bytes(&r->task->slots[slot]));
	s->nulls[slot] = fth_qmem_alloc(r->mem, FTH_BATCH / 8);
	return !s->values[slot] || !s->nulls[slot] ? -ENOMEM : 0;
}

static bool fills_frame(const struct task_lookup *l, const struct task *built)
{
	if (l->condition)
		return true;
	if (l->match == TASK_SEMI || l->match == TASK_ANTI)
		return false;
	return built->reduce.kind == TASK_MULTIMAP;
}

static int open_lookup(struct runner *r, unsigned at)
{
	const struct task_lookup *l = &r->task->steps[at].lookup;
	const struct task *built = &r->exec->tasks[l->task];
	struct step_state *s = &r->steps[at];
	unsigned slots = r->task->slot_count;
	int rc = index_scratch_open(r->mem, &s->scratch);

	s->keys = arena_zero(r, l->key_count * sizeof(struct fth_vec *));
	s->values = arena_zero(r, slots * sizeof(void *));
	s->nulls = arena_zero(r, slots * sizeof(uint64_t *));
	s->found = fth_qmem_alloc(r->mem, sizeof(*s->found));
	s->one_match = built->reduce.kind == TASK_MAP;
	s->pair_rows = fth_qmem_alloc(r->mem, (FTH_BATCH + 64) * sizeof(*s->pair_rows));
	s->pair_matches = fth_qmem_alloc(r->mem, FTH_BATCH * sizeof(*s->pair_matches));
	s->matched = fth_qmem_alloc(r->mem, FTH_BATCH / 8);
	s->counts = fth_qmem_alloc(r->mem, FTH_BATCH * sizeof(*s->counts));
	if (rc < 0 || !s->keys || !s->values || !s->nulls || !s->found || !s->pair_rows ||
	    !s->pair_matches || !s->matched || !s->counts)
		return -ENOMEM;
	if (l->condition)
		rc = open_program(r, s, l->condition);
	if (rc == 0 && fills_frame(l, built)) {
		rc = new_frame(r, &s->next);
		if (l->condition)
			expr_uses(l->condition, s->carried);
		for (unsigned i = 0; i < slots && rc == 0; i++)
			if (s->carried[i])
				rc = open_slot(r, s, i);
	}
	for (unsigned i = 0; i < l->payload_count && rc == 0; i++)
		rc = open_slot(r, s, l->slots[i]);
	if (rc == 0 && built->nested)
		rc = runner_open(r->exec, l->task, NULL, NULL, &s->nested);
	if (!built->nested)
		s->index = r->exec->results[l->task].index;
	return rc;
}

/*
 * The memory of one thread for groups or rows to sort; all threads share five eighths of the free.
 */
static uint64_t reducer_share(const struct runner *r)
{
	uint64_t share = fth_qmem_available(r->mem) / 8 * 5 / r->exec->threads;
	unsigned users = 1;

	for (unsigned i = 0; i < r->task->step_count; i++)
		users += r->task->steps[i].kind == TASK_RUNS;
	share /= users;
	share = share > SHARE_MIN ? share : SHARE_MIN;
	return share >> r->exec->squeeze;
}

static int open_runs(struct runner *r, unsigned at)
{
	const struct task_runs *runs = &r->task->steps[at].runs;
	struct step_state *s = &r->steps[at];
	int rc;

	s->key_slots = arena_zero(r, runs->key_count * sizeof(*s->key_slots));
	s->keys =
		arena_zero(r, (runs->key_count + runs->aggregate_count) * sizeof(struct fth_vec *));
	if (!s->key_slots || !s->keys)
		return -ENOMEM;
	for (unsigned i = 0; i < runs->key_count; i++)
		s->key_slots[i] = r->task->slots[runs->keys[i]];
	s->grouping = (struct grouper_spec){.key_count = runs->key_count,
					    .keys = s->key_slots,
					    .aggregate_count = runs->aggregate_count,
					    .aggregates = runs->aggregates,
					    .slots = r->task->slots,
					    .runs = true,
					    .memory = reducer_share(r)};
	rc = grouper_open(r->mem, &s->grouping, &s->grouper);
	if (rc == 0)
		rc = group_store_open(r->mem, &r->exec->scratch, &s->groups_left);
	if (rc < 0)
		return rc;
	grouper_use(s->grouper, s->groups_left);
	return new_frame(r, &s->next);
}

static int open_fetch(struct runner *r, unsigned at)
{
	const atomic_bool *cancel[] = {&r->exec->stop, r->exec->options->cancel};

	return fetcher_open(r->mem, &r->task->steps[at].fetch, r->task->slots, cancel,
			    &r->steps[at].fetcher);
}

static int open_step(struct runner *r, unsigned at)
{
	const struct task_step *step = &r->task->steps[at];

	switch (step->kind) {
	case TASK_SELECT:
		return open_program(r, &r->steps[at], step->predicate);
	case TASK_COMPUTE:
		return open_program(r, &r->steps[at], step->compute.value);
	case TASK_LOOKUP:
		return open_lookup(r, at);
	case TASK_RUNS:
		return open_runs(r, at);
	case TASK_FETCH:
		return open_fetch(r, at);
	}
	return -EINVAL;
}

struct index_spec result_index(const struct task *t, struct task_slot *columns)
{
	static const enum index_kind kinds[] = {
		[TASK_SET] = INDEX_SET, [TASK_MAP] = INDEX_MAP, [TASK_MULTIMAP] = INDEX_MULTIMAP};
	unsigned slots[256];
	unsigned n = result_columns(t, slots);

	for (unsigned i = 0; i < n; i++)
		columns[i] = t->slots[slots[i]];
	return (struct index_spec){.kind = kinds[t->reduce.kind],
				   .key_count = t->reduce.key_count,
				   .column_count = n,
				   .columns = columns,
				   .to = UINT64_MAX,
				   .room = UINT64_MAX,
				   .rows = t->estimate.rows,
				   .twice = t->source.kind != TASK_GIVEN};
}

unsigned result_columns(const struct task *t, unsigned *slots)
{
	const struct task_reduce *r = &t->reduce;
	unsigned n = 0;

	for (unsigned i = 0; i < r->key_count && task_builds_structure(t); i++)
		slots[n++] = r->keys[i];
	for (unsigned i = 0; i < r->column_count; i++)
		slots[n++] = r->columns[i];
	for (unsigned i = 0; i < r->order_count; i++)
		slots[n++] = r->order[i].slot;
	return n;
}

static int open_group(struct runner *r)
{
	const struct task_reduce *d = &r->task->reduce;
	int rc;

	for (unsigned i = 0; i < d->key_count; i++)
		r->key_slots[i] = r->task->slots[d->keys[i]];
	r->grouping = (struct grouper_spec){.key_count = d->key_count,
					    .keys = r->key_slots,
					    .aggregate_count = d->aggregate_count,
					    .aggregates = d->aggregates,
					    .slots = r->task->slots,
					    .memory = reducer_share(r)};
	rc = grouper_open(r->mem, &r->grouping, &r->grouper);
	if (rc == 0)
		grouper_use(r->grouper, r->exec->store);
	return rc;
}

static int open_sort(struct runner *r)
{
	const struct task_reduce *d = &r->task->reduce;
	struct sorter_spec spec = {.column_count = d->column_count,
				   .order_count = d->order_count,
				   .columns = r->exec->columns[r->number],
				   .order = d->order,
				   .offset = d->offset,
				   .limit = d->limit,
				   .memory = reducer_share(r)};

	return sorter_open(r->mem, &spec, &r->exec->scratch, &r->sorter);
}

static int open_reduce(struct runner *r)
{
	const struct task_reduce *d = &r->task->reduce;
	unsigned n = d->key_count + d->column_count + d->order_count + d->aggregate_count;

	r->columns = arena_zero(r, n * sizeof(struct fth_vec *));
	r->key_slots = arena_zero(r, d->key_count * sizeof(*r->key_slots));
	r->emitted = arena_zero(r, n * sizeof(*r->emitted));
	if (!r->columns || !r->key_slots || !r->emitted)
		return -ENOMEM;
	if (d->kind == TASK_GROUP)
		return open_group(r);
	if (d->kind == TASK_SORT)
		return open_sort(r);
	if (r->build)
		return build_writer_open(r->build, &r->builder);
	return r->rows ? rows_writer_open(r->rows, &r->writer) : 0;
}

int runner_open(struct exec *exec, unsigned number, struct rows *rows, struct build *build,
		struct runner **out)
{
	struct runner *r = fth_qmem_zalloc(exec->mem, sizeof(*r));
	int rc;

	*out = NULL;
	if (!r)
		return -ENOMEM;
	r->exec = exec;
	r->number = number;
	r->task = &exec->tasks[number];
	r->mem = exec->mem;
	r->rows = rows;
	r->build = build;
	fth_arena_init(&r->arena, r->mem, 16u << 10);
	r->steps = arena_zero(r, r->task->step_count * sizeof(*r->steps));
	rc = r->steps ? init_frame(r, &r->frame) : -ENOMEM;
	if (rc == 0)
		rc = find_live(r);
	if (rc == 0)
		rc = runner_open_source(r);
	for (unsigned i = 0; i < r->task->step_count && rc == 0; i++)
		rc = open_step(r, i);
	if (rc == 0)
		rc = open_reduce(r);
	if (rc == 0)
		rc = sieve_open(r);
	if (rc == 0)
		rc = wait_open(r);
	if (rc < 0) {
		runner_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

static void close_step(struct runner *r, struct step_state *s)
{
	fth_prog_run_free(s->run);
	fth_prog_free(s->prog);
	if (s->next)
		fth_qmem_free(r->mem, s->next, sizeof(*s->next));
	index_scratch_close(s->scratch);
	fth_qmem_free(r->mem, s->found, sizeof(*s->found));
	fth_qmem_free(r->mem, s->pair_rows, (FTH_BATCH + 64) * sizeof(*s->pair_rows));
	fth_qmem_free(r->mem, s->pair_matches, FTH_BATCH * sizeof(*s->pair_matches));
	fth_qmem_free(r->mem, s->matched, FTH_BATCH / 8);
	fth_qmem_free(r->mem, s->counts, FTH_BATCH * sizeof(*s->counts));
	for (unsigned i = 0; i < r->task->slot_count && s->values; i++) {
		fth_qmem_free(r->mem, s->values[i], slot_bytes(&r->task->slots[i]));
		fth_qmem_free(r->mem, s->nulls[i], FTH_BATCH / 8);
	}
	if (s->nested) {
		index_free((struct index *)s->index);
		runner_close(s->nested);
	}
	grouper_close(s->grouper);
	group_store_close(s->groups_left);
	fetcher_close(s->fetcher);
}

static void close_source(struct runner *r)
{
	scan_close(r->reader);
	r->reader = NULL;
	for (unsigned i = 0; i < r->task->source.column_count && r->decoders; i++)
		decoder_close(r->decoders[i]);
	r->decoders = NULL;
	fth_qmem_free(r->mem, r->row_numbers, FTH_BATCH * sizeof(*r->row_numbers));
	r->row_numbers = NULL;
	fth_qmem_free(r->mem, r->nested_keys, FTH_BATCH * sizeof(*r->nested_keys));
	r->nested_keys = NULL;
}

void runner_sleep(struct runner *r)
{
	r->slept_bytes = r->stats.bytes;
	r->slept_chunks = r->stats.chunks;
	close_source(r);
	for (unsigned i = 0; i < r->task->step_count; i++)
		if (r->steps[i].nested)
			runner_sleep(r->steps[i].nested);
}

int runner_wake(struct runner *r)
{
	int rc = runner_open_source(r);

	for (unsigned i = 0; i < r->task->step_count && rc == 0; i++) {
		const struct task_step *step = &r->task->steps[i];

		if (r->steps[i].nested)
			rc = runner_wake(r->steps[i].nested);
		else if (step->kind == TASK_LOOKUP)
			r->steps[i].index = r->exec->results[step->lookup.task].index;
	}
	return rc;
}

void runner_close(struct runner *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->task->step_count && r->steps; i++)
		close_step(r, &r->steps[i]);
	rows_writer_close(r->writer);
	build_writer_close(r->builder);
	grouper_close(r->grouper);
	sorter_close(r->sorter);
	close_source(r);
	sieve_close(r);
	wait_close(r);
	fth_arena_release(&r->arena);
	fth_qmem_free(r->mem, r, sizeof(*r));
}

/* ---- slots ---- */

static void number_rows(struct runner *r)
{
	unsigned slot = r->task->source.row_slot;

	for (uint32_t i = r->from; i < r->to; i++)
		r->row_numbers[i - r->from] = (int64_t)(r->group->first + i);
	r->frame.vecs[slot] = (struct fth_vec){.type = FTH_I64, .data = r->row_numbers};
	r->frame.have[slot] = true;
}

bool runner_has(const struct runner *r, const struct frame *f, unsigned slot)
{
	const struct task_source *s = &r->task->source;

	if (f->have[slot])
		return true;
	if (f != &r->frame || s->kind != TASK_TABLE)
		return false;
	for (unsigned i = 0; i < s->column_count; i++)
		if (s->columns[i].slot == slot)
			return true;
	return slot == s->row_slot;
}

int runner_need(struct runner *r, struct frame *f, unsigned slot)
{
	const struct task_source *s = &r->task->source;

	if (f->have[slot])
		return 0;
	if (f == &r->frame && s->kind == TASK_TABLE) {
		if (slot == s->row_slot) {
			number_rows(r);
			return 0;
		}
		for (unsigned i = 0; i < s->column_count; i++)
			if (s->columns[i].slot == slot)
				return runner_decode(r, i);
	}
	return fth_fail(EINVAL, "task %u uses slot %u, which does not exist", r->number, slot);
}

static int need_expr(struct runner *r, struct frame *f, const struct fth_expr *e)
{
	int rc = 0;

	if (e->kind == FTH_EXPR_COLUMN)
		return runner_need(r, f, e->column);
	for (unsigned i = 0; i < e->nargs && e->kind == FTH_EXPR_CALL && rc == 0; i++)
		rc = need_expr(r, f, e->args[i]);
	return rc;
}

/* ---- steps ---- */

static int run_select(struct runner *r, struct frame *f, unsigned at)
{
	int rc = need_expr(r, f, r->task->steps[at].predicate);

	return rc < 0 ? rc : fth_prog_filter(r->steps[at].run, f->vecs, &f->sel);
}

static int run_compute(struct runner *r, struct frame *f, unsigned at)
{
	unsigned slot = r->task->steps[at].compute.slot;
	int rc = need_expr(r, f, r->task->steps[at].compute.value);

	if (rc == 0)
		rc = fth_prog_exec(r->steps[at].run, f->vecs, f->sel.n, f->sel.bits,
				   &f->vecs[slot]);
	f->have[slot] = rc == 0;
	return rc;
}

static int run_fetch(struct runner *r, struct frame *f, unsigned at)
{
	const struct task_fetch *fetch = &r->task->steps[at].fetch;
	int rc = runner_need(r, f, fetch->row_slot);

	if (rc == 0)
		rc = fetcher_run(r->steps[at].fetcher, &f->vecs[fetch->row_slot], &f->sel, f->vecs);
	for (unsigned i = 0; i < fetch->column_count && rc == 0; i++)
		f->have[fetch->columns[i].slot] = true;
	return rc;
}

static int gather_args(struct runner *r, struct frame *f, const struct task_aggregate *a,
		       unsigned n, struct fth_vec **out)
{
	int rc;

	for (unsigned i = 0; i < n; i++) {
		out[i] = NULL;
		if (a[i].slot == TASK_NONE)
			continue;
		rc = runner_need(r, f, a[i].slot);
		if (rc < 0)
			return rc;
		out[i] = &f->vecs[a[i].slot];
	}
	return 0;
}

static int gather_slots(struct runner *r, struct frame *f, const unsigned *slots, unsigned n,
			struct fth_vec **out)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++) {
		rc = runner_need(r, f, slots[i]);
		out[i] = &f->vecs[slots[i]];
	}
	return rc;
}

static int run_runs(struct runner *r, struct frame *f, unsigned at)
{
	const struct task_runs *runs = &r->task->steps[at].runs;
	struct step_state *s = &r->steps[at];
	int rc = gather_slots(r, f, runs->keys, runs->key_count, s->keys);

	if (rc == 0)
		rc = gather_args(r, f, runs->aggregates, runs->aggregate_count,
				 s->keys + runs->key_count);
	return rc < 0 ? rc : grouper_add(s->grouper, s->keys, s->keys + runs->key_count, &f->sel);
}

static int emit(struct runner *r, unsigned n, const struct fth_sel *sel)
{
	int rc;

	for (unsigned i = 0; i < n; i++)
		r->emitted[i] = *r->columns[i];
	pthread_mutex_lock(&r->exec->emit_lock);
	r->exec->emitted = true;
	rc = r->exec->emit(r->exec->user, r->emitted, sel);
	pthread_mutex_unlock(&r->exec->emit_lock);
	return rc;
}

static int sort_rows(struct runner *r, struct fth_sel *sel)
{
	unsigned n = sel->count; /* of which the sorter may drop some */
	int rc = sorter_add(r->sorter, r->columns, sel);

	if (rc < 0 || !r->limit)
		return rc;
	atomic_fetch_add_explicit(&r->limit->taken, n, memory_order_relaxed);
	return runner_stopped(r);
}

static int reduce(struct runner *r, struct frame *f)
{
	const struct task_reduce *d = &r->task->reduce;
	unsigned slots[256];
	unsigned n;
	int rc;

	r->stats.rows += f->sel.count;
	if (d->kind == TASK_GROUP) {
		rc = gather_slots(r, f, d->keys, d->key_count, r->columns);
		if (rc == 0)
			rc = gather_args(r, f, d->aggregates, d->aggregate_count,
					 r->columns + d->key_count);
		return rc < 0 ? rc
			      : grouper_add(r->grouper, r->columns, r->columns + d->key_count,
					    &f->sel);
	}
	n = result_columns(r->task, slots);
	rc = gather_slots(r, f, slots, n, r->columns);
	if (rc < 0)
		return rc;
	if (r->builder)
		return build_append(r->builder, r->columns, &f->sel);
	if (r->sorter)
		return sort_rows(r, &f->sel);
	return r->writer ? rows_append(r->writer, r->columns, &f->sel) : emit(r, n, &f->sel);
}

/* Returns 1 if the steps behind this one run in another frame, or later. */
static int run_step(struct runner *r, struct frame *f, unsigned at)
{
	const struct task_step *s = &r->task->steps[at];
	int rc;

	switch (s->kind) {
	case TASK_SELECT:
		return run_select(r, f, at);
	case TASK_COMPUTE:
		return run_compute(r, f, at);
	case TASK_LOOKUP:
		rc = runner_lookup(r, f, at);
		return rc < 0 || !r->steps[at].next || s->lookup.match == TASK_SEMI ||
				       s->lookup.match == TASK_ANTI
			       ? rc
			       : 1;
	case TASK_RUNS:
		rc = run_runs(r, f, at);
		return rc < 0 ? rc : 1;
	case TASK_FETCH:
		rc = wait_rows(r, f, at);
		return rc != 0 ? rc : run_fetch(r, f, at);
	}
	return -EINVAL;
}

int runner_steps_until(struct runner *r, struct frame *f, unsigned end)
{
	int rc = 0;

	for (unsigned at = 0; at < end && f->sel.count > 0 && rc == 0; at++)
		rc = run_step(r, f, at);
	return rc;
}

int runner_steps(struct runner *r, struct frame *f, unsigned at)
{
	int rc = 0;

	for (; at < r->task->step_count && f->sel.count > 0; at++) {
		rc = run_step(r, f, at);
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	return f->sel.count == 0 ? 0 : reduce(r, f);
}

/* A batch of groups of a RUNS step goes on through the steps behind it. */
static int flush_batch(struct runner *r, unsigned at, const struct fth_vec *columns, unsigned n)
{
	const struct task_runs *runs = &r->task->steps[at].runs;
	struct frame *next = r->steps[at].next;

	memset(next->have, 0, r->task->slot_count * sizeof(bool));
	for (unsigned i = 0; i < runs->key_count + runs->aggregate_count; i++) {
		unsigned slot =
			i < runs->key_count ? runs->key_slots[i] : runs->slots[i - runs->key_count];

		next->vecs[slot] = columns[i];
		next->have[slot] = true;
	}
	fth_sel_all(&next->sel, n);
	return runner_steps(r, next, at + 1);
}

/* Groups that did not fit come back part by part; then the step begins anew. */
static int flush_left(struct runner *r, unsigned at, struct fth_vec *columns)
{
	struct step_state *s = &r->steps[at];
	struct grouper *g = s->grouper;
	int n, rc;

	s->grouper = NULL;
	rc = group_store_finish(s->groups_left, &g, 1, false);
	while (rc == 0 && (n = group_store_next(s->groups_left, columns)) != 0)
		rc = n < 0 ? n : flush_batch(r, at, columns, (unsigned)n);
	return rc < 0 ? rc : group_store_recycle(s->groups_left, &s->grouper);
}

static int flush_step(struct runner *r, unsigned at)
{
	const struct task_runs *runs = &r->task->steps[at].runs;
	struct step_state *s = &r->steps[at];
	struct fth_vec columns[64];
	uint32_t from = 0;
	int n, rc = 0;

	if (runs->key_count + runs->aggregate_count > 64)
		return fth_fail(EOPNOTSUPP, "a group of more than 64 columns is not supported");
	if (group_store_spilled(s->groups_left))
		return flush_left(r, at, columns);
	while (rc == 0 && (n = grouper_batch(s->grouper, &from, columns)) != 0)
		rc = n < 0 ? n : flush_batch(r, at, columns, (unsigned)n);
	grouper_reset(s->grouper);
	return rc;
}

int runner_flush(struct runner *r)
{
	int rc = 0;

	for (unsigned i = 0; i < r->task->step_count && rc == 0; i++)
		if (r->task->steps[i].kind == TASK_RUNS)
			rc = flush_step(r, i);
	return rc;
}
