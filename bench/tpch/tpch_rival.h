/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine that `fathom bench tpch` compares with: a script that drives it, a process for each call.
 *
 *	SCRIPT version						a line: name and version
 *	SCRIPT load DATABASE THREADS MEMORY SCHEMA FOLDER	make DATABASE from FOLDER/TABLE.tbl
 *	SCRIPT run DATABASE THREADS MEMORY RUNS QUERY ANSWER	run a query; the rows go to the file ANSWER
 *
 * Both print a line for each run: processor seconds, seconds, bytes read, bytes written, most resident bytes. MEMORY is the limit
 * in bytes that the engine is told to keep; 0 is its default. Exit status 77: the engine is not installed.
 */
#ifndef FTH_BENCH_TPCH_RIVAL_H
#define FTH_BENCH_TPCH_RIVAL_H

#include "tpch_process.h"

#include <limits.h>

struct tpch_rival {
	const char *name; /* "duckdb" */
	const char *interpreter;
	char script[PATH_MAX];
	char version[64];
	uint64_t threads, memory;
};

#define TPCH_RUNS 2 /* of a query in one process: the first one, and a warm one */

/* Find the script and the engine. 0, -EINVAL for an unknown name, -ENOENT or -ENOTSUP with a text if it is not installed. */
int tpch_rival_find(struct tpch_rival *rival, const char *name);

int tpch_rival_load(const struct tpch_rival *rival, const char *database, const char *schema,
		    const char *folder, struct tpch_figures *took);

/* query: path of its text. answer: path of the file for the rows. */
int tpch_rival_run(const struct tpch_rival *rival, const char *database, const char *query,
		   const char *answer, struct tpch_figures took[TPCH_RUNS]);

#endif
