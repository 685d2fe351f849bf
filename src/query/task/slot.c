/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/slot.h"

#include "fathom/base/error.h"
#include "scalar/num.h"
#include "query/vec/prog/prog.h"

#include <errno.h>

bool task_same_type(struct fth_type a, struct fth_type b)
{
	return a.kind == b.kind && (a.kind != FTH_T_DECIMAL || a.scale == b.scale);
}

static struct fth_type type_of(const struct fth_table_column *c)
{
	static const uint8_t kinds[] = {
		[FTH_TABLE_BOOL] = FTH_T_BOOL,	     [FTH_TABLE_INT32] = FTH_T_INT32,
		[FTH_TABLE_INT64] = FTH_T_INT64,     [FTH_TABLE_DATE] = FTH_T_DATE,
		[FTH_TABLE_DECIMAL] = FTH_T_DECIMAL, [FTH_TABLE_DOUBLE] = FTH_T_DOUBLE,
		[FTH_TABLE_CHAR] = FTH_T_CHAR,	     [FTH_TABLE_VARCHAR] = FTH_T_TEXT,
	};

	return (struct fth_type){kinds[c->type], c->precision, c->scale, c->length};
}

struct task_slot task_slot_of_column(const struct fth_table *table, unsigned column)
{
	const struct fth_table_column *c = &fth_table_schema(table)->column[column];
	const struct fth_table_facts *facts = fth_table_facts(table, column);
	struct task_slot slot = {.type = type_of(c),
				 .nullable = facts->nulls > 0,
				 .lo = 1,
				 .hi = 0,
				 .name = c->name};

	if (fth_table_kind(c) == FTH_TABLE_KIND_INT && facts->min <= facts->max) {
		slot.lo = facts->min;
		slot.hi = facts->max;
	}
	if ((facts->flags & FTH_TABLE_ALL_CODES) != 0)
		slot.strings = facts->dictionary;
	return slot;
}

struct task_slot task_slot_of_row(const struct fth_table *table)
{
	return (struct task_slot){.type = fth_type(FTH_T_INT64),
				  .lo = 0,
				  .hi = (fth_i128)fth_table_rows(table),
				  .name = "row"};
}

int task_slot_of_expr(struct fth_qmem *mem, struct fth_expr *expr, struct task_slot *out)
{
	const struct fth_prog_out *result;
	struct fth_prog *prog;
	int rc = fth_prog_compile(mem, &expr, 1, &prog);

	if (rc < 0)
		return rc;
	result = fth_prog_output(prog, 0);
	*out = (struct task_slot){.type = result->logical,
				  .nullable = result->nullable,
				  .lo = result->lo,
				  .hi = result->hi,
				  .name = "value"};
	fth_prog_free(prog);
	return 0;
}

/* ---- aggregates ---- */

static int sum_type(enum task_aggregate_op op, struct fth_type arg, struct fth_type *out)
{
	unsigned scale = arg.kind == FTH_T_DECIMAL ? arg.scale : 0;

	if (!fth_type_is_number(arg))
		return fth_fail(EINVAL, "%s does not take %s", op == TASK_SUM ? "sum" : "avg",
				fth_type_name(arg));
	if (arg.kind == FTH_T_DOUBLE)
		*out = arg;
	else if (op == TASK_SUM && arg.kind == FTH_T_INT32)
		*out = fth_type(FTH_T_INT64);
	else
		*out = fth_type_decimal(FTH_DEC_DIGITS,
					op == TASK_AVG ? fth_dec_div_scale(scale, 0) : scale);
	return 0;
}

/* rows times a bound; false: nothing is known. */
static bool times(fth_i128 bound, double rows, fth_i128 *out)
{
	double product = (double)bound * rows;

	if (!(product < 1e37 && product > -1e37))
		return false;
	*out = bound * (fth_i128)(rows + 1);
	return true;
}

static void bound_sum(const struct task_slot *arg, double rows, struct task_slot *out)
{
	if (!fth_type_is_int(out->type) || arg->lo > arg->hi)
		return;
	if (!times(arg->lo < 0 ? arg->lo : 0, rows, &out->lo) ||
	    !times(arg->hi > 0 ? arg->hi : 0, rows, &out->hi)) {
		out->lo = 1;
		out->hi = 0;
	}
}

int task_slot_of_aggregate(enum task_aggregate_op op, const struct task_slot *arg, double rows,
			   struct task_slot *out)
{
	int rc = 0;

	*out = (struct task_slot){
		.type = fth_type(FTH_T_INT64), .nullable = true, .lo = 1, .hi = 0, .name = "value"};
	switch (op) {
	case TASK_COUNT:
	case TASK_COUNT_ROWS:
		out->nullable = false;
		out->lo = 0;
		if (!times(1, rows, &out->hi) || out->hi > INT64_MAX)
			out->hi = INT64_MAX;
		break;
	case TASK_SUM:
	case TASK_AVG:
		rc = sum_type(op, arg->type, &out->type);
		if (rc == 0 && op == TASK_SUM)
			bound_sum(arg, rows, out);
		break;
	case TASK_MIN:
	case TASK_MAX:
	case TASK_ANY:
		*out = *arg;
		out->nullable = op != TASK_ANY || arg->nullable;
		if (op != TASK_ANY && arg->type.kind == FTH_T_BOOL)
			rc = fth_fail(EINVAL, "min and max do not take %s",
				      fth_type_name(arg->type));
		break;
	}
	return rc;
}

/* ---- tasks ---- */

/*
 * Beside its bytes a string has a place among all and one in a hash table, both in arrays that
 * double, which are there twice while they grow; and its row has a record.
 */
#define STRING_MEMORY 96u

uint64_t task_text_memory(const struct fth_table *table, unsigned column)
{
	return fth_table_facts(table, column)->string_bytes + fth_table_rows(table) * STRING_MEMORY;
}

uint64_t task_payload_text(const struct task *t)
{
	const struct task_source *s = &t->source;
	uint64_t bytes = 0;

	if (s->kind != TASK_TABLE || !task_builds_structure(t))
		return 0;
	for (unsigned i = 0; i < t->reduce.column_count; i++)
		for (unsigned k = 0; k < s->column_count; k++)
			if (s->columns[k].slot == t->reduce.columns[i] &&
			    fth_type_is_text(t->slots[s->columns[k].slot].type) &&
			    t->slots[s->columns[k].slot].strings == 0)
				bytes += task_text_memory(s->table, s->columns[k].column);
	return bytes;
}

int task_describe_result(struct fth_arena *arena, struct task *t)
{
	const struct task_reduce *r = &t->reduce;
	unsigned keys = r->kind == TASK_GROUP ? r->key_count : 0;

	t->result_count = keys + (r->kind == TASK_GROUP ? r->aggregate_count : r->column_count);
	t->result = fth_arena_alloc(arena, (t->result_count + 1) * sizeof(*t->result), 16);
	if (!t->result)
		return -ENOMEM;
	for (unsigned i = 0; i < keys; i++)
		t->result[i] = t->slots[r->keys[i]];
	for (unsigned i = keys; i < t->result_count; i++)
		t->result[i] = r->kind == TASK_GROUP ? r->aggregates[i - keys].result
						     : t->slots[r->columns[i]];
	return 0;
}

void task_set_last_users(struct task_set *set)
{
	for (unsigned t = 0; t < set->task_count; t++)
		set->tasks[t].last_user = TASK_NONE;
	for (unsigned t = 0; t < set->task_count; t++) {
		const struct task *task = &set->tasks[t];

		for (unsigned i = 0; i < task->source.input_count; i++)
			set->tasks[task->source.inputs[i]].last_user = t;
		for (unsigned i = 0; i < task->step_count; i++)
			if (task->steps[i].kind == TASK_LOOKUP)
				set->tasks[task->steps[i].lookup.task].last_user = t;
	}
}
