/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiling ABS, ROUND, FLOOR and CEIL. */
#include "query/vec/prog/prog_internal.h"

static int lower_f64_round(struct lower *l, const struct fth_expr *e, int a)
{
	struct insn in = fth_insn(I_F64_ROUND, FTH_F64, a, -1);

	in.sub = (uint8_t)e->op;
	return fth_emit(l, in, true, 0, 0);
}

/* The larger of x and -x; an integer whose opposite does not fit its type is an error. */
static int lower_abs(struct lower *l, const struct fth_expr *e, int a, int scope)
{
	const struct reg *r = &l->prog->regs[a];
	struct insn in = fth_insn(I_ABS, FTH_I64, a, -1);
	fth_i128 lo = r->lo, hi = r->hi, least, most;

	fth_type_range(e->type, &least, &most);
	if (r->null || lo >= 0)
		return a;
	hi = -lo > hi ? -lo : hi;
	if (hi > most) {
		hi = most;
		in.error = (uint8_t)(e->type.kind == FTH_T_INT32   ? ERR_INT
				     : e->type.kind == FTH_T_INT64 ? ERR_BIGINT
								   : ERR_NUMERIC);
		in.scope = scope;
	}
	in.y = hi;
	in.type = (uint8_t)fth_phys_for(0, hi);
	return fth_emit(l, in, true, 0, hi);
}

/* To `digits` places after the point, or, if it is negative, zeroes before it. */
static int lower_round(struct lower *l, const struct fth_expr *e, int a, int scope)
{
	int digits = e->nargs == 2 ? (int)e->args[1]->i : 0, scale = e->args[0]->type.scale;

	if (digits >= scale)
		return fth_lower_scale(l, a, digits - scale, scope);
	a = fth_lower_scale(l, a, digits - scale, scope);
	return digits < 0 ? fth_lower_scale(l, a, -digits, scope) : a;
}

static int lower_floor(struct lower *l, const struct fth_expr *e, int a)
{
	const struct reg *r = &l->prog->regs[a];
	struct insn in = fth_insn(I_DEC_FLOOR, FTH_I64, a, -1);
	unsigned scale = e->args[0]->type.scale;
	fth_i128 lo, hi;

	if (r->null || scale == 0)
		return a;
	lo = fth_dec_floor(r->lo, scale, e->op == FTH_OP_CEIL);
	hi = fth_dec_floor(r->hi, scale, e->op == FTH_OP_CEIL);
	in.sub = e->op == FTH_OP_CEIL;
	in.k = scale;
	in.type = (uint8_t)fth_phys_for(lo, hi);
	return fth_emit(l, in, true, lo, hi);
}

int fth_lower_round(struct lower *l, const struct fth_expr *e, int scope)
{
	int a = fth_lower(l, e->args[0], scope);

	if (a < 0)
		return a;
	if (e->type.kind == FTH_T_DOUBLE)
		return lower_f64_round(l, e, a);
	if (e->op == FTH_OP_ABS)
		return lower_abs(l, e, a, scope);
	return e->op == FTH_OP_ROUND ? lower_round(l, e, a, scope) : lower_floor(l, e, a);
}
