/* SPDX-License-Identifier: BSD-2-Clause */
/* Expression trees: constructors, and the types of results. */
#include "query/vec/prog/expression.h"
#include "scalar/calendar.h"
#include "scalar/num.h"

#include "fathom/base/error.h"

#include <errno.h>

static const char *const type_names[FTH_T_COUNT] = {
	"boolean", "integer", "bigint", "numeric", "date", "double precision", "text", "character"};
static const char *const op_names[FTH_OP_COUNT] = {
	"+",	      "-",	   "*",		 "/",	      "%",	 "-",	     "abs",
	"round",      "floor",	   "ceil",	 "sqrt",      "exp",	 "ln",	     "log10",
	"power",      "=",	   "<>",	 "<",	      "<=",	 ">",	     ">=",
	"and",	      "or",	   "not",	 "is null",   "between", "in",	     "case",
	"coalesce",   "nullif",	   "cast",	 "year",      "quarter", "month",    "day",
	"add_months", "date_part", "date_trunc", "substring", "like",	 "upper",    "lower",
	"length",     "trim",	   "ltrim",	 "rtrim",     "||",	 "position", "left",
	"right",      "replace",   "lpad",	 "rpad",      "repeat",	 "reverse",  "starts_with",
};

const char *fth_type_name(struct fth_type type)
{
	return type.kind < FTH_T_COUNT ? type_names[type.kind] : "?";
}

const char *fth_op_name(enum fth_op op)
{
	return op < FTH_OP_COUNT ? op_names[op] : "?";
}

bool fth_type_is_int(struct fth_type type)
{
	return type.kind >= FTH_T_INT32 && type.kind <= FTH_T_DATE;
}

bool fth_type_is_text(struct fth_type type)
{
	return type.kind == FTH_T_TEXT || type.kind == FTH_T_CHAR;
}

bool fth_type_is_number(struct fth_type type)
{
	return type.kind == FTH_T_INT32 || type.kind == FTH_T_INT64 || type.kind == FTH_T_DECIMAL ||
	       type.kind == FTH_T_DOUBLE;
}

void fth_type_range(struct fth_type type, fth_i128 *lo, fth_i128 *hi)
{
	if (type.kind == FTH_T_INT64) {
		*lo = INT64_MIN;
		*hi = INT64_MAX;
	} else if (type.kind == FTH_T_DECIMAL) {
		*hi = type.precision == FTH_DEC_COMPARED ? fth_dec_max() + 1
		      : type.precision			 ? fth_pow10(type.precision) - 1
							 : fth_dec_max();
		*lo = -*hi;
	} else if (type.kind == FTH_T_BOOL) {
		*lo = 0;
		*hi = 1;
	} else {
		*lo = INT32_MIN;
		*hi = INT32_MAX;
	}
}

/* ---- leaves ---- */

static struct fth_expr *new_expr(struct fth_arena *a, enum fth_expr_kind kind, struct fth_type type)
{
	struct fth_expr *e = fth_arena_alloc(a, sizeof(*e), _Alignof(struct fth_expr));

	if (!e)
		return NULL;
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	e->type = type;
	e->s.data = "";
	return e;
}

struct fth_expr *fth_expr_column(struct fth_arena *a, unsigned column, struct fth_type type,
				 fth_i128 lo, fth_i128 hi, bool nullable)
{
	struct fth_expr *e = new_expr(a, FTH_EXPR_COLUMN, type);

	if (!e)
		return NULL;
	e->column = column;
	e->nullable = nullable;
	fth_type_range(type, &e->lo, &e->hi);
	if (lo <= hi && lo >= e->lo && hi <= e->hi) {
		e->lo = lo;
		e->hi = hi;
	}
	return e;
}

struct fth_expr *fth_expr_any(struct fth_arena *a, unsigned column, struct fth_type type,
			      bool nullable)
{
	return fth_expr_column(a, column, type, 1, 0, nullable);
}

struct fth_expr *fth_expr_int(struct fth_arena *a, struct fth_type type, fth_i128 value)
{
	struct fth_expr *e = new_expr(a, FTH_EXPR_CONST, type);

	if (e)
		e->i = value;
	return e;
}

struct fth_expr *fth_expr_bool(struct fth_arena *a, bool value)
{
	return fth_expr_int(a, fth_type(FTH_T_BOOL), value);
}

struct fth_expr *fth_expr_double(struct fth_arena *a, double value)
{
	struct fth_expr *e = new_expr(a, FTH_EXPR_CONST, fth_type(FTH_T_DOUBLE));

	if (e)
		e->f = value;
	return e;
}

struct fth_expr *fth_expr_text(struct fth_arena *a, struct fth_type type, struct fth_str value)
{
	struct fth_expr *e = new_expr(a, FTH_EXPR_CONST, type);
	char *copy = fth_arena_alloc(a, value.len + 1, 1);

	if (!e || !copy)
		return NULL;
	memcpy(copy, value.data, value.len);
	copy[value.len] = '\0';
	e->s = (struct fth_str){copy, value.len, 0};
	return e;
}

struct fth_expr *fth_expr_null(struct fth_arena *a, struct fth_type type)
{
	struct fth_expr *e = new_expr(a, FTH_EXPR_CONST, type);

	if (e)
		e->is_null = true;
	return e;
}

/* ---- the type of a result ---- */

static struct fth_type wider_number(struct fth_type a, struct fth_type b)
{
	struct fth_type t = a.kind > b.kind ? a : b;

	if (a.kind == FTH_T_DOUBLE || b.kind == FTH_T_DOUBLE)
		return fth_type(FTH_T_DOUBLE);
	if (t.kind == FTH_T_DECIMAL)
		return fth_type_decimal(0, a.scale > b.scale ? a.scale : b.scale);
	return t;
}

/* What both become in CASE, COALESCE and comparisons; false if there is no such type. */
static bool common_type(struct fth_type a, struct fth_type b, struct fth_type *out)
{
	if (fth_type_is_number(a) && fth_type_is_number(b)) {
		*out = wider_number(a, b);
		return true;
	}
	if (fth_type_is_text(a) && fth_type_is_text(b)) {
		*out = a.kind == b.kind ? a : fth_type(FTH_T_TEXT);
		out->length = a.length == b.length ? a.length : 0;
		return true;
	}
	*out = a;
	return a.kind == b.kind;
}

static bool arith_type(enum fth_op op, struct fth_type a, struct fth_type b, struct fth_type *out)
{
	bool days = b.kind == FTH_T_INT32 || b.kind == FTH_T_INT64;

	if (a.kind == FTH_T_DATE && (op == FTH_OP_ADD || op == FTH_OP_SUB)) {
		*out = fth_type(b.kind == FTH_T_DATE ? FTH_T_INT32 : FTH_T_DATE);
		return b.kind == FTH_T_DATE ? op == FTH_OP_SUB : days;
	}
	if (!fth_type_is_number(a) || !fth_type_is_number(b))
		return false;
	*out = wider_number(a, b);
	if (out->kind != FTH_T_DECIMAL)
		return out->kind != FTH_T_DOUBLE || op != FTH_OP_MOD;
	if (op == FTH_OP_MUL)
		out->scale = (uint8_t)(a.scale + b.scale);
	if (op == FTH_OP_DIV)
		out->scale = (uint8_t)fth_dec_div_scale(a.scale, b.scale);
	return out->scale <= FTH_DEC_DIGITS;
}

static bool compare_type(unsigned n, struct fth_expr *const *args, struct fth_type *out)
{
	struct fth_type t;

	*out = fth_type(FTH_T_BOOL);
	for (unsigned i = 1; i < n; i++)
		if (!common_type(args[0]->type, args[i]->type, &t))
			return false;
	return n >= 2;
}

/* Values at first, first + 2, ..., of which the last may stand alone. */
static bool case_type(unsigned n, struct fth_expr *const *args, struct fth_type *out)
{
	*out = args[n > 1 ? 1 : 0]->type;
	for (unsigned i = 0; i < n; i++) {
		bool is_value = i % 2 == 1 || i + 1 == n;

		if (!is_value && args[i]->type.kind != FTH_T_BOOL)
			return false;
		if (is_value && !common_type(*out, args[i]->type, out))
			return false;
	}
	return n >= 2;
}

static bool coalesce_type(unsigned n, struct fth_expr *const *args, struct fth_type *out)
{
	*out = args[0]->type;
	for (unsigned i = 1; i < n; i++)
		if (!common_type(*out, args[i]->type, out))
			return false;
	return true;
}

static bool is_int(const struct fth_expr *e)
{
	return e->type.kind == FTH_T_INT32 || e->type.kind == FTH_T_INT64;
}

static bool is_const_text(const struct fth_expr *e)
{
	return fth_type_is_text(e->type) && e->kind == FTH_EXPR_CONST;
}

static bool text_type(enum fth_op op, unsigned n, struct fth_expr *const *args,
		      struct fth_type *out)
{
	*out = fth_type(op == FTH_OP_LIKE || op == FTH_OP_STARTS_WITH  ? FTH_T_BOOL
			: op == FTH_OP_LENGTH || op == FTH_OP_POSITION ? FTH_T_INT32
								       : FTH_T_TEXT);
	if (!fth_type_is_text(args[0]->type))
		return false;
	switch (op) {
	case FTH_OP_SUBSTRING:
		return (n == 2 || n == 3) && is_int(args[1]) && (n == 2 || is_int(args[2]));
	case FTH_OP_LIKE:
		return (n == 2 || (n == 3 && is_const_text(args[2]))) && is_const_text(args[1]);
	case FTH_OP_CONCAT:
	case FTH_OP_POSITION:
	case FTH_OP_STARTS_WITH:
		return n == 2 && fth_type_is_text(args[1]->type);
	case FTH_OP_LEFT:
	case FTH_OP_RIGHT:
	case FTH_OP_REPEAT:
		return n == 2 && is_int(args[1]);
	case FTH_OP_LPAD:
	case FTH_OP_RPAD:
		return n == 3 && is_int(args[1]) && fth_type_is_text(args[2]->type);
	case FTH_OP_REPLACE:
		return n == 3 && fth_type_is_text(args[1]->type) && fth_type_is_text(args[2]->type);
	case FTH_OP_TRIM:
	case FTH_OP_LTRIM:
	case FTH_OP_RTRIM:
		return n == 1 || (n == 2 && fth_type_is_text(args[1]->type));
	default:
		return n == 1;
	}
}

/* ABS, ROUND, FLOOR, CEIL. */
static bool round_type(enum fth_op op, unsigned n, struct fth_expr *const *args,
		       struct fth_type *out)
{
	bool digits = n == 2 && op == FTH_OP_ROUND && args[0]->type.kind == FTH_T_DECIMAL &&
		      is_int(args[1]) && args[1]->kind == FTH_EXPR_CONST && !args[1]->is_null &&
		      args[1]->i <= FTH_DEC_DIGITS && args[1]->i >= -FTH_DEC_DIGITS;

	*out = args[0]->type;
	out->precision = 0;
	if (op != FTH_OP_ABS)
		out->scale = digits && args[1]->i > 0 ? (uint8_t)args[1]->i : 0;
	return (n == 1 || digits) && fth_type_is_number(*out);
}

/* SQRT, EXP, LN, LOG10, POWER. */
static bool math_type(enum fth_op op, unsigned n, struct fth_expr *const *args,
		      struct fth_type *out)
{
	*out = args[0]->type;
	if (op == FTH_OP_SQRT && n == 1 && out->kind == FTH_T_DECIMAL) {
		*out = fth_type_decimal(0, fth_dec_div_scale(out->scale, 0));
		return true;
	}
	return out->kind == FTH_T_DOUBLE && n == (op == FTH_OP_POWER ? 2 : 1) &&
	       args[n - 1]->type.kind == FTH_T_DOUBLE;
}

static bool part_type(enum fth_op op, unsigned n, struct fth_expr *const *args,
		      struct fth_type *out)
{
	*out = fth_type(op == FTH_OP_DATE_PART ? FTH_T_INT32 : FTH_T_DATE);
	return n == 2 && args[0]->type.kind == FTH_T_DATE && is_int(args[1]) &&
	       args[1]->kind == FTH_EXPR_CONST && !args[1]->is_null && args[1]->i >= 0 &&
	       args[1]->i < FTH_DATE_PARTS;
}

static bool all_bool(unsigned n, struct fth_expr *const *args)
{
	for (unsigned i = 0; i < n; i++)
		if (args[i]->type.kind != FTH_T_BOOL)
			return false;
	return true;
}

static bool in_type(unsigned n, struct fth_expr *const *args, struct fth_type *out)
{
	for (unsigned i = 1; i < n; i++)
		if (args[i]->kind != FTH_EXPR_CONST)
			return false;
	return compare_type(n, args, out);
}

static bool call_type(enum fth_op op, unsigned n, struct fth_expr *const *args,
		      struct fth_type *out)
{
	*out = fth_type(FTH_T_BOOL);
	switch (op) {
	case FTH_OP_ADD:
	case FTH_OP_SUB:
	case FTH_OP_MUL:
	case FTH_OP_DIV:
	case FTH_OP_MOD:
		return n == 2 && arith_type(op, args[0]->type, args[1]->type, out);
	case FTH_OP_NEG:
		*out = args[0]->type;
		out->precision = 0;
		return n == 1 && fth_type_is_number(*out);
	case FTH_OP_ABS:
	case FTH_OP_ROUND:
	case FTH_OP_FLOOR:
	case FTH_OP_CEIL:
		return round_type(op, n, args, out);
	case FTH_OP_SQRT:
	case FTH_OP_EXP:
	case FTH_OP_LN:
	case FTH_OP_LOG10:
	case FTH_OP_POWER:
		return math_type(op, n, args, out);
	case FTH_OP_EQ:
	case FTH_OP_NE:
	case FTH_OP_LT:
	case FTH_OP_LE:
	case FTH_OP_GT:
	case FTH_OP_GE:
		return n == 2 && compare_type(n, args, out);
	case FTH_OP_BETWEEN:
		return n == 3 && compare_type(n, args, out);
	case FTH_OP_IN:
		return in_type(n, args, out);
	case FTH_OP_AND:
	case FTH_OP_OR:
		return n == 2 && all_bool(n, args);
	case FTH_OP_NOT:
		return n == 1 && all_bool(n, args);
	case FTH_OP_IS_NULL:
		return n == 1;
	case FTH_OP_CASE:
		return case_type(n, args, out);
	case FTH_OP_COALESCE:
		return coalesce_type(n, args, out);
	case FTH_OP_NULLIF:
		return n == 2 && compare_type(n, args, out) && (*out = args[0]->type, true);
	case FTH_OP_YEAR:
	case FTH_OP_QUARTER:
	case FTH_OP_MONTH:
	case FTH_OP_DAY:
		*out = fth_type(FTH_T_INT32);
		return n == 1 && args[0]->type.kind == FTH_T_DATE;
	case FTH_OP_ADD_MONTHS:
		*out = fth_type(FTH_T_DATE);
		return n == 2 && args[0]->type.kind == FTH_T_DATE && is_int(args[1]);
	case FTH_OP_DATE_PART:
	case FTH_OP_DATE_TRUNC:
		return part_type(op, n, args, out);
	case FTH_OP_CAST:
	case FTH_OP_COUNT:
		return false;
	default:
		return text_type(op, n, args, out);
	}
}

/* ---- calls ---- */

static struct fth_expr *refuse_call(enum fth_op op, unsigned n, struct fth_expr *const *args)
{
	fth_fail(EINVAL, "%s does not take %u arguments of these types (%s%s%s)", fth_op_name(op),
		 n, n > 0 ? fth_type_name(args[0]->type) : "", n > 1 ? ", " : "",
		 n > 1 ? fth_type_name(args[1]->type) : "");
	return NULL;
}

struct fth_expr *fth_expr_call(struct fth_arena *a, enum fth_op op, unsigned nargs,
			       struct fth_expr *const *args)
{
	struct fth_type type;
	struct fth_expr *e;

	for (unsigned i = 0; i < nargs; i++)
		if (!args[i])
			return NULL;
	if (nargs == 0 || !call_type(op, nargs, args, &type))
		return refuse_call(op, nargs, args);
	e = new_expr(a, FTH_EXPR_CALL, type);
	if (!e)
		return NULL;
	e->op = op;
	e->nargs = nargs;
	e->args = fth_arena_alloc(a, nargs * sizeof(*e->args), 8);
	if (!e->args)
		return NULL;
	memcpy(e->args, args, nargs * sizeof(*e->args));
	return e;
}

struct fth_expr *fth_expr_call1(struct fth_arena *a, enum fth_op op, struct fth_expr *x)
{
	return fth_expr_call(a, op, 1, &x);
}

struct fth_expr *fth_expr_call2(struct fth_arena *a, enum fth_op op, struct fth_expr *x,
				struct fth_expr *y)
{
	struct fth_expr *args[] = {x, y};

	return fth_expr_call(a, op, 2, args);
}

struct fth_expr *fth_expr_call3(struct fth_arena *a, enum fth_op op, struct fth_expr *x,
				struct fth_expr *y, struct fth_expr *z)
{
	struct fth_expr *args[] = {x, y, z};

	return fth_expr_call(a, op, 3, args);
}

/* Which casts there are: between numbers, to and from text, and of a type to itself. */
static bool can_cast(struct fth_type from, struct fth_type to)
{
	if (from.kind == to.kind || fth_type_is_text(from) || fth_type_is_text(to))
		return true;
	if (from.kind == FTH_T_BOOL || to.kind == FTH_T_BOOL)
		return from.kind == FTH_T_INT32 || to.kind == FTH_T_INT32;
	return fth_type_is_number(from) && fth_type_is_number(to);
}

struct fth_expr *fth_expr_cast(struct fth_arena *a, struct fth_expr *x, struct fth_type type)
{
	struct fth_expr *e;

	if (!x)
		return NULL;
	if (!can_cast(x->type, type) || type.scale > FTH_DEC_DIGITS ||
	    type.precision > FTH_DEC_COMPARED) {
		fth_fail(EINVAL, "cannot cast type %s to %s", fth_type_name(x->type),
			 fth_type_name(type));
		return NULL;
	}
	e = new_expr(a, FTH_EXPR_CALL, type);
	if (!e)
		return NULL;
	e->op = FTH_OP_CAST;
	e->nargs = 1;
	e->args = fth_arena_alloc(a, sizeof(*e->args), 8);
	if (!e->args)
		return NULL;
	e->args[0] = x;
	return e;
}
