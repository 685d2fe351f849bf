/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of a benchmark's own: made where the user says, or in TMPDIR or /tmp, and removed. */
#ifndef FTH_BENCH_SCRATCH_H
#define FTH_BENCH_SCRATCH_H

#include "cli.h"

#include "fathom/dev.h"

/* In a table of options: where the file is, and how it is opened. */
#define FTH_SCRATCH_OPTIONS(folder, options)                                                \
	{"dir", FTH_CLI_STRING, folder, 0, 0, "where the file is; default TMPDIR or /tmp"}, \
	{                                                                                   \
		"options", FTH_CLI_STRING, options, 0, 0, "of the device, as in its URI"    \
	}

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

/*
 * The same for a file that has a name: one that exists is used as it is, and stays. The caller has
 * asked fth_scratch_refused() before.
 */
int fth_scratch_use(struct fth_scratch *scratch, const char *path, uint64_t size,
		    const char *options);

/* Does this file exist, without --force? Then says so. */
bool fth_scratch_refused(const char *path, bool force);

/* `folder`, or where files that nobody keeps are made. */
const char *fth_scratch_folder(const char *folder);

/* Open and close only the device: for who hands the file to a child. */
int fth_scratch_reopen(struct fth_scratch *scratch);
void fth_scratch_shut(struct fth_scratch *scratch);

/* Is a file or folder in memory (tmpfs)? Then its pages are nobody's page cache. */
bool fth_scratch_in_memory(const char *path);

/* Close it and remove the file. Accepts a zeroed one. */
void fth_scratch_remove(struct fth_scratch *scratch);

#endif
