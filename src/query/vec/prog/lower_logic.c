/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiling logic: AND, OR, CASE, COALESCE. Both sides are computed for all rows and blended;
 * scopes see to it that errors count only for rows that need the value.
 */
#include "query/vec/prog/prog_internal.h"

#include <errno.h>

static int emit2(struct lower *l, enum insn_op op, int a, int b)
{
	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	return fth_emit(l, fth_insn(op, FTH_BITS, a, b), false, 0, 1);
}

static int emit1(struct lower *l, enum insn_op op, int a)
{
	return a < 0 ? a : fth_emit(l, fth_insn(op, FTH_BITS, a, -1), false, 0, 1);
}

static int emit_scope(struct lower *l, int scope, int value, enum scope_kind kind)
{
	struct insn in = fth_insn(I_SCOPE, FTH_BITS, scope, value);
	int r;

	if (value < 0)
		return value;
	in.sub = (uint8_t)kind;
	r = fth_emit(l, in, false, 0, 1);
	if (r >= 0)
		l->prog->regs[r].nullable = false;
	return r;
}

static int lower_and_or(struct lower *l, const struct fth_expr *e, int scope)
{
	bool is_and = e->op == FTH_OP_AND;
	int a = fth_lower(l, e->args[0], scope);
	int inner = emit_scope(l, scope, a, is_and ? SCOPE_NOT_FALSE : SCOPE_NOT_TRUE);

	if (inner < 0)
		return inner;
	return emit2(l, is_and ? I_AND : I_OR, a, fth_lower(l, e->args[1], inner));
}

static int lower_is_null(struct lower *l, const struct fth_expr *e, int scope)
{
	const struct fth_expr *arg = e->args[0];
	struct insn in = fth_insn(I_COLUMN_NULL, FTH_BITS, -1, -1);
	int r;

	if (arg->kind == FTH_EXPR_COLUMN) {
		in.column = l->in_dict ? 0 : arg->column;
	} else {
		in.op = I_IS_NULL;
		in.a = fth_emit_vector(l, fth_lower(l, arg, scope));
		if (in.a < 0)
			return in.a;
	}
	r = fth_emit(l, in, false, 0, 1);
	if (r >= 0)
		l->prog->regs[r].nullable = false;
	return r;
}

/* ---- CASE ---- */

static bool is_int_reg(const struct lower *l, int r)
{
	return l->prog->regs[r].type <= FTH_I128;
}

/* Both as vectors of one type; the range is that of both together. */
static int unify(struct lower *l, int *a, int *b, fth_i128 *lo, fth_i128 *hi)
{
	const struct reg *ra, *rb;
	enum fth_phys type;

	*a = fth_emit_vector(l, *a);
	*b = fth_emit_vector(l, *b);
	if (*a < 0 || *b < 0)
		return *a < 0 ? *a : *b;
	ra = &l->prog->regs[*a];
	rb = &l->prog->regs[*b];
	*lo = rb->null || (!ra->null && ra->lo < rb->lo) ? ra->lo : rb->lo;
	*hi = rb->null || (!ra->null && ra->hi > rb->hi) ? ra->hi : rb->hi;
	if (!is_int_reg(l, *a))
		return 0;
	type = fth_phys_for(*lo, *hi);
	/* A null of another type is a null of this type. */
	*a = ra->null ? fth_emit_null(l, type) : fth_emit_convert(l, *a, type);
	rb = &l->prog->regs[*b];
	*b = rb->null ? fth_emit_null(l, type) : fth_emit_convert(l, *b, type);
	return *a < 0 ? *a : *b < 0 ? *b : 0;
}

static int emit_blend(struct lower *l, int condition, int a, int b)
{
	struct insn in = fth_insn(I_BLEND, FTH_BITS, condition, 0);
	fth_i128 lo, hi;
	int rc, r;

	if (condition < 0 || a < 0 || b < 0)
		return condition < 0 ? condition : a < 0 ? a : b;
	rc = unify(l, &a, &b, &lo, &hi);
	if (rc < 0)
		return rc;
	in.type = l->prog->regs[a].type;
	in.b = a;
	in.c = b;
	r = fth_emit(l, in, false, lo, hi);
	if (r >= 0)
		l->prog->regs[r].nullable = l->prog->regs[a].nullable || l->prog->regs[b].nullable;
	return r;
}

static enum fth_phys null_phys(struct fth_type type)
{
	return fth_type_is_int(type) ? FTH_I8 : fth_type_phys(type);
}

/* From condition i on. */
static int lower_case_from(struct lower *l, const struct fth_expr *e, unsigned i, int scope)
{
	int condition, value, rest;

	if (i == e->nargs)
		return fth_emit_null(l, null_phys(e->type));
	if (i + 1 == e->nargs)
		return fth_emit_as(l, fth_lower(l, e->args[i], scope), e->args[i]->type, e->type,
				   scope);
	condition = fth_lower(l, e->args[i], scope);
	value = emit_scope(l, scope, condition, SCOPE_TRUE);
	rest = emit_scope(l, scope, condition, SCOPE_NOT_TRUE);
	if (value < 0 || rest < 0)
		return value < 0 ? value : rest;
	value = fth_emit_as(l, fth_lower(l, e->args[i + 1], value), e->args[i + 1]->type, e->type,
			    value);
	return emit_blend(l, condition, value, lower_case_from(l, e, i + 2, rest));
}

static int lower_coalesce_from(struct lower *l, const struct fth_expr *e, unsigned i, int scope)
{
	int value = fth_lower(l, e->args[i], scope), is_null, rest;

	value = fth_emit_as(l, value, e->args[i]->type, e->type, scope);
	if (value < 0 || i + 1 == e->nargs || !l->prog->regs[value].nullable)
		return value;
	value = fth_emit_vector(l, value);
	is_null = emit1(l, I_IS_NULL, value);
	rest = emit_scope(l, scope, is_null, SCOPE_TRUE);
	if (rest < 0)
		return rest;
	l->prog->regs[is_null].nullable = false;
	return emit_blend(l, is_null, lower_coalesce_from(l, e, i + 1, rest), value);
}

static int lower_nullif(struct lower *l, const struct fth_expr *e, int scope)
{
	struct fth_expr equal = *e;
	struct insn in = fth_insn(I_NULL_IF, FTH_BITS, 0, 0);
	int r;

	equal.op = FTH_OP_EQ;
	equal.type = fth_type(FTH_T_BOOL);
	in.a = fth_emit_vector(l, fth_lower(l, e->args[0], scope));
	in.b = fth_lower(l, &equal, scope);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	if (l->prog->regs[in.a].null)
		return in.a;
	in.type = l->prog->regs[in.a].type;
	r = fth_emit(l, in, false, l->prog->regs[in.a].lo, l->prog->regs[in.a].hi);
	if (r >= 0)
		l->prog->regs[r].nullable = true;
	return r;
}

int fth_lower_logic(struct lower *l, const struct fth_expr *e, int scope)
{
	switch (e->op) {
	case FTH_OP_AND:
	case FTH_OP_OR:
		return lower_and_or(l, e, scope);
	case FTH_OP_NOT:
		return emit1(l, I_NOT, fth_lower(l, e->args[0], scope));
	case FTH_OP_IS_NULL:
		return lower_is_null(l, e, scope);
	case FTH_OP_CASE:
		return lower_case_from(l, e, 0, scope);
	case FTH_OP_COALESCE:
		return lower_coalesce_from(l, e, 0, scope);
	default:
		return lower_nullif(l, e, scope);
	}
}
