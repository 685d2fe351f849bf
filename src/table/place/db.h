/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TABLE_DB_H
#define TABLE_DB_H

#include "table/place/place.h"

#include "fathom/table/db.h"

struct fth_table_db {
	struct place *place;
};

/* A table's name as it is stored, in lower case. 0, or -EINVAL. */
int db_name(const char *name, char out[FTH_TABLE_NAME_MAX + 1]);

#endif
