/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SQL types and values.
 *
 * A value has no type of its own: its column or expression has one. All integer-like values (bool,
 * int32, int64, decimal, date) are one 128-bit integer; a decimal is scaled by 10^scale, a date
 * counts days from 1970-01-01. Strings are bytes in UTF-8; a char(n) is kept without its trailing
 * blanks, so comparing bytes compares as SQL does.
 */
#ifndef QUERY_SQL_TYPE_H
#define QUERY_SQL_TYPE_H

#include "scalar/scalar.h"

#include "fathom/table/schema.h"

#define SQL_PRECISION_MAX  38
#define SQL_DIVISION_SCALE 16 /* a quotient of decimals has at least this scale */

/* The types of tables have the same numbers. */
enum sql_kind {
	SQL_BOOL = FTH_TABLE_BOOL,
	SQL_INT32 = FTH_TABLE_INT32,
	SQL_INT64 = FTH_TABLE_INT64,
	SQL_DATE = FTH_TABLE_DATE,
	SQL_DECIMAL = FTH_TABLE_DECIMAL,
	SQL_DOUBLE = FTH_TABLE_DOUBLE,
	SQL_CHAR = FTH_TABLE_CHAR,
	SQL_VARCHAR = FTH_TABLE_VARCHAR,
	SQL_INTERVAL = 64, /* constants only: an argument of SQL_DATE_ADD */
	SQL_UNKNOWN, /* inside the binder only: a quoted literal or NULL without a context yet */
};

struct sql_type {
	enum sql_kind kind;
	int precision; /* decimal: digits in all, at most SQL_PRECISION_MAX */
	int scale;     /* decimal: digits after the point */
	int length;    /* char, varchar: characters at most; 0: no limit, and a varchar is text */
};

struct sql_value {
	bool null;
	union {
		fth_i128 integer;
		double real;
		struct {
			const char *text;
			size_t length;
		};
		struct {
			int32_t months, days; /* interval */
		};
	};
};

static inline bool sql_is_string(enum sql_kind kind)
{
	return kind == SQL_CHAR || kind == SQL_VARCHAR;
}

static inline bool sql_is_text(struct sql_type type)
{
	return type.kind == SQL_VARCHAR && type.length == 0;
}

static inline bool sql_is_number(enum sql_kind kind)
{
	return kind == SQL_INT32 || kind == SQL_INT64 || kind == SQL_DECIMAL || kind == SQL_DOUBLE;
}

/* Writes the type as SQL does, "decimal(15,2)"; returns to. */
char *sql_type_name(struct sql_type type, char to[40]);

#endif
