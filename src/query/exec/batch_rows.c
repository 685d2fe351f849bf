/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows that wait for others. To fetch columns at a few rows costs almost as much as at many: whole
 * blocks of text are unpacked. So where selections and look-ups leave few rows of a batch, these
 * wait in front of the first FETCH step until a batch is full or the source has ended.
 *
 * Invariants:
 *  - Rows wait in their order, and those that do not wait go after those that do: order is kept.
 *  - Of each slot that is used from the step on, the value is copied: integers in 64 bits with base
 *    0, those whose range needs it in 128. Dictionaries stay where they are, so only those of the
 *    whole table or of a structure of the whole task may be behind a slot.
 *  - No row waits when the source has ended: structures may change then.
 *  - Waiting is optional: where memory is short no row waits, and the task goes on without.
 */
#include "query/exec/gathered_rows.h"
#include "query/task/slot_use.h"

#include <errno.h>

/* The part of the free memory that waiting rows may take. */
#define WAIT_PART 4u

struct waiting {
	const bool *slots; /* that have to be copied */
	struct gathered_rows rows;
	char *buffers; /* of values and nulls */
	size_t bytes;
};

/* ---- opening ---- */

static bool has_table_dictionary(const struct task_source *s, unsigned slot)
{
	for (unsigned i = 0; i < s->column_count; i++)
		if (s->columns[i].slot == slot)
			return fth_table_facts(s->table, s->columns[i].column)->flags &
			       FTH_TABLE_ALL_CODES;
	return false;
}

static bool is_lasting_payload(const struct runner *r, unsigned slot, unsigned end)
{
	for (unsigned i = 0; i < end; i++) {
		const struct task_lookup *l = &r->task->steps[i].lookup;

		if (r->task->steps[i].kind != TASK_LOOKUP)
			continue;
		for (unsigned k = 0; k < l->payload_count; k++)
			if (l->slots[k] == slot)
				return !r->steps[i].nested;
	}
	return false;
}

/* The slots that are used from step `at` on, and made before. */
static bool *slots_at(struct runner *r, unsigned at)
{
	const struct task *t = r->task;
	bool *slots = fth_arena_alloc(&r->arena, 2 * (t->slot_count + 1), 1);
	bool *made = slots + t->slot_count + 1;

	if (!slots)
		return NULL;
	memset(made, 0, t->slot_count);
	for (unsigned i = at; i < t->step_count; i++)
		step_makes(&t->steps[i], t->slot_count, made);
	for (unsigned i = 0; i < t->slot_count; i++)
		slots[i] = r->steps[at - 1].carried[i] && !made[i];
	return slots;
}

/* Whether rows may wait in front of step `at`. */
static bool is_possible(const struct runner *r, unsigned at, const bool *slots)
{
	for (unsigned i = 0; i < r->task->slot_count; i++)
		if (slots[i] && fth_type_is_text(r->task->slots[i].type) &&
		    !has_table_dictionary(&r->task->source, i) && !is_lasting_payload(r, i, at))
			return false;
	/* The groups of a row group must be complete when it is done. */
	for (unsigned i = 0; i < r->task->step_count; i++)
		if (r->task->steps[i].kind == TASK_RUNS)
			return false;
	return true;
}

static size_t value_width(const struct task_slot *slot)
{
	return !fth_type_is_text(slot->type) && rows_phys(slot) == FTH_I128 ? 16 : 8;
}

/* Buffers of the slots for which slots[] is true; NULL: of all. */
static size_t buffer_bytes(const struct task *t, const bool *slots)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < t->slot_count; i++)
		if (!slots || slots[i])
			bytes += FTH_BATCH * value_width(&t->slots[i]) + FTH_BATCH / 8;
	return bytes;
}

size_t wait_bytes(const struct task *t)
{
	return buffer_bytes(t, NULL);
}

static void divide_buffers(const struct task *t, struct waiting *w)
{
	char *at = w->buffers;

	for (unsigned i = 0; i < t->slot_count; i++) {
		if (!w->slots[i])
			continue;
		w->rows.values[i] = at;
		at += FTH_BATCH * value_width(&t->slots[i]);
		w->rows.nulls[i] = (uint64_t *)at;
		at += FTH_BATCH / 8;
	}
}

static void free_waiting(struct runner *r, struct waiting *w)
{
	fth_qmem_free(r->mem, w->buffers, w->bytes);
	fth_qmem_free(r->mem, w, sizeof(*w));
}

/* Rows can wait in front of step `at` from now on; without the memory they do not. */
static void open_waiting(struct runner *r, unsigned at, const bool *slots)
{
	size_t bytes = buffer_bytes(r->task, slots);
	struct waiting *w;

	if (bytes > fth_qmem_available(r->mem) / WAIT_PART)
		return;
	w = fth_qmem_zalloc(r->mem, sizeof(*w));
	if (!w)
		return;
	w->slots = slots;
	w->buffers = fth_qmem_alloc(r->mem, bytes);
	w->bytes = w->buffers ? bytes : 0;
	if (!w->buffers || gathered_init(&w->rows, r) < 0) {
		free_waiting(r, w);
		return;
	}
	divide_buffers(r->task, w);
	r->steps[at].waiting = w;
}

int wait_open(struct runner *r)
{
	unsigned at = 0;
	bool *slots;

	while (at < r->task->step_count && r->task->steps[at].kind != TASK_FETCH)
		at++;
	/* Rows that wait are not counted: a limit would be reached late. */
	if (at == 0 || at == r->task->step_count || r->task->source.kind != TASK_TABLE ||
	    runner_limited(r->task))
		return 0;
	slots = slots_at(r, at);
	if (!slots)
		return -ENOMEM;
	if (is_possible(r, at, slots))
		open_waiting(r, at, slots);
	return 0;
}

void wait_close(struct runner *r)
{
	for (unsigned i = 0; i < r->task->step_count && r->steps; i++) {
		if (r->steps[i].waiting)
			free_waiting(r, r->steps[i].waiting);
		r->steps[i].waiting = NULL;
	}
}

/* ---- waiting ---- */

/* Values that can wait behind those that do. */
static bool can_wait(const struct waiting *w, const struct task_slot *of, const struct fth_vec *v,
		     unsigned slot)
{
	return v->type != FTH_STR &&
	       (v->type != FTH_I128 || (v->base == 0 && value_width(of) == 16)) &&
	       (w->rows.count == 0 || v->dict == w->rows.frame.vecs[slot].dict) &&
	       (w->rows.count == 0 ||
		(v->type < FTH_I128 ? FTH_I64 : v->type) == w->rows.frame.vecs[slot].type);
}

static void copy_slot(struct gathered_rows *g, const struct fth_vec *v, unsigned slot,
		      const uint16_t *rows, unsigned n)
{
	g->frame.vecs[slot] = (struct fth_vec){.type = v->type < FTH_I128 ? FTH_I64 : v->type,
					       .data = g->values[slot],
					       .nulls = g->nulls[slot],
					       .dict = v->dict};
	gathered_copy(g, slot, v, rows, n);
}

static int run_waiting(struct runner *r, unsigned at)
{
	struct waiting *w = r->steps[at].waiting;
	unsigned n = w->rows.count;

	if (n == 0)
		return 0;
	fth_sel_all(&w->rows.frame.sel, n);
	w->rows.count = 0;
	return runner_steps(r, &w->rows.frame, at);
}

int wait_rows(struct runner *r, struct frame *f, unsigned at)
{
	struct waiting *w = r->steps[at].waiting;
	bool possible = f->sel.count <= FTH_BATCH / 2;
	const uint16_t *rows;
	const bool *carried;
	int rc = 0;

	if (!w || f == &w->rows.frame)
		return 0;
	carried = w->slots;
	for (unsigned i = 0; i < r->task->slot_count && rc == 0; i++)
		if (carried[i] && runner_has(r, f, i))
			rc = runner_need(r, f, i);
	for (unsigned i = 0; i < r->task->slot_count && rc == 0; i++)
		possible = possible && (!carried[i] || !f->have[i] ||
					can_wait(w, &r->task->slots[i], &f->vecs[i], i));
	if (rc == 0 && (!possible || w->rows.count + f->sel.count > FTH_BATCH))
		rc = run_waiting(r, at);
	if (rc < 0 || !possible)
		return rc;
	rows = fth_sel_rows(&f->sel);
	memset(w->rows.frame.have, 0, r->task->slot_count);
	for (unsigned i = 0; i < r->task->slot_count; i++)
		if (carried[i] && f->have[i]) {
			copy_slot(&w->rows, &f->vecs[i], i, rows, f->sel.count);
			w->rows.frame.have[i] = true;
		}
	w->rows.count += f->sel.count;
	return 1;
}

int wait_end(struct runner *r)
{
	int rc = 0;

	for (unsigned i = 0; i < r->task->step_count && rc == 0; i++)
		if (r->steps[i].waiting)
			rc = run_waiting(r, i);
	return rc;
}
