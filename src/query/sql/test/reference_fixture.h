/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reference interpreter of logical trees, for tests: tables in memory, a row at a time, every
 * relation computed whole. It is meant to be right at a glance, not fast.
 */
#ifndef QUERY_SQL_REFERENCE_FIXTURE_H
#define QUERY_SQL_REFERENCE_FIXTURE_H

#include "query/sql/sql_arena.h"
#include "query/sql/sql.h"

struct ref_rows {
	unsigned width;
	const int *columns; /* their numbers in the query */
	size_t count, room;
	struct sql_value *cells; /* row by row */
};

struct ref_table {
	struct sql_table table;
	struct ref_rows rows;
	struct ref_table *next;
};

struct ref_view {
	const char *name, *text;
	struct ref_view *next;
};

struct ref_db {
	struct sql_catalog catalog;
	struct sql_arena *arena; /* tables and views */
	struct ref_table *tables;
	struct ref_view *views;
	bool keep_as_bound; /* do not simplify trees */
};

void ref_open(struct ref_db *db);
void ref_close(struct ref_db *db);

/*
 * The rows of a query, in the arena, with the query's outputs as columns. 0, or -errno with a text.
 */
int ref_query(struct ref_db *db, const struct sql_query *query, struct sql_arena *arena,
	      struct ref_rows *rows);

/*
 * Runs any statement. Queries leave their rows and *statement, which the caller frees with
 * sql_free(); arena is for the rows. Others change db. 0, or -errno with a text.
 */
int ref_run(struct ref_db *db, const char *text, struct sql_arena *arena,
	    struct sql_statement **statement, struct ref_rows *rows);

/* Loads a delimited file; a field that equals `null` is NULL. */
int ref_load(struct ref_db *db, struct ref_table *table, const char *path, char delimiter,
	     const char *null);
struct ref_table *ref_find(struct ref_db *db, const char *name);

#endif
