/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables and queries of the TPC-H benchmark (TPC Benchmark H, Standard Specification, clauses
 * 1.4, 2.4 and 4.2).
 *
 * The generator makes the same rows as the reference generator, version 2.14, and the same files,
 * byte for byte. It gives rows one by one as typed values (struct fth_tpch_cursor), or a whole
 * table as blocks of text, made by all cores (fth_tpch_write()). A cursor can begin at any row:
 * every column has its own sequence of random numbers, which can skip any number of rows in one
 * step.
 *
 *	struct fth_tpch *tpch;
 *	struct fth_tpch_cursor *cursor;
 *	union fth_tpch_row row;
 *	int64_t cents = 0;
 *	int rc = fth_tpch_open(1, &tpch);
 *
 *	if (rc == 0)
 *		rc = fth_tpch_cursor_open(tpch, FTH_TPCH_ORDERS, 0, 1000, &cursor);
 *	if (rc == 0) {
 *		while (fth_tpch_next(cursor, &row))
 *			cents += row.orders.totalprice;
 *		fth_tpch_cursor_close(cursor);
 *	}
 *	fth_tpch_close(tpch);
 */
#ifndef FTH_WORKLOADS_TPCH_H
#define FTH_WORKLOADS_TPCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

/* The tables; each refers only to tables before it. */
enum fth_tpch_table {
	FTH_TPCH_REGION,
	FTH_TPCH_NATION,
	FTH_TPCH_SUPPLIER,
	FTH_TPCH_CUSTOMER,
	FTH_TPCH_PART,
	FTH_TPCH_PARTSUPP,
	FTH_TPCH_ORDERS,
	FTH_TPCH_LINEITEM,
	FTH_TPCH_TABLES
};

/*
 * Scale factors are multiples of 0.001. The reference generator drops the fraction of a scale
 * factor above 1; here 1.5 gives one and a half times the rows of 1.
 */
#define FTH_TPCH_SCALE_MIN 0.001
#define FTH_TPCH_SCALE_MAX 100000.0

/* ---- rows ---- */

/* A string, not terminated. It belongs to the cursor and is valid until its next call. */
struct fth_tpch_text {
	const char *data;
	uint32_t length;
};

/* Decimals are in hundredths, l_quantity in whole units; dates are days since 1970-01-01. */
struct fth_tpch_region {
	int64_t regionkey;
	struct fth_tpch_text name, comment;
};

struct fth_tpch_nation {
	int64_t nationkey;
	struct fth_tpch_text name;
	int64_t regionkey;
	struct fth_tpch_text comment;
};

struct fth_tpch_supplier {
	int64_t suppkey;
	struct fth_tpch_text name, address;
	int64_t nationkey;
	struct fth_tpch_text phone;
	int64_t acctbal;
	struct fth_tpch_text comment;
};

struct fth_tpch_customer {
	int64_t custkey;
	struct fth_tpch_text name, address;
	int64_t nationkey;
	struct fth_tpch_text phone;
	int64_t acctbal;
	struct fth_tpch_text mktsegment, comment;
};

struct fth_tpch_part {
	int64_t partkey;
	struct fth_tpch_text name, mfgr, brand, type;
	int64_t size;
	struct fth_tpch_text container;
	int64_t retailprice;
	struct fth_tpch_text comment;
};

struct fth_tpch_partsupp {
	int64_t partkey, suppkey, availqty, supplycost;
	struct fth_tpch_text comment;
};

struct fth_tpch_orders {
	int64_t orderkey, custkey;
	struct fth_tpch_text orderstatus;
	int64_t totalprice, orderdate;
	struct fth_tpch_text orderpriority, clerk;
	int64_t shippriority;
	struct fth_tpch_text comment;
};

struct fth_tpch_lineitem {
	int64_t orderkey, partkey, suppkey, linenumber;
	int64_t quantity, extendedprice, discount, tax;
	struct fth_tpch_text returnflag, linestatus;
	int64_t shipdate, commitdate, receiptdate;
	struct fth_tpch_text shipinstruct, shipmode, comment;
};

union fth_tpch_row {
	struct fth_tpch_region region;
	struct fth_tpch_nation nation;
	struct fth_tpch_supplier supplier;
	struct fth_tpch_customer customer;
	struct fth_tpch_part part;
	struct fth_tpch_partsupp partsupp;
	struct fth_tpch_orders orders;
	struct fth_tpch_lineitem lineitem;
};

/* ---- columns, for programs that treat all tables alike ---- */

enum fth_tpch_type {
	FTH_TPCH_KEY,	  /* int64_t: an identifier; beyond 32 bits at large scale factors */
	FTH_TPCH_INTEGER, /* int64_t: fits in 32 bits */
	FTH_TPCH_DECIMAL, /* int64_t: with `places` digits after the point */
	FTH_TPCH_DATE,	  /* int64_t: days since 1970-01-01 */
	FTH_TPCH_CHAR,	  /* struct fth_tpch_text: not padded */
	FTH_TPCH_VARCHAR, /* struct fth_tpch_text */
};

struct fth_tpch_column {
	const char *name; /* with its prefix: "l_orderkey" */
	enum fth_tpch_type type;
	uint32_t places; /* of a decimal: 2, or 0 for l_quantity */
	uint32_t width;	 /* of strings: the most characters */
	size_t offset;	 /* in union fth_tpch_row */
};

/* "lineitem". Static, never NULL for a table. */
const char *fth_tpch_table_name(enum fth_tpch_table table);

/* The table of that name: 0, or -EINVAL with a text. */
int fth_tpch_find_table(const char *name, enum fth_tpch_table *out);

/* The columns of a table, in order, and how many there are. Static. */
const struct fth_tpch_column *fth_tpch_columns(enum fth_tpch_table table, unsigned *count);

/* ---- the generator ---- */

struct fth_tpch;

/*
 * Make a generator. This takes 6 MiB of memory and about 0.3 s: comments are substrings of a text
 * of 300 MiB, for which the generator builds an index, so that it can make any part of it again.
 * Any number of threads may use one generator at the same time. 0, -EINVAL with a text for an
 * invalid scale factor, or -ENOMEM.
 */
int fth_tpch_open(double scale, struct fth_tpch **out);
void fth_tpch_close(struct fth_tpch *tpch); /* accepts NULL; cursors are closed before */

/*
 * The number of units of a table. A unit of lineitem is an order (1 to 7 rows), a unit of partsupp
 * is a part (4 rows), a unit of any other table is a row. Cursors begin and end at units.
 */
uint64_t fth_tpch_units(const struct fth_tpch *tpch, enum fth_tpch_table table);

/* ---- row by row ---- */

struct fth_tpch_cursor;

/*
 * Open a cursor over the units [first, first + count), cut off at the end of the table. The time
 * does not depend on `first`, with one exception: from scale factor 30,000 on, the reference
 * generator's part keys cannot skip rows, so that opening orders or lineitem takes about 40 ns for
 * each unit before `first`. A cursor belongs to one thread at a time. 0 or -ENOMEM.
 */
int fth_tpch_cursor_open(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			 uint64_t count, struct fth_tpch_cursor **out);
void fth_tpch_cursor_close(struct fth_tpch_cursor *cursor); /* accepts NULL */

/* Get the next row. Returns false after the last one and leaves *row as it is. */
bool fth_tpch_next(struct fth_tpch_cursor *cursor, union fth_tpch_row *row);

/* ---- as text ---- */

/* The longest line of any table, with its end. */
#define FTH_TPCH_LINE_MAX 512

/* Write a row as a line of the table's file, columns separated by '|'; returns its length. */
size_t fth_tpch_format(const struct fth_tpch *tpch, enum fth_tpch_table table,
		       const union fth_tpch_row *row, char line[FTH_TPCH_LINE_MAX]);

/* A piece of a table's file, whole lines. */
struct fth_tpch_block {
	const char *text; /* valid during the call */
	size_t length;
	uint64_t offset; /* in the file */
};

/* 0 or NULL in any field but `block` means its default. */
struct fth_tpch_write_options {
	unsigned threads; /* 0: one per CPU */
	/*
	 * Called with every block of the table; a negative result ends the write with that error.
	 * Several threads call it at the same time and in any order, or, with in_order, one after
	 * the other from the first block to the last.
	 */
	int (*block)(void *context, const struct fth_tpch_block *block);
	bool in_order;
	/*
	 * Called by the calling thread, many times; a negative result ends the write. May be NULL.
	 */
	int (*progress)(void *context, uint64_t units, uint64_t total);
	void *context; /* of both */
};

struct fth_tpch_totals {
	uint64_t rows, bytes;
};

/*
 * Make a whole table as text. Each thread allocates a buffer of 1 MiB. The text does not depend on
 * the number of threads. Returns when the table is complete or something failed: 0, the first error
 * of a callback, or -ENOMEM.
 */
int fth_tpch_write(const struct fth_tpch *tpch, enum fth_tpch_table table,
		   const struct fth_tpch_write_options *options, struct fth_tpch_totals *out);

/* ---- queries ---- */

#define FTH_TPCH_QUERIES 22

/*
 * The text of query 1 to 22 in PostgreSQL's dialect, with the substitution values that the
 * specification gives for validation. Query 15 is written with a common table expression instead
 * of a view, so that each text is one statement. Q11's fraction is that of scale factor 1.
 * NULL for any other number. Static.
 */
const char *fth_tpch_query(unsigned number);

FTH_END_DECLS
#endif
