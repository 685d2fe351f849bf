/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables, views and statements of the reference interpreter. */
#include "query/sql/test/reference_fixture.h"
#include "query/sql/test/tree_fixture.h"

#include "query/sql/value/value.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sql_table *catalog_table(void *self, const char *name)
{
	struct ref_table *table = ref_find(self, name);

	return table ? &table->table : NULL;
}

static const char *catalog_view(void *self, const char *name)
{
	const struct ref_db *db = self;

	for (const struct ref_view *view = db->views; view; view = view->next) {
		if (!strcmp(view->name, name))
			return view->text;
	}
	return NULL;
}

static const char *catalog_name(void *self, unsigned i)
{
	const struct ref_db *db = self;

	for (const struct ref_table *table = db->tables; table; table = table->next) {
		if (i-- == 0)
			return table->table.name;
	}
	for (const struct ref_view *view = db->views; view; view = view->next) {
		if (i-- == 0)
			return view->name;
	}
	return NULL;
}

void ref_open(struct ref_db *db)
{
	*db = (struct ref_db){.catalog = {.self = db,
					  .table = catalog_table,
					  .view = catalog_view,
					  .name = catalog_name},
			      .arena = sql_arena_new(SIZE_MAX / 2)};
}

void ref_close(struct ref_db *db)
{
	sql_arena_free(db->arena);
}

struct ref_table *ref_find(struct ref_db *db, const char *name)
{
	for (struct ref_table *table = db->tables; table; table = table->next) {
		if (!strcmp(table->table.name, name))
			return table;
	}
	return NULL;
}

static void *keep(struct ref_db *db, const void *bytes, size_t size)
{
	void *copy = sql_arena_alloc(db->arena, size + 1);

	if (!copy)
		abort();
	return size ? memcpy(copy, bytes, size) : copy;
}

static char *keep_text(struct ref_db *db, const char *text)
{
	return keep(db, text, strlen(text));
}

static int create_table(struct ref_db *db, const struct sql_statement *st)
{
	struct ref_table *table;
	struct sql_table_column *columns;
	struct sql_table_key *keys;

	if (ref_find(db, st->name))
		return st->if_not_exists ? 0 : fth_fail(EEXIST, "table \"%s\" exists", st->name);
	table = sql_arena_alloc(db->arena, sizeof(*table));
	table->table = st->declared;
	table->table.name = keep_text(db, st->name);
	columns = keep(db, st->declared.columns, st->declared.column_count * sizeof(*columns));
	for (unsigned i = 0; i < st->declared.column_count; i++)
		columns[i].name = keep_text(db, columns[i].name);
	table->table.columns = columns;
	keys = keep(db, st->declared.keys, st->declared.key_count * sizeof(*keys));
	for (unsigned i = 0; i < st->declared.key_count; i++)
		keys[i].ordinals = keep(db, keys[i].ordinals, keys[i].count * sizeof(unsigned));
	table->table.keys = keys;
	table->rows.width = st->declared.column_count;
	table->next = db->tables;
	db->tables = table;
	return 0;
}

static void drop(struct ref_db *db, const struct sql_statement *st)
{
	for (unsigned i = 0; i < st->name_count; i++) {
		for (struct ref_table **at = &db->tables; *at; at = &(*at)->next) {
			if (!strcmp((*at)->table.name, st->names[i])) {
				*at = (*at)->next;
				break;
			}
		}
		for (struct ref_view **at = &db->views; *at; at = &(*at)->next) {
			if (!strcmp((*at)->name, st->names[i])) {
				*at = (*at)->next;
				break;
			}
		}
	}
}

static struct sql_value *append(struct ref_db *db, struct ref_table *table)
{
	struct ref_rows *rows = &table->rows;

	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 16;
		struct sql_value *cells =
			sql_arena_alloc(db->arena, room * rows->width * sizeof(*cells));

		if (!cells)
			abort();
		if (rows->count)
			memcpy(cells, rows->cells, rows->count * rows->width * sizeof(*cells));
		rows->cells = cells;
		rows->room = room;
	}
	table->table.rows = (int64_t)++rows->count;
	return rows->cells + (rows->count - 1) * rows->width;
}

static int insert(struct ref_db *db, const struct sql_statement *st, const struct ref_rows *rows)
{
	struct ref_table *table = ref_find(db, st->name);

	for (size_t i = 0; i < rows->count; i++) {
		struct sql_value *row = append(db, table);

		for (unsigned j = 0; j < table->rows.width; j++)
			row[j] = (struct sql_value){.null = true};
		for (unsigned j = 0; j < st->target_count; j++) {
			struct sql_value value = rows->cells[i * rows->width + j];

			if (sql_is_string(table->table.columns[st->targets[j]].type.kind) &&
			    !value.null)
				value.text = keep(db, value.text, value.length);
			row[st->targets[j]] = value;
		}
		for (unsigned j = 0; j < table->rows.width; j++) {
			if (row[j].null && !table->table.columns[j].nullable) {
				table->rows.count--;
				return fth_fail(EINVAL, "NULL in column \"%s\"",
						table->table.columns[j].name);
			}
		}
	}
	return 0;
}

/* The next field of a CSV line; quotes are undone in place. NULL text at the end of the line. */
static char *next_field(char **at, char delimiter, bool *quoted)
{
	char *from = *at, *to = *at, *field = *at;

	if (!from)
		return NULL;
	*quoted = *from == '"' && delimiter != '|';
	if (*quoted) {
		for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
			if (*from == '"')
				from++;
			*to++ = *from;
		}
		from += *from == '"';
	} else {
		while (*from && *from != delimiter)
			*to++ = *from++;
	}
	*at = *from == delimiter ? from + 1 : NULL;
	*to = '\0';
	return field;
}

static int load_line(struct ref_db *db, struct ref_table *table, char *line, char delimiter,
		     const char *null, unsigned number)
{
	struct sql_value *row = append(db, table);
	char *at = line;

	for (unsigned i = 0; i < table->rows.width; i++) {
		struct sql_type type = table->table.columns[i].type;
		bool quoted = false;
		char *field = next_field(&at, delimiter, &quoted);
		const char *why;

		if (!field)
			return fth_fail(EINVAL, "line %u: %u fields, expected %u", number, i,
					table->rows.width);
		row[i] = (struct sql_value){.null = !quoted && !strcmp(field, null)};
		if (row[i].null)
			continue;
		why = sql_value_parse(field, strlen(field), &type, &row[i]);
		if (why)
			return fth_fail(EINVAL, "line %u: column \"%s\": %s: \"%s\"", number,
					table->table.columns[i].name, why, field);
		if (sql_is_string(type.kind))
			row[i].text = keep(db, row[i].text, row[i].length);
	}
	return 0;
}

int ref_load(struct ref_db *db, struct ref_table *table, const char *path, char delimiter,
	     const char *null)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	unsigned number = 0;
	ssize_t n;
	int rc = 0;

	if (!file)
		return fth_fail(errno, "%s: cannot open", path);
	while (rc == 0 && (n = getline(&line, &room, file)) >= 0) {
		if (n && line[n - 1] == '\n')
			line[n - 1] = '\0';
		rc = load_line(db, table, line, delimiter, null, ++number);
	}
	free(line);
	fclose(file);
	return rc;
}

static int copy_from(struct ref_db *db, const struct sql_statement *st)
{
	char delimiter = ',';
	const char *null = "";

	for (unsigned i = 0; i < st->option_count; i++) {
		if (!strcmp(st->options[i].name, "delimiter"))
			delimiter = st->options[i].value[0];
		else if (!strcmp(st->options[i].name, "null"))
			null = st->options[i].value;
	}
	if (!st->file)
		return fth_fail(EINVAL, "COPY needs a file");
	return ref_load(db, ref_find(db, st->name), st->file, delimiter, null);
}

static int create_view(struct ref_db *db, const struct sql_statement *st)
{
	struct ref_view *view = sql_arena_alloc(db->arena, sizeof(*view));

	view->name = keep_text(db, st->name);
	view->text = keep_text(db, st->text);
	view->next = db->views;
	db->views = view;
	return 0;
}

int ref_run(struct ref_db *db, const char *text, struct sql_arena *arena,
	    struct sql_statement **statement, struct ref_rows *rows)
{
	struct sql_limits limits = {.keep_as_bound = db->keep_as_bound};
	struct sql_statement *st;
	int rc = sql_compile(&db->catalog, text, &limits, &st, NULL);

	*statement = NULL;
	if (rc < 0)
		return rc;
	if (st->kind == SQL_SELECT || st->kind == SQL_INSERT) {
		rc = sql_tree_check(&st->query);
		if (rc < 0)
			fth_fail_in(rc, "the tree is wrong");
		else if (!st->explain)
			rc = ref_query(db, &st->query, arena, rows);
	}
	if (rc == 0 && st->kind == SQL_SELECT) {
		*statement = st;
		return 0;
	}
	if (rc == 0) {
		switch (st->kind) {
		case SQL_INSERT:
			rc = insert(db, st, rows);
			break;
		case SQL_COPY_FROM:
			rc = copy_from(db, st);
			break;
		case SQL_CREATE_TABLE:
			rc = create_table(db, st);
			break;
		case SQL_CREATE_VIEW:
			rc = create_view(db, st);
			break;
		default:
			drop(db, st);
		}
	}
	sql_free(st);
	return rc;
}
