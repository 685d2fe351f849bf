/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SQL text: whatever it says, compiling ends with a tree whose invariants hold or with an error
 * that has a text. Seeds: statements over the tables below.
 */
#include "query/sql/sql_arena.h"
#include "query/sql/sql.h"
#include "query/sql/test/tree_fixture.h"

#include "fathom/base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sql_table_column columns[] = {
	{"a", {.kind = SQL_INT32}, false, false},
	{"b", {.kind = SQL_INT64}, true, true},
	{"c", {.kind = SQL_DECIMAL, .precision = 15, .scale = 2}, true, true},
	{"d", {.kind = SQL_DATE}, true, true},
	{"s", {.kind = SQL_VARCHAR, .length = 10}, true, true},
	{"f", {.kind = SQL_CHAR, .length = 4}, false, false},
	{"g", {.kind = SQL_BOOL}, true, true},
	{"x", {.kind = SQL_DOUBLE}, true, true},
};
static const unsigned first[] = {0};
static const struct sql_table_key keys[] = {{1, first}};
static const struct sql_table tables[] = {
	{.name = "t",
	 .column_count = 8,
	 .columns = columns,
	 .key_count = 1,
	 .keys = keys,
	 .rows = 1000},
	{.name = "u", .column_count = 8, .columns = columns, .rows = -1},
};

static const struct sql_table *find_table(void *self, const char *name)
{
	(void)self;
	for (size_t i = 0; i < 2; i++) {
		if (!strcmp(tables[i].name, name))
			return &tables[i];
	}
	return NULL;
}

/* w is a view of itself, which only damage can make. */
static const char *find_view(void *self, const char *name)
{
	(void)self;
	if (!strcmp(name, "v"))
		return "select a, count(*) as n from t group by a";
	return strcmp(name, "w") ? NULL : "select * from w";
}

static const char *table_name(void *self, unsigned i)
{
	(void)self;
	return i < 2 ? tables[i].name : NULL;
}

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "not so: %s: %s\n", what, fth_error_text(-22));
		abort();
	}
}

static void compile(const char *text, bool keep_as_bound)
{
	const struct sql_catalog catalog = {
		.table = find_table, .view = find_view, .name = table_name};
	const struct sql_limits limits = {.memory = 4u << 20, .keep_as_bound = keep_as_bound};
	struct sql_statement *st;
	struct sql_error error;
	int rc = sql_compile(&catalog, text, &limits, &st, &error);

	if (rc < 0) {
		require(error.text[0] != '\0', "an error has a text");
		require(error.at < (int)strlen(text) + 1, "a position is in the text");
		return;
	}
	if (st->kind == SQL_SELECT || st->kind == SQL_INSERT) {
		struct sql_arena *arena = sql_arena_new(SIZE_MAX / 2);

		require(sql_tree_check(&st->query) == 0, "the tree holds together");
		require(arena && sql_tree_dump(&st->query, arena), "it can be printed");
		sql_arena_free(arena);
	}
	sql_free(st);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	size_t at = 0, begin, length;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	compile(text, false);
	compile(text, true);
	while ((at = sql_split(text, at, &begin, &length)))
		require(begin + length <= strlen(text) && at <= strlen(text),
			"a statement is in the script");
	free(text);
	return 0;
}
