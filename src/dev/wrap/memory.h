/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is not malloc()'s, for devices that need some for each request: a request may be made
 * in a signal handler, while the thread that was interrupted holds the locks of malloc(). Sizes are
 * rounded up to powers of two. Small blocks that were given back are kept for the next ones. Not
 * thread-safe.
 */
#ifndef FTH_DEV_MEMORY_H
#define FTH_DEV_MEMORY_H

#include <stddef.h>

#define FTH_DEV_MEMORY_CLASSES 16

struct fth_dev_memory {
	void *free[FTH_DEV_MEMORY_CLASSES]; /* lists of blocks, by size */
	void *chunks;			    /* a list of all memory of small blocks */
	size_t used;			    /* bytes of the first chunk */
};

/* Not zeroed; aligned to its size, or to 4096 if it is larger. Returns NULL if out of memory. */
void *fth_dev_memory_take(struct fth_dev_memory *memory, size_t bytes);
/* `bytes` is what was asked for. Accepts NULL. */
void fth_dev_memory_give(struct fth_dev_memory *memory, void *block, size_t bytes);
/* Free everything. Blocks above 64 KiB must have been given back before. */
void fth_dev_memory_release(struct fth_dev_memory *memory);

#endif
