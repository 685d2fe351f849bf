/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Aggregates. With few groups each has a mask of its rows, and the loops over whole vectors do the
 * work. With many, each row adds to its group.
 */
#include "query/vec/agg.h"
#include "query/vec/kern/kern.h"
#include "scalar/num.h"

/* rows without nulls; into `buffer` if there are any. */
static const uint64_t *live_rows(const struct fth_vec *v, unsigned n, const uint64_t *rows,
				 uint64_t *buffer)
{
	if (!v || !v->nulls)
		return rows;
	for (unsigned i = 0; i < fth_bits_words(n); i++)
		buffer[i] = rows[i] & ~v->nulls[i];
	return buffer;
}

#define FOR_BITS(bits, n, i)                                                            \
	for (unsigned w_ = 0; w_ < fth_bits_words(n); w_++)                             \
		for (uint64_t bits_ = (bits)[w_], i = 0;                                \
		     bits_ && ((i = w_ * 64 + (unsigned)__builtin_ctzll(bits_)), true); \
		     bits_ &= bits_ - 1)

static fth_i128 sum_wide(const struct fth_vec *v, unsigned n, const uint64_t *rows)
{
	fth_i128 sum = 0;

	if (v->type == FTH_I64) {
		const int64_t *x = v->data;

		FOR_BITS(rows, n, i)
		sum += x[i];
	} else {
		const fth_i128 *x = v->data;

		FOR_BITS(rows, n, i)
		sum += x[i];
	}
	return sum;
}

static fth_i128 sum_rows(const struct fth_vec *v, unsigned n, const uint64_t *rows, bool in_64)
{
	fth_i128 sum;

	if (v->type < FTH_I64 || (v->type == FTH_I64 && in_64))
		sum = fth_kern()->sum[v->type](v->data, rows, n);
	else
		sum = sum_wide(v, n, rows);
	return v->base ? sum + (fth_i128)v->base * fth_bits_count(rows, n) : sum;
}

void fth_agg_groups(struct fth_agg_groups *g, unsigned n, const uint64_t *rows,
		    const uint32_t *groups, unsigned ngroups)
{
	g->n = n;
	g->ngroups = ngroups;
	g->groups = groups;
	g->rows = rows;
	if (ngroups <= FTH_AGG_FEW)
		fth_kern()->group_masks(groups, rows, n, ngroups, g->masks);
}

static const uint64_t *rows_of_group(const struct fth_agg_groups *g, const struct fth_vec *v,
				     unsigned group, uint64_t *buffer)
{
	return live_rows(v, g->n, g->masks + group * FTH_BATCH_WORDS, buffer);
}

void fth_agg_group_count(const struct fth_agg_groups *g, const struct fth_vec *v, uint64_t *counts)
{
	uint64_t buffer[FTH_BATCH_WORDS];
	const uint64_t *rows;

	if (g->ngroups <= FTH_AGG_FEW) {
		for (unsigned k = 0; k < g->ngroups; k++)
			counts[k] += fth_bits_count(rows_of_group(g, v, k, buffer), g->n);
		return;
	}
	rows = live_rows(v, g->n, g->rows, buffer);
	FOR_BITS(rows, g->n, i)
	counts[g->groups[i]]++;
}

static unsigned count_few_u16(const struct fth_agg_groups *g, const struct fth_vec *v,
			      uint16_t *counts)
{
	uint64_t buffer[FTH_BATCH_WORDS];
	unsigned most = 0;

	for (unsigned k = 0; k < g->ngroups; k++) {
		unsigned rows = fth_bits_count(rows_of_group(g, v, k, buffer), g->n);

		counts[k] = (uint16_t)(counts[k] + rows);
		most = counts[k] > most ? counts[k] : most;
	}
	return most;
}

unsigned fth_agg_group_count_u16(const struct fth_agg_groups *g, const struct fth_vec *v,
				 uint16_t *counts)
{
	uint64_t buffer[FTH_BATCH_WORDS];
	const uint64_t *rows;
	unsigned most = 0;

	if (g->ngroups <= FTH_AGG_FEW)
		return count_few_u16(g, v, counts);
	rows = live_rows(v, g->n, g->rows, buffer);
	FOR_BITS(rows, g->n, i)
	{
		unsigned count = ++counts[g->groups[i]];

		most = count > most ? count : most;
	}
	return most;
}

/* Values of rows as 64-bit integers, in place if they are that already. */
static const int64_t *as_i64(const struct fth_vec *v, unsigned n, int64_t *buffer)
{
	if (v->type == FTH_I64 && v->base == 0)
		return v->data;
	fth_vec_to_i64(buffer, v, n);
	return buffer;
}

void fth_agg_group_sum_i64(const struct fth_agg_groups *g, const struct fth_vec *v, int64_t *sums)
{
	uint64_t buffer[FTH_BATCH_WORDS];
	int64_t values[FTH_BATCH];
	const uint64_t *rows;
	const int64_t *x;

	if (g->ngroups <= FTH_AGG_FEW) {
		for (unsigned k = 0; k < g->ngroups; k++) {
			rows = rows_of_group(g, v, k, buffer);
			sums[k] += (int64_t)sum_rows(v, g->n, rows, true);
		}
		return;
	}
	rows = live_rows(v, g->n, g->rows, buffer);
	x = as_i64(v, g->n, values);
	FOR_BITS(rows, g->n, i)
	sums[g->groups[i]] += x[i];
}

void fth_agg_group_sum_i128(const struct fth_agg_groups *g, const struct fth_vec *v, bool in_64,
			    fth_i128 *sums)
{
	uint64_t buffer[FTH_BATCH_WORDS];
	const uint64_t *rows;

	if (g->ngroups <= FTH_AGG_FEW) {
		for (unsigned k = 0; k < g->ngroups; k++) {
			rows = rows_of_group(g, v, k, buffer);
			sums[k] += sum_rows(v, g->n, rows, in_64);
		}
		return;
	}
	rows = live_rows(v, g->n, g->rows, buffer);
	if (v->type <= FTH_I64) {
		int64_t values[FTH_BATCH];
		const int64_t *x = as_i64(v, g->n, values);

		FOR_BITS(rows, g->n, i)
		sums[g->groups[i]] += x[i];
		return;
	}
	FOR_BITS(rows, g->n, i)
	sums[g->groups[i]] += fth_vec_int(v, (unsigned)i);
}

#define DEFINE_EXTREME(name, T, GET, BETTER)                                        \
	void name(const struct fth_agg_groups *g, const struct fth_vec *v, T *best) \
	{                                                                           \
		uint64_t buffer[FTH_BATCH_WORDS];                                   \
		const uint64_t *rows = live_rows(v, g->n, g->rows, buffer);         \
                                                                                    \
		FOR_BITS(rows, g->n, i)                                             \
		{                                                                   \
			T x = GET, *b = &best[g->groups[i]];                        \
                                                                                    \
			if (BETTER)                                                 \
				*b = x;                                             \
		}                                                                   \
	}

#define INT_AT	       (int64_t) fth_vec_int(v, (unsigned)i)
#define WIDE_AT	       fth_vec_int(v, (unsigned)i)
#define F64_AT	       ((const double *)v->data)[i]
#define F64_LESS(a, b) (fth_f64_order(a) < fth_f64_order(b))
DEFINE_EXTREME(fth_agg_group_min_i64, int64_t, INT_AT, x < *b)
DEFINE_EXTREME(fth_agg_group_max_i64, int64_t, INT_AT, x > *b)
DEFINE_EXTREME(fth_agg_group_min_i128, fth_i128, WIDE_AT, x < *b)
DEFINE_EXTREME(fth_agg_group_max_i128, fth_i128, WIDE_AT, x > *b)
DEFINE_EXTREME(fth_agg_group_min_f64, double, F64_AT, F64_LESS(x, *b))
DEFINE_EXTREME(fth_agg_group_max_f64, double, F64_AT, F64_LESS(*b, x))

void fth_agg_group_sum_f64(const struct fth_agg_groups *g, const struct fth_vec *v, double *sums)
{
	uint64_t buffer[FTH_BATCH_WORDS];
	const uint64_t *rows = live_rows(v, g->n, g->rows, buffer);
	const double *x = v->data;

	FOR_BITS(rows, g->n, i)
	sums[g->groups[i]] += x[i];
}
