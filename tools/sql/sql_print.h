/* SPDX-License-Identifier: BSD-2-Clause */
/* Results of SQL on standard output: as a drawn table, CSV or JSON. */
#ifndef FTH_TOOLS_SQL_PRINT_H
#define FTH_TOOLS_SQL_PRINT_H

#include "fathom/query.h"

enum fth_sql_form {
	FTH_SQL_TABLE,
	FTH_SQL_CSV,
	FTH_SQL_JSON, /* one object for each row, on a line of its own */
};

/* Zero-initialise and set the first three; for one result after the other. */
struct fth_sql_printer {
	enum fth_sql_form form;
	bool header;		     /* CSV: a line with the names */
	const char *null;	     /* the text of a null; not in JSON */
	struct fth_sql_cells *cells; /* TABLE: rows whose widths are not known yet */
	uint64_t rows;
};

/* For fth_query_run(), with the printer as user. -EIO when standard output cannot be written. */
int fth_sql_print(const struct fth_query_batch *batch, void *printer);
/*
 * End the result. rc is that of the query: after an error nothing says that the result is complete.
 */
void fth_sql_print_end(struct fth_sql_printer *p, int rc);

#endif
