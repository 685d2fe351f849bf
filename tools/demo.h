/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of `fathom demo` share. */
#ifndef FTH_TOOLS_DEMO_H
#define FTH_TOOLS_DEMO_H

#include "json.h"

#include "fathom/dev.h"

/* A file of so many bytes that is gone when it is closed, however the program ends. */
int demo_open_temporary(uint64_t bytes, struct fth_dev **out);

/*
 * A graph four times its cache: built, searched, ranked, and both answers checked. Prints a table,
 * or goes into `j`. 0 or a negative errno; 1 when an answer was wrong.
 */
int demo_graph(struct fth_json *j, unsigned scale, unsigned threads, uint64_t seed);

/*
 * A cache server with four times as many items as its memory holds: filled, read, killed and started again.
 * As above; 1 when a value was wrong, -ENOENT when one is gone.
 */
int demo_kv(struct fth_json *j, uint64_t seed);

/*
 * Random accesses by plain pointers to a file four times the memory, with mmap and with a region. As above; 1 when a
 * value was wrong.
 */
int demo_flat(struct fth_json *j, uint64_t seed);

/*
 * TPC-H at a small scale inside 16 MiB, and the plan of one query. As above; 1 when an answer was wrong or more
 * memory was used. In builds with SQL only.
 */
int demo_sql(struct fth_json *j);

/*
 * A program in persistent memory that is killed again and again, and finishes. As above; 1 when its answer was wrong.
 */
int demo_pm(struct fth_json *j);

#endif
