/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/task_show.h"

#include "query/task/task_names.h"
#include "scalar/calendar.h"
#include "scalar/calendar.h"
#include "scalar/num.h"

#include <inttypes.h>
#include <string.h>

struct show {
	FILE *out;
	const struct task_set *set;
	const struct task *task;
	bool full;
};

static void show_quoted(FILE *out, char quote, const char *text, size_t length)
{
	putc(quote, out);
	for (size_t i = 0; i < length; i++) {
		if (text[i] == quote)
			putc(quote, out);
		putc(text[i], out);
	}
	putc(quote, out);
}

static bool is_word(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	return name[0] != '\0' && strchr(letters, name[0]) && name[n] == '\0';
}

static void show_name(FILE *out, const char *name)
{
	if (is_word(name))
		fputs(name, out);
	else
		show_quoted(out, '"', name, strlen(name));
}

static const char *slot_name(const struct task *t, uint32_t slot)
{
	return t->slots[slot].name ? t->slots[slot].name : "slot";
}

static void show_slot(FILE *out, const struct task *t, uint32_t slot)
{
	show_name(out, slot_name(t, slot));
	fprintf(out, "#%u", slot);
}

static void show_slots(FILE *out, const struct task *t, const unsigned *slots, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		fputs(i == 0 ? "" : ", ", out);
		show_slot(out, t, slots[i]);
	}
}

static void show_int(FILE *out, fth_i128 value)
{
	char text[FTH_NUM_TEXT];

	fwrite(text, 1, fth_dec_text(value, 0, text), out);
}

static void show_type(FILE *out, struct fth_type type)
{
	fputs(task_type_names[type.kind], out);
	if (type.kind == FTH_T_DECIMAL)
		fprintf(out, "(%u,%u)", type.precision, type.scale);
	else if (fth_type_is_text(type) && type.length > 0)
		fprintf(out, "(%" PRIu32 ")", type.length);
}

/* Type, nullability and range of a slot, behind its name. */
static void show_facts(const struct show *s, const struct task_slot *slot)
{
	if (!s->full)
		return;
	putc(' ', s->out);
	show_type(s->out, slot->type);
	if (slot->nullable)
		fputs(" null", s->out);
	if (fth_type_is_int(slot->type) && slot->lo <= slot->hi) {
		fputs(" [", s->out);
		show_int(s->out, slot->lo);
		fputs("..", s->out);
		show_int(s->out, slot->hi);
		putc(']', s->out);
	}
}

/* A slot where it gets its value. */
static void show_made(const struct show *s, uint32_t slot)
{
	show_slot(s->out, s->task, slot);
	show_facts(s, &s->task->slots[slot]);
}

/* ---- expressions ---- */

static void show_typed(FILE *out, const struct fth_expr *e)
{
	char text[FTH_NUM_TEXT];
	unsigned n;

	show_type(out, e->type);
	putc(' ', out);
	if (e->is_null) {
		fputs("null", out);
		return;
	}
	if (fth_type_is_text(e->type)) {
		show_quoted(out, '\'', e->s.data, e->s.len);
		return;
	}
	if (e->type.kind == FTH_T_DOUBLE)
		n = (unsigned)snprintf(text, sizeof(text), "%.17g", e->f);
	else if (e->type.kind == FTH_T_DATE)
		n = fth_date_text((int32_t)e->i, text);
	else
		n = fth_dec_text(e->i, e->type.kind == FTH_T_DECIMAL ? e->type.scale : 0, text);
	show_quoted(out, '\'', text, n);
}

static void show_constant(FILE *out, const struct fth_expr *e)
{
	if (e->is_null)
		show_typed(out, e);
	else if (e->type.kind == FTH_T_INT32)
		show_int(out, e->i);
	else if (e->type.kind == FTH_T_BOOL)
		fputs(e->i != 0 ? "true" : "false", out);
	else if (e->type.kind == FTH_T_TEXT && e->type.length == 0)
		show_quoted(out, '\'', e->s.data, e->s.len);
	else
		show_typed(out, e);
}

/* a and b and c is (a and b) and c. */
static bool is_chain(const struct fth_expr *e, unsigned arg)
{
	const struct fth_expr *a = e->args[arg];

	return arg == 0 && (e->op == FTH_OP_AND || e->op == FTH_OP_OR) &&
	       a->kind == FTH_EXPR_CALL && a->op == e->op;
}

static void show_operand(FILE *out, const struct task *t, const struct fth_expr *e, unsigned arg)
{
	const struct fth_expr *a = e->args[arg];
	bool brackets = a->kind == FTH_EXPR_CALL && task_op_is_infix(a->op) && !is_chain(e, arg);

	fputs(brackets ? "(" : "", out);
	task_show_expr(out, t, a);
	fputs(brackets ? ")" : "", out);
}

static void show_call(FILE *out, const struct task *t, const struct fth_expr *e)
{
	fprintf(out, "%s(", task_op_name(e->op));
	for (unsigned i = 0; i < e->nargs; i++) {
		fputs(i == 0 ? "" : ", ", out);
		task_show_expr(out, t, e->args[i]);
	}
	if (e->op == FTH_OP_CAST) {
		fputs(" as ", out);
		show_type(out, e->type);
	}
	putc(')', out);
}

void task_show_expr(FILE *out, const struct task *t, const struct fth_expr *e)
{
	if (e->kind == FTH_EXPR_COLUMN) {
		show_slot(out, t, e->column);
	} else if (e->kind == FTH_EXPR_CONST) {
		show_constant(out, e);
	} else if (task_op_is_infix(e->op)) {
		show_operand(out, t, e, 0);
		fprintf(out, " %s ", task_op_name(e->op));
		show_operand(out, t, e, 1);
	} else {
		show_call(out, t, e);
	}
}

/* ---- parts ---- */

static void show_aggregate(const struct show *s, const struct task_aggregate *a)
{
	fprintf(s->out, "%s(%s", task_aggregate_names[a->op], a->distinct ? "distinct " : "");
	if (a->op == TASK_COUNT_ROWS)
		putc('*', s->out);
	else
		show_slot(s->out, s->task, a->slot);
	putc(')', s->out);
}

/* named: with names and facts of the results, which are in slots otherwise. */
static void show_aggregates(const struct show *s, const struct task_aggregate *a, unsigned n,
			    bool named)
{
	for (unsigned i = 0; i < n; i++) {
		fputs(i == 0 ? "" : ", ", s->out);
		show_aggregate(s, &a[i]);
		if (named && s->full) {
			fputs(" as ", s->out);
			show_name(s->out, a[i].result.name ? a[i].result.name : "value");
			show_facts(s, &a[i].result);
		}
	}
}

/* Columns of a table that become slots: by name, which is the slot's unless it is given. */
static void show_table_columns(const struct show *s, const struct fth_table *table,
			       const struct task_source_column *columns, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const char *name = fth_table_schema(table)->column[columns[i].column].name;

		fputs(i == 0 ? " " : ", ", s->out);
		show_made(s, columns[i].slot);
		if (strcmp(name, slot_name(s->task, columns[i].slot)) != 0) {
			fputs(" = ", s->out);
			show_name(s->out, name);
		}
	}
}

static void show_values(const struct show *s, const struct task_source *v)
{
	struct show typed = *s;

	/* Without a row nothing else tells the types. */
	typed.full = s->full || v->value_rows == 0;
	for (unsigned i = 0; i < v->column_count; i++) {
		fputs(i == 0 ? " " : ", ", s->out);
		show_made(&typed, v->columns[i].slot);
	}
	fputs(" of", s->out);
	for (unsigned row = 0; row < v->value_rows; row++) {
		fputs(row == 0 ? " (" : ", (", s->out);
		for (unsigned i = 0; i < v->column_count; i++) {
			fputs(i == 0 ? "" : ", ", s->out);
			task_show_expr(s->out, s->task, v->values[row * v->column_count + i]);
		}
		putc(')', s->out);
	}
}

/* Columns of a result that become slots: in order, unless a number is given. */
static void show_numbered(const struct show *s, unsigned column, unsigned slot, unsigned i)
{
	fputs(i == 0 ? " " : ", ", s->out);
	show_made(s, slot);
	if (column != i)
		fprintf(s->out, " = %u", column);
}

static void show_nested(const struct show *s)
{
	const struct task *t = s->task;
	const struct fth_table *parent = s->set->tasks[t->parent].source.table;

	fprintf(s->out, "; once for each row group of task %u where ", t->parent);
	show_name(s->out, fth_table_schema(t->source.table)->column[t->key_column].name);
	fputs(" = ", s->out);
	show_name(s->out, fth_table_schema(parent)->column[t->parent_column].name);
}

static void show_source(const struct show *s)
{
	const struct task_source *v = &s->task->source;

	if (v->kind == TASK_TABLE) {
		fprintf(s->out, "table %s:", fth_table_name(v->table));
		show_table_columns(s, v->table, v->columns, v->column_count);
	} else if (v->kind == TASK_VALUES) {
		fputs("values:", s->out);
		show_values(s, v);
	} else if (v->kind == TASK_GIVEN) {
		fputs("given:", s->out);
		for (unsigned i = 0; i < v->column_count; i++)
			show_numbered(s, v->columns[i].column, v->columns[i].slot, i);
	} else {
		fputs("result of", s->out);
		for (unsigned i = 0; i < v->input_count; i++)
			fprintf(s->out, "%s %u", i == 0 ? "" : ",", v->inputs[i]);
		putc(':', s->out);
		for (unsigned i = 0; i < v->column_count; i++)
			show_numbered(s, v->columns[i].column, v->columns[i].slot, i);
	}
	if (v->row_slot != TASK_NONE) {
		fputs(v->column_count > 0 ? ", row number " : " row number ", s->out);
		show_made(s, v->row_slot);
	}
	if (s->task->nested)
		show_nested(s);
	putc('\n', s->out);
}

static void show_lookup(const struct show *s, const struct task_lookup *l)
{
	fprintf(s->out, "look up in %u, %s%s:", l->task, task_match_names[l->match],
		l->null_aware ? " nulls match" : "");
	fputs(l->key_count > 0 ? " " : "", s->out);
	show_slots(s->out, s->task, l->keys, l->key_count);
	if (l->payload_count > 0) {
		fputs(" ->", s->out);
		for (unsigned i = 0; i < l->payload_count; i++)
			show_numbered(s, l->payload[i], l->slots[i], i);
	}
	if (l->condition) {
		fputs(" where ", s->out);
		task_show_expr(s->out, s->task, l->condition);
	}
}

static void show_runs(const struct show *s, const struct task_runs *r)
{
	fputs("group runs by ", s->out);
	show_slots(s->out, s->task, r->keys, r->key_count);
	fputs(r->aggregate_count > 0 ? ": " : "", s->out);
	show_aggregates(s, r->aggregates, r->aggregate_count, false);
	fputs(" ->", s->out);
	for (unsigned i = 0; i < r->key_count + r->aggregate_count; i++) {
		fputs(i == 0 ? " " : ", ", s->out);
		show_made(s, i < r->key_count ? r->key_slots[i] : r->slots[i - r->key_count]);
	}
}

static void show_fetch(const struct show *s, const struct task_fetch *f)
{
	fprintf(s->out, "fetch from %s at ", fth_table_name(f->table));
	show_slot(s->out, s->task, f->row_slot);
	putc(':', s->out);
	show_table_columns(s, f->table, f->columns, f->column_count);
}

static void show_step(const struct show *s, const struct task_step *step)
{
	fputs("    ", s->out);
	switch (step->kind) {
	case TASK_SELECT:
		fputs("select ", s->out);
		task_show_expr(s->out, s->task, step->predicate);
		break;
	case TASK_COMPUTE:
		fputs("compute ", s->out);
		show_made(s, step->compute.slot);
		fputs(" = ", s->out);
		task_show_expr(s->out, s->task, step->compute.value);
		break;
	case TASK_LOOKUP:
		show_lookup(s, &step->lookup);
		break;
	case TASK_FETCH:
		show_fetch(s, &step->fetch);
		break;
	case TASK_RUNS:
		show_runs(s, &step->runs);
		break;
	}
	putc('\n', s->out);
}

static void show_order(const struct show *s)
{
	const struct task_reduce *r = &s->task->reduce;

	for (unsigned i = 0; i < r->order_count; i++) {
		fputs(i == 0 ? " by " : ", ", s->out);
		show_slot(s->out, s->task, r->order[i].slot);
		fputs(r->order[i].descending ? " desc" : "", s->out);
		fputs(r->order[i].nulls_first ? " nulls first" : "", s->out);
	}
	if (r->limit != UINT64_MAX)
		fprintf(s->out, ", first %" PRIu64, r->limit);
	if (r->offset > 0)
		fprintf(s->out, ", after %" PRIu64, r->offset);
}

static void show_reduce(const struct show *s)
{
	const struct task_reduce *r = &s->task->reduce;

	fprintf(s->out, "    %s", task_reduce_names[r->kind]);
	if (r->kind == TASK_GROUP && r->grouped && r->key_count == 0)
		fputs(" if any", s->out);
	if (r->key_count > 0)
		fputs(" by ", s->out);
	show_slots(s->out, s->task, r->keys, r->key_count);
	show_order(s);
	if (r->column_count + r->aggregate_count > 0)
		fputs(": ", s->out);
	show_slots(s->out, s->task, r->columns, r->column_count);
	show_aggregates(s, r->aggregates, r->aggregate_count, true);
	putc('\n', s->out);
}

static void show_estimate(const struct show *s)
{
	const struct task_estimate *e = &s->task->estimate;

	fprintf(s->out,
		"    expect source_rows '%.17g', rows '%.17g', rows_most '%.17g', bytes %" PRIu64
		", memory %" PRIu64 ", spill %" PRIu64 ", passes %u\n",
		e->source_rows, e->rows, e->rows_most, e->bytes, e->memory, e->spill, e->passes);
}

static void show_all(struct show *s, unsigned number)
{
	s->task = &s->set->tasks[number];
	fprintf(s->out, "task %u: ", number);
	show_source(s);
	for (unsigned k = 0; k < s->task->step_count; k++)
		show_step(s, &s->task->steps[k]);
	show_reduce(s);
	if (s->full)
		show_estimate(s);
}

void task_show_task(FILE *out, const struct task_set *set, unsigned number)
{
	struct show s = {.out = out, .set = set};

	show_all(&s, number);
}

static void show_set(FILE *out, const struct task_set *set, bool full)
{
	struct show s = {.out = out, .set = set, .full = full};

	for (unsigned i = 0; i < set->task_count; i++)
		show_all(&s, i);
	for (unsigned i = 0; i < set->output_count; i++) {
		fputs(i == 0 ? "result " : ", ", out);
		show_quoted(out, '"', set->names[i], strlen(set->names[i]));
	}
	fputs(set->output_count > 0 ? "\n" : "", out);
}

void task_show(FILE *out, const struct task_set *set)
{
	show_set(out, set, false);
}

void task_print(FILE *out, const struct task_set *set)
{
	show_set(out, set, true);
}
