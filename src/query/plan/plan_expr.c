/* SPDX-License-Identifier: BSD-2-Clause */
/* Expressions of the tree as expressions over the slots of a pipe. */
#include "query/plan/plan_internal.h"
#include "query/task/slot.h"

#include "fathom/base/error.h"

#include <errno.h>

#define ARGS_MAX 4096u /* of AND, OR and others that become a chain of calls */

struct fth_type plan_type(struct sql_type type)
{
	static const uint8_t kinds[] = {
		[SQL_BOOL] = FTH_T_BOOL,       [SQL_INT32] = FTH_T_INT32,
		[SQL_INT64] = FTH_T_INT64,     [SQL_DATE] = FTH_T_DATE,
		[SQL_DECIMAL] = FTH_T_DECIMAL, [SQL_CHAR] = FTH_T_CHAR,
		[SQL_VARCHAR] = FTH_T_TEXT,    [SQL_DOUBLE] = FTH_T_DOUBLE,
	};

	return (struct fth_type){.kind = kinds[type.kind],
				 .precision = (uint8_t)type.precision,
				 .scale = (uint8_t)type.scale,
				 .length = (uint32_t)type.length};
}

int plan_range(struct planner *p, struct fth_expr *expr, struct task_slot *slot)
{
	int rc = task_slot_of_expr(p->options->mem, expr, slot);

	return rc < 0 ? plan_fail(p, rc) : 0;
}

static struct fth_expr *constant(struct planner *p, const struct sql_expr *e)
{
	struct fth_type type = plan_type(e->type);
	const struct sql_value *v = &e->value;

	if (v->null)
		return fth_expr_null(p->arena, type);
	if (type.kind == FTH_T_BOOL)
		return fth_expr_bool(p->arena, v->integer != 0);
	if (type.kind == FTH_T_DOUBLE)
		return fth_expr_double(p->arena, v->real);
	if (fth_type_is_text(type))
		return fth_expr_text(p->arena, type,
				     (struct fth_str){v->text, (uint32_t)v->length, 0});
	return fth_expr_int(p->arena, type, v->integer);
}

static struct fth_expr *column(struct planner *p, struct pipe *pipe, int number)
{
	uint32_t slot = pipe_slot(p, pipe, number);
	const struct task_slot *s;

	if (slot == TASK_NONE)
		return NULL;
	s = &pipe->task->slots[slot];
	if (fth_type_is_int(s->type))
		return fth_expr_column(p->arena, slot, s->type, s->lo, s->hi, s->nullable);
	return fth_expr_any(p->arena, slot, s->type, s->nullable);
}

static struct fth_expr * not(struct planner * p, struct fth_expr *x)
{
	return fth_expr_call1(p->arena, FTH_OP_NOT, x);
}

/* a IS DISTINCT FROM b: not both null, and one null or not equal; never null. */
static struct fth_expr *is_distinct(struct planner *p, struct fth_expr *a, struct fth_expr *b)
{
	struct fth_expr *a_null = fth_expr_call1(p->arena, FTH_OP_IS_NULL, a);
	struct fth_expr *b_null = fth_expr_call1(p->arena, FTH_OP_IS_NULL, b);
	struct fth_expr *args[] = {
		a_null,
		not(p, b_null),
		b_null,
		fth_expr_bool(p->arena, true),
		fth_expr_call2(p->arena, FTH_OP_NE, a, b),
	};

	return fth_expr_call(p->arena, FTH_OP_CASE, 5, args);
}

static struct fth_expr *date_add(struct planner *p, struct fth_expr *date,
				 const struct sql_value *interval)
{
	struct fth_type int32 = fth_type(FTH_T_INT32);

	if (interval->months != 0)
		date = fth_expr_call2(p->arena, FTH_OP_ADD_MONTHS, date,
				      fth_expr_int(p->arena, int32, interval->months));
	if (interval->days != 0)
		date = fth_expr_call2(p->arena, FTH_OP_ADD, date,
				      fth_expr_int(p->arena, int32, interval->days));
	return date;
}

/* The operators that have one of their own in programs. */
static bool same_op(enum sql_op op, enum fth_op *out)
{
	static const struct {
		enum sql_op from;
		enum fth_op to;
	} table[] = {
		{SQL_NOT, FTH_OP_NOT},
		{SQL_IS_NULL, FTH_OP_IS_NULL},
		{SQL_EQ, FTH_OP_EQ},
		{SQL_NE, FTH_OP_NE},
		{SQL_LT, FTH_OP_LT},
		{SQL_LE, FTH_OP_LE},
		{SQL_GT, FTH_OP_GT},
		{SQL_GE, FTH_OP_GE},
		{SQL_LIKE, FTH_OP_LIKE},
		{SQL_ADD, FTH_OP_ADD},
		{SQL_SUB, FTH_OP_SUB},
		{SQL_MUL, FTH_OP_MUL},
		{SQL_DIV, FTH_OP_DIV},
		{SQL_MOD, FTH_OP_MOD},
		{SQL_NEG, FTH_OP_NEG},
		{SQL_ABS, FTH_OP_ABS},
		{SQL_FLOOR, FTH_OP_FLOOR},
		{SQL_CEIL, FTH_OP_CEIL},
		{SQL_POSITION, FTH_OP_POSITION},
		{SQL_LEFT, FTH_OP_LEFT},
		{SQL_RIGHT, FTH_OP_RIGHT},
		{SQL_DATE_ADD_DAYS, FTH_OP_ADD},
		{SQL_DATE_DIFF, FTH_OP_SUB},
		{SQL_YEAR, FTH_OP_YEAR},
		{SQL_QUARTER, FTH_OP_QUARTER},
		{SQL_MONTH, FTH_OP_MONTH},
		{SQL_DAY, FTH_OP_DAY},
		{SQL_CONCAT, FTH_OP_CONCAT},
		{SQL_SUBSTRING, FTH_OP_SUBSTRING},
		{SQL_UPPER, FTH_OP_UPPER},
		{SQL_LOWER, FTH_OP_LOWER},
		{SQL_LENGTH, FTH_OP_LENGTH},
		{SQL_TRIM, FTH_OP_TRIM},
		{SQL_LTRIM, FTH_OP_LTRIM},
		{SQL_RTRIM, FTH_OP_RTRIM},
		{SQL_SQRT, FTH_OP_SQRT},
		{SQL_EXP, FTH_OP_EXP},
		{SQL_LN, FTH_OP_LN},
		{SQL_LOG10, FTH_OP_LOG10},
		{SQL_POWER, FTH_OP_POWER},
		{SQL_DATE_PART, FTH_OP_DATE_PART},
		{SQL_DATE_TRUNC, FTH_OP_DATE_TRUNC},
		{SQL_REPLACE, FTH_OP_REPLACE},
		{SQL_LPAD, FTH_OP_LPAD},
		{SQL_RPAD, FTH_OP_RPAD},
		{SQL_REPEAT, FTH_OP_REPEAT},
		{SQL_REVERSE, FTH_OP_REVERSE},
		{SQL_STARTS_WITH, FTH_OP_STARTS_WITH},
		{SQL_COALESCE, FTH_OP_COALESCE},
		{SQL_NULLIF, FTH_OP_NULLIF},
		{SQL_IN, FTH_OP_IN},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].from == op) {
			*out = table[i].to;
			return true;
		}
	return false;
}

static struct fth_expr *chain(struct planner *p, enum fth_op op, struct fth_expr **args, unsigned n)
{
	struct fth_expr *all = args[0];

	for (unsigned i = 1; i < n; i++)
		all = fth_expr_call2(p->arena, op, all, args[i]);
	return all;
}

/*
 * GREATEST and LEAST pass over nulls: of two, the second if the first is null or the second goes
 * before it. Halves are combined, since each level names both of its arguments more than once.
 */
static struct fth_expr *extreme(struct planner *p, enum fth_op op, struct fth_expr **args,
				unsigned n)
{
	struct fth_expr *a, *b, *choice[3];

	if (n == 1)
		return args[0];
	a = extreme(p, op, args, n / 2);
	b = extreme(p, op, args + n / 2, n - n / 2);
	choice[0] = fth_expr_call2(p->arena, FTH_OP_OR, fth_expr_call1(p->arena, FTH_OP_IS_NULL, a),
				   fth_expr_call2(p->arena, op, b, a));
	choice[1] = b;
	choice[2] = a;
	return fth_expr_call(p->arena, FTH_OP_CASE, 3, choice);
}

static struct fth_expr *call(struct planner *p, const struct sql_expr *e, struct fth_expr **args)
{
	unsigned n = e->count;
	enum fth_op op;

	if (e->op == SQL_AND || e->op == SQL_OR)
		return chain(p, e->op == SQL_AND ? FTH_OP_AND : FTH_OP_OR, args, n);
	if (e->op == SQL_IS_NOT_NULL)
		return not(p, fth_expr_call1(p->arena, FTH_OP_IS_NULL, args[0]));
	if (e->op == SQL_IS_DISTINCT)
		return is_distinct(p, args[0], args[1]);
	if (e->op == SQL_IS_NOT_DISTINCT)
		return not(p, is_distinct(p, args[0], args[1]));
	if (e->op == SQL_GREATEST || e->op == SQL_LEAST)
		return extreme(p, e->op == SQL_GREATEST ? FTH_OP_GT : FTH_OP_LT, args, n);
	if (e->op == SQL_ROUND) /* digits are for decimals alone */
		return fth_expr_call(p->arena, FTH_OP_ROUND,
				     args[0]->type.kind == FTH_T_DECIMAL ? n : 1, args);
	if (same_op(e->op, &op))
		return fth_expr_call(p->arena, op, n, args);
	fth_fail(EOPNOTSUPP, "%s is not supported yet", sql_op_name(e->op));
	plan_fail(p, -EOPNOTSUPP);
	return NULL;
}

static struct fth_expr *with_args(struct planner *p, struct pipe *pipe, const struct sql_expr *e)
{
	struct fth_expr **args;

	if (e->count > ARGS_MAX && !(e->kind == SQL_CALL && e->op == SQL_IN)) {
		plan_fail(p, fth_fail(EOPNOTSUPP,
				      "%s of %u operands is not supported, the limit is %u",
				      e->kind == SQL_CALL ? sql_op_name(e->op) : "CASE", e->count,
				      ARGS_MAX));
		return NULL;
	}
	args = plan_alloc(p, (e->count + 1) * sizeof(struct fth_expr *));
	if (!args)
		return NULL;
	if (e->kind == SQL_CALL && e->op == SQL_DATE_ADD)
		return date_add(p, plan_expr(p, pipe, e->args[0]), &e->args[1]->value);
	for (unsigned i = 0; i < e->count; i++)
		args[i] = plan_expr(p, pipe, e->args[i]);
	if (p->error != 0)
		return NULL;
	if (e->kind == SQL_CASE)
		return fth_expr_call(p->arena, FTH_OP_CASE, e->count, args);
	if (e->kind == SQL_CAST)
		return fth_expr_cast(p->arena, args[0], plan_type(e->type));
	return call(p, e, args);
}

struct fth_expr *plan_expr(struct planner *p, struct pipe *pipe, const struct sql_expr *e)
{
	struct fth_expr *made;

	if (p->error != 0)
		return NULL;
	if (e->kind == SQL_CONST)
		made = constant(p, e);
	else if (e->kind == SQL_COLUMN)
		made = column(p, pipe, e->column);
	else
		made = with_args(p, pipe, e);
	/*
	 * The constructors do not say why: short of memory, or a type that an operator does not
	 * take.
	 */
	if (!made)
		plan_fail(p, !fth_arena_alloc(p->arena, 16, 16) ? -ENOMEM : -EINVAL);
	return made;
}
