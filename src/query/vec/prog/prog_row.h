/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files with instructions that go row by row share. x->rows has the rows that count.
 * Scalar arguments are read in place.
 */
#ifndef FTH_QUERY_PROG_ROW_H
#define FTH_QUERY_PROG_ROW_H

#include "query/vec/prog/prog_internal.h"

#define FOR_ROWS(x, i)                                                                  \
	for (unsigned w_ = 0; w_ < fth_bits_words((x)->n); w_++)                        \
		for (uint64_t bits_ = (x)->rows[w_], i = 0;                             \
		     bits_ && ((i = w_ * 64 + (unsigned)__builtin_ctzll(bits_)), true); \
		     bits_ &= bits_ - 1)

static inline double f64_at(const struct fth_prog_run *x, int r, uint64_t i)
{
	return ((const double *)x->vals[r].data)[x->prog->regs[r].scalar ? 0 : i];
}

static inline struct fth_str str_at(const struct fth_prog_run *x, int r, uint64_t i)
{
	return ((const struct fth_str *)x->vals[r].data)[x->prog->regs[r].scalar ? 0 : i];
}

static inline fth_i128 int_at(const struct fth_prog_run *x, int r, uint64_t i)
{
	return fth_run_int(x, r, (unsigned)i);
}

static inline int row_error(const struct insn *in, int rc)
{
	return fth_run_error(in, rc, (struct fth_str){"", 0, 0});
}

/* prog_run_math.c */
int fth_row_f64_math(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_dec_sqrt(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_date_part(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_replace(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_fill(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_repeat(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_reverse(struct fth_prog_run *x, const struct insn *in, void *dst);
int fth_row_starts_with(struct fth_prog_run *x, const struct insn *in, void *dst);

#endif
