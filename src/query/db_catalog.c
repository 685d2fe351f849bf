/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/db_catalog.h"

#include "query/views.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	struct entry *next;
	struct sql_table sql;
	struct fth_table *table;
	struct sql_table_column *columns;
	struct sql_table_key *keys;
	unsigned *ordinals; /* of keys of one column */
	size_t column_bytes, key_bytes, ordinal_bytes;
};

struct view {
	struct view *next;
	size_t bytes;
	char text[];
};

struct catalog {
	struct fth_table_db *db;
	struct fth_qmem *mem;
	struct entry *entries;
	struct view *views; /* that were named */
	struct sql_catalog sql;
	int error;
	char error_text[FTH_ERROR_TEXT_MAX];
	char name[FTH_TABLE_NAME_MAX + 1]; /* the last one that was listed */
};

static void *table_alloc(void *user, size_t bytes)
{
	return fth_qmem_alloc(user, bytes);
}

static void table_release(void *user, void *memory, size_t bytes)
{
	fth_qmem_free(user, memory, bytes);
}

/* The first error, with its text, which later ones would replace. */
static void keep_error(struct catalog *c, int rc)
{
	if (c->error != 0)
		return;
	strncpy(c->error_text, fth_error_text(rc), sizeof(c->error_text) - 1);
	c->error = rc;
}

/* ---- one table ---- */

static struct sql_type type_of(const struct fth_table_column *c)
{
	static const enum sql_kind kinds[] = {
		[FTH_TABLE_BOOL] = SQL_BOOL,	   [FTH_TABLE_INT32] = SQL_INT32,
		[FTH_TABLE_INT64] = SQL_INT64,	   [FTH_TABLE_DATE] = SQL_DATE,
		[FTH_TABLE_DECIMAL] = SQL_DECIMAL, [FTH_TABLE_DOUBLE] = SQL_DOUBLE,
		[FTH_TABLE_CHAR] = SQL_CHAR,	   [FTH_TABLE_VARCHAR] = SQL_VARCHAR,
	};

	return (struct sql_type){kinds[c->type], c->precision, c->scale, (int)c->length};
}

static void free_entry(struct catalog *c, struct entry *e)
{
	fth_table_close(e->table);
	fth_qmem_free(c->mem, e->columns, e->column_bytes);
	fth_qmem_free(c->mem, e->keys, e->key_bytes);
	fth_qmem_free(c->mem, e->ordinals, e->ordinal_bytes);
	fth_qmem_free(c->mem, e, sizeof(*e));
}

static int describe(struct catalog *c, struct entry *e)
{
	const struct fth_table_schema *schema = fth_table_schema(e->table);
	unsigned n = schema->columns;

	e->column_bytes = n * sizeof(*e->columns);
	e->key_bytes = n * sizeof(*e->keys);
	e->ordinal_bytes = n * sizeof(*e->ordinals);
	e->columns = fth_qmem_zalloc(c->mem, e->column_bytes);
	e->keys = fth_qmem_zalloc(c->mem, e->key_bytes);
	e->ordinals = fth_qmem_zalloc(c->mem, e->ordinal_bytes);
	if (!e->columns || !e->keys || !e->ordinals)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		const struct fth_table_facts *facts = fth_table_facts(e->table, i);

		e->columns[i] = (struct sql_table_column){
			schema->column[i].name, type_of(&schema->column[i]), facts->nulls > 0,
			!schema->column[i].not_null};
		e->ordinals[i] = i;
		if (facts->flags & FTH_TABLE_UNIQUE)
			e->keys[e->sql.key_count++] = (struct sql_table_key){1, &e->ordinals[i]};
	}
	e->sql.name = fth_table_name(e->table);
	e->sql.column_count = n;
	e->sql.columns = e->columns;
	e->sql.keys = e->keys;
	e->sql.rows = (int64_t)fth_table_rows(e->table);
	e->sql.self = e;
	return 0;
}

static const struct sql_table *find_table(void *self, const char *name)
{
	struct catalog *c = self;
	struct fth_table_memory memory = {table_alloc, table_release, c->mem};
	struct entry *e;
	int rc;

	for (e = c->entries; e; e = e->next)
		if (strcmp(e->sql.name, name) == 0)
			return &e->sql;
	e = fth_qmem_zalloc(c->mem, sizeof(*e));
	if (!e)
		return NULL;
	rc = fth_table_open(c->db, name, &memory, &e->table);
	if (rc == 0)
		rc = describe(c, e);
	if (rc < 0) {
		if (rc != -ENOENT)
			keep_error(c, rc);
		free_entry(c, e);
		return NULL;
	}
	e->next = c->entries;
	c->entries = e;
	return &e->sql;
}

/* ---- the catalog ---- */

static int keep_view(const char *name, const char *text, void *user)
{
	struct catalog *c = user;
	size_t bytes = sizeof(struct view) + strlen(text) + 1;
	struct view *v = fth_qmem_alloc(c->mem, bytes);

	(void)name;
	if (!v)
		return -ENOMEM;
	v->bytes = bytes;
	v->next = c->views;
	strcpy(v->text, text);
	c->views = v;
	return 1;
}

static const char *find_view(void *self, const char *name)
{
	struct catalog *c = self;
	int rc = views_visit(c->db, c->mem, name, keep_view, c);

	if (rc < 0)
		keep_error(c, rc);
	return rc == 1 ? c->views->text : NULL;
}

struct nth {
	unsigned left;
	char *name;
};

static int visit(const char *name, void *user)
{
	struct nth *n = user;

	if (n->left-- > 0)
		return 0;
	strncpy(n->name, name, FTH_TABLE_NAME_MAX);
	return 1;
}

static const char *name_at(void *self, unsigned i)
{
	struct catalog *c = self;
	struct nth n = {i, c->name};

	memset(c->name, 0, sizeof(c->name));
	return fth_table_list(c->db, visit, &n) == 1 ? c->name : NULL;
}

int catalog_new(struct fth_table_db *db, struct fth_qmem *mem, struct catalog **out)
{
	struct catalog *c = fth_qmem_zalloc(mem, sizeof(*c));

	*out = c;
	if (!c)
		return -ENOMEM;
	c->db = db;
	c->mem = mem;
	c->sql = (struct sql_catalog){c, find_table, find_view, name_at};
	return 0;
}

void catalog_free(struct catalog *c)
{
	if (!c)
		return;
	while (c->entries) {
		struct entry *next = c->entries->next;

		free_entry(c, c->entries);
		c->entries = next;
	}
	while (c->views) {
		struct view *next = c->views->next;

		fth_qmem_free(c->mem, c->views, c->views->bytes);
		c->views = next;
	}
	fth_qmem_free(c->mem, c, sizeof(*c));
}

const struct sql_catalog *catalog_sql(struct catalog *c)
{
	return &c->sql;
}

struct fth_table *catalog_table(void *catalog, const struct sql_table *table)
{
	(void)catalog;
	return ((struct entry *)table->self)->table;
}

bool catalog_names(const struct catalog *c, const char *table)
{
	for (const struct entry *e = c->entries; e; e = e->next)
		if (strcmp(e->sql.name, table) == 0)
			return true;
	return false;
}

int catalog_error(const struct catalog *c)
{
	return c->error == 0 ? 0 : fth_fail(-c->error, "%s", c->error_text);
}
