/* SPDX-License-Identifier: BSD-2-Clause */
/* COPY TO STDOUT and COPY FROM STDIN. */
#ifndef PG_COPY_H
#define PG_COPY_H

#include "pg/session.h"

enum pg_copy_format { PG_COPY_TEXT, PG_COPY_CSV, PG_COPY_BINARY };

/* How rows are written, by the options of COPY. */
struct pg_copy_out {
	enum pg_copy_format format;
	char delimiter, quote;
	bool header;
	char null[32];
};

/* Rows of a batch as CopyData; the empty one begins the copy. */
int pg_copy_batch(const struct fth_query_batch *batch, struct pg_rows *rows);

/*
 * COPY FROM STDIN: rows of the client go to the engine's COPY, all of them or none. columns: names,
 * separated by commas; "" for all. 0; or -1 after an error was sent.
 */
int pg_copy_in(struct pg_session *s, const char *table, const char *columns,
	       const struct pg_copy_out *how);

#endif
