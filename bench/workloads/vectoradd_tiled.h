/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of `fathom bench vectoradd`: what one writes by hand, without a cache. Tiles of a and b
 * are read, added and written with as many of them under way as the memory allows, so that reads,
 * additions and writes overlap throughout.
 */
#ifndef FTH_BENCH_VECTORADD_TILED_H
#define FTH_BENCH_VECTORADD_TILED_H

#include "fathom/dev.h"

struct fth_tiled {
	struct fth_dev *dev;
	uint64_t a, b, c; /* offsets on the device */
	uint64_t bytes;	  /* of each; a multiple of the device's block */
	char *buffer;	  /* of the device (fth_dev_buf_alloc), for all threads */
	uint64_t memory;  /* its size; at least four tiles a thread */
	uint64_t tile;	  /* bytes; a multiple of 4096 */
	unsigned threads;
	bool (*stopped)(void);
};

/* Add, then flush. 0 or a negative errno. */
int fth_tiled_run(const struct fth_tiled *tiled);

#endif
