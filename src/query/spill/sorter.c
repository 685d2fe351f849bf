/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/spill/sorter.h"
#include "query/spill/record.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"
#include "query/spill/sort.h"
#include "scalar/text.h"

#include <errno.h>

#define FIRST_ROOM 1024u

struct sorter {
	struct fth_qmem *parent, *mem, *top_mem; /* each the account of the next */
	struct sorter_spec spec;
	struct scratch *scratch;
	bool top; /* only the first rows are kept, in topk; otherwise all, in sort */
	struct topk topk;
	struct sort sort;
	struct record_field *fields;
	struct sort_column *order;
	char *key, *record;
	size_t key_room, record_room;
	const struct fth_vec **vecs;
};

/* ---- opening ---- */

static int describe(struct sorter *s)
{
	unsigned n = s->spec.column_count, orders = s->spec.order_count;

	s->fields = fth_qmem_zalloc(s->mem, (n + 1) * sizeof(*s->fields));
	s->order = fth_qmem_zalloc(s->mem, (orders + 1) * sizeof(*s->order));
	s->vecs = fth_qmem_zalloc(s->mem, (n + 1) * sizeof(struct fth_vec *));
	s->key = fth_qmem_alloc(s->mem, FIRST_ROOM);
	s->record = fth_qmem_alloc(s->mem, FIRST_ROOM);
	if (!s->fields || !s->order || !s->vecs || !s->key || !s->record)
		return -ENOMEM;
	s->key_room = s->record_room = FIRST_ROOM;
	for (unsigned i = 0; i < n; i++)
		s->fields[i] = (struct record_field){rows_phys(&s->spec.columns[i]),
						     s->spec.columns[i].nullable};
	for (unsigned i = 0; i < orders; i++) {
		const struct task_slot *slot = &s->spec.columns[n + i];

		s->order[i] = (struct sort_column){
			.text = fth_type_is_text(slot->type),
			.is_double = slot->type.kind == FTH_T_DOUBLE,
			.descending = s->spec.order[i].descending,
			.nulls_first = s->spec.order[i].nulls_first,
		};
	}
	return 0;
}

/*
 * The first rows may have half of the memory: if that is not enough, the sort has the other half.
 */
static int open_top(struct sorter *s)
{
	uint64_t limit = s->spec.memory > 0 ? s->spec.memory / 2 : FTH_QMEM_NO_LIMIT;

	s->top_mem = fth_qmem_child(s->mem, "top", limit);
	if (!s->top_mem)
		return -ENOMEM;
	if (topk_init(&s->topk, s->top_mem, (uint32_t)(s->spec.offset + s->spec.limit)) < 0)
		s->top = false;
	return 0;
}

int sorter_open(struct fth_qmem *mem, const struct sorter_spec *spec, struct scratch *scratch,
		struct sorter **out)
{
	struct sorter *s = fth_qmem_zalloc(mem, sizeof(*s));
	int rc;

	*out = NULL;
	if (!s)
		return -ENOMEM;
	s->parent = mem;
	s->spec = *spec;
	s->scratch = scratch;
	s->top = spec->limit <= SORTER_TOP_ROWS && spec->offset <= SORTER_TOP_ROWS - spec->limit;
	s->mem = fth_qmem_child(mem, "sort", spec->memory > 0 ? spec->memory : FTH_QMEM_NO_LIMIT);
	rc = s->mem ? describe(s) : -ENOMEM;
	if (rc == 0)
		sort_init(&s->sort, s->mem, NULL);
	if (rc == 0 && s->top)
		rc = open_top(s);
	if (rc < 0) {
		sorter_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void sorter_close(struct sorter *s)
{
	unsigned n;

	if (!s)
		return;
	n = s->spec.column_count;
	if (s->mem) {
		if (s->topk.mem)
			topk_release(&s->topk);
		fth_qmem_close(s->top_mem);
		sort_release(&s->sort);
		fth_qmem_free(s->mem, s->fields, (n + 1) * sizeof(*s->fields));
		fth_qmem_free(s->mem, s->order, (s->spec.order_count + 1) * sizeof(*s->order));
		fth_qmem_free(s->mem, s->vecs, (n + 1) * sizeof(struct fth_vec *));
		fth_qmem_free(s->mem, s->key, s->key_room);
		fth_qmem_free(s->mem, s->record, s->record_room);
		fth_qmem_close(s->mem);
	}
	fth_qmem_free(s->parent, s, sizeof(*s));
}

/* ---- adding ---- */

static int grow_buffer(struct sorter *s, char **buffer, size_t *room, size_t size)
{
	char *larger;

	if (size <= *room)
		return 0;
	larger = fth_qmem_realloc(s->mem, *buffer, *room, 2 * size);
	if (!larger)
		return -ENOMEM;
	*buffer = larger;
	*room = 2 * size;
	return 0;
}

/* One value as the order wants it. */
struct order_value {
	struct fth_vec vec;
	fth_i128 wide;
	int64_t narrow;
	struct fth_str text;
	uint64_t null;
};

static bool is_null(const struct fth_vec *v, unsigned i)
{
	return v->nulls && fth_bit(v->nulls, i);
}

/*
 * A char is compared without its trailing blanks, and a bool is a number. Integers have the width
 * of the slot, as all keys of a column must: batches may come with others.
 */
static void take_value(const struct task_slot *slot, const struct fth_vec *v, unsigned i,
		       struct order_value *out)
{
	enum fth_phys type = rows_phys(slot);

	out->vec = (struct fth_vec){.type = FTH_I64, .data = &out->narrow};
	if (is_null(v, i)) {
		out->null = 1;
		out->vec.nulls = &out->null;
	} else if (type == FTH_STR) {
		out->text = rows_text(v, i);
		if (slot->type.kind == FTH_T_CHAR)
			out->text = fth_str_rtrim(out->text);
		out->vec.type = FTH_STR;
		out->vec.data = &out->text;
	} else if (type == FTH_I128) {
		out->wide = fth_vec_int(v, i);
		out->vec.type = FTH_I128;
		out->vec.data = &out->wide;
	} else {
		out->narrow = type == FTH_BITS ? fth_bit(v->data, i) : (int64_t)fth_vec_int(v, i);
	}
}

static int encode_column(struct sorter *s, unsigned column, const struct fth_vec *v, unsigned i,
			 uint8_t **at, size_t *room)
{
	struct order_value one;

	if (s->order[column].is_double)
		return sort_encode(&s->order[column], v, i, at, room);
	take_value(&s->spec.columns[s->spec.column_count + column], v, i, &one);
	return sort_encode(&s->order[column], &one.vec, 0, at, room);
}

/* The key of row i, in s->key; returns its length. */
static int encode_key(struct sorter *s, struct fth_vec *const *order, unsigned i)
{
	for (;;) {
		uint8_t *at = (uint8_t *)s->key;
		size_t room = s->key_room;
		int rc = 0;

		for (unsigned c = 0; c < s->spec.order_count && rc == 0; c++)
			rc = encode_column(s, c, order[c], i, &at, &room);
		if (rc == 0)
			return (int)(s->key_room - room);
		if (rc != -ENOBUFS)
			return rc;
		rc = grow_buffer(s, &s->key, &s->key_room, s->key_room + 1);
		if (rc < 0)
			return rc;
	}
}

static int encode_row(struct sorter *s, struct fth_vec *const *columns, unsigned i)
{
	size_t size;
	int rc;

	for (unsigned c = 0; c < s->spec.column_count; c++)
		s->vecs[c] = columns[c];
	size = record_size(s->fields, s->spec.column_count, s->vecs, i);
	if (size > INT32_MAX)
		return fth_fail(EOPNOTSUPP, "sorting a row of more than 2 GiB is not supported");
	rc = grow_buffer(s, &s->record, &s->record_room, size);
	if (rc < 0)
		return rc;
	record_write(s->fields, s->spec.column_count, s->vecs, i, s->record);
	return (int)size;
}

/* The spill file is opened when memory is short for the first time. */
static int add_record(struct sorter *s, const void *key, uint32_t key_size, const void *record,
		      uint32_t size)
{
	int rc = sort_add(&s->sort, key, key_size, record, size);

	if (rc != -ENOMEM || s->sort.spill)
		return rc;
	rc = scratch_get(s->scratch, &s->sort.spill);
	return rc < 0 ? rc : sort_add(&s->sort, key, key_size, record, size);
}

static int add_sorted(struct sorter *s, struct fth_vec *const *columns, unsigned i, int key)
{
	int size = encode_row(s, columns, i);

	return size < 0 ? size : add_record(s, s->key, (uint32_t)key, s->record, (uint32_t)size);
}

/* The first rows do not fit into memory: from now on all rows are sorted. */
static int leave_top(struct sorter *s)
{
	struct sort_record r;
	int rc = 0;

	s->top = false;
	while (rc == 0 && topk_next(&s->topk, &r) > 0)
		rc = add_record(s, r.key, r.key_len, r.payload, r.payload_len);
	topk_release(&s->topk);
	return rc;
}

static int add_top(struct sorter *s, struct fth_vec *const *columns, unsigned i, int key)
{
	const struct fth_vec *first =
		s->spec.order_count > 0 ? columns[s->spec.column_count] : NULL;
	bool number = first && first->type <= FTH_I128 && !s->order[0].text && !is_null(first, i);
	fth_i128 value = number ? fth_vec_int(first, i) : 0;
	int size;

	if (!topk_takes(&s->topk, s->key, (uint32_t)key))
		return 0;
	size = encode_row(s, columns, i);
	return size < 0 ? size
			: topk_add(&s->topk, s->key, (uint32_t)key, s->record, (uint32_t)size,
				   number ? &value : NULL);
}

/* A row whose key is in s->key. */
static int add_row(struct sorter *s, struct fth_vec *const *columns, unsigned i, int key)
{
	int rc;

	if (!s->top)
		return add_sorted(s, columns, i, key);
	rc = add_top(s, columns, i, key);
	if (rc != -ENOMEM)
		return rc;
	rc = leave_top(s);
	return rc < 0 ? rc : add_sorted(s, columns, i, key);
}

int sorter_add(struct sorter *s, struct fth_vec *const *columns, struct fth_sel *sel)
{
	struct fth_vec *const *order = columns + s->spec.column_count;
	const uint16_t *rows;
	int rc = 0;

	if (s->top && s->spec.order_count > 0 && !s->order[0].text && !s->order[0].is_double)
		topk_filter(&s->topk, &s->order[0], order[0], sel);
	rows = fth_sel_rows(sel);
	for (unsigned k = 0; k < sel->count && rc >= 0; k++) {
		rc = encode_key(s, order, rows[k]);
		if (rc >= 0)
			rc = add_row(s, columns, rows[k], rc);
	}
	return rc < 0 ? rc : 0;
}

/* ---- the rows of all sorters ---- */

struct lane {
	struct sorter *sorter;
	struct sort_record record;
	bool more;
};

struct sorted {
	struct fth_qmem *mem;
	unsigned count;
	struct lane *lanes;
	uint64_t skip, left; /* rows before the first, rows still to come */
	struct record_batch batch;
};

static int advance(struct lane *l)
{
	int rc = l->sorter->top ? topk_next(&l->sorter->topk, &l->record)
				: sort_next(&l->sorter->sort, &l->record);

	l->more = rc > 0;
	return rc < 0 ? rc : 0;
}

static int finish_lane(struct lane *l)
{
	int rc = 0;

	/* Without an order the rows stay as they came. */
	if (l->sorter->top && l->sorter->spec.order_count > 0)
		topk_finish(&l->sorter->topk);
	else if (!l->sorter->top)
		rc = sort_finish(&l->sorter->sort);
	return rc < 0 ? rc : advance(l);
}

int sorted_open(struct fth_qmem *mem, struct sorter **sorters, unsigned count, struct sorted **out)
{
	struct sorted *s = fth_qmem_zalloc(mem, sizeof(*s));
	const struct sorter_spec *spec = &sorters[0]->spec;
	int rc = -ENOMEM;

	*out = NULL;
	if (s)
		s->lanes = fth_qmem_zalloc(mem, count * sizeof(*s->lanes));
	if (!s || !s->lanes) {
		for (unsigned i = 0; i < count; i++)
			sorter_close(sorters[i]);
		fth_qmem_free(mem, s, sizeof(*s));
		return rc;
	}
	s->mem = mem;
	s->count = count;
	s->skip = spec->offset;
	s->left = spec->limit;
	for (unsigned i = 0; i < count; i++)
		s->lanes[i].sorter = sorters[i];
	rc = record_batch_init(&s->batch, mem, sorters[0]->fields, spec->column_count);
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = finish_lane(&s->lanes[i]);
	if (rc < 0)
		sorted_close(s);
	else
		*out = s;
	return rc;
}

void sorted_close(struct sorted *s)
{
	if (!s)
		return;
	record_batch_release(&s->batch);
	for (unsigned i = 0; i < s->count; i++)
		sorter_close(s->lanes[i].sorter);
	fth_qmem_free(s->mem, s->lanes, s->count * sizeof(*s->lanes));
	fth_qmem_free(s->mem, s, sizeof(*s));
}

static int compare(const struct sort_record *a, const struct sort_record *b)
{
	int c = memcmp(a->key, b->key, a->key_len < b->key_len ? a->key_len : b->key_len);

	return c != 0 ? c : (a->key_len > b->key_len) - (a->key_len < b->key_len);
}

static struct lane *least_lane(struct sorted *s)
{
	struct lane *least = NULL;

	for (unsigned i = 0; i < s->count; i++)
		if (s->lanes[i].more &&
		    (!least || compare(&s->lanes[i].record, &least->record) < 0))
			least = &s->lanes[i];
	return least;
}

int sorted_next(struct sorted *s, const struct fth_vec **columns)
{
	int rc = 0;

	record_batch_reset(&s->batch);
	while (rc == 0 && s->left > 0 && s->batch.n < FTH_BATCH) {
		struct lane *l = least_lane(s);

		if (!l)
			break;
		if (s->skip > 0) {
			s->skip--;
		} else {
			rc = record_batch_add(&s->batch, (const char *)l->record.payload,
					      l->record.payload_len);
			s->left--;
		}
		if (rc == 0)
			rc = advance(l);
	}
	*columns = s->batch.columns;
	return rc < 0 ? rc : (int)s->batch.n;
}

static int rewind_lane(struct lane *l)
{
	int rc = 0;

	if (l->sorter->top)
		topk_rewind(&l->sorter->topk);
	else
		rc = sort_rewind(&l->sorter->sort);
	return rc < 0 ? rc : advance(l);
}

int sorted_rewind(struct sorted *s)
{
	const struct sorter_spec *spec = &s->lanes[0].sorter->spec;
	int rc = 0;

	s->skip = spec->offset;
	s->left = spec->limit;
	for (unsigned i = 0; i < s->count && rc == 0; i++)
		rc = rewind_lane(&s->lanes[i]);
	return rc;
}
