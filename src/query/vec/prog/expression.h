/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Expression trees: what a program (prog.h) computes. Types and results are PostgreSQL's. Nodes
 * come from an arena and live as long as it; several parents may share one.
 *
 *	struct fth_expr *price =
 *		fth_expr_column(a, 0, fth_type_decimal(15, 2), 90000, 10495000, false);
 *	struct fth_expr *one = fth_expr_int(a, fth_type(FTH_T_INT32), 1);
 *	struct fth_expr *rest = fth_expr_call2(a, FTH_OP_SUB, one, discount);
 *	struct fth_expr *revenue = fth_expr_call2(a, FTH_OP_MUL, price, rest);
 *
 * Constructors return NULL if the arena is full or an argument is NULL, so that a tree can be built
 * without a check at each step, and if the operator does not take arguments of these types;
 * fth_error_text() says which.
 */
#ifndef FTH_QUERY_EXPRESSION_H
#define FTH_QUERY_EXPRESSION_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

enum fth_tkind {
	FTH_T_BOOL,
	FTH_T_INT32,
	FTH_T_INT64,
	FTH_T_DECIMAL, /* scaled integer */
	FTH_T_DATE,    /* days since 1970-01-01 */
	FTH_T_DOUBLE,
	FTH_T_TEXT, /* varchar too */
	FTH_T_CHAR, /* blanks at the end do not count */
	FTH_T_COUNT
};

struct fth_type {
	uint8_t kind;	   /* enum fth_tkind */
	uint8_t precision; /* of a decimal: digits, 0 for as many as there are */
	uint8_t scale;	   /* of a decimal */
	uint32_t length;   /* of text: characters, 0 without limit */
};

static inline struct fth_type fth_type(enum fth_tkind kind)
{
	return (struct fth_type){.kind = (uint8_t)kind};
}

static inline struct fth_type fth_type_decimal(unsigned precision, unsigned scale)
{
	return (struct fth_type){FTH_T_DECIMAL, (uint8_t)precision, (uint8_t)scale, 0};
}

const char *fth_type_name(struct fth_type type);
/* Values are integers, as vectors and constants hold them: all but double, text, char and bool. */
bool fth_type_is_int(struct fth_type type);
bool fth_type_is_text(struct fth_type type);
/* int32, int64, decimal or double. */
bool fth_type_is_number(struct fth_type type);
/* The range of an integer-like type. */
void fth_type_range(struct fth_type type, fth_i128 *lo, fth_i128 *hi);

enum fth_op {
	/* numbers: + - * / % and unary minus; date + int, date - int, date - date as well */
	FTH_OP_ADD,
	FTH_OP_SUB,
	FTH_OP_MUL,
	FTH_OP_DIV,
	FTH_OP_MOD,
	FTH_OP_NEG,
	FTH_OP_ABS,
	FTH_OP_ROUND, /* number [, constant digits]: half away from zero, doubles to even */
	FTH_OP_FLOOR,
	FTH_OP_CEIL,
	FTH_OP_SQRT, /* double, or decimal with a scale of 16 or more; the next are of doubles */
	FTH_OP_EXP,
	FTH_OP_LN,
	FTH_OP_LOG10,
	FTH_OP_POWER,
	/* comparisons */
	FTH_OP_EQ,
	FTH_OP_NE,
	FTH_OP_LT,
	FTH_OP_LE,
	FTH_OP_GT,
	FTH_OP_GE,
	/*
	 * three-valued logic. The second argument of AND and OR is evaluated, as far as its errors
	 * can be seen, only for rows that the first does not decide.
	 */
	FTH_OP_AND,
	FTH_OP_OR,
	FTH_OP_NOT,
	FTH_OP_IS_NULL,
	FTH_OP_BETWEEN, /* value, low, high */
	FTH_OP_IN,	/* value, constants ... */
	/*
	 * condition, value, condition, value ..., and perhaps a value for the rest. Errors of a
	 * value that is not taken do not surface.
	 */
	FTH_OP_CASE,
	FTH_OP_COALESCE,
	FTH_OP_NULLIF,
	FTH_OP_CAST, /* to the node's type */
	/* dates */
	FTH_OP_YEAR,
	FTH_OP_QUARTER,
	FTH_OP_MONTH,
	FTH_OP_DAY,
	FTH_OP_ADD_MONTHS, /* date, int */
	FTH_OP_DATE_PART,  /* date, constant enum fth_date_part: an int */
	FTH_OP_DATE_TRUNC, /* date, constant enum fth_date_part: a date */
	/* text */
	FTH_OP_SUBSTRING, /* text, from [, count] */
	FTH_OP_LIKE,	  /* text, constant pattern [, constant escape character, or '' for none] */
	FTH_OP_UPPER,
	FTH_OP_LOWER,
	FTH_OP_LENGTH,
	FTH_OP_TRIM, /* text [, characters to remove; without them blanks]; so are the next two */
	FTH_OP_LTRIM,
	FTH_OP_RTRIM,
	FTH_OP_CONCAT,
	/* text, what is searched: number of its first character, 0 if it is not there */
	FTH_OP_POSITION,
	FTH_OP_LEFT, /* text, characters; if negative, all but that many */
	FTH_OP_RIGHT,
	FTH_OP_REPLACE, /* text, what is searched, what takes its place */
	FTH_OP_LPAD,	/* text, characters, what it is filled up with */
	FTH_OP_RPAD,
	FTH_OP_REPEAT, /* text, int */
	FTH_OP_REVERSE,
	FTH_OP_STARTS_WITH, /* text, text */
	FTH_OP_COUNT
};

const char *fth_op_name(enum fth_op op);

enum fth_expr_kind { FTH_EXPR_COLUMN, FTH_EXPR_CONST, FTH_EXPR_CALL };

struct fth_expr {
	enum fth_expr_kind kind;
	enum fth_op op;
	struct fth_type type;
	unsigned column;  /* number of the input */
	bool nullable;	  /* column: may hold nulls */
	fth_i128 lo, hi;  /* column: range of its values that are not null */
	bool is_null;	  /* constant */
	fth_i128 i;	  /* constant of an integer-like type; bool: 0 or 1 */
	double f;	  /* of a double */
	struct fth_str s; /* of text */
	unsigned nargs;	  /* call */
	struct fth_expr **args;
};

/* A column of an integer-like type with values in [lo, hi]. lo > hi: nothing is known. */
struct fth_expr *fth_expr_column(struct fth_arena *a, unsigned column, struct fth_type type,
				 fth_i128 lo, fth_i128 hi, bool nullable);
/* A column of any type, of whose values nothing is known. */
struct fth_expr *fth_expr_any(struct fth_arena *a, unsigned column, struct fth_type type,
			      bool nullable);
struct fth_expr *fth_expr_int(struct fth_arena *a, struct fth_type type, fth_i128 value);
struct fth_expr *fth_expr_double(struct fth_arena *a, double value);
/* The bytes are copied. */
struct fth_expr *fth_expr_text(struct fth_arena *a, struct fth_type type, struct fth_str value);
struct fth_expr *fth_expr_bool(struct fth_arena *a, bool value);
struct fth_expr *fth_expr_null(struct fth_arena *a, struct fth_type type);

/* A call; the result's type follows from the arguments'. The array is copied. */
struct fth_expr *fth_expr_call(struct fth_arena *a, enum fth_op op, unsigned nargs,
			       struct fth_expr *const *args);
struct fth_expr *fth_expr_call1(struct fth_arena *a, enum fth_op op, struct fth_expr *x);
struct fth_expr *fth_expr_call2(struct fth_arena *a, enum fth_op op, struct fth_expr *x,
				struct fth_expr *y);
struct fth_expr *fth_expr_call3(struct fth_arena *a, enum fth_op op, struct fth_expr *x,
				struct fth_expr *y, struct fth_expr *z);
struct fth_expr *fth_expr_cast(struct fth_arena *a, struct fth_expr *x, struct fth_type type);

#endif
