/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PostgreSQL's catalogs, and an interpreter for the queries that clients send about them.
 *
 *	catalog.c	which statements are for it; running them
 *	relations.c	the rows of pg_class and so on, made for each statement from the database
 *	from.c		FROM and WHERE
 *	select.c	the rest of SELECT
 *	expr.c		expressions, row by row
 *	functions.c	functions
 *
 * Catalogs are small, and their queries use much that the engine does not have: arrays, oids,
 * regular expressions, functions in FROM, row_number(). So they are interpreted, with all values
 * as text. Errors leave by longjmp(), and all memory is in the arena of the parse tree, which has
 * a limit.
 */
#ifndef PG_CATALOG_H
#define PG_CATALOG_H

#include "pg/session.h"
#include "pg/tree.h"

/* A value: text as PostgreSQL writes it, NULL for null. */
struct cat_value {
	const char *text;
	uint32_t oid;
};

struct cat_column {
	const char *name;
	uint32_t oid;
};

struct cat_rel {
	unsigned width;
	struct cat_column *columns;
	unsigned count, room;
	struct cat_value *cells;
};

/* A relation in FROM, and its row; row -1: all columns are null. */
struct cat_item {
	const char *alias;
	struct cat_rel *rel;
	int row;
};

struct cat_scope {
	struct cat_scope *outer;
	unsigned count;
	struct cat_item *items;
	/* the rows of a group, while its aggregates are evaluated; NULL: none */
	const struct cat_group *group;
};

/* Rows of FROM: for each a row of every item. */
struct cat_tuples {
	unsigned count, room;
	int *rows;
};

struct cat_group {
	unsigned count;
	const unsigned *tuples;
	const struct cat_tuples *all;
	bool window; /* row numbers of row_number(), by tuple */
	unsigned number;
};

struct cat_with {
	struct cat_with *next;
	const char *name;
	struct cat_rel *rel;
};

struct cat {
	struct pg_session *session;
	struct sql_ctx *ctx;
	const struct pg_portal *portal; /* values of parameters; NULL: none */
	struct cat_with *withs;
	uint64_t steps;
	struct cat_rel *tables; /* name, oid, kind, rows; see relations.c */
	struct cat_rel *attributes;
};

/* ---- catalog.c ---- */

/* Whether a SELECT is about catalogs, or about none of the database's tables. */
bool pg_is_catalog(struct pg_session *s, const char *text);
/*
 * Run it: the columns, and rows to w if that is not NULL. 0; or -1 after an error was sent.
 */
int pg_catalog_run(struct pg_session *s, const char *text, const struct pg_portal *portal,
		   struct pg_column **columns, unsigned *count, struct pg_wire *w, bool describe,
		   const int16_t *formats, unsigned format_count, uint64_t *rows);

/* ---- relations.c ---- */

/* A catalog by its name; NULL: there is none. */
struct cat_rel *cat_relation(struct cat *c, const char *schema, const char *name);
const char *cat_type_name(struct cat *c, uint32_t oid, int typmod);
uint32_t cat_type_oid(const char *name);
/* The number of a relation; "" or 0: there is none. */
const char *cat_relation_oid(struct cat *c, const char *name);
const char *cat_relation_name(struct cat *c, const char *oid);
const char *cat_view_text(struct cat *c, const char *oid);
struct cat_rel *cat_new(struct cat *c, unsigned width, const char *const *names);
struct cat_value *cat_add(struct cat *c, struct cat_rel *rel);

/* ---- select.c ---- */

struct cat_rel *cat_select(struct cat *c, struct cat_scope *outer, const PgQuery__SelectStmt *s);

/* ---- expr.c ---- */

struct cat_value cat_eval(struct cat *c, struct cat_scope *scope, const PgQuery__Node *node);
uint32_t cat_type_of(struct cat *c, struct cat_scope *scope, const PgQuery__Node *node);
bool cat_true(struct cat_value v);
int cat_compare(struct cat_value a, struct cat_value b);
const char *cat_string(struct cat *c, const PgQuery__Node *node);
struct cat_value cat_text(const char *text);
struct cat_value cat_number(struct cat *c, uint32_t oid, long long n);
struct cat_value cat_bool(bool truth);
bool cat_is_aggregate(const char *name);
/* The elements of an array or vector. */
unsigned cat_elements(struct cat *c, const char *text, struct cat_value **out, uint32_t oid);
struct cat_value cat_array(struct cat *c, unsigned n, const struct cat_value *items, uint32_t oid);

/* ---- functions.c ---- */

struct cat_value cat_call(struct cat *c, struct cat_scope *scope, const char *name,
			  const PgQuery__FuncCall *call, unsigned n, const struct cat_value *args);
uint32_t cat_function_type(const char *name);
/* A function in FROM; NULL: it is none that returns rows. */
struct cat_rel *cat_rows_of(struct cat *c, const char *name, unsigned n,
			    const struct cat_value *args);

#endif
