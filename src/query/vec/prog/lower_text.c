/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiling text. An expression that depends on one column of text alone becomes a program of its
 * own: if the column comes with a dictionary, it runs once for each entry, and rows look up the
 * result of their code.
 */
#include "query/vec/prog/prog_internal.h"

#include <errno.h>

static int lower_plain(struct lower *l, const struct fth_expr *e, int scope)
{
	const struct fth_expr *x = e->args[0];

	return fth_emit_as(l, fth_lower(l, x, scope), x->type, fth_type(FTH_T_TEXT), scope);
}

static int lower_substring(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(I_SUBSTRING, FTH_STR, 0, 0);
	bool negative = false;

	in.a = lower_plain(l, e, scope);
	in.b = fth_lower(l, e->args[1], scope);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	if (e->nargs == 3) {
		in.c = fth_lower(l, e->args[2], scope);
		if (in.c < 0)
			return in.c;
		negative = l->prog->regs[in.c].lo < 0;
	}
	if (negative) {
		in.error = ERR_SYNTAX;
		in.scope = scope;
	}
	return fth_emit(l, in, true, 0, 0);
}

static int lower_like(struct lower *l, const struct fth_expr *e, int scope)
{
	struct fth_arena *arena = &l->prog->arena;
	struct fth_like *like = fth_arena_alloc(arena, sizeof(*like), 8);
	void *memory = fth_arena_alloc(arena, fth_like_bytes(e->args[1]->s.len), 8);
	const struct fth_expr *x = e->args[0];
	struct insn in = fth_insn(I_LIKE, FTH_BITS, 0, -1), pad = fth_insn(I_PAD, FTH_STR, 0, -1);
	char escape = '\\';
	int rc;

	if (!like || !memory)
		return -ENOMEM;
	if (e->args[1]->is_null || (e->nargs == 3 && e->args[2]->is_null))
		return fth_emit_null(l, FTH_BITS);
	if (e->nargs == 3)
		escape = e->args[2]->s.len ? e->args[2]->s.data[0] : 0;
	rc = fth_like_compile(e->args[1]->s, escape, memory, like);
	if (rc < 0)
		return rc;
	in.like = like;
	in.a = fth_lower(l, x, scope);
	if (in.a >= 0 && x->type.kind == FTH_T_CHAR && x->type.length > 0) {
		pad.a = in.a;
		pad.k = x->type.length;
		in.a = fth_emit(l, pad, true, 0, 0);
	}
	return in.a < 0 ? in.a : fth_emit(l, in, true, 0, 1);
}

/* The second argument, if it is text. */
static int lower_second(struct lower *l, const struct fth_expr *e, int scope)
{
	return fth_emit_as(l, fth_lower(l, e->args[1], scope), e->args[1]->type,
			   fth_type(FTH_T_TEXT), scope);
}

/* REPLACE, LPAD, RPAD, REPEAT: what they make may be too long. */
static int lower_made(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(e->op == FTH_OP_REPLACE  ? I_REPLACE
				  : e->op == FTH_OP_REPEAT ? I_REPEAT
							   : I_FILL,
				  FTH_STR, 0, 0);

	in.a = lower_plain(l, e, scope);
	in.b = e->op == FTH_OP_REPLACE ? lower_second(l, e, scope)
				       : fth_lower(l, e->args[1], scope);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	if (e->nargs == 3) {
		in.c = fth_emit_as(l, fth_lower(l, e->args[2], scope), e->args[2]->type,
				   fth_type(FTH_T_TEXT), scope);
		if (in.c < 0)
			return in.c;
	}
	in.sub = e->op == FTH_OP_LPAD;
	in.error = ERR_SYNTAX;
	in.scope = scope;
	in.name = fth_op_name(e->op);
	return fth_emit(l, in, true, 0, 0);
}

int fth_lower_text(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(I_TRIM, FTH_STR, 0, -1);
	fth_i128 hi = 0;

	if (e->op == FTH_OP_SUBSTRING)
		return lower_substring(l, e, scope);
	if (e->op == FTH_OP_LIKE)
		return lower_like(l, e, scope);
	if (e->op == FTH_OP_REPLACE || e->op == FTH_OP_LPAD || e->op == FTH_OP_RPAD ||
	    e->op == FTH_OP_REPEAT)
		return lower_made(l, e, scope);
	in.a = lower_plain(l, e, scope);
	if (in.a < 0)
		return in.a;
	switch (e->op) {
	case FTH_OP_UPPER:
		in.op = I_UPPER;
		break;
	case FTH_OP_LOWER:
		in.op = I_LOWER;
		break;
	case FTH_OP_LENGTH:
		in.op = I_LENGTH;
		in.type = FTH_I32;
		hi = INT32_MAX;
		break;
	case FTH_OP_CONCAT:
		in.op = I_CONCAT;
		in.b = lower_second(l, e, scope);
		break;
	case FTH_OP_POSITION:
		in.op = I_POSITION;
		in.type = FTH_I32;
		hi = INT32_MAX;
		in.b = lower_second(l, e, scope);
		break;
	case FTH_OP_REVERSE:
		in.op = I_REVERSE;
		break;
	case FTH_OP_STARTS_WITH:
		in.op = I_STARTS_WITH;
		in.type = FTH_BITS;
		hi = 1;
		in.b = lower_second(l, e, scope);
		break;
	case FTH_OP_LEFT:
	case FTH_OP_RIGHT:
		in.op = I_END;
		in.sub = (uint8_t)e->op;
		in.b = fth_lower(l, e->args[1], scope);
		break;
	default:
		in.sub = e->op == FTH_OP_LTRIM ? 1 : e->op == FTH_OP_RTRIM ? 2 : 3;
		in.b = e->nargs == 2 ? lower_second(l, e, scope) : -1;
	}
	if (e->nargs == 2 && in.b < 0)
		return in.b;
	return fth_emit(l, in, true, 0, hi);
}

/* ---- dictionaries ---- */

/* Operators that raise no error, whatever the text; all others are computed row by row. */
static bool is_total(const struct fth_expr *e)
{
	switch (e->op) {
	case FTH_OP_EQ:
	case FTH_OP_NE:
	case FTH_OP_LT:
	case FTH_OP_LE:
	case FTH_OP_GT:
	case FTH_OP_GE:
	case FTH_OP_AND:
	case FTH_OP_OR:
	case FTH_OP_NOT:
	case FTH_OP_IS_NULL:
	case FTH_OP_BETWEEN:
	case FTH_OP_IN:
	case FTH_OP_CASE:
	case FTH_OP_COALESCE:
	case FTH_OP_NULLIF:
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
	case FTH_OP_REVERSE:
	case FTH_OP_STARTS_WITH:
		return true;
	case FTH_OP_SUBSTRING:
		return e->args[1]->kind == FTH_EXPR_CONST &&
		       (e->nargs == 2 ||
			(e->args[2]->kind == FTH_EXPR_CONST && e->args[2]->i >= 0));
	case FTH_OP_CAST:
		return fth_type_is_text(e->type) && fth_type_is_text(e->args[0]->type);
	default:
		return false;
	}
}

/* Finds the column, or a reason against it. */
static bool walk_dict(const struct fth_expr *e, const struct fth_expr **column)
{
	if (e->kind == FTH_EXPR_CONST)
		return true;
	if (e->kind == FTH_EXPR_COLUMN) {
		if (!fth_type_is_text(e->type) || (*column && (*column)->column != e->column))
			return false;
		*column = e;
		return true;
	}
	if (!is_total(e))
		return false;
	for (unsigned i = 0; i < e->nargs; i++)
		if (!walk_dict(e->args[i], column))
			return false;
	return true;
}

bool fth_lower_is_dict(const struct fth_expr *e, unsigned *column)
{
	const struct fth_expr *found = NULL;

	if (e->kind != FTH_EXPR_CALL || !walk_dict(e, &found) || !found)
		return false;
	*column = found->column;
	return true;
}

int fth_lower_dict(struct lower *l, const struct fth_expr *e)
{
	struct lower how = {.in_dict = true};
	struct fth_expr *root = (struct fth_expr *)e;
	struct insn in = fth_insn(I_DICT, FTH_BITS, -1, -1);
	const struct fth_prog_out *out;
	int rc, r;

	fth_lower_is_dict(e, &in.column);
	rc = fth_prog_compile_with(l->prog->mem, &root, 1, &how, &in.prog);
	if (rc < 0)
		return rc;
	out = fth_prog_output(in.prog, 0);
	in.type = (uint8_t)out->type;
	r = fth_emit(l, in, false, out->lo, out->hi);
	if (r < 0)
		fth_prog_free(in.prog);
	else
		l->prog->regs[r].nullable = out->nullable;
	return r;
}
