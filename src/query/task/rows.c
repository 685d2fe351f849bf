/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/task/rows.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define TEXT_CHUNK (64u << 10)

struct rows {
	struct fth_qmem *mem;
	const struct task_slot *columns;
	unsigned count;
	pthread_mutex_t lock;
	struct rows_block *first, *last; /* under lock */
	uint64_t total;
	struct fth_arena *texts; /* of writers that are closed; under lock */
	unsigned text_count, text_room;
};

struct rows_writer {
	struct rows *rows;
	struct rows_block *first, *last; /* the last one is being filled */
	uint64_t total;
	struct fth_arena text;
};

enum fth_phys rows_phys(const struct task_slot *slot)
{
	if (slot->type.kind == FTH_T_BOOL)
		return FTH_BITS;
	if (slot->type.kind == FTH_T_DOUBLE)
		return FTH_F64;
	if (fth_type_is_text(slot->type))
		return FTH_STR;
	if (slot->lo <= slot->hi)
		return fth_phys_for(slot->lo, slot->hi);
	if (slot->type.kind == FTH_T_DECIMAL)
		return FTH_I128;
	return slot->type.kind == FTH_T_INT64 ? FTH_I64 : FTH_I32;
}

int rows_new(struct fth_qmem *mem, const struct task_slot *columns, unsigned count,
	     struct rows **out)
{
	struct rows *r = fth_qmem_zalloc(mem, sizeof(*r));

	*out = r;
	if (r == NULL)
		return -ENOMEM;
	r->mem = mem;
	r->columns = columns;
	r->count = count;
	pthread_mutex_init(&r->lock, NULL);
	return 0;
}

/* ---- blocks ---- */

static size_t values_bytes(enum fth_phys type)
{
	return type == FTH_BITS ? FTH_BATCH / 8 : (size_t)FTH_BATCH * fth_phys_width(type);
}

/* Nulls are always there: a block is filled by batches with and without. */
static size_t column_bytes(const struct task_slot *slot)
{
	return values_bytes(rows_phys(slot)) + FTH_BATCH / 8;
}

static size_t block_bytes(const struct rows *r)
{
	size_t bytes = sizeof(struct rows_block) + r->count * sizeof(struct fth_vec);

	bytes = (bytes + 63) / 64 * 64;
	for (unsigned i = 0; i < r->count; i++)
		bytes += column_bytes(&r->columns[i]);
	return bytes;
}

static struct rows_block *new_block(struct rows *r)
{
	struct rows_block *b = fth_qmem_zalloc(r->mem, block_bytes(r));
	size_t head = sizeof(struct rows_block) + r->count * sizeof(struct fth_vec);
	char *at;

	if (b == NULL)
		return NULL;
	b->columns = (struct fth_vec *)(b + 1);
	at = (char *)b + (head + 63) / 64 * 64;
	for (unsigned i = 0; i < r->count; i++) {
		struct fth_vec *v = &b->columns[i];

		v->type = rows_phys(&r->columns[i]);
		v->data = at;
		v->nulls = (uint64_t *)(at + values_bytes(v->type));
		at += column_bytes(&r->columns[i]);
	}
	return b;
}

void rows_free(struct rows *r)
{
	if (r == NULL)
		return;
	while (r->first != NULL) {
		struct rows_block *next = r->first->next;

		fth_qmem_free(r->mem, r->first, block_bytes(r));
		r->first = next;
	}
	for (unsigned i = 0; i < r->text_count; i++)
		fth_arena_release(&r->texts[i]);
	fth_qmem_free(r->mem, r->texts, r->text_room * sizeof(*r->texts));
	pthread_mutex_destroy(&r->lock);
	fth_qmem_free(r->mem, r, sizeof(*r));
}

/* ---- writing ---- */

/* Room to hand over the writer's text is made here, so that closing cannot fail. */
static int reserve_text(struct rows *r)
{
	struct fth_arena *larger;
	unsigned room;

	if (r->text_count < r->text_room)
		return 0;
	room = r->text_room == 0 ? 8 : r->text_room * 2;
	larger = fth_qmem_realloc(r->mem, r->texts, r->text_room * sizeof(*larger),
				  room * sizeof(*larger));
	if (larger == NULL)
		return -ENOMEM;
	r->texts = larger;
	r->text_room = room;
	return 0;
}

int rows_writer_open(struct rows *r, struct rows_writer **out)
{
	struct rows_writer *w = fth_qmem_zalloc(r->mem, sizeof(*w));
	int rc;

	*out = NULL;
	if (w == NULL)
		return -ENOMEM;
	w->rows = r;
	fth_arena_init(&w->text, r->mem, TEXT_CHUNK);
	pthread_mutex_lock(&r->lock);
	rc = reserve_text(r);
	if (rc == 0) {
		memset(&r->texts[r->text_count], 0, sizeof(*r->texts));
		r->text_count++;
	}
	pthread_mutex_unlock(&r->lock);
	if (rc < 0) {
		fth_qmem_free(r->mem, w, sizeof(*w));
		return rc;
	}
	*out = w;
	return 0;
}

static bool in_block(const struct rows_block *b)
{
	return b != NULL && b->n < FTH_BATCH;
}

static int next_block(struct rows_writer *w)
{
	struct rows_block *b;

	if (in_block(w->last))
		return 0;
	b = new_block(w->rows);
	if (b == NULL)
		return -ENOMEM;
	if (w->last == NULL)
		w->first = b;
	else
		w->last->next = b;
	w->last = b;
	return 0;
}

static void put_int(struct fth_vec *to, unsigned at, fth_i128 value)
{
	void *data = (void *)to->data;

	switch (to->type) {
	case FTH_I8:
		((int8_t *)data)[at] = (int8_t)value;
		break;
	case FTH_I16:
		((int16_t *)data)[at] = (int16_t)value;
		break;
	case FTH_I32:
		((int32_t *)data)[at] = (int32_t)value;
		break;
	case FTH_I64:
		((int64_t *)data)[at] = (int64_t)value;
		break;
	default:
		((fth_i128 *)data)[at] = value;
	}
}

static int put_text(struct rows_writer *w, struct fth_vec *to, unsigned at, struct fth_str s)
{
	char *copy = fth_arena_alloc(&w->text, s.len + 1, 1);

	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	((struct fth_str *)to->data)[at] = (struct fth_str){copy, s.len, 0};
	return 0;
}

/* Values of rows[0..count) of a vector, behind the first `at` of a column. */
static int put_column(struct rows_writer *w, struct fth_vec *to, unsigned at,
		      const struct fth_vec *from, const uint16_t *rows, unsigned count)
{
	bool narrow = to->type == from->type && from->base == 0 && from->dict == NULL;

	for (unsigned i = 0; i < count && from->nulls != NULL; i++)
		if (fth_bit(from->nulls, rows[i]))
			fth_bit_set((uint64_t *)to->nulls, at + i);
	if (to->type == FTH_BITS) {
		for (unsigned i = 0; i < count; i++)
			if (fth_bit(from->data, rows[i]))
				fth_bit_set((uint64_t *)to->data, at + i);
		return 0;
	}
	if (to->type == FTH_STR) {
		static const struct fth_str none = {"", 0, 0};
		int rc = 0;

		for (unsigned i = 0; i < count && rc == 0; i++)
			rc = put_text(w, to, at + i,
				      from->nulls != NULL && fth_bit(from->nulls, rows[i])
					      ? none
					      : rows_text(from, rows[i]));
		return rc;
	}
	if (narrow) {
		fth_vec_gather(to->type, (char *)to->data + (size_t)at * fth_phys_width(to->type),
			       from->data, rows, count);
		return 0;
	}
	for (unsigned i = 0; i < count; i++)
		put_int(to, at + i, fth_vec_int(from, rows[i]));
	return 0;
}

int rows_append(struct rows_writer *w, struct fth_vec *const *columns, struct fth_sel *sel)
{
	const uint16_t *rows = fth_sel_rows(sel);

	for (unsigned done = 0; done < sel->count;) {
		unsigned part;

		if (next_block(w) < 0)
			return -ENOMEM;
		part = FTH_BATCH - w->last->n < sel->count - done ? FTH_BATCH - w->last->n
								  : sel->count - done;
		for (unsigned i = 0; i < w->rows->count; i++)
			if (put_column(w, &w->last->columns[i], w->last->n, columns[i], rows + done,
				       part) < 0)
				return -ENOMEM;
		w->last->n += part;
		w->total += part;
		done += part;
	}
	return 0;
}

void rows_writer_close(struct rows_writer *w)
{
	struct rows *r;

	if (w == NULL)
		return;
	r = w->rows;
	pthread_mutex_lock(&r->lock);
	if (w->first != NULL) {
		if (r->last == NULL)
			r->first = w->first;
		else
			r->last->next = w->first;
		r->last = w->last;
	}
	r->total += w->total;
	for (unsigned i = 0; i < r->text_count; i++)
		if (r->texts[i].mem == NULL) {
			r->texts[i] = w->text;
			break;
		}
	pthread_mutex_unlock(&r->lock);
	fth_qmem_free(r->mem, w, sizeof(*w));
}

uint64_t rows_count(const struct rows *r)
{
	return r->total;
}

const struct rows_block *rows_first(const struct rows *r)
{
	return r->first;
}

/* ---- by number ---- */

int rows_list(const struct rows *r, const struct rows_block ***blocks, uint32_t *count)
{
	uint64_t n = 0;

	for (const struct rows_block *b = r->first; b != NULL; b = b->next)
		n++;
	*blocks = NULL;
	*count = 0;
	if (n >= ROWS_NONE / FTH_BATCH)
		return fth_fail(ENOMEM, "an intermediate result has more than 4 billion rows");
	*blocks = fth_qmem_alloc(r->mem, n * sizeof(struct rows_block *));
	if (*blocks == NULL)
		return -ENOMEM;
	for (const struct rows_block *b = r->first; b != NULL; b = b->next)
		(*blocks)[(*count)++] = b;
	return 0;
}

void rows_unlist(const struct rows *r, const struct rows_block **blocks, uint32_t count)
{
	if (blocks != NULL)
		fth_qmem_free(r->mem, blocks, count * sizeof(struct rows_block *));
}

void rows_gather(const struct rows_block *const *blocks, const struct task_slot *slot,
		 unsigned column, const uint32_t *numbers, unsigned n, struct fth_vec *out,
		 void *values, uint64_t *nulls)
{
	enum fth_phys type = rows_phys(slot);
	unsigned width = fth_phys_width(type);

	memset(nulls, 0, fth_bits_words(n) * sizeof(*nulls));
	if (type == FTH_BITS)
		memset(values, 0, fth_bits_words(n) * sizeof(uint64_t));
	for (unsigned i = 0; i < n; i++) {
		unsigned at = numbers[i] % FTH_BATCH;
		const struct fth_vec *v;

		if (numbers[i] == ROWS_NONE) {
			fth_bit_set(nulls, i);
			memset((char *)values + (size_t)i * width, 0, width);
			continue;
		}
		v = &blocks[numbers[i] / FTH_BATCH]->columns[column];
		if (fth_bit(v->nulls, at))
			fth_bit_set(nulls, i);
		if (type != FTH_BITS)
			memcpy((char *)values + (size_t)i * width,
			       (const char *)v->data + (size_t)at * width, width);
		else if (fth_bit(v->data, at))
			fth_bit_set(values, i);
	}
	*out = (struct fth_vec){.type = type, .data = values, .nulls = nulls};
}
