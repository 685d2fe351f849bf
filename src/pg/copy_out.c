/* SPDX-License-Identifier: BSD-2-Clause */
/* COPY TO STDOUT: rows as text, CSV or binary. */
#include "pg/copy.h"

#include <string.h>

static void put_text_field(struct pg_wire *w, const struct pg_copy_out *how, const char *text,
			   size_t n)
{
	for (size_t i = 0; i < n; i++) {
		static const char from[] = "\b\f\n\r\t\v\\", to[] = "bfnrtv\\";
		const char *special = text[i] ? strchr(from, text[i]) : NULL;

		if (special || text[i] == how->delimiter)
			pg_put_u8(w, '\\');
		pg_put_u8(w, (uint8_t)(special ? to[special - from] : text[i]));
	}
}

static void put_csv_field(struct pg_wire *w, const struct pg_copy_out *how, const char *text,
			  size_t n)
{
	bool quoted = n == strlen(how->null) && memcmp(text, how->null, n) == 0;

	for (size_t i = 0; i < n && !quoted; i++)
		quoted = text[i] == how->delimiter || text[i] == how->quote || text[i] == '\n' ||
			 text[i] == '\r';
	quoted |= n == 2 && memcmp(text, "\\.", 2) == 0;
	if (!quoted) {
		pg_put_bytes(w, text, n);
		return;
	}
	pg_put_u8(w, (uint8_t)how->quote);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == how->quote)
			pg_put_u8(w, (uint8_t)how->quote);
		pg_put_u8(w, (uint8_t)text[i]);
	}
	pg_put_u8(w, (uint8_t)how->quote);
}

static void put_field(struct pg_wire *w, const struct pg_copy_out *how, const char *text, size_t n)
{
	if (how->format == PG_COPY_CSV)
		put_csv_field(w, how, text, n);
	else
		put_text_field(w, how, text, n);
}

static int put_header(struct pg_wire *w, const struct fth_query_batch *b,
		      const struct pg_copy_out *how)
{
	unsigned n = fth_query_columns(b);

	pg_put_begin(w, 'd');
	for (unsigned i = 0; i < n; i++) {
		const char *name = fth_query_column(b, i)->name;

		if (i > 0)
			pg_put_u8(w, (uint8_t)how->delimiter);
		put_field(w, how, name, strlen(name));
	}
	pg_put_u8(w, '\n');
	return pg_put_end(w);
}

static int begin_copy(struct pg_wire *w, const struct fth_query_batch *b,
		      const struct pg_copy_out *how)
{
	static const char signature[] = "PGCOPY\n\377\r\n";
	bool binary = how->format == PG_COPY_BINARY;
	unsigned n = fth_query_columns(b);

	pg_put_begin(w, 'H');
	pg_put_u8(w, binary);
	pg_put_i16(w, (int)n);
	for (unsigned i = 0; i < n; i++)
		pg_put_i16(w, binary);
	(void)pg_put_end(w);
	if (binary) {
		pg_put_begin(w, 'd');
		pg_put_bytes(w, signature, 11);
		pg_put_i32(w, 0);
		pg_put_i32(w, 0);
		return pg_put_end(w);
	}
	return how->header ? put_header(w, b, how) : w->failed;
}

static int put_row(struct pg_wire *w, const struct fth_query_batch *b, unsigned row,
		   const struct pg_copy_out *how)
{
	unsigned n = fth_query_columns(b);
	char text[FTH_QUERY_TEXT_MAX];

	pg_put_begin(w, 'd');
	for (unsigned i = 0; i < n; i++) {
		enum fth_table_type type = fth_query_column(b, i)->type;
		const char *from = text;
		size_t length;

		if (i > 0)
			pg_put_u8(w, (uint8_t)how->delimiter);
		if (fth_query_null(b, row, i)) {
			pg_put_bytes(w, how->null, strlen(how->null));
			continue;
		}
		if (type == FTH_TABLE_CHAR || type == FTH_TABLE_VARCHAR)
			from = fth_query_string(b, row, i, &length);
		else
			length = fth_query_text(b, row, i, text, sizeof(text));
		put_field(w, how, from, length);
	}
	pg_put_u8(w, '\n');
	return pg_put_end(w);
}

int pg_copy_batch(const struct fth_query_batch *batch, struct pg_rows *rows)
{
	static const int16_t binary = 1;
	unsigned n = fth_query_rows(batch);
	int rc = 0;

	if (n == 0)
		return begin_copy(rows->wire, batch, rows->copy);
	for (unsigned i = 0; i < n && rc == 0; i++) {
		if (rows->copy->format == PG_COPY_BINARY)
			rc = pg_put_row(rows->wire, batch, i, 'd', &binary, 1);
		else
			rc = put_row(rows->wire, batch, i, rows->copy);
	}
	rows->count += n;
	return rc;
}
