/* SPDX-License-Identifier: BSD-2-Clause */
/* Task sets without SQL: read from text, printed, run. */
#include "fathom/query/task.h"

#include "query/query.h"
#include "query/task/task_read.h"
#include "query/task/task_show.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fth_tasks {
	struct statement statement;
};

static struct fth_table *open_table(void *self, const char *name)
{
	const struct sql_catalog *sql = catalog_sql(self);
	const struct sql_table *table = sql->table(sql->self, name);

	return table ? catalog_table(self, table) : NULL;
}

static int read_text(struct statement *s, const char *text)
{
	struct task_read how = {.mem = s->mem, .open = open_table, .self = s->catalog};
	int rc = task_read(&how, text, strlen(text), &s->arena, &s->set);

	/* An error of reading a table is reported as such, not as a table that does not exist. */
	return rc == -ENOENT && catalog_error(s->catalog) < 0 ? catalog_error(s->catalog) : rc;
}

static int plan_text(struct statement *s, const char *sql)
{
	int rc = statement_compile(s, sql);

	if (rc == 0 && s->query->report.kind != FTH_QUERY_SELECT)
		return fth_fail(EOPNOTSUPP,
				"only a SELECT statement can be compiled to a task set");
	return rc < 0 ? rc : statement_plan(s);
}

static int tasks_new(struct fth_query *query, int (*fill)(struct statement *s, const char *text),
		     const char *text, struct fth_tasks **out)
{
	struct fth_tasks *tasks = calloc(1, sizeof(*tasks));
	int rc;

	*out = NULL;
	if (!tasks)
		return -ENOMEM;
	rc = statement_open(&tasks->statement, query);
	if (rc == 0)
		rc = fill(&tasks->statement, text);
	if (rc < 0) {
		fth_tasks_free(tasks);
		return rc;
	}
	*out = tasks;
	return 0;
}

int fth_tasks_parse(struct fth_query *query, const char *text, struct fth_tasks **out)
{
	return tasks_new(query, read_text, text, out);
}

int fth_tasks_plan(struct fth_query *query, const char *sql, struct fth_tasks **out)
{
	return tasks_new(query, plan_text, sql, out);
}

void fth_tasks_free(struct fth_tasks *tasks)
{
	if (!tasks)
		return;
	statement_close(&tasks->statement);
	free(tasks);
}

char *fth_tasks_text(const struct fth_tasks *tasks, bool full)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	if (full)
		task_print(out, &tasks->statement.set);
	else
		task_show(out, &tasks->statement.set);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

int fth_tasks_run(struct fth_tasks *tasks,
		  int (*rows)(const struct fth_query_batch *batch, void *user), void *user)
{
	struct statement *s = &tasks->statement;
	uint64_t start = statement_begin(s->query);
	int rc;

	s->rows = rows;
	s->user = user;
	s->query->report.kind = FTH_QUERY_SELECT;
	rc = statement_rows(s);
	statement_end(s, start);
	return rc;
}
