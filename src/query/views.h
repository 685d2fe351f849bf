/* SPDX-License-Identifier: BSD-2-Clause */
/* The texts of views, for the catalog. */
#ifndef FTH_QUERY_VIEWS_H
#define FTH_QUERY_VIEWS_H

#include "fathom/table.h"
#include "query/mem/qmem.h"

/*
 * Call visit with each view of the database, or with the one of this name. Memory is charged to
 * mem. Returns 0, a negative errno, or what visit returned if that was not 0. A database without
 * views is fine.
 */
int views_visit(struct fth_table_db *db, struct fth_qmem *mem, const char *name,
		int (*visit)(const char *name, const char *text, void *user), void *user);

#endif
