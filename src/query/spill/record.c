/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/spill/record.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"

#include <errno.h>

static size_t value_width(enum fth_phys type)
{
	return type == FTH_BITS ? 1 : fth_phys_width(type);
}

static bool is_null(const struct fth_vec *v, unsigned i)
{
	return v->nulls && fth_bit(v->nulls, i);
}

size_t record_size(const struct record_field *fields, unsigned count,
		   const struct fth_vec *const *columns, unsigned i)
{
	size_t size = 0;

	for (unsigned c = 0; c < count; c++) {
		size += fields[c].nullable;
		if (fields[c].nullable && is_null(columns[c], i))
			continue;
		size += fields[c].type == FTH_STR ? 4 + rows_text(columns[c], i).len
						  : value_width(fields[c].type);
	}
	return size;
}

static char *put_text(struct fth_str s, char *out)
{
	memcpy(out, &s.len, 4);
	memcpy(out + 4, s.data, s.len);
	return out + 4 + s.len;
}

static char *put_value(enum fth_phys type, const struct fth_vec *v, unsigned i, char *out)
{
	size_t width = value_width(type);
	fth_i128 x;

	if (type == FTH_F64) {
		memcpy(out, (const double *)v->data + i, width);
		return out + width;
	}
	x = type == FTH_BITS ? fth_bit(v->data, i) : fth_vec_int(v, i);
	memcpy(out, &x, width); /* little-endian: the low bytes */
	return out + width;
}

char *record_write(const struct record_field *fields, unsigned count,
		   const struct fth_vec *const *columns, unsigned i, char *out)
{
	for (unsigned c = 0; c < count; c++) {
		bool null = is_null(columns[c], i);

		if (fields[c].nullable)
			*out++ = null;
		if (fields[c].nullable && null)
			continue;
		out = fields[c].type == FTH_STR ? put_text(rows_text(columns[c], i), out)
						: put_value(fields[c].type, columns[c], i, out);
	}
	return out;
}

/* ---- batches ---- */

static size_t column_bytes(enum fth_phys type)
{
	return type == FTH_BITS ? FTH_BATCH / 8 : (size_t)FTH_BATCH * fth_phys_width(type);
}

int record_batch_init(struct record_batch *b, struct fth_qmem *mem,
		      const struct record_field *fields, unsigned count)
{
	*b = (struct record_batch){.mem = mem, .fields = fields, .count = count};
	fth_arena_init(&b->text, mem, 16u << 10);
	b->columns = fth_qmem_zalloc(mem, (count + 1) * sizeof(*b->columns));
	b->values = fth_qmem_zalloc(mem, (count + 1) * sizeof(void *));
	b->nulls = fth_qmem_zalloc(mem, (count + 1) * sizeof(uint64_t *));
	if (!b->columns || !b->values || !b->nulls)
		return -ENOMEM;
	for (unsigned c = 0; c < count; c++) {
		b->values[c] = fth_qmem_alloc(mem, column_bytes(fields[c].type));
		b->nulls[c] = fth_qmem_alloc(mem, FTH_BATCH / 8);
		if (!b->values[c] || !b->nulls[c])
			return -ENOMEM;
		b->columns[c] = (struct fth_vec){.type = fields[c].type, .data = b->values[c]};
		if (fields[c].nullable)
			b->columns[c].nulls = b->nulls[c];
	}
	record_batch_reset(b);
	return 0;
}

void record_batch_release(struct record_batch *b)
{
	if (!b->mem)
		return;
	for (unsigned c = 0; c < b->count && b->values; c++)
		fth_qmem_free(b->mem, b->values[c], column_bytes(b->fields[c].type));
	for (unsigned c = 0; c < b->count && b->nulls; c++)
		fth_qmem_free(b->mem, b->nulls[c], FTH_BATCH / 8);
	fth_qmem_free(b->mem, b->columns, (b->count + 1) * sizeof(*b->columns));
	fth_qmem_free(b->mem, b->values, (b->count + 1) * sizeof(void *));
	fth_qmem_free(b->mem, b->nulls, (b->count + 1) * sizeof(uint64_t *));
	fth_arena_release(&b->text);
	*b = (struct record_batch){0};
}

void record_batch_reset(struct record_batch *b)
{
	b->n = 0;
	b->text_bytes = 0;
	fth_arena_reset(&b->text);
	for (unsigned c = 0; c < b->count; c++) {
		memset(b->nulls[c], 0, FTH_BATCH / 8);
		if (b->fields[c].type == FTH_BITS)
			memset(b->values[c], 0, FTH_BATCH / 8);
	}
}

struct cursor {
	const char *at;
	size_t left;
};

static const char *take(struct cursor *c, size_t size)
{
	const char *p = c->at;

	if (size > c->left)
		return NULL;
	c->at += size;
	c->left -= size;
	return p;
}

static int cut_off(void)
{
	return fth_fail(EILSEQ, "a spilled record is truncated");
}

static int get_text(struct record_batch *b, unsigned column, struct cursor *from)
{
	const char *p = take(from, 4);
	uint32_t len = 0;
	char *copy;

	if (p)
		memcpy(&len, p, 4);
	p = p ? take(from, len) : NULL;
	if (!p)
		return cut_off();
	copy = fth_arena_alloc(&b->text, len + 1, 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, p, len);
	b->text_bytes += len;
	((struct fth_str *)b->values[column])[b->n] = (struct fth_str){copy, len, 0};
	return 0;
}

static int get_value(struct record_batch *b, unsigned column, struct cursor *from)
{
	enum fth_phys type = b->fields[column].type;
	size_t width = value_width(type);
	const char *p = take(from, width);

	if (!p)
		return cut_off();
	if (type != FTH_BITS)
		memcpy((char *)b->values[column] + b->n * width, p, width);
	else if (*p != 0)
		fth_bit_set(b->values[column], b->n);
	return 0;
}

static void put_null(struct record_batch *b, unsigned column)
{
	enum fth_phys type = b->fields[column].type;
	size_t width = fth_phys_width(type);

	fth_bit_set(b->nulls[column], b->n);
	if (type == FTH_STR)
		((struct fth_str *)b->values[column])[b->n] = (struct fth_str){"", 0, 0};
	else if (type != FTH_BITS)
		memset((char *)b->values[column] + b->n * width, 0, width);
}

int record_batch_add(struct record_batch *b, const char *record, size_t size)
{
	struct cursor from = {record, size};
	int rc = 0;

	for (unsigned c = 0; c < b->count && rc == 0; c++) {
		const char *null = b->fields[c].nullable ? take(&from, 1) : "";

		if (!null)
			return cut_off();
		if (*null != 0)
			put_null(b, c);
		else
			rc = b->fields[c].type == FTH_STR ? get_text(b, c, &from)
							  : get_value(b, c, &from);
	}
	if (rc == 0 && from.left > 0)
		rc = fth_fail(EILSEQ, "a spilled record is too long");
	b->n += rc == 0;
	return rc;
}
