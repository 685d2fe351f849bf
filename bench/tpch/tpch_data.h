/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of `fathom bench tpch`, in a folder for each scale factor:
 *
 *	text/TABLE.tbl	as `fathom tpch gen` makes them; both engines load these files
 *	schema.sql	the statements that create the tables
 *	ours		the tables of Fathom
 *	duckdb		the file of DuckDB, or another rival's folder
 *	*-shuffled	the same of text with rows of orders and lineitem in random order
 *	*-shuffled-lineitem	of lineitem alone
 *	NAME.load	what loading ours or a rival's tables took: processor seconds, seconds
 *
 * Tables have another name until they are complete, so that a benchmark that was interrupted makes them again.
 */
#ifndef FTH_BENCH_TPCH_DATA_H
#define FTH_BENCH_TPCH_DATA_H

#include "tpch_process.h"
#include "tpch_rival.h"

#include <limits.h>
#include <stdbool.h>

/* Tables whose rows are put into random order. */
enum tpch_order { TPCH_GENERATED, TPCH_SHUFFLED_LINEITEM, TPCH_SHUFFLED_BOTH };

/* Set the first part, zero the rest. */
struct tpch_data {
	double scale;
	const char *folder; /* that is kept; NULL: a temporary one */
	const char *fathom; /* program */
	enum tpch_order order;
	uint64_t threads;
	const struct tpch_rival *rival; /* NULL: none */

	bool temporary;
	char root[PATH_MAX];
	struct {
		char path[PATH_MAX];
		uint64_t bytes;
		double load_cpu, load_wall; /* 0: not known */
	} ours, peer;
};

/* Make what is missing. Blocks. Returns 0 or a negative errno with a text. */
int tpch_data_open(struct tpch_data *data);

/* Drop the tables of both engines from the page cache, so that the next query reads them from storage. */
void tpch_data_drop(const struct tpch_data *data);

/* Remove a temporary folder. Accepts one that failed to open. */
void tpch_data_close(struct tpch_data *data);

#endif
