/* SPDX-License-Identifier: BSD-2-Clause */
/* Loading tables from delimited text, CSV and the files of TPC-H for instance, and writing them as such. */
#ifndef FATHOM_TABLE_TEXT_H
#define FATHOM_TABLE_TEXT_H

#include <stdio.h>

#include "fathom/base/decls.h"
#include "fathom/table/read.h"
#include "fathom/table/write.h"

FTH_BEGIN_DECLS

/*
 * How text is laid out. Start from FTH_TABLE_TEXT_CSV or FTH_TABLE_TEXT_BAR.
 *
 * With a quote character, a field that begins with it extends to the next single one; a doubled one inside
 * stands for itself, and delimiters and newlines inside are text. An unquoted field that equals `null` is
 * null. Lines end with LF or CR LF; empty lines are skipped where a table has several columns. A last
 * line needs no newline. A delimiter at the end of a line is allowed.
 */
struct fth_table_text {
	size_t size; /* of this struct */
	char delimiter;
	char quote;    /* 0: none */
	bool header;   /* the first line of each file has names: skipped by load, written by dump */
	bool trailing; /* dump: a delimiter at the end of each line */
	const char *null; /* the text of a null; NULL: nothing is null */
};

#define FTH_TABLE_TEXT_CSV                                                \
	{                                                                 \
		sizeof(struct fth_table_text), ',', '"', false, false, "" \
	}
#define FTH_TABLE_TEXT_BAR                                                \
	{                                                                 \
		sizeof(struct fth_table_text), '|', 0, false, false, NULL \
	}

/*
 * Called by one thread at a time with the bytes read so far, and their total if it is known, else 0. A
 * non-zero result stops the load, which returns -ECANCELED.
 */
typedef int (*fth_table_progress)(uint64_t done, uint64_t total, void *user);

/*
 * Append the rows of files to a writer, in parallel on as many threads as options of the writer say. A path
 * "-" is standard input. Does not commit. progress may be NULL. Uses a few MiB of memory for each thread,
 * and more only for long lines. Blocks. Returns 0 or a negative errno; for bad input -EINVAL with a text
 * that names file, line and column: "orders.tbl:17: o_totalprice: "12.345" has more than 2 digits behind
 * the point".
 */
int fth_table_load(struct fth_table_writer *writer, const char *const *paths, unsigned n,
		   const struct fth_table_text *text, fth_table_progress progress, void *user);

/* Write all rows of a snapshot. Blocks. Returns 0 or a negative errno, -EIO if out has an error. */
int fth_table_dump(struct fth_table *table, const struct fth_table_text *text, FILE *out);

FTH_END_DECLS
#endif
