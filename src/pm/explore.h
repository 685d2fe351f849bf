/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The crash explorer: runs a program on traced memory, makes the states that crashes could leave, recovers each and checks
 * it; and does the same with the recovery.
 *
 * A subject has
 *
 *	run	the program: memory of `bytes` bytes, header and all, that setup has left; calls explore_note() for what it has acknowledged
 *	recover	what a program does after a crash, up to where it would go on
 *	check	after recover: whether the promises hold, for the note of the crash
 *
 * Recover and check may fail in the recovery's own crashes too: it is traced, and states of its moments are recovered and checked as well, to the given
 * depth. FTH_LONG_TESTS multiplies the limits by `long_factor`.
 */
#ifndef FATHOM_SRC_PM_EXPLORE_H
#define FATHOM_SRC_PM_EXPLORE_H

#include <stdint.h>

struct explore {
	const char *name;
	uint64_t bytes; /* of the memory */
	void (*setup)(
		void *memory); /* before the recording; its stores are persistent. May be NULL */
	void (*run)(void *memory);
	/* 0, or an error: then the program says that it cannot go on, which is a violation */
	int (*recover)(void *memory);
	/* NULL, or the violation in words */
	const char *(*check)(void *memory, uint64_t note);
	uint64_t states;	  /* most of each moment */
	uint64_t recovery_states; /* most of each moment of a recovery */
	unsigned recovery_every;  /* crash in the recovery of every nth state; 0: never */
	unsigned long_factor;
};

/* In run: what was acknowledged so far. */
void explore_note(uint64_t value);

/* Explore. Prints the counts; the process ends with 1 at a violation, and a text. Returns the states. */
uint64_t explore(const struct explore *subject);

/* States of all calls. */
uint64_t explore_total(void);

#endif
