/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Databases: a directory with a folder for each table, or a volume with objects for each table.
 *
 *	struct fth_table_schema schema;
 *	struct fth_table_db *db;
 *
 *	fth_table_db_open("/data/db", FTH_TABLE_DB_CREATE, &db);
 *	fth_table_schema_parse(&schema, "id bigint not null, name varchar(40)");
 *	fth_table_create(db, "people", &schema);
 *	...
 *	fth_table_schema_release(&schema);
 *	fth_table_db_close(db);
 *
 * Guarantees:
 *	- Create, remove and each committed batch of rows are atomic and durable when the call
 *	  returns. After a crash at any moment each of them happened or did not.
 *	- A snapshot (fth_table_open()) does not change, whatever is appended or removed meanwhile
 *	  by this or another process.
 *	- A table has one writer at a time. Readers and writers do not wait for each other.
 *	- What an interrupted writer left behind is removed when the table is next opened for
 *	  writing.
 *
 * Threads: a database can be used by any number of threads.
 */
#ifndef FATHOM_TABLE_DB_H
#define FATHOM_TABLE_DB_H

#include "fathom/base/decls.h"
#include "fathom/table/schema.h"

FTH_BEGIN_DECLS

struct fth_table_db;

#define FTH_TABLE_DB_CREATE   1u /* create the directory if it does not exist */
#define FTH_TABLE_DB_READONLY 2u /* permission to read is enough */

/*
 * Open a database: a path of a directory, or a volume as "vol(URI,URI,...)". Blocks. Returns 0 or a
 * negative errno: -ENOENT, -ENOTDIR, or the error of the volume; *out is NULL then.
 */
int fth_table_db_open(const char *where, unsigned flags, struct fth_table_db **out);

/* Close. All its tables and writers must be closed before. Accepts NULL. */
void fth_table_db_close(struct fth_table_db *db);

/*
 * Create an empty table. A name is a letter or _ and then letters, digits and _; it is kept in
 * lower case, and names are found without regard to case. Blocks. Returns 0; -EEXIST; -EINVAL for
 * an invalid name or schema; an error of the storage.
 */
int fth_table_create(struct fth_table_db *db, const char *name,
		     const struct fth_table_schema *schema);

/* Remove a table. Snapshots that are open stay readable. -ENOENT; -EBUSY while it has a writer. */
int fth_table_remove(struct fth_table_db *db, const char *name);

/*
 * Call visit with the name of each table, in the order of names. Stops when visit returns non-zero,
 * and returns that. visit may use the database.
 */
int fth_table_list(struct fth_table_db *db, int (*visit)(const char *name, void *user), void *user);

FTH_END_DECLS
#endif
