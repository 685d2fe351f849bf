/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Appending rows.
 *
 *	struct fth_table_vector columns[2] = {{.values = ids},
 *					      {.offsets = offsets, .bytes = names}};
 *	struct fth_table_writer *writer;
 *
 *	fth_table_writer_open(db, "people", NULL, &writer);
 *	rc = fth_table_writer_append(writer, columns, rows);
 *	if (rc == 0)
 *		rc = fth_table_writer_commit(writer);
 *	fth_table_writer_close(writer);
 *
 * All rows of a writer become visible together with the commit, or never. Groups are encoded and
 * written by threads of the writer while rows are appended.
 *
 * Groups are cut so that equal adjacent values of the clustering column are in one group, as far as
 * a group has room. This column is the one the schema names; else the first column without nulls
 * that is ascending over the first rows, with some values equal.
 */
#ifndef FATHOM_TABLE_WRITE_H
#define FATHOM_TABLE_WRITE_H

#include "fathom/base/decls.h"
#include "fathom/table/db.h"

FTH_BEGIN_DECLS

struct fth_table_writer;

/* Start from FTH_TABLE_WRITE_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_table_write_options {
	size_t size;	      /* of this struct */
	unsigned threads;     /* that encode; default the number of processors */
	unsigned group_rows;  /* rows of a group at most; default FTH_TABLE_GROUP_ROWS */
	unsigned compression; /* of text: 1 fast, 2 to 12 LZ4 HC; default 2 */
	bool plain;	      /* do not compress text */
	/*
	 * bytes for each column to prove uniqueness, no more than a sixteenth of the memory
	 * together; columns share what others do not need; default 64 MiB
	 */
	uint64_t fact_memory;
	/*
	 * bytes for rows on their way, proofs and text that is loaded; with little, threads are
	 * fewer, groups smaller and text is compressed fast; the directory of chunks, about 50
	 * bytes for each column of a group, and single rows of long text are beyond it; default 256
	 * MiB for each thread
	 */
	uint64_t memory;
};

#define FTH_TABLE_WRITE_OPTIONS_INIT                                         \
	{                                                                    \
		sizeof(struct fth_table_write_options), 0, 0, 0, false, 0, 0 \
	}

/*
 * The values of one column of a batch, by its kind: values points to int64_t, double or struct
 * fth_table_wide; strings use offsets, of rows + 1 numbers, into bytes. nulls has a byte for each
 * row, non-zero for null; NULL: no nulls. The value of a null row is ignored.
 */
struct fth_table_vector {
	const void *values;
	const uint32_t *offsets;
	const char *bytes;
	const uint8_t *nulls;
};

/*
 * Open a table for appending, and remove what an interrupted writer left behind. Blocks. Returns 0
 * or a negative errno: -ENOENT; -EBUSY if it has a writer, in this or another process; -EROFS;
 * -ENOMEM, with a text that names the least, if options.memory is too little for the table's
 * columns.
 */
int fth_table_writer_open(struct fth_table_db *db, const char *name,
			  const struct fth_table_write_options *options,
			  struct fth_table_writer **out);

/* The schema of the table. Valid until the writer is closed. */
const struct fth_table_schema *fth_table_writer_schema(const struct fth_table_writer *writer);

/*
 * Append rows: columns has one vector for each column of the schema. The values are copied. One
 * thread at a time. Blocks while too many groups wait to be written. Returns 0 or a negative errno:
 * -EINVAL for a value outside its type (the text names row and column; row is counted from the
 * first append), or an error of the storage. After an error all further calls but close return it.
 */
int fth_table_writer_append(struct fth_table_writer *writer, const struct fth_table_vector *columns,
			    uint32_t rows);

/*
 * Make all appended rows durable and visible. Only close may follow. Blocks. Returns 0 or a
 * negative errno: nothing was appended then, with one exception: -EUCLEAN if the new state is in
 * place but the storage did not confirm that it is durable.
 */
int fth_table_writer_commit(struct fth_table_writer *writer);

/* Rows appended so far. */
uint64_t fth_table_writer_rows(const struct fth_table_writer *writer);

/* Close. Discards rows that were not committed. Accepts NULL. */
void fth_table_writer_close(struct fth_table_writer *writer);

FTH_END_DECLS
#endif
