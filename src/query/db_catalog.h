/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a database as the SQL front end and the planner see them. */
#ifndef FTH_QUERY_DB_CATALOG_H
#define FTH_QUERY_DB_CATALOG_H

#include "fathom/table.h"
#include "query/mem/qmem.h"
#include "query/sql/sql_catalog.h"

struct catalog;

/*
 * A view of the database for one statement: a table is opened when it is first named and does not
 * change until the catalog is freed. What snapshots keep is charged to `mem`. Returns 0 or -ENOMEM.
 */
int catalog_new(struct fth_table_db *db, struct fth_qmem *mem, struct catalog **out);
void catalog_free(struct catalog *c); /* accepts NULL */

/* For sql_compile(). */
const struct sql_catalog *catalog_sql(struct catalog *c);
/* The snapshot of a table that the front end was given. */
struct fth_table *catalog_table(void *catalog, const struct sql_table *table);
/* Whether the statement names this table. */
bool catalog_names(const struct catalog *c, const char *table);
/* The error of a table that could not be opened, or 0. */
int catalog_error(const struct catalog *c);

#endif
