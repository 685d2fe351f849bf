/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/fetch.h"
#include "query/task/decode.h"
#include "query/task/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wanted {
	uint64_t row; /* of the table */
	unsigned at;  /* of the batch */
};

struct column {
	struct decoder *decoder;
	void *values; /* 16 bytes each */
	uint64_t nulls[FTH_BATCH_WORDS];
};

struct fetcher {
	struct fth_qmem *mem;
	const struct task_fetch *fetch;
	const struct task_slot *slots;
	struct column *columns;
	struct wanted *wanted;
	struct fth_arena text;
};

int fetcher_open(struct fth_qmem *mem, const struct task_fetch *fetch,
		 const struct task_slot *slots, struct fetcher **out)
{
	struct fetcher *f = fth_qmem_zalloc(mem, sizeof(*f));
	int rc = 0;

	*out = NULL;
	if (f == NULL)
		return -ENOMEM;
	f->mem = mem;
	f->fetch = fetch;
	f->slots = slots;
	fth_arena_init(&f->text, mem, 64u << 10);
	f->columns = fth_qmem_zalloc(mem, fetch->column_count * sizeof(*f->columns));
	f->wanted = fth_qmem_alloc(mem, FTH_BATCH * sizeof(*f->wanted));
	if (f->columns == NULL || f->wanted == NULL)
		rc = -ENOMEM;
	for (unsigned i = 0; i < fetch->column_count && rc == 0; i++) {
		rc = decoder_open(mem, fetch->table, fetch->columns[i].column,
				  slots[fetch->columns[i].slot].type, &f->columns[i].decoder);
		f->columns[i].values = fth_qmem_alloc(mem, FTH_BATCH * 16);
		if (f->columns[i].values == NULL)
			rc = -ENOMEM;
	}
	if (rc < 0) {
		fetcher_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

void fetcher_close(struct fetcher *f)
{
	if (f == NULL)
		return;
	for (unsigned i = 0; i < f->fetch->column_count && f->columns != NULL; i++) {
		decoder_close(f->columns[i].decoder);
		fth_qmem_free(f->mem, f->columns[i].values, FTH_BATCH * 16);
	}
	fth_qmem_free(f->mem, f->columns, f->fetch->column_count * sizeof(*f->columns));
	fth_qmem_free(f->mem, f->wanted, FTH_BATCH * sizeof(*f->wanted));
	fth_arena_release(&f->text);
	fth_qmem_free(f->mem, f, sizeof(*f));
}

static int by_row(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return x->row < y->row ? -1 : x->row > y->row;
}

/* The rows that are wanted, in the order of the table; the others are null. */
static unsigned list_wanted(struct fetcher *f, const struct fth_vec *numbers, struct fth_sel *sel)
{
	const uint16_t *rows = fth_sel_rows(sel);
	unsigned n = 0;

	for (unsigned i = 0; i < sel->count; i++)
		if (numbers->nulls == NULL || !fth_bit(numbers->nulls, rows[i]))
			f->wanted[n++] =
				(struct wanted){(uint64_t)fth_vec_int(numbers, rows[i]), rows[i]};
	qsort(f->wanted, n, sizeof(*f->wanted), by_row);
	return n;
}

/* The row group of a row: the last that begins at or before it. */
static uint32_t group_of(const struct fth_table *table, uint64_t row)
{
	uint32_t from = 0, to = fth_table_groups(table);

	while (to - from > 1) {
		uint32_t mid = from + (to - from) / 2;

		if (fth_table_group(table, mid)->first <= row)
			from = mid;
		else
			to = mid;
	}
	return from;
}

/* Value `k` of a decoded vector to place `at` of the column. */
static int put(struct fetcher *f, struct column *c, const struct fth_vec *v, enum fth_phys type,
	       unsigned k, unsigned at)
{
	struct fth_str s;
	char *copy;

	if (v->nulls != NULL && fth_bit(v->nulls, k))
		return 0; /* null already */
	c->nulls[at / 64] &= ~((uint64_t)1 << at % 64);
	if (type == FTH_BITS) {
		if (fth_bit(v->data, k))
			fth_bit_set(c->values, at);
		return 0;
	}
	if (type != FTH_STR) {
		if (type == FTH_F64)
			((double *)c->values)[at] = ((const double *)v->data)[k];
		else
			((fth_i128 *)c->values)[at] = fth_vec_int(v, k);
		return 0;
	}
	s = rows_text(v, k);
	copy = fth_arena_alloc(&f->text, s.len + 1, 1);
	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	((struct fth_str *)c->values)[at] = (struct fth_str){copy, s.len, 0};
	return 0;
}

static enum fth_phys type_of(const struct task_slot *slot)
{
	enum fth_phys type = rows_phys(slot);

	return type <= FTH_I128 ? FTH_I128 : type;
}

/* Rows wanted[from..to) are in one group. */
static int fetch_group(struct fetcher *f, unsigned column, uint32_t group, unsigned from,
		       unsigned to)
{
	struct column *c = &f->columns[column];
	enum fth_phys type = type_of(&f->slots[f->fetch->columns[column].slot]);
	struct fth_table *table = f->fetch->table;
	uint64_t first = fth_table_group(table, group)->first;
	unsigned ordinal = f->fetch->columns[column].column;
	struct fth_table_page page;
	void *image;
	int rc = fth_table_page_read(&page, table, ordinal, group, &image);

	if (rc < 0)
		return rc;
	for (unsigned i = from; i < to && rc == 0; i++) {
		uint32_t row = (uint32_t)(f->wanted[i].row - first);
		struct fth_vec v;

		rc = decoder_run(c->decoder, &page, image, row, row + 1, &v);
		if (rc == 0)
			rc = put(f, c, &v, type, 0, f->wanted[i].at);
	}
	fth_table_page_free(table, ordinal, group, image);
	return rc;
}

static int fetch_column(struct fetcher *f, unsigned column, unsigned n)
{
	int rc = 0;

	for (unsigned from = 0, to; from < n && rc == 0; from = to) {
		uint32_t group = group_of(f->fetch->table, f->wanted[from].row);
		const struct fth_table_group *g = fth_table_group(f->fetch->table, group);

		for (to = from + 1; to < n && f->wanted[to].row < g->first + g->rows;)
			to++;
		rc = fetch_group(f, column, group, from, to);
	}
	return rc;
}

int fetcher_run(struct fetcher *f, const struct fth_vec *numbers, struct fth_sel *sel,
		struct fth_vec *vecs)
{
	unsigned n = list_wanted(f, numbers, sel);
	int rc = 0;

	fth_arena_reset(&f->text);
	for (unsigned i = 0; i < f->fetch->column_count && rc == 0; i++) {
		struct column *c = &f->columns[i];
		unsigned slot = f->fetch->columns[i].slot;

		memset(c->nulls, 0xff, sizeof(c->nulls));
		memset(c->values, 0, FTH_BATCH * 16);
		rc = fetch_column(f, i, n);
		vecs[slot] = (struct fth_vec){
			.type = type_of(&f->slots[slot]), .data = c->values, .nulls = c->nulls};
	}
	return rc;
}
