/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom sql on a terminal: statements over several lines, and a few commands that begin with a
 * backslash.
 */
#include "cli.h"
#include "cmd_sql.h"
#include "sql_line.h"

#include "fathom/base/error.h"
#include "fathom/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- completion ---- */

static const char *const keywords[] = {
	"ANALYZE", "AND",    "AS",	"ASC",	    "AVG",	 "BETWEEN", "BY",	"CASE",
	"CAST",	   "COPY",   "COUNT",	"CREATE",   "DATE",	 "DESC",    "DISTINCT", "DROP",
	"ELSE",	   "END",    "EXISTS",	"EXPLAIN",  "EXTRACT",	 "FROM",    "GROUP",	"HAVING",
	"IN",	   "INNER",  "INSERT",	"INTERVAL", "INTO",	 "IS",	    "JOIN",	"LEFT",
	"LIKE",	   "LIMIT",  "MAX",	"MIN",	    "NOT",	 "NULL",    "OFFSET",	"ON",
	"OR",	   "ORDER",  "REPLACE", "SELECT",   "SUBSTRING", "SUM",	    "TABLE",	"THEN",
	"UNION",   "VALUES", "VIEW",	"WHEN",	    "WHERE",	 "WITH",    NULL,
};

/* Names of tables, views and columns, read anew when a completion begins. */
static struct {
	struct fth_query_db *db;
	char **names;
	size_t count, room;
} known;

static void forget_names(void)
{
	for (size_t i = 0; i < known.count; i++)
		free(known.names[i]);
	known.count = 0;
}

static void add_name(const char *name)
{
	for (size_t i = 0; i < known.count; i++)
		if (strcmp(known.names[i], name) == 0)
			return;
	if (known.count == known.room) {
		size_t room = known.room == 0 ? 64 : known.room * 2;
		char **names = realloc(known.names, room * sizeof(*names));

		if (!names)
			return;
		known.names = names;
		known.room = room;
	}
	known.names[known.count] = strdup(name);
	known.count += known.names[known.count] != NULL;
}

static int add_table(const char *name, void *user)
{
	struct fth_table *table;

	(void)user;
	add_name(name);
	if (fth_table_open(fth_query_tables(known.db), name, NULL, &table) < 0)
		return 0;
	for (uint32_t i = 0; i < fth_table_schema(table)->columns; i++)
		add_name(fth_table_schema(table)->column[i].name);
	fth_table_close(table);
	return 0;
}

static int add_view(const char *name, const char *text, void *user)
{
	(void)text;
	(void)user;
	add_name(name);
	return 0;
}

static char *complete_word(const char *text, int state)
{
	static size_t at, keyword;
	size_t length = strlen(text);

	if (state == 0) {
		forget_names();
		fth_table_list(fth_query_tables(known.db), add_table, NULL);
		fth_query_views(known.db, add_view, NULL);
		at = keyword = 0;
	}
	while (at < known.count) {
		const char *name = known.names[at++];

		if (strncasecmp(name, text, length) == 0)
			return strdup(name);
	}
	while (length > 0 && keywords[keyword]) {
		const char *name = keywords[keyword++];

		if (strncasecmp(name, text, length) == 0)
			return strdup(name);
	}
	return NULL;
}

/* ---- commands ---- */

static int print_table(const char *name, void *user)
{
	struct fth_sql *sql = user;
	char bytes[FTH_CLI_BYTES_MAX];
	struct fth_table *table;

	if (fth_table_open(fth_query_tables(sql->db), name, NULL, &table) < 0)
		return 0;
	printf("%-32s table  %14llu rows  %10s\n", name, (unsigned long long)fth_table_rows(table),
	       fth_cli_bytes(bytes, fth_table_bytes(table)));
	fth_table_close(table);
	return 0;
}

static int print_view(const char *name, const char *text, void *user)
{
	(void)text;
	(void)user;
	printf("%-32s view\n", name);
	return 0;
}

static void list_all(struct fth_sql *sql)
{
	fth_table_list(fth_query_tables(sql->db), print_table, sql);
	fth_query_views(sql->db, print_view, NULL);
}

static int print_view_text(const char *name, const char *text, void *wanted)
{
	if (strcmp(name, wanted) != 0)
		return 0;
	puts(text);
	return 1;
}

static void describe(struct fth_sql *sql, const char *name)
{
	char type[FTH_TABLE_TYPE_TEXT];
	struct fth_table *table;
	int rc = fth_table_open(fth_query_tables(sql->db), name, NULL, &table);

	if (rc == -ENOENT && fth_query_views(sql->db, print_view_text, (void *)name) == 1)
		return;
	if (rc < 0) {
		fth_cli_error("%s: %s", name, fth_error_text(rc));
		return;
	}
	for (uint32_t i = 0; i < fth_table_schema(table)->columns; i++) {
		const struct fth_table_column *c = &fth_table_schema(table)->column[i];

		printf("%-32s %s%s\n", c->name, fth_table_type_text(c, type),
		       c->not_null ? " not null" : "");
	}
	fth_table_close(table);
}

/* Returns false at \q. */
static bool run_command(struct fth_sql *sql, char *line)
{
	char *save, *word = strtok_r(line, " \t;", &save),
		    *argument = strtok_r(NULL, " \t;", &save);

	if (strcmp(word, "\\q") == 0)
		return false;
	if (strcmp(word, "\\timing") == 0) {
		sql->timing = !sql->timing;
		printf("timing is %s\n", sql->timing ? "on" : "off");
	} else if (strcmp(word, "\\dt") == 0 || (strcmp(word, "\\d") == 0 && !argument)) {
		list_all(sql);
	} else if (strcmp(word, "\\d") == 0) {
		describe(sql, argument);
	} else {
		puts("\\d        tables and views\n"
		     "\\d TABLE  columns of a table\n"
		     "\\dt       tables and views\n"
		     "\\timing   say what each statement takes, or stop it\n"
		     "\\q        quit\n"
		     "anything else is SQL, up to a semicolon");
	}
	return true;
}

/* ---- statements ---- */

/* Add a line to what was typed so far; NULL if memory is short. */
static char *add_line(char *text, const char *line)
{
	size_t before = strlen(text), length = strlen(line);
	char *longer = realloc(text, before + length + 2);

	if (!longer) {
		free(text);
		return NULL;
	}
	if (before > 0)
		longer[before++] = '\n';
	memcpy(longer + before, line, length + 1);
	return longer;
}

/* Run the statements that have a semicolon, and keep the rest. */
static void run_complete(struct fth_sql *sql, char *text)
{
	size_t at = 0, next, begin, length;

	while ((next = fth_query_split(text, at, &begin, &length)) != 0) {
		char *statement;

		/* Without a semicolon it may go on in the next line. */
		if (text[next - 1] != ';' || next == begin + length)
			break;
		statement = strndup(text + begin, next - begin);
		if (statement) {
			fth_sql_line_add(statement);
			fth_sql_statement(sql, statement, &(struct fth_sql_place){NULL, 1, 1});
		}
		free(statement);
		at = next;
	}
	if (next == 0)
		at = strlen(text);
	memmove(text, text + at, strlen(text + at) + 1);
}

static bool is_command(const char *line)
{
	return line[strspn(line, " \t")] == '\\';
}

int fth_sql_shell(struct fth_sql *sql)
{
	char *text = strdup(""), *line;
	bool more = text, canceled;

	known.db = sql->db;
	sql->timing = true;
	fth_sql_line_start(complete_word);
	puts("SQL ends with a semicolon; \\? lists commands, \\q quits.");
	while (more && !fth_sql_must_end() &&
	       (line = fth_sql_line_read(*text == '\0' ? "fathom> " : "   ...> ", &canceled)) !=
		       NULL) {
		if (canceled) {
			*text = '\0';
		} else if (*line == '\0' && *text == '\0') {
			/* Nothing was typed. */
		} else if (*text == '\0' && is_command(line)) {
			fth_sql_line_add(line);
			more = run_command(sql, line);
		} else {
			text = add_line(text, line);
			more = text;
			if (more)
				run_complete(sql, text);
		}
		free(line);
	}
	if (more)
		putchar('\n');
	fth_sql_line_end();
	forget_names();
	free(known.names);
	free(text);
	return FTH_EXIT_OK;
}
