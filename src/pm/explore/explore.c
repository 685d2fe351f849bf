/* SPDX-License-Identifier: BSD-2-Clause */
/* The crash explorer. explore.h says what it does. Not part of the library. */
#include "pm/explore/explore.h"
#include "pm/explore/trace.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
	const struct explore *subject;
	void *memory; /* states are made here, page-aligned */
	void *again;  /* and states of recoveries */
	uint64_t states, recovered;
	unsigned sampled; /* moments with more states than the limit */
	unsigned factor, recovery_factor;
	uint64_t seed;
	char *text; /* of the violation */
	size_t text_size;
};

static struct pm_trace *running;

void explore_note(uint64_t value)
{
	if (running)
		pm_trace_note(running, value);
}

static void *new_memory(uint64_t bytes)
{
	void *memory = aligned_alloc(4096, bytes);

	if (!memory)
		abort();
	memset(memory, 0, bytes);
	return memory;
}

static bool violated(const struct walk *walk)
{
	return walk->text[0] != '\0';
}

static void violation(struct walk *walk, const char *where, unsigned moment, uint64_t note,
		      const char *text)
{
	snprintf(walk->text, walk->text_size, "%s: %s, moment %u, %" PRIu64 " acknowledged: %s",
		 walk->subject->name, where, moment, note, text);
}

static void settle(struct walk *walk, void *memory, const char *where, unsigned moment,
		   uint64_t note)
{
	const char *text;
	int rc = walk->subject->recover(memory);

	text = rc < 0 ? fth_error_text(rc) : walk->subject->check(memory, note);
	if (text)
		violation(walk, where, moment, note, text);
}

/* The recovery of the state in walk->memory crashes too. */
static void crash_recovery(struct walk *walk, unsigned moment, uint64_t note)
{
	struct pm_trace *trace = pm_trace_begin(walk->memory, walk->subject->bytes);
	uint64_t limit = walk->subject->recovery_states * walk->recovery_factor;
	struct pm_states states;
	unsigned moments;

	if (!trace)
		abort();
	settle(walk, walk->memory, "crash", moment, note);
	pm_trace_pause(trace);
	moments = pm_trace_moments(trace);
	for (unsigned m = 0; m < moments && !violated(walk); m++) {
		if (pm_states_begin(&states, trace, m, limit, walk->seed + walk->states + m) < 0)
			abort();
		while (!violated(walk) && pm_states_next(&states, walk->again)) {
			settle(walk, walk->again, "crash in the recovery", moment, note);
			walk->recovered++;
		}
		pm_states_end(&states);
	}
	pm_trace_free(trace);
}

static void walk_moment(struct walk *walk, const struct pm_trace *trace, unsigned moment)
{
	const struct explore *s = walk->subject;
	struct pm_states states;

	if (pm_states_begin(&states, trace, moment, s->states * walk->factor, walk->seed + moment) <
	    0)
		abort();
	walk->sampled += !states.complete;
	while (!violated(walk) && pm_states_next(&states, walk->memory)) {
		walk->states++;
		if (s->recovery_every && walk->states % s->recovery_every == 0)
			crash_recovery(walk, moment, states.note);
		else
			settle(walk, walk->memory, "crash", moment, states.note);
	}
	pm_states_end(&states);
}

static struct pm_trace *record(const struct explore *subject, void *memory)
{
	struct pm_trace *trace;

	if (subject->setup)
		subject->setup(memory);
	trace = running = pm_trace_begin(memory, subject->bytes);
	if (!trace)
		abort();
	subject->run(memory);
	pm_trace_pause(trace);
	running = NULL;
	return trace;
}

static void choose_effort(struct walk *walk)
{
	const struct explore *s = walk->subject;
	const char *seed = getenv("FTH_SEED");
	bool much = getenv("FTH_LONG_TESTS") != NULL;

	walk->factor = much ? s->long_factor : 1;
	walk->recovery_factor =
		much && s->long_recovery_factor ? s->long_recovery_factor : walk->factor;
	walk->seed = seed ? fth_mix64(strtoull(seed, NULL, 10)) : 0;
}

uint64_t explore_try(const struct explore *subject, char *text, size_t size)
{
	struct walk walk = {.subject = subject,
			    .memory = new_memory(subject->bytes),
			    .again = new_memory(subject->bytes),
			    .text = text,
			    .text_size = size};
	void *memory = new_memory(subject->bytes);
	struct pm_trace *trace = record(subject, memory);
	unsigned moments = pm_trace_moments(trace);

	text[0] = '\0';
	choose_effort(&walk);
	for (unsigned m = 0; m < moments && !violated(&walk); m++)
		walk_moment(&walk, trace, m);
	printf("%s: %" PRIu64 " states of %u moments (%u of them sampled), %" PRIu64
	       " in recoveries\n",
	       subject->name, walk.states, moments, walk.sampled, walk.recovered);
	pm_trace_free(trace);
	free(memory);
	free(walk.memory);
	free(walk.again);
	return walk.states + walk.recovered;
}

uint64_t explore(const struct explore *subject)
{
	char text[512];
	uint64_t states = explore_try(subject, text, sizeof(text));

	if (text[0]) {
		fprintf(stderr, "%s\n", text);
		exit(1);
	}
	return states;
}
