/* SPDX-License-Identifier: BSD-2-Clause */
/* States of groups into those of the same groups elsewhere. */
#include "query/group/group_internal.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"
#include "query/keys/bit_rows.h"
#include "scalar/num.h"
#include "scalar/text.h"

#include <errno.h>

#define MERGE(T, better)                               \
	do {                                           \
		const T *x = from;                     \
		T *to = s->values;                     \
		for (unsigned i = 0; i < n; i++)       \
			if (better)                    \
				to[numbers[i]] = x[i]; \
	} while (0)

#define ADD(TO, FROM)                            \
	do {                                     \
		const FROM *x = from;            \
		TO *to = s->values;              \
		for (unsigned i = 0; i < n; i++) \
			to[numbers[i]] += x[i];  \
	} while (0)

static int merge_wide_sums(struct group_state *s, const fth_i128 *from, unsigned n,
			   const uint32_t *numbers)
{
	fth_i128 *to = s->values;

	for (unsigned i = 0; i < n; i++)
		if (__builtin_add_overflow(to[numbers[i]], from[i], &to[numbers[i]]))
			return fth_fail(ERANGE, "numeric value out of range");
	return 0;
}

static void merge_any(struct group_state *s, const char *from, const uint64_t *seen, unsigned n,
		      const uint32_t *numbers)
{
	for (unsigned i = 0; i < n; i++)
		if (!seen || seen[i] > 0)
			memcpy((char *)s->values + (size_t)numbers[i] * s->width,
			       from + (size_t)i * s->width, s->width);
}

/* A group without a value has the start value, which changes nothing. */
static int merge_values(struct group_state *s, const void *from, bool wide, const uint64_t *seen,
			unsigned n, const uint32_t *numbers)
{
	switch (s->kind) {
	case GROUP_SUM:
		if (s->wide && wide)
			return merge_wide_sums(s, from, n, numbers);
		if (s->wide)
			ADD(fth_i128, int64_t);
		else
			ADD(int64_t, int64_t);
		break;
	case GROUP_MIN:
		if (s->wide)
			MERGE(fth_i128, x[i] < to[numbers[i]]);
		else
			MERGE(int64_t, x[i] < to[numbers[i]]);
		break;
	case GROUP_MAX:
		if (s->wide)
			MERGE(fth_i128, x[i] > to[numbers[i]]);
		else
			MERGE(int64_t, x[i] > to[numbers[i]]);
		break;
	case GROUP_ANY:
		merge_any(s, from, seen, n, numbers);
		break;
	case GROUP_SUM_REAL:
		ADD(double, double);
		break;
	case GROUP_MIN_REAL:
		MERGE(double, fth_f64_order(x[i]) < fth_f64_order(to[numbers[i]]));
		break;
	case GROUP_MAX_REAL:
		MERGE(double, fth_f64_order(x[i]) > fth_f64_order(to[numbers[i]]));
		break;
	default:
		break;
	}
	return 0;
}

static int merge_texts(struct group_states *g, struct group_state *s, const struct fth_str *from,
		       unsigned n, const uint32_t *numbers)
{
	struct fth_str *to = s->values;

	for (unsigned i = 0; i < n; i++) {
		struct fth_str *kept = &to[numbers[i]];
		int c;

		if (!from[i].data || (kept->data && s->kind == GROUP_ANY_TEXT))
			continue;
		c = kept->data ? fth_str_cmp(from[i], *kept) : 0;
		if (kept->data && (s->kind == GROUP_MIN_TEXT ? c >= 0 : c <= 0))
			continue;
		if (group_keep_text(g, kept, from[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Whether all sums fit 16 bits: a group may come several times, if it was spilled several times.
 * Leaves counts as they were.
 */
static bool fits_narrow(const struct group_counts *c, const uint64_t *from, unsigned n,
			const uint32_t *numbers)
{
	uint16_t *narrow = c->counts;
	unsigned i = 0;

	for (; i < n && narrow[numbers[i]] + (from ? from[i] : 1) <= UINT16_MAX; i++)
		narrow[numbers[i]] = (uint16_t)(narrow[numbers[i]] + (from ? from[i] : 1));
	for (unsigned k = 0; k < i; k++)
		narrow[numbers[k]] = (uint16_t)(narrow[numbers[k]] - (from ? from[k] : 1));
	return i == n;
}

/* Counts to which those of others can be added. */
static int widen_for(struct group_states *g, struct group_counts *c, const uint64_t *from,
		     unsigned n, const uint32_t *numbers)
{
	if (!c->counts || c->wide || fits_narrow(c, from, n, numbers))
		return 0;
	return group_counts_widen(c, g->mem, g->started, (uint64_t)UINT16_MAX + 1);
}

static int widen_counts(struct group_states *g, const struct group_partial *from,
			const uint32_t *numbers)
{
	int rc = from->distinct ? 0 : widen_for(g, &g->rows, from->rows, from->n, numbers);

	for (unsigned i = 0; i < g->count && rc == 0; i++)
		if (g->states[i].distinct == from->distinct)
			rc = widen_for(g, &g->states[i].seen, from->states[i].seen, from->n,
				       numbers);
	return rc;
}

int group_states_merge(struct group_states *g, const struct group_partial *from,
		       const uint32_t *numbers)
{
	int rc = group_widen_sums(g, g->added + from->added);
	bool wide = false;

	for (unsigned i = 0; i < g->count; i++)
		wide |= g->states[i].kind == GROUP_SUM && from->states[i].wide &&
			g->states[i].distinct == from->distinct;
	if (rc == 0 && wide)
		rc = group_widen_sums(g, UINT64_MAX);
	if (rc == 0)
		rc = widen_counts(g, from, numbers);
	for (unsigned i = 0; i < g->count && rc == 0; i++)
		if (g->states[i].kind >= GROUP_MIN_TEXT && !from->distinct)
			rc = merge_texts(g, &g->states[i], from->states[i].values, from->n,
					 numbers);
	if (rc < 0)
		return rc;
	g->added += from->added;
	if (g->rows.counts && !from->distinct)
		group_counts_merge(&g->rows, from->rows, from->n, numbers);
	for (unsigned i = 0; i < g->count && rc == 0; i++) {
		struct group_state *s = &g->states[i];

		if (s->distinct != from->distinct)
			continue;
		if (s->seen.counts)
			group_counts_merge(&s->seen, from->states[i].seen, from->n, numbers);
		rc = merge_values(s, from->states[i].values, from->states[i].wide,
				  from->states[i].seen, from->n, numbers);
	}
	return rc;
}
