/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of a benchmark's own: made where the user says, or in TMPDIR or /tmp, and removed. */
#ifndef FTH_BENCH_SCRATCH_H
#define FTH_BENCH_SCRATCH_H

#include "fathom/dev.h"

struct fth_scratch {
	char path[4096];
	char uri[8192]; /* to open it once more */
	bool made;
	struct fth_dev *dev;
};

/*
 * Make a file of so many bytes and open it. folder may be NULL; `options` too: those of the file:
 * device, as in its URI. Every block of it is allocated, so that nobody writes into holes.
 */
int fth_scratch_open(struct fth_scratch *scratch, const char *folder, const char *name,
		     uint64_t size, const char *options);

/* Open and close only the device: for who hands the file to a child. */
int fth_scratch_reopen(struct fth_scratch *scratch);
void fth_scratch_shut(struct fth_scratch *scratch);

/* Is it in memory (tmpfs)? Then its pages are nobody's page cache. */
bool fth_scratch_in_memory(const struct fth_scratch *scratch);

/* Close it and remove the file. Accepts a zeroed one. */
void fth_scratch_remove(struct fth_scratch *scratch);

#endif
