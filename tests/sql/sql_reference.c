/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sql_reference [--null TEXT] [--as-bound] < SCRIPT: answers SQL by the reference interpreter.
 *
 * Each statement is run in turn. Rows are printed as CSV without a header, failures as a line that
 * begins with "ERROR: ", and EXPLAIN prints the logical tree. Every table is in memory.
 */
#include "query/sql/test/reference_fixture.h"
#include "query/sql/test/tree_fixture.h"
#include "query/sql/value/value.h"

#include "fathom/base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *null_text = "";

static void print_text(const char *text, size_t length)
{
	bool quote = false;

	for (size_t i = 0; i < length; i++)
		quote |= strchr(",\"\n\r", text[i]) != NULL;
	if (!quote) {
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

static void print_rows(const struct sql_query *query, const struct ref_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		for (unsigned j = 0; j < rows->width; j++) {
			const struct sql_value *value = &rows->cells[i * rows->width + j];
			struct sql_type type = query->columns[query->outputs[j]].type;
			char text[SQL_VALUE_TEXT];

			if (j)
				putchar(',');
			if (value->null)
				fputs(null_text, stdout);
			else if (sql_is_string(type.kind))
				print_text(value->text, value->length);
			else
				fwrite(text, 1, sql_value_print(type, value, text), stdout);
		}
		putchar('\n');
	}
}

static int run_statement(struct ref_db *db, const char *text)
{
	struct sql_arena *arena = sql_arena_new(SIZE_MAX / 2);
	struct sql_statement *statement = NULL;
	struct ref_rows rows = {0};
	int rc = arena ? ref_run(db, text, arena, &statement, &rows) : -1;

	if (rc < 0)
		printf("ERROR: %s\n", fth_error_text(rc));
	else if (statement && statement->explain)
		fputs(sql_tree_dump(&statement->query, arena), stdout);
	else if (statement)
		print_rows(&statement->query, &rows);
	fflush(stdout);
	sql_free(statement);
	sql_arena_free(arena);
	return rc;
}

static char *read_all(FILE *file)
{
	size_t length = 0, room = 65536;
	char *text = malloc(room);

	while (text) {
		length += fread(text + length, 1, room - length - 1, file);
		text[length] = '\0';
		if (length + 1 < room)
			return text;
		room *= 2;
		text = realloc(text, room);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct ref_db db;
	size_t at = 0, begin, length, next;
	char *script;

	ref_open(&db);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--null") && i + 1 < argc) {
			null_text = argv[++i];
		} else if (!strcmp(argv[i], "--as-bound")) {
			db.keep_as_bound = true;
		} else {
			fprintf(stderr,
				"usage: sql_reference [--null TEXT] [--as-bound] < SCRIPT\n");
			return 2;
		}
	}
	script = read_all(stdin);
	if (!script)
		return 1;
	while ((next = sql_split(script, at, &begin, &length))) {
		char *text = strndup(script + begin, length);

		if (!text)
			return 1;
		run_statement(&db, text);
		free(text);
		at = next;
	}
	free(script);
	ref_close(&db);
	return 0;
}
