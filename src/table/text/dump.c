/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing a table as text. */
#include "table/page/decode.h"

#include "base/options.h"
#include "scalar/num.h"

#include "fathom/base/error.h"
#include "fathom/table/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct dump {
	const struct fth_table_schema *schema;
	const struct fth_table_text *text;
	FILE *out;
};

static void put_decimal(FILE *out, fth_i128 value, unsigned scale)
{
	char text[FTH_NUM_TEXT];

	fwrite(text, 1, fth_dec_text(value, scale, text), out);
}

static void put_int(FILE *out, const struct fth_table_column *column, int64_t value)
{
	unsigned year, month, day;

	switch (column->type) {
	case FTH_TABLE_BOOL:
		fputc(value ? 't' : 'f', out);
		break;
	case FTH_TABLE_DATE:
		fth_table_date_split((int32_t)value, &year, &month, &day);
		fprintf(out, "%04u-%02u-%02u", year, month, day);
		break;
	default:
		put_decimal(out, value, column->scale);
	}
}

static void put_wide(FILE *out, const struct fth_table_column *column, struct fth_table_wide value)
{
	fth_u128 bits = (fth_u128)(uint64_t)value.high << 64 | value.low;

	put_decimal(out, (fth_i128)bits, column->scale);
}

/* The shortest text that reads back as the same number. */
static void put_double(FILE *out, double value)
{
	char text[64];

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, out);
}

static bool needs_quotes(const struct dump *d, const char *bytes, size_t n)
{
	const struct fth_table_text *t = d->text;

	return (t->null && n == strlen(t->null) && memcmp(bytes, t->null, n) == 0) ||
	       memchr(bytes, t->delimiter, n) || memchr(bytes, t->quote, n) ||
	       memchr(bytes, '\n', n) || memchr(bytes, '\r', n);
}

static int put_string(const struct dump *d, const char *bytes, size_t n)
{
	const struct fth_table_text *t = d->text;

	if (!t->quote && (memchr(bytes, t->delimiter, n) || memchr(bytes, '\n', n)))
		return fth_fail(EILSEQ,
				"a string contains a delimiter or newline; set a quote character");
	if (!t->quote || !needs_quotes(d, bytes, n)) {
		fwrite(bytes, 1, n, d->out);
		return 0;
	}
	fputc(t->quote, d->out);
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == t->quote)
			fputc(t->quote, d->out);
		fputc(bytes[i], d->out);
	}
	fputc(t->quote, d->out);
	return 0;
}

static int put_value(const struct dump *d, uint32_t c, const struct decoded *column, uint32_t row)
{
	if (decoded_null(column, row)) {
		if (!d->text->null)
			return fth_fail(EILSEQ, "column %s contains a null; set a text for nulls",
					d->schema->column[c].name);
		fputs(d->text->null, d->out);
		return 0;
	}
	switch (column->kind) {
	case FTH_TABLE_KIND_STRING:
		return put_string(d, column->bytes + column->offsets[row],
				  column->offsets[row + 1] - column->offsets[row]);
	case FTH_TABLE_KIND_WIDE:
		put_wide(d->out, &d->schema->column[c], column->wides[row]);
		return 0;
	case FTH_TABLE_KIND_DOUBLE:
		put_double(d->out, fth_table_double_of_key(column->ints[row]));
		return 0;
	default:
		put_int(d->out, &d->schema->column[c], column->ints[row]);
		return 0;
	}
}

static void end_line(const struct dump *d)
{
	if (d->text->trailing)
		fputc(d->text->delimiter, d->out);
	fputc('\n', d->out);
}

static int dump_rows(const struct dump *d, const struct decoded *columns, uint32_t rows)
{
	int rc = 0;

	for (uint32_t row = 0; rc == 0 && row < rows; row++) {
		for (uint32_t c = 0; rc == 0 && c < d->schema->columns; c++) {
			if (c)
				fputc(d->text->delimiter, d->out);
			rc = put_value(d, c, &columns[c], row);
		}
		end_line(d);
	}
	return rc;
}

static int dump_group(struct fth_table *table, const struct dump *d, uint32_t group,
		      struct decoded *columns)
{
	int rc = 0;

	for (uint32_t c = 0; rc == 0 && c < d->schema->columns; c++)
		rc = decode_chunk(table, c, group, &columns[c]);
	if (rc == 0)
		rc = dump_rows(d, columns, fth_table_group(table, group)->rows);
	for (uint32_t c = 0; c < d->schema->columns; c++)
		decoded_release(&columns[c]);
	return rc;
}

int fth_table_dump(struct fth_table *table, const struct fth_table_text *text, FILE *out)
{
	const struct dump d = {fth_table_schema(table), text, out};
	struct decoded *columns;
	int rc = fth_options_check("table", text->size, sizeof(*text));

	if (rc < 0)
		return rc;
	columns = calloc(d.schema->columns, sizeof(*columns));
	if (!columns)
		return -ENOMEM;
	for (uint32_t c = 0; text->header && c < d.schema->columns; c++)
		fprintf(out, "%s%.*s", d.schema->column[c].name, c + 1 < d.schema->columns,
			&text->delimiter);
	if (text->header)
		end_line(&d);
	for (uint32_t g = 0; rc == 0 && g < fth_table_groups(table); g++) {
		rc = dump_group(table, &d, g, columns);
		if (rc == 0 && ferror(out))
			rc = fth_fail(EIO, "cannot write the text");
	}
	free(columns);
	return rc;
}
