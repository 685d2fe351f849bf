/* SPDX-License-Identifier: BSD-2-Clause */
/* Verifying a table: every page, its statistics, and every recorded property of its columns. */
#ifndef FATHOM_TABLE_CHECK_H
#define FATHOM_TABLE_CHECK_H

#include "fathom/base/decls.h"
#include "fathom/table/read.h"

FTH_BEGIN_DECLS

/*
 * Read and decode every chunk; compare checksums, min, max, nulls and all facts with the values.
 * Calls report with a text for each finding, and progress after each chunk; both may be NULL, and
 * stop the check by returning non-zero. Blocks. Returns the number of findings or a negative errno,
 * -ECANCELED if stopped.
 */
int fth_table_check(struct fth_table *table, int (*report)(const char *text, void *user),
		    int (*progress)(uint64_t done, uint64_t total, void *user), void *user);

FTH_END_DECLS
#endif
