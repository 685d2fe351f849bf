/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Views are rows of a table, so that they are atomic, durable and checked as tables are, in
 * directories and volumes alike. The latest row of a name counts; a null text says that the view
 * was dropped.
 */
#include "query/views.h"

#include "query/plan/plan.h"
#include "query/query.h"
#include "query/sql/sql_arena.h"
#include "query/spill/result_rows.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS "number bigint not null, name varchar(63) not null, text varchar"
#define NEWEST                                                             \
	"select v.name, v.text from " VIEWS_TABLE                          \
	" v, (select name, max(number) as number from " VIEWS_TABLE        \
	" group by name) w where v.name = w.name and v.number = w.number " \
	"and v.text is not null order by v.name"
#define NEWEST_OF                                                     \
	"select name, text from (select name, text from " VIEWS_TABLE \
	" where name = '%s' order by number desc limit 1) as v where text is not null"

/* ---- reading ---- */

struct visitor {
	struct fth_qmem *mem;
	int (*visit)(const char *name, const char *text, void *user);
	void *user;
};

static char *copy_string(struct fth_qmem *mem, struct fth_str s)
{
	char *copy = fth_qmem_alloc(mem, (size_t)s.len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, s.data, s.len);
	copy[s.len] = '\0';
	return copy;
}

static int visit_row(struct visitor *v, struct fth_str name, struct fth_str text)
{
	char *n = copy_string(v->mem, name), *t = copy_string(v->mem, text);
	int rc = !n || !t ? -ENOMEM : v->visit(n, t, v->user);

	fth_qmem_free(v->mem, n, (size_t)name.len + 1);
	fth_qmem_free(v->mem, t, (size_t)text.len + 1);
	return rc;
}

static int visit_rows(void *user, const struct fth_vec *columns, const struct fth_sel *sel)
{
	int rc = 0;

	for (unsigned i = 0; i < sel->n && rc == 0; i++)
		if (fth_bit(sel->bits, i))
			rc = visit_row(user, rows_text(&columns[0], i), rows_text(&columns[1], i));
	return rc;
}

static int run_text(struct fth_table_db *db, struct fth_qmem *mem, const char *sql,
		    struct visitor *visitor)
{
	struct exec_options options = {.mem = mem, .threads = 1};
	struct plan_options plan = {.mem = mem, .open = catalog_table};
	struct sql_limits limits = {.memory = 1 << 20, .charge = query_charge, .user = mem};
	struct sql_statement *statement = NULL;
	struct fth_arena arena = {0};
	struct task_set set;
	int rc = catalog_new(db, mem, (struct catalog **)&plan.self);

	if (rc < 0)
		return rc;
	fth_arena_init(&arena, mem, 1 << 14);
	rc = sql_compile(catalog_sql(plan.self), sql, &limits, &statement, NULL);
	if (rc == 0)
		rc = plan_query(&statement->query, &plan, &arena, &set);
	if (rc == 0)
		rc = exec_run(&set, &options, visit_rows, visitor, NULL);
	sql_free(statement);
	fth_arena_release(&arena);
	catalog_free(plan.self);
	return rc;
}

static int views_exist(struct fth_table_db *db)
{
	struct fth_table *table;
	int rc = fth_table_open(db, VIEWS_TABLE, NULL, &table);

	if (rc == 0)
		fth_table_close(table);
	return rc == -ENOENT ? 0 : rc < 0 ? rc : 1;
}

int views_visit(struct fth_table_db *db, struct fth_qmem *mem, const char *name,
		int (*visit)(const char *name, const char *text, void *user), void *user)
{
	struct visitor visitor = {mem, visit, user};
	char sql[sizeof(NEWEST_OF) + FTH_TABLE_NAME_MAX];
	int rc = views_exist(db);

	if (rc <= 0)
		return rc;
	if (!name)
		return run_text(db, mem, NEWEST, &visitor);
	/* A name that no view can have, and that would not be a word in the text. */
	if (strlen(name) > FTH_TABLE_NAME_MAX || strpbrk(name, "'\\"))
		return 0;
	snprintf(sql, sizeof(sql), NEWEST_OF, name);
	return run_text(db, mem, sql, &visitor);
}

/* ---- writing ---- */

static int create_views(struct fth_table_db *db)
{
	struct fth_table_schema schema;
	int rc = fth_table_schema_parse(&schema, COLUMNS);

	if (rc < 0)
		return rc;
	rc = fth_table_create(db, VIEWS_TABLE, &schema);
	fth_table_schema_release(&schema);
	return rc == -EEXIST ? 0 : rc;
}

/* The number of the next row; the caller has the table's writer, so nobody else adds one. */
static int next_number(struct fth_table_db *db, int64_t *number)
{
	struct fth_table *table;
	int rc = fth_table_open(db, VIEWS_TABLE, NULL, &table);

	if (rc < 0)
		return rc;
	*number = (int64_t)fth_table_rows(table);
	fth_table_close(table);
	return 0;
}

int views_write(struct fth_table_db *db, const char *name, const char *text)
{
	uint32_t name_offsets[] = {0, (uint32_t)strlen(name)};
	uint32_t text_offsets[] = {0, !text ? 0 : (uint32_t)strlen(text)};
	uint8_t dropped = !text;
	int64_t number;
	struct fth_table_vector columns[] = {
		{.values = &number},
		{.offsets = name_offsets, .bytes = name},
		{.offsets = text_offsets, .bytes = dropped ? "" : text, .nulls = &dropped},
	};
	struct fth_table_writer *writer;
	int rc = create_views(db);

	if (rc == 0)
		rc = fth_table_writer_open(db, VIEWS_TABLE, NULL, &writer);
	if (rc < 0)
		return rc;
	rc = next_number(db, &number);
	if (rc == 0)
		rc = fth_table_writer_append(writer, columns, 1);
	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	fth_table_writer_close(writer);
	return rc;
}
