/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `fathom bench cache`: each measures ours and its peer, round by round. */
#ifndef FTH_BENCH_CACHE_PARTS_H
#define FTH_BENCH_CACHE_PARTS_H

#include "common/rounds.h"

#include "fathom/array.h"

/* What each part returns: 0, -EINTR when stopped, -EILSEQ with a text for wrong data, or another
 * negative errno. */

/* ---- cache_hot.c: everything is in the cache ---- */

struct fth_bench_hot {
	uint64_t size; /* bytes, of the array and of the plain copy */
	uint64_t line; /* of the cache */
	uint64_t gets; /* random ones in a round */
	uint64_t rounds;
	struct fth_rounds cursor;  /* GB/s, sequential sum, line by line */
	struct fth_rounds element; /* the same element by element */
	struct fth_rounds gather;  /* million elements gathered a second, a thousand at a time */
	struct fth_rounds random;  /* million 8-byte gets a second */
	uint64_t hits, misses;	   /* of the timed gets */
};

int fth_bench_cache_hot(struct fth_bench_hot *hot);

/* ---- cache_miss.c: nothing is ---- */

struct fth_bench_miss {
	const char *uri; /* device; its data is destroyed */
	uint64_t memory; /* of the cache */
	uint64_t depth;
	uint64_t batch; /* elements gathered by one call */
	uint64_t rounds;
	double seconds;		 /* of one run */
	struct fth_rounds lines; /* 4 KiB blocks brought in a second */
	uint64_t size;		 /* of the device, as found */
	uint64_t checked;	 /* elements and blocks that held what they should */
	uint64_t hits, misses, requests, evictions; /* of our runs */
};

int fth_bench_cache_miss(struct fth_bench_miss *miss);

#endif
