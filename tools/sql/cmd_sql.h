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

/* Where the text of a statement begins, for messages. */
struct fth_sql_place {
	const char *where; /* the script; NULL: a terminal */
	unsigned line, column;
};

/* Run one statement and print its result. Returns 0 or a negative errno, after a message. */
int fth_sql_statement(struct fth_sql *sql, const char *text, const struct fth_sql_place *place);

/* Print the tasks of a statement. Returns 0 or a negative errno, with a text. */
int fth_sql_show_tasks(struct fth_sql *sql, const char *statement);
/*
 * Run tasks and print their result, or print them (show_tasks). Returns 0 or a negative errno,
 * after a message.
 */
int fth_sql_run_tasks(struct fth_sql *sql, const char *path, const char *text);

/* SIGTERM or SIGHUP came. */
bool fth_sql_must_end(void);

/* Statements from the terminal, until its end. Returns the exit status. */
int fth_sql_shell(struct fth_sql *sql);

#endif
