/* SPDX-License-Identifier: BSD-2-Clause */
/* Task text: expressions and constants. */
#include "query/task/task_names.h"
#include "query/task/task_read_internal.h"
#include "scalar/calendar.h"
#include "scalar/calendar.h"
#include "scalar/num.h"

#include "fathom/base/error.h"

#include <errno.h>

/* An expression and how deep it is: programs are compiled by recursion. */
struct deep {
	struct fth_expr *expr;
	unsigned depth;
};

static struct deep read_loose(struct reader *r, unsigned loosest);

static struct deep checked(struct reader *r, struct fth_expr *e, unsigned depth)
{
	if (!e && r->error == 0)
		reader_error(r, !fth_arena_alloc(r->arena, 16, 16) ? -ENOMEM : -EINVAL);
	if (depth > READ_DEPTH_MAX)
		reader_fail(r, "the expression nests deeper than %u levels", READ_DEPTH_MAX);
	return (struct deep){r->error == 0 ? e : NULL, depth};
}

/* ---- constants ---- */

static struct fth_expr *integer(struct reader *r, struct fth_type type, struct fth_str text)
{
	unsigned scale = type.kind == FTH_T_DECIMAL ? type.scale : 0;
	fth_i128 value = 0, lo, hi;
	int32_t days = 0;
	int rc;

	if (type.kind == FTH_T_DATE) {
		rc = fth_date_parse(text, &days);
		value = days;
	} else {
		rc = fth_dec_parse(text, scale, &value);
	}
	fth_type_range(type.kind == FTH_T_DECIMAL ? fth_type_decimal(0, scale) : type, &lo, &hi);
	if (rc < 0 || value < lo || value > hi) {
		reader_fail(r, "'%.*s' is not a valid %s", (int)(text.len < 40 ? text.len : 40),
			    text.data, task_type_names[type.kind]);
		return NULL;
	}
	return fth_expr_int(r->arena, type, value);
}

static struct fth_expr *value_of(struct reader *r, struct fth_type type, struct fth_str text)
{
	double real;

	if (fth_type_is_text(type))
		return fth_expr_text(r->arena, type, text);
	if (type.kind != FTH_T_DOUBLE)
		return integer(r, type, text);
	if (fth_f64_parse(text, &real) < 0) {
		reader_fail(r, "'%.*s' is not a valid double", (int)(text.len < 40 ? text.len : 40),
			    text.data);
		return NULL;
	}
	return fth_expr_double(r->arena, real);
}

/* Digits, perhaps with a point, perhaps behind a minus. */
static struct fth_expr *number(struct reader *r)
{
	char text[FTH_DEC_DIGITS + 4];
	bool negative = reader_skip(r, "-");
	size_t n = r->token.length, point = 0;

	if (r->token.kind != LEX_NUMBER || n > FTH_DEC_DIGITS + 1) {
		reader_fail(r, "expected a number of at most %d digits", FTH_DEC_DIGITS);
		return NULL;
	}
	text[0] = '-';
	for (size_t i = 0; i < n; i++) {
		text[i + 1] = r->token.text[i];
		if (text[i + 1] == '.')
			point = n - i - 1;
	}
	reader_next(r);
	return integer(r, point > 0 ? fth_type_decimal(0, (unsigned)point) : fth_type(FTH_T_INT32),
		       (struct fth_str){text + !negative, (uint32_t)(n + negative), 0});
}

struct fth_expr *read_constant(struct reader *r)
{
	struct fth_type type;

	if (r->token.kind == LEX_STRING)
		return value_of(r, fth_type(FTH_T_TEXT), reader_string(r));
	if (r->token.kind == LEX_NUMBER || reader_at(r, "-"))
		return number(r);
	if (reader_at(r, "true") || reader_at(r, "false")) {
		bool value = reader_at(r, "true");

		reader_next(r);
		return fth_expr_bool(r->arena, value);
	}
	if (!read_type(r, &type)) {
		reader_fail(r, "expected a constant");
		return NULL;
	}
	if (reader_skip(r, "null"))
		return fth_expr_null(r->arena, type);
	if (type.kind == FTH_T_BOOL || r->token.kind != LEX_STRING) {
		reader_fail(r, "expected null%s after the type",
			    type.kind == FTH_T_BOOL ? "" : " or a 'value'");
		return NULL;
	}
	return value_of(r, type, reader_string(r));
}

/* ---- operands ---- */

static struct fth_expr *slot_expr(struct reader *r)
{
	unsigned slot = read_slot(r);
	const struct task_slot *s;

	if (r->error != 0)
		return NULL;
	s = &r->task->slots[slot];
	if (fth_type_is_int(s->type))
		return fth_expr_column(r->arena, slot, s->type, s->lo, s->hi, s->nullable);
	return fth_expr_any(r->arena, slot, s->type, s->nullable);
}

static struct deep read_cast(struct reader *r, struct deep arg)
{
	struct fth_type type;

	reader_expect(r, "as");
	if (!read_type(r, &type)) {
		reader_fail(r, "expected a type");
		return arg;
	}
	reader_expect(r, ")");
	return checked(r, fth_expr_cast(r->arena, arg.expr, type), arg.depth + 1);
}

static struct deep read_call(struct reader *r, enum fth_op op)
{
	struct fth_expr **args = NULL;
	unsigned n = 0, room = 0, depth = 0;

	do {
		struct deep arg = read_loose(r, 0);

		if (op == FTH_OP_CAST)
			return read_cast(r, arg);
		if (n == READ_ARGS_MAX)
			reader_fail(r, "more than %u arguments", READ_ARGS_MAX);
		args = reader_grow(r, args, n, &room, sizeof(struct fth_expr *));
		if (!args)
			return arg;
		args[n++] = arg.expr;
		depth = arg.depth > depth ? arg.depth : depth;
	} while (reader_skip(r, ","));
	reader_expect(r, ")");
	if (r->error != 0)
		return (struct deep){NULL, 0};
	return checked(r, fth_expr_call(r->arena, op, n, args), depth + 1);
}

static bool find_function(const struct reader *r, enum fth_op *op)
{
	if (r->token.kind != LEX_WORD || !lex_is(&r->ahead, LEX_MARK, "("))
		return false;
	for (unsigned i = 0; i < FTH_OP_COUNT; i++)
		if (!task_op_is_infix((enum fth_op)i) &&
		    lex_is(&r->token, LEX_WORD, task_op_name((enum fth_op)i))) {
			*op = (enum fth_op)i;
			return true;
		}
	return false;
}

static struct deep read_operand(struct reader *r)
{
	struct deep inner;
	enum fth_op op;

	if (lex_is(&r->ahead, LEX_MARK, "#"))
		return checked(r, slot_expr(r), 1);
	if (find_function(r, &op)) {
		reader_next(r);
		reader_next(r);
		return read_call(r, op);
	}
	if (!reader_skip(r, "("))
		return checked(r, read_constant(r), 1);
	inner = read_loose(r, 0);
	reader_expect(r, ")");
	return inner;
}

/* ---- operators ---- */

/* How tight an operator binds, or 0. */
static unsigned tightness(const struct reader *r, enum fth_op *op)
{
	static const uint8_t tight[FTH_OP_COUNT] = {
		[FTH_OP_OR] = 1,  [FTH_OP_AND] = 2, [FTH_OP_EQ] = 3,	 [FTH_OP_NE] = 3,
		[FTH_OP_LT] = 3,  [FTH_OP_LE] = 3,  [FTH_OP_GT] = 3,	 [FTH_OP_GE] = 3,
		[FTH_OP_ADD] = 4, [FTH_OP_SUB] = 4, [FTH_OP_CONCAT] = 4, [FTH_OP_MUL] = 5,
		[FTH_OP_DIV] = 5, [FTH_OP_MOD] = 5,
	};

	for (unsigned i = 0; i < FTH_OP_COUNT; i++)
		if (tight[i] > 0 && reader_at(r, task_op_name((enum fth_op)i))) {
			*op = (enum fth_op)i;
			return tight[i];
		}
	return 0;
}

/* An expression of operators that bind tighter than `loosest`. */
static struct deep read_loose(struct reader *r, unsigned loosest)
{
	struct deep left = {NULL, 0};
	enum fth_op op;
	unsigned tight;

	if (++r->depth > READ_DEPTH_MAX)
		reader_fail(r, "the expression nests deeper than %u levels", READ_DEPTH_MAX);
	if (r->error == 0)
		left = read_operand(r);
	while (r->error == 0 && (tight = tightness(r, &op)) > loosest) {
		struct deep right;

		reader_next(r);
		right = read_loose(r, tight);
		if (r->error == 0)
			left = checked(r, fth_expr_call2(r->arena, op, left.expr, right.expr),
				       1 + (left.depth > right.depth ? left.depth : right.depth));
	}
	r->depth--;
	return left;
}

struct fth_expr *read_expr(struct reader *r)
{
	return read_loose(r, 0).expr;
}
