/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiling comparisons, BETWEEN and IN. A column against constants is compared where it lies, in
 * the space of its frame of reference: the constant is shifted once for each batch.
 */
#include "query/vec/prog/prog_internal.h"

#include <errno.h>
#include <stdlib.h>

static enum fth_op swapped(enum fth_op op)
{
	switch (op) {
	case FTH_OP_LT:
		return FTH_OP_GT;
	case FTH_OP_LE:
		return FTH_OP_GE;
	case FTH_OP_GT:
		return FTH_OP_LT;
	case FTH_OP_GE:
		return FTH_OP_LE;
	default:
		return op;
	}
}

/* ---- a column against a constant ---- */

static fth_i128 floor_of(fth_i128 a, fth_i128 unit)
{
	return a / unit - (a % unit < 0);
}

/*
 * x op c with c in finer units: rewritten for x's own. Returns false if c is no multiple and the
 * answer is the same for all x (= and <>), which is then in *op: FTH_OP_LT with *c the least value
 * of all is false.
 */
static void coarsen(enum fth_op *op, fth_i128 *c, unsigned digits, bool *never)
{
	fth_i128 unit = fth_pow10(digits), down = floor_of(*c, unit);
	bool exact = *c % unit == 0;

	*never = !exact && (*op == FTH_OP_EQ || *op == FTH_OP_NE);
	if (!exact && *op == FTH_OP_LT) /* x < 1.5 is x <= 1 */
		*op = FTH_OP_LE;
	if (!exact && *op == FTH_OP_GE)
		*op = FTH_OP_GT;
	*c = down;
}

static bool is_number_const(const struct fth_expr *e)
{
	return e->kind == FTH_EXPR_CONST && !e->is_null && fth_type_is_int(e->type);
}

static int emit_cmp_column(struct lower *l, const struct fth_expr *column, enum fth_op op,
			   fth_i128 c)
{
	struct insn in = fth_insn(I_CMP_COLUMN, FTH_BITS, -1, -1);
	int r;

	in.column = column->column;
	in.sub = (uint8_t)op;
	in.k = c;
	r = fth_emit(l, in, false, 0, 1);
	if (r >= 0)
		l->prog->regs[r].nullable = column->nullable;
	return r;
}

static int lower_column_const(struct lower *l, enum fth_op op, const struct fth_expr *column,
			      const struct fth_expr *constant)
{
	unsigned sx = column->type.scale, sc = constant->type.scale;
	fth_i128 c = constant->i;
	bool never = false;

	if (sc > sx)
		coarsen(&op, &c, sc - sx, &never);
	else if (fth_dec_scale_up(c, sx - sc, &c) < 0)
		c = c > 0 ? fth_dec_max() + 1 : -fth_dec_max() - 1; /* beyond every value */
	if (never) /* beyond every value as well: = is false and <> is true */
		c = fth_dec_max() + 1;
	return emit_cmp_column(l, column, op, c);
}

/* ---- any two values ---- */

static int emit_cmp_int(struct lower *l, enum fth_op op, int a, int b)
{
	struct insn in = fth_insn(I_CMP, FTH_I64, -1, -1);
	enum fth_phys type;

	if (l->prog->regs[a].scalar && l->prog->regs[b].scalar)
		a = fth_emit_vector(l, a);
	if (a < 0)
		return a;
	if (l->prog->regs[a].scalar) {
		int other = a;

		a = b;
		b = other;
		op = swapped(op);
	}
	type = fth_phys_for(l->prog->regs[a].lo, l->prog->regs[a].hi);
	if (fth_phys_for(l->prog->regs[b].lo, l->prog->regs[b].hi) > type)
		type = fth_phys_for(l->prog->regs[b].lo, l->prog->regs[b].hi);
	in.type = (uint8_t)type;
	in.sub = (uint8_t)op;
	in.a = fth_emit_convert(l, a, type);
	if (l->prog->regs[b].scalar) {
		in.k = l->prog->regs[b].lo;
	} else {
		in.b = fth_emit_convert(l, b, type);
		if (in.b < 0)
			return in.b;
	}
	return in.a < 0 ? in.a : fth_emit(l, in, true, 0, 1);
}

static int emit_order(struct lower *l, int a)
{
	if (a < 0)
		return a;
	return fth_emit(l, fth_insn(I_F64_ORDER, FTH_I64, a, -1), true, INT64_MIN, INT64_MAX);
}

/* Of two values that were brought to one type. */
static int emit_compare(struct lower *l, enum fth_op op, int a, int b, struct fth_type type)
{
	struct insn in = fth_insn(I_CMP_TEXT, FTH_BITS, a, b);

	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	if (l->prog->regs[a].null || l->prog->regs[b].null)
		return fth_emit_null(l, FTH_BITS);
	if (fth_type_is_text(type)) {
		in.sub = (uint8_t)op;
		return fth_emit(l, in, true, 0, 1);
	}
	if (type.kind == FTH_T_DOUBLE) {
		a = emit_order(l, a);
		b = emit_order(l, b);
	}
	if (type.kind == FTH_T_BOOL) {
		a = fth_emit(l, fth_insn(I_INT_OF_BOOL, FTH_I8, a, -1), true, 0, 1);
		b = fth_emit(l, fth_insn(I_INT_OF_BOOL, FTH_I8, b, -1), true, 0, 1);
	}
	return a < 0 || b < 0 ? (a < 0 ? a : b) : emit_cmp_int(l, op, a, b);
}

/* Text is compared without the blanks of char(n). */
static struct fth_type compare_type(struct fth_type a, struct fth_type b)
{
	return fth_type_is_text(a) ? fth_type(FTH_T_TEXT) : fth_common_type(a, b);
}

static int emit_side(struct lower *l, const struct fth_expr *x, struct fth_type type, int scope)
{
	int a = fth_lower(l, x, scope);

	if (fth_type_is_int(type) && type.scale > x->type.scale)
		return fth_emit_compared(l, a, type.scale - x->type.scale, scope);
	return fth_emit_as(l, a, x->type, type, scope);
}

static int lower_pair(struct lower *l, enum fth_op op, const struct fth_expr *x,
		      const struct fth_expr *y, int scope)
{
	struct fth_type type = compare_type(x->type, y->type);
	int a, b;

	if (x->kind == FTH_EXPR_COLUMN && fth_type_is_int(x->type) && is_number_const(y))
		return lower_column_const(l, op, x, y);
	if (y->kind == FTH_EXPR_COLUMN && fth_type_is_int(y->type) && is_number_const(x))
		return lower_column_const(l, swapped(op), y, x);
	a = emit_side(l, x, type, scope);
	b = emit_side(l, y, type, scope);
	return emit_compare(l, op, a, b, type);
}

static int emit_and(struct lower *l, enum insn_op op, int a, int b)
{
	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	return fth_emit(l, fth_insn(op, FTH_BITS, a, b), false, 0, 1);
}

static int lower_between(struct lower *l, const struct fth_expr *e, int scope)
{
	const struct fth_expr *x = e->args[0], *lo = e->args[1], *hi = e->args[2];
	struct insn in = fth_insn(I_BETWEEN_COLUMN, FTH_BITS, -1, -1);
	int r;

	if (x->kind != FTH_EXPR_COLUMN || !is_number_const(lo) || !is_number_const(hi) ||
	    lo->type.scale != x->type.scale || hi->type.scale != x->type.scale)
		return emit_and(l, I_AND, lower_pair(l, FTH_OP_GE, x, lo, scope),
				lower_pair(l, FTH_OP_LE, x, hi, scope));
	in.column = x->column;
	in.x = lo->i;
	in.y = hi->i;
	r = fth_emit(l, in, false, 0, 1);
	if (r >= 0)
		l->prog->regs[r].nullable = x->nullable;
	return r;
}

/* ---- IN ---- */

#define IN_COMPARES    4u
#define IN_BITMAP_BITS 65536u

static int compare_i128(const void *a, const void *b)
{
	fth_i128 x = *(const fth_i128 *)a, y = *(const fth_i128 *)b;

	return (x > y) - (x < y);
}

/* Doubles and bools are looked up as integers too: by their order, and as 0 and 1. */
static int emit_integer(struct lower *l, const struct fth_expr *x, struct fth_type type, int scope)
{
	int a = fth_lower(l, x, scope);

	if (type.kind == FTH_T_DOUBLE)
		return emit_order(l, fth_emit_as(l, a, x->type, type, scope));
	if (a < 0 || type.kind != FTH_T_BOOL)
		return a;
	return fth_emit(l, fth_insn(I_INT_OF_BOOL, FTH_I8, a, -1), true, 0, 1);
}

static int64_t double_order(const struct fth_expr *c)
{
	return fth_f64_order(c->type.kind == FTH_T_DOUBLE ? c->f
							  : fth_dec_to_f64(c->i, c->type.scale));
}

/* The constants as integers of the type; those that are no such number equal no value. */
static unsigned list_values(const struct fth_expr *e, struct fth_type type, fth_i128 *out)
{
	unsigned n = 0, scale = type.scale;

	for (unsigned i = 1; i < e->nargs; i++) {
		const struct fth_expr *c = e->args[i];
		fth_i128 unit;

		if (c->is_null)
			continue;
		if (type.kind == FTH_T_DOUBLE) {
			out[n++] = double_order(c);
		} else if (c->type.scale > scale) {
			unit = fth_pow10(c->type.scale - scale);
			if (c->i % unit == 0)
				out[n++] = c->i / unit;
		} else if (fth_dec_scale_up(c->i, scale - c->type.scale, &out[n]) == 0) {
			n++;
		}
	}
	qsort(out, n, sizeof(*out), compare_i128);
	return n;
}

static int make_bitmap(struct lower *l, struct member_list *list)
{
	uint64_t *bits;
	unsigned words;

	if (list->count == 0 || list->hi - list->lo >= IN_BITMAP_BITS)
		return 0;
	words = fth_bits_words((unsigned)(list->hi - list->lo) + 1);
	bits = fth_arena_alloc(&l->prog->arena, words * sizeof(*bits), 8);
	if (!bits)
		return -ENOMEM;
	memset(bits, 0, words * sizeof(*bits));
	for (unsigned i = 0; i < list->count; i++)
		fth_bit_set(bits, (unsigned)(list->sorted[i] - list->lo));
	list->bits = bits;
	return 0;
}

static int lower_in_column(struct lower *l, const struct fth_expr *x,
			   const struct member_list *list)
{
	struct insn in = fth_insn(I_MEMBER_COLUMN, FTH_BITS, -1, -1);
	int r;

	if (list->count == 0) /* null or false, as a comparison that is never true */
		return emit_cmp_column(l, x, FTH_OP_EQ, fth_dec_max() + 1);
	if (list->count <= IN_COMPARES) {
		r = emit_cmp_column(l, x, FTH_OP_EQ, list->sorted[0]);
		for (unsigned i = 1; i < list->count; i++)
			r = emit_and(l, I_OR, r, emit_cmp_column(l, x, FTH_OP_EQ, list->sorted[i]));
		return r;
	}
	in.column = x->column;
	in.list = list;
	r = fth_emit(l, in, false, 0, 1);
	if (r >= 0)
		l->prog->regs[r].nullable = x->nullable;
	return r;
}

static int lower_in_int(struct lower *l, const struct fth_expr *e, struct fth_type type, int scope)
{
	struct member_list *list = fth_arena_alloc(&l->prog->arena, sizeof(*list), 16);
	fth_i128 *values = fth_arena_alloc(&l->prog->arena, e->nargs * sizeof(*values), 16);
	const struct fth_expr *x = e->args[0];
	struct insn in = fth_insn(I_MEMBER, FTH_BITS, 0, -1);

	if (!list || !values)
		return -ENOMEM;
	*list = (struct member_list){.sorted = values};
	list->count = list_values(e, type, values);
	if (list->count > 0) {
		list->lo = values[0];
		list->hi = values[list->count - 1];
	}
	if (make_bitmap(l, list) < 0)
		return -ENOMEM;
	if (x->kind == FTH_EXPR_COLUMN && fth_type_is_int(type))
		return lower_in_column(l, x, list);
	in.a = emit_integer(l, x, type, scope);
	in.list = list;
	return in.a < 0 ? in.a : fth_emit(l, in, true, 0, 1);
}

static int lower_in_text(struct lower *l, const struct fth_expr *e, int scope)
{
	struct member_list *list = fth_arena_alloc(&l->prog->arena, sizeof(*list), 16);
	struct insn in = fth_insn(I_MEMBER_TEXT, FTH_BITS, 0, -1);
	struct fth_str *table;
	unsigned room = 4;

	while (room < 2 * e->nargs)
		room *= 2;
	table = fth_arena_alloc(&l->prog->arena, room * sizeof(*table), 16);
	if (!list || !table)
		return -ENOMEM;
	memset(table, 0, room * sizeof(*table));
	*list = (struct member_list){.texts = table, .mask = room - 1};
	for (unsigned i = 1; i < e->nargs; i++) {
		struct fth_str s = e->args[i]->s;
		unsigned at;
		char *copy;

		if (e->args[i]->is_null)
			continue;
		if (e->args[i]->type.kind == FTH_T_CHAR)
			s = fth_str_rtrim(s);
		copy = fth_arena_alloc(&l->prog->arena, s.len + 1, 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, s.data, s.len);
		for (at = (unsigned)fth_str_hash(s); table[at & list->mask].data; at++)
			;
		table[at & list->mask] = (struct fth_str){copy, s.len, 0};
	}
	in.list = list;
	in.a = fth_emit_as(l, fth_lower(l, e->args[0], scope), e->args[0]->type,
			   fth_type(FTH_T_TEXT), scope);
	return in.a < 0 ? in.a : fth_emit(l, in, true, 0, 1);
}

static int lower_in(struct lower *l, const struct fth_expr *e, int scope)
{
	struct fth_type type = e->args[0]->type;
	bool null = false;
	int r;

	for (unsigned i = 1; i < e->nargs; i++) {
		if (e->args[i]->type.kind == FTH_T_DOUBLE)
			type = e->args[i]->type;
		null |= e->args[i]->is_null;
	}
	r = fth_type_is_text(type) ? lower_in_text(l, e, scope) : lower_in_int(l, e, type, scope);
	if (!null)
		return r;
	/* Not among the others: perhaps equal to the null. */
	return emit_and(l, I_OR, r, fth_emit_null(l, FTH_BITS));
}

int fth_lower_compare(struct lower *l, const struct fth_expr *e, int scope)
{
	if (e->op == FTH_OP_BETWEEN)
		return lower_between(l, e, scope);
	if (e->op == FTH_OP_IN)
		return lower_in(l, e, scope);
	return lower_pair(l, e->op, e->args[0], e->args[1], scope);
}
