/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The load of `fathom bench dev`: one thread, one channel, 4 KiB requests at a fixed depth, data
 * that is checked.
 */
#ifndef FTH_BENCH_DEV_LOAD_H
#define FTH_BENCH_DEV_LOAD_H

#include "fathom/base/rng.h"
#include "fathom/dev.h"

/* Every SAMPLEth block that is read is checked whole, the others at both ends. */
#define FTH_DEV_LOAD_SAMPLE 64

struct fth_dev_load {
	struct fth_dev *dev;
	uint64_t blocks;       /* used, from the start of the device; more than the depth */
	uint32_t *generations; /* what each block holds; kept from run to run */
	struct fth_rng rng;
};

struct fth_dev_load_kind {
	bool write;
	unsigned depth; /* requests in flight */
	unsigned batch; /* at most so many are reaped and submitted at once, 1 to depth */
};

struct fth_dev_load_result {
	uint64_t done; /* requests */
	uint64_t ns;
	uint64_t errors; /* requests that failed */
	uint64_t wrong;	 /* blocks that held something else than they should */
};

/*
 * Each of these returns 0 or a negative errno when it could not run; failed requests and wrong
 * blocks are in the result. All stop early when fth_cli_stopped().
 */

/* Write every block, generation 1. */
int fth_dev_load_fill(struct fth_dev_load *load, struct fth_dev_load_result *result);

/* Read or write random blocks for so long. Writing gives each its next generation. */
int fth_dev_load_run(struct fth_dev_load *load, const struct fth_dev_load_kind *kind, uint64_t ns,
		     struct fth_dev_load_result *result);

/* Read every block and check all of it. */
int fth_dev_load_verify(struct fth_dev_load *load, struct fth_dev_load_result *result);

#endif
