/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loading tables from delimited text, CSV and the files of TPC-H for instance, and writing them as
 * such.
 */
#ifndef FATHOM_TABLE_TEXT_H
#define FATHOM_TABLE_TEXT_H

#include <stdio.h>

#include "fathom/base/decls.h"
#include "fathom/table/read.h"
#include "fathom/table/write.h"

FTH_BEGIN_DECLS

/* The first line of each file. */
enum fth_table_header {
	FTH_TABLE_HEADER_NONE, /* is a row; columns are in the order of the table */
	/*
	 * Names the columns of the file, in any order and in any case. Columns of the table that it
	 * does not name become null. A name that the table does not have, a name that appears
	 * twice, and a NOT NULL column that is not named are errors. dump writes such a line.
	 */
	FTH_TABLE_HEADER_NAMES,
	FTH_TABLE_HEADER_SKIP, /* load: is ignored; columns are in the order of the table */
};

/*
 * How text is laid out. Start from FTH_TABLE_TEXT_CSV or FTH_TABLE_TEXT_BAR.
 *
 * With a quote character, a field that begins with it extends to the next single one; a doubled one
 * inside stands for itself, and delimiters and newlines inside are text. An unquoted field that
 * equals `null` is null. Lines end with LF or CR LF; empty lines are skipped where lines have
 * several fields. A last line needs no newline. A delimiter at the end of a line is allowed.
 * Strings are UTF-8 without zero bytes, and a byte order mark at the start of a file is skipped.
 */
struct fth_table_text {
	size_t size; /* of this struct */
	char delimiter;
	char quote; /* 0: none */
	enum fth_table_header header;
	bool trailing;	  /* dump: a delimiter at the end of each line */
	const char *null; /* the text of a null; NULL: nothing is null */
};

#define FTH_TABLE_TEXT_CSV                                                                \
	{                                                                                 \
		sizeof(struct fth_table_text), ',', '"', FTH_TABLE_HEADER_NONE, false, "" \
	}
#define FTH_TABLE_TEXT_BAR                                                                \
	{                                                                                 \
		sizeof(struct fth_table_text), '|', 0, FTH_TABLE_HEADER_NONE, false, NULL \
	}

/*
 * Called by one thread at a time with the bytes of the files that were loaded so far, and their
 * total if it is known, else 0; also now and then while the load waits for a pipe. A non-zero
 * result stops the load, which returns -ECANCELED.
 */
typedef int (*fth_table_progress)(uint64_t done, uint64_t total, void *user);

/*
 * Append the rows of files to a writer, in parallel on as many threads as options of the writer
 * say. A path "-" is standard input. Files that gzip or zstd compressed are recognised by their
 * contents and unpacked. Does not commit. progress may be NULL. Keeps to the memory of the writer's
 * options, except for lines of more than a few KiB and for the window of zstd. Blocks. Returns 0 or
 * a negative errno; for bad input -EINVAL with a text that names file, line and column:
 * "orders.tbl:17: o_totalprice: "12.345" has more than 2 digits behind the point"; -EILSEQ if
 * compressed data is damaged or its end is missing.
 */
int fth_table_load(struct fth_table_writer *writer, const char *const *paths, unsigned n,
		   const struct fth_table_text *text, fth_table_progress progress, void *user);

/* Write all rows of a snapshot. Blocks. Returns 0 or a negative errno, -EIO if out has an error. */
int fth_table_dump(struct fth_table *table, const struct fth_table_text *text, FILE *out);

FTH_END_DECLS
#endif
