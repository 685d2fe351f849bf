/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The column store: tables of typed columns in a database, which is a directory or a volume.
 *
 *	fathom/table/schema.h	types, columns and schemas
 *	fathom/table/db.h	databases: create, list and remove tables
 *	fathom/table/read.h	snapshots of tables, their metadata, and decoding of their pages
 *	fathom/table/write.h	appending rows as column vectors
 *	fathom/table/text.h	loading and dumping CSV and other delimited text
 *	fathom/table/check.h	verifying everything that a table stores and states
 *
 * A table is a sequence of rows in the order in which they were appended. It is cut into groups of
 * at most FTH_TABLE_GROUP_ROWS rows. Each column of a group is one chunk: a run of bytes on a
 * device that is read, verified and decoded by itself.
 */
#ifndef FATHOM_TABLE_H
#define FATHOM_TABLE_H

#include "fathom/table/check.h"
#include "fathom/table/db.h"
#include "fathom/table/read.h"
#include "fathom/table/schema.h"
#include "fathom/table/text.h"
#include "fathom/table/write.h"

#endif
