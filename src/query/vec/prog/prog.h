/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs: expressions, compiled into straight-line code over vector registers.
 *
 *	fth_prog_compile(mem, &roots, 2, &prog);
 *	fth_prog_run_new(prog, mem, &run);
 *	for each batch:
 *		fth_prog_exec(run, columns, n, selected, results);
 *
 * A program is constant and shared by all threads. Each thread has a run of its own, with the
 * registers.
 *
 * Every value is computed in the narrowest type that the ranges of the columns prove safe.
 * Arithmetic that they do not prove safe is checked. An error of a row surfaces only if the row is
 * selected and the expression's value is needed for it (see FTH_OP_CASE, FTH_OP_AND). What a result
 * holds for rows that are not selected is unspecified.
 */
#ifndef FTH_QUERY_PROG_H
#define FTH_QUERY_PROG_H

#include "query/vec/prog/expression.h"

struct fth_prog;
struct fth_prog_run;

/* What is known of a result before it is computed. */
struct fth_prog_out {
	enum fth_phys type;
	struct fth_type logical;
	bool nullable;
	fth_i128 lo, hi; /* of an integer-like type */
};

/*
 * Compile. The trees may go when this returns. Returns 0; -ENOMEM; -EINVAL for a constant argument
 * that is invalid whatever the rows are, such as a pattern.
 */
int fth_prog_compile(struct fth_qmem *mem, struct fth_expr *const *roots, unsigned nroots,
		     struct fth_prog **out);
void fth_prog_free(struct fth_prog *prog);

const struct fth_prog_out *fth_prog_output(const struct fth_prog *prog, unsigned root);
/* The number of instructions. */
unsigned fth_prog_length(const struct fth_prog *prog);

/* The memory of a run, without texts that it computes and tables for dictionaries. */
size_t fth_prog_run_bound(const struct fth_prog *prog);
int fth_prog_run_new(const struct fth_prog *prog, struct fth_qmem *mem, struct fth_prog_run **out);
void fth_prog_run_free(struct fth_prog_run *run);

/*
 * Compute the results of n <= FTH_BATCH rows. columns[i] is the column with number i; those that no
 * expression uses may be anything. selected: NULL for all rows. results[i] is valid until the run's
 * next call; its base is 0. Returns 0 or the error of a selected row, with PostgreSQL's text:
 * -ERANGE, -EDOM (division by zero), -EINVAL (a cast of text); or -ENOMEM.
 */
int fth_prog_exec(struct fth_prog_run *run, const struct fth_vec *columns, unsigned n,
		  const uint64_t *selected, struct fth_vec *results);

/* Keep those rows of the selection for which the first result, a bool, is true. */
int fth_prog_filter(struct fth_prog_run *run, const struct fth_vec *columns, struct fth_sel *sel);

#endif
