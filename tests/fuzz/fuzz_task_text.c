/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text of Table Tasks: reading it ends with an error that has a text, or with tasks whose own
 * text is read as the same again. Small ones are run as well. Seeds: tasks over the tables below.
 */
#include "fathom/base/error.h"
#include "fathom/query/task.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RUN_MAX	 800 /* bytes of text */
#define ROWS_MAX 100000
#define BUDGET	 (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fth_query_db *db;
static struct fth_query *query;
static char path[64];

static const char *const tables[] = {
	"create table t (a int primary key, b bigint, c decimal(15,2), d date, s varchar(10), f "
	"char(4),"
	" g boolean, x double precision)",
	"insert into t values (1, 5, 1.25, date '1999-01-01', 'one', 'x', true, 1.5),"
	" (2, null, -3, date '2004-02-29', 'two', 'y', false, -2), (3, 7, null, null, null, 'x', "
	"null, null)",
	"create table u (k bigint not null, n int not null) ",
	"insert into u values (1, 2), (1, 3), (2, 4), (9, 5)",
};

static void must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "%s\n", fth_error_text(rc));
		abort();
	}
}

static void remove_tables(void)
{
	char command[96];

	fth_query_free(query);
	fth_query_close(db);
	snprintf(command, sizeof(command), "rm -r %s", path);
	if (system(command) != 0)
		fprintf(stderr, "%s stays\n", path);
}

static void open_tables(void)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;

	options.budget = BUDGET;
	options.threads = 1;
	snprintf(path, sizeof(path), "/tmp/fathom-fuzz-XXXXXX");
	if (mkdtemp(path) == NULL)
		abort();
	must(fth_query_open(path, &options, &db));
	must(fth_query_new(db, &query));
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		must(fth_query_run(query, tables[i], NULL, NULL));
	atexit(remove_tables);
}

static int count_rows(const struct fth_query_batch *batch, void *user)
{
	unsigned *rows = user;

	*rows += fth_query_rows(batch);
	return *rows > ROWS_MAX ? -ECANCELED : 0;
}

static void read_again(const struct fth_tasks *tasks)
{
	char *text = fth_tasks_text(tasks, true), *again;
	struct fth_tasks *second;

	must(fth_tasks_parse(query, text, &second));
	again = fth_tasks_text(second, true);
	if (strcmp(text, again) != 0)
		abort();
	fth_tasks_free(second);
	free(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct fth_tasks *tasks;
	unsigned rows = 0;
	int rc;

	if (text == NULL)
		abort();
	if (db == NULL)
		open_tables();
	memcpy(text, data, size);
	text[size] = '\0';
	rc = fth_tasks_parse(query, text, &tasks);
	if (rc < 0 && (tasks != NULL || *fth_error_text(rc) == '\0'))
		abort();
	if (rc == 0) {
		read_again(tasks);
		if (size < RUN_MAX)
			(void)fth_tasks_run(tasks, count_rows, &rows);
	}
	fth_tasks_free(tasks);
	free(text);
	return 0;
}
