/* SPDX-License-Identifier: BSD-2-Clause */
#include "prog_fixture.h"

#include "scalar/num.h"

#include <math.h>
#include <stdlib.h>

/* ---- columns ---- */

static const char *const words[] = {"",
				    "a",
				    "ab",
				    "abc",
				    "b",
				    "green",
				    "forest green",
				    "Gr\xc3\xbc\xc3\x9f",
				    "a%b",
				    "a_b",
				    "special requests",
				    "  x ",
				    "12",
				    "-7.5",
				    "1995-03-15",
				    "zz  ",
				    "\xc3\xa4\xc3\xb6\xc3\xbc",
				    "aaab",
				    "true"};
#define WORDS (sizeof(words) / sizeof(words[0]))

struct column_kind {
	struct fth_type type;
	int64_t lo, hi;
	bool dict;
};

static const struct column_kind kinds[FIX_COLUMNS] = {
	{{.kind = FTH_T_INT32}, 0, 10, false},
	{{.kind = FTH_T_INT32}, INT32_MIN, INT32_MAX, false},
	{{.kind = FTH_T_INT32}, -500, 60000, false},
	{{.kind = FTH_T_INT64}, INT64_MIN, INT64_MAX, false},
	{{.kind = FTH_T_INT64}, 5000000000, 5000000100, false},
	{{.kind = FTH_T_DECIMAL, .precision = 12, .scale = 2}, 90000, 10495000, false},
	{{.kind = FTH_T_DECIMAL, .precision = 18, .scale = 4},
	 -999999999999999999,
	 999999999999999999,
	 false},
	{{.kind = FTH_T_DECIMAL, .precision = 4, .scale = 2}, 0, 10, false},
	{{.kind = FTH_T_DATE}, 8035, 10591, false},
	{{.kind = FTH_T_DOUBLE}, 0, 0, false},
	{{.kind = FTH_T_TEXT}, 0, 0, false},
	{{.kind = FTH_T_TEXT}, 0, 0, true},
	{{.kind = FTH_T_CHAR, .length = 16}, 0, 0, true},
	{{.kind = FTH_T_BOOL}, 0, 1, false},
};

static fth_i128 random_int(struct fth_rng *rng, int64_t lo, int64_t hi)
{
	uint64_t span = (uint64_t)hi - (uint64_t)lo;

	if (fth_rng_below(rng, 6) == 0)
		return fth_rng_below(rng, 2) ? lo : hi;
	if (fth_rng_below(rng, 3) == 0 && lo < 0 && hi > 1000)
		return (int64_t)fth_rng_below(rng, 200) - 100 < lo
			       ? lo
			       : (int64_t)fth_rng_below(rng, 100);
	return (int64_t)((uint64_t)lo +
			 (span == UINT64_MAX ? fth_rng_next(rng) : fth_rng_below(rng, span + 1)));
}

static double random_double(struct fth_rng *rng)
{
	static const double some[] = {0,    -0.0, 1.5, -2.5, 1e300,	-1e-300,
				      1e18, 0.1,  3,   1e-5, 123456.789};

	switch (fth_rng_below(rng, 12)) {
	case 0:
		return NAN;
	case 1:
		return INFINITY;
	case 2:
		return -INFINITY;
	default:
		return some[fth_rng_below(rng, 11)];
	}
}

void fix_set_text(struct fix_value *v, const char *s)
{
	v->len = (uint32_t)strlen(s);
	memcpy(v->s, s, v->len);
}

static void make_values(struct fix_batch *b, unsigned c, struct fth_rng *rng, bool nulls)
{
	const struct column_kind *k = &kinds[c];

	b->values[c] = calloc(b->n + 1, sizeof(struct fix_value));
	for (unsigned i = 0; i < b->n; i++) {
		struct fix_value *v = &b->values[c][i];

		v->null = nulls && fth_rng_below(rng, 5) == 0;
		if (v->null)
			continue;
		if (k->type.kind == FTH_T_DOUBLE)
			v->f = random_double(rng);
		else if (fth_type_is_text(k->type))
			fix_set_text(v, words[fth_rng_below(rng, WORDS)]);
		else
			v->i = random_int(rng, k->lo, k->hi);
	}
}

/* Integers in a type that is as narrow as a random base allows. */
static void make_int_vec(struct fix_batch *b, unsigned c, struct fth_rng *rng)
{
	struct fth_vec *v = &b->vecs[c];
	fth_i128 base = 0, lo = kinds[c].lo, hi = kinds[c].hi;
	unsigned width;
	char *data;

	if (fth_rng_below(rng, 2) && hi - lo < (fth_i128)1 << 62)
		base = (lo + hi) / 2;
	v->type = fth_phys_for(lo - base, hi - base);
	if (fth_rng_below(rng, 4) == 0)
		v->type = FTH_I64;
	if (fth_rng_below(rng, 8) == 0)
		v->type = FTH_I128;
	width = fth_phys_width(v->type);
	data = aligned_alloc(16, (b->n * width + 32) / 16 * 16);
	v->base = (int64_t)base;
	for (unsigned i = 0; i < b->n; i++) {
		fth_i128 x = b->values[c][i].null ? (fth_i128)fth_rng_next(rng)
						  : b->values[c][i].i - base;

		memcpy(data + i * width, &x, width);
	}
	v->data = data;
}

static void make_text_vec(struct fix_batch *b, unsigned c, struct fth_rng *rng)
{
	struct fth_vec *v = &b->vecs[c];
	struct fth_str *strs = calloc(b->n + 1, sizeof(*strs));
	char *block = malloc(b->n * FIX_TEXT + 1);
	size_t at = 0;

	for (unsigned i = 0; i < b->n; i++) {
		strs[i] = (struct fth_str){block + at, b->values[c][i].len, 0};
		memcpy(block + at, b->values[c][i].s, strs[i].len);
		at += strs[i].len;
	}
	v->type = FTH_STR;
	v->data = strs;
	v->block = block;
	v->block_len = at;
	if (fth_rng_below(rng, 4) ==
	    0) { /* the block may not be told; it must be freed all the same */
		b->dicts[c].entries = (const void *)block;
		v->block = NULL;
	}
}

static void make_codes(struct fix_batch *b, unsigned c, struct fth_rng *rng)
{
	static uint64_t next_id = 1;
	struct fth_vec *v = &b->vecs[c];
	struct fth_str *entries = calloc(WORDS, sizeof(*entries));
	int8_t *codes = calloc(b->n + 1, 1);

	v->base = (int64_t)fth_rng_below(rng, 3);
	for (unsigned i = 0; i < WORDS; i++)
		entries[i] = fth_str_of(words[i]);
	for (unsigned i = 0; i < b->n; i++) {
		unsigned code = 0;

		while (strcmp(words[code], b->values[c][i].s) != 0)
			code++;
		codes[i] = (int8_t)(b->values[c][i].null ? 99 : (int)code - (int)v->base);
	}
	b->dicts[c] = (struct fth_dict){next_id++, WORDS, entries};
	v->type = FTH_I8;
	v->data = codes;
	v->dict = &b->dicts[c];
}

static void make_plain_vec(struct fix_batch *b, unsigned c)
{
	struct fth_vec *v = &b->vecs[c];
	bool bits = kinds[c].type.kind == FTH_T_BOOL;
	uint64_t *words64 = calloc(b->n + 1, sizeof(uint64_t));

	v->type = bits ? FTH_BITS : FTH_F64;
	v->data = words64;
	for (unsigned i = 0; i < b->n; i++) {
		const struct fix_value *value = &b->values[c][i];

		if (!bits)
			memcpy(words64 + i, &value->f, 8);
		else if (value->i || value->null)
			fth_bit_set(words64, i);
	}
}

void fix_batch_make(struct fix_batch *b, struct fth_rng *rng, unsigned n)
{
	*b = (struct fix_batch){.n = n};
	for (unsigned c = 0; c < FIX_COLUMNS; c++) {
		bool nulls = fth_rng_below(rng, 3) == 0;
		uint64_t *bits = calloc(fth_bits_words(n) + 1, sizeof(uint64_t));

		b->types[c] = kinds[c].type;
		b->lo[c] = kinds[c].lo;
		b->hi[c] = kinds[c].hi;
		make_values(b, c, rng, nulls);
		if (kinds[c].dict)
			make_codes(b, c, rng);
		else if (fth_type_is_text(kinds[c].type))
			make_text_vec(b, c, rng);
		else if (fth_type_is_int(kinds[c].type))
			make_int_vec(b, c, rng);
		else
			make_plain_vec(b, c);
		for (unsigned i = 0; i < n; i++)
			if (b->values[c][i].null)
				fth_bit_set(bits, i);
		b->vecs[c].nulls = bits;
		if (!nulls && fth_rng_below(rng, 2)) {
			free(bits);
			b->vecs[c].nulls = NULL;
		}
	}
}

void fix_batch_free(struct fix_batch *b)
{
	for (unsigned c = 0; c < FIX_COLUMNS; c++) {
		free((void *)b->vecs[c].data);
		free((void *)b->vecs[c].nulls);
		free((void *)b->vecs[c].block);
		free((void *)b->dicts[c].entries);
		free(b->values[c]);
	}
}

/* ---- expressions ---- */

static unsigned below(struct fth_rng *rng, unsigned n)
{
	return (unsigned)fth_rng_below(rng, n);
}

static struct fth_expr *leaf(struct fth_arena *a, struct fth_rng *rng, const struct fix_batch *b,
			     enum fth_tkind kind, bool *null_const)
{
	struct fth_type type = fth_type(kind);

	if (kind == FTH_T_DECIMAL)
		type = fth_type_decimal(0, below(rng, 5));
	if (below(rng, 3) > 0) /* a column of the kind, if the dice find one */
		for (unsigned tries = 0; tries < 30; tries++) {
			unsigned c = below(rng, FIX_COLUMNS);
			bool match = b->types[c].kind == kind ||
				     (kind == FTH_T_TEXT && b->types[c].kind == FTH_T_CHAR);

			if (match)
				return fth_expr_column(a, c, b->types[c], b->lo[c], b->hi[c],
						       b->vecs[c].nulls != NULL);
		}
	if (below(rng, 12) == 0) {
		*null_const = true;
		return fth_expr_null(a, type);
	}
	switch (kind) {
	case FTH_T_TEXT:
		return fth_expr_text(a, type, fth_str_of(words[below(rng, WORDS)]));
	case FTH_T_DOUBLE:
		return fth_expr_double(a, random_double(rng));
	case FTH_T_BOOL:
		return fth_expr_bool(a, below(rng, 2));
	case FTH_T_DATE:
		return fth_expr_int(a, type, random_int(rng, 8000, 11000));
	case FTH_T_INT32:
		return fth_expr_int(a, type,
				    random_int(rng, below(rng, 4) ? -5 : INT32_MIN, INT32_MAX) %
					    (below(rng, 2) ? 20 : INT32_MAX));
	default:
		return fth_expr_int(a, type, random_int(rng, -1000000, 1000000000));
	}
}

static enum fth_tkind any_kind(struct fth_rng *rng)
{
	return below(rng, FTH_T_CHAR);
}

static enum fth_tkind number_kind(struct fth_rng *rng)
{
	static const enum fth_tkind all[] = {FTH_T_INT32, FTH_T_INT64, FTH_T_DECIMAL, FTH_T_DOUBLE};

	return all[below(rng, 4)];
}

#define SUB(k) fix_expr(a, rng, b, k, depth - 1, null_const)

static struct fth_expr *bool_expr(struct fth_arena *a, struct fth_rng *rng,
				  const struct fix_batch *b, unsigned depth, bool *null_const)
{
	static const char *const patterns[] = {"%",	  "a%",		"%b",
					       "%green%", "%a%b%",	"_",
					       "a_b",	  "a\\_b",	"%special%requests%",
					       "",	  "%\xc3\xbc_", "ab"};
	enum fth_tkind kind = any_kind(rng);
	struct fth_expr *args[12];
	unsigned n;

	switch (below(rng, 9)) {
	case 0:
		return fth_expr_call2(a, below(rng, 2) ? FTH_OP_AND : FTH_OP_OR, SUB(FTH_T_BOOL),
				      SUB(FTH_T_BOOL));
	case 1:
		return fth_expr_call1(a, FTH_OP_NOT, SUB(FTH_T_BOOL));
	case 2:
		return fth_expr_call1(a, FTH_OP_IS_NULL, SUB(kind));
	case 3:
		return fth_expr_call3(a, FTH_OP_BETWEEN, SUB(kind), SUB(kind), SUB(kind));
	case 4:
		return fth_expr_call2(a, FTH_OP_LIKE, SUB(FTH_T_TEXT),
				      fth_expr_text(a, fth_type(FTH_T_TEXT),
						    fth_str_of(patterns[below(rng, 12)])));
	case 5:
		args[0] = SUB(kind);
		n = 2 + below(rng, 9);
		for (unsigned i = 1; i < n; i++)
			do
				args[i] = leaf(a, rng, b, kind, null_const);
			while (args[i] && args[i]->kind != FTH_EXPR_CONST);
		return fth_expr_call(a, FTH_OP_IN, n, args);
	case 6: /* numbers of different types */
		return fth_expr_call2(a, FTH_OP_EQ + below(rng, 6), SUB(number_kind(rng)),
				      SUB(number_kind(rng)));
	default:
		return fth_expr_call2(a, FTH_OP_EQ + below(rng, 6), SUB(kind), SUB(kind));
	}
}

static struct fth_expr *text_expr(struct fth_arena *a, struct fth_rng *rng,
				  const struct fix_batch *b, unsigned depth, bool *null_const)
{
	struct fth_expr *from = fth_expr_int(a, fth_type(FTH_T_INT32), (fth_i128)below(rng, 5) - 1);
	struct fth_type cut = {.kind = FTH_T_TEXT, .length = below(rng, 4)};

	switch (below(rng, 8)) {
	case 0:
		return fth_expr_call3(a, FTH_OP_SUBSTRING, SUB(FTH_T_TEXT), from, SUB(FTH_T_INT32));
	case 1:
		return fth_expr_call2(a, FTH_OP_SUBSTRING, SUB(FTH_T_TEXT), from);
	case 2:
		return fth_expr_call2(a, FTH_OP_CONCAT,
				      fth_expr_call2(a, FTH_OP_SUBSTRING, SUB(FTH_T_TEXT), from),
				      leaf(a, rng, b, FTH_T_TEXT, null_const));
	case 3:
		return fth_expr_call1(a, FTH_OP_UPPER + below(rng, 2), SUB(FTH_T_TEXT));
	case 4:
		return fth_expr_call1(a, FTH_OP_TRIM + below(rng, 3), SUB(FTH_T_TEXT));
	case 5:
		return fth_expr_call2(a, FTH_OP_TRIM + below(rng, 3), SUB(FTH_T_TEXT),
				      leaf(a, rng, b, FTH_T_TEXT, null_const));
	case 6:
		return fth_expr_call2(a, FTH_OP_LEFT + below(rng, 2), SUB(FTH_T_TEXT), from);
	default:
		return fth_expr_cast(a, SUB(any_kind(rng)), cut);
	}
}

static struct fth_expr *number_expr(struct fth_arena *a, struct fth_rng *rng,
				    const struct fix_batch *b, enum fth_tkind kind, unsigned depth,
				    bool *null_const)
{
	struct fth_type type = kind == FTH_T_DECIMAL
				       ? fth_type_decimal(below(rng, 2) ? 0 : 10, below(rng, 4))
				       : fth_type(kind);

	switch (below(rng, kind == FTH_T_INT32 ? 9 : 7)) {
	case 0:
		return fth_expr_call1(a, FTH_OP_NEG, SUB(kind));
	case 1:
		return fth_expr_cast(a, SUB(number_kind(rng)), type);
	case 5:
		return fth_expr_call1(a, FTH_OP_ABS + below(rng, 4), SUB(kind));
	case 6:
		return kind != FTH_T_DECIMAL
			       ? fth_expr_call1(a, FTH_OP_ABS, SUB(kind))
			       : fth_expr_call2(a, FTH_OP_ROUND, SUB(kind),
						fth_expr_int(a, fth_type(FTH_T_INT32),
							     (fth_i128)below(rng, 7) - 3));
	case 7:
		return fth_expr_call1(a, FTH_OP_YEAR + below(rng, 4), SUB(FTH_T_DATE));
	case 8:
		if (below(rng, 3) == 0)
			return fth_expr_call2(a, FTH_OP_POSITION, SUB(FTH_T_TEXT),
					      leaf(a, rng, b, FTH_T_TEXT, null_const));
		return below(rng, 2)
			       ? fth_expr_call1(a, FTH_OP_LENGTH, SUB(FTH_T_TEXT))
			       : fth_expr_call2(a, FTH_OP_SUB, SUB(FTH_T_DATE), SUB(FTH_T_DATE));
	default:
		return fth_expr_call2(a, FTH_OP_ADD + below(rng, kind == FTH_T_DOUBLE ? 4 : 5),
				      SUB(kind), SUB(kind));
	}
}

static struct fth_expr *choice_expr(struct fth_arena *a, struct fth_rng *rng,
				    const struct fix_batch *b, enum fth_tkind kind, unsigned depth,
				    bool *null_const)
{
	struct fth_expr *args[5];
	unsigned n = 2 + below(rng, 4);

	*null_const = true; /* what is folded may be null */
	switch (below(rng, 3)) {
	case 0:
		for (unsigned i = 0; i < n; i++)
			args[i] = i % 2 == 0 && i + 1 < n ? SUB(FTH_T_BOOL) : SUB(kind);
		return fth_expr_call(a, FTH_OP_CASE, n, args);
	case 1:
		for (unsigned i = 0; i < n; i++)
			args[i] = SUB(kind);
		return fth_expr_call(a, FTH_OP_COALESCE, n, args);
	default:
		return fth_expr_call2(a, FTH_OP_NULLIF, SUB(kind), SUB(kind));
	}
}

/* Scales can grow beyond what there is; then a leaf must do. */
struct fth_expr *fix_expr(struct fth_arena *a, struct fth_rng *rng, const struct fix_batch *b,
			  enum fth_tkind kind, unsigned depth, bool *null_const)
{
	struct fth_expr *e = NULL;

	if (depth == 0 || below(rng, 6) == 0)
		return leaf(a, rng, b, kind, null_const);
	if (below(rng, 5) == 0)
		e = choice_expr(a, rng, b, kind, depth, null_const);
	else if (kind == FTH_T_BOOL)
		e = bool_expr(a, rng, b, depth, null_const);
	else if (kind == FTH_T_TEXT)
		e = text_expr(a, rng, b, depth, null_const);
	else if (kind == FTH_T_DATE)
		e = fth_expr_call2(a, below(rng, 2) ? FTH_OP_ADD_MONTHS : FTH_OP_ADD, SUB(kind),
				   SUB(FTH_T_INT32));
	else
		e = number_expr(a, rng, b, kind, depth, null_const);
	return e ? e : leaf(a, rng, b, kind, null_const);
}
