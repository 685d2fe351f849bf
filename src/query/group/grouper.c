/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grouping. Beside it: group_key.c and group_words.c the numbers of groups, group_state.c the
 * aggregates, group_merge.c groups of several threads, group_result.c what comes out.
 * group_internal.h has the invariants.
 */
#include "query/group/group_block.h"
#include "query/group/group_internal.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"

#include <errno.h>

/* Below this part of rows a batch is made dense. */
#define DENSE_PART 4
/* A batch is not divided further than this. */
#define SLICE 64u

/* ---- opening ---- */

static unsigned column_count(const struct grouper *g)
{
	return g->spec.key_count + g->spec.aggregate_count;
}

static int alloc_grouper(struct grouper *g)
{
	size_t n = column_count(g) + 1;

	g->numbers = fth_qmem_zalloc(g->mem, FTH_BATCH * sizeof(*g->numbers));
	g->list = fth_qmem_alloc(g->mem, (FTH_BATCH + 64) * sizeof(*g->list));
	g->dense = fth_qmem_zalloc(g->mem, n * sizeof(*g->dense));
	g->columns = fth_qmem_zalloc(g->mem, n * sizeof(struct fth_vec *));
	return !g->numbers || !g->list || !g->dense || !g->columns ? -ENOMEM : 0;
}

static int copy_keys(struct grouper *g, const struct grouper_spec *spec)
{
	g->key_slots = fth_qmem_alloc(g->mem, (spec->key_count + 1) * sizeof(*g->key_slots));
	if (!g->key_slots)
		return -ENOMEM;
	if (spec->key_count > 0)
		memcpy(g->key_slots, spec->keys, spec->key_count * sizeof(*g->key_slots));
	g->spec.keys = g->key_slots;
	return 0;
}

static int open_parts(struct grouper *g)
{
	const struct grouper_spec *spec = &g->spec;
	int rc = group_key_init(&g->key, g->mem, spec->keys, spec->key_count, spec->runs);

	return rc < 0 ? rc
		      : group_states_init(&g->states, g->mem, g->parent, spec->aggregates,
					  spec->aggregate_count, spec->slots, spec->key_count > 0);
}

int grouper_open(struct fth_qmem *mem, const struct grouper_spec *spec, struct grouper **out)
{
	struct grouper *g = fth_qmem_zalloc(mem, sizeof(*g));
	int rc;

	*out = NULL;
	if (!g)
		return -ENOMEM;
	g->parent = mem;
	g->spec = *spec;
	g->mem = fth_qmem_child(mem, "groups", spec->memory > 0 ? spec->memory : FTH_QMEM_NO_LIMIT);
	rc = g->mem ? copy_keys(g, spec) : -ENOMEM;
	if (rc == 0 && spec->aggregate_count > GROUP_STATES)
		rc = fth_fail(EOPNOTSUPP, "more than %u aggregates are not supported",
			      GROUP_STATES);
	if (rc == 0)
		rc = alloc_grouper(g);
	if (rc == 0)
		rc = open_parts(g);
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

	if (!g)
		return;
	if (!g->mem) {
		fth_qmem_free(g->parent, g, sizeof(*g));
		return;
	}
	n = column_count(g) + 1;
	fth_qmem_free(g->parent, g->view, sizeof(*g->view));
	group_blocks_free(g->blocks);
	if (g->states.mem)
		group_states_release(&g->states);
	if (g->key.mem)
		group_key_release(&g->key);
	for (unsigned i = 0; i < n && g->dense; i++) {
		fth_qmem_free(g->parent, g->dense[i].values, g->dense[i].bytes);
		fth_qmem_free(g->parent, g->dense[i].nulls, FTH_BATCH / 8);
	}
	fth_qmem_free(g->mem, g->dense, n * sizeof(*g->dense));
	fth_qmem_free(g->mem, g->columns, n * sizeof(struct fth_vec *));
	fth_qmem_free(g->mem, g->numbers, FTH_BATCH * sizeof(*g->numbers));
	fth_qmem_free(g->mem, g->list, (FTH_BATCH + 64) * sizeof(*g->list));
	fth_qmem_free(g->mem, g->key_slots, (g->spec.key_count + 1) * sizeof(*g->key_slots));
	fth_qmem_close(g->mem);
	fth_qmem_free(g->parent, g, sizeof(*g));
}

void grouper_reset(struct grouper *g)
{
	group_key_clear(&g->key, g->spec.runs);
	group_states_clear(&g->states);
	group_states_start(&g->states, group_key_count(&g->key));
	g->states.added = 0;
}

int grouper_open_out(struct grouper *g)
{
	int rc = group_key_open_out(&g->key, g->parent);

	return rc < 0 ? rc : group_states_open_out(&g->states, g->key.array);
}

/* The arrays start small again: otherwise one that has grown might leave no room to another. */
int grouper_renew(struct grouper *g)
{
	group_states_release(&g->states);
	group_key_release(&g->key);
	g->states = (struct group_states){0};
	g->key = (struct group_key){0};
	return open_parts(g);
}

uint32_t grouper_count(const struct grouper *g)
{
	return g->states.started;
}

bool grouper_is_empty(const struct grouper *g)
{
	return g->key.array ? !g->states.rows.wide && g->states.rows.most == 0
			    : g->states.started == 0;
}

/* ---- dense batches ---- */

static int dense_room(struct grouper *g, struct group_dense *d, enum fth_phys type)
{
	size_t bytes = type == FTH_BITS ? FTH_BATCH / 8 : (size_t)FTH_BATCH * fth_phys_width(type);

	if (!d->nulls)
		d->nulls = fth_qmem_alloc(g->parent, FTH_BATCH / 8);
	if (d->bytes < bytes) {
		fth_qmem_free(g->parent, d->values, d->bytes);
		d->values = fth_qmem_alloc(g->parent, bytes);
		d->bytes = d->values ? bytes : 0;
	}
	return !d->nulls || !d->values ? -ENOMEM : 0;
}

static int make_dense(struct grouper *g, unsigned column, const struct fth_vec *from, unsigned n)
{
	struct group_dense *d = &g->dense[column];

	if (dense_room(g, d, from->type) < 0)
		return -ENOMEM;
	d->vec = *from;
	d->vec.data = d->values;
	d->vec.block = NULL;
	if (from->type == FTH_BITS)
		fth_bits_gather(d->values, from->data, g->list, n);
	else
		fth_vec_gather(from->type, d->values, from->data, g->list, n);
	if (from->nulls) {
		fth_bits_gather(d->nulls, from->nulls, g->list, n);
		d->vec.nulls = d->nulls;
	}
	return 0;
}

/* Columns that several aggregates use are made dense once. */
static int dense_columns(struct grouper *g, struct fth_vec *const *keys,
			 struct fth_vec *const *args, unsigned n)
{
	unsigned key_count = g->spec.key_count;

	for (unsigned i = 0; i < column_count(g); i++) {
		const struct fth_vec *from = i < key_count ? keys[i] : args[i - key_count];
		unsigned same = key_count;

		g->columns[i] = NULL;
		if (!from)
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

/* Room for the states of so many groups more. */
static int reserve_groups(struct grouper *g, unsigned more)
{
	grouper_may_become_array(g, more);
	return g->key.array
		       ? 0
		       : group_states_reserve(&g->states, (uint64_t)g->key.groups.count + more);
}

/* `count` rows of a batch of n, which have their numbers. */
static int add_numbered(struct grouper *g, struct fth_vec *const *args, unsigned n,
			const uint64_t *rows, unsigned count)
{
	struct group_batch *b = &g->batch;
	int rc;

	group_states_start(&g->states, group_key_count(&g->key));
	b->n = n;
	b->count = count;
	b->rows = rows;
	b->numbers = g->numbers;
	b->runs = g->runs.count > 0 ? &g->runs : NULL;
	fth_agg_groups(&b->groups, n, rows, g->numbers, group_key_count(&g->key));
	rc = group_states_prepare(&g->states, args, b);
	return rc < 0 ? rc : group_states_add(&g->states, args, b);
}

static int add_batch(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		     unsigned n, const uint64_t *rows, unsigned count)
{
	int rc = group_part_is_due(g, count) ? -ENOMEM : reserve_groups(g, count);

	if (rc == 0)
		rc = group_key_number(&g->key, keys, n, rows, count, g->numbers, &g->runs);
	return rc < 0 ? rc : add_numbered(g, args, n, rows, count);
}

static int number_packed(struct grouper *g, const struct fth_vec *keys, unsigned n)
{
	int rc = reserve_groups(g, n);

	fth_bits_fill(g->all, n);
	g->runs.count = 0;
	return rc < 0 ? rc : group_key_number_packed(&g->key, keys, n, g->all, g->numbers);
}

int grouper_add_packed(struct grouper *g, const struct fth_vec *keys, struct fth_vec *const *args,
		       unsigned n)
{
	int rc = number_packed(g, keys, n);

	return rc < 0 ? rc : add_numbered(g, args, n, g->all, n);
}

int grouper_merge_packed(struct grouper *g, const struct fth_vec *keys,
			 const struct group_partial *from)
{
	int rc = number_packed(g, keys, from->n);

	if (rc < 0)
		return rc;
	group_states_start(&g->states, group_key_count(&g->key));
	return group_states_merge(&g->states, from, g->numbers);
}

static int add_selected(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
			const struct fth_sel *sel)
{
	unsigned key_count = g->spec.key_count;
	int rc;

	if (sel->count == sel->n || (!g->key.ordered && sel->count >= sel->n / DENSE_PART))
		return add_batch(g, keys, args, sel->n, sel->bits, sel->count);
	fth_bits_rows(sel->bits, sel->n, g->list);
	rc = dense_columns(g, keys, args, sel->count);
	if (rc < 0)
		return rc;
	fth_bits_fill(g->all, sel->count);
	return add_batch(g, g->columns, g->columns + key_count, sel->count, g->all, sel->count);
}

/* Whether the grouper had no room and was emptied, so that the same can be tried again. */
static bool emptied(struct grouper *g, int *rc)
{
	if (*rc != -ENOMEM || !g->store || grouper_is_empty(g))
		return false;
	*rc = group_store_take(g->store, g);
	return *rc == 0;
}

/* Add the rows of a batch in two halves, since the groups of the whole batch do not fit. */
static int add_halves(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		      const struct fth_sel *sel)
{
	struct fth_sel *half = fth_qmem_alloc(g->parent, sizeof(*half));
	unsigned first = 0;
	int rc = half ? 0 : -ENOMEM;

	/* Some arrays may have grown for the whole batch. */
	if (rc == 0 && grouper_is_empty(g))
		rc = grouper_renew(g);
	for (unsigned side = 0; side < 2 && rc == 0; side++) {
		fth_sel_all(half, sel->n);
		for (unsigned i = 0, seen = 0; i < sel->n; i++) {
			bool in = fth_bit(sel->bits, i);

			if (!in || (seen < sel->count / 2) != (side == 0))
				half->bits[i / 64] &= ~((uint64_t)1 << i % 64);
			seen += in;
		}
		half->count = side == 0 ? sel->count / 2 : sel->count - first;
		first = half->count;
		rc = grouper_add(g, keys, args, half);
	}
	fth_qmem_free(g->parent, half, sizeof(*half));
	return rc;
}

int grouper_add(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		const struct fth_sel *sel)
{
	bool full;
	int rc;

	if (g->blocks)
		return group_store_add_rows(g->store, g, keys, args, sel);
	rc = sel->count == 0 ? 0 : add_selected(g, keys, args, sel);
	full = rc == -ENOMEM && g->store && !grouper_is_empty(g);
	if (emptied(g, &rc))
		rc = g->blocks ? group_store_add_rows(g->store, g, keys, args, sel)
			       : add_selected(g, keys, args, sel);
	else if (full) /* groups that were written are here as well, and would count twice */
		return rc;
	return rc == -ENOMEM && g->store && !g->blocks && sel->count > SLICE
		       ? add_halves(g, keys, args, sel)
		       : rc;
}

void grouper_progress(struct grouper *g, uint32_t done, uint32_t of)
{
	g->progress = done;
	g->progress_of = of;
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
		rc = group_table_find(&g->key.groups, &key, 1, &one, &number, NULL);
	if (rc == 0)
		group_states_start(&g->states, 1);
	return rc;
}

/* ---- merging ---- */

unsigned grouper_view(struct grouper *g, uint32_t *at, struct fth_vec *keys,
		      struct group_partial *out)
{
	uint32_t count = grouper_count(g);
	unsigned n = 0;

	out->added = *at == 0 ? g->states.added : 0;
	out->distinct = false;
	while (n == 0 && *at < count) {
		uint32_t first = *at;
		const uint16_t *list = NULL;

		n = count - first < FTH_BATCH ? count - first : FTH_BATCH;
		*at += n;
		if (g->key.array) {
			n = group_counts_list(&g->states.rows, first, n, g->list);
			list = g->list;
		}
		group_key_batch(&g->key, first, n, list, keys);
		group_states_view(&g->states, first, n, list, out);
	}
	return n;
}

int grouper_merge_batch(struct grouper *g, struct fth_vec *const *keys,
			const struct group_partial *from, uint32_t *numbers)
{
	int rc = reserve_groups(g, from->n);

	fth_bits_fill(g->all, from->n);
	if (rc == 0)
		rc = group_key_number(&g->key, keys, from->n, g->all, from->n, numbers, &g->runs);
	if (rc < 0)
		return rc;
	group_states_start(&g->states, group_key_count(&g->key));
	return group_states_merge(&g->states, from, numbers);
}

int grouper_merge_values(struct grouper *g, struct fth_vec *const *keys, unsigned i,
			 const struct fth_vec *values, unsigned n)
{
	int rc = reserve_groups(g, n);

	fth_bits_fill(g->all, n);
	if (rc == 0)
		rc = group_key_number(&g->key, keys, n, g->all, n, g->numbers, &g->runs);
	if (rc < 0)
		return rc;
	group_states_start(&g->states, g->key.groups.count);
	return group_states_merge_values(&g->states, i, values, n, g->numbers);
}

static int merge_groups(struct grouper *g, struct grouper *other, struct fth_vec *const *keys,
			struct fth_vec *vecs)
{
	struct group_partial *from = fth_qmem_alloc(g->parent, sizeof(*from));
	uint32_t at = 0;
	int rc = from ? 0 : -ENOMEM;

	while (rc == 0 && grouper_view(other, &at, vecs, from) > 0) {
		rc = grouper_merge_batch(g, keys, from, g->numbers);
		if (emptied(g, &rc))
			rc = grouper_merge_batch(g, keys, from, g->numbers);
	}
	fth_qmem_free(g->parent, from, sizeof(*from));
	return rc;
}

static int merge_pairs(struct grouper *g, struct grouper *other, unsigned i,
		       struct fth_vec *const *keys, struct fth_vec *vecs)
{
	struct fth_vec values;
	uint64_t at = 0;
	unsigned n;
	int rc = 0;

	while (rc == 0 &&
	       (n = group_states_values(&other->states, i, &at, &values, other->numbers)) > 0) {
		group_key_gather(&other->key, other->numbers, n, vecs);
		rc = grouper_merge_values(g, keys, i, &values, n);
		if (emptied(g, &rc))
			rc = grouper_merge_values(g, keys, i, &values, n);
	}
	return rc;
}

int grouper_merge(struct grouper *g, struct grouper *other)
{
	struct fth_vec vecs[FTH_KEY_COLUMNS], *keys[FTH_KEY_COLUMNS];
	int rc;

	for (unsigned i = 0; i < g->spec.key_count; i++)
		keys[i] = &vecs[i];
	rc = grouper_open_out(other);
	if (rc == 0)
		rc = merge_groups(g, other, keys, vecs);
	for (unsigned i = 0; i < g->spec.aggregate_count && rc == 0; i++)
		if (g->states.states[i].distinct)
			rc = merge_pairs(g, other, i, keys, vecs);
	return rc;
}

/* ---- results ---- */

int grouper_batch(struct grouper *g, uint32_t *at, struct fth_vec *columns)
{
	int rc = grouper_open_out(g);

	if (rc == 0 && !g->view) {
		g->view = fth_qmem_alloc(g->parent, sizeof(*g->view));
		rc = g->view ? 0 : -ENOMEM;
	}
	if (rc < 0)
		return rc;
	if (grouper_view(g, at, columns, g->view) == 0)
		return 0;
	rc = group_states_batch(&g->states, g->view, columns + g->spec.key_count);
	return rc < 0 ? rc : (int)g->view->n;
}
