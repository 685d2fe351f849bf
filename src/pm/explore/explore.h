/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The crash explorer: runs a program on traced memory, makes the states that crashes could leave,
 * recovers each and checks it; and does the same with the recovery.
 *
 * A subject has
 *
 *	setup	what was there before: its stores are persistent. May be NULL
 *	run	the program. It calls explore_note() with what it has acknowledged
 *	recover	what a program does after a crash, up to where it would go on. An error is a
 *		violation
 *	check	whether the promises hold then, for the last note before the crash: NULL, or the
 *		violation in words
 *
 * All get the same memory of `bytes` bytes, header and all, which pm_map_memory() maps. A crash in
 * a recovery is explored too: for every nth state its recovery is traced, and the states of each of
 * its moments are recovered and checked. FTH_LONG_TESTS multiplies the limits by long_factor; there
 * are then so many times as many recoveries, each with so many times as many states, unless
 * long_recovery_factor is less. FTH_SEED, a number, chooses other states where there are more than
 * the limit.
 */
#ifndef FATHOM_SRC_PM_EXPLORE_EXPLORE_H
#define FATHOM_SRC_PM_EXPLORE_EXPLORE_H

#include <stddef.h>
#include <stdint.h>

struct explore {
	const char *name;
	uint64_t bytes;
	void (*setup)(void *memory);
	void (*run)(void *memory);
	int (*recover)(void *memory);
	const char *(*check)(void *memory, uint64_t note);
	uint64_t states;	  /* most of each moment */
	uint64_t recovery_states; /* most of each moment of a recovery */
	unsigned recovery_every;  /* crash in the recovery of every nth state; 0: never */
	unsigned long_factor;
	unsigned long_recovery_factor; /* of recovery_states; 0: long_factor */
};

/* In run: what was acknowledged so far. */
void explore_note(uint64_t value);

/*
 * Explore. Prints the counts. At a violation it prints that and ends the process with 1. Returns
 * the number of states.
 */
uint64_t explore(const struct explore *subject);

/* The same, but a violation is left in `text`, which is empty without one. */
uint64_t explore_try(const struct explore *subject, char *text, size_t size);

#endif
