/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom sql: Table Tasks as text, shown and run. */
#include "cmd_sql.h"

#include "commands.h"

#include "fathom/base/error.h"
#include "fathom/query/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int print_tasks(const struct fth_tasks *tasks)
{
	char *text = fth_tasks_text(tasks, true);

	if (!text)
		return -ENOMEM;
	fputs(text, stdout);
	free(text);
	return 0;
}

int fth_sql_show_tasks(struct fth_sql *sql, const char *statement)
{
	struct fth_tasks *tasks;
	int rc = fth_tasks_plan(sql->query, statement, &tasks);

	if (rc == 0)
		rc = print_tasks(tasks);
	fth_tasks_free(tasks);
	return rc;
}

int fth_sql_run_tasks(struct fth_sql *sql, const char *path, const char *text)
{
	struct fth_tasks *tasks;
	int rc = fth_tasks_parse(sql->query, text, &tasks);

	if (rc == 0)
		rc = sql->show_tasks ? print_tasks(tasks)
				     : fth_tasks_run(tasks, fth_sql_print, &sql->printer);
	if (rc < 0)
		fth_cli_error("%s: %s", path, fth_error_text(rc));
	fth_tasks_free(tasks);
	fth_sql_print_end(&sql->printer, rc);
	return rc;
}
