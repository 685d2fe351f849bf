/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of TPC-H straight into a database, without text in between. */
#ifndef FTH_BENCH_TPCH_TABLES_H
#define FTH_BENCH_TPCH_TABLES_H

#include "workloads/tpch/tpch.h"

#define FTH_TPCH_TYPE_TEXT 32

/* The type of a column in SQL: "decimal(15, 2)". Returns text. */
const char *fth_tpch_type_text(const struct fth_tpch_column *column, char text[FTH_TPCH_TYPE_TEXT]);

/*
 * Make a new table in the database at `db`, which is made if it is a directory that does not exist.
 * The calling thread makes the rows, `threads` others encode them. The table has all rows or does
 * not exist. progress: as that of fth_tpch_write(). Returns 0 or a negative errno: -EEXIST if the
 * table exists, -EOPNOTSUPP if this program was built without tables.
 */
int fth_tpch_make_in_db(const struct fth_tpch *tpch, enum fth_tpch_table table, const char *db,
			unsigned threads,
			int (*progress)(void *context, uint64_t units, uint64_t total),
			void *context, struct fth_tpch_totals *totals);

#endif
