/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Running programs: instructions on whole vectors. prog_run_row.c has those that go row by row,
 * prog_run_dict.c those over dictionaries.
 */
#include "query/vec/prog/prog_internal.h"

#include "fathom/base/error.h"

#include <errno.h>

/* ---- registers ---- */

void *fth_run_data(struct fth_prog_run *x, const struct insn *in)
{
	return x->slots[x->prog->regs[in->dst].slot];
}

uint64_t *fth_run_nulls(struct fth_prog_run *x, const struct insn *in)
{
	int slot = x->prog->regs[in->dst].slot;

	return (uint64_t *)(x->slots[slot] + x->prog->slot_size[slot]);
}

const uint64_t *fth_run_scope(const struct fth_prog_run *x, const struct insn *in)
{
	return in->scope >= 0 ? x->vals[in->scope].data : x->selected;
}

static const uint64_t *nulls_of(const struct fth_prog_run *x, int r)
{
	return r >= 0 ? x->vals[r].nulls : NULL;
}

static void set_nulls(struct fth_prog_run *x, const struct insn *in, const uint64_t *from)
{
	uint64_t *nulls = fth_run_nulls(x, in);

	x->vals[in->dst].nulls = from ? nulls : NULL;
	if (from && from != nulls)
		memcpy(nulls, from, fth_bits_words(x->n) * sizeof(*nulls));
}

/* Copied, not shared: the memory of an argument may soon be another register's. */
void fth_run_join_nulls(struct fth_prog_run *x, const struct insn *in, int a, int b, int c)
{
	const uint64_t *from[3] = {nulls_of(x, a), nulls_of(x, b), nulls_of(x, c)};
	uint64_t *nulls = fth_run_nulls(x, in);
	bool any = false;

	for (unsigned f = 0; f < 3; f++) {
		if (!from[f])
			continue;
		for (unsigned i = 0; i < fth_bits_words(x->n); i++)
			nulls[i] = from[f][i] | (any ? nulls[i] : 0);
		any = true;
	}
	x->vals[in->dst].nulls = any ? nulls : NULL;
}

fth_i128 fth_run_int(const struct fth_prog_run *x, int r, unsigned i)
{
	const struct reg *reg = &x->prog->regs[r];
	struct fth_vec v = {.type = reg->type, .data = x->vals[r].data};

	return reg->scalar ? reg->lo : fth_vec_int(&v, i);
}

void fth_run_put(void *data, enum fth_phys type, unsigned i, fth_i128 value)
{
	switch (type) {
	case FTH_I8:
		((int8_t *)data)[i] = (int8_t)value;
		break;
	case FTH_I16:
		((int16_t *)data)[i] = (int16_t)value;
		break;
	case FTH_I32:
		((int32_t *)data)[i] = (int32_t)value;
		break;
	case FTH_I64:
		((int64_t *)data)[i] = (int64_t)value;
		break;
	default:
		((fth_i128 *)data)[i] = value;
	}
}

int fth_run_error(const struct insn *in, int rc, struct fth_str text)
{
	static const char *const range[] = {
		[ERR_INT] = "integer out of range",
		[ERR_BIGINT] = "bigint out of range",
		[ERR_NUMERIC] = "numeric value out of range",
		[ERR_DATE] = "date out of range",
		[ERR_DIV] = "numeric value out of range",
		[ERR_F64] = "value out of range: overflow",
		[ERR_SYNTAX] = "value out of range",
	};

	if (rc == -ERANGE)
		return fth_fail(ERANGE, "%s", range[in->error]);
	if (rc == -EDOM)
		return fth_fail(EDOM, "division by zero");
	if (rc == -EINVAL && in->op == I_SUBSTRING)
		return fth_fail(EINVAL, "negative substring length not allowed");
	if (rc == -EINVAL)
		return fth_fail(EINVAL, "invalid input syntax for type %s: \"%.*s\"",
				in->name ? in->name : "?", (int)(text.len < 100 ? text.len : 100),
				text.data);
	return rc;
}

/* ---- columns ---- */

static void widen(fth_i128 *dst, const struct fth_vec *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		dst[i] = fth_vec_int(v, i);
}

static void narrow(void *dst, enum fth_phys type, const struct fth_vec *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fth_run_put(dst, type, i, fth_vec_int(v, i));
}

static void convert(void *dst, enum fth_phys type, const struct fth_vec *v, unsigned n)
{
	if (type == FTH_I128)
		widen(dst, v, n);
	else if (v->type == FTH_I128)
		narrow(dst, type, v, n);
	else
		fth_kern()->convert[type][v->type](dst, v->data, v->base, n);
}

/* A null row may hold any code. */
static void load_codes(struct fth_str *dst, const struct fth_vec *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		fth_i128 code = fth_vec_int(v, i);

		dst[i] = code >= 0 && code < v->dict->count ? v->dict->entries[code]
							    : (struct fth_str){"", 0, 0};
	}
}

/* Null rows of a bool are false. */
static void load_bits(struct fth_prog_run *x, const struct insn *in, const struct fth_vec *v)
{
	const uint64_t *from = v->data;
	uint64_t *dst = fth_run_data(x, in);

	for (unsigned i = 0; i < fth_bits_words(x->n); i++)
		dst[i] = from[i] & (v->nulls ? ~v->nulls[i] : ~(uint64_t)0);
	x->vals[in->dst].data = dst;
}

static void run_load(struct fth_prog_run *x, const struct insn *in)
{
	const struct fth_vec *v = &x->columns[in->column];
	struct val *dst = &x->vals[in->dst];

	dst->nulls = v->nulls;
	if (in->type == FTH_BITS) {
		load_bits(x, in, v);
	} else if (v->dict) {
		dst->data = fth_run_data(x, in);
		load_codes(fth_run_data(x, in), v, x->n);
	} else if (v->type == in->type && v->base == 0) {
		dst->data = v->data;
	} else {
		dst->data = fth_run_data(x, in);
		convert(fth_run_data(x, in), in->type, v, x->n);
	}
}

static void clear_nulls(struct fth_prog_run *x, const struct insn *in)
{
	const uint64_t *nulls = x->vals[in->dst].nulls;
	uint64_t *bits = fth_run_data(x, in);

	for (unsigned i = 0; nulls && i < fth_bits_words(x->n); i++)
		bits[i] &= ~nulls[i];
}

static bool compare_int(enum fth_op op, fth_i128 a, fth_i128 b)
{
	switch (op) {
	case FTH_OP_EQ:
		return a == b;
	case FTH_OP_NE:
		return a != b;
	case FTH_OP_LT:
		return a < b;
	case FTH_OP_LE:
		return a <= b;
	case FTH_OP_GT:
		return a > b;
	default:
		return a >= b;
	}
}

static void set_all(uint64_t *bits, unsigned n, bool value)
{
	if (value)
		fth_bits_fill(bits, n);
	else
		memset(bits, 0, fth_bits_words(n) * sizeof(*bits));
}

static void kernel_of(enum fth_op op, enum fth_kern_cmp *cmp, uint64_t *flip)
{
	*cmp = op == FTH_OP_EQ || op == FTH_OP_NE   ? FTH_KERN_EQ
	       : op == FTH_OP_LT || op == FTH_OP_GE ? FTH_KERN_LT
						    : FTH_KERN_GT;
	*flip = op == FTH_OP_NE || op == FTH_OP_GE || op == FTH_OP_LE ? ~(uint64_t)0 : 0;
}

static void type_limits(enum fth_phys type, fth_i128 *lo, fth_i128 *hi)
{
	*hi = ((fth_i128)1 << (8 * fth_phys_width(type) - 1)) - 1;
	*lo = -*hi - 1;
}

/* Integers of any width against c; c may be beyond the type. */
static void compare_const(uint64_t *out, enum fth_op op, enum fth_phys type, const void *data,
			  fth_i128 c, unsigned n)
{
	const fth_i128 *wide = data;
	enum fth_kern_cmp cmp;
	uint64_t flip;
	fth_i128 lo, hi;

	if (type == FTH_I128) {
		memset(out, 0, fth_bits_words(n) * sizeof(*out));
		for (unsigned i = 0; i < n; i++)
			out[i / 64] |= (uint64_t)compare_int(op, wide[i], c) << i % 64;
		return;
	}
	type_limits(type, &lo, &hi);
	if (c < lo || c > hi) { /* as if compared with a value just outside */
		set_all(out, n, compare_int(op, 0, c < lo ? -1 : 1));
		return;
	}
	kernel_of(op, &cmp, &flip);
	fth_kern()->cmp_const[type][cmp](out, data, (int64_t)c, n, flip);
}

static void run_cmp_column(struct fth_prog_run *x, const struct insn *in)
{
	const struct fth_vec *v = &x->columns[in->column];
	uint64_t *bits = fth_run_data(x, in);

	compare_const(bits, in->sub, v->type, v->data, in->k - v->base, x->n);
	x->vals[in->dst] = (struct val){bits, v->nulls};
	clear_nulls(x, in);
}

static void between_int(uint64_t *out, enum fth_phys type, const void *data, fth_i128 lo,
			fth_i128 hi, unsigned n)
{
	const fth_i128 *wide = data;
	fth_i128 least, most;

	if (type == FTH_I128) {
		memset(out, 0, fth_bits_words(n) * sizeof(*out));
		for (unsigned i = 0; i < n; i++)
			out[i / 64] |= (uint64_t)(wide[i] >= lo && wide[i] <= hi) << i % 64;
		return;
	}
	type_limits(type, &least, &most);
	lo = lo < least ? least : lo;
	hi = hi > most ? most : hi;
	if (lo > hi)
		set_all(out, n, false);
	else
		fth_kern()->between[type](out, data, (int64_t)lo, (int64_t)hi, n);
}

static void run_between_column(struct fth_prog_run *x, const struct insn *in)
{
	const struct fth_vec *v = &x->columns[in->column];
	uint64_t *bits = fth_run_data(x, in);

	between_int(bits, v->type, v->data, in->x - v->base, in->y - v->base, x->n);
	x->vals[in->dst] = (struct val){bits, v->nulls};
	clear_nulls(x, in);
}

static bool is_member(const struct member_list *list, fth_i128 value)
{
	unsigned lo = 0, hi = list->count;

	if (list->count == 0 || value < list->lo || value > list->hi)
		return false;
	if (list->bits)
		return fth_bit(list->bits, (unsigned)(value - list->lo));
	while (hi - lo > 1) {
		unsigned mid = (lo + hi) / 2;

		if (list->sorted[mid] <= value)
			lo = mid;
		else
			hi = mid;
	}
	return list->sorted[lo] == value;
}

static void run_member_column(struct fth_prog_run *x, const struct insn *in)
{
	const struct fth_vec *v = &x->columns[in->column];
	const struct member_list *list = in->list;
	uint64_t *bits = fth_run_data(x, in);
	fth_i128 add = v->base - list->lo;

	if (list->bits && v->type <= FTH_I32 && add >= INT64_MIN / 2 && add <= INT64_MAX / 2) {
		fth_kern()->member[v->type](bits, v->data, (int64_t)add, list->bits,
					    (uint64_t)(list->hi - list->lo) + 1, x->n);
	} else {
		memset(bits, 0, fth_bits_words(x->n) * sizeof(*bits));
		for (unsigned i = 0; i < x->n; i++)
			bits[i / 64] |= (uint64_t)is_member(list, fth_vec_int(v, i)) << i % 64;
	}
	x->vals[in->dst] = (struct val){bits, v->nulls};
	clear_nulls(x, in);
}

static void run_null_bits(struct fth_prog_run *x, const struct insn *in, const uint64_t *nulls)
{
	uint64_t *bits = fth_run_data(x, in);

	if (nulls)
		memcpy(bits, nulls, fth_bits_words(x->n) * sizeof(*bits));
	else
		set_all(bits, x->n, false);
	x->vals[in->dst] = (struct val){bits, NULL};
}

/* ---- constants ---- */

static void run_splat(struct fth_prog_run *x, const struct insn *in)
{
	const struct reg *from = &x->prog->regs[in->a];
	char *dst = fth_run_data(x, in);
	size_t width = fth_phys_width(in->type);

	for (unsigned i = 0; i < x->n; i++) {
		if (from->type <= FTH_I128)
			fth_run_put(dst, in->type, i, from->lo);
		else
			memcpy(dst + i * width, &from->value, width);
	}
	x->vals[in->dst] = (struct val){dst, NULL};
}

static void run_nulls(struct fth_prog_run *x, const struct insn *in)
{
	char *dst = fth_run_data(x, in);
	uint64_t *nulls = fth_run_nulls(x, in);

	memset(dst, 0, (size_t)x->n * fth_phys_width(in->type));
	fth_bits_fill(nulls, x->n);
	x->vals[in->dst] = (struct val){dst, nulls};
}

static void run_bool(struct fth_prog_run *x, const struct insn *in)
{
	uint64_t *bits = fth_run_data(x, in), *nulls = fth_run_nulls(x, in);

	set_all(bits, x->n, in->k == 1);
	if (in->k == 2)
		fth_bits_fill(nulls, x->n);
	x->vals[in->dst] = (struct val){bits, in->k == 2 ? nulls : NULL};
}

/* ---- arithmetic ---- */

static void run_convert(struct fth_prog_run *x, const struct insn *in)
{
	struct fth_vec v = {.type = x->prog->regs[in->a].type, .data = x->vals[in->a].data};
	void *dst = fth_run_data(x, in);

	convert(dst, in->type, &v, x->n);
	set_nulls(x, in, x->vals[in->a].nulls);
	x->vals[in->dst].data = dst;
}

static fth_i128 wide_arith(unsigned op, fth_i128 a, fth_i128 b)
{
	fth_u128 x = (fth_u128)a, y = (fth_u128)b;

	return (fth_i128)(op == FTH_KERN_ADD ? x + y : op == FTH_KERN_SUB ? x - y : x * y);
}

static void arith_wide(struct fth_prog_run *x, const struct insn *in, fth_i128 *dst)
{
	const fth_i128 *a = in->a >= 0 ? x->vals[in->a].data : NULL;
	const fth_i128 *b = in->b >= 0 ? x->vals[in->b].data : NULL;

	for (unsigned i = 0; i < x->n; i++)
		dst[i] = wide_arith(in->sub, a ? a[i] : in->k, b ? b[i] : in->k);
}

static void arith_narrow(struct fth_prog_run *x, const struct insn *in, void *dst)
{
	const struct fth_kern *k = fth_kern();
	const void *a = in->a >= 0 ? x->vals[in->a].data : NULL;
	const void *b = in->b >= 0 ? x->vals[in->b].data : NULL;

	if (in->op == I_MUL_WIDE && b)
		k->mul_wide_vec[in->type - 1](dst, a, b, x->n);
	else if (in->op == I_MUL_WIDE)
		k->mul_wide_const[in->type - 1](dst, a, (int64_t)in->k, x->n);
	else if (!a)
		k->from_const[in->type](dst, b, (int64_t)in->k, x->n);
	else if (!b)
		k->arith_const[in->type][in->sub](dst, a, (int64_t)in->k, x->n);
	else
		k->arith_vec[in->type][in->sub](dst, a, b, x->n);
}

/* Rows out of [x, y] that count make it fail. */
static int check_range(struct fth_prog_run *x, const struct insn *in, const void *data)
{
	const uint64_t *scope = fth_run_scope(x, in), *nulls = x->vals[in->dst].nulls;
	uint64_t good[FTH_BATCH_WORDS];

	between_int(good, in->type, data, in->x, in->y, x->n);
	for (unsigned i = 0; i < fth_bits_words(x->n); i++)
		if (scope[i] & ~good[i] & ~(nulls ? nulls[i] : 0))
			return fth_run_error(in, -ERANGE, (struct fth_str){"", 0, 0});
	return 0;
}

static int run_arith(struct fth_prog_run *x, const struct insn *in)
{
	void *dst = fth_run_data(x, in);

	if (in->type == FTH_I128)
		arith_wide(x, in, dst);
	else
		arith_narrow(x, in, dst);
	fth_run_join_nulls(x, in, in->a, in->b, -1);
	x->vals[in->dst].data = dst;
	return in->check ? check_range(x, in, dst) : 0;
}

static void run_civil(struct fth_prog_run *x, const struct insn *in)
{
	int32_t *dst = fth_run_data(x, in);

	fth_kern()->civil(x->vals[in->a].data, x->n, in->sub == FTH_OP_YEAR ? dst : NULL,
			  in->sub == FTH_OP_MONTH || in->sub == FTH_OP_QUARTER ? dst : NULL,
			  in->sub == FTH_OP_DAY ? dst : NULL);
	for (unsigned i = 0; in->sub == FTH_OP_QUARTER && i < x->n; i++)
		dst[i] = (dst[i] + 2) / 3;
	set_nulls(x, in, x->vals[in->a].nulls);
	x->vals[in->dst].data = dst;
}

/* ---- comparisons and logic ---- */

static void run_cmp(struct fth_prog_run *x, const struct insn *in)
{
	const fth_i128 *a = x->vals[in->a].data, *b = in->b >= 0 ? x->vals[in->b].data : NULL;
	uint64_t *bits = fth_run_data(x, in);
	enum fth_kern_cmp cmp;
	uint64_t flip;

	kernel_of(in->sub, &cmp, &flip);
	if (!b) {
		compare_const(bits, in->sub, in->type, a, in->k, x->n);
	} else if (in->type == FTH_I128) {
		memset(bits, 0, fth_bits_words(x->n) * sizeof(*bits));
		for (unsigned i = 0; i < x->n; i++)
			bits[i / 64] |= (uint64_t)compare_int(in->sub, a[i], b[i]) << i % 64;
	} else {
		fth_kern()->cmp_vec[in->type][cmp](bits, a, b, x->n, flip);
	}
	fth_run_join_nulls(x, in, in->a, in->b, -1);
	x->vals[in->dst].data = bits;
	clear_nulls(x, in);
}

/* Null unless one side decides: for AND a side that is false, for OR one that is true. */
static void run_and_or(struct fth_prog_run *x, const struct insn *in)
{
	const uint64_t *a = x->vals[in->a].data, *b = x->vals[in->b].data;
	const uint64_t *an = x->vals[in->a].nulls, *bn = x->vals[in->b].nulls;
	uint64_t *bits = fth_run_data(x, in), *nulls = fth_run_nulls(x, in);
	bool is_and = in->op == I_AND;

	for (unsigned i = 0; i < fth_bits_words(x->n); i++) {
		uint64_t na = an ? an[i] : 0, nb = bn ? bn[i] : 0;
		uint64_t decided = is_and ? (~a[i] & ~na) | (~b[i] & ~nb) : a[i] | b[i];

		nulls[i] = (na | nb) & ~decided;
		bits[i] = is_and ? a[i] & b[i] : a[i] | b[i];
	}
	x->vals[in->dst] = (struct val){bits, an || bn ? nulls : NULL};
}

static void run_not(struct fth_prog_run *x, const struct insn *in)
{
	const uint64_t *a = x->vals[in->a].data;
	uint64_t *bits = fth_run_data(x, in);

	for (unsigned i = 0; i < fth_bits_words(x->n); i++)
		bits[i] = ~a[i] & x->all[i];
	set_nulls(x, in, x->vals[in->a].nulls);
	x->vals[in->dst].data = bits;
	clear_nulls(x, in);
}

static void run_scope(struct fth_prog_run *x, const struct insn *in)
{
	const uint64_t *outer = in->a >= 0 ? x->vals[in->a].data : x->selected;
	const uint64_t *value = x->vals[in->b].data, *nulls = x->vals[in->b].nulls;
	uint64_t *bits = fth_run_data(x, in);

	for (unsigned i = 0; i < fth_bits_words(x->n); i++) {
		uint64_t null = nulls ? nulls[i] : 0, keep = null;

		if (in->sub == SCOPE_TRUE)
			keep = value[i];
		else if (in->sub == SCOPE_NOT_TRUE)
			keep = ~value[i];
		else if (in->sub == SCOPE_NOT_FALSE)
			keep = value[i] | null;
		bits[i] = outer[i] & keep;
	}
	x->vals[in->dst] = (struct val){bits, NULL};
}

static void blend_bits(uint64_t *dst, const uint64_t *mask, const uint64_t *a, const uint64_t *b,
		       unsigned n)
{
	for (unsigned i = 0; i < fth_bits_words(n); i++) {
		uint64_t x = a ? a[i] : 0, y = b ? b[i] : 0;

		dst[i] = (x & mask[i]) | (y & ~mask[i]);
	}
}

static void run_blend(struct fth_prog_run *x, const struct insn *in)
{
	const uint64_t *mask = x->vals[in->a].data;
	const struct val *b = &x->vals[in->b], *c = &x->vals[in->c];
	void *dst = fth_run_data(x, in);
	uint64_t *nulls = fth_run_nulls(x, in);

	if (in->type == FTH_BITS)
		blend_bits(dst, mask, b->data, c->data, x->n);
	else
		fth_kern()->blend[__builtin_ctz(fth_phys_width(in->type))](dst, mask, b->data,
									   c->data, x->n);
	if (b->nulls || c->nulls)
		blend_bits(nulls, mask, b->nulls, c->nulls, x->n);
	x->vals[in->dst] = (struct val){dst, b->nulls || c->nulls ? nulls : NULL};
}

static void run_null_if(struct fth_prog_run *x, const struct insn *in)
{
	const struct val *a = &x->vals[in->a];
	const uint64_t *equal = x->vals[in->b].data;
	uint64_t *nulls = fth_run_nulls(x, in), *dst = fth_run_data(x, in);
	size_t bytes = in->type == FTH_BITS ? fth_bits_words(x->n) * sizeof(*dst)
					    : (size_t)x->n * fth_phys_width(in->type);

	memcpy(dst, a->data, bytes);
	for (unsigned i = 0; i < fth_bits_words(x->n); i++)
		nulls[i] = equal[i] | (a->nulls ? a->nulls[i] : 0);
	x->vals[in->dst] = (struct val){dst, nulls};
	if (in->type == FTH_BITS)
		clear_nulls(x, in);
}

/* ---- the loop ---- */

static int run_insn(struct fth_prog_run *x, const struct insn *in)
{
	switch (in->op) {
	case I_LOAD:
		run_load(x, in);
		return 0;
	case I_CMP_COLUMN:
		run_cmp_column(x, in);
		return 0;
	case I_BETWEEN_COLUMN:
		run_between_column(x, in);
		return 0;
	case I_MEMBER_COLUMN:
		run_member_column(x, in);
		return 0;
	case I_COLUMN_NULL:
		run_null_bits(x, in, x->columns[in->column].nulls);
		return 0;
	case I_IS_NULL:
		run_null_bits(x, in, x->vals[in->a].nulls);
		return 0;
	case I_DICT:
		return fth_run_dict(x, in);
	case I_SPLAT:
		run_splat(x, in);
		return 0;
	case I_NULLS:
		run_nulls(x, in);
		return 0;
	case I_BOOL:
		run_bool(x, in);
		return 0;
	case I_CONVERT:
		run_convert(x, in);
		return 0;
	case I_ARITH:
	case I_MUL_WIDE:
		return run_arith(x, in);
	case I_CMP:
		run_cmp(x, in);
		return 0;
	case I_AND:
	case I_OR:
		run_and_or(x, in);
		return 0;
	case I_NOT:
		run_not(x, in);
		return 0;
	case I_BLEND:
		run_blend(x, in);
		return 0;
	case I_NULL_IF:
		run_null_if(x, in);
		return 0;
	case I_SCOPE:
		run_scope(x, in);
		return 0;
	case I_CIVIL:
		run_civil(x, in);
		return 0;
	default:
		return fth_run_rowwise(x, in);
	}
}

static void set_selection(struct fth_prog_run *x, unsigned n, const uint64_t *selected)
{
	if (x->n != n)
		fth_bits_fill(x->all, n);
	x->n = n;
	x->selected = selected ? selected : x->all;
}

int fth_prog_exec(struct fth_prog_run *run, const struct fth_vec *columns, unsigned n,
		  const uint64_t *selected, struct fth_vec *results)
{
	const struct fth_prog *p = run->prog;
	int rc = 0;

	set_selection(run, n, selected);
	run->columns = columns;
	fth_arena_reset(&run->arena);
	for (unsigned i = 0; i < p->ninsns && rc == 0; i++)
		rc = run_insn(run, &p->insns[i]);
	for (unsigned i = 0; i < p->nroots && rc == 0; i++)
		results[i] = (struct fth_vec){
			.type = p->outs[i].type,
			.data = run->vals[p->roots[i]].data,
			.nulls = run->vals[p->roots[i]].nulls,
		};
	return rc;
}

int fth_prog_filter(struct fth_prog_run *run, const struct fth_vec *columns, struct fth_sel *sel)
{
	struct fth_vec results[8];
	int rc = run->prog->nroots > 8 ? -EINVAL
				       : fth_prog_exec(run, columns, sel->n, sel->bits, results);

	if (rc == 0)
		fth_sel_and(sel, results[0].data);
	return rc;
}

/* ---- memory ---- */

static size_t slot_bytes(const struct fth_prog *p, unsigned slot)
{
	return p->slot_size[slot] + FTH_BATCH / 8; /* nulls */
}

size_t fth_prog_run_bound(const struct fth_prog *p)
{
	uint64_t bytes = fth_qmem_cost(sizeof(struct fth_prog_run)) +
			 fth_qmem_cost((p->nregs + 1) * sizeof(struct val)) +
			 fth_qmem_cost((p->nslots + 1) * sizeof(char *)) +
			 fth_qmem_cost((p->ninsns + 1) * sizeof(struct dict_table));

	for (unsigned i = 0; i < p->nslots; i++)
		bytes += fth_qmem_cost(slot_bytes(p, i));
	for (unsigned i = 0; i < p->ninsns; i++)
		if (p->insns[i].prog)
			bytes += fth_prog_run_bound(p->insns[i].prog);
	return bytes;
}

static int alloc_slots(struct fth_prog_run *run)
{
	const struct fth_prog *p = run->prog;

	for (unsigned i = 0; i < p->nslots; i++) {
		run->slots[i] = fth_qmem_zalloc(run->mem, slot_bytes(p, i));
		if (!run->slots[i])
			return -ENOMEM;
	}
	for (unsigned i = 0; i < p->nregs; i++)
		if (p->regs[i].scalar)
			run->vals[i].data = &p->regs[i].value;
	for (unsigned i = 0; i < p->ninsns; i++) {
		int rc = p->insns[i].prog
				 ? fth_prog_run_new(p->insns[i].prog, run->mem, &run->dicts[i].run)
				 : 0;

		if (rc < 0)
			return rc;
	}
	return 0;
}

int fth_prog_run_new(const struct fth_prog *prog, struct fth_qmem *mem, struct fth_prog_run **out)
{
	struct fth_prog_run *run = fth_qmem_zalloc(mem, sizeof(*run));
	int rc = -ENOMEM;

	*out = NULL;
	if (!run)
		return -ENOMEM;
	run->prog = prog;
	run->mem = mem;
	run->n = UINT32_MAX;
	fth_arena_init(&run->arena, mem, 16384);
	run->vals = fth_qmem_zalloc(mem, (prog->nregs + 1) * sizeof(*run->vals));
	run->slots = fth_qmem_zalloc(mem, (prog->nslots + 1) * sizeof(*run->slots));
	run->dicts = fth_qmem_zalloc(mem, (prog->ninsns + 1) * sizeof(*run->dicts));
	if (run->vals && run->slots && run->dicts)
		rc = alloc_slots(run);
	if (rc < 0) {
		fth_prog_run_free(run);
		return rc;
	}
	*out = run;
	return 0;
}

void fth_run_free_table(struct fth_prog_run *run, struct dict_table *t, enum fth_phys type)
{
	size_t words = fth_bits_words(t->room) * sizeof(uint64_t);

	fth_arena_release(&t->texts);
	if (t->room == 0)
		return;
	fth_qmem_free(run->mem, t->values, t->room * (size_t)fth_phys_width(type));
	fth_qmem_free(run->mem, t->truth, words);
	fth_qmem_free(run->mem, t->nulls, words);
	t->room = 0;
}

void fth_prog_run_free(struct fth_prog_run *run)
{
	const struct fth_prog *p;

	if (!run)
		return;
	p = run->prog;
	for (unsigned i = 0; run->slots && i < p->nslots; i++)
		fth_qmem_free(run->mem, run->slots[i], slot_bytes(p, i));
	for (unsigned i = 0; run->dicts && i < p->ninsns; i++) {
		fth_run_free_table(run, &run->dicts[i], p->insns[i].type);
		fth_prog_run_free(run->dicts[i].run);
	}
	fth_qmem_free(run->mem, run->vals, (p->nregs + 1) * sizeof(*run->vals));
	fth_qmem_free(run->mem, run->slots, (p->nslots + 1) * sizeof(*run->slots));
	fth_qmem_free(run->mem, run->dicts, (p->ninsns + 1) * sizeof(*run->dicts));
	fth_arena_release(&run->arena);
	fth_qmem_free(run->mem, run, sizeof(*run));
}
