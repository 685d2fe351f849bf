/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A predicate is evaluated over intervals. `may_hold()` asks whether it can be true for a row of
 * the group, `may_fail()` whether it can be false; both answer yes to all that they do not
 * understand.
 *
 * Bounds of integers are numbers of the scale of their type, with all others scaled to the larger
 * one. Bounds of text are keys of the first bytes (fth_table_string_key()): equal keys prove
 * nothing, so every comparison of text includes equality.
 */
#include "query/exec/row_group_skip.h"

struct view {
	const struct task *task;
	uint32_t group;
};

struct interval {
	fth_i128 lo, hi; /* lo > hi: no value that is not null */
	unsigned scale;
	bool text;
};

uint32_t skip_column(const struct task *t, unsigned slot)
{
	const struct task_source *s = &t->source;

	for (unsigned i = 0; i < s->column_count; i++)
		if (s->columns[i].slot == slot)
			return s->columns[i].column;
	return TASK_NONE;
}

/* ---- intervals ---- */

static unsigned scale_of(struct fth_type type)
{
	return type.kind == FTH_T_DECIMAL ? type.scale : 0;
}

static bool column_interval(const struct view *v, const struct fth_expr *e, struct interval *out)
{
	const struct fth_table *table = v->task->source.table;
	uint32_t column = skip_column(v->task, e->column);
	const struct fth_table_chunk *chunk;
	enum fth_table_kind kind;

	if (column == TASK_NONE)
		return false;
	chunk = fth_table_chunk(table, column, v->group);
	kind = fth_table_kind(&fth_table_schema(table)->column[column]);
	/* Double keys would do, but a comparison with NaN is not worth a proof. */
	if (kind != FTH_TABLE_KIND_STRING &&
	    (kind != FTH_TABLE_KIND_INT || e->type.kind == FTH_T_BOOL))
		return false;
	*out = (struct interval){chunk->min, chunk->max, scale_of(e->type),
				 kind == FTH_TABLE_KIND_STRING};
	return true;
}

/* Blanks at the end of a char do not count and are not stored: they may be there or not. */
static struct interval text_interval(const struct fth_expr *e)
{
	uint32_t length = e->s.len;

	while (length > 0 && e->s.data[length - 1] == ' ')
		length--;
	return (struct interval){fth_table_string_key(e->s.data, length),
				 fth_table_string_key(e->s.data, e->s.len), 0, true};
}

static bool interval_of(const struct view *v, const struct fth_expr *e, struct interval *out)
{
	if (e->kind == FTH_EXPR_COLUMN)
		return column_interval(v, e, out);
	if (e->kind == FTH_EXPR_CALL && e->op == FTH_OP_CAST && fth_type_is_int(e->type) &&
	    fth_type_is_int(e->args[0]->type) && e->type.kind != FTH_T_DATE &&
	    scale_of(e->type) >= scale_of(e->args[0]->type))
		return interval_of(v, e->args[0], out); /* the same value */
	if (e->kind != FTH_EXPR_CONST)
		return false;
	if (e->is_null) {
		*out = (struct interval){1, 0, scale_of(e->type), fth_type_is_text(e->type)};
		return true;
	}
	if (fth_type_is_text(e->type)) {
		*out = text_interval(e);
		return true;
	}
	*out = (struct interval){e->i, e->i, scale_of(e->type), false};
	return fth_type_is_int(e->type);
}

static bool scale_up(fth_i128 *x, unsigned by)
{
	for (; by > 0; by--)
		if (__builtin_mul_overflow(*x, (fth_i128)10, x))
			return false;
	return true;
}

/* The two intervals of a comparison, in one scale. */
static bool both_intervals(const struct view *v, const struct fth_expr *x, const struct fth_expr *y,
			   struct interval *a, struct interval *b)
{
	unsigned scale;

	if (!interval_of(v, x, a) || !interval_of(v, y, b) || a->text != b->text)
		return false;
	scale = a->scale > b->scale ? a->scale : b->scale;
	return scale_up(&a->lo, scale - a->scale) && scale_up(&a->hi, scale - a->scale) &&
	       scale_up(&b->lo, scale - b->scale) && scale_up(&b->hi, scale - b->scale);
}

static bool is_empty(const struct interval *i)
{
	return i->lo > i->hi;
}

/* ---- predicates ---- */

static bool may_compare(const struct view *v, enum fth_op op, const struct fth_expr *x,
			const struct fth_expr *y)
{
	struct interval a, b;

	if (!both_intervals(v, x, y, &a, &b))
		return true;
	if (is_empty(&a) || is_empty(&b))
		return false;
	switch (op) {
	case FTH_OP_EQ:
		return a.lo <= b.hi && b.lo <= a.hi;
	case FTH_OP_NE:
		return a.text || a.lo != a.hi || b.lo != b.hi || a.lo != b.lo;
	case FTH_OP_LT:
		return a.lo < b.hi || (a.text && a.lo == b.hi);
	case FTH_OP_LE:
		return a.lo <= b.hi;
	case FTH_OP_GT:
		return a.hi > b.lo || (a.text && a.hi == b.lo);
	case FTH_OP_GE:
		return a.hi >= b.lo;
	default:
		return true;
	}
}

static bool may_be_null(const struct view *v, const struct fth_expr *e, bool null)
{
	uint32_t column = e->kind == FTH_EXPR_COLUMN ? skip_column(v->task, e->column) : TASK_NONE;
	const struct fth_table *table = v->task->source.table;
	uint32_t nulls;

	if (column == TASK_NONE)
		return true;
	nulls = fth_table_chunk(table, column, v->group)->nulls;
	return null ? nulls > 0 : nulls < fth_table_group(table, v->group)->rows;
}

static bool may_be_in(const struct view *v, const struct fth_expr *e)
{
	for (unsigned i = 1; i < e->nargs; i++)
		if (may_compare(v, FTH_OP_EQ, e->args[0], e->args[i]))
			return true;
	return e->nargs < 2;
}

static enum fth_op opposite(enum fth_op op)
{
	static const enum fth_op table[FTH_OP_COUNT] = {
		[FTH_OP_EQ] = FTH_OP_NE, [FTH_OP_NE] = FTH_OP_EQ, [FTH_OP_LT] = FTH_OP_GE,
		[FTH_OP_GE] = FTH_OP_LT, [FTH_OP_GT] = FTH_OP_LE, [FTH_OP_LE] = FTH_OP_GT,
	};

	return table[op];
}

static bool may_fail(const struct view *v, const struct fth_expr *e);

static bool may_hold(const struct view *v, const struct fth_expr *e)
{
	if (e->kind == FTH_EXPR_CONST)
		return !e->is_null && (e->type.kind != FTH_T_BOOL || e->i != 0);
	if (e->kind != FTH_EXPR_CALL)
		return true;
	switch (e->op) {
	case FTH_OP_AND:
		return may_hold(v, e->args[0]) && may_hold(v, e->args[1]);
	case FTH_OP_OR:
		return may_hold(v, e->args[0]) || may_hold(v, e->args[1]);
	case FTH_OP_NOT:
		return may_fail(v, e->args[0]);
	case FTH_OP_EQ:
	case FTH_OP_NE:
	case FTH_OP_LT:
	case FTH_OP_LE:
	case FTH_OP_GT:
	case FTH_OP_GE:
		return may_compare(v, e->op, e->args[0], e->args[1]);
	case FTH_OP_BETWEEN:
		return may_compare(v, FTH_OP_GE, e->args[0], e->args[1]) &&
		       may_compare(v, FTH_OP_LE, e->args[0], e->args[2]);
	case FTH_OP_IN:
		return may_be_in(v, e);
	case FTH_OP_IS_NULL:
		return may_be_null(v, e->args[0], true);
	default:
		return true;
	}
}

static bool may_fail(const struct view *v, const struct fth_expr *e)
{
	if (e->kind == FTH_EXPR_CONST)
		return !e->is_null && (e->type.kind != FTH_T_BOOL || e->i == 0);
	if (e->kind != FTH_EXPR_CALL)
		return true;
	switch (e->op) {
	case FTH_OP_AND:
		return may_fail(v, e->args[0]) || may_fail(v, e->args[1]);
	case FTH_OP_OR:
		return may_fail(v, e->args[0]) && may_fail(v, e->args[1]);
	case FTH_OP_NOT:
		return may_hold(v, e->args[0]);
	case FTH_OP_EQ:
	case FTH_OP_NE:
	case FTH_OP_LT:
	case FTH_OP_LE:
	case FTH_OP_GT:
	case FTH_OP_GE:
		return may_compare(v, opposite(e->op), e->args[0], e->args[1]);
	case FTH_OP_IS_NULL:
		return may_be_null(v, e->args[0], false);
	default:
		return true;
	}
}

bool skip_group(const struct task *t, uint32_t group)
{
	struct view v = {t, group};

	/*
	 * Behind RUNS the slots of the source are gone; before, selections of any step remove rows.
	 */
	for (unsigned i = 0; i < t->step_count && t->steps[i].kind != TASK_RUNS; i++)
		if (t->steps[i].kind == TASK_SELECT && !may_hold(&v, t->steps[i].predicate))
			return true;
	return false;
}
