/* SPDX-License-Identifier: BSD-2-Clause */
#include "tpch_tables.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fth_tpch_type_text(const struct fth_tpch_column *column, char text[FTH_TPCH_TYPE_TEXT])
{
	switch (column->type) {
	case FTH_TPCH_KEY:
		snprintf(text, FTH_TPCH_TYPE_TEXT, "bigint");
		break;
	case FTH_TPCH_INTEGER:
		snprintf(text, FTH_TPCH_TYPE_TEXT, "integer");
		break;
	case FTH_TPCH_DECIMAL:
		snprintf(text, FTH_TPCH_TYPE_TEXT, "decimal(15, 2)");
		break;
	case FTH_TPCH_DATE:
		snprintf(text, FTH_TPCH_TYPE_TEXT, "date");
		break;
	default:
		snprintf(text, FTH_TPCH_TYPE_TEXT, "%s(%u)",
			 column->type == FTH_TPCH_CHAR ? "char" : "varchar", column->width);
	}
	return text;
}

#ifdef FTH_TABLE
#include "fathom/table.h"

#define ROWS	    4096u /* of a batch */
#define COLUMNS_MAX 16u
#define PROGRESS    16u /* batches between two calls */
#define TEXT_ROOM   (ROWS * FTH_TPCH_LINE_MAX)
#define SCHEMA_MAX  2048u

/* Rows on their way from the generator to the writer. */
struct batch {
	const struct fth_tpch_column *columns;
	unsigned count;
	uint32_t rows;
	struct fth_table_vector vectors[COLUMNS_MAX];
	int64_t values[COLUMNS_MAX][ROWS];
	uint32_t offsets[COLUMNS_MAX][ROWS + 1];
	char *text[COLUMNS_MAX]; /* NULL for numbers */
};

static void free_batch(struct batch *b)
{
	for (unsigned i = 0; b && i < b->count; i++)
		free(b->text[i]);
	free(b);
}

static struct batch *new_batch(enum fth_tpch_table table)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->columns = fth_tpch_columns(table, &b->count);
	for (unsigned i = 0; i < b->count; i++) {
		if (b->columns[i].type < FTH_TPCH_CHAR) {
			b->vectors[i].values = b->values[i];
			continue;
		}
		b->text[i] = malloc(TEXT_ROOM);
		if (!b->text[i]) {
			free_batch(b);
			return NULL;
		}
		b->vectors[i].offsets = b->offsets[i];
		b->vectors[i].bytes = b->text[i];
	}
	return b;
}

static void add_row(struct batch *b, const union fth_tpch_row *row)
{
	for (unsigned i = 0; i < b->count; i++) {
		const struct fth_tpch_column *column = &b->columns[i];
		const char *field = (const char *)row + column->offset;

		if (b->text[i]) {
			const struct fth_tpch_text *text = (const void *)field;
			uint32_t at = b->offsets[i][b->rows];

			memcpy(b->text[i] + at, text->data, text->length);
			b->offsets[i][b->rows + 1] = at + text->length;
		} else {
			memcpy(&b->values[i][b->rows], field, sizeof(int64_t));
			if (column->type == FTH_TPCH_DECIMAL && column->places == 0)
				b->values[i][b->rows] *= 100; /* it has two places in SQL */
		}
	}
	b->rows++;
}

static int append_all(struct fth_tpch_cursor *cursor, struct fth_table_writer *writer,
		      struct batch *b, uint64_t units, int (*progress)(void *, uint64_t, uint64_t),
		      void *context)
{
	union fth_tpch_row row;
	bool more = true;
	int rc = 0;

	for (uint64_t batches = 0; more && rc == 0; batches++) {
		for (b->rows = 0; b->rows < ROWS && more;) {
			more = fth_tpch_next(cursor, &row);
			if (more)
				add_row(b, &row);
		}
		if (b->rows)
			rc = fth_table_writer_append(writer, b->vectors, b->rows);
		if (rc == 0 && progress && batches % PROGRESS == 0)
			rc = progress(context, fth_table_writer_rows(writer), units);
	}
	return rc;
}

static int fill_table(const struct fth_tpch *tpch, enum fth_tpch_table table,
		      struct fth_table_writer *writer, int (*progress)(void *, uint64_t, uint64_t),
		      void *context)
{
	uint64_t units = fth_tpch_units(tpch, table);
	struct batch *batch = new_batch(table);
	struct fth_tpch_cursor *cursor = NULL;
	int rc = batch ? fth_tpch_cursor_open(tpch, table, 0, units, &cursor) : -ENOMEM;

	/* Rows for each unit: four, on the average, where there are several. */
	if (table == FTH_TPCH_LINEITEM || table == FTH_TPCH_PARTSUPP)
		units *= 4;
	if (rc == 0)
		rc = append_all(cursor, writer, batch, units, progress, context);
	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	fth_tpch_cursor_close(cursor);
	free_batch(batch);
	return rc;
}

static int create_table(struct fth_table_db *db, enum fth_tpch_table table)
{
	char text[SCHEMA_MAX], type[FTH_TPCH_TYPE_TEXT];
	struct fth_table_schema schema;
	unsigned count;
	const struct fth_tpch_column *columns = fth_tpch_columns(table, &count);
	size_t used = 0;
	int rc;

	for (unsigned i = 0; i < count && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s not null",
					 i ? ", " : "", columns[i].name,
					 fth_tpch_type_text(&columns[i], type));
	rc = fth_table_schema_parse(&schema, text);
	if (rc < 0)
		return rc;
	rc = fth_table_create(db, fth_tpch_table_name(table), &schema);
	fth_table_schema_release(&schema);
	return rc;
}

int fth_tpch_make_in_db(const struct fth_tpch *tpch, enum fth_tpch_table table, const char *db_name,
			unsigned threads,
			int (*progress)(void *context, uint64_t units, uint64_t total),
			void *context, struct fth_tpch_totals *totals)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	struct fth_table_writer *writer = NULL;
	struct fth_table_db *db;
	struct fth_table *made;
	int rc = fth_table_db_open(db_name, FTH_TABLE_DB_CREATE, &db);

	if (rc < 0)
		return rc;
	options.threads = threads;
	rc = create_table(db, table);
	if (rc < 0) {
		fth_table_db_close(db);
		return rc;
	}
	rc = fth_table_writer_open(db, fth_tpch_table_name(table), &options, &writer);
	if (rc == 0)
		rc = fill_table(tpch, table, writer, progress, context);
	fth_table_writer_close(writer);
	if (rc == 0)
		rc = fth_table_open(db, fth_tpch_table_name(table), NULL, &made);
	if (rc == 0) {
		totals->rows = fth_table_rows(made);
		totals->bytes = fth_table_bytes(made);
		fth_table_close(made);
	} else {
		char text[FTH_ERROR_TEXT_MAX];

		snprintf(text, sizeof(text), "%s", fth_error_text(rc));
		fth_table_remove(db, fth_tpch_table_name(table));
		rc = fth_fail(-rc, "%s", text);
	}
	fth_table_db_close(db);
	return rc;
}

#else

int fth_tpch_make_in_db(const struct fth_tpch *tpch, enum fth_tpch_table table, const char *db_name,
			unsigned threads,
			int (*progress)(void *context, uint64_t units, uint64_t total),
			void *context, struct fth_tpch_totals *totals)
{
	(void)tpch;
	(void)table;
	(void)db_name;
	(void)threads;
	(void)progress;
	(void)context;
	(void)totals;
	return fth_fail(EOPNOTSUPP, "--db: fathom was built without table support");
}
#endif
