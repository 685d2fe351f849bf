/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/order.h"

#include "query/vec/num.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sorting {
	const struct rows_block *const *blocks;
	const struct task_slot *columns;
	const struct order_key *keys;
	unsigned key_count;
};

static int sign(fth_i128 a, fth_i128 b)
{
	return a < b ? -1 : a > b;
}

static int compare_text(const struct task_slot *slot, struct fth_str a, struct fth_str b)
{
	int c;

	if (slot->type.kind == FTH_T_CHAR) {
		while (a.len > 0 && a.data[a.len - 1] == ' ')
			a.len--;
		while (b.len > 0 && b.data[b.len - 1] == ' ')
			b.len--;
	}
	c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
	return c != 0 ? c : sign(a.len, b.len);
}

static int compare_values(const struct task_slot *slot, const struct fth_vec *a, unsigned i,
			  const struct fth_vec *b, unsigned k)
{
	if (a->type == FTH_STR)
		return compare_text(slot, rows_text(a, i), rows_text(b, k));
	if (a->type == FTH_F64)
		return sign(fth_f64_order(((const double *)a->data)[i]),
			    fth_f64_order(((const double *)b->data)[k]));
	if (a->type == FTH_BITS)
		return sign(fth_bit(a->data, i), fth_bit(b->data, k));
	return sign(fth_vec_int(a, i), fth_vec_int(b, k));
}

static int compare_rows(const void *a, const void *b, void *user)
{
	const struct sorting *s = user;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	for (unsigned i = 0; i < s->key_count; i++) {
		const struct order_key *k = &s->keys[i];
		const struct fth_vec *v = &s->blocks[x / FTH_BATCH]->columns[k->column];
		const struct fth_vec *w = &s->blocks[y / FTH_BATCH]->columns[k->column];
		bool x_null = fth_bit(v->nulls, x % FTH_BATCH),
		     y_null = fth_bit(w->nulls, y % FTH_BATCH);
		int c;

		if (x_null && y_null)
			continue;
		if (x_null != y_null)
			return x_null == k->nulls_first ? -1 : 1;
		c = compare_values(&s->columns[k->column], v, x % FTH_BATCH, w, y % FTH_BATCH);
		if (c != 0)
			return k->descending ? -c : c;
	}
	return 0;
}

int order_rows(struct fth_qmem *mem, const struct rows_block *const *blocks, uint32_t block_count,
	       const struct task_slot *columns, const struct order_key *keys, unsigned key_count,
	       uint32_t **numbers, uint64_t *count)
{
	struct sorting s = {blocks, columns, keys, key_count};
	uint64_t n = 0;

	for (uint32_t b = 0; b < block_count; b++)
		n += blocks[b]->n;
	*count = n;
	*numbers = fth_qmem_alloc(mem, n * sizeof(**numbers));
	if (*numbers == NULL)
		return -ENOMEM;
	n = 0;
	for (uint32_t b = 0; b < block_count; b++)
		for (unsigned i = 0; i < blocks[b]->n; i++)
			(*numbers)[n++] = b * FTH_BATCH + i;
	if (key_count > 0)
		qsort_r(*numbers, n, sizeof(**numbers), compare_rows, &s);
	return 0;
}
