/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/show.h"

#include <inttypes.h>
#include <string.h>

static void show_slot(FILE *out, const struct task *t, uint32_t slot)
{
	fprintf(out, "%s#%u", t->slots[slot].name == NULL ? "" : t->slots[slot].name, slot);
}

static void show_slots(FILE *out, const struct task *t, const unsigned *slots, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		fputs(i == 0 ? "" : ", ", out);
		show_slot(out, t, slots[i]);
	}
}

/* ---- expressions ---- */

static void show_scaled(FILE *out, fth_i128 value, unsigned scale)
{
	char digits[48];
	unsigned n = 0;
	fth_u128 rest = value < 0 ? -(fth_u128)value : (fth_u128)value;

	do {
		digits[n++] = (char)('0' + (int)(rest % 10));
		rest /= 10;
	} while (rest > 0 || n <= scale);
	if (value < 0)
		putc('-', out);
	while (n > 0) {
		putc(digits[--n], out);
		if (n == scale && n > 0)
			putc('.', out);
	}
}

static void show_constant(FILE *out, const struct fth_expr *e)
{
	if (e->is_null)
		fputs("null", out);
	else if (fth_type_is_text(e->type))
		fprintf(out, "'%.*s'", (int)e->s.len, e->s.data);
	else if (e->type.kind == FTH_T_DOUBLE)
		fprintf(out, "%g", e->f);
	else if (e->type.kind == FTH_T_BOOL)
		fputs(e->i != 0 ? "true" : "false", out);
	else
		show_scaled(out, e->i, e->type.kind == FTH_T_DECIMAL ? e->type.scale : 0);
}

void task_show_expr(FILE *out, const struct task *t, const struct fth_expr *e)
{
	if (e->kind == FTH_EXPR_COLUMN) {
		show_slot(out, t, e->column);
		return;
	}
	if (e->kind == FTH_EXPR_CONST) {
		show_constant(out, e);
		return;
	}
	fprintf(out, "%s(", fth_op_name(e->op));
	for (unsigned i = 0; i < e->nargs; i++) {
		fputs(i == 0 ? "" : ", ", out);
		task_show_expr(out, t, e->args[i]);
	}
	putc(')', out);
}

/* ---- parts ---- */

static void show_aggregates(FILE *out, const struct task *t, const struct task_aggregate *a,
			    unsigned n)
{
	static const char *const names[] = {"count", "count", "sum", "avg", "min", "max", "any"};

	for (unsigned i = 0; i < n; i++) {
		fprintf(out, "%s%s(%s", i == 0 ? "" : ", ", names[a[i].op],
			a[i].distinct ? "distinct " : "");
		if (a[i].op == TASK_COUNT_ROWS)
			putc('*', out);
		else
			show_slot(out, t, a[i].slot);
		putc(')', out);
	}
}

static void show_source(FILE *out, const struct task *t)
{
	const struct task_source *s = &t->source;

	if (s->kind == TASK_TABLE)
		fprintf(out, "table %s", fth_table_name(s->table));
	else if (s->kind == TASK_VALUES)
		fprintf(out, "values, %u rows", s->value_rows);
	else
		fputs("result of", out);
	for (unsigned i = 0; i < s->input_count; i++)
		fprintf(out, " %u", s->inputs[i]);
	fputs(":", out);
	for (unsigned i = 0; i < s->column_count; i++) {
		fputs(i == 0 ? " " : ", ", out);
		show_slot(out, t, s->columns[i].slot);
	}
	if (s->row_slot != TASK_NONE)
		fprintf(out, ", row#%u", s->row_slot);
	if (t->nested)
		fprintf(out, "; once for each row group of task %u", t->parent);
	putc('\n', out);
}

static void show_lookup(FILE *out, const struct task *t, const struct task_lookup *l)
{
	static const char *const names[] = {"semi", "anti", "inner", "left", "single"};

	fprintf(out, "look up in %u, %s: ", l->task, names[l->match]);
	show_slots(out, t, l->keys, l->key_count);
	if (l->payload_count > 0) {
		fputs(" -> ", out);
		show_slots(out, t, l->slots, l->payload_count);
	}
	if (l->condition != NULL) {
		fputs(" where ", out);
		task_show_expr(out, t, l->condition);
	}
}

static void show_runs(FILE *out, const struct task *t, const struct task_runs *r)
{
	fputs("group runs by ", out);
	show_slots(out, t, r->keys, r->key_count);
	fputs(": ", out);
	show_aggregates(out, t, r->aggregates, r->aggregate_count);
	fputs(" -> ", out);
	show_slots(out, t, r->key_slots, r->key_count);
	fputs(r->aggregate_count > 0 ? ", " : "", out);
	show_slots(out, t, r->slots, r->aggregate_count);
}

static void show_fetch(FILE *out, const struct task *t, const struct task_fetch *f)
{
	fprintf(out, "fetch from %s at ", fth_table_name(f->table));
	show_slot(out, t, f->row_slot);
	for (unsigned i = 0; i < f->column_count; i++) {
		fputs(i == 0 ? ": " : ", ", out);
		show_slot(out, t, f->columns[i].slot);
	}
}

static void show_step(FILE *out, const struct task *t, const struct task_step *s)
{
	fputs("    ", out);
	switch (s->kind) {
	case TASK_SELECT:
		fputs("select ", out);
		task_show_expr(out, t, s->predicate);
		break;
	case TASK_COMPUTE:
		fputs("compute ", out);
		show_slot(out, t, s->compute.slot);
		fputs(" = ", out);
		task_show_expr(out, t, s->compute.value);
		break;
	case TASK_LOOKUP:
		show_lookup(out, t, &s->lookup);
		break;
	case TASK_FETCH:
		show_fetch(out, t, &s->fetch);
		break;
	case TASK_RUNS:
		show_runs(out, t, &s->runs);
		break;
	}
	putc('\n', out);
}

static void show_order(FILE *out, const struct task *t)
{
	const struct task_reduce *r = &t->reduce;

	for (unsigned i = 0; i < r->order_count; i++) {
		fputs(i == 0 ? " by " : ", ", out);
		show_slot(out, t, r->order[i].slot);
		fputs(r->order[i].descending ? " desc" : "", out);
	}
	if (r->limit != UINT64_MAX)
		fprintf(out, ", first %" PRIu64, r->limit);
	if (r->offset > 0)
		fprintf(out, " after %" PRIu64, r->offset);
}

static void show_reduce(FILE *out, const struct task *t)
{
	static const char *const names[] = {"output", "group", "sort", "set", "map", "multimap"};
	const struct task_reduce *r = &t->reduce;

	fprintf(out, "    %s", names[r->kind]);
	if (r->key_count > 0)
		fputs(" by ", out);
	show_slots(out, t, r->keys, r->key_count);
	show_order(out, t);
	if (r->column_count + r->aggregate_count > 0)
		fputs(": ", out);
	show_slots(out, t, r->columns, r->column_count);
	show_aggregates(out, t, r->aggregates, r->aggregate_count);
	putc('\n', out);
}

void task_show_task(FILE *out, const struct task_set *set, unsigned number)
{
	const struct task *t = &set->tasks[number];

	fprintf(out, "task %u: ", number);
	show_source(out, t);
	for (unsigned k = 0; k < t->step_count; k++)
		show_step(out, t, &t->steps[k]);
	show_reduce(out, t);
}

void task_show(FILE *out, const struct task_set *set)
{
	for (unsigned i = 0; i < set->task_count; i++)
		task_show_task(out, set, i);
}
