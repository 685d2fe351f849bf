/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands of `fathom sql` about tables share. */
#ifndef FTH_TOOLS_TABLE_SOURCE_H
#define FTH_TOOLS_TABLE_SOURCE_H

#include "fathom/table.h"

#define FTH_TABLE_DB_SYNTAX "\nDB is a directory, or a volume: 'vol(URI,...)'.\n"

/* How text is laid out, by options. */
struct fth_table_layout {
	bool csv;
	bool header, skip_header;
	bool trailing;
	const char *delimiter;
	const char *null;
};

#define FTH_TABLE_LAYOUT_OPTIONS(layout)                                              \
	{"csv",                                                                       \
	 FTH_CLI_FLAG,                                                                \
	 &(layout).csv,                                                               \
	 0,                                                                           \
	 0,                                                                           \
	 "CSV: fields may be quoted, and empty ones are null; else | and neither"},   \
		{"delimiter",                                                         \
		 FTH_CLI_STRING,                                                      \
		 &(layout).delimiter,                                                 \
		 0,                                                                   \
		 0,                                                                   \
		 "one character between fields, or \\t"},                             \
		{"null", FTH_CLI_STRING, &(layout).null, 0, 0, "the text of a null"}, \
	{                                                                             \
		"header", FTH_CLI_FLAG, &(layout).header, 0, 0,                       \
			"the first line has the names of columns"                     \
	}

/* False after a complaint. */
bool fth_table_layout_text(const struct fth_table_layout *layout, struct fth_table_text *text);

/* Complain about a database or table; returns the exit status. */
int fth_table_complain(const char *what, int rc);

/* Open a database and a snapshot of one of its tables. FTH_CLI_GO_ON, or the exit status. */
int fth_table_source_open(const char *db_name, const char *name, struct fth_table_db **db,
			  struct fth_table **table);

#endif
