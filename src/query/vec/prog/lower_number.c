/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compiling arithmetic, dates and casts. Ranges are computed with the values: an operation whose
 * result range lies in the type's range needs no check, and runs in the narrowest type that holds
 * operands and result.
 */
#include "query/vec/prog/prog_internal.h"

#include <errno.h>
#include <math.h>

struct range {
	fth_i128 lo, hi;
	bool over; /* beyond 128 bits */
};

static struct range range_of(const struct lower *l, int r)
{
	return (struct range){l->prog->regs[r].lo, l->prog->regs[r].hi, false};
}

static bool arith_over(enum fth_kern_arith op, fth_i128 a, fth_i128 b, fth_i128 *out)
{
	if (op == FTH_KERN_ADD)
		return __builtin_add_overflow(a, b, out);
	if (op == FTH_KERN_SUB)
		return __builtin_sub_overflow(a, b, out);
	return __builtin_mul_overflow(a, b, out);
}

/* All three are extreme at the corners. */
static struct range range_arith(enum fth_kern_arith op, struct range a, struct range b)
{
	fth_i128 corner[4];
	struct range r;

	r.over = arith_over(op, a.lo, b.lo, &corner[0]) | arith_over(op, a.lo, b.hi, &corner[1]) |
		 arith_over(op, a.hi, b.lo, &corner[2]) | arith_over(op, a.hi, b.hi, &corner[3]);
	r.lo = r.hi = corner[0];
	for (unsigned i = 1; i < 4; i++) {
		r.lo = corner[i] < r.lo ? corner[i] : r.lo;
		r.hi = corner[i] > r.hi ? corner[i] : r.hi;
	}
	return r;
}

static enum fth_phys max_phys(enum fth_phys a, enum fth_phys b)
{
	return a > b ? a : b;
}

static bool is_null_reg(const struct lower *l, int r)
{
	return l->prog->regs[r].null;
}

/* Overflow of the type itself is looked for in every row. */
static int emit_checked(struct lower *l, enum fth_kern_arith op, int a, int b, fth_i128 lo,
			fth_i128 hi, enum row_error error, int scope)
{
	struct insn in =
		fth_insn(I_CHECKED, fth_phys_for(lo, hi) == FTH_I128 ? FTH_I128 : FTH_I64, a, b);

	in.sub = (uint8_t)op;
	in.x = lo;
	in.y = hi;
	in.error = (uint8_t)error;
	in.scope = scope;
	return fth_emit(l, in, true, lo, hi);
}

static void set_operands(struct lower *l, struct insn *in, int a, int b)
{
	const struct reg *regs = l->prog->regs;

	if (regs[b].scalar) {
		in->k = regs[b].lo;
		b = -1;
	} else if (regs[a].scalar && in->sub != FTH_KERN_SUB) {
		in->k = regs[a].lo;
		a = b;
		b = -1;
	} else if (regs[a].scalar) {
		in->k = regs[a].lo;
		a = -1;
	}
	in->a = a;
	in->b = b;
}

int fth_emit_arith(struct lower *l, enum fth_kern_arith op, int a, int b, fth_i128 lo, fth_i128 hi,
		   enum row_error error, int scope)
{
	struct range ra, rb, r;
	enum fth_phys operands, type;
	struct insn in;
	bool wide;

	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	if (is_null_reg(l, a) || is_null_reg(l, b))
		return fth_emit_null(l, FTH_I8);
	ra = range_of(l, a);
	rb = range_of(l, b);
	r = range_arith(op, ra, rb);
	if (r.over || (fth_phys_for(r.lo, r.hi) == FTH_I128 && fth_phys_for(lo, hi) <= FTH_I64))
		return emit_checked(l, op, a, b, lo, hi, error, scope);
	if (l->prog->regs[a].scalar && l->prog->regs[b].scalar) {
		if (r.lo >= lo && r.hi <= hi)
			return fth_emit_int(l, r.lo);
		a = fth_emit_vector(l, a);
	}
	operands = max_phys(fth_phys_for(ra.lo, ra.hi), fth_phys_for(rb.lo, rb.hi));
	type = max_phys(operands, fth_phys_for(r.lo, r.hi));
	wide = op == FTH_KERN_MUL && type == operands + 1 && type <= FTH_I64;
	a = fth_emit_convert(l, a, wide ? operands : type);
	b = fth_emit_convert(l, b, wide ? operands : type);
	if (a < 0 || b < 0)
		return a < 0 ? a : b;
	in = fth_insn(wide ? I_MUL_WIDE : I_ARITH, type, -1, -1);
	in.sub = (uint8_t)op;
	set_operands(l, &in, a, b);
	if (r.lo < lo || r.hi > hi) {
		in.check = true;
		in.x = r.lo = r.lo < lo ? lo : r.lo;
		in.y = r.hi = r.hi > hi ? hi : r.hi;
		in.error = (uint8_t)error;
		in.scope = scope;
	}
	return fth_emit(l, in, true, r.lo, r.hi);
}

/* ---- rescaling ---- */

static enum row_error error_of(struct fth_type type)
{
	switch (type.kind) {
	case FTH_T_INT32:
		return ERR_INT;
	case FTH_T_INT64:
		return ERR_BIGINT;
	case FTH_T_DATE:
		return ERR_DATE;
	case FTH_T_DOUBLE:
		return ERR_F64;
	default:
		return ERR_NUMERIC;
	}
}

static int emit_typed(struct lower *l, enum fth_kern_arith op, int a, int b, struct fth_type type,
		      int scope)
{
	fth_i128 lo, hi;

	type.precision = 0;
	fth_type_range(type, &lo, &hi);
	return fth_emit_arith(l, op, a, b, lo, hi, error_of(type), scope);
}

static int emit_scale_up(struct lower *l, int a, unsigned digits, int scope)
{
	if (a < 0 || digits == 0)
		return a;
	return emit_typed(l, FTH_KERN_MUL, a, fth_emit_int(l, fth_pow10(digits)),
			  fth_type_decimal(0, 0), scope);
}

int fth_emit_compared(struct lower *l, int a, unsigned digits, int scope)
{
	struct insn in = fth_insn(I_DEC_COMPARED, FTH_I128, a, -1);
	fth_i128 most = fth_dec_max() + 1, lo, hi;

	if (a < 0 || digits == 0 || is_null_reg(l, a))
		return a;
	if (fth_dec_scale_up(range_of(l, a).lo, digits, &lo) == 0 &&
	    fth_dec_scale_up(range_of(l, a).hi, digits, &hi) == 0)
		return emit_scale_up(l, a, digits, scope);
	in.a = fth_emit_vector(l, a);
	in.k = (fth_i128)digits;
	return in.a < 0 ? in.a : fth_emit(l, in, true, -most, most);
}

static int emit_scale_down(struct lower *l, int a, unsigned digits)
{
	struct range r = range_of(l, a);
	struct insn in;

	r.lo = fth_dec_round(r.lo, digits);
	r.hi = fth_dec_round(r.hi, digits);
	in = fth_insn(I_DEC_ROUND, fth_phys_for(r.lo, r.hi), a, -1);
	in.k = (fth_i128)digits;
	return fth_emit(l, in, true, r.lo, r.hi);
}

int fth_lower_scale(struct lower *l, int a, int digits, int scope)
{
	if (a < 0 || is_null_reg(l, a))
		return a;
	return digits >= 0 ? emit_scale_up(l, a, (unsigned)digits, scope)
			   : emit_scale_down(l, a, (unsigned)-digits);
}

static int emit_f64(struct lower *l, int a, struct fth_type from)
{
	struct insn in = fth_insn(I_F64_OF_DEC, FTH_F64, a, -1);

	if (a < 0 || from.kind == FTH_T_DOUBLE)
		return a;
	in.k = from.scale;
	return fth_emit(l, in, true, 0, 0);
}

/* The value must be in [lo, hi]: adding 0 checks it. */
static int emit_check(struct lower *l, int a, struct fth_type to, int scope)
{
	fth_i128 lo, hi;

	if (a < 0)
		return a;
	fth_type_range(to, &lo, &hi);
	if (is_null_reg(l, a) || (l->prog->regs[a].lo >= lo && l->prog->regs[a].hi <= hi))
		return a;
	a = fth_emit_vector(l, a);
	return fth_emit_arith(l, FTH_KERN_ADD, a, fth_emit_int(l, 0), lo, hi, error_of(to), scope);
}

struct fth_type fth_common_type(struct fth_type a, struct fth_type b)
{
	if (a.kind == FTH_T_DOUBLE || b.kind == FTH_T_DOUBLE)
		return fth_type(FTH_T_DOUBLE);
	if (fth_type_is_int(a) && a.kind != FTH_T_DATE)
		return fth_type_decimal(0, a.scale > b.scale ? a.scale : b.scale);
	return a;
}

int fth_emit_as(struct lower *l, int r, struct fth_type from, struct fth_type to, int scope)
{
	struct insn trim = fth_insn(I_TRIM, FTH_STR, r, -1);

	if (r < 0)
		return r;
	if (to.kind == FTH_T_DOUBLE)
		return emit_f64(l, r, from);
	if (from.kind == FTH_T_CHAR && to.kind == FTH_T_TEXT) {
		trim.sub = 2;
		return fth_emit(l, trim, true, 0, 0);
	}
	return to.scale > from.scale ? emit_scale_up(l, r, to.scale - from.scale, scope) : r;
}

/* ---- operators ---- */

static int lower_f64(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(I_F64_ARITH, FTH_F64, 0, 0);

	in.a = emit_f64(l, fth_lower(l, e->args[0], scope), e->args[0]->type);
	in.b = emit_f64(l, fth_lower(l, e->args[1], scope), e->args[1]->type);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	in.sub = (uint8_t)e->op;
	in.error = ERR_F64;
	in.scope = scope;
	return fth_emit(l, in, true, 0, 0);
}

static int lower_add(struct lower *l, const struct fth_expr *e, int scope)
{
	enum fth_kern_arith op = e->op == FTH_OP_ADD ? FTH_KERN_ADD : FTH_KERN_SUB;
	int a = fth_lower(l, e->args[0], scope), b = fth_lower(l, e->args[1], scope);

	if (e->type.kind == FTH_T_DECIMAL) {
		a = fth_emit_as(l, a, e->args[0]->type, e->type, scope);
		b = fth_emit_as(l, b, e->args[1]->type, e->type, scope);
	}
	return a < 0 || b < 0 ? (a < 0 ? a : b) : emit_typed(l, op, a, b, e->type, scope);
}

static int lower_mul(struct lower *l, const struct fth_expr *e, int scope)
{
	int a = fth_lower(l, e->args[0], scope), b = fth_lower(l, e->args[1], scope);

	return a < 0 || b < 0 ? (a < 0 ? a : b) : emit_typed(l, FTH_KERN_MUL, a, b, e->type, scope);
}

static struct range symmetric(fth_i128 limit)
{
	return (struct range){-limit, limit, false};
}

static fth_i128 greatest(struct range r)
{
	fth_i128 low = r.lo < 0 ? -r.lo : r.lo, high = r.hi < 0 ? -r.hi : r.hi;

	return low > high ? low : high;
}

static int lower_div(struct lower *l, const struct fth_expr *e, int scope)
{
	bool decimal = e->type.kind == FTH_T_DECIMAL;
	struct insn in = fth_insn(decimal ? I_DEC_DIV : I_INT_DIV, FTH_I64, 0, 0);
	struct range r;
	fth_i128 lo, hi;

	in.a = fth_lower(l, e->args[0], scope);
	in.b = fth_lower(l, e->args[1], scope);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	fth_type_range(e->type, &lo, &hi);
	r = decimal ? (struct range){lo, hi, false} : symmetric(greatest(range_of(l, in.a)));
	r.lo = r.lo < lo ? lo : r.lo;
	r.hi = r.hi > hi ? hi : r.hi;
	in.type = (uint8_t)fth_phys_for(r.lo, r.hi);
	in.x = lo;
	in.y = hi;
	/* Scales of both, and of the result. */
	in.k = e->args[0]->type.scale | e->args[1]->type.scale << 8 | e->type.scale << 16;
	in.error = (uint8_t)error_of(e->type);
	in.scope = scope;
	return fth_emit(l, in, true, r.lo, r.hi);
}

static int lower_mod(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(I_INT_MOD, FTH_I64, 0, 0);
	struct range r;

	in.a = fth_emit_as(l, fth_lower(l, e->args[0], scope), e->args[0]->type, e->type, scope);
	in.b = fth_emit_as(l, fth_lower(l, e->args[1], scope), e->args[1]->type, e->type, scope);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	r = symmetric(greatest(range_of(l, in.a)));
	in.type = (uint8_t)fth_phys_for(r.lo, r.hi);
	in.error = ERR_DIV;
	in.scope = scope;
	return fth_emit(l, in, true, r.lo, r.hi);
}

static int lower_neg(struct lower *l, const struct fth_expr *e, int scope)
{
	int a = fth_lower(l, e->args[0], scope);

	if (a < 0)
		return a;
	if (e->type.kind == FTH_T_DOUBLE)
		return fth_emit(l, fth_insn(I_F64_NEG, FTH_F64, a, -1), true, 0, 0);
	return emit_typed(l, FTH_KERN_SUB, fth_emit_int(l, 0), a, e->type, scope);
}

/* SQRT, EXP, LN, LOG10, POWER. */
static int lower_math(struct lower *l, const struct fth_expr *e, int scope)
{
	bool decimal = e->type.kind == FTH_T_DECIMAL;
	struct insn in = fth_insn(decimal ? I_DEC_SQRT : I_F64_MATH, FTH_F64, 0, -1);

	in.a = fth_lower(l, e->args[0], scope);
	if (e->nargs == 2)
		in.b = fth_lower(l, e->args[1], scope);
	if (in.a < 0 || (e->nargs == 2 && in.b < 0))
		return in.a < 0 ? in.a : in.b;
	in.sub = (uint8_t)(FTH_MATH_SQRT + (e->op - FTH_OP_SQRT));
	in.error = ERR_F64;
	in.scope = scope;
	if (!decimal)
		return fth_emit(l, in, true, 0, 0);
	in.type = FTH_I128;
	in.k = e->args[0]->type.scale | e->type.scale << 8;
	return fth_emit(l, in, true, 0, fth_dec_max());
}

/* ---- dates ---- */

static fth_i128 part_of_date(enum fth_op op, fth_i128 days)
{
	int64_t year;
	unsigned month, day;

	fth_civil((int64_t)days, &year, &month, &day);
	return op == FTH_OP_YEAR    ? year
	       : op == FTH_OP_MONTH ? month
	       : op == FTH_OP_DAY   ? day
				    : (month + 2) / 3;
}

static int lower_part(struct lower *l, const struct fth_expr *e, int scope)
{
	int a = fth_lower(l, e->args[0], scope);
	struct range r;
	struct insn in;
	bool fast;

	if (a < 0)
		return a;
	r = range_of(l, a);
	fast = r.lo >= -719468 && r.hi <= 1 << 30 && !l->prog->regs[a].scalar;
	if (e->op == FTH_OP_YEAR) {
		r.lo = part_of_date(e->op, r.lo);
		r.hi = part_of_date(e->op, r.hi);
	} else {
		r.lo = 1;
		r.hi = e->op == FTH_OP_DAY ? 31 : e->op == FTH_OP_MONTH ? 12 : 4;
	}
	if (fast)
		a = fth_emit_convert(l, a, FTH_I32);
	in = fth_insn(fast ? I_CIVIL : I_CIVIL_ROW, FTH_I32, a, -1);
	in.sub = (uint8_t)e->op;
	return a < 0 ? a : fth_emit(l, in, true, r.lo, r.hi);
}

/* DATE_PART and DATE_TRUNC. */
static int lower_date_part(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(I_DATE_PART, FTH_I32, 0, -1);

	in.a = fth_lower(l, e->args[0], scope);
	in.sub = (uint8_t)e->args[1]->i;
	in.error = ERR_DATE;
	in.scope = scope;
	return in.a < 0 ? in.a : fth_emit(l, in, true, INT32_MIN, INT32_MAX);
}

static int lower_add_months(struct lower *l, const struct fth_expr *e, int scope)
{
	struct insn in = fth_insn(I_ADD_MONTHS, FTH_I32, 0, 0);

	in.a = fth_lower(l, e->args[0], scope);
	in.b = fth_lower(l, e->args[1], scope);
	if (in.a < 0 || in.b < 0)
		return in.a < 0 ? in.a : in.b;
	in.error = ERR_DATE;
	in.scope = scope;
	return fth_emit(l, in, true, INT32_MIN, INT32_MAX);
}

/* ---- casts ---- */

static int cast_number(struct lower *l, int a, struct fth_type from, struct fth_type to, int scope)
{
	struct insn in;
	fth_i128 lo, hi;

	if (from.kind == FTH_T_DOUBLE) {
		fth_type_range(to, &lo, &hi);
		in = fth_insn(to.kind == FTH_T_DECIMAL ? I_DEC_OF_F64 : I_INT_OF_F64,
			      fth_phys_for(lo, hi), a, -1);
		in.k = to.scale;
		in.x = lo;
		in.y = hi;
		in.error = (uint8_t)error_of(to);
		in.scope = scope;
		return fth_emit(l, in, true, lo, hi);
	}
	if (to.precision == FTH_DEC_COMPARED && to.scale >= from.scale)
		return fth_emit_compared(l, a, to.scale - from.scale, scope);
	a = fth_lower_scale(l, a, to.scale - from.scale, scope);
	return emit_check(l, a, to, scope);
}

static int cast_from_text(struct lower *l, int a, struct fth_type from, struct fth_type to,
			  int scope)
{
	static const enum insn_op ops[FTH_T_COUNT] = {
		[FTH_T_BOOL] = I_BOOL_OF_TEXT, [FTH_T_INT32] = I_INT_OF_TEXT,
		[FTH_T_INT64] = I_INT_OF_TEXT, [FTH_T_DECIMAL] = I_DEC_OF_TEXT,
		[FTH_T_DATE] = I_DATE_OF_TEXT, [FTH_T_DOUBLE] = I_F64_OF_TEXT,
	};
	struct insn in = fth_insn(ops[to.kind], fth_type_phys(to), a, -1);
	fth_i128 lo, hi;

	(void)from;
	fth_type_range(to, &lo, &hi);
	in.k = to.scale;
	in.x = lo;
	in.y = hi;
	in.error = (uint8_t)(to.kind == FTH_T_BOOL ? ERR_SYNTAX : error_of(to));
	in.scope = scope;
	in.name = fth_type_name(to);
	return fth_emit(l, in, true, lo, hi);
}

static int cast_to_text(struct lower *l, int a, struct fth_type from, struct fth_type to, int scope)
{
	struct insn in = fth_insn(I_TEXT_OF_DEC, FTH_STR, a, -1);

	if (!fth_type_is_text(from)) {
		in.op = from.kind == FTH_T_DATE	    ? I_TEXT_OF_DATE
			: from.kind == FTH_T_DOUBLE ? I_TEXT_OF_F64
			: from.kind == FTH_T_BOOL   ? I_TEXT_OF_BOOL
						    : I_TEXT_OF_DEC;
		in.k = from.scale;
		a = fth_emit(l, in, true, 0, 0);
	} else if (to.kind != FTH_T_CHAR) {
		a = fth_emit_as(l, a, from, fth_type(FTH_T_TEXT), scope);
	}
	if (a >= 0 && to.length > 0) {
		in = fth_insn(I_CUT, FTH_STR, a, -1);
		in.k = to.length;
		a = fth_emit(l, in, true, 0, 0);
	}
	/* groups and keys compare the bytes of a char: they have no blanks at the end */
	return to.kind == FTH_T_CHAR ? fth_emit_as(l, a, to, fth_type(FTH_T_TEXT), scope) : a;
}

static int cast_bool(struct lower *l, int a, struct fth_type from, int scope)
{
	struct insn in = fth_insn(I_CMP, FTH_I32, a, -1);

	(void)scope;
	if (from.kind == FTH_T_BOOL)
		return fth_emit(l, fth_insn(I_INT_OF_BOOL, FTH_I8, a, -1), true, 0, 1);
	in.sub = FTH_OP_NE;
	in.a = fth_emit_convert(l, fth_emit_vector(l, a), FTH_I32);
	return in.a < 0 ? in.a : fth_emit(l, in, true, 0, 1);
}

int fth_lower_cast(struct lower *l, int a, struct fth_type from, struct fth_type to, int scope)
{
	if (a < 0)
		return a;
	if (fth_type_is_text(to))
		return cast_to_text(l, a, from, to, scope);
	if (fth_type_is_text(from))
		return cast_from_text(l, a, from, to, scope);
	if (from.kind == to.kind && from.kind != FTH_T_DECIMAL)
		return a;
	if (from.kind == FTH_T_BOOL || to.kind == FTH_T_BOOL)
		return cast_bool(l, a, from, scope);
	if (to.kind == FTH_T_DOUBLE)
		return emit_f64(l, a, from);
	return cast_number(l, a, from, to, scope);
}

int fth_lower_number(struct lower *l, const struct fth_expr *e, int scope)
{
	if (e->op <= FTH_OP_MOD && e->type.kind == FTH_T_DOUBLE)
		return lower_f64(l, e, scope);
	switch (e->op) {
	case FTH_OP_ADD:
	case FTH_OP_SUB:
		return lower_add(l, e, scope);
	case FTH_OP_MUL:
		return lower_mul(l, e, scope);
	case FTH_OP_DIV:
		return lower_div(l, e, scope);
	case FTH_OP_MOD:
		return lower_mod(l, e, scope);
	case FTH_OP_NEG:
		return lower_neg(l, e, scope);
	case FTH_OP_ABS:
	case FTH_OP_ROUND:
	case FTH_OP_FLOOR:
	case FTH_OP_CEIL:
		return fth_lower_round(l, e, scope);
	case FTH_OP_CAST:
		return fth_lower_cast(l, fth_lower(l, e->args[0], scope), e->args[0]->type, e->type,
				      scope);
	case FTH_OP_SQRT:
	case FTH_OP_EXP:
	case FTH_OP_LN:
	case FTH_OP_LOG10:
	case FTH_OP_POWER:
		return lower_math(l, e, scope);
	case FTH_OP_DATE_PART:
	case FTH_OP_DATE_TRUNC:
		return lower_date_part(l, e, scope);
	case FTH_OP_ADD_MONTHS:
		return lower_add_months(l, e, scope);
	default:
		return lower_part(l, e, scope);
	}
}
