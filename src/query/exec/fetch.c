/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Row numbers of a batch are sorted, so that every chunk is read once and in order, with the next
 * groups on their way. Of text in blocks only the head and the blocks of wanted rows are read.
 */
#include "query/exec/fetch.h"
#include "query/exec/decode.h"
#include "query/spill/result_rows.h"
#include "query/exec/scan.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
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
	uint32_t *rows;	    /* of wanted[], in their groups */
	unsigned *ordinals; /* of the columns */
	struct fth_arena text;
	struct scan_spec scan;
	struct scan_reader *reader;
};

#define FETCH_DEPTH 2u
/* Of so many wanted rows in a batch of the table all rows are decoded at once. */
#define FETCH_MANY 16u

static int open_reader(struct fetcher *f, const atomic_bool *const *cancel)
{
	for (unsigned i = 0; i < f->fetch->column_count; i++)
		f->ordinals[i] = f->fetch->columns[i].column;
	f->scan = (struct scan_spec){.table = f->fetch->table,
				     .count = f->fetch->column_count,
				     .columns = f->ordinals,
				     .early = f->fetch->column_count,
				     .heads = true,
				     .depth = FETCH_DEPTH,
				     .cancel = {cancel[0], cancel[1]}};
	return scan_open(&f->scan, f->mem, &f->reader);
}

int fetcher_open(struct fth_qmem *mem, const struct task_fetch *fetch,
		 const struct task_slot *slots, const atomic_bool *const *cancel,
		 struct fetcher **out)
{
	struct fetcher *f = fth_qmem_zalloc(mem, sizeof(*f));
	int rc = 0;

	*out = NULL;
	if (!f)
		return -ENOMEM;
	f->mem = mem;
	f->fetch = fetch;
	f->slots = slots;
	fth_arena_init(&f->text, mem, 64u << 10);
	f->columns = fth_qmem_zalloc(mem, fetch->column_count * sizeof(*f->columns));
	f->wanted = fth_qmem_alloc(mem, FTH_BATCH * sizeof(*f->wanted));
	f->rows = fth_qmem_alloc(mem, FTH_BATCH * sizeof(*f->rows));
	f->ordinals = fth_qmem_alloc(mem, fetch->column_count * sizeof(*f->ordinals));
	if (!f->columns || !f->wanted || !f->rows || !f->ordinals)
		rc = -ENOMEM;
	for (unsigned i = 0; i < fetch->column_count && rc == 0; i++) {
		rc = decoder_open(mem, fetch->table, fetch->columns[i].column,
				  slots[fetch->columns[i].slot].type, &f->columns[i].decoder);
		f->columns[i].values = fth_qmem_alloc(mem, FTH_BATCH * 16);
		if (!f->columns[i].values)
			rc = -ENOMEM;
	}
	if (rc == 0)
		rc = open_reader(f, cancel);
	if (rc < 0) {
		fetcher_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

void fetcher_close(struct fetcher *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->fetch->column_count && f->columns; i++) {
		decoder_close(f->columns[i].decoder);
		fth_qmem_free(f->mem, f->columns[i].values, FTH_BATCH * 16);
	}
	fth_qmem_free(f->mem, f->columns, f->fetch->column_count * sizeof(*f->columns));
	fth_qmem_free(f->mem, f->wanted, FTH_BATCH * sizeof(*f->wanted));
	fth_qmem_free(f->mem, f->rows, FTH_BATCH * sizeof(*f->rows));
	fth_qmem_free(f->mem, f->ordinals, f->fetch->column_count * sizeof(*f->ordinals));
	scan_close(f->reader);
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
		if (!numbers->nulls || !fth_bit(numbers->nulls, rows[i]))
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

	if (v->nulls && fth_bit(v->nulls, k))
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
	if (!copy)
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

/* Rows wanted[from..to) of one column, which are in one batch of the group. */
static int fetch_batch(struct fetcher *f, const struct scan_group *g, unsigned column,
		       unsigned from, unsigned to)
{
	struct column *c = &f->columns[column];
	enum fth_phys type = type_of(&f->slots[f->fetch->columns[column].slot]);
	bool at_once = to - from >= FETCH_MANY && type != FTH_STR;
	uint32_t first = f->rows[from] / FTH_BATCH * FTH_BATCH, end = first + FTH_BATCH;
	struct fth_vec v;
	int rc = 0;

	if (at_once)
		rc = decoder_run(c->decoder, &g->pages[column], g->images[column], first,
				 end < g->rows ? end : g->rows, &v);
	for (unsigned i = from; i < to && rc == 0; i++) {
		uint32_t row = f->rows[i];

		if (!at_once) {
			first = row;
			rc = decoder_run(c->decoder, &g->pages[column], g->images[column], row,
					 row + 1, &v);
		}
		if (rc == 0)
			rc = put(f, c, &v, type, row - first, f->wanted[i].at);
	}
	return rc;
}

/* Rows wanted[from..to) are in this group. */
static int fetch_group(struct fetcher *f, struct scan_group *g, unsigned from, unsigned to)
{
	int rc = 0;

	for (unsigned i = from; i < to; i++)
		f->rows[i] = (uint32_t)(f->wanted[i].row - g->first);
	for (unsigned k = 0; k < f->fetch->column_count && rc == 0; k++) {
		rc = scan_blocks(f->reader, g, k, f->rows + from, to - from);
		for (unsigned i = from, next; i < to && rc == 0; i = next) {
			for (next = i + 1;
			     next < to && f->rows[next] / FTH_BATCH == f->rows[i] / FTH_BATCH;)
				next++;
			rc = fetch_batch(f, g, k, i, next);
		}
	}
	return rc;
}

/* Begin to read the groups of wanted rows from *at on. */
static int begin_groups(struct fetcher *f, unsigned *at, unsigned n)
{
	int rc = 0;

	while (*at < n && scan_room(f->reader) && rc == 0) {
		uint32_t number = group_of(f->fetch->table, f->wanted[*at].row);
		const struct fth_table_group *g = fth_table_group(f->fetch->table, number);

		rc = scan_begin(f->reader, number, true);
		while (*at < n && f->wanted[*at].row < g->first + g->rows)
			++*at;
	}
	return rc;
}

static int fetch_wanted(struct fetcher *f, unsigned n)
{
	unsigned begun = 0, from = 0, to;
	struct scan_group *g;
	int rc = 0;

	while (rc >= 0) {
		rc = begin_groups(f, &begun, n);
		if (rc == 0)
			rc = scan_next(f->reader, &g);
		if (rc <= 0)
			break;
		for (to = from; to < n && f->wanted[to].row < g->first + g->rows;)
			to++;
		rc = fetch_group(f, g, from, to);
		from = to;
		scan_done(f->reader, g);
	}
	return rc;
}

int fetcher_run(struct fetcher *f, const struct fth_vec *numbers, struct fth_sel *sel,
		struct fth_vec *vecs)
{
	unsigned n = list_wanted(f, numbers, sel);

	/* They are sorted. Numbers that a task read from text computes may be any. */
	if (n > 0 && f->wanted[n - 1].row >= fth_table_rows(f->fetch->table))
		return fth_fail(ERANGE, "table %s has no row %" PRIu64,
				fth_table_name(f->fetch->table), f->wanted[n - 1].row);
	fth_arena_reset(&f->text);
	for (unsigned i = 0; i < f->fetch->column_count; i++) {
		struct column *c = &f->columns[i];
		unsigned slot = f->fetch->columns[i].slot;

		memset(c->nulls, 0xff, sizeof(c->nulls));
		memset(c->values, 0, FTH_BATCH * 16);
		vecs[slot] = (struct fth_vec){
			.type = type_of(&f->slots[slot]), .data = c->values, .nulls = c->nulls};
	}
	return fetch_wanted(f, n);
}

uint64_t fetcher_bytes(const struct fetcher *f)
{
	return scan_bytes(f->reader);
}

uint64_t fetcher_chunks(const struct fetcher *f)
{
	return scan_chunks(f->reader);
}
