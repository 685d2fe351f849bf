/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of clustered keys: rows with equal keys follow one another, so a group ends where the key changes, and
 * no table is needed. Rows of a batch get the number of their run, 0, 1, 2, ...; the first run may continue
 * the last one of the batch before.
 */
#ifndef FTH_QUERY_RUNS_H
#define FTH_QUERY_RUNS_H

#include "query/vec/vec.h"

/* Zero-initialise. */
struct fth_runs {
	bool open;    /* there was a row */
	int64_t last; /* its key */
};

/*
 * Number the runs of selected rows; rows that are not selected do not part a run. keys[r] is the key of run r
 * (room for n). Returns the number of runs; *continues: run 0 is the last run of the batch before.
 */
unsigned fth_runs_next(struct fth_runs *r, const int64_t *keys, unsigned n, const uint64_t *rows,
		       uint32_t *runs, int64_t *run_keys, bool *continues);

#endif
