/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text of a chunk without a dictionary is unpacked block by block into one buffer, so that the
 * strings of a batch lie one after the other and a search can run over all of them at once.
 *
 * Invariants of the text buffer:
 *  - It holds the unpacked blocks first_block to before end_block of `page`, adjacent, from `start`
 *    on.
 *  - offsets[i] is where string i begins, counted from the first row of first_block; one more ends
 *    the last string.
 *  - Batches come in ascending order; strings before a batch are dropped when another block is
 *    needed.
 */
#include "query/exec/decode.h"

#include "fathom/base/error.h"
#include "query/vec/kern/kern.h"

#include <errno.h>

struct text {
	char *bytes;
	size_t used, room;
	uint32_t *offsets;
	uint32_t rows, row_room; /* strings in the buffer */
	uint32_t first_row;	 /* of the group, of the first string */
	uint32_t end_block;
};

struct decoder {
	struct fth_qmem *mem;
	const struct fth_table *table;
	unsigned column;
	struct fth_type type;
	enum fth_table_kind kind;
	uint64_t nulls[FTH_BATCH_WORDS];
	void *values;	       /* of a batch; 16 bytes for each */
	struct fth_dict dict;  /* the column's */
	struct fth_dict local; /* of the present page */
	uint32_t dict_room, local_room;
	const void *page_image; /* whose dictionary or text is here */
	uint32_t page_group;
	struct text text;
};

#define VALUES_BYTES (FTH_BATCH * 16u)
#define TEXT_BLOCK   (256u << 10)

uint64_t decoder_memory(const struct fth_table *table, unsigned column)
{
	uint64_t entries = fth_table_facts(table, column)->dictionary;

	return fth_qmem_cost(sizeof(struct decoder)) + fth_qmem_cost(VALUES_BYTES) +
	       fth_qmem_cost(entries * sizeof(struct fth_str));
}

uint64_t decoder_growth(const struct fth_table *table, unsigned column)
{
	const struct fth_table_facts *f = fth_table_facts(table, column);
	uint64_t rows = fth_table_rows(table), batch;

	if (fth_table_kind(&fth_table_schema(table)->column[column]) != FTH_TABLE_KIND_STRING ||
	    (f->flags & FTH_TABLE_ALL_CODES) != 0 || rows == 0)
		return 0;
	batch = f->string_bytes / rows * FTH_BATCH;
	/* The buffer is there twice while it grows. */
	return 2 * (TEXT_BLOCK + (batch < f->string_bytes ? batch : f->string_bytes));
}

/* The entries of a dictionary as views. */
static int fill_dict(struct decoder *d, struct fth_dict *dict, uint32_t *room,
		     const struct fth_table_strings *strings)
{
	struct fth_str *entries = (struct fth_str *)dict->entries;

	if (strings->count > *room) {
		fth_qmem_free(d->mem, entries, *room * sizeof(*entries));
		*room = 0;
		dict->entries = NULL;
		entries = fth_qmem_alloc(d->mem, strings->count * sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		*room = strings->count;
	}
	for (uint32_t i = 0; i < strings->count; i++)
		entries[i] = (struct fth_str){strings->bytes + strings->offsets[i],
					      strings->offsets[i + 1] - strings->offsets[i], 0};
	dict->entries = entries;
	dict->count = strings->count;
	dict->id = fth_dict_next_id();
	return 0;
}

int decoder_open(struct fth_qmem *mem, const struct fth_table *table, unsigned column,
		 struct fth_type type, struct decoder **out)
{
	struct decoder *d = fth_qmem_zalloc(mem, sizeof(*d));
	struct fth_table_strings strings;
	int rc = 0;

	*out = NULL;
	if (!d)
		return -ENOMEM;
	d->mem = mem;
	d->table = table;
	d->column = column;
	d->type = type;
	d->kind = fth_table_kind(&fth_table_schema(table)->column[column]);
	d->values = fth_qmem_alloc(mem, VALUES_BYTES);
	if (!d->values)
		rc = -ENOMEM;
	if (rc == 0 && d->kind == FTH_TABLE_KIND_STRING) {
		fth_table_dictionary(table, column, &strings);
		if (strings.count > 0)
			rc = fill_dict(d, &d->dict, &d->dict_room, &strings);
	}
	if (rc < 0) {
		decoder_close(d);
		return rc;
	}
	*out = d;
	return 0;
}

void decoder_close(struct decoder *d)
{
	if (!d)
		return;
	fth_qmem_free(d->mem, d->text.bytes, d->text.room);
	fth_qmem_free(d->mem, d->text.offsets, d->text.row_room * sizeof(uint32_t));
	fth_qmem_free(d->mem, (void *)d->dict.entries, d->dict_room * sizeof(struct fth_str));
	fth_qmem_free(d->mem, (void *)d->local.entries, d->local_room * sizeof(struct fth_str));
	fth_qmem_free(d->mem, d->values, VALUES_BYTES);
	fth_qmem_free(d->mem, d, sizeof(*d));
}

/* ---- numbers ---- */

static int decode_bool(struct decoder *d, const struct fth_table_page *page, uint32_t from,
		       uint32_t to, struct fth_vec *out)
{
	/* Values need a byte each, their bits follow behind. */
	uint64_t *bits = (uint64_t *)((char *)d->values + FTH_BATCH);
	int rc = fth_table_page_ints(page, from, to, d->values, 1);

	if (rc < 0)
		return rc;
	fth_kern()->cmp_const[FTH_I8][FTH_KERN_EQ](bits, d->values, 0, to - from, ~(uint64_t)0);
	/* A bool that is null is false. */
	for (unsigned i = 0; i < fth_bits_words(to - from) && out->nulls; i++)
		bits[i] &= ~out->nulls[i];
	out->type = FTH_BITS;
	out->data = bits;
	return 0;
}

static int decode_ints(struct decoder *d, const struct fth_table_page *page, uint32_t from,
		       uint32_t to, struct fth_vec *out)
{
	const struct fth_table_chunk *chunk = page->chunk;

	out->type = chunk->min > chunk->max ? FTH_I8 : fth_phys_for(chunk->min, chunk->max);
	out->data = d->values;
	return fth_table_page_ints(page, from, to, d->values, fth_phys_width(out->type));
}

/* ---- text ---- */

static int decode_codes(struct decoder *d, const struct fth_table_page *page, uint32_t from,
			uint32_t to, const struct fth_dict *dict, struct fth_vec *out)
{
	out->type = dict->count == 0 ? FTH_I8 : fth_phys_for(0, dict->count - 1);
	out->data = d->values;
	out->dict = dict;
	return fth_table_page_codes(page, from, to, d->values, fth_phys_width(out->type));
}

static int grow(struct fth_qmem *mem, void **p, size_t *room, size_t need)
{
	size_t larger = *room * 2 > need ? *room * 2 : need;
	void *q;

	if (need <= *room)
		return 0;
	q = fth_qmem_realloc(mem, *p, *room, larger);
	if (!q)
		return -ENOMEM;
	*p = q;
	*room = larger;
	return 0;
}

/* Drop the strings before row `from`. */
static void drop_text(struct text *t, uint32_t from)
{
	uint32_t gone = from - t->first_row;
	uint32_t bytes;

	if (gone == 0)
		return;
	bytes = t->offsets[gone];
	memmove(t->bytes, t->bytes + bytes, t->used - bytes);
	t->used -= bytes;
	for (uint32_t i = gone; i <= t->rows; i++)
		t->offsets[i - gone] = t->offsets[i] - bytes;
	t->rows -= gone;
	t->first_row = from;
}

/* Unpack the next block behind those in the buffer. */
static int add_block(struct decoder *d, const struct fth_table_page *page,
		     const unsigned char *image)
{
	struct text *t = &d->text;
	struct fth_table_block block;
	size_t row_bytes = t->row_room * sizeof(uint32_t);
	int rc = fth_table_page_block(page, t->end_block, &block);

	if (rc == 0)
		rc = grow(d->mem, (void **)&t->bytes, &t->room, t->used + block.text);
	if (rc == 0)
		rc = grow(d->mem, (void **)&t->offsets, &row_bytes,
			  ((size_t)t->rows + block.rows + 1) * sizeof(uint32_t));
	t->row_room = (uint32_t)(row_bytes / sizeof(uint32_t));
	if (rc == 0)
		rc = fth_table_page_unpack(page, t->end_block, image + block.at, t->bytes + t->used,
					   t->offsets + t->rows);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i <= block.rows; i++)
		t->offsets[t->rows + i] += (uint32_t)t->used;
	t->rows += block.rows;
	t->used += block.text;
	t->end_block++;
	return 0;
}

static void start_text(struct text *t, const struct fth_table_page *page, uint32_t from)
{
	struct fth_table_block block;

	t->end_block = fth_table_page_block_of(page, from);
	fth_table_page_block(page, t->end_block, &block);
	t->first_row = block.first;
	t->rows = 0;
	t->used = 0;
}

static int decode_text(struct decoder *d, const struct fth_table_page *page,
		       const unsigned char *image, bool new_page, uint32_t from, uint32_t to,
		       struct fth_vec *out)
{
	struct fth_str *views = d->values;
	struct text *t = &d->text;

	if (new_page || from < t->first_row || from >= t->first_row + t->rows)
		start_text(t, page, from);
	else if (t->first_row + t->rows < to)
		drop_text(t, from);
	while (t->first_row + t->rows < to) {
		int rc = add_block(d, page, image);

		if (rc < 0)
			return rc;
	}
	for (uint32_t i = from; i < to; i++) {
		const uint32_t *at = &t->offsets[i - t->first_row];

		views[i - from] = (struct fth_str){t->bytes + at[0], at[1] - at[0], 0};
	}
	out->type = FTH_STR;
	out->data = views;
	out->block = t->bytes + t->offsets[from - t->first_row];
	out->block_len = t->offsets[to - t->first_row] - t->offsets[from - t->first_row];
	return 0;
}

static int decode_string(struct decoder *d, const struct fth_table_page *page,
			 const unsigned char *image, uint32_t from, uint32_t to,
			 struct fth_vec *out)
{
	bool new_page = d->page_image != image || d->page_group != page->group;
	struct fth_table_strings strings;
	int rc = 0;

	d->page_image = image;
	d->page_group = page->group;
	switch (page->chunk->encoding) {
	case FTH_TABLE_CODES:
		return decode_codes(d, page, from, to, &d->dict, out);
	case FTH_TABLE_LOCAL:
		if (new_page) {
			fth_table_page_dictionary(page, &strings);
			rc = fill_dict(d, &d->local, &d->local_room, &strings);
		}
		return rc < 0 ? rc : decode_codes(d, page, from, to, &d->local, out);
	default:
		return decode_text(d, page, image, new_page, from, to, out);
	}
}

int decoder_run(struct decoder *d, const struct fth_table_page *page, const unsigned char *image,
		uint32_t from, uint32_t to, struct fth_vec *out)
{
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (page->chunk->nulls > 0) {
		rc = fth_table_page_nulls(page, from, to, d->nulls);
		out->nulls = d->nulls;
	}
	if (rc < 0)
		return rc;
	switch (d->kind) {
	case FTH_TABLE_KIND_INT:
		return d->type.kind == FTH_T_BOOL ? decode_bool(d, page, from, to, out)
						  : decode_ints(d, page, from, to, out);
	case FTH_TABLE_KIND_DOUBLE:
		out->type = FTH_F64;
		out->data = d->values;
		return fth_table_page_doubles(page, from, to, d->values);
	case FTH_TABLE_KIND_WIDE:
		out->type = FTH_I128;
		out->data = d->values;
		return fth_table_page_wides(page, from, to, d->values);
	case FTH_TABLE_KIND_STRING:
		return decode_string(d, page, image, from, to, out);
	}
	return -EINVAL;
}
