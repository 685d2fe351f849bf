/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random I/O that checks itself: threads write and read blocks of a device, each block carries
 * its own address and generation, and every block that is read must hold what was last written
 * there.
 */
#ifndef FTH_TOOLS_WORKLOAD_H
#define FTH_TOOLS_WORKLOAD_H

#include "fathom/dev.h"

struct fth_workload {
	struct fth_dev *dev;
	uint64_t seed;
	uint32_t block;	  /* bytes; whole device blocks and at least 16 */
	uint64_t blocks;  /* how many of them are used, from the start of the device */
	uint32_t run_max; /* a request covers 1 to so many blocks, at random; 0 means 1 */
	unsigned threads;
	unsigned depth; /* requests in flight per thread; threads * depth * run_max < blocks */
	uint64_t ops;	/* per thread */
	double write_share;
	bool quiet;	/* no progress: other threads run workloads as well */
	uint64_t round; /* another one picks other blocks; what they hold depends on seed alone */
	/*
	 * What each block holds; blocks elements, zeroed before the first run. Kept between runs,
	 * so that a later one, or fth_workload_verify(), knows what to expect.
	 */
	uint32_t *generations;
};

struct fth_workload_result {
	uint64_t reads, writes; /* that succeeded */
	uint64_t errors;	/* requests that failed; a failed write leaves its blocks unknown */
	uint64_t checked;	/* blocks compared with what they should hold */
	uint64_t wrong;		/* of these, how many held something else */
	uint64_t elapsed_ns;
};

/*
 * Run it, with progress, until done or fth_cli_stopped(). 0 or a negative errno when it could not
 * run at all; failed requests and wrong blocks are in the result.
 */
int fth_workload_run(const struct fth_workload *workload, struct fth_workload_result *result);

/*
 * Expect nothing of the blocks whose generation differs from the copy `since`: what was written to
 * them after the copy was made may or may not be there.
 */
void fth_workload_doubt(const struct fth_workload *workload, const uint32_t *since);

/* Read every block that was written and compare. Adds to checked, wrong and errors. */
int fth_workload_verify(const struct fth_workload *workload, struct fth_workload_result *result);

#endif
