/* SPDX-License-Identifier: BSD-2-Clause */
/* The empty database of a session that names none: a directory that is removed at the end. */
#ifndef FTH_TOOLS_SQL_TEMPORARY_H
#define FTH_TOOLS_SQL_TEMPORARY_H

struct fth_sql_temporary {
	char *folder;
	int lock; /* descriptor of the folder, which is locked as long as its process lives */
};

/*
 * Create it in $TMPDIR or /tmp. Removes those that processes left that were killed. Returns 0 or -1
 * after a message.
 */
int fth_sql_temporary_open(struct fth_sql_temporary *t);
void fth_sql_temporary_close(struct fth_sql_temporary *t);

#endif
