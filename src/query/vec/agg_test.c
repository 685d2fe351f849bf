/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Aggregates against a loop over the rows, for all types, with nulls, bases, and few or many
 * groups.
 */
#include "fth_test.h"

#include "query/vec/agg.h"
#include "query/vec/kern/kern.h"

#include "fathom/base/rng.h"

#include <math.h>
#include <stdlib.h>

static _Alignas(16) char data[FTH_BATCH * 16];
static uint64_t nulls[FTH_BATCH_WORDS], rows[FTH_BATCH_WORDS];
static uint32_t groups[FTH_BATCH];

static void make(struct fth_rng *rng, struct fth_vec *v, unsigned type, unsigned n)
{
	*v = (struct fth_vec){
		.type = type, .data = data, .base = (int64_t)fth_rng_below(rng, 1000) - 500};
	for (unsigned i = 0; i < n; i++) {
		fth_i128 x =
			(fth_i128)(int64_t)fth_rng_next(rng) * (type == FTH_I128 ? 1000000007 : 1);

		if (type == FTH_I64)
			x /= 1 << 20;
		memcpy(data + i * fth_phys_width(type), &x, fth_phys_width(type));
	}
	memset(nulls, 0, sizeof(nulls));
	memset(rows, 0, sizeof(rows));
	for (unsigned i = 0; i < n; i++) {
		if (fth_rng_below(rng, 4) == 0)
			fth_bit_set(nulls, i);
		if (fth_rng_below(rng, 3) > 0)
			fth_bit_set(rows, i);
	}
	v->nulls = fth_rng_below(rng, 2) ? nulls : NULL;
}

static bool counts(const struct fth_vec *v, unsigned i)
{
	return fth_bit(rows, i) && !(v->nulls && fth_bit(v->nulls, i));
}

#define GROUPS 40

static void check_groups(const struct fth_vec *v, unsigned n, unsigned ngroups)
{
	static struct fth_agg_groups g;
	fth_i128 sums[GROUPS] = {0}, want[GROUPS] = {0}, min[GROUPS], max[GROUPS], low[GROUPS],
		 high[GROUPS];
	int64_t narrow[GROUPS] = {0}, min64[GROUPS], max64[GROUPS];
	uint64_t count[GROUPS] = {0}, all[GROUPS] = {0}, want_count[GROUPS] = {0},
		 want_all[GROUPS] = {0};

	for (unsigned k = 0; k < ngroups; k++) {
		min[k] = low[k] = (fth_i128)1 << 126;
		max[k] = high[k] = -min[k];
		min64[k] = INT64_MAX;
		max64[k] = INT64_MIN;
	}
	for (unsigned i = 0; i < n; i++) {
		fth_i128 x = fth_vec_int(v, i);
		unsigned k = groups[i];

		want_all[k] += fth_bit(rows, i);
		if (!counts(v, i))
			continue;
		want[k] += x;
		want_count[k]++;
		low[k] = x < low[k] ? x : low[k];
		high[k] = x > high[k] ? x : high[k];
	}
	fth_agg_groups(&g, n, rows, groups, ngroups);
	fth_agg_group_count(&g, v, count);
	fth_agg_group_count(&g, NULL, all);
	fth_agg_group_sum_i128(&g, v, true, sums);
	fth_agg_group_min_i128(&g, v, min);
	fth_agg_group_max_i128(&g, v, max);
	for (unsigned k = 0; k < ngroups; k++) {
		assert_true(count[k] == want_count[k] && all[k] == want_all[k]);
		assert_true(sums[k] == want[k] && min[k] == low[k] && max[k] == high[k]);
	}
	if (v->type == FTH_I128)
		return;
	fth_agg_group_sum_i64(&g, v, narrow);
	fth_agg_group_min_i64(&g, v, min64);
	fth_agg_group_max_i64(&g, v, max64);
	for (unsigned k = 0; k < ngroups; k++) {
		assert_true(narrow[k] == want[k]);
		assert_true(want_count[k] == 0 || (min64[k] == low[k] && max64[k] == high[k]));
	}
}

static void integers_of_all_widths(void **state)
{
	static const unsigned lengths[] = {0, 1, 64, 100, 1000, 4096},
			      group_counts[] = {1, 4, 8, 9, GROUPS};
	const struct fth_kern *k;
	struct fth_rng rng = {1};
	struct fth_vec v;

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++) {
		fth_kern_use(k);
		for (unsigned type = FTH_I8; type <= FTH_I128; type++)
			for (unsigned l = 0; l < 6; l++)
				for (unsigned c = 0; c < 5; c++) {
					make(&rng, &v, type, lengths[l]);
					for (unsigned i = 0; i < lengths[l]; i++)
						groups[i] = (uint32_t)fth_rng_below(
							&rng, group_counts[c]);
					check_groups(&v, lengths[l], group_counts[c]);
				}
	}
	fth_kern_use(NULL);
}

static void doubles(void **state)
{
	double x[4] = {1.5, NAN, -2, 0};
	struct fth_vec f = {.type = FTH_F64, .data = x};
	struct fth_agg_groups g;
	uint64_t all = 15;
	double sums[2] = {0}, mins[2] = {NAN, NAN}, maxs[2] = {-INFINITY, -INFINITY};
	uint32_t group[4] = {0, 1, 0, 1};

	(void)state;
	fth_agg_groups(&g, 4, &all, group, 2);
	fth_agg_group_sum_f64(&g, &f, sums);
	fth_agg_group_min_f64(&g, &f, mins);
	fth_agg_group_max_f64(&g, &f, maxs);
	assert_true(sums[0] == -0.5 && sums[1] != sums[1]);
	assert_true(mins[0] == -2 && mins[1] == 0 && maxs[0] == 1.5 && maxs[1] != maxs[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_of_all_widths),
		cmocka_unit_test(doubles),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
