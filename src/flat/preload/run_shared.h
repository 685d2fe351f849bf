/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom flat run` and the program that it started tell each other: a memfd that both map.
 * The launcher writes the settings before the program starts; the program writes the rest. `fathom
 * flat stat` finds it among the descriptors of a process, by its name.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_RUN_SHARED_H
#define FATHOM_SRC_FLAT_PRELOAD_RUN_SHARED_H

#include <stdint.h>

#define RUN_MEMFD    "fathom-flat-run"
#define RUN_VARIABLE "FATHOM_FLAT_RUN" /* path of the memfd, as seen by the program */
#define RUN_LIBRARY  "libfathom_flat_run.so"
#define RUN_MAGIC    0x6e757274616c66u
#define RUN_STATS    64

enum run_state {
	RUN_BEFORE,  /* the program has not started */
	RUN_GOES_ON, /* the region is open */
	RUN_FAILED,  /* it could not be opened: the program was not started */
};

enum run_count {
	RUN_ALLOCATIONS, /* in the region, since the start */
	RUN_BYTES,	 /* in use now */
	RUN_BYTES_MOST,	 /* in use at any time */
	RUN_LEFT,  /* bytes that left the region: protected, locked or mapped over by the program */
	RUN_FULL,  /* allocations that did not fit into the region */
	RUN_CALLS, /* system calls that were caught */
	RUN_HELD,  /* system calls whose buffers were moved to DRAM and held */
	RUN_COUNTS
};

struct run_shared {
	uint64_t magic;
	/* settings */
	uint64_t dram, size, min_alloc;
	uint32_t page, policy;
	int32_t pid; /* of the program */
	char uri[256];
	/* for children of fork(), see flat/fork.h; "": they have no region */
	char fork_memory[64], fork_file[64];
	char program[256];
	/* results */
	uint32_t state; /* enum run_state */
	uint32_t errors_said;
	char failure[256];
	uint64_t counts[RUN_COUNTS];
	uint64_t flat[RUN_STATS]; /* enum fth_flat_stat */
};

#endif
