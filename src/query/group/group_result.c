/* SPDX-License-Identifier: BSD-2-Clause */
/* From states to results: a batch of groups, a column at a time. */
#include "query/group/group_internal.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"
#include "query/vec/kern/kern.h"
#include "scalar/num.h"

#include <errno.h>

static int value_overflow(void)
{
	return fth_fail(ERANGE, "numeric value out of range");
}

/* Of the groups of a view. */
static const uint64_t *counts_of(const struct group_partial *from, unsigned i)
{
	return from->states[i].seen ? from->states[i].seen : from->rows;
}

/* Integers of 64 bits in the type of the result. */
static int put_i64(struct group_state *s, const int64_t *x, unsigned n, enum fth_phys type)
{
	fth_i128 lo, hi;
	bool outside = false;

	fth_type_range(s->aggregate->result.type, &lo, &hi);
	if (type != FTH_BITS && (lo > INT64_MIN || hi < INT64_MAX)) {
		for (unsigned i = 0; i < n; i++)
			outside |= !fth_bit(s->nulls, i) && (x[i] < lo || x[i] > hi);
		if (outside)
			return value_overflow();
	}
	if (type < FTH_I128) {
		fth_kern()->convert[type][FTH_I64](s->out, x, 0, n);
	} else if (type == FTH_I128) {
		for (unsigned i = 0; i < n; i++)
			((fth_i128 *)s->out)[i] = x[i];
	} else { /* bools */
		memset(s->out, 0, FTH_BATCH / 8);
		for (unsigned i = 0; i < n; i++)
			((uint64_t *)s->out)[i / 64] |= (uint64_t)(x[i] != 0) << i % 64;
	}
	return 0;
}

static int put_i128(struct group_state *s, const fth_i128 *x, unsigned n, enum fth_phys type)
{
	int64_t narrow[FTH_BATCH];
	fth_i128 lo, hi;

	fth_type_range(s->aggregate->result.type, &lo, &hi);
	for (unsigned i = 0; i < n; i++)
		if (!fth_bit(s->nulls, i) && (x[i] < lo || x[i] > hi))
			return value_overflow();
	if (type == FTH_I128) {
		memcpy(s->out, x, n * sizeof(*x));
		return 0;
	}
	for (unsigned i = 0; i < n; i++)
		narrow[i] = (int64_t)x[i];
	fth_kern()->convert[type][FTH_I64](s->out, narrow, 0, n);
	return 0;
}

static int put_averages(struct group_state *s, const void *values, const uint64_t *counts,
			unsigned n, enum fth_phys type)
{
	struct fth_type arg = s->arg->type;
	unsigned scale = arg.kind == FTH_T_DECIMAL ? arg.scale : 0;
	fth_i128 quotients[FTH_BATCH];

	for (unsigned i = 0; i < n; i++) {
		fth_i128 sum =
			s->wide ? ((const fth_i128 *)values)[i] : ((const int64_t *)values)[i];
		int rc = 0;

		quotients[i] = 0;
		if (!fth_bit(s->nulls, i))
			rc = fth_dec_div(sum, scale, (fth_i128)counts[i], 0,
					 s->aggregate->result.type.scale, &quotients[i]);
		if (rc < 0)
			return rc == -ERANGE ? value_overflow() : rc;
	}
	return put_i128(s, quotients, n, type);
}

static void put_reals(struct group_state *s, const double *x, const uint64_t *counts, unsigned n)
{
	double *out = s->out;

	for (unsigned i = 0; i < n; i++)
		out[i] = s->aggregate->op == TASK_AVG && counts[i] > 0 ? x[i] / (double)counts[i]
								       : x[i];
}

static void put_texts(struct group_state *s, const struct fth_str *x, unsigned n)
{
	struct fth_str *out = s->out;

	for (unsigned i = 0; i < n; i++)
		out[i] = x[i].data ? x[i] : (struct fth_str){"", 0, 0};
}

static void put_any(struct group_state *s, const char *x, unsigned n, enum fth_phys type)
{
	if (type != FTH_BITS) {
		memcpy(s->out, x, (size_t)n * s->width);
		return;
	}
	memset(s->out, 0, FTH_BATCH / 8);
	for (unsigned i = 0; i < n; i++)
		if (x[i] != 0)
			fth_bit_set(s->out, i);
}

static bool find_nulls(struct group_state *s, const struct fth_str *texts, const uint64_t *counts,
		       unsigned n)
{
	bool any = false;

	memset(s->nulls, 0, sizeof(s->nulls));
	if (s->kind == GROUP_COUNT)
		return false;
	for (unsigned i = 0; i < n; i++) {
		bool null = s->kind >= GROUP_MIN_TEXT ? !texts[i].data : counts && counts[i] == 0;

		if (null)
			fth_bit_set(s->nulls, i);
		any |= null;
	}
	return any;
}

static int put_state(struct group_state *s, const void *values, const uint64_t *counts, unsigned n,
		     enum fth_phys type)
{
	switch (s->kind) {
	case GROUP_COUNT:
		return put_i64(s, (const int64_t *)counts, n, type);
	case GROUP_SUM:
		if (s->aggregate->op == TASK_AVG)
			return put_averages(s, values, counts, n, type);
		break;
	case GROUP_MIN:
	case GROUP_MAX:
		break;
	case GROUP_ANY:
		put_any(s, values, n, type);
		return 0;
	case GROUP_SUM_REAL:
	case GROUP_MIN_REAL:
	case GROUP_MAX_REAL:
		put_reals(s, values, counts, n);
		return 0;
	default:
		put_texts(s, values, n);
		return 0;
	}
	return s->wide ? put_i128(s, values, n, type) : put_i64(s, values, n, type);
}

int group_states_batch(struct group_states *g, const struct group_partial *from,
		       struct fth_vec *out)
{
	int rc = 0;

	for (unsigned i = 0; i < g->count && rc == 0; i++) {
		struct group_state *s = &g->states[i];
		const uint64_t *counts = counts_of(from, i);
		enum fth_phys type = rows_phys(&s->aggregate->result);
		bool nulls = find_nulls(s, from->states[i].values, counts, from->n);

		rc = put_state(s, from->states[i].values, counts, from->n, type);
		out[i] = (struct fth_vec){
			.type = type, .data = s->out, .nulls = nulls ? s->nulls : NULL};
	}
	return rc;
}
