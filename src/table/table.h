/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot of a table, as the files of this module see it. */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include "table/place/manifest.h"

#include "fathom/table/read.h"

#include <stddef.h>
#include <stdint.h>

struct fth_table {
	struct fth_table_memory memory;
	struct manifest manifest;
	struct fth_dev **dev; /* of each file */
	char name[FTH_TABLE_NAME_MAX + 1];
	size_t used; /* bytes of memory */
};

#endif
