/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the SQL front end asks of a database: its tables and views by name. The database fills in
 * plain structures; they stay valid and unchanged until the statement that used them is freed.
 */
#ifndef QUERY_SQL_CATALOG_H
#define QUERY_SQL_CATALOG_H

#include "query/sql/type.h"

struct sql_table_column {
	const char *name;
	struct sql_type type;
	bool nullable;
	bool accepts_null; /* a new row may have a NULL here, even if no row has one now */
};

/* Columns that no two rows share, by their ordinals. Rows with a NULL in them do not count. */
struct sql_table_key {
	unsigned count;
	const unsigned *ordinals;
};

struct sql_table {
	const char *name;
	unsigned column_count;
	const struct sql_table_column *columns;
	/* Facts that may be missing: */
	unsigned key_count;
	const struct sql_table_key *keys;
	int64_t rows; /* -1: not known */
	void *self;   /* the database's own */
};

struct sql_catalog {
	void *self;
	/* The table of this name, or NULL. */
	const struct sql_table *(*table)(void *self, const char *name);
	/* The query text of the view of this name, or NULL. */
	const char *(*view)(void *self, const char *name);
	/*
	 * The name of table or view i, valid until the next call, or NULL after the last; for
	 * suggestions.
	 */
	const char *(*name)(void *self, unsigned i);
};

#endif
