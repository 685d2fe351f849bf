/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Aggregates over vectors, by group; without GROUP BY there is one group. Null rows do not count.
 * The states are plain arrays of the caller: counts, sums in 64 or 128 bits, least and greatest
 * values.
 */
#ifndef FTH_QUERY_AGG_H
#define FTH_QUERY_AGG_H

#include "query/vec/vec.h"

/* Up to so many groups, sums are made group by group over whole vectors. */
#define FTH_AGG_FEW 8u

/* The groups of a batch; made once and used for every aggregate. */
struct fth_agg_groups {
	unsigned n, ngroups;
	const uint32_t *groups; /* of each selected row, below ngroups */
	const uint64_t *rows;
	uint64_t masks[FTH_AGG_FEW * FTH_BATCH_WORDS]; /* if ngroups <= FTH_AGG_FEW */
};

void fth_agg_groups(struct fth_agg_groups *g, unsigned n, const uint64_t *rows,
		    const uint32_t *groups, unsigned ngroups);

/* counts[group] += rows; v NULL: null rows count too. */
void fth_agg_group_count(const struct fth_agg_groups *g, const struct fth_vec *v, uint64_t *counts);
/*
 * The same in 16 bits, which are known to be enough. Returns a number that no count of these groups
 * exceeds.
 */
unsigned fth_agg_group_count_u16(const struct fth_agg_groups *g, const struct fth_vec *v,
				 uint16_t *counts);
/* Sums that are proved to fit. */
void fth_agg_group_sum_i64(const struct fth_agg_groups *g, const struct fth_vec *v, int64_t *sums);
void fth_agg_group_sum_i128(const struct fth_agg_groups *g, const struct fth_vec *v, bool in_64,
			    fth_i128 *sums);
/* Start values: INT64_MAX and INT64_MIN; the vector's values fit into 64 bits. */
void fth_agg_group_min_i64(const struct fth_agg_groups *g, const struct fth_vec *v, int64_t *mins);
void fth_agg_group_max_i64(const struct fth_agg_groups *g, const struct fth_vec *v, int64_t *maxs);
/* Start values: beyond every decimal. */
void fth_agg_group_min_i128(const struct fth_agg_groups *g, const struct fth_vec *v,
			    fth_i128 *mins);
void fth_agg_group_max_i128(const struct fth_agg_groups *g, const struct fth_vec *v,
			    fth_i128 *maxs);
void fth_agg_group_sum_f64(const struct fth_agg_groups *g, const struct fth_vec *v, double *sums);
/* Start values: NaN for the least, -infinity for the greatest. */
void fth_agg_group_min_f64(const struct fth_agg_groups *g, const struct fth_vec *v, double *mins);
void fth_agg_group_max_f64(const struct fth_agg_groups *g, const struct fth_vec *v, double *maxs);

#endif
