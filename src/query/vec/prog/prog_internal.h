/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What compiling (lower*.c, prog.c) and execution (run*.c) of programs share.
 *
 * 1. Instructions are in single assignment form: each defines one register, which is used after it
 *    only.
 * 2. A register is a vector, or a scalar (a constant that is not null). Bools are vectors.
 * 3. A bool register has a clear bit where it is null.
 * 4. An instruction that can raise an error has a scope: a bool register with the rows for which
 *    its errors count; -1 is the selection. All others may be shared between scopes.
 * 5. Registers whose lifetimes do not overlap share a slot of memory.
 */
#ifndef FTH_QUERY_PROG_INTERNAL_H
#define FTH_QUERY_PROG_INTERNAL_H

#include "query/vec/kern/kern.h"
#include "query/vec/like.h"
#include "query/vec/prog/prog.h"
#include "scalar/calendar.h"
#include "scalar/math.h"
#include "scalar/num.h"
#include "scalar/text.h"

enum insn_op {
	/* of an input column, in the space of its codes where it has them */
	I_LOAD,
	I_CMP_COLUMN,	  /* sub: fth_op; k */
	I_BETWEEN_COLUMN, /* x, y */
	I_MEMBER_COLUMN,  /* list */
	I_COLUMN_NULL,
	I_DICT, /* sub-program over one column of text */
	/* vectors */
	I_SPLAT,
	I_NULLS,
	I_BOOL, /* k: 0, 1, or 2 for null */
	I_CONVERT,
	I_ARITH, /* sub: fth_kern_arith; b < 0: the constant k; a < 0: k - b */
	I_MUL_WIDE,
	I_CMP, /* sub: fth_op; b < 0: the constant k */
	I_AND,
	I_OR,
	I_NOT,
	I_IS_NULL,
	I_BLEND,   /* a true: b, else c */
	I_NULL_IF, /* a, null where b is true */
	I_SCOPE,   /* rows of scope a (-1: selection) where b is: sub, enum scope_kind */
	I_CIVIL,   /* sub: fth_op */
	/* row by row */
	I_FIRST_ROWWISE,
	I_CHECKED = I_FIRST_ROWWISE, /* arithmetic that can overflow its type */
	I_INT_DIV,
	I_INT_MOD,
	I_DEC_DIV,
	I_DEC_ROUND,
	I_DEC_COMPARED, /* scaled up by k digits, as far as FTH_DEC_COMPARED says */
	I_DEC_FLOOR,	/* by k digits; sub: 1 up */
	I_ABS,		/* at most y */
	I_F64_ARITH,
	I_F64_NEG,
	I_F64_ROUND, /* sub: fth_op */
	I_F64_MATH,  /* sub: enum fth_math */
	I_DEC_SQRT,  /* k: scale, and that of the result << 8 */
	I_F64_ORDER,
	I_F64_OF_DEC,
	I_DEC_OF_F64,
	I_INT_OF_F64,
	I_TEXT_OF_DEC,
	I_TEXT_OF_DATE,
	I_TEXT_OF_F64,
	I_TEXT_OF_BOOL,
	I_DEC_OF_TEXT,
	I_INT_OF_TEXT,
	I_DATE_OF_TEXT,
	I_F64_OF_TEXT,
	I_BOOL_OF_TEXT,
	I_INT_OF_BOOL,
	I_MEMBER,
	I_CIVIL_ROW,
	I_DATE_PART, /* sub: enum fth_date_part */
	I_ADD_MONTHS,
	I_CMP_TEXT,
	I_MEMBER_TEXT,
	I_SUBSTRING,
	I_LIKE,
	I_UPPER,
	I_LOWER,
	I_LENGTH,
	I_TRIM, /* sub: 1 left, 2 right, 3 both; b: characters, blanks if -1 */
	I_PAD,	/* to k characters */
	I_CUT,	/* to k characters; sub: 1 error if that loses more than blanks */
	I_CONCAT,
	I_POSITION,
	I_END, /* sub: fth_op, left or right */
	I_REPLACE,
	I_FILL, /* lpad and rpad; sub: 1 at the start */
	I_REPEAT,
	I_REVERSE,
	I_STARTS_WITH,
	I_COUNT
};

enum scope_kind { SCOPE_TRUE, SCOPE_NOT_TRUE, SCOPE_NOT_FALSE };

enum row_error {
	ERR_NONE,
	ERR_INT,
	ERR_BIGINT,
	ERR_NUMERIC,
	ERR_DATE,
	ERR_DIV,
	ERR_F64,
	ERR_SYNTAX
};

/* The constants of IN. */
struct member_list {
	unsigned count;
	const fth_i128 *sorted; /* integers */
	const uint64_t *bits;	/* if they lie close together: bit v - lo */
	fth_i128 lo, hi;
	const struct fth_str *texts; /* open addressing by hash; .data NULL: free */
	unsigned mask;
};

struct insn {
	enum insn_op op;
	uint8_t type; /* enum fth_phys, of the result or, for I_CMP, of the arguments */
	uint8_t sub;
	uint8_t error; /* enum row_error; ERR_NONE: cannot raise */
	bool check;    /* result must be in [x, y] */
	int dst, a, b, c, scope;
	unsigned column;
	fth_i128 k, x, y;
	const struct member_list *list;
	const struct fth_like *like;
	struct fth_prog *prog;
	const char *name; /* of the type, for error texts */
};

struct reg {
	uint8_t type;
	bool scalar, null; /* null: always */
	bool nullable;
	fth_i128 lo, hi; /* integers: range; scalar: the value */
	union {
		fth_i128 i;
		double f;
		struct fth_str s;
	} value; /* of a scalar */
	int last_use, slot;
};

struct fth_prog {
	struct fth_qmem *mem;
	struct fth_arena arena;
	struct insn *insns;
	struct reg *regs;
	unsigned ninsns, nregs, insn_room, reg_room;
	unsigned nroots;
	int *roots;
	struct fth_prog_out *outs;
	unsigned nslots;
	size_t *slot_size;
};

/* ---- compiling ---- */

struct lower {
	struct fth_prog *prog;
	bool no_fold; /* inside folding */
	bool in_dict; /* the program is that of a dictionary */
};

/* All return a register or a negative errno. */
int fth_lower(struct lower *l, const struct fth_expr *e, int scope);
int fth_lower_number(struct lower *l, const struct fth_expr *e, int scope);
int fth_lower_compare(struct lower *l, const struct fth_expr *e, int scope);
int fth_lower_logic(struct lower *l, const struct fth_expr *e, int scope);
int fth_lower_round(struct lower *l, const struct fth_expr *e, int scope);
int fth_lower_text(struct lower *l, const struct fth_expr *e, int scope);
int fth_lower_cast(struct lower *l, int a, struct fth_type from, struct fth_type to, int scope);
int fth_lower_dict(struct lower *l, const struct fth_expr *e);
/* Whether e depends on one column of text and nothing else, and no row of it can raise an error. */
bool fth_lower_is_dict(const struct fth_expr *e, unsigned *column);

/*
 * Add an instruction, or find the same one; the caller sets op, operands and constants. Registers
 * a, b and c that are always null make the result null.
 */
int fth_emit(struct lower *l, struct insn in, bool strict, fth_i128 lo, fth_i128 hi);
int fth_emit_null(struct lower *l, enum fth_phys type);
int fth_emit_const(struct lower *l, const struct fth_expr *e);
int fth_emit_int(struct lower *l, fth_i128 value);
/* The register as a vector. */
int fth_emit_vector(struct lower *l, int r);
/* An integer register in another width. */
int fth_emit_convert(struct lower *l, int r, enum fth_phys type);
/* a op b with a result in [lo, hi], or `error`. */
int fth_emit_arith(struct lower *l, enum fth_kern_arith op, int a, int b, fth_i128 lo, fth_i128 hi,
		   enum row_error error, int scope);
/* A value of type `from` as one of `to`, as operands of comparisons and branches of CASE are. */
int fth_emit_as(struct lower *l, int r, struct fth_type from, struct fth_type to, int scope);
/* The same for one side of a comparison, where it cannot fail: see FTH_DEC_COMPARED. */
int fth_emit_compared(struct lower *l, int a, unsigned digits, int scope);
/* A decimal with so many digits more after the point; fewer, rounded, if that is negative. */
int fth_lower_scale(struct lower *l, int a, int digits, int scope);
struct fth_type fth_common_type(struct fth_type a, struct fth_type b);

static inline struct insn fth_insn(enum insn_op op, enum fth_phys type, int a, int b)
{
	return (struct insn){.op = op, .type = (uint8_t)type, .a = a, .b = b, .c = -1, .scope = -1};
}

/* Physical type of a logical one; integers in the range of the type. */
enum fth_phys fth_type_phys(struct fth_type type);
int fth_prog_compile_with(struct fth_qmem *mem, struct fth_expr *const *roots, unsigned nroots,
			  const struct lower *how, struct fth_prog **out);

/* ---- execution ---- */

/* A register at run time. data of a scalar is one value. */
struct val {
	const void *data;
	const uint64_t *nulls; /* NULL: none in this batch */
};

/* The results of a dictionary's entries and, last, of null. */
struct dict_table {
	struct fth_prog_run *run;
	uint64_t id; /* of the dictionary; 0: none yet */
	uint32_t count;
	uint32_t room; /* entries and null */
	void *values;
	uint64_t *truth; /* bools */
	uint64_t *nulls;
	bool any_null;
	bool one_run; /* codes that are true lie together, from first to last */
	int64_t first, last;
	struct fth_arena texts;
};

struct fth_prog_run {
	const struct fth_prog *prog;
	struct fth_qmem *mem;
	struct fth_arena arena; /* texts of this batch */
	struct val *vals;
	char **slots;
	struct dict_table *dicts; /* by instruction */
	const struct fth_vec *columns;
	const uint64_t *selected;
	unsigned n;
	uint64_t all[FTH_BATCH_WORDS], rows[FTH_BATCH_WORDS];
};

/* The memory of the instruction's result: values, then nulls. */
void *fth_run_data(struct fth_prog_run *x, const struct insn *in);
uint64_t *fth_run_nulls(struct fth_prog_run *x, const struct insn *in);
/* Nulls of a and b (and c) together, into the result; -1: none. */
void fth_run_join_nulls(struct fth_prog_run *x, const struct insn *in, int a, int b, int c);
const uint64_t *fth_run_scope(const struct fth_prog_run *x, const struct insn *in);
int fth_run_rowwise(struct fth_prog_run *x, const struct insn *in);
int fth_run_dict(struct fth_prog_run *x, const struct insn *in);
void fth_run_free_table(struct fth_prog_run *x, struct dict_table *t, enum fth_phys type);
int fth_run_error(const struct insn *in, int rc, struct fth_str text);
/* Integer i of a register, of any width; scalars too. */
fth_i128 fth_run_int(const struct fth_prog_run *x, int r, unsigned i);
void fth_run_put(void *data, enum fth_phys type, unsigned i, fth_i128 value);

#endif
