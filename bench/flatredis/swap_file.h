/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that the kernel swaps to, for the time of a measurement. Needs root. */
#ifndef FTH_BENCH_SWAP_FILE_H
#define FTH_BENCH_SWAP_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Zero-initialise. */
struct fth_swap_file {
	char path[4096];
	bool made, on;
	char cluster[32]; /* pages that the kernel reads at once, as it was; empty: not changed */
};

/*
 * Make one of so many bytes in `folder` and have the kernel use it. `single`: pages are read one by one, as random accesses want
 * it; otherwise as the machine is set up (vm.page-cluster). Returns 0, or -ENOTSUP with a reason.
 */
int fth_swap_file_on(struct fth_swap_file *swap, const char *folder, uint64_t size, bool single);

/* Everything as it was. Accepts a zeroed one. */
void fth_swap_file_off(struct fth_swap_file *swap);

#endif
