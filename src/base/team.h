/* SPDX-License-Identifier: BSD-2-Clause */
/* A few threads that do one job together. */
#ifndef FTH_BASE_TEAM_H
#define FTH_BASE_TEAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The work of one thread, 0 to threads - 1. Returns 0 or a negative errno. */
typedef int (*fth_team_fn)(void *context, unsigned thread);

/*
 * Run fn in so many threads, one of them the caller's, and wait for all. Returns the error of the
 * first thread that has one, with its text. Whether the others notice is fn's business.
 */
int fth_team_run(unsigned threads, fth_team_fn fn, void *context);

/*
 * Thread t's part of [0, total): [*first, *end). The parts cover it without overlap, begin at
 * multiples of `unit`, and differ by no more than that.
 */
void fth_team_part(uint64_t total, uint64_t unit, unsigned threads, unsigned thread,
		   uint64_t *first, uint64_t *end);

#ifdef __cplusplus
}
#endif
#endif
