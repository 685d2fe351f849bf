/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading columns of a table at given rows: wide columns of the few rows that are left at the end.
 */
#ifndef FTH_QUERY_FETCH_H
#define FTH_QUERY_FETCH_H

#include <stdatomic.h>

#include "query/task/task.h"

struct fetcher;

/* cancel: as in struct scan_spec. Returns 0 or -ENOMEM. */
int fetcher_open(struct fth_qmem *mem, const struct task_fetch *fetch,
		 const struct task_slot *slots, const atomic_bool *const *cancel,
		 struct fetcher **out);
void fetcher_close(struct fetcher *f); /* accepts NULL */

/*
 * The columns at the rows in `numbers`, of selected rows, into vecs[slot]; valid until the next
 * call. Reads each chunk once. Blocks. Returns 0 or a negative errno.
 */
int fetcher_run(struct fetcher *f, const struct fth_vec *numbers, struct fth_sel *sel,
		struct fth_vec *vecs);

/* Bytes and chunks read so far. */
uint64_t fetcher_bytes(const struct fetcher *f);
uint64_t fetcher_chunks(const struct fetcher *f);

#endif
