/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The generator itself and what is known about its tables. Beside it:
 *
 *	random.h	random numbers, and how to advance them
 *	words.c		the strings that columns and comments are drawn from
 *	prose.c		the text that comments are pieces of
 *	cursor.c	the seeds of all columns, and cursors
 *	rows.c		the rows of each table
 *	format.c	a row as a line of text
 *	write.c		a whole table as text, by many threads
 *	queries.c	the 22 queries
 */
#include "tpch_internal.h"

#include "prose.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN(table, prefix, column, type, places, width)          \
	{                                                           \
		prefix "_" #column, FTH_TPCH_##type, places, width, \
			offsetof(struct fth_tpch_##table, column)   \
	}
#define KEY(t, p, c)	    COLUMN(t, p, c, KEY, 0, 0)
#define INTEGER(t, p, c)    COLUMN(t, p, c, INTEGER, 0, 0)
#define MONEY(t, p, c)	    COLUMN(t, p, c, DECIMAL, 2, 0)
#define DATE(t, p, c)	    COLUMN(t, p, c, DATE, 0, 0)
#define CHAR(t, p, c, w)    COLUMN(t, p, c, CHAR, 0, w)
#define VARCHAR(t, p, c, w) COLUMN(t, p, c, VARCHAR, 0, w)

static const struct fth_tpch_column region_columns[] = {
	KEY(region, "r", regionkey),
	CHAR(region, "r", name, 25),
	VARCHAR(region, "r", comment, 152),
};

static const struct fth_tpch_column nation_columns[] = {
	KEY(nation, "n", nationkey),
	CHAR(nation, "n", name, 25),
	KEY(nation, "n", regionkey),
	VARCHAR(nation, "n", comment, 152),
};

static const struct fth_tpch_column supplier_columns[] = {
	KEY(supplier, "s", suppkey),	      CHAR(supplier, "s", name, 25),
	VARCHAR(supplier, "s", address, 40),  KEY(supplier, "s", nationkey),
	CHAR(supplier, "s", phone, 15),	      MONEY(supplier, "s", acctbal),
	VARCHAR(supplier, "s", comment, 101),
};

static const struct fth_tpch_column customer_columns[] = {
	KEY(customer, "c", custkey),	     VARCHAR(customer, "c", name, 25),
	VARCHAR(customer, "c", address, 40), KEY(customer, "c", nationkey),
	CHAR(customer, "c", phone, 15),	     MONEY(customer, "c", acctbal),
	CHAR(customer, "c", mktsegment, 10), VARCHAR(customer, "c", comment, 117),
};

static const struct fth_tpch_column part_columns[] = {
	KEY(part, "p", partkey),	 VARCHAR(part, "p", name, 55),
	CHAR(part, "p", mfgr, 25),	 CHAR(part, "p", brand, 10),
	VARCHAR(part, "p", type, 25),	 INTEGER(part, "p", size),
	CHAR(part, "p", container, 10),	 MONEY(part, "p", retailprice),
	VARCHAR(part, "p", comment, 23),
};

static const struct fth_tpch_column partsupp_columns[] = {
	KEY(partsupp, "ps", partkey),	       KEY(partsupp, "ps", suppkey),
	INTEGER(partsupp, "ps", availqty),     MONEY(partsupp, "ps", supplycost),
	VARCHAR(partsupp, "ps", comment, 199),
};

static const struct fth_tpch_column orders_columns[] = {
	KEY(orders, "o", orderkey),	   KEY(orders, "o", custkey),
	CHAR(orders, "o", orderstatus, 1), MONEY(orders, "o", totalprice),
	DATE(orders, "o", orderdate),	   CHAR(orders, "o", orderpriority, 15),
	CHAR(orders, "o", clerk, 15),	   INTEGER(orders, "o", shippriority),
	VARCHAR(orders, "o", comment, 79),
};

static const struct fth_tpch_column lineitem_columns[] = {
	KEY(lineitem, "l", orderkey),
	KEY(lineitem, "l", partkey),
	KEY(lineitem, "l", suppkey),
	INTEGER(lineitem, "l", linenumber),
	COLUMN(lineitem, "l", quantity, DECIMAL, 0, 0),
	MONEY(lineitem, "l", extendedprice),
	MONEY(lineitem, "l", discount),
	MONEY(lineitem, "l", tax),
	CHAR(lineitem, "l", returnflag, 1),
	CHAR(lineitem, "l", linestatus, 1),
	DATE(lineitem, "l", shipdate),
	DATE(lineitem, "l", commitdate),
	DATE(lineitem, "l", receiptdate),
	CHAR(lineitem, "l", shipinstruct, 25),
	CHAR(lineitem, "l", shipmode, 10),
	VARCHAR(lineitem, "l", comment, 44),
};

#define TABLE(table, base, fixed, rows)                                      \
	{                                                                    \
#table, base, fixed, rows, table##_columns,                  \
			sizeof(table##_columns) / sizeof(table##_columns[0]) \
	}

static const struct {
	const char *name;
	uint64_t base;	/* units at scale factor 1 */
	uint64_t fixed; /* or units at any */
	unsigned rows;	/* of a unit, at most */
	const struct fth_tpch_column *columns;
	unsigned count;
} tables[FTH_TPCH_TABLES] = {
	TABLE(region, 0, 5, 1),	      TABLE(nation, 0, 25, 1),
	TABLE(supplier, 10000, 0, 1), TABLE(customer, 150000, 0, 1),
	TABLE(part, 200000, 0, 1),    TABLE(partsupp, 200000, 0, 4),
	TABLE(orders, 1500000, 0, 1), TABLE(lineitem, 1500000, 0, TPCH_LINES_MAX),
};

const char *fth_tpch_table_name(enum fth_tpch_table table)
{
	return tables[table].name;
}

int fth_tpch_find_table(const char *name, enum fth_tpch_table *out)
{
	for (unsigned t = 0; t < FTH_TPCH_TABLES; t++)
		if (strcmp(name, tables[t].name) == 0) {
			*out = (enum fth_tpch_table)t;
			return 0;
		}
	return fth_fail(EINVAL,
			"table %s: expected region, nation, supplier, customer, part, partsupp, "
			"orders or lineitem",
			name);
}

const struct fth_tpch_column *fth_tpch_columns(enum fth_tpch_table table, unsigned *count)
{
	*count = tables[table].count;
	return tables[table].columns;
}

unsigned tpch_rows_per_unit(enum fth_tpch_table table)
{
	return tables[table].rows;
}

uint64_t fth_tpch_units(const struct fth_tpch *tpch, enum fth_tpch_table table)
{
	return tables[table].fixed ? tables[table].fixed
				   : tables[table].base * tpch->thousandths / 1000;
}

/* ---- opening ---- */

static bool leap_year(unsigned year)
{
	return year % 4 == 0; /* from 1992 to 1998 */
}

static void init_days(char days[TPCH_DAYS][16])
{
	static const unsigned char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	unsigned year = 1992, month = 1, day = 1;

	for (unsigned i = 0; i < TPCH_DAYS; i++) {
		snprintf(days[i], sizeof(days[i]), "%04u-%02u-%02u", year % 10000, month % 100,
			 day % 100);
		if (++day <= lengths[month - 1] + (unsigned)(month == 2 && leap_year(year)))
			continue;
		day = 1;
		if (++month > 12) {
			month = 1;
			year++;
		}
	}
}

static int check_scale(double scale, uint64_t *thousandths)
{
	double rest = 1;

	if (scale >= FTH_TPCH_SCALE_MIN && scale <= FTH_TPCH_SCALE_MAX) {
		*thousandths = (uint64_t)(scale * 1000 + 0.5);
		rest = scale * 1000 - (double)*thousandths;
	}
	if (rest > 1e-6 || rest < -1e-6)
		return fth_fail(
			EINVAL,
			"scale factor %g: expected a multiple of 0.001 from 0.001 to 100000",
			scale);
	return 0;
}

int fth_tpch_open(double scale, struct fth_tpch **out)
{
	struct fth_tpch *tpch;
	uint64_t thousandths = 0;
	int rc = check_scale(scale, &thousandths);

	if (rc < 0)
		return rc;
	tpch = calloc(1, sizeof(*tpch));
	if (!tpch)
		return -ENOMEM;
	tpch->thousandths = thousandths;
	init_days(tpch->days);
	rc = tpch_prose_new(&tpch->prose);
	if (rc < 0) {
		free(tpch);
		return rc;
	}
	*out = tpch;
	return 0;
}

void fth_tpch_close(struct fth_tpch *tpch)
{
	if (!tpch)
		return;
	tpch_prose_free(tpch->prose);
	free(tpch);
}
