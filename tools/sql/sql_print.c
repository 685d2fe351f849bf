/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A drawn table needs the widths of its columns before its first row: they are those of the first
 * rows, up to HELD_ROWS and HELD_BYTES. Later rows that are wider stand out, so that a result of
 * any size takes no more memory.
 */
#include "sql_print.h"

#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_ROWS  1000u
#define HELD_BYTES (1u << 20)

/* Texts of the rows that are held, one after the other, each with its terminator. */
struct fth_sql_cells {
	unsigned columns;
	unsigned *widths;
	bool *right; /* numbers */
	unsigned rows;
	size_t used, room;
	char *text;
	bool drawn; /* the head and the rows that were held */
};

static bool is_string(enum fth_table_type type)
{
	return type == FTH_TABLE_CHAR || type == FTH_TABLE_VARCHAR;
}

/* ---- CSV ---- */

static void put_csv(const char *text, size_t length, bool must_quote)
{
	for (size_t i = 0; i < length && !must_quote; i++)
		must_quote = strchr(",\"\n\r", text[i]) != NULL;
	if (!must_quote) {
		fwrite(text, 1, length, stdout);
		return;
	}
	putchar('"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"')
			putchar('"');
		putchar(text[i]);
	}
	putchar('"');
}

static void csv_value(const struct fth_sql_printer *p, const struct fth_query_batch *b,
		      unsigned row, unsigned column)
{
	char text[FTH_QUERY_TEXT_MAX];
	size_t length;

	if (fth_query_null(b, row, column)) {
		fputs(p->null, stdout);
	} else if (is_string(fth_query_column(b, column)->type)) {
		const char *s = fth_query_string(b, row, column, &length);

		/* A string that reads as the null is quoted, so that it is none. */
		put_csv(s, length, length == strlen(p->null) && memcmp(s, p->null, length) == 0);
	} else {
		length = fth_query_text(b, row, column, text, sizeof(text));
		fwrite(text, 1, length, stdout);
	}
}

static void csv_batch(const struct fth_sql_printer *p, const struct fth_query_batch *b)
{
	unsigned columns = fth_query_columns(b);

	if (fth_query_rows(b) == 0 && p->header) {
		for (unsigned c = 0; c < columns; c++) {
			const char *name = fth_query_column(b, c)->name;

			fputs(c == 0 ? "" : ",", stdout);
			put_csv(name, strlen(name), false);
		}
		putchar('\n');
	}
	for (unsigned r = 0; r < fth_query_rows(b); r++) {
		for (unsigned c = 0; c < columns; c++) {
			fputs(c == 0 ? "" : ",", stdout);
			csv_value(p, b, r, c);
		}
		putchar('\n');
	}
}

/* ---- JSON ---- */

static void json_value(const struct fth_query_batch *b, unsigned row, unsigned column)
{
	enum fth_table_type type = fth_query_column(b, column)->type;
	char text[FTH_QUERY_TEXT_MAX];
	size_t length;

	if (fth_query_null(b, row, column)) {
		fputs("null", stdout);
	} else if (is_string(type)) {
		const char *s = fth_query_string(b, row, column, &length);

		fth_json_text(stdout, s, length);
	} else if (type == FTH_TABLE_BOOL) {
		fputs(fth_query_int(b, row, column) ? "true" : "false", stdout);
	} else {
		length = fth_query_text(b, row, column, text, sizeof(text));
		/* Infinity and NaN are no numbers of JSON. */
		if (type == FTH_TABLE_DATE || (type == FTH_TABLE_DOUBLE && strpbrk(text, "INin")))
			fth_json_text(stdout, text, length);
		else
			fwrite(text, 1, length, stdout);
	}
}

static void json_batch(const struct fth_query_batch *b)
{
	for (unsigned r = 0; r < fth_query_rows(b); r++) {
		for (unsigned c = 0; c < fth_query_columns(b); c++) {
			const char *name = fth_query_column(b, c)->name;

			putchar(c == 0 ? '{' : ',');
			fth_json_text(stdout, name, strlen(name));
			putchar(':');
			json_value(b, r, c);
		}
		puts(fth_query_columns(b) == 0 ? "{}" : "}");
	}
}

/* ---- tables ---- */

/* Characters of UTF-8, as a terminal shows them one beside the other. */
static unsigned width_of(const char *text)
{
	unsigned n = 0;

	for (; *text != '\0'; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static int hold(struct fth_sql_cells *cells, unsigned column, const char *text, size_t length)
{
	while (cells->used + length + 1 > cells->room) {
		size_t room = cells->room == 0 ? 4096 : cells->room * 2;
		char *more = realloc(cells->text, room);

		if (!more)
			return -ENOMEM;
		cells->text = more;
		cells->room = room;
	}
	memcpy(cells->text + cells->used, text, length);
	/* What would break the drawing is shown as a blank. */
	for (size_t i = 0; i < length; i++) {
		char *at = &cells->text[cells->used + i];

		if ((unsigned char)*at < 0x20)
			*at = ' ';
	}
	cells->text[cells->used + length] = '\0';
	length = width_of(cells->text + cells->used);
	cells->used += strlen(cells->text + cells->used) + 1;
	if (length > cells->widths[column] && !cells->drawn)
		cells->widths[column] = (unsigned)length;
	return 0;
}

static int hold_value(const struct fth_sql_printer *p, const struct fth_query_batch *b,
		      unsigned row, unsigned column)
{
	char text[FTH_QUERY_TEXT_MAX];
	const char *s = p->null;
	size_t length = strlen(s);

	if (fth_query_null(b, row, column))
		return hold(p->cells, column, s, length);
	if (is_string(fth_query_column(b, column)->type)) {
		s = fth_query_string(b, row, column, &length);
		return hold(p->cells, column, s, length);
	}
	length = fth_query_text(b, row, column, text, sizeof(text));
	return hold(p->cells, column, text, length);
}

static const char *draw_row(const struct fth_sql_cells *cells, const char *text)
{
	for (unsigned c = 0; c < cells->columns; c++) {
		unsigned width = width_of(text);
		int blanks = width < cells->widths[c] ? (int)(cells->widths[c] - width) : 0;
		bool last = c + 1 == cells->columns;

		printf("%s%*s%s%*s", c == 0 ? " " : " | ", cells->right[c] ? blanks : 0, "", text,
		       cells->right[c] || last ? 0 : blanks, "");
		text += strlen(text) + 1;
	}
	putchar('\n');
	return text;
}

/* The rows that are held; the first is that of the names. */
static void draw_held(struct fth_sql_cells *cells)
{
	const char *text = cells->text;

	for (unsigned r = 0; r < cells->rows; r++) {
		text = draw_row(cells, text);
		if (r > 0 || cells->drawn)
			continue;
		for (unsigned c = 0; c < cells->columns; c++) {
			fputs(c == 0 ? "-" : "-+-", stdout);
			for (unsigned i = 0; i < cells->widths[c]; i++)
				putchar('-');
		}
		fputs("-\n", stdout);
	}
	cells->drawn = true;
	cells->rows = 0;
	cells->used = 0;
}

static void cells_free(struct fth_sql_cells *cells)
{
	if (!cells)
		return;
	free(cells->widths);
	free(cells->right);
	free(cells->text);
	free(cells);
}

static int cells_begin(struct fth_sql_printer *p, const struct fth_query_batch *b)
{
	struct fth_sql_cells *cells = calloc(1, sizeof(*cells));
	int rc = 0;

	p->cells = cells;
	if (!cells)
		return -ENOMEM;
	cells->columns = fth_query_columns(b);
	cells->widths = calloc(cells->columns + 1, sizeof(*cells->widths));
	cells->right = calloc(cells->columns + 1, sizeof(*cells->right));
	if (!cells->widths || !cells->right)
		return -ENOMEM;
	for (unsigned c = 0; c < cells->columns && rc == 0; c++) {
		const struct fth_query_column *column = fth_query_column(b, c);

		cells->right[c] = !is_string(column->type) && column->type != FTH_TABLE_BOOL &&
				  column->type != FTH_TABLE_DATE;
		rc = hold(cells, c, column->name, strlen(column->name));
	}
	cells->rows = 1;
	return rc;
}

static int table_batch(struct fth_sql_printer *p, const struct fth_query_batch *b)
{
	int rc = !p->cells ? cells_begin(p, b) : 0;

	for (unsigned r = 0; r < fth_query_rows(b) && rc == 0; r++) {
		for (unsigned c = 0; c < fth_query_columns(b) && rc == 0; c++)
			rc = hold_value(p, b, r, c);
		p->cells->rows++;
		if (rc == 0 &&
		    (p->cells->drawn || p->cells->rows > HELD_ROWS || p->cells->used > HELD_BYTES))
			draw_held(p->cells);
	}
	return rc;
}

/* ---- all ---- */

int fth_sql_print(const struct fth_query_batch *b, void *user)
{
	struct fth_sql_printer *p = user;
	int rc = 0;

	if (p->form == FTH_SQL_CSV)
		csv_batch(p, b);
	else if (p->form == FTH_SQL_JSON)
		json_batch(b);
	else
		rc = table_batch(p, b);
	p->rows += fth_query_rows(b);
	if (rc == 0 && ferror(stdout))
		return fth_fail(EIO, "cannot write to standard output: %s", strerror(errno));
	return rc;
}

void fth_sql_print_end(struct fth_sql_printer *p, int rc)
{
	/*
	 * After an error the rows that came are shown, and no count that could be taken for the
	 * result's.
	 */
	if (p->cells && (rc == 0 || p->rows > 0)) {
		if (!p->cells->drawn || p->cells->rows > 0)
			draw_held(p->cells);
	}
	if (p->cells && rc == 0) {
		printf("(%llu %s)\n", (unsigned long long)p->rows, p->rows == 1 ? "row" : "rows");
	}
	cells_free(p->cells);
	p->cells = NULL;
	p->rows = 0;
}
