/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows are in blocks of memory or, when those have reached their room or no block can be had, in
 * one stream of records. A writer that has begun to write to the stream stays with it.
 */
#include "query/spill/record.h"
#include "query/spill/result_rows.h"
#include "query/spill/scratch.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
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
	uint64_t room;
	_Atomic uint64_t bytes; /* of blocks and texts */
	/* what does not fit; under lock */
	struct scratch *scratch;
	struct record_field *fields;
	struct spill_stream *stream; /* NULL: nothing was written */
	char *buffer;		     /* for a record */
	size_t buffer_room;
};

struct rows_writer {
	struct rows *rows;
	struct rows_block *first, *last; /* the last one is being filled */
	uint64_t total;
	struct fth_arena text;
	bool spills;
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
	     struct scratch *scratch, uint64_t room, struct rows **out)
{
	struct rows *r = fth_qmem_zalloc(mem, sizeof(*r));

	*out = r;
	if (!r)
		return -ENOMEM;
	r->mem = mem;
	r->columns = columns;
	r->count = count;
	r->scratch = scratch;
	r->room = room;
	pthread_mutex_init(&r->lock, NULL);
	r->fields = fth_qmem_alloc(mem, (count + 1) * sizeof(*r->fields));
	if (!r->fields) {
		rows_free(r);
		*out = NULL;
		return -ENOMEM;
	}
	for (unsigned i = 0; i < count; i++)
		r->fields[i] = (struct record_field){rows_phys(&columns[i]), true};
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

	if (!b)
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
	if (!r)
		return;
	while (r->first) {
		struct rows_block *next = r->first->next;

		fth_qmem_free(r->mem, r->first, block_bytes(r));
		r->first = next;
	}
	for (unsigned i = 0; i < r->text_count; i++)
		fth_arena_release(&r->texts[i]);
	fth_qmem_free(r->mem, r->texts, r->text_room * sizeof(*r->texts));
	spill_stream_drop(r->stream);
	fth_qmem_free(r->mem, r->buffer, r->buffer_room);
	fth_qmem_free(r->mem, r->fields, (r->count + 1) * sizeof(*r->fields));
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
	if (!larger)
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
	if (!w)
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
	return b && b->n < FTH_BATCH;
}

static int next_block(struct rows_writer *w)
{
	struct rows_block *b;

	if (in_block(w->last))
		return 0;
	if (w->rows->bytes >= w->rows->room)
		return -ENOMEM;
	b = new_block(w->rows);
	if (!b)
		return -ENOMEM;
	w->rows->bytes += block_bytes(w->rows);
	if (!w->last)
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

	if (!copy)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	w->rows->bytes += s.len;
	((struct fth_str *)to->data)[at] = (struct fth_str){copy, s.len, 0};
	return 0;
}

/* Values of rows[0..count) of a vector, behind the first `at` of a column. */
static int put_column(struct rows_writer *w, struct fth_vec *to, unsigned at,
		      const struct fth_vec *from, const uint16_t *rows, unsigned count)
{
	bool narrow = to->type == from->type && from->base == 0 && !from->dict;

	for (unsigned i = 0; i < count && from->nulls; i++)
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
				      from->nulls && fth_bit(from->nulls, rows[i])
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

/* Rows into the writer's blocks. Returns how many; fewer than all when memory is used up. */
static unsigned append_to_blocks(struct rows_writer *w, struct fth_vec *const *columns,
				 const uint16_t *rows, unsigned count)
{
	unsigned done = 0;

	while (done < count) {
		unsigned part;

		if (next_block(w) < 0)
			return done;
		part = FTH_BATCH - w->last->n < count - done ? FTH_BATCH - w->last->n
							     : count - done;
		for (unsigned i = 0; i < w->rows->count; i++)
			if (put_column(w, &w->last->columns[i], w->last->n, columns[i], rows + done,
				       part) < 0)
				return done;
		w->last->n += part;
		done += part;
	}
	return done;
}

/* ---- the scratch file ---- */

static int open_stream(struct rows *r)
{
	struct spill_file *spill;
	int rc = r->stream ? 0 : scratch_get(r->scratch, &spill);

	return rc < 0 || r->stream ? rc : spill_stream_open(spill, &r->stream);
}

static int write_record(struct rows *r, const struct fth_vec *const *columns, unsigned row)
{
	size_t size = record_size(r->fields, r->count, columns, row);

	if (size > r->buffer_room) {
		char *larger = fth_qmem_alloc(r->mem, 2 * size);

		if (!larger)
			return -ENOMEM;
		fth_qmem_free(r->mem, r->buffer, r->buffer_room);
		r->buffer = larger;
		r->buffer_room = 2 * size;
	}
	record_write(r->fields, r->count, columns, row, r->buffer);
	return spill_stream_append(r->stream, r->buffer, (uint32_t)size);
}

static int append_to_stream(struct rows *r, struct fth_vec *const *columns, const uint16_t *rows,
			    unsigned count)
{
	int rc;

	pthread_mutex_lock(&r->lock);
	rc = open_stream(r);
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = write_record(r, (const struct fth_vec *const *)columns, rows[i]);
	pthread_mutex_unlock(&r->lock);
	return rc;
}

int rows_append(struct rows_writer *w, struct fth_vec *const *columns, struct fth_sel *sel)
{
	const uint16_t *rows = fth_sel_rows(sel);
	unsigned done = w->spills ? 0 : append_to_blocks(w, columns, rows, sel->count);
	int rc = 0;

	/* A block in which a row failed half way is not added to any more. */
	w->spills = w->spills || done < sel->count;
	if (done < sel->count)
		rc = append_to_stream(w->rows, columns, rows + done, sel->count - done);
	w->total += rc == 0 ? sel->count : 0;
	return rc;
}

int rows_finish(struct rows *r)
{
	fth_qmem_free(r->mem, r->buffer, r->buffer_room);
	r->buffer = NULL;
	r->buffer_room = 0;
	return r->stream ? spill_stream_finish(r->stream) : 0;
}

/* Records to batches of columns, until the reader ends. */
static int read_records(struct rows *r, struct spill_reader *reader, struct record_batch *batch,
			int (*take)(void *user, const struct fth_vec *columns, unsigned n),
			void *user)
{
	const void *record;
	uint32_t size;
	int rc = 1;

	while (rc > 0) {
		int more = 1;

		record_batch_reset(batch);
		while (batch->n < FTH_BATCH && more > 0 &&
		       batch->text_bytes < r->room / 4 + TEXT_CHUNK) {
			more = spill_reader_next(reader, &record, &size);
			if (more > 0)
				rc = record_batch_add(batch, record, size);
			if (rc < 0)
				return rc;
		}
		rc = more < 0 ? more : batch->n > 0 ? take(user, batch->columns, batch->n) : 0;
		rc = rc == 0 ? more : rc;
	}
	return rc;
}

int rows_read_spilled(struct rows *r,
		      int (*take)(void *user, const struct fth_vec *columns, unsigned n),
		      void *user)
{
	struct record_batch batch;
	struct spill_reader *reader;
	int rc;

	if (!r->stream)
		return 0;
	rc = record_batch_init(&batch, r->mem, r->fields, r->count);
	if (rc == 0)
		rc = spill_reader_open(r->stream, &reader);
	if (rc == 0) {
		rc = read_records(r, reader, &batch, take, user);
		spill_reader_close(reader);
	}
	record_batch_release(&batch);
	return rc;
}

/* ---- all ---- */

void rows_writer_close(struct rows_writer *w)
{
	struct rows *r;

	if (!w)
		return;
	r = w->rows;
	pthread_mutex_lock(&r->lock);
	if (w->first) {
		if (!r->last)
			r->first = w->first;
		else
			r->last->next = w->first;
		r->last = w->last;
	}
	r->total += w->total;
	for (unsigned i = 0; i < r->text_count; i++)
		if (!r->texts[i].mem) {
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

uint64_t rows_bytes(const struct rows *r)
{
	return r->bytes;
}

const struct rows_block *rows_first(const struct rows *r)
{
	return r->first;
}
