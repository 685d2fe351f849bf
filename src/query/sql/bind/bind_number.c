/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of numbers. Some are expressions over others: trunc(x, d) is x - x % 10^-d. */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"
#include "scalar/num.h"

#include <math.h>
#include <string.h>

#define TYPE_DOUBLE ((struct sql_type){.kind = SQL_DOUBLE})

static struct sql_expr *number_argument(struct sql_ctx *ctx, const char *name, struct sql_expr *e)
{
	char type[40];

	if (e->type.kind == SQL_UNKNOWN)
		e = sql_coerce(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, name);
	if (!sql_is_number(e->type.kind))
		sql_wrong(ctx, e->at, "%s does not take %s", name, sql_type_name(e->type, type));
	return e;
}

/* The second argument of round and trunc. */
static int64_t constant_digits(struct sql_ctx *ctx, const char *name, struct sql_expr *e, int at)
{
	int64_t digits;

	e = sql_coerce(ctx, e, SQL_TYPE_INT32, "a number of digits");
	if (!sql_is_const(e) || e->value.null)
		sql_unsupported(ctx, at, "%s with digits that are not a constant", name);
	digits = (int64_t)e->value.integer;
	if (digits < -SQL_PRECISION_MAX || digits > SQL_PRECISION_MAX)
		sql_wrong(ctx, at, "%s: digits %lld is not between %d and %d", name,
			  (long long)digits, -SQL_PRECISION_MAX, SQL_PRECISION_MAX);
	return digits;
}

static struct sql_expr *bind_round(struct sql_ctx *ctx, size_t n, struct sql_expr **args, int at)
{
	struct sql_expr *e = number_argument(ctx, "round", args[0]), *both[2];
	struct sql_type type = e->type;
	int64_t digits = 0;

	if (n == 2) {
		digits = constant_digits(ctx, "round", args[1], at);
		if (type.kind == SQL_DOUBLE)
			sql_wrong(ctx, at, "round of a double does not take a number of digits");
	}
	if (type.kind == SQL_INT32 || type.kind == SQL_INT64) {
		type = (struct sql_type){.kind = SQL_DECIMAL,
					 .precision = type.kind == SQL_INT32 ? 10 : 19};
		e = sql_cast(ctx, e, type, at);
		if (n == 1) {
			type.kind = SQL_DOUBLE; /* round(integer) is round(double precision) */
			e = sql_cast(ctx, e, type, at);
		}
	}
	if (type.kind == SQL_DECIMAL) {
		int whole = type.precision - type.scale + 1;

		type.scale = digits < 0 ? 0 : (int)digits;
		type.precision = whole + type.scale > SQL_PRECISION_MAX ? SQL_PRECISION_MAX
									: whole + type.scale;
	}
	both[0] = e;
	both[1] = sql_integer(ctx, SQL_TYPE_INT32, digits);
	return sql_fold(ctx, sql_call(ctx, SQL_ROUND, type, 2, both, at));
}

/* e of a type that PostgreSQL chooses where it has a function of doubles and one of decimals. */
static struct sql_expr *real_argument(struct sql_ctx *ctx, const char *name, struct sql_expr *e)
{
	e = number_argument(ctx, name, e);
	return e->type.kind == SQL_DECIMAL || e->type.kind == SQL_DOUBLE
		       ? e
		       : sql_cast(ctx, e, TYPE_DOUBLE, e->at);
}

static struct sql_expr *bind_trunc(struct sql_ctx *ctx, size_t n, struct sql_expr **args, int at)
{
	struct sql_expr *e = real_argument(ctx, "trunc", args[0]), *choice[3], *unit;
	int64_t digits = 0;

	if (n == 2) {
		digits = constant_digits(ctx, "trunc", args[1], at);
		e = number_argument(ctx, "trunc", args[0]);
		if (e->type.kind == SQL_DOUBLE)
			sql_wrong(ctx, at, "trunc of a double does not take a number of digits");
		e = sql_cast(ctx, e, (struct sql_type){.kind = SQL_DECIMAL}, at);
	}
	if (e->type.kind == SQL_DOUBLE) {
		choice[0] = sql_compare(ctx, SQL_LT, e, sql_integer(ctx, SQL_TYPE_INT32, 0), at);
		choice[1] = sql_fold(ctx, sql_call(ctx, SQL_CEIL, e->type, 1, &e, at));
		choice[2] = sql_fold(ctx, sql_call(ctx, SQL_FLOOR, e->type, 1, &e, at));
		return sql_fold(ctx, sql_case_expr(ctx, e->type, 3, choice, at));
	}
	if (digits < e->type.scale) {
		struct sql_type type = {.kind = SQL_DECIMAL, .precision = SQL_PRECISION_MAX};
		struct sql_value one = {.integer = digits < 0 ? fth_pow10((unsigned)-digits) : 1};

		type.scale = digits < 0 ? 0 : (int)digits;
		unit = sql_constant(ctx, type, one, at);
		e = sql_arithmetic(ctx, SQL_SUB, e, sql_arithmetic(ctx, SQL_MOD, e, unit, at), at);
	}
	choice[0] = e;
	choice[1] = sql_integer(ctx, SQL_TYPE_INT32, digits);
	return bind_round(ctx, 2, choice, at);
}

static struct sql_expr *bind_signum(struct sql_ctx *ctx, struct sql_expr *arg, int at)
{
	struct sql_expr *e = real_argument(ctx, "sign", arg), *choice[9];
	struct sql_type type = e->type.kind == SQL_DOUBLE
				       ? TYPE_DOUBLE
				       : (struct sql_type){.kind = SQL_DECIMAL, .precision = 1};
	struct sql_value nan_value = {.real = NAN};
	unsigned n = 0;

	if (e->type.kind == SQL_DOUBLE) { /* which is greater than all others */
		choice[n++] = sql_compare(ctx, SQL_EQ, e,
					  sql_constant(ctx, TYPE_DOUBLE, nan_value, at), at);
		choice[n++] = sql_cast(ctx, sql_integer(ctx, SQL_TYPE_INT32, 0), type, at);
	}
	for (int sign = -1; sign <= 1; sign++) {
		choice[n++] = sql_compare(ctx,
					  sign < 0   ? SQL_LT
					  : sign > 0 ? SQL_GT
						     : SQL_EQ,
					  e, sql_integer(ctx, SQL_TYPE_INT32, 0), at);
		choice[n++] = sql_cast(ctx, sql_integer(ctx, SQL_TYPE_INT32, sign), type, at);
	}
	choice[n++] = sql_null(ctx, type);
	return sql_fold(ctx, sql_case_expr(ctx, type, n, choice, at));
}

/* sqrt, exp, ln, log, power. */
static struct sql_expr *bind_math(struct sql_ctx *ctx, const char *name, size_t n,
				  struct sql_expr **args, int at)
{
	static const struct {
		const char *name;
		enum sql_op op;
	} table[] = {{"sqrt", SQL_SQRT}, {"exp", SQL_EXP},     {"ln", SQL_LN},
		     {"log", SQL_LOG10}, {"log10", SQL_LOG10}, {"power", SQL_POWER},
		     {"pow", SQL_POWER}};
	struct sql_expr *all[2];
	struct sql_type type;
	size_t i = 0;

	while (i < sizeof(table) / sizeof(table[0]) && strcmp(table[i].name, name) != 0)
		i++;
	if (i == sizeof(table) / sizeof(table[0]) || n != (table[i].op == SQL_POWER ? 2 : 1))
		return NULL;
	for (size_t j = 0; j < n; j++) {
		all[j] = real_argument(ctx, name, args[j]);
		if (all[j]->type.kind == SQL_DECIMAL && n == 2 &&
		    number_argument(ctx, name, args[1 - j])->type.kind == SQL_DOUBLE)
			all[j] = sql_cast(ctx, all[j], TYPE_DOUBLE, at);
		if (all[j]->type.kind == SQL_DECIMAL && table[i].op != SQL_SQRT)
			sql_unsupported(ctx, at, "%s of decimal (cast to double precision)", name);
	}
	type = all[0]->type;
	if (type.kind == SQL_DECIMAL)
		type = (struct sql_type){
			.kind = SQL_DECIMAL,
			.precision = SQL_PRECISION_MAX,
			.scale = type.scale > SQL_DIVISION_SCALE ? type.scale : SQL_DIVISION_SCALE};
	return sql_fold(ctx, sql_call(ctx, table[i].op, type, (unsigned)n, all, at));
}

struct sql_expr *sql_bind_numeric(struct sql_ctx *ctx, const char *name, size_t n,
				  struct sql_expr **args, int at)
{
	struct sql_expr *e;
	struct sql_type type;

	if (!strcmp(name, "mod") && n == 2)
		return sql_arithmetic(ctx, SQL_MOD, args[0], args[1], at);
	if (!strcmp(name, "round") && (n == 1 || n == 2))
		return bind_round(ctx, n, args, at);
	if (!strcmp(name, "trunc") && (n == 1 || n == 2))
		return bind_trunc(ctx, n, args, at);
	if (!strcmp(name, "sign") && n == 1)
		return bind_signum(ctx, args[0], at);
	e = bind_math(ctx, name, n, args, at);
	if (e)
		return e;
	if (n != 1)
		return NULL;
	if (!strcmp(name, "abs")) {
		e = number_argument(ctx, name, args[0]);
		return sql_fold(ctx, sql_call(ctx, SQL_ABS, e->type, 1, &e, at));
	}
	if (strcmp(name, "floor") && strcmp(name, "ceil") && strcmp(name, "ceiling"))
		return NULL;
	e = number_argument(ctx, name, args[0]);
	if (e->type.kind == SQL_INT32 || e->type.kind == SQL_INT64)
		e = sql_cast(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, at);
	type = e->type;
	if (type.kind == SQL_DECIMAL) {
		type.precision = type.precision - type.scale + 1;
		type.scale = 0;
	}
	return sql_fold(ctx, sql_call(ctx, name[0] == 'f' ? SQL_FLOOR : SQL_CEIL, type, 1, &e, at));
}
