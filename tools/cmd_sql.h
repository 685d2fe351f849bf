/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of `fathom sql` share. */
#ifndef FTH_TOOLS_CMD_SQL_H
#define FTH_TOOLS_CMD_SQL_H

#include "sql_print.h"

struct fth_sql {
	struct fth_query_db *db;
	struct fth_query *query;
	struct fth_sql_printer printer;
	bool timing;
	bool keep_going; /* a script goes on after an error */
	bool quiet;	 /* nothing is said about statements without rows */
	bool show_tasks; /* statements are not run: their tasks are printed */
};

/*
 * Run one statement and print its result. `where` (may be NULL) and `line` say where its text begins, for
 * messages. Returns 0 or a negative errno, after a message.
 */
int fth_sql_statement(struct fth_sql *sql, const char *text, const char *where, unsigned line);

/* Print the tasks of a statement. Returns 0 or a negative errno, with a text. */
int fth_sql_show_tasks(struct fth_sql *sql, const char *statement);
/* Run tasks and print their result, or print them (show_tasks). Returns 0 or a negative errno, after a message. */
int fth_sql_run_tasks(struct fth_sql *sql, const char *path, const char *text);

/* Statements from the terminal, until its end. Returns the exit status. */
int fth_sql_shell(struct fth_sql *sql);

#endif
