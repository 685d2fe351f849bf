/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table Tasks: the execution plan of a query, as text that can be read, edited and run.
 *
 *	static const char text[] =
 *		"task 0: table people: name#0, age#1\n"
 *		"    select age#1 >= 18\n"
 *		"    output: name#0\n";
 *	int (*print)(const struct fth_query_batch *batch, void *user) = NULL;
 *	struct fth_query_db *database;
 *	struct fth_tasks *tasks;
 *	struct fth_query *query;
 *
 *	fth_query_open("/data/db", NULL, &database);
 *	fth_query_new(database, &query);
 *	if (fth_tasks_parse(query, text, &tasks) == 0)
 *		fth_tasks_run(tasks, print, NULL);
 *	fth_tasks_free(tasks);
 *	fth_query_free(query);
 *	fth_query_close(database);
 *
 * A task reads rows of a table or of an earlier task, passes them through steps and ends in a
 * reducer; the last one gives the result. A step keeps rows (select), computes a value (compute),
 * matches rows with those of a set or map of an earlier task (look up in), reads columns at row
 * numbers (fetch from) or groups adjacent rows (group runs by). A reducer gives rows (output),
 * groups (group), sorted rows (sort) or something to look up in (set, map, multimap). Values have
 * names with a number, name#3, that is unique in the task. Task sets from untrusted sources are
 * safe to run: everything that the executor relies on is verified or derived from the tables.
 */
#ifndef FATHOM_QUERY_TASK_H
#define FATHOM_QUERY_TASK_H

#include "fathom/query.h"

FTH_BEGIN_DECLS

struct fth_tasks;

/*
 * Read a task set from text (a C string) and check it. It keeps snapshots of its tables, and memory
 * of the budget of the query's database. The query must outlive it. Blocks. Returns 0; -EINVAL for
 * wrong text and -ENOENT for a table that does not exist, with a text that has line and column;
 * -ENOMEM. *out is NULL then.
 */
int fth_tasks_parse(struct fth_query *query, const char *text, struct fth_tasks **out);

/*
 * The task set of a SELECT statement. Otherwise as fth_tasks_parse(), with the errors of
 * fth_query_run().
 */
int fth_tasks_plan(struct fth_query *query, const char *sql, struct fth_tasks **out);

/* Free a task set that is not running. Accepts NULL. */
void fth_tasks_free(struct fth_tasks *tasks);

/*
 * The text of a task set, to be freed with free(). full: with types and ranges of all values and
 * what the planner expects, which fth_tasks_parse() can do without. Returns NULL if out of memory.
 */
char *fth_tasks_text(const struct fth_tasks *tasks, bool full);

/*
 * Run, as fth_query_run() runs a SELECT: `rows` gets an empty batch, then those with rows.
 * fth_query_cancel() and fth_query_report() of the query apply. May be called again.
 */
int fth_tasks_run(struct fth_tasks *tasks,
		  int (*rows)(const struct fth_query_batch *batch, void *user), void *user);

FTH_END_DECLS
#endif
