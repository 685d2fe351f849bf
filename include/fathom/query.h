/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SQL over the tables of a database (fathom/table.h), inside a memory budget.
 *
 *	int print(const struct fth_query_batch *batch, void *user)
 *	{
 *		char text[80];
 *
 *		(void)user;
 *		for (unsigned row = 0; row < fth_query_rows(batch); row++) {
 *			fth_query_text(batch, row, 0, text, sizeof(text));
 *			puts(text);
 *		}
 *		return 0;
 *	}
 *
 *	struct fth_query_db *db;
 *	struct fth_query *query;
 *
 *	fth_query_open("/data/db", NULL, &db);
 *	fth_query_new(db, &query);
 *	rc = fth_query_run(query, "select name from people where id > 7", print, NULL);
 *	if (rc < 0)
 *		fprintf(stderr, "%s\n", fth_error_text(rc));
 *	fth_query_free(query);
 *	fth_query_close(db);
 *
 * Statements: SELECT, EXPLAIN and EXPLAIN ANALYZE of it, CREATE TABLE, DROP TABLE, CREATE [OR
 * REPLACE] VIEW, DROP VIEW, INSERT, and COPY ... FROM a file. Each runs by itself and is atomic.
 * PRIMARY KEY, UNIQUE and REFERENCES are accepted and not enforced.
 *
 * The budget bounds what the queries of a database allocate: page buffers, metadata of tables,
 * intermediate results and parsed statements, of all queries together. Outside of it are the memory
 * of threads, that of PostgreSQL's grammar while it parses, and that of INSERT and COPY for
 * encoding rows. What does not fit goes to temporary files. A query that runs out of memory before
 * rows went to the caller starts again with shorter tasks, one thread and more temporary files. A
 * query whose smallest form does not fit is refused with -ENOMEM before it starts; the error text
 * says how much memory it needs. In less than 8 MiB, or beside other queries that use the budget, a
 * query can also fail with -ENOMEM while it runs.
 *
 * Views are rows of the table fathom_views. Names that begin with "fathom_" are reserved.
 */
#ifndef FATHOM_QUERY_H
#define FATHOM_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/table/db.h"
#include "fathom/table/schema.h"

FTH_BEGIN_DECLS

struct fth_query_db;
struct fth_query;
struct fth_query_batch;

#define FTH_QUERY_BUDGET     (UINT64_C(64) << 20)
#define FTH_QUERY_BUDGET_MIN (UINT64_C(1) << 20)

/* Start from FTH_QUERY_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_query_options {
	size_t size;	  /* of this struct */
	uint64_t budget;  /* bytes; default FTH_QUERY_BUDGET */
	unsigned threads; /* of each query; default the number of processors */
	bool create;	  /* make the directory if it does not exist */
	bool readonly;	  /* permission to read is enough */
	/*
	 * A storage daemon (fathom/query/storage.h) that owns the tables: unix:PATH or HOST:PORT.
	 * Queries are planned here and run there as far as its budget goes; the rest runs here.
	 * Tables cannot be changed.
	 */
	const char *storage;
	bool plain; /* with storage: run everything here, and read columns over the wire */
	/*
	 * A directory for temporary files. The default is that of the database if it can be
	 * written, else $TMPDIR or /tmp. The files have no names: their space is free when the
	 * statement ends, also if the process is killed.
	 */
	const char *scratch;
	uint64_t
		scratch_limit; /* bytes of temporary files of a statement; default: as many as are free there */
};

#define FTH_QUERY_OPTIONS_INIT                                                             \
	{                                                                                  \
		sizeof(struct fth_query_options), 0, 0, false, false, NULL, false, NULL, 0 \
	}

/*
 * Open a database: a path of a directory, or a volume as "vol(URI,URI,...)"; with options->storage
 * it is ignored and may be NULL. options NULL: the defaults. Blocks. Returns 0 or a negative errno:
 * -EINVAL for invalid options, else that of fth_table_db_open(). *out is NULL then. The database
 * can be used by any number of threads, each with a query of its own.
 */
int fth_query_open(const char *where, const struct fth_query_options *options,
		   struct fth_query_db **out);

/* Close the database. All its queries must be freed before. Accepts NULL. */
void fth_query_close(struct fth_query_db *db);

/* The tables of the database. They stay open as long as it. */
struct fth_table_db *fth_query_tables(struct fth_query_db *db);

/*
 * Call visit with name and text of each view, in the order of names. Stops when visit returns
 * non-zero, and returns that. Blocks. Otherwise returns 0 or a negative errno.
 */
int fth_query_views(struct fth_query_db *db,
		    int (*visit)(const char *name, const char *text, void *user), void *user);

/* ---- statements ---- */

/* Create a query object, which runs statements one at a time. Returns 0 or -ENOMEM. */
int fth_query_new(struct fth_query_db *db, struct fth_query **out);
void fth_query_free(struct fth_query *query); /* accepts NULL */

/*
 * Run one statement; sql is a C string in UTF-8, with or without a semicolon. `rows` gets the
 * result of SELECT and EXPLAIN in batches: first an empty batch, which has the columns, then those
 * with rows, in order if the statement has ORDER BY; calls come from threads of the query, one at a
 * time. A negative errno from `rows` ends the statement, and fth_query_run() returns it. rows may
 * be NULL. Blocks; needs 1 MiB of stack. Returns 0 or a negative errno, with a text that has the
 * position: -EINVAL for a wrong statement or value, -EOPNOTSUPP for an unsupported one, -ENOMEM if
 * it does not fit the budget, -ENOSPC if there is no space left for temporary files, -ECANCELED, or
 * an error of the storage.
 */
int fth_query_run(struct fth_query *query, const char *sql,
		  int (*rows)(const struct fth_query_batch *batch, void *user), void *user);

/*
 * A parameter of a statement: $1 is the first. Its value is text as PostgreSQL writes it, a C
 * string; NULL is null. type 0: the place where the parameter is used first decides.
 */
struct fth_query_parameter {
	enum fth_table_type type;
	const char *text;
};

#define FTH_QUERY_PARAMETERS_MAX 65535u

/*
 * fth_query_run() of a statement with parameters, of which `count` are given. -EINVAL if the
 * statement uses others, or a value is not one of its type.
 */
int fth_query_run_with(struct fth_query *query, const char *sql,
		       const struct fth_query_parameter *parameters, unsigned count,
		       int (*rows)(const struct fth_query_batch *batch, void *user), void *user);

/*
 * Compile a statement without running it. `rows` gets the empty batch with the columns of SELECT
 * and EXPLAIN. parameters has room for `room`, of which the first *count may have a type; the
 * others begin with zeroes. Sets the types of those that are used, and *count to the largest
 * number used if that is more. The kind of the statement is in the report. Blocks. Returns as
 * fth_query_run().
 */
int fth_query_describe(struct fth_query *query, const char *sql,
		       struct fth_query_parameter *parameters, unsigned room, unsigned *count,
		       int (*rows)(const struct fth_query_batch *batch, void *user), void *user);

/*
 * Transactions. From begin on, INSERT and COPY of this query append to one batch, of one table,
 * that commit makes durable and visible as a whole and that rollback discards. A statement that
 * reads this table is refused meanwhile, and so is one that appends to another. CREATE and DROP
 * take effect at once. begin returns 0, or -EINVAL in a transaction. commit ends the transaction
 * in any case and returns 0 or a negative errno: the rows were discarded, except after -EUCLEAN
 * (see fth_table_writer_commit()). Not while a statement runs. Blocks.
 */
int fth_query_begin(struct fth_query *query);
int fth_query_commit(struct fth_query *query);
void fth_query_rollback(struct fth_query *query);

/*
 * Cancel the running statement, which then returns -ECANCELED; does nothing if none is running. May
 * be called from any thread and from signal handlers. Does not wait for the statement to end.
 */
void fth_query_cancel(struct fth_query *query);

enum fth_query_kind {
	FTH_QUERY_NONE, /* no statement was recognised */
	FTH_QUERY_SELECT,
	FTH_QUERY_EXPLAIN,
	FTH_QUERY_INSERT,
	FTH_QUERY_COPY,
	FTH_QUERY_CREATE_TABLE,
	FTH_QUERY_DROP_TABLE,
	FTH_QUERY_CREATE_VIEW,
	FTH_QUERY_DROP_VIEW,
};

/* About the latest statement of a query. The counters are those of SELECT and EXPLAIN ANALYZE. */
struct fth_query_report {
	enum fth_query_kind kind;
	unsigned line, column; /* position of the error, from 1; 0: it has none */
	uint64_t rows;	       /* returned, inserted or loaded */
	uint64_t bytes;	       /* read from devices */
	uint64_t memory;       /* the most that was charged to the budget at a time */
	uint64_t wall_ns;
	/* With a storage daemon. */
	uint64_t wire_sent,
		wire_received; /* bytes over the wire, of all queries of the database meanwhile */
	uint64_t
		storage_bytes; /* of `bytes`, those that tasks at the daemon read: they did not go over the wire */
	unsigned suspensions; /* how often the daemon handed tasks back */
};

/* Valid until the query runs its next statement. Not while one runs. */
const struct fth_query_report *fth_query_report(const struct fth_query *query);

/*
 * The next statement of a script: sets *begin and *length to its bytes, starting the search at
 * offset `from`. Returns the offset behind its semicolon, or 0 if only blanks and comments are
 * left.
 */
size_t fth_query_split(const char *script, size_t from, size_t *begin, size_t *length);

/* ---- results ---- */

struct fth_query_column {
	const char *name;
	enum fth_table_type type;
	unsigned precision, scale; /* decimal; precision 0: any */
	uint32_t length;	   /* char, varchar: characters; 0: any */
};

/*
 * A batch is valid until the callback that got it returns. Rows and columns count from 0 and must
 * be inside. None of these functions fails, blocks or allocates.
 */
unsigned fth_query_columns(const struct fth_query_batch *batch);
const struct fth_query_column *fth_query_column(const struct fth_query_batch *batch,
						unsigned column);
unsigned fth_query_rows(const struct fth_query_batch *batch);
bool fth_query_null(const struct fth_query_batch *batch, unsigned row, unsigned column);

/*
 * A value that is not null: bool (0 or 1), int32, int64, date (days since 1970-01-01) and decimal
 * (value * 10^scale) as integers, of which fth_query_int() gives the low 64 bits; double; the bytes
 * of char, without trailing blanks, and varchar, which are not terminated.
 */
int64_t fth_query_int(const struct fth_query_batch *batch, unsigned row, unsigned column);
struct fth_table_wide fth_query_wide(const struct fth_query_batch *batch, unsigned row,
				     unsigned column);
double fth_query_double(const struct fth_query_batch *batch, unsigned row, unsigned column);
const char *fth_query_string(const struct fth_query_batch *batch, unsigned row, unsigned column,
			     size_t *length);

/* Bytes that the text of any value but a string needs, with its terminator. */
#define FTH_QUERY_TEXT_MAX 64

/*
 * Any value as text, as PostgreSQL writes it (booleans as t and f); null is empty. Writes at most
 * size bytes, a terminator included, and returns the length of the whole text.
 */
size_t fth_query_text(const struct fth_query_batch *batch, unsigned row, unsigned column, char *to,
		      size_t size);

FTH_END_DECLS
#endif
