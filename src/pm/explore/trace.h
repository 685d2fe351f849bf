/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A recorder of stores, flushes and fences, and the states that a crash could leave: for tests of
 * code that was compiled with FTH_PM_TRACE.
 *
 * The model is that of fathom/pm.h: of each aligned word of 8 bytes a crash leaves any value that
 * it had since it was last persisted, independent of all other words. A word is persisted, with the
 * value that it had at the flush, by the next fence behind a flush that covers it. Fences are taken
 * to cover flushes of all threads; tests with threads hold where that is so.
 *
 * The states that a crash before a fence can leave include those of all crashes since the fence
 * before it: words only gain values in between. So it is enough to look at the moments just before
 * each fence, and at the end.
 */
#ifndef FATHOM_SRC_PM_EXPLORE_TRACE_H
#define FATHOM_SRC_PM_EXPLORE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

struct pm_trace;

/*
 * Record what happens to [memory, memory + bytes) from now on; its contents now are persistent. One
 * recorder at a time can be active; the others wait for pm_trace_resume(). NULL if memory is short.
 */
struct pm_trace *pm_trace_begin(void *memory, uint64_t bytes);
void pm_trace_pause(struct pm_trace *trace);
void pm_trace_free(struct pm_trace *trace);

/*
 * A number that the program reached, such as operations acknowledged: a state knows the last one
 * before its crash.
 */
void pm_trace_note(struct pm_trace *trace, uint64_t value);

/* Moments to crash at: before each fence, and the end. */
unsigned pm_trace_moments(const struct pm_trace *trace);

/*
 * A walk over the states of one moment. All of them, if there are no more than `limit`; else the
 * two extremes (nothing that was not persisted, and everything) and random ones, `limit` in all.
 */
struct pm_states {
	const struct pm_trace *trace;
	uint64_t note;	/* at the moment */
	uint64_t total; /* states that this walk has */
	bool complete;	/* these are all that there are */
	/* Words that may differ, and their values. */
	struct pm_choice *choices;
	uint64_t *pool;
	unsigned count;
	uint8_t *persistent; /* the memory without them */
	uint64_t next, seed;
};

int pm_states_begin(struct pm_states *states, const struct pm_trace *trace, unsigned moment,
		    uint64_t limit, uint64_t seed);
/* The next state, into `memory` of the trace's size. False when there is none. */
bool pm_states_next(struct pm_states *states, void *memory);
void pm_states_end(struct pm_states *states);

#endif
