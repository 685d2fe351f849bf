/* SPDX-License-Identifier: BSD-2-Clause */
/* The interpreter of prog_fixture.h: expressions taken literally, row by row. */
#include "prog_fixture.h"

#include "scalar/calendar.h"
#include "scalar/num.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void fail_with(struct fix_value *v, int error)
{
	if (!v->error)
		v->error = error;
}

static fth_i128 power(unsigned n)
{
	return n ? 10 * power(n - 1) : 1;
}

static fth_i128 dec_limit(void)
{
	return power(38) - 1;
}

static void bound(struct fix_value *v, struct fth_type t)
{
	fth_i128 hi = t.kind == FTH_T_INT32 || t.kind == FTH_T_DATE ? INT32_MAX
		      : t.kind == FTH_T_INT64			    ? INT64_MAX
		      : t.precision				    ? power(t.precision) - 1
								    : dec_limit();
	fth_i128 lo = t.kind == FTH_T_DECIMAL ? -hi : -hi - 1;

	if (!v->null && (v->i < lo || v->i > hi))
		fail_with(v, -ERANGE);
}

static void scale_up(struct fix_value *v, unsigned digits)
{
	if (v->null || v->error)
		return;
	for (; digits > 0; digits--)
		if (__builtin_mul_overflow(v->i, 10, &v->i)) {
			fail_with(v, -ERANGE);
			return;
		}
	if (v->i > dec_limit() || v->i < -dec_limit())
		fail_with(v, -ERANGE);
}

static void to_double(struct fix_value *v, struct fth_type from)
{
	char text[80], *p = text + sizeof(text);
	fth_i128 x = v->i < 0 ? -v->i : v->i;

	if (from.kind == FTH_T_DOUBLE || v->null)
		return;
	*--p = '\0';
	p -= snprintf(NULL, 0, "e-%u", from.scale);
	snprintf(p, 10, "e-%u", from.scale);
	do
		*--p = (char)('0' + (int)(x % 10));
	while ((x /= 10) > 0);
	if (v->i < 0)
		*--p = '-';
	v->f = strtod(p, NULL);
}

static void trim_char(struct fix_value *v)
{
	while (v->len > 0 && v->s[v->len - 1] == ' ')
		v->len--;
}

/* As a branch of CASE or a side of a comparison becomes the common type. */
static void coerce(struct fix_value *v, struct fth_type from, struct fth_type to)
{
	if (to.kind == FTH_T_DOUBLE)
		to_double(v, from);
	else if (from.kind == FTH_T_CHAR && to.kind == FTH_T_TEXT)
		trim_char(v);
	else if (to.scale > from.scale)
		scale_up(v, to.scale - from.scale);
}

static int order_of(const struct fix_value *a, const struct fix_value *b, struct fth_type t)
{
	int c;

	if (t.kind == FTH_T_DOUBLE) {
		if (a->f != a->f || b->f != b->f)
			return (a->f != a->f) - (b->f != b->f);
		return (a->f > b->f) - (a->f < b->f);
	}
	if (!fth_type_is_text(t))
		return (a->i > b->i) - (a->i < b->i);
	c = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
	return c ? c : (a->len > b->len) - (a->len < b->len);
}

static struct fth_type meeting(struct fth_type a, struct fth_type b)
{
	if (fth_type_is_text(a))
		return fth_type(FTH_T_TEXT);
	if (a.kind == FTH_T_DOUBLE || b.kind == FTH_T_DOUBLE)
		return fth_type(FTH_T_DOUBLE);
	a.scale = a.scale > b.scale ? a.scale : b.scale;
	return a;
}

/* The order of two values; null or error in *out if there is none. */
static int compare(const struct fth_expr *x, const struct fth_expr *y, struct fix_value a,
		   struct fix_value b, struct fix_value *out)
{
	struct fth_type t = meeting(x->type, y->type);

	coerce(&a, x->type, t);
	coerce(&b, y->type, t);
	if (a.error || b.error)
		fail_with(out, a.error ? a.error : b.error);
	out->null = a.null || b.null;
	return out->null || out->error ? 0 : order_of(&a, &b, t);
}

static bool holds(enum fth_op op, int c)
{
	return op == FTH_OP_EQ	 ? c == 0
	       : op == FTH_OP_NE ? c != 0
	       : op == FTH_OP_LT ? c < 0
	       : op == FTH_OP_LE ? c <= 0
	       : op == FTH_OP_GT ? c > 0
				 : c >= 0;
}

static void eval_arith(const struct fth_expr *e, struct fix_value a, struct fix_value b,
		       struct fix_value *out)
{
	const struct fth_expr *x = e->args[0], *y = e->args[1];
	bool over = false;

	if (e->type.kind == FTH_T_DOUBLE) {
		to_double(&a, x->type);
		to_double(&b, y->type);
		if (e->op == FTH_OP_DIV && b.f == 0 && a.f == a.f) {
			fail_with(out, -EDOM);
			return;
		}
		out->f = e->op == FTH_OP_ADD   ? a.f + b.f
			 : e->op == FTH_OP_SUB ? a.f - b.f
			 : e->op == FTH_OP_MUL ? a.f * b.f
					       : a.f / b.f;
		if (isinf(out->f) && !isinf(a.f) && !isinf(b.f))
			fail_with(out, -ERANGE);
		if (out->f == 0 && a.f != 0 && !isinf(b.f) &&
		    ((e->op == FTH_OP_MUL && b.f != 0) || e->op == FTH_OP_DIV))
			fail_with(out, -ERANGE);
		return;
	}
	if (e->type.kind == FTH_T_DECIMAL && e->op != FTH_OP_MUL && e->op != FTH_OP_DIV) {
		coerce(&a, x->type, e->type);
		coerce(&b, y->type, e->type);
		if (a.error || b.error) {
			fail_with(out, -ERANGE);
			return;
		}
	}
	if (e->op >= FTH_OP_DIV && b.i == 0) {
		fail_with(out, -EDOM);
		return;
	}
	if (e->op == FTH_OP_ADD)
		over = __builtin_add_overflow(a.i, b.i, &out->i);
	else if (e->op == FTH_OP_SUB)
		over = __builtin_sub_overflow(a.i, b.i, &out->i);
	else if (e->op == FTH_OP_MUL)
		over = __builtin_mul_overflow(a.i, b.i, &out->i);
	else if (e->op == FTH_OP_MOD)
		out->i = a.i % b.i;
	else if (e->type.kind == FTH_T_DECIMAL)
		over = fth_dec_div(a.i, x->type.scale, b.i, y->type.scale, e->type.scale, &out->i) <
		       0;
	else
		out->i = a.i / b.i;
	if (over)
		fail_with(out, -ERANGE);
	else
		bound(out, (struct fth_type){e->type.kind, 0, e->type.scale, 0});
}

static void number_text(struct fix_value *v, struct fth_type t)
{
	char text[FTH_NUM_TEXT];

	v->len = t.kind == FTH_T_DATE	  ? fth_date_text((int32_t)v->i, text)
		 : t.kind == FTH_T_DOUBLE ? fth_f64_text(v->f, text)
					  : fth_dec_text(v->i, t.scale, text);
	memcpy(v->s, text, v->len);
}

static bool starts(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

static void substring(struct fix_value *v, fth_i128 from, fth_i128 end)
{
	fth_i128 position = 0;
	uint32_t len = 0;

	for (uint32_t i = 0; i < v->len; i++) {
		position += starts(v->s[i]);
		if (position >= from && position < end)
			v->s[len++] = v->s[i];
	}
	v->len = len;
}

static void eval_cast(const struct fth_expr *e, struct fix_value a, struct fix_value *out)
{
	struct fth_type from = e->args[0]->type, to = e->type;
	fth_i128 unit;

	*out = a;
	if (fth_type_is_text(to)) {
		if (from.kind == FTH_T_BOOL)
			fix_set_text(out, a.i ? "true" : "false");
		else if (!fth_type_is_text(from))
			number_text(out, from);
		else if (from.kind == FTH_T_CHAR)
			trim_char(out);
		if (to.length)
			substring(out, 1, (fth_i128)to.length + 1);
		if (to.kind == FTH_T_CHAR)
			trim_char(out);
		return;
	}
	if (to.kind == FTH_T_DOUBLE) {
		to_double(out, from);
		return;
	}
	if (from.kind == FTH_T_DOUBLE) {
		int rc = to.kind == FTH_T_DECIMAL
				 ? fth_f64_to_dec(a.f, to.scale, &out->i)
				 : fth_f64_to_int(a.f, -dec_limit(), dec_limit(), &out->i);

		if (rc < 0)
			fail_with(out, rc);
	} else if (to.scale >= from.scale) {
		scale_up(out, to.scale - from.scale);
	} else {
		unit = power(from.scale - to.scale);
		out->i = a.i / unit;
		if (2 * (a.i % unit) >= unit)
			out->i++;
		if (2 * (a.i % unit) <= -unit)
			out->i--;
	}
	bound(out, to);
}

static bool like(const char *p, const char *pe, const char *s, const char *se)
{
	if (p == pe)
		return s == se;
	if (*p == '%') {
		for (; s <= se; s++)
			if (like(p + 1, pe, s, se))
				return true;
		return false;
	}
	if (s == se)
		return false;
	if (*p == '_') {
		for (s++; s < se && !starts(*s); s++)
			;
		return like(p + 1, pe, s, se);
	}
	if (*p == '\\')
		p++;
	return *p == *s && like(p + 1, pe, s + 1, se);
}

static void eval_like(const struct fth_expr *e, struct fix_value a, struct fix_value *out)
{
	struct fth_str p = e->args[1]->s;
	uint32_t chars = 0;

	for (uint32_t i = 0; i < a.len; i++)
		chars += starts(a.s[i]);
	if (e->args[0]->type.kind == FTH_T_CHAR)
		for (; chars < e->args[0]->type.length; chars++)
			a.s[a.len++] = ' ';
	out->i = like(p.data, p.data + p.len, a.s, a.s + a.len);
}

/* Character number k of a text, from 0, without those before it; false at the end. */
static bool character(const struct fix_value *v, unsigned k, struct fix_value *out)
{
	*out = *v;
	substring(out, (fth_i128)k + 1, (fth_i128)k + 2);
	return out->len > 0;
}

static bool has_character(const struct fix_value *set, const struct fix_value *c)
{
	struct fix_value one;

	for (unsigned k = 0; character(set, k, &one); k++)
		if (one.len == c->len && memcmp(one.s, c->s, c->len) == 0)
			return true;
	return false;
}

static void eval_trim(const struct fth_expr *e, struct fix_value set, struct fix_value *out)
{
	struct fix_value c;
	unsigned from = 0, to = 0;

	if (e->args[1]->type.kind == FTH_T_CHAR)
		trim_char(&set);
	while (character(out, to, &c))
		to++;
	while (e->op != FTH_OP_RTRIM && from < to && character(out, from, &c) &&
	       has_character(&set, &c))
		from++;
	while (e->op != FTH_OP_LTRIM && to > from && character(out, to - 1, &c) &&
	       has_character(&set, &c))
		to--;
	substring(out, (fth_i128)from + 1, (fth_i128)to + 1);
}

/* POSITION, LEFT, RIGHT of *out. */
static void eval_place(const struct fth_expr *e, const struct fix_value *b, struct fix_value *out)
{
	struct fix_value what = b[1], c;
	fth_i128 all = 0, count = b[1].i;

	while (character(out, (unsigned)all, &c))
		all++;
	if (e->op == FTH_OP_POSITION) {
		if (e->args[1]->type.kind == FTH_T_CHAR)
			trim_char(&what);
		for (fth_i128 k = 1; k <= all + 1 && out->i == 0; k++) {
			c = *out;
			substring(&c, k, all + 1);
			if (c.len >= what.len && memcmp(c.s, what.s, what.len) == 0)
				out->i = k;
		}
		return;
	}
	if (count < 0)
		count = all + count;
	if (e->op == FTH_OP_LEFT)
		substring(out, 1, count + 1);
	else
		substring(out, all - count + 1, all + 1);
}

static void eval_text(const struct fth_expr *e, struct fix_value a, const struct fix_value *b,
		      struct fix_value *out)
{
	uint32_t skip = 0;

	if (e->args[0]->type.kind == FTH_T_CHAR)
		trim_char(&a);
	*out = a;
	out->i = 0;
	switch (e->op) {
	case FTH_OP_SUBSTRING:
		if (e->nargs == 3 && b[2].i < 0)
			fail_with(out, -EINVAL);
		substring(out, b[1].i, e->nargs == 3 ? b[1].i + b[2].i : INT64_MAX);
		break;
	case FTH_OP_LENGTH:
		for (uint32_t i = 0; i < a.len; i++)
			out->i += starts(a.s[i]);
		break;
	case FTH_OP_UPPER:
	case FTH_OP_LOWER:
		for (uint32_t i = 0; i < a.len; i++)
			if ((unsigned char)a.s[i] < 128)
				out->s[i] = (char)(e->op == FTH_OP_UPPER ? toupper(a.s[i])
									 : tolower(a.s[i]));
		break;
	case FTH_OP_CONCAT: {
		struct fix_value second = b[1];

		if (e->args[1]->type.kind == FTH_T_CHAR)
			trim_char(&second);
		if (a.len + second.len >= FIX_TEXT / 2)
			abort();
		memcpy(out->s + a.len, second.s, second.len);
		out->len += second.len;
		break;
	}
	case FTH_OP_POSITION:
	case FTH_OP_LEFT:
	case FTH_OP_RIGHT:
		eval_place(e, b, out);
		break;
	default:
		if (e->nargs == 2) {
			eval_trim(e, b[1], out);
			break;
		}
		if (e->op != FTH_OP_LTRIM)
			trim_char(out);
		while (e->op != FTH_OP_RTRIM && skip < out->len && out->s[skip] == ' ')
			skip++;
		memmove(out->s, out->s + skip, out->len - skip);
		out->len -= skip;
	}
}

static void eval_date(const struct fth_expr *e, const struct fix_value *v, struct fix_value *out)
{
	int64_t year;
	unsigned month, day;
	int32_t result;

	fth_civil((int64_t)v[0].i, &year, &month, &day);
	switch (e->op) {
	case FTH_OP_YEAR:
		out->i = year;
		break;
	case FTH_OP_MONTH:
		out->i = month;
		break;
	case FTH_OP_QUARTER:
		out->i = (month - 1) / 3 + 1;
		break;
	case FTH_OP_DAY:
		out->i = day;
		break;
	default:
		if (v[1].i < INT32_MIN || v[1].i > INT32_MAX ||
		    fth_add_months((int32_t)v[0].i, (int64_t)v[1].i, &result) < 0)
			fail_with(out, -ERANGE);
		else
			out->i = result;
	}
}

static void eval_round(const struct fth_expr *e, struct fix_value v, struct fix_value *out)
{
	unsigned scale = e->args[0]->type.scale;
	fth_i128 digits = e->nargs == 2 ? e->args[1]->i : 0, unit = power(scale);

	if (e->type.kind == FTH_T_DOUBLE) {
		out->f = e->op == FTH_OP_ABS	 ? fabs(v.f)
			 : e->op == FTH_OP_FLOOR ? floor(v.f)
			 : e->op == FTH_OP_CEIL	 ? ceil(v.f)
						 : nearbyint(v.f);
		return;
	}
	*out = v;
	if (e->op == FTH_OP_ABS) {
		out->i = v.i < 0 ? -v.i : v.i;
	} else if (e->op == FTH_OP_FLOOR || e->op == FTH_OP_CEIL) {
		out->i = v.i / unit;
		if (out->i * unit != v.i)
			out->i += e->op == FTH_OP_CEIL ? v.i > 0 : -(fth_i128)(v.i < 0);
	} else if (digits >= (fth_i128)scale) {
		scale_up(out, (unsigned)digits - scale);
	} else {
		unit = power((unsigned)((fth_i128)scale - digits));
		out->i = v.i / unit;
		if (2 * (v.i % unit) >= unit)
			out->i++;
		if (2 * (v.i % unit) <= -unit)
			out->i--;
		if (digits < 0)
			scale_up(out, (unsigned)-digits);
	}
	bound(out, (struct fth_type){e->type.kind, 0, e->type.scale, 0});
}

static void eval_strict(const struct fth_expr *e, const struct fix_value *v, struct fix_value *out)
{
	if (e->op <= FTH_OP_MOD) {
		eval_arith(e, v[0], v[1], out);
	} else if (e->op == FTH_OP_NEG) {
		out->f = -v[0].f;
		out->i = -v[0].i;
		if (e->type.kind != FTH_T_DOUBLE)
			bound(out, (struct fth_type){e->type.kind, 0, e->type.scale, 0});
	} else if (e->op >= FTH_OP_ABS && e->op <= FTH_OP_CEIL) {
		eval_round(e, v[0], out);
	} else if (e->op == FTH_OP_CAST) {
		eval_cast(e, v[0], out);
	} else if (e->op == FTH_OP_LIKE) {
		eval_like(e, v[0], out);
	} else if (e->op == FTH_OP_NOT) {
		out->i = !v[0].i;
	} else if (e->op >= FTH_OP_YEAR && e->op <= FTH_OP_ADD_MONTHS) {
		eval_date(e, v, out);
	} else {
		eval_text(e, v[0], v, out);
	}
}

static void eval_and_or(const struct fth_expr *e, const struct fix_batch *b, unsigned i,
			struct fix_value *out)
{
	bool decides = e->op == FTH_OP_OR;
	struct fix_value x, y;

	fix_eval(e->args[0], b, i, &x);
	if (x.error || (!x.null && (x.i != 0) == decides)) {
		*out = x;
		return;
	}
	fix_eval(e->args[1], b, i, &y);
	*out = y;
	if (!y.error && x.null && !(!y.null && (y.i != 0) == decides))
		out->null = true;
}

/* Lazily: conditions in order, and one value. */
static void eval_case(const struct fth_expr *e, const struct fix_batch *b, unsigned row,
		      struct fix_value *out)
{
	struct fix_value condition;
	unsigned i;

	for (i = 0; i + 1 < e->nargs; i += 2) {
		fix_eval(e->args[i], b, row, &condition);
		if (condition.error) {
			*out = condition;
			return;
		}
		if (!condition.null && condition.i) {
			i++;
			break;
		}
	}
	if (i >= e->nargs) {
		*out = (struct fix_value){.null = true};
		return;
	}
	fix_eval(e->args[i], b, row, out);
	coerce(out, e->args[i]->type, e->type);
}

static void eval_coalesce(const struct fth_expr *e, const struct fix_batch *b, unsigned row,
			  struct fix_value *out)
{
	for (unsigned i = 0; i < e->nargs; i++) {
		fix_eval(e->args[i], b, row, out);
		coerce(out, e->args[i]->type, e->type);
		if (!out->null || out->error)
			return;
	}
}

static void eval_compare(const struct fth_expr *e, const struct fix_value *v, struct fix_value *out)
{
	struct fix_value one;
	bool any_null = false, found = false;
	int c;

	if (e->op == FTH_OP_BETWEEN) {
		struct fix_value two = {0};
		bool low, high;

		one = (struct fix_value){0};
		low = holds(FTH_OP_GE, compare(e->args[0], e->args[1], v[0], v[1], &one));
		high = holds(FTH_OP_LE, compare(e->args[0], e->args[2], v[0], v[2], &two));
		fail_with(out, one.error ? one.error : two.error);
		out->i = (one.null || low) && (two.null || high);
		out->null = out->i && (one.null || two.null);
		return;
	}
	if (e->op != FTH_OP_IN) {
		c = compare(e->args[0], e->args[1], v[0], v[1], out);
		out->i = holds(e->op, c);
		return;
	}
	for (unsigned i = 1; i < e->nargs; i++) {
		one = (struct fix_value){0};
		c = compare(e->args[0], e->args[i], v[0], v[i], &one);
		any_null |= one.null;
		found |= !one.null && !one.error && c == 0;
	}
	out->i = found;
	out->null = !found && any_null;
}

static void eval_nullif(const struct fth_expr *e, const struct fix_value *v, struct fix_value *out)
{
	struct fix_value one = {0};
	int c = compare(e->args[0], e->args[1], v[0], v[1], &one);

	*out = v[0];
	fail_with(out, one.error);
	if (!one.null && c == 0)
		out->null = true;
}

/* Both sides are brought to one scale before anybody looks for nulls. */
static void eval_null(const struct fth_expr *e, struct fix_value *v, struct fix_value *out)
{
	out->null = true;
	if (e->type.kind != FTH_T_DECIMAL || (e->op > FTH_OP_SUB && e->op != FTH_OP_MOD))
		return;
	for (unsigned i = 0; i < 2; i++) {
		coerce(&v[i], e->args[i]->type, e->type);
		fail_with(out, v[i].error);
	}
}

static void eval_call(const struct fth_expr *e, const struct fix_batch *b, unsigned i,
		      struct fix_value *out)
{
	struct fix_value *v = calloc(e->nargs, sizeof(*v));
	bool null = false;

	for (unsigned k = 0; k < e->nargs; k++) {
		fix_eval(e->args[k], b, i, &v[k]);
		fail_with(out, v[k].error);
		null |= v[k].null;
	}
	if (out->error)
		;
	else if (e->op == FTH_OP_IS_NULL)
		out->i = v[0].null;
	else if (e->op == FTH_OP_NULLIF)
		eval_nullif(e, v, out);
	else if (e->op >= FTH_OP_EQ && e->op <= FTH_OP_GE)
		eval_compare(e, v, out);
	else if (e->op == FTH_OP_BETWEEN || e->op == FTH_OP_IN)
		eval_compare(e, v, out);
	else if (null)
		eval_null(e, v, out);
	else
		eval_strict(e, v, out);
	free(v);
}

void fix_eval(const struct fth_expr *e, const struct fix_batch *b, unsigned i,
	      struct fix_value *out)
{
	memset(out, 0, sizeof(*out));
	if (e->kind == FTH_EXPR_COLUMN) {
		*out = b->values[e->column][i];
	} else if (e->kind == FTH_EXPR_CONST) {
		out->null = e->is_null;
		out->i = e->i;
		out->f = e->f;
		out->len = e->s.len;
		memcpy(out->s, e->s.data, e->s.len);
	} else if (e->op == FTH_OP_AND || e->op == FTH_OP_OR) {
		eval_and_or(e, b, i, out);
	} else if (e->op == FTH_OP_CASE) {
		eval_case(e, b, i, out);
	} else if (e->op == FTH_OP_COALESCE) {
		eval_coalesce(e, b, i, out);
	} else {
		eval_call(e, b, i, out);
	}
}
