/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of COPY FROM STDIN, as text, CSV or binary, turned into CSV for the engine. */
#ifndef PG_COPY_ROWS_H
#define PG_COPY_ROWS_H

#include "pg/copy.h"

struct pg_copy_rows {
	const struct pg_copy_out *how;
	const struct pg_column *columns;
	unsigned column_count;
	int (*feed)(void *user, const char *bytes, size_t n);
	void *user;
	/* bytes of the client that are no whole row yet */
	char *in;
	size_t in_length, in_room;
	struct pg_wire out; /* CSV on its way to feed */
	uint64_t row;
	bool started; /* the header of the client was skipped, or the signature read */
	bool quoted;  /* CSV: the end of the input so far is inside of quotes */
	bool ended;   /* \. or the trailer came */
	char error[256];
};

void pg_copy_rows_init(struct pg_copy_rows *r, const struct pg_copy_out *how,
		       const struct pg_column *columns, unsigned count,
		       int (*feed)(void *user, const char *bytes, size_t n), void *user);
void pg_copy_rows_release(struct pg_copy_rows *r);
/* The names of the columns. 0 or a negative errno. */
int pg_copy_rows_begin(struct pg_copy_rows *r);
/* Bytes of the client. 0; -EINVAL: they are no rows, see error; -ENOMEM; or the error of feed. */
int pg_copy_rows_add(struct pg_copy_rows *r, const char *bytes, size_t n);
int pg_copy_rows_end(struct pg_copy_rows *r);

#endif
