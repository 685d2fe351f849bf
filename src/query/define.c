/* SPDX-License-Identifier: BSD-2-Clause */
/* CREATE and DROP of tables and views. */
#include "query/query.h"
#include "query/views.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int found(const char *name, const char *text, void *user)
{
	(void)name;
	(void)text;
	(void)user;
	return 1;
}

/* 1: there is such a view; 0: there is not. */
static int view_exists(struct statement *s, const char *name)
{
	return views_visit(s->query->db->tables, s->mem, name, found, NULL);
}

static int table_exists(struct statement *s, const char *name)
{
	struct fth_table *table;
	int rc = fth_table_open(s->query->db->tables, name, NULL, &table);

	if (rc == 0)
		fth_table_close(table);
	return rc == -ENOENT ? 0 : rc < 0 ? rc : 1;
}

/* ---- tables ---- */

static int set_cluster(struct fth_table_schema *schema, const struct sql_statement *sql)
{
	schema->cluster_by = FTH_TABLE_NO_COLUMN;
	for (unsigned i = 0; i < sql->option_count; i++) {
		const struct sql_option *option = &sql->options[i];

		if (strcmp(option->name, "cluster_by") != 0)
			return fth_fail(EOPNOTSUPP,
					"CREATE TABLE: unknown option \"%s\"; the only option is "
					"cluster_by",
					option->name);
		schema->cluster_by = fth_table_schema_find(schema, option->value);
		if (schema->cluster_by == FTH_TABLE_NO_COLUMN)
			return fth_fail(EINVAL, "cluster_by: table \"%s\" has no column \"%s\"",
					sql->name, option->value);
	}
	return 0;
}

static int make_column(const struct sql_table_column *from, struct fth_table_column *to)
{
	if (strlen(from->name) > FTH_TABLE_NAME_MAX)
		return fth_fail(EINVAL, "column name \"%.80s\" is longer than %u bytes", from->name,
				FTH_TABLE_NAME_MAX);
	strcpy(to->name, from->name);
	to->type = (enum fth_table_type)from->type.kind;
	to->precision = (uint8_t)from->type.precision;
	to->scale = (uint8_t)from->type.scale;
	to->length = (uint32_t)from->type.length;
	to->not_null = !from->nullable;
	return 0;
}

static int create_declared(struct statement *s, struct fth_table_column *columns)
{
	const struct sql_table *declared = &s->sql->declared;
	struct fth_table_schema schema = {.columns = declared->column_count, .column = columns};
	int rc = 0;

	for (unsigned i = 0; i < declared->column_count && rc == 0; i++)
		rc = make_column(&declared->columns[i], &columns[i]);
	if (rc == 0)
		rc = set_cluster(&schema, s->sql);
	if (rc == 0)
		rc = fth_table_create(s->query->db->tables, s->sql->name, &schema);
	if (rc == -EEXIST)
		return s->sql->if_not_exists
			       ? 0
			       : fth_fail(EEXIST, "table \"%s\" already exists", s->sql->name);
	return rc;
}

int statement_create_table(struct statement *s)
{
	size_t bytes = s->sql->declared.column_count * sizeof(struct fth_table_column);
	struct fth_table_column *columns;
	int rc = name_reserved(s->sql->name);

	if (rc == 0)
		rc = view_exists(s, s->sql->name);
	if (rc != 0)
		return rc < 0 ? rc
			      : fth_fail(EEXIST, "a view named \"%s\" already exists",
					 s->sql->name);
	columns = fth_qmem_zalloc(s->mem, bytes);
	if (!columns)
		return -ENOMEM;
	rc = create_declared(s, columns);
	fth_qmem_free(s->mem, columns, bytes);
	return rc;
}

/* Whether there is each of the names; nothing is dropped if one is missing. */
static int check_names(struct statement *s, int (*exists)(struct statement *s, const char *name),
		       const char *what)
{
	for (unsigned i = 0; i < s->sql->name_count; i++) {
		int rc = name_reserved(s->sql->names[i]);

		if (rc == 0)
			rc = exists(s, s->sql->names[i]);
		if (rc < 0)
			return rc;
		if (rc == 0 && !s->sql->if_exists)
			return fth_fail(ENOENT, "%s \"%s\" does not exist", what, s->sql->names[i]);
	}
	return 0;
}

int statement_drop_table(struct statement *s)
{
	int rc = check_names(s, table_exists, "table");

	for (unsigned i = 0; i < s->sql->name_count && rc == 0; i++) {
		rc = fth_table_remove(s->query->db->tables, s->sql->names[i]);
		if (rc == -ENOENT && s->sql->if_exists)
			rc = 0;
	}
	return rc;
}

/* ---- views ---- */

int statement_create_view(struct statement *s)
{
	const char *name = s->sql->name;
	int rc = name_reserved(name);

	/* A name of a table is a name of a view. */
	if (rc == 0)
		rc = table_exists(s, name);
	if (rc > 0)
		return fth_fail(EEXIST, "a table named \"%s\" already exists", name);
	if (rc == 0 && !s->sql->or_replace)
		rc = view_exists(s, name);
	if (rc > 0)
		return fth_fail(EEXIST, "view \"%s\" already exists", name);
	return rc < 0 ? rc : views_write(s->query->db->tables, name, s->sql->text);
}

int statement_drop_view(struct statement *s)
{
	int rc = check_names(s, view_exists, "view");

	for (unsigned i = 0; i < s->sql->name_count && rc == 0; i++) {
		rc = view_exists(s, s->sql->names[i]);
		if (rc > 0)
			rc = views_write(s->query->db->tables, s->sql->names[i], NULL);
	}
	return rc;
}
