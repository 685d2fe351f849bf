/* SPDX-License-Identifier: BSD-2-Clause */
/* Types, columns and schemas of tables. */
#ifndef FATHOM_TABLE_SCHEMA_H
#define FATHOM_TABLE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

#define FTH_TABLE_COLUMNS_MAX 1024u
#define FTH_TABLE_NAME_MAX    63u	  /* bytes of a table's or column's name */
#define FTH_TABLE_STRING_MAX  (16u << 20) /* bytes of one string */
#define FTH_TABLE_GROUP_ROWS  65536u	  /* rows of a group, at most */

/* The numbers are stored: never change them. */
enum fth_table_type {
	FTH_TABLE_BOOL = 1, /* 0 or 1 */
	FTH_TABLE_INT32 = 2,
	FTH_TABLE_INT64 = 3,
	FTH_TABLE_DATE = 4,    /* days since 1970-01-01 */
	FTH_TABLE_DECIMAL = 5, /* value * 10^scale; more than 18 digits are wide */
	FTH_TABLE_DOUBLE = 6,
	FTH_TABLE_CHAR = 7,    /* up to `length` characters; trailing blanks are not stored */
	FTH_TABLE_VARCHAR = 8, /* up to `length` characters; 0: no limit but FTH_TABLE_STRING_MAX */
};

/*
 * How values of a type are stored and handed over:
 *
 *	INT	int64_t: bool, int32, int64, date, and decimal up to 18 digits
 *	DOUBLE	double; pages and statistics hold its key, see fth_table_double_key()
 *	WIDE	struct fth_table_wide: decimal of 19 to 38 digits
 *	STRING	bytes, UTF-8 by convention: char and varchar
 */
enum fth_table_kind {
	FTH_TABLE_KIND_INT,
	FTH_TABLE_KIND_DOUBLE,
	FTH_TABLE_KIND_WIDE,
	FTH_TABLE_KIND_STRING
};

/* A 128-bit integer in two's complement. */
struct fth_table_wide {
	uint64_t low;
	int64_t high;
};

struct fth_table_column {
	char name[FTH_TABLE_NAME_MAX + 1];
	enum fth_table_type type;
	uint8_t precision,
		scale;	 /* decimal: 1 to 38 digits, of which `scale` are after the decimal point */
	uint32_t length; /* char, varchar: characters; 0: no limit */
	bool not_null;
};

#define FTH_TABLE_NO_COLUMN UINT32_MAX

/* Zero-initialise, or fill with fth_table_schema_parse(); end with fth_table_schema_release(). */
struct fth_table_schema {
	uint32_t columns;
	uint32_t
		cluster_by; /* the column whose equal values lie in one group, or FTH_TABLE_NO_COLUMN */
	struct fth_table_column *column;
};

/*
 * Parse the column list of a table, as SQL writes it:
 *
 *	l_orderkey bigint not null, l_quantity decimal(15,2), l_comment varchar(44), ...
 *	cluster by (l_orderkey)
 *
 * Types are bool, boolean, int, int4, int32, integer, bigint, int8, int64, date, decimal(p,s),
 * numeric(p,s), double, double precision, float8, char(n), varchar(n), varchar and text. Without
 * CLUSTER BY the writer looks for a clustering column itself (fathom/table/write.h). Returns 0;
 * -EINVAL with a text that names the column and its fault; -ENOMEM. After an error the schema is
 * empty.
 */
int fth_table_schema_parse(struct fth_table_schema *schema, const char *text);

/* Check names, types and limits. Returns 0 or -EINVAL with a text. */
int fth_table_schema_check(const struct fth_table_schema *schema);

/* Free the columns of a schema, and leave it empty. */
void fth_table_schema_release(struct fth_table_schema *schema);

/* The number of a column by its name, without regard to ASCII case, or FTH_TABLE_NO_COLUMN. */
uint32_t fth_table_schema_find(const struct fth_table_schema *schema, const char *name);

/* How values of a column are stored, by its type and precision. */
enum fth_table_kind fth_table_kind(const struct fth_table_column *column);

/* The type as fth_table_schema_parse() reads it, "decimal(15,2)", into text; returns text. */
#define FTH_TABLE_TYPE_TEXT 32
const char *fth_table_type_text(const struct fth_table_column *column,
				char text[FTH_TABLE_TYPE_TEXT]);

/* ---- values ---- */

/*
 * The key of a double: an integer that orders as the number does. Equal numbers have equal keys:
 * the key of -0 is that of 0. All NaN have one key, the largest.
 */
int64_t fth_table_double_key(double value);
double fth_table_double_of_key(int64_t key);

/*
 * The key of a string: its first 8 bytes as an integer, so that a < b (bytes compared as unsigned)
 * implies key(a) <= key(b). Chunks state the smallest and largest key of their strings.
 */
int64_t fth_table_string_key(const char *bytes, size_t length);

/* Days since 1970-01-01 of a day of the Gregorian calendar, and back. Years 1 to 9999. */
int fth_table_date_days(unsigned year, unsigned month, unsigned day, int32_t *days); /* -EINVAL */
void fth_table_date_split(int32_t days, unsigned *year, unsigned *month, unsigned *day);

FTH_END_DECLS
#endif
