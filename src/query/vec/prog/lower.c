/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiling: the parts that all kinds of expressions use. Emitting an instruction looks for the
 * same one first, so that common subexpressions are computed once. lower_number.c has arithmetic
 * and casts, lower_logic.c comparisons, three-valued logic and CASE, lower_text.c text and
 * dictionaries.
 */
#include "query/vec/prog/prog_internal.h"

#include "fathom/base/error.h"

#include <errno.h>

enum fth_phys fth_type_phys(struct fth_type type)
{
	fth_i128 lo, hi;

	switch (type.kind) {
	case FTH_T_BOOL:
		return FTH_BITS;
	case FTH_T_DOUBLE:
		return FTH_F64;
	case FTH_T_TEXT:
	case FTH_T_CHAR:
		return FTH_STR;
	default:
		fth_type_range(type, &lo, &hi);
		return fth_phys_for(lo, hi);
	}
}

/* ---- registers and instructions ---- */

static int grow_array(struct fth_prog *p, void **array, unsigned *room, size_t item, unsigned need)
{
	unsigned larger = *room ? 2 * *room : 32;
	void *bigger;

	if (need <= *room)
		return 0;
	bigger = fth_qmem_realloc(p->mem, *array, *room * item, larger * item);
	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	*room = larger;
	return 0;
}

static int new_reg(struct lower *l, struct reg reg)
{
	struct fth_prog *p = l->prog;

	if (grow_array(p, (void **)&p->regs, &p->reg_room, sizeof(*p->regs), p->nregs + 1) < 0)
		return -ENOMEM;
	p->regs[p->nregs] = reg;
	return (int)p->nregs++;
}

static bool same_insn(const struct insn *a, const struct insn *b)
{
	bool raises = a->error != ERR_NONE;

	return a->op == b->op && a->type == b->type && a->sub == b->sub && a->error == b->error &&
	       a->check == b->check && a->a == b->a && a->b == b->b && a->c == b->c &&
	       a->column == b->column && a->k == b->k && a->x == b->x && a->y == b->y &&
	       a->list == b->list && a->like == b->like && a->prog == b->prog &&
	       (!raises || a->scope == b->scope);
}

static bool is_nullable(const struct fth_prog *p, int r)
{
	return r >= 0 && p->regs[r].nullable;
}

static bool is_null(const struct fth_prog *p, int r)
{
	return r >= 0 && p->regs[r].null;
}

int fth_emit(struct lower *l, struct insn in, bool strict, fth_i128 lo, fth_i128 hi)
{
	struct fth_prog *p = l->prog;
	enum fth_phys type = in.type;
	struct reg reg = {.lo = lo, .hi = hi, .slot = -1};

	if (in.op == I_CMP || in.op == I_CMP_COLUMN)
		type = FTH_BITS;
	if (strict && (is_null(p, in.a) || is_null(p, in.b) || is_null(p, in.c)))
		return fth_emit_null(l, type);
	for (unsigned i = 0; i < p->ninsns; i++)
		if (same_insn(&p->insns[i], &in))
			return p->insns[i].dst;
	reg.type = (uint8_t)type;
	reg.nullable = in.op == I_NULLS || is_nullable(p, in.a) || is_nullable(p, in.b) ||
		       is_nullable(p, in.c);
	reg.null = in.op == I_NULLS || (in.op == I_BOOL && in.k == 2);
	in.dst = new_reg(l, reg);
	if (in.dst < 0)
		return in.dst;
	if (grow_array(p, (void **)&p->insns, &p->insn_room, sizeof(in), p->ninsns + 1) < 0)
		return -ENOMEM;
	p->insns[p->ninsns++] = in;
	return in.dst;
}

int fth_emit_null(struct lower *l, enum fth_phys type)
{
	struct insn in = fth_insn(type == FTH_BITS ? I_BOOL : I_NULLS, type, -1, -1);
	int r;

	in.k = type == FTH_BITS ? 2 : 0;
	r = fth_emit(l, in, false, 0, 0);
	if (r >= 0)
		l->prog->regs[r].nullable = true;
	return r;
}

static int emit_bool(struct lower *l, bool value)
{
	struct insn in = fth_insn(I_BOOL, FTH_BITS, -1, -1);

	in.k = value;
	return fth_emit(l, in, false, 0, 1);
}

int fth_emit_int(struct lower *l, fth_i128 value)
{
	struct reg reg = {.type = (uint8_t)fth_phys_for(value, value),
			  .scalar = true,
			  .lo = value,
			  .hi = value,
			  .slot = -1};

	for (unsigned i = 0; i < l->prog->nregs; i++) {
		const struct reg *r = &l->prog->regs[i];

		if (r->scalar && r->type <= FTH_I128 && r->lo == value)
			return (int)i;
	}
	reg.value.i = value;
	return new_reg(l, reg);
}

static int emit_text(struct lower *l, struct fth_str s)
{
	struct reg reg = {.type = FTH_STR, .scalar = true, .slot = -1};
	char *copy = fth_arena_alloc(&l->prog->arena, s.len + 1, 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	reg.value.s = (struct fth_str){copy, s.len, 0};
	return new_reg(l, reg);
}

int fth_emit_const(struct lower *l, const struct fth_expr *e)
{
	struct reg reg = {.type = FTH_F64, .scalar = true, .slot = -1};

	if (e->is_null)
		return fth_emit_null(l, fth_type_is_int(e->type) ? FTH_I8 : fth_type_phys(e->type));
	if (e->type.kind == FTH_T_BOOL)
		return emit_bool(l, e->i != 0);
	if (fth_type_is_text(e->type))
		return emit_text(l, e->s);
	if (fth_type_is_int(e->type))
		return fth_emit_int(l, e->i);
	reg.value.f = e->f;
	return new_reg(l, reg);
}

int fth_emit_vector(struct lower *l, int r)
{
	const struct reg *reg;

	if (r < 0)
		return r;
	reg = &l->prog->regs[r];
	if (!reg->scalar)
		return r;
	return fth_emit(l, fth_insn(I_SPLAT, reg->type, r, -1), false, reg->lo, reg->hi);
}

int fth_emit_convert(struct lower *l, int r, enum fth_phys type)
{
	const struct reg *reg;

	if (r < 0)
		return r;
	reg = &l->prog->regs[r];
	if (reg->type == type || reg->scalar)
		return r;
	return fth_emit(l, fth_insn(I_CONVERT, type, r, -1), true, reg->lo, reg->hi);
}

/* ---- columns, constants, folding ---- */

static int lower_column(struct lower *l, const struct fth_expr *e)
{
	bool is_int = fth_type_is_int(e->type);
	struct insn in = fth_insn(
		I_LOAD, is_int ? fth_phys_for(e->lo, e->hi) : fth_type_phys(e->type), -1, -1);
	int r;

	in.column = l->in_dict ? 0 : e->column;
	r = fth_emit(l, in, false, e->lo, e->hi);
	if (r >= 0)
		l->prog->regs[r].nullable |= e->nullable;
	return r;
}

static bool is_const_tree(const struct fth_expr *e)
{
	if (e->kind != FTH_EXPR_CALL)
		return e->kind == FTH_EXPR_CONST;
	for (unsigned i = 0; i < e->nargs; i++)
		if (!is_const_tree(e->args[i]))
			return false;
	return true;
}

static void const_of_result(const struct fth_vec *v, struct fth_type type, struct fth_expr *out)
{
	*out = (struct fth_expr){.kind = FTH_EXPR_CONST, .type = type, .s = {"", 0, 0}};
	out->is_null = v->nulls && fth_bit(v->nulls, 0);
	if (out->is_null)
		return;
	if (v->type == FTH_BITS)
		out->i = fth_bit(v->data, 0);
	else if (v->type == FTH_STR)
		out->s = *(const struct fth_str *)v->data;
	else if (v->type == FTH_F64)
		out->f = *(const double *)v->data;
	else
		out->i = fth_vec_int(v, 0);
}

/*
 * Compute an expression without columns, with a program for one row. If that raises an error, the
 * expression is compiled as it is, since perhaps no row needs it.
 */
static int lower_folded(struct lower *l, const struct fth_expr *e, int scope)
{
	struct lower plain = {.no_fold = true, .in_dict = l->in_dict};
	struct fth_prog *prog = NULL;
	struct fth_prog_run *run = NULL;
	struct fth_expr *root = (struct fth_expr *)e, value;
	struct fth_vec result;
	int r, rc = fth_prog_compile_with(l->prog->mem, &root, 1, &plain, &prog);

	if (rc < 0)
		return rc;
	rc = fth_prog_run_new(prog, l->prog->mem, &run);
	if (rc == 0)
		rc = fth_prog_exec(run, NULL, 1, NULL, &result);
	if (rc == 0) {
		const_of_result(&result, e->type, &value);
		r = fth_emit_const(l, &value);
	} else if (rc == -ENOMEM) {
		r = rc;
	} else {
		l->no_fold = true;
		r = fth_lower(l, e, scope);
		l->no_fold = false;
	}
	fth_prog_run_free(run);
	fth_prog_free(prog);
	return r;
}

int fth_lower(struct lower *l, const struct fth_expr *e, int scope)
{
	unsigned column;

	if (e->kind == FTH_EXPR_COLUMN)
		return lower_column(l, e);
	if (e->kind == FTH_EXPR_CONST)
		return fth_emit_const(l, e);
	if (!l->no_fold && is_const_tree(e))
		return lower_folded(l, e, scope);
	if (!l->in_dict && !l->no_fold && fth_lower_is_dict(e, &column))
		return fth_lower_dict(l, e);
	switch (e->op) {
	case FTH_OP_EQ:
	case FTH_OP_NE:
	case FTH_OP_LT:
	case FTH_OP_LE:
	case FTH_OP_GT:
	case FTH_OP_GE:
	case FTH_OP_BETWEEN:
	case FTH_OP_IN:
		return fth_lower_compare(l, e, scope);
	case FTH_OP_AND:
	case FTH_OP_OR:
	case FTH_OP_NOT:
	case FTH_OP_IS_NULL:
	case FTH_OP_CASE:
	case FTH_OP_COALESCE:
	case FTH_OP_NULLIF:
		return fth_lower_logic(l, e, scope);
	case FTH_OP_SUBSTRING:
	case FTH_OP_LIKE:
	case FTH_OP_UPPER:
	case FTH_OP_LOWER:
	case FTH_OP_LENGTH:
	case FTH_OP_TRIM:
	case FTH_OP_LTRIM:
	case FTH_OP_RTRIM:
	case FTH_OP_CONCAT:
	case FTH_OP_POSITION:
	case FTH_OP_LEFT:
	case FTH_OP_RIGHT:
	case FTH_OP_REPLACE:
	case FTH_OP_LPAD:
	case FTH_OP_RPAD:
	case FTH_OP_REPEAT:
	case FTH_OP_REVERSE:
	case FTH_OP_STARTS_WITH:
		return fth_lower_text(l, e, scope);
	default:
		return fth_lower_number(l, e, scope);
	}
}
