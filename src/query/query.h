/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the files that tie the engine together.
 *
 *	query.c		databases; runs a statement by its kind, with the files below
 *	result.c	SELECT: batches of rows for the caller
 *	tasks.c		task sets without SQL
 *	explain.c	EXPLAIN and EXPLAIN ANALYZE
 *	certificate.c	what tasks promise and what they did, as text and JSON
 *	append.c	INSERT and COPY
 *	define.c	CREATE and DROP
 *	views.c		views, kept in a table
 *	statement.c	the parts of a statement: open, compile, plan, execute
 *	db_catalog.c	tables and views for the front end
 *
 * Calls go downward: query.c and tasks.c, result.c to define.c, statement.c.
 */
#ifndef FTH_QUERY_QUERY_H
#define FTH_QUERY_QUERY_H

#include "fathom/query.h"

#include "query/db_catalog.h"
#include "query/reserved.h"
#include "query/sql/sql.h"
#include "query/remote/offload.h"
#include "query/exec/exec.h"

#include <stdatomic.h>

struct fth_query_db {
	struct fth_table_db *tables;
	struct fth_qmem *mem; /* the budget: the root of all accounts */
	uint64_t budget;
	unsigned threads;
	struct remote *remote; /* the storage daemon that has the tables, or NULL */
	bool plain;	       /* it runs no tasks */
	char *scratch;	       /* directory for temporary files; NULL: $TMPDIR or /tmp */
	uint64_t scratch_limit;
};

/* Rows that statements have appended to one table, and that are not committed. */
struct query_transaction {
	bool open;
	bool failed; /* a statement failed, and some of its rows may be in the writer */
	struct fth_table_writer *writer;
	char *table;
	uint64_t bytes; /* charged for the writer */
};

struct fth_query {
	struct fth_query_db *db;
	struct query_transaction transaction;
	atomic_bool cancel;
	struct fth_query_report report;
	uint64_t wire_sent, wire_received; /* of the remote when the statement began */
};

/* A statement while it runs. */
struct statement {
	struct fth_query *query;
	struct fth_qmem *mem; /* its account */
	struct catalog *catalog;
	struct sql_statement *sql;
	uint64_t writer_bytes; /* charged for the writer of INSERT and COPY */
	struct fth_arena arena;
	struct sql_params params; /* of the text */
	struct task_set set;	  /* SELECT and INSERT, in the arena */
	uint64_t least;		  /* EXPLAIN: bytes that it needs in any case */
	enum exec_thrift thrift;  /* in which it ended */
	int (*rows)(const struct fth_query_batch *batch, void *user);
	void *user;
	struct offload_report offload; /* with a storage daemon; at_storage is NULL without */
};

/* ---- statement.c ---- */

typedef int (*statement_emit)(void *user, const struct fth_vec *columns, const struct fth_sel *sel);

/* Begin and end a run: the query's report and its time. Returns when it began. */
uint64_t statement_begin(struct fth_query *query);
void statement_end(struct statement *s, uint64_t start);
/* Returns 0 or -ENOMEM; close it in both cases. */
int statement_open(struct statement *s, struct fth_query *query);
void statement_close(struct statement *s);
/* A sql_charge_fn: charges the account mem for the front end. */
int query_charge(void *mem, ptrdiff_t bytes);
/* Compile the text: s->sql, and the kind in the report. */
int statement_compile(struct statement *s, const char *text);
/* Plan the query of the statement; run it. stats may be NULL. */
int statement_plan(struct statement *s);
/* With a storage daemon: all tasks are to run there. Returns 0 or -ENOMEM. */
int statement_place(struct statement *s);
int statement_exec(struct statement *s, statement_emit emit, void *user, struct exec_stats *stats);
/* -ECANCELED, with a text, if the statement is to end. */
int statement_canceled(const struct statement *s);

/* ---- result.c ---- */

struct fth_query_batch {
	struct statement *statement;
	unsigned column_count;
	struct fth_query_column *columns;
	const struct fth_vec *vectors;
	unsigned row_count;
	uint16_t rows[FTH_BATCH + 64];
};

/* Hand over an empty batch with the columns of the statement, if it has any. */
int statement_columns(struct statement *s);
/* Run the task set that was planned, and hand over its rows. */
int statement_rows(struct statement *s);
/* Hand over lines of text as a result with one column. */
int statement_lines(struct statement *s, const char *name, const char *text);

/* ---- explain.c, append.c, define.c ---- */

int statement_explain(struct statement *s);
int statement_insert(struct statement *s);
/* Discard the rows of the transaction. */
void transaction_release(struct fth_query *query);
int statement_copy(struct statement *s);
int statement_create_table(struct statement *s);
int statement_drop_table(struct statement *s);
int statement_create_view(struct statement *s);
int statement_drop_view(struct statement *s);

/* Whether rows for one table fit the other. */
bool append_same_columns(const struct fth_table_schema *a, const struct fth_table_schema *b);

/* ---- views.c ---- */

#define VIEWS_TABLE "fathom_views"

/* Append what is now the text of a view; NULL: it is dropped. */
int views_write(struct fth_table_db *db, const char *name, const char *text);

#endif
