/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions that go row by row, over those rows that count and are not null: divisions, casts,
 * doubles and text. prog_run_math.c has roots, powers, parts of dates and text that is made.
 */
#include "query/vec/prog/prog_row.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>

/* Those that count; x->rows. Results of shared instructions are needed by every scope. */
static void find_rows(struct fth_prog_run *x, const struct insn *in)
{
	const uint64_t *scope = in->error != ERR_NONE ? fth_run_scope(x, in) : x->selected;
	const uint64_t *nulls = x->vals[in->dst].nulls;

	for (unsigned i = 0; i < fth_bits_words(x->n); i++)
		x->rows[i] = scope[i] & ~(nulls ? nulls[i] : 0);
}

/* ---- integers and decimals ---- */

static bool overflows(unsigned op, fth_i128 a, fth_i128 b, fth_i128 *out)
{
	if (op == FTH_KERN_ADD)
		return __builtin_add_overflow(a, b, out);
	if (op == FTH_KERN_SUB)
		return __builtin_sub_overflow(a, b, out);
	return __builtin_mul_overflow(a, b, out);
}

static int row_checked(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		fth_i128 r;

		if (overflows(in->sub, int_at(x, in->a, i), int_at(x, in->b, i), &r) || r < in->x ||
		    r > in->y)
			return row_error(in, -ERANGE);
		fth_run_put(dst, in->type, (unsigned)i, r);
	}
	return 0;
}

static int row_int_div(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		fth_i128 b = int_at(x, in->b, i), q;

		if (b == 0)
			return row_error(in, -EDOM);
		q = int_at(x, in->a, i) / b;
		if (q < in->x || q > in->y)
			return row_error(in, -ERANGE);
		fth_run_put(dst, in->type, (unsigned)i, q);
	}
	return 0;
}

static int row_int_mod(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		fth_i128 b = int_at(x, in->b, i);

		if (b == 0)
			return row_error(in, -EDOM);
		fth_run_put(dst, in->type, (unsigned)i, int_at(x, in->a, i) % b);
	}
	return 0;
}

static int row_dec_div(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	unsigned scales = (unsigned)in->k;

	FOR_ROWS(x, i)
	{
		fth_i128 q;
		int rc = fth_dec_div(int_at(x, in->a, i), scales & 255, int_at(x, in->b, i),
				     scales >> 8 & 255, scales >> 16, &q);

		if (rc < 0)
			return row_error(in, rc);
		fth_run_put(dst, in->type, (unsigned)i, q);
	}
	return 0;
}

static int row_dec_round(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	fth_run_put(dst, in->type, (unsigned)i,
		    fth_dec_round(int_at(x, in->a, i), (unsigned)in->k));
	return 0;
}

static int row_dec_compared(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		fth_i128 a = int_at(x, in->a, i), up;

		if (fth_dec_scale_up(a, (unsigned)in->k, &up) < 0)
			up = a < 0 ? -fth_dec_max() - 1 : fth_dec_max() + 1;
		fth_run_put(dst, in->type, (unsigned)i, up);
	}
	return 0;
}

static int row_dec_floor(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	fth_run_put(dst, in->type, (unsigned)i,
		    fth_dec_floor(int_at(x, in->a, i), (unsigned)in->k, in->sub));
	return 0;
}

static int row_abs(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		fth_i128 a = int_at(x, in->a, i);

		/* A row out of scope of an earlier check may hold anything. */
		a = a < 0 ? (fth_i128)(0 - (fth_u128)a) : a;
		if (in->error != ERR_NONE && (a < 0 || a > in->y))
			return row_error(in, -ERANGE);
		fth_run_put(dst, in->type, (unsigned)i, a);
	}
	return 0;
}

static int row_int_of_bool(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	int8_t *out = dst;

	for (unsigned i = 0; i < x->n; i++)
		out[i] = fth_bit(x->vals[in->a].data, i);
	return 0;
}

static bool member_of(const struct member_list *list, fth_i128 value)
{
	unsigned lo = 0, hi = list->count;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (list->sorted[mid] < value)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < list->count && list->sorted[lo] == value;
}

static int row_member(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	memset(dst, 0, fth_bits_words(x->n) * sizeof(uint64_t));
	FOR_ROWS(x, i)
	if (member_of(in->list, int_at(x, in->a, i)))
		fth_bit_set(dst, (unsigned)i);
	return 0;
}

/* ---- dates ---- */

static int row_civil(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		int64_t year;
		unsigned month, day;
		fth_i128 part;

		fth_civil((int64_t)int_at(x, in->a, i), &year, &month, &day);
		part = in->sub == FTH_OP_YEAR	 ? year
		       : in->sub == FTH_OP_MONTH ? month
		       : in->sub == FTH_OP_DAY	 ? day
						 : (month + 2) / 3;
		fth_run_put(dst, in->type, (unsigned)i, part);
	}
	return 0;
}

static int row_add_months(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		fth_i128 months = int_at(x, in->b, i);
		int32_t day;

		if (months < INT32_MIN || months > INT32_MAX ||
		    fth_add_months((int32_t)int_at(x, in->a, i), (int64_t)months, &day) < 0)
			return row_error(in, -ERANGE);
		fth_run_put(dst, in->type, (unsigned)i, day);
	}
	return 0;
}

/* ---- doubles ---- */

static double f64_arith(enum fth_op op, double a, double b)
{
	switch (op) {
	case FTH_OP_ADD:
		return a + b;
	case FTH_OP_SUB:
		return a - b;
	case FTH_OP_MUL:
		return a * b;
	default:
		return a / b;
	}
}

/* Infinity out of finite numbers, and 0 out of others, are errors, as in PostgreSQL. */
static int row_f64_arith(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	double *out = dst;

	FOR_ROWS(x, i)
	{
		double a = f64_at(x, in->a, i), b = f64_at(x, in->b, i), r;

		if (in->sub == FTH_OP_DIV && b == 0 && a == a)
			return row_error(in, -EDOM);
		r = f64_arith(in->sub, a, b);
		if (isinf(r) && !isinf(a) && !isinf(b))
			return row_error(in, -ERANGE);
		if (r == 0 && a != 0 && in->sub >= FTH_OP_MUL && !isinf(b) &&
		    (in->sub == FTH_OP_DIV || b != 0))
			return fth_fail(ERANGE, "value out of range: underflow");
		out[i] = r;
	}
	return 0;
}

static int row_f64_neg(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	((double *)dst)[i] = -f64_at(x, in->a, i);
	return 0;
}

static int row_f64_round(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		double a = f64_at(x, in->a, i);

		((double *)dst)[i] = in->sub == FTH_OP_ABS     ? fabs(a)
				     : in->sub == FTH_OP_FLOOR ? floor(a)
				     : in->sub == FTH_OP_CEIL  ? ceil(a)
							       : rint(a);
	}
	return 0;
}

static int row_f64_order(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	((int64_t *)dst)[i] = fth_f64_order(f64_at(x, in->a, i));
	return 0;
}

static int row_f64_of_dec(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	((double *)dst)[i] = fth_dec_to_f64(int_at(x, in->a, i), (unsigned)in->k);
	return 0;
}

static int row_of_f64(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		double a = f64_at(x, in->a, i);
		fth_i128 r = 0;
		int rc = in->op == I_DEC_OF_F64 ? fth_f64_to_dec(a, (unsigned)in->k, &r)
						: fth_f64_to_int(a, in->x, in->y, &r);

		if (rc < 0 || r < in->x || r > in->y)
			return row_error(in, -ERANGE);
		fth_run_put(dst, in->type, (unsigned)i, r);
	}
	return 0;
}

/* ---- text to values and back ---- */

static int keep_text(struct fth_prog_run *x, const char *text, uint32_t len, struct fth_str *out)
{
	char *copy = fth_arena_alloc(&x->arena, len + 1, 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, len);
	*out = (struct fth_str){copy, len, 0};
	return 0;
}

static int row_text_of(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		char text[FTH_NUM_TEXT];
		unsigned len;

		if (in->op == I_TEXT_OF_BOOL) {
			strcpy(text, fth_bit(x->vals[in->a].data, (unsigned)i) ? "true" : "false");
			len = (unsigned)strlen(text);
		} else if (in->op == I_TEXT_OF_F64) {
			len = fth_f64_text(f64_at(x, in->a, i), text);
		} else if (in->op == I_TEXT_OF_DATE) {
			len = fth_date_text((int32_t)int_at(x, in->a, i), text);
		} else {
			len = fth_dec_text(int_at(x, in->a, i), (unsigned)in->k, text);
		}
		if (keep_text(x, text, len, (struct fth_str *)dst + i) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int parse_int(const struct insn *in, struct fth_str s, fth_i128 *out)
{
	int32_t day = 0;
	int rc;

	if (in->op == I_DATE_OF_TEXT) {
		rc = fth_date_parse(s, &day);
		*out = day;
	} else if (in->op == I_INT_OF_TEXT) {
		rc = fth_int_parse(s, out);
	} else {
		rc = fth_dec_parse(s, (unsigned)in->k, out);
	}
	return rc < 0 ? rc : *out < in->x || *out > in->y ? -ERANGE : 0;
}

static int row_of_text(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	if (in->op == I_BOOL_OF_TEXT)
		memset(dst, 0, fth_bits_words(x->n) * sizeof(uint64_t));
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);
		fth_i128 value = 0;
		bool truth = false;
		int rc;

		if (in->op == I_BOOL_OF_TEXT) {
			rc = fth_bool_parse(s, &truth);
			if (truth)
				fth_bit_set(dst, (unsigned)i);
		} else if (in->op == I_F64_OF_TEXT) {
			rc = fth_f64_parse(s, (double *)dst + i);
		} else {
			rc = parse_int(in, s, &value);
			fth_run_put(dst, in->type, (unsigned)i, value);
		}
		if (rc < 0)
			return fth_run_error(in, rc, s);
	}
	return 0;
}

/* ---- text ---- */

static bool compare_text(enum fth_op op, struct fth_str a, struct fth_str b)
{
	int c;

	if (op == FTH_OP_EQ)
		return fth_str_equal(a, b);
	if (op == FTH_OP_NE)
		return !fth_str_equal(a, b);
	c = fth_str_cmp(a, b);
	return op == FTH_OP_LT	 ? c < 0
	       : op == FTH_OP_LE ? c <= 0
	       : op == FTH_OP_GT ? c > 0
				 : c >= 0;
}

static int row_cmp_text(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	memset(dst, 0, fth_bits_words(x->n) * sizeof(uint64_t));
	FOR_ROWS(x, i)
	if (compare_text(in->sub, str_at(x, in->a, i), str_at(x, in->b, i)))
		fth_bit_set(dst, (unsigned)i);
	return 0;
}

static int row_member_text(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	const struct member_list *list = in->list;

	memset(dst, 0, fth_bits_words(x->n) * sizeof(uint64_t));
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);

		for (unsigned at = (unsigned)fth_str_hash(s); list->texts[at & list->mask].data;
		     at++) {
			if (!fth_str_equal(list->texts[at & list->mask], s))
				continue;
			fth_bit_set(dst, (unsigned)i);
			break;
		}
	}
	return 0;
}

/* The column's own block of text, if the argument is a column just as it came. */
static const struct fth_vec *block_of(const struct fth_prog_run *x, const struct insn *in)
{
	for (unsigned i = 0; i < x->prog->ninsns; i++) {
		const struct insn *def = &x->prog->insns[i];
		const struct fth_vec *v;

		if (def->dst != in->a)
			continue;
		v = def->op == I_LOAD ? &x->columns[def->column] : NULL;
		return v && v->block && !v->dict ? v : NULL;
	}
	return NULL;
}

/* Rows of a block that hold the needle are few, as a rule; only they are matched. */
static void search_block(struct fth_prog_run *x, const struct insn *in, const struct fth_vec *v,
			 const struct fth_like_piece *needle, uint64_t *bits)
{
	bool hit_is_match = fth_like_is_contains(in->like);

	fth_like_search(needle, v->data, x->n, v->block, v->block_len, bits);
	for (unsigned w = 0; w < fth_bits_words(x->n); w++) {
		uint64_t hits = bits[w] &= x->rows[w];

		for (; hits && !hit_is_match; hits &= hits - 1)
			if (!fth_like_match(in->like,
					    str_at(x, in->a, w * 64 + __builtin_ctzll(hits))))
				bits[w] &= ~(hits & -hits);
	}
}

static int row_like(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	const struct fth_like_piece *needle = fth_like_needle(in->like);
	const struct fth_vec *v = needle ? block_of(x, in) : NULL;

	if (v && !x->prog->regs[in->a].scalar) {
		search_block(x, in, v, needle, dst);
		return 0;
	}
	memset(dst, 0, fth_bits_words(x->n) * sizeof(uint64_t));
	FOR_ROWS(x, i)
	if (fth_like_match(in->like, str_at(x, in->a, i)))
		fth_bit_set(dst, (unsigned)i);
	return 0;
}

static int row_substring(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		int64_t count = in->c >= 0 ? (int64_t)int_at(x, in->c, i) : FTH_STR_REST;
		int rc;

		/* A row out of scope of an earlier check may hold anything. */
		if (count < 0 && in->error == ERR_NONE)
			count = 0;
		rc = fth_str_substring(str_at(x, in->a, i), (int64_t)int_at(x, in->b, i), count,
				       (struct fth_str *)dst + i);
		if (rc < 0)
			return row_error(in, rc);
	}
	return 0;
}

static int row_case(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);
		char *text = fth_arena_alloc(&x->arena, s.len + 1, 1);

		if (!text)
			return -ENOMEM;
		if (in->op == I_UPPER)
			fth_str_upper(s, text);
		else
			fth_str_lower(s, text);
		((struct fth_str *)dst)[i] = (struct fth_str){text, s.len, 0};
	}
	return 0;
}

static int row_length(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	((int32_t *)dst)[i] = (int32_t)fth_str_chars(str_at(x, in->a, i));
	return 0;
}

static int row_trim(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);

		if (in->b >= 0) {
			s = fth_str_trim(s, str_at(x, in->b, i), in->sub);
		} else {
			s = in->sub & 2 ? fth_str_rtrim(s) : s;
			s = in->sub & 1 ? fth_str_ltrim(s) : s;
		}
		((struct fth_str *)dst)[i] = s;
	}
	return 0;
}

static int row_position(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	((int32_t *)dst)[i] = (int32_t)fth_str_position(str_at(x, in->a, i), str_at(x, in->b, i));
	return 0;
}

/* LEFT and RIGHT. */
static int row_end(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);
		int64_t count = (int64_t)int_at(x, in->b, i), all = fth_str_chars(s);

		if (count < 0)
			count = count < -all ? 0 : all + count;
		count = count > all ? all : count;
		fth_str_substring(s, in->sub == FTH_OP_LEFT ? 1 : all - count + 1, count,
				  (struct fth_str *)dst + i);
	}
	return 0;
}

static int row_cut(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	fth_str_substring(str_at(x, in->a, i), 1, (int64_t)in->k, (struct fth_str *)dst + i);
	return 0;
}

static int row_pad(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str s = str_at(x, in->a, i);
		uint32_t chars = fth_str_chars(s),
			 blanks = chars < in->k ? (uint32_t)in->k - chars : 0;
		char *text = fth_arena_alloc(&x->arena, s.len + blanks + 1, 1);

		if (!text)
			return -ENOMEM;
		memcpy(text, s.data, s.len);
		memset(text + s.len, ' ', blanks);
		((struct fth_str *)dst)[i] = (struct fth_str){text, s.len + blanks, 0};
	}
	return 0;
}

static int row_concat(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	FOR_ROWS(x, i)
	{
		struct fth_str a = str_at(x, in->a, i), b = str_at(x, in->b, i);
		char *text;

		if (a.len > UINT32_MAX / 4 || b.len > UINT32_MAX / 4)
			return fth_fail(ERANGE,
					"operator ||: operands of %llu bytes together; the limit "
					"is 1 GiB each",
					(unsigned long long)a.len + b.len);
		text = fth_arena_alloc(&x->arena, a.len + b.len + 1, 1);
		if (!text)
			return -ENOMEM;
		memcpy(text, a.data, a.len);
		memcpy(text + a.len, b.data, b.len);
		((struct fth_str *)dst)[i] = (struct fth_str){text, a.len + b.len, 0};
	}
	return 0;
}

static int (*const row_functions[I_COUNT])(struct fth_prog_run *, const struct insn *, void *) = {
	[I_CHECKED] = row_checked,
	[I_INT_DIV] = row_int_div,
	[I_INT_MOD] = row_int_mod,
	[I_DEC_DIV] = row_dec_div,
	[I_DEC_ROUND] = row_dec_round,
	[I_DEC_COMPARED] = row_dec_compared,
	[I_DEC_FLOOR] = row_dec_floor,
	[I_ABS] = row_abs,
	[I_F64_ROUND] = row_f64_round,
	[I_F64_ARITH] = row_f64_arith,
	[I_F64_NEG] = row_f64_neg,
	[I_F64_ORDER] = row_f64_order,
	[I_F64_OF_DEC] = row_f64_of_dec,
	[I_DEC_OF_F64] = row_of_f64,
	[I_INT_OF_F64] = row_of_f64,
	[I_TEXT_OF_DEC] = row_text_of,
	[I_TEXT_OF_DATE] = row_text_of,
	[I_TEXT_OF_F64] = row_text_of,
	[I_TEXT_OF_BOOL] = row_text_of,
	[I_DEC_OF_TEXT] = row_of_text,
	[I_INT_OF_TEXT] = row_of_text,
	[I_DATE_OF_TEXT] = row_of_text,
	[I_F64_OF_TEXT] = row_of_text,
	[I_BOOL_OF_TEXT] = row_of_text,
	[I_INT_OF_BOOL] = row_int_of_bool,
	[I_MEMBER] = row_member,
	[I_CIVIL_ROW] = row_civil,
	[I_ADD_MONTHS] = row_add_months,
	[I_CMP_TEXT] = row_cmp_text,
	[I_MEMBER_TEXT] = row_member_text,
	[I_SUBSTRING] = row_substring,
	[I_LIKE] = row_like,
	[I_UPPER] = row_case,
	[I_LOWER] = row_case,
	[I_LENGTH] = row_length,
	[I_TRIM] = row_trim,
	[I_PAD] = row_pad,
	[I_CUT] = row_cut,
	[I_CONCAT] = row_concat,
	[I_POSITION] = row_position,
	[I_END] = row_end,
	[I_STARTS_WITH] = fth_row_starts_with,
	[I_REVERSE] = fth_row_reverse,
	[I_REPEAT] = fth_row_repeat,
	[I_FILL] = fth_row_fill,
	[I_REPLACE] = fth_row_replace,
	[I_DATE_PART] = fth_row_date_part,
	[I_DEC_SQRT] = fth_row_dec_sqrt,
	[I_F64_MATH] = fth_row_f64_math,
};

int fth_run_rowwise(struct fth_prog_run *x, const struct insn *in)
{
	struct fth_str *texts = fth_run_data(x, in);
	void *dst = texts;

	/* Rows out of scope are not computed, but later instructions may read them. */
	if (in->type == FTH_STR && in->error != ERR_NONE)
		for (unsigned i = 0; i < x->n; i++)
			texts[i] = (struct fth_str){"", 0, 0};
	fth_run_join_nulls(x, in, in->a, in->b, in->c);
	x->vals[in->dst].data = dst;
	find_rows(x, in);
	return row_functions[in->op](x, in, dst);
}
