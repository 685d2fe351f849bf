/* SPDX-License-Identifier: BSD-2-Clause */
/* The spill file of a query, opened when the first operator needs it. */
#ifndef FTH_QUERY_SCRATCH_H
#define FTH_QUERY_SCRATCH_H

#include <pthread.h>

#include "query/spill/spill_file.h"

struct scratch {
	struct fth_qmem *mem;
	const char *folder;	      /* NULL: TMPDIR, or /tmp */
	uint64_t limit;		      /* of its bytes; 0: as many as are free there */
	struct fth_dev *dev;	      /* instead of a folder, all of it; or NULL */
	const atomic_bool *cancel[2]; /* end reads and writes when true; either may be NULL */
	pthread_mutex_t lock;
	struct spill_file *spill;
};

void scratch_init(struct scratch *s, struct fth_qmem *mem, const char *folder, uint64_t limit);
/* All streams must be dropped before. */
void scratch_release(struct scratch *s);
/* The file. Thread-safe. Returns 0 or the error of opening it, with a text. */
int scratch_get(struct scratch *s, struct spill_file **out);
/* Bytes ever written. */
uint64_t scratch_written(struct scratch *s);

/*
 * The directory for temporary files, a copy: the one that was asked for, else that of a database if
 * it can be written, else NULL, which stands for $TMPDIR or /tmp. Both arguments may be NULL.
 * Returns 0, -ENOMEM, or -ENOTDIR with a text.
 */
int scratch_choose(const char *asked, const char *database, char **out);

#endif
