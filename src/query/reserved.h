/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of tables that are not the user's. Part of every build with tables, with SQL or without. */
#ifndef FTH_QUERY_RESERVED_H
#define FTH_QUERY_RESERVED_H

/*
 * -EINVAL for the name of a table of the engine itself, which statements and commands do not
 * change.
 */
int name_reserved(const char *name);

#endif
