/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grouping. Beside it: group_key.c and group_words.c the numbers of groups, group_state.c the aggregates,
 * group_merge.c groups of several threads, group_result.c what comes out. group_internal.h has the invariants.
 */
#include "query/task/group_internal.h"
#include "query/task/rows.h"

#include "fathom/base/error.h"

#include <errno.h>

/* Below this part of rows a batch is made dense. */
#define DENSE_PART 4

/* ---- opening ---- */

static unsigned column_count(const struct grouper *g)
{
	return g->spec->key_count + g->spec->aggregate_count;
}

static int alloc_grouper(struct grouper *g)
{
	size_t n = column_count(g) + 1;

	g->numbers = fth_qmem_zalloc(g->mem, FTH_BATCH * sizeof(*g->numbers));
	g->list = fth_qmem_alloc(g->mem, (FTH_BATCH + 64) * sizeof(*g->list));
	g->dense = fth_qmem_zalloc(g->mem, n * sizeof(*g->dense));
	g->columns = fth_qmem_zalloc(g->mem, n * sizeof(struct fth_vec *));
	return g->numbers == NULL || g->list == NULL || g->dense == NULL || g->columns == NULL
		       ? -ENOMEM
		       : 0;
}

int grouper_open(struct fth_qmem *mem, const struct grouper_spec *spec, struct grouper **out)
{
	struct grouper *g = fth_qmem_zalloc(mem, sizeof(*g));
	int rc;

	*out = NULL;
	if (g == NULL)
		return -ENOMEM;
	g->mem = mem;
	g->spec = spec;
	rc = spec->aggregate_count > GROUP_STATES
		     ? fth_fail(EOPNOTSUPP, "more than %u aggregates are not supported",
				GROUP_STATES)
		     : alloc_grouper(g);
	if (rc == 0)
		rc = group_key_init(&g->key, mem, spec->keys, spec->key_count, spec->runs);
	if (rc == 0)
		rc = group_states_init(&g->states, mem, spec->aggregates, spec->aggregate_count,
				       spec->slots, spec->key_count > 0);
	if (rc < 0) {
		grouper_close(g);
		return rc;
	}
	*out = g;
	return 0;
}

void grouper_close(struct grouper *g)
{
	size_t n;

	if (g == NULL)
		return;
	n = column_count(g) + 1;
	if (g->states.mem != NULL)
		group_states_release(&g->states);
	if (g->key.mem != NULL)
		group_key_release(&g->key);
	for (unsigned i = 0; i < n && g->dense != NULL; i++) {
		fth_qmem_free(g->mem, g->dense[i].values, FTH_BATCH * 16);
		fth_qmem_free(g->mem, g->dense[i].nulls, FTH_BATCH / 8);
	}
	fth_qmem_free(g->mem, g->dense, n * sizeof(*g->dense));
	fth_qmem_free(g->mem, g->columns, n * sizeof(struct fth_vec *));
	fth_qmem_free(g->mem, g->numbers, FTH_BATCH * sizeof(*g->numbers));
	fth_qmem_free(g->mem, g->list, (FTH_BATCH + 64) * sizeof(*g->list));
	fth_qmem_free(g->mem, g, sizeof(*g));
}

void grouper_reset(struct grouper *g)
{
	group_key_clear(&g->key, g->spec->runs);
	group_states_clear(&g->states);
	g->states.added = 0;
}

uint32_t grouper_count(const struct grouper *g)
{
	return g->states.started;
}

/* ---- dense batches ---- */

static int make_dense(struct grouper *g, unsigned column, const struct fth_vec *from, unsigned n)
{
	struct group_dense *d = &g->dense[column];

	if (d->values == NULL) {
		d->values = fth_qmem_alloc(g->mem, FTH_BATCH * 16);
		d->nulls = fth_qmem_alloc(g->mem, FTH_BATCH / 8);
		if (d->values == NULL || d->nulls == NULL)
			return -ENOMEM;
	}
	d->vec = *from;
	d->vec.data = d->values;
	d->vec.block = NULL;
	if (from->type == FTH_BITS)
		fth_bits_gather(d->values, from->data, g->list, n);
	else
		fth_vec_gather(from->type, d->values, from->data, g->list, n);
	if (from->nulls != NULL) {
		fth_bits_gather(d->nulls, from->nulls, g->list, n);
		d->vec.nulls = d->nulls;
	}
	return 0;
}

/* Columns that several aggregates use are made dense once. */
static int dense_columns(struct grouper *g, struct fth_vec *const *keys,
			 struct fth_vec *const *args, unsigned n)
{
	unsigned key_count = g->spec->key_count;

	for (unsigned i = 0; i < column_count(g); i++) {
		const struct fth_vec *from = i < key_count ? keys[i] : args[i - key_count];
		unsigned same = key_count;

		g->columns[i] = NULL;
		if (from == NULL)
			continue;
		while (i >= key_count && same < i && args[same - key_count] != from)
			same++;
		if (i >= key_count && same < i) {
			g->columns[i] = g->columns[same];
			continue;
		}
		if (make_dense(g, i, from, n) < 0)
			return -ENOMEM;
		g->columns[i] = &g->dense[i].vec;
	}
	return 0;
}

/* ---- adding ---- */

/* A batch of n rows, of which those in `rows` count. */
static int add_batch(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		     unsigned n, const uint64_t *rows)
{
	struct group_batch *b = &g->batch;
	int rc = group_states_reserve(&g->states, (uint64_t)g->key.groups.count + n);

	if (rc == 0)
		rc = group_key_number(&g->key, keys, n, rows, g->numbers, &g->runs);
	if (rc < 0)
		return rc;
	group_states_start(&g->states, g->key.groups.count);
	b->n = n;
	b->rows = rows;
	b->numbers = g->numbers;
	b->runs = g->runs.count > 0 ? &g->runs : NULL;
	fth_agg_groups(&b->groups, n, rows, g->numbers, g->key.groups.count);
	rc = group_states_prepare(&g->states, args, b);
	return rc < 0 ? rc : group_states_add(&g->states, args, b);
}

int grouper_add(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		const struct fth_sel *sel)
{
	unsigned key_count = g->spec->key_count;
	int rc;

	if (sel->count == 0)
		return 0;
	if (sel->count == sel->n || (!g->key.ordered && sel->count >= sel->n / DENSE_PART))
		return add_batch(g, keys, args, sel->n, sel->bits);
	fth_bits_rows(sel->bits, sel->n, g->list);
	rc = dense_columns(g, keys, args, sel->count);
	if (rc < 0)
		return rc;
	fth_bits_fill(g->all, sel->count);
	return add_batch(g, g->columns, g->columns + key_count, sel->count, g->all);
}

int grouper_one(struct grouper *g)
{
	uint64_t one = 1;
	fth_u128 key = 0;
	uint32_t number;
	int rc;

	if (g->key.groups.count > 0)
		return 0;
	rc = group_states_reserve(&g->states, 1);
	if (rc == 0)
		rc = fth_groups_find(&g->key.groups, &key, 1, &one, &number, NULL);
	if (rc == 0)
		group_states_start(&g->states, 1);
	return rc;
}

/* ---- merging ---- */

static void view_partial(const struct grouper *g, uint32_t first, unsigned n,
			 struct group_partial *out)
{
	const struct group_states *s = &g->states;

	out->n = n;
	out->added = first == 0 ? s->added : 0;
	out->rows = s->rows == NULL ? NULL : s->rows + first;
	for (unsigned i = 0; i < s->count; i++) {
		const struct group_state *state = &s->states[i];

		out->states[i].values = (const char *)state->values + (size_t)first * state->width;
		out->states[i].wide = state->wide;
		out->states[i].seen = state->seen == NULL ? NULL : state->seen + first;
	}
}

/* Groups of key columns and their states. numbers[] are their numbers here. */
static int merge_batch(struct grouper *g, struct fth_vec *const *keys,
		       const struct group_partial *from, uint32_t *numbers)
{
	int rc = group_states_reserve(&g->states, (uint64_t)g->key.groups.count + from->n);

	fth_bits_fill(g->all, from->n);
	if (rc == 0)
		rc = group_key_number(&g->key, keys, from->n, g->all, numbers, &g->runs);
	if (rc < 0)
		return rc;
	group_states_start(&g->states, g->key.groups.count);
	return group_states_merge(&g->states, from, numbers);
}

static int merge_groups(struct grouper *g, struct grouper *other, uint32_t *numbers)
{
	struct group_partial *from = fth_qmem_alloc(g->mem, sizeof(*from));
	struct fth_vec keys[FTH_KEY_COLUMNS], *pointers[FTH_KEY_COLUMNS];
	uint32_t count = grouper_count(other);
	int rc = from == NULL ? -ENOMEM : 0;

	for (unsigned i = 0; i < g->spec->key_count; i++)
		pointers[i] = &keys[i];
	for (uint32_t first = 0; first < count && rc == 0; first += FTH_BATCH) {
		unsigned n = count - first < FTH_BATCH ? count - first : FTH_BATCH;

		group_key_batch(&other->key, first, n, keys);
		view_partial(other, first, n, from);
		rc = merge_batch(g, pointers, from, numbers + first);
	}
	fth_qmem_free(g->mem, from, sizeof(*from));
	return rc;
}

static int merge_pairs(struct grouper *g, struct grouper *other, unsigned i,
		       const uint32_t *numbers)
{
	uint32_t count = other->states.states[i].pairs.count;
	int rc = 0;

	for (uint32_t first = 0; first < count && rc == 0; first += FTH_BATCH) {
		unsigned n = count - first < FTH_BATCH ? count - first : FTH_BATCH;
		struct fth_vec values;

		group_states_values(&other->states, i, first, n, &values, g->numbers);
		for (unsigned k = 0; k < n; k++)
			g->numbers[k] = numbers[g->numbers[k]];
		rc = group_states_merge_values(&g->states, i, &values, n, g->numbers);
	}
	return rc;
}

int grouper_merge(struct grouper *g, struct grouper *other)
{
	size_t bytes = ((size_t)grouper_count(other) + FTH_BATCH) * sizeof(uint32_t);
	uint32_t *numbers = fth_qmem_alloc(g->mem, bytes);
	int rc = numbers == NULL ? -ENOMEM : merge_groups(g, other, numbers);

	for (unsigned i = 0; i < g->spec->aggregate_count && rc == 0; i++)
		if (g->states.states[i].distinct)
			rc = merge_pairs(g, other, i, numbers);
	fth_qmem_free(g->mem, numbers, bytes);
	return rc;
}

/* ---- results ---- */

int grouper_batch(struct grouper *g, uint32_t first, struct fth_vec *columns)
{
	uint32_t count = grouper_count(g);
	unsigned n = count - first < FTH_BATCH ? count - first : FTH_BATCH;
	int rc;

	group_key_batch(&g->key, first, n, columns);
	rc = group_states_batch(&g->states, first, n, columns + g->spec->key_count);
	return rc < 0 ? rc : (int)n;
}
