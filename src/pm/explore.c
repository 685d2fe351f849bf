/* SPDX-License-Identifier: BSD-2-Clause */
/* The crash explorer. explore.h says what it does. Not part of the library. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fathom/base/error.h"
#include "pm/explore.h"
#include "pm/trace.h"

struct walk {
	const struct explore *subject;
	void *memory; /* states are made here, page-aligned */
	void *again;  /* and states of recoveries */
	uint64_t states, recovered, incomplete;
};

static struct pm_trace *running;
static uint64_t total;

void explore_note(uint64_t value)
{
	if (running)
		pm_trace_note(running, value);
}

uint64_t explore_total(void)
{
	return total;
}

__attribute__((noreturn)) static void violation(const struct walk *walk, const char *where,
						unsigned moment, uint64_t note, const char *text)
{
	fprintf(stderr, "%s: %s, moment %u, %" PRIu64 " acknowledged: %s\n", walk->subject->name,
		where, moment, note, text);
	exit(1);
}

static void *new_memory(uint64_t bytes)
{
	void *memory = aligned_alloc(4096, bytes);

	if (!memory)
		abort();
	memset(memory, 0, bytes);
	return memory;
}

static void settle(struct walk *walk, void *memory, const char *where, unsigned moment,
		   uint64_t note)
{
	const char *text;
	int rc = walk->subject->recover(memory);

	if (rc < 0)
		violation(walk, where, moment, note, fth_error_text(rc));
	text = walk->subject->check(memory, note);
	if (text)
		violation(walk, where, moment, note, text);
}

/* The recovery of a state, which is in walk->memory, crashes too. */
static void crash_recovery(struct walk *walk, unsigned moment, uint64_t note, uint64_t limit)
{
	struct pm_trace *trace = pm_trace_begin(walk->memory, walk->subject->bytes);
	struct pm_states states;

	if (!trace)
		abort();
	if (walk->subject->recover(walk->memory) < 0)
		violation(walk, "recovery", moment, note, "recovery failed");
	pm_trace_pause(trace);
	for (unsigned m = 0; m < pm_trace_moments(trace); m++) {
		if (pm_states_begin(&states, trace, m, limit, walk->states + m) < 0)
			abort();
		while (pm_states_next(&states, walk->again)) {
			settle(walk, walk->again, "crash in the recovery", moment, note);
			walk->recovered++;
		}
		pm_states_end(&states);
	}
	pm_trace_free(trace);
}

static void walk_moment(struct walk *walk, const struct pm_trace *trace, unsigned moment,
			unsigned factor)
{
	const struct explore *s = walk->subject;
	struct pm_states states;

	if (pm_states_begin(&states, trace, moment, s->states * factor, moment) < 0)
		abort();
	walk->incomplete += !states.complete;
	while (pm_states_next(&states, walk->memory)) {
		walk->states++;
		if (s->recovery_every && walk->states % s->recovery_every == 0)
			crash_recovery(walk, moment, states.note, s->recovery_states * factor);
		else
			settle(walk, walk->memory, "crash", moment, states.note);
	}
	pm_states_end(&states);
}

uint64_t explore(const struct explore *subject)
{
	unsigned factor = getenv("FTH_LONG_TESTS") ? subject->long_factor : 1;
	struct walk walk = {.subject = subject,
			    .memory = new_memory(subject->bytes),
			    .again = new_memory(subject->bytes)};
	void *memory = new_memory(subject->bytes);
	struct pm_trace *trace;
	unsigned moments;

	if (subject->setup)
		subject->setup(memory);
	trace = running = pm_trace_begin(memory, subject->bytes);
	if (!trace)
		abort();
	subject->run(memory);
	pm_trace_pause(trace);
	running = NULL;
	moments = pm_trace_moments(trace);
	for (unsigned m = 0; m < moments; m++)
		walk_moment(&walk, trace, m, factor);
	printf("%s: %" PRIu64 " states of %u moments (%" PRIu64 " of them sampled), %" PRIu64
	       " in recoveries\n",
	       subject->name, walk.states, moments, walk.incomplete, walk.recovered);
	pm_trace_free(trace);
	free(memory);
	free(walk.memory);
	free(walk.again);
	total += walk.states + walk.recovered;
	return walk.states + walk.recovered;
}
