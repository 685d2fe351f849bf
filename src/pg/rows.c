/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of the engine as messages. */
#include "pg/copy.h"
#include "pg/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool pg_is_binary(const int16_t *formats, unsigned format_count, unsigned column)
{
	if (format_count == 0)
		return false;
	return formats[format_count == 1 ? 0 : column] == 1;
}

int pg_put_columns(struct pg_wire *w, const struct pg_column *columns, unsigned count,
		   const int16_t *formats, unsigned format_count)
{
	pg_put_begin(w, 'T');
	pg_put_i16(w, (int)count);
	for (unsigned i = 0; i < count; i++) {
		const struct pg_column *c = &columns[i];

		pg_put_string(w, c->name);
		pg_put_i32(w, (int32_t)c->table);
		pg_put_i16(w, c->attribute);
		pg_put_i32(w, (int32_t)c->oid);
		pg_put_i16(w, pg_type_size(c->oid));
		pg_put_i32(w, c->typmod);
		pg_put_i16(w, pg_is_binary(formats, format_count, i));
	}
	return pg_put_end(w);
}

int pg_take_columns(const struct fth_query_batch *batch, struct pg_column **out, unsigned *count)
{
	unsigned n = fth_query_columns(batch);
	struct pg_column *columns = calloc(n + 1, sizeof(*columns));

	if (!columns)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		const struct fth_query_column *c = fth_query_column(batch, i);

		columns[i].name = strdup(c->name);
		columns[i].oid = pg_type_of(c, &columns[i].typmod);
		if (!columns[i].name) {
			pg_free_columns(columns, n);
			return -ENOMEM;
		}
	}
	*out = columns;
	*count = n;
	return 0;
}

void pg_free_columns(struct pg_column *columns, unsigned count)
{
	for (unsigned i = 0; columns && i < count; i++)
		free(columns[i].name);
	free(columns);
}

static int describe(const struct fth_query_batch *batch, const struct pg_rows *rows)
{
	struct pg_column *columns;
	unsigned count;
	int rc = pg_take_columns(batch, &columns, &count);

	if (rc < 0)
		return rc;
	rc = pg_put_columns(rows->wire, columns, count, rows->formats, rows->format_count);
	pg_free_columns(columns, count);
	return rc;
}

static void put_binary(struct pg_wire *w, const struct fth_query_batch *b, unsigned row,
		       unsigned column)
{
	char text[FTH_QUERY_TEXT_MAX];
	int64_t bits;
	double value;

	switch (fth_query_column(b, column)->type) {
	case FTH_TABLE_BOOL:
		pg_put_i32(w, 1);
		pg_put_u8(w, fth_query_int(b, row, column) != 0);
		break;
	case FTH_TABLE_INT32:
		pg_put_i32(w, 4);
		pg_put_i32(w, (int32_t)fth_query_int(b, row, column));
		break;
	case FTH_TABLE_DATE:
		pg_put_i32(w, 4);
		pg_put_i32(w, (int32_t)fth_query_int(b, row, column) - PG_EPOCH_DAYS);
		break;
	case FTH_TABLE_INT64:
		pg_put_i32(w, 8);
		pg_put_i64(w, fth_query_int(b, row, column));
		break;
	case FTH_TABLE_DOUBLE:
		value = fth_query_double(b, row, column);
		memcpy(&bits, &value, sizeof(bits));
		pg_put_i32(w, 8);
		pg_put_i64(w, bits);
		break;
	default:
		pg_numeric_out(w, text, fth_query_text(b, row, column, text, sizeof(text)));
	}
}

/* An integer's digits, without printf. */
static unsigned integer_text(int64_t value, char *to)
{
	uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	char digits[24];
	unsigned n = 0, at = 0;

	do {
		digits[n++] = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (value < 0)
		to[at++] = '-';
	while (n > 0)
		to[at++] = digits[--n];
	return at;
}

static void put_text(struct pg_wire *w, const struct fth_query_batch *b, unsigned row,
		     unsigned column)
{
	enum fth_table_type type = fth_query_column(b, column)->type;
	char *to = pg_put_room(w, 4 + FTH_QUERY_TEXT_MAX);
	size_t n;

	if (!to)
		return;
	if (type == FTH_TABLE_INT32 || type == FTH_TABLE_INT64)
		n = integer_text(fth_query_int(b, row, column), to + 4);
	else
		n = fth_query_text(b, row, column, to + 4, FTH_QUERY_TEXT_MAX);
	to[0] = to[1] = to[2] = 0;
	to[3] = (char)n;
	pg_put_used(w, 4 + n);
}

int pg_put_row(struct pg_wire *w, const struct fth_query_batch *b, unsigned row, char type,
	       const int16_t *formats, unsigned format_count)
{
	unsigned n = fth_query_columns(b);

	pg_put_begin(w, type);
	pg_put_i16(w, (int)n);
	for (unsigned i = 0; i < n; i++) {
		enum fth_table_type kind = fth_query_column(b, i)->type;

		if (fth_query_null(b, row, i)) {
			pg_put_i32(w, -1);
		} else if (kind == FTH_TABLE_VARCHAR || kind == FTH_TABLE_CHAR) {
			size_t length;
			const char *text = fth_query_string(b, row, i, &length);

			pg_put_i32(w, (int32_t)length);
			pg_put_bytes(w, text, length);
		} else if (pg_is_binary(formats, format_count, i)) {
			put_binary(w, b, row, i);
		} else {
			put_text(w, b, row, i);
		}
	}
	return pg_put_end(w);
}

int pg_take_batch(const struct fth_query_batch *batch, void *user)
{
	struct pg_rows *rows = user;
	unsigned n = fth_query_rows(batch);
	int rc = 0;

	if (rows->copy)
		return pg_copy_batch(batch, rows);
	if (n == 0 && rows->describe)
		return describe(batch, rows);
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = pg_put_row(rows->wire, batch, i, 'D', rows->formats, rows->format_count);
	rows->count += n;
	return rc;
}
