/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The SQL front end: text in, a checked statement out. A query comes as a logical tree (tree.h),
 * bound, decorrelated and simplified; other statements as plain structures. Nothing here touches
 * data.
 *
 * sql_compile() is thread-safe: all state is in the statement. The calling thread needs 256 KiB of
 * stack, 1 MiB for statements of any size: how deeply a text may nest depends on what is left.
 */
#ifndef QUERY_SQL_SQL_H
#define QUERY_SQL_SQL_H

#include "query/sql/sql_arena.h"
#include "query/sql/sql_catalog.h"
#include "query/sql/tree/tree.h"

#define SQL_TEXT_MAX	 (1u << 20)  /* bytes of one statement */
#define SQL_MEMORY_LIMIT (64u << 20) /* default limit of a statement's arena */

struct sql_error {
	int at;		       /* byte offset in the text, or -1 */
	unsigned line, column; /* from 1, columns in characters; 0 if at is -1 */
	char text[256];	       /* without the position */
};

enum sql_statement_kind {
	SQL_SELECT,
	SQL_INSERT,
	SQL_COPY_FROM,
	SQL_CREATE_TABLE,
	SQL_CREATE_VIEW,
	SQL_DROP_TABLE,
	SQL_DROP_VIEW,
};

struct sql_option {
	const char *name, *value; /* value is "" for an option without one */
};

struct sql_statement {
	enum sql_statement_kind kind;
	bool explain, analyze, json;   /* json: EXPLAIN (FORMAT JSON) */
	struct sql_arena *arena;       /* owns everything below */
	struct sql_query query;	       /* SELECT, INSERT */
	const char *name;	       /* of the table or view, all but SELECT */
	const struct sql_table *table; /* INSERT, COPY */
	/* INSERT, COPY: the table's column for each result column or field. */
	unsigned target_count;
	unsigned *targets;
	/* CREATE TABLE: `declared`, with keys; COPY and CREATE TABLE: options. */
	struct sql_table declared;
	unsigned option_count;
	struct sql_option *options;
	const char *file; /* COPY; NULL: from the client */
	const char *text; /* CREATE VIEW: the query */
	bool if_exists, if_not_exists, or_replace;
	/* DROP: all names; name is the first. */
	unsigned name_count;
	const char **names;
};

/*
 * The value of $1 and so on. A type that is not given (kind 0) is inferred from the first use and
 * then set.
 */
struct sql_param {
	struct sql_type type;
	const char *text; /* NULL: null */
};

struct sql_params {
	unsigned
		count; /* that have a type or a value; the compiler raises it to the largest number used */
	unsigned room;
	struct sql_param *params;
};

struct sql_limits {
	size_t memory;	       /* bytes the statement may take; 0: SQL_MEMORY_LIMIT */
	sql_charge_fn *charge; /* accounts for these bytes until sql_free(); or NULL */
	void *user;
	struct sql_params *params; /* NULL: parameters are refused */
	bool keep_as_bound; /* for tests: leave out the simplifications, keep only what is needed */
};

/*
 * Compiles one statement; text is a C string in UTF-8. limits may be NULL. On success *out is freed
 * with sql_free(). Returns 0; -EINVAL for a wrong statement, -EOPNOTSUPP for a construct that is
 * not supported, -ENOMEM. On failure error, which may be NULL, has text and position, and
 * fth_error_text() has both in one line.
 */
int sql_compile(const struct sql_catalog *catalog, const char *text,
		const struct sql_limits *limits, struct sql_statement **out,
		struct sql_error *error);
void sql_free(struct sql_statement *statement);

/*
 * The next statement of a script: sets *begin and *length to its bytes, starting the search at
 * `from`. Knows quotes, dollar quotes and comments, and nothing else of SQL. Returns the offset
 * behind its semicolon, or 0 if nothing but blanks and comments is left.
 */
size_t sql_split(const char *script, size_t from, size_t *begin, size_t *length);

#endif
