/* SPDX-License-Identifier: BSD-2-Clause */
/* Random columns, random expressions, and an interpreter that takes them literally, row by row. */
#ifndef FTH_PROG_FIXTURE_H
#define FTH_PROG_FIXTURE_H

#include "query/vec/prog/expression.h"

#include "fathom/base/rng.h"

#define FIX_COLUMNS 14
#define FIX_TEXT    256

struct fix_value {
	bool null;
	int error; /* negative errno */
	fth_i128 i;
	double f;
	uint32_t len;
	char s[FIX_TEXT];
};

void fix_set_text(struct fix_value *v, const char *s);

/* The columns of one batch: vectors as programs get them, and the same values plainly. */
struct fix_batch {
	unsigned n;
	struct fth_vec vecs[FIX_COLUMNS];
	struct fth_type types[FIX_COLUMNS];
	fth_i128 lo[FIX_COLUMNS], hi[FIX_COLUMNS];
	struct fix_value *values[FIX_COLUMNS]; /* [row] */
	struct fth_dict dicts[FIX_COLUMNS];
};

void fix_batch_make(struct fix_batch *b, struct fth_rng *rng, unsigned n);
void fix_batch_free(struct fix_batch *b);

/* An expression of the kind, at most `depth` deep; *null_const: it has a null constant. */
struct fth_expr *fix_expr(struct fth_arena *a, struct fth_rng *rng, const struct fix_batch *b,
			  enum fth_tkind kind, unsigned depth, bool *null_const);

/* Row i of the expression. */
void fix_eval(const struct fth_expr *e, const struct fix_batch *b, unsigned i,
	      struct fix_value *out);

#endif
