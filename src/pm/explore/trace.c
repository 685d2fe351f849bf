/* SPDX-License-Identifier: BSD-2-Clause */
/* The recorder. trace.h says what it is for. Not part of the library. */
#include "pm/explore/trace.h"

#include "fathom/base/rng.h"
#include "fathom/detail/pm/view.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum pm_event_kind { PM_STORE, PM_FLUSH, PM_FENCE };

struct pm_event {
	enum pm_event_kind kind;
	uint32_t word, count; /* of a store: its word; of a flush: the first, and how many */
	uint64_t value;	      /* of the word after the store; at a fence: the note */
};

struct pm_trace {
	uint8_t *memory;
	uint64_t bytes;
	uint8_t *initial;
	struct pm_event *events;
	uint64_t count, space;
	uint64_t note;
	unsigned fences;
};

struct pm_choice {
	uint32_t word;
	uint32_t first, count; /* values in the pool; the first is the persistent one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pm_trace *active;

struct pm_trace *pm_trace_begin(void *memory, uint64_t bytes)
{
	struct pm_trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return NULL;
	trace->memory = memory;
	trace->bytes = bytes;
	trace->initial = malloc(bytes);
	if (!trace->initial) {
		free(trace);
		return NULL;
	}
	memcpy(trace->initial, memory, bytes);
	pthread_mutex_lock(&lock);
	active = trace;
	pthread_mutex_unlock(&lock);
	return trace;
}

void pm_trace_pause(struct pm_trace *trace)
{
	pthread_mutex_lock(&lock);
	if (active == trace)
		active = NULL;
	pthread_mutex_unlock(&lock);
}

void pm_trace_free(struct pm_trace *trace)
{
	if (!trace)
		return;
	pm_trace_pause(trace);
	free(trace->initial);
	free(trace->events);
	free(trace);
}

void pm_trace_note(struct pm_trace *trace, uint64_t value)
{
	pthread_mutex_lock(&lock);
	trace->note = value;
	pthread_mutex_unlock(&lock);
}

/* ---- recording ---- */

/* A test that has no memory for its events ends. */
static void add_event(struct pm_trace *trace, struct pm_event event)
{
	if (trace->count == trace->space) {
		trace->space = trace->space ? trace->space * 2 : 1024;
		trace->events = realloc(trace->events, trace->space * sizeof(event));
		if (!trace->events)
			abort();
	}
	trace->events[trace->count++] = event;
}

/* The words that [p, p + length) touches, as far as they are in the memory; false if none. */
static bool words_of(const struct pm_trace *trace, const void *p, uint64_t length, uint32_t *first,
		     uint32_t *count)
{
	uint64_t at = (uint64_t)((uintptr_t)p - (uintptr_t)trace->memory);

	if (length == 0 || at >= trace->bytes)
		return false;
	*first = (uint32_t)(at / 8);
	*count = (uint32_t)((at + length - 1) / 8 - at / 8 + 1);
	return true;
}

static uint64_t word_at(const uint8_t *memory, uint32_t word)
{
	uint64_t value;

	memcpy(&value, memory + (uint64_t)word * 8, 8);
	return value;
}

void fth_pm_trace_store(const struct fth_pm_view *view, const void *to, uint64_t length)
{
	uint32_t first, count;

	(void)view;
	pthread_mutex_lock(&lock);
	if (active && words_of(active, to, length, &first, &count))
		for (uint32_t i = 0; i < count; i++)
			add_event(active,
				  (struct pm_event){.kind = PM_STORE,
						    .word = first + i,
						    .value = word_at(active->memory, first + i)});
	pthread_mutex_unlock(&lock);
}

void fth_pm_trace_flush(const struct fth_pm_view *view, const void *p, uint64_t length)
{
	uint32_t first, count;

	(void)view;
	pthread_mutex_lock(&lock);
	if (active && words_of(active, p, length, &first, &count))
		add_event(active,
			  (struct pm_event){.kind = PM_FLUSH, .word = first, .count = count});
	pthread_mutex_unlock(&lock);
}

void fth_pm_trace_fence(const struct fth_pm_view *view)
{
	(void)view;
	pthread_mutex_lock(&lock);
	if (active) {
		add_event(active, (struct pm_event){.kind = PM_FENCE, .value = active->note});
		active->fences++;
	}
	pthread_mutex_unlock(&lock);
}

unsigned pm_trace_moments(const struct pm_trace *trace)
{
	return trace->fences + 1;
}

/* ---- the states of a moment ---- */

/* A replay up to a moment; arrays by word. */
struct replay {
	const struct pm_trace *trace;
	uint64_t words;
	uint64_t *persistent; /* values that are certain */
	uint64_t *current;    /* after the last store */
	uint64_t *flushed;    /* at the last flush */
	uint64_t *since;      /* stores from this event on are not certain */
	uint64_t *mark;	      /* event of the last flush; then: place among the choices, and 1 */
};

static bool replay_begin(struct replay *r, const struct pm_trace *trace)
{
	uint64_t words = trace->bytes / 8;

	r->trace = trace;
	r->words = words;
	r->persistent = calloc(words * 5, 8);
	if (!r->persistent)
		return false;
	r->current = r->persistent + words;
	r->flushed = r->persistent + 2 * words;
	r->since = r->persistent + 3 * words;
	r->mark = r->persistent + 4 * words;
	memcpy(r->persistent, trace->initial, words * 8);
	memcpy(r->current, trace->initial, words * 8);
	return true;
}

static void replay_flush(struct replay *r, const struct pm_event *event, uint64_t number)
{
	for (uint64_t w = event->word; w < event->word + (uint64_t)event->count && w < r->words;
	     w++) {
		r->flushed[w] = r->current[w];
		r->mark[w] = number;
	}
}

/*
 * What was flushed since the last fence, at event `from`, is certain; stores behind the flush are
 * not.
 */
static void replay_fence(struct replay *r, uint64_t from, uint64_t to)
{
	for (uint64_t e = from; e < to; e++) {
		const struct pm_event *event = &r->trace->events[e];

		if (event->kind != PM_FLUSH)
			continue;
		for (uint64_t w = event->word;
		     w < event->word + (uint64_t)event->count && w < r->words; w++) {
			r->persistent[w] = r->flushed[w];
			r->since[w] = r->mark[w];
		}
	}
}

/* Up to the moment's fence, which is not executed. Returns its event. */
static uint64_t replay_until(struct replay *r, unsigned moment)
{
	const struct pm_trace *trace = r->trace;
	uint64_t last = 0, e;

	for (e = 0; e < trace->count; e++) {
		const struct pm_event *event = &trace->events[e];

		if (event->kind == PM_STORE) {
			r->current[event->word] = event->value;
		} else if (event->kind == PM_FLUSH) {
			replay_flush(r, event, e);
		} else {
			if (moment-- == 0)
				break;
			replay_fence(r, last, e);
			last = e + 1;
		}
	}
	return e;
}

/* Words with more than one possible value. First they are counted, by mark, then filled. */
static int collect_choices(struct replay *r, uint64_t until, struct pm_states *states)
{
	const struct pm_event *events = r->trace->events;
	unsigned pool = 0;

	memset(r->mark, 0, r->words * 8);
	for (uint64_t e = 0; e < until; e++)
		if (events[e].kind == PM_STORE && e >= r->since[events[e].word])
			r->mark[events[e].word]++;
	for (uint64_t w = 0; w < r->words; w++) {
		states->count += r->mark[w] > 0;
		pool += r->mark[w] ? (unsigned)r->mark[w] + 1 : 0;
	}
	states->choices = calloc(states->count + 1, sizeof(*states->choices));
	states->pool = calloc(pool + 1, sizeof(*states->pool));
	if (!states->choices || !states->pool)
		return -1;
	states->count = 0;
	pool = 0;
	for (uint64_t w = 0; w < r->words; w++) {
		if (!r->mark[w])
			continue;
		states->choices[states->count] =
			(struct pm_choice){.word = (uint32_t)w, .first = pool, .count = 1};
		states->pool[pool] = r->persistent[w];
		pool += (unsigned)r->mark[w] + 1;
		r->mark[w] = ++states->count;
	}
	for (uint64_t e = 0; e < until; e++)
		if (events[e].kind == PM_STORE && e >= r->since[events[e].word]) {
			struct pm_choice *c = &states->choices[r->mark[events[e].word] - 1];

			if (states->pool[c->first + c->count - 1] != events[e].value)
				states->pool[c->first + c->count++] = events[e].value;
		}
	return 0;
}

static void count_states(struct pm_states *states, uint64_t limit)
{
	states->total = 1;
	states->complete = true;
	for (unsigned i = 0; i < states->count && states->complete; i++) {
		states->total *= states->choices[i].count;
		states->complete = states->total <= limit;
	}
	if (!states->complete)
		states->total = limit;
}

int pm_states_begin(struct pm_states *states, const struct pm_trace *trace, unsigned moment,
		    uint64_t limit, uint64_t seed)
{
	struct replay r;
	uint64_t until;
	int rc;

	*states = (struct pm_states){.trace = trace, .seed = seed};
	if (!replay_begin(&r, trace))
		return -1;
	until = replay_until(&r, moment);
	states->note = until < trace->count ? trace->events[until].value : trace->note;
	rc = collect_choices(&r, until, states);
	states->persistent = malloc(trace->bytes);
	if (states->persistent) {
		memcpy(states->persistent, trace->initial, trace->bytes);
		memcpy(states->persistent, r.persistent, r.words * 8);
	}
	free(r.persistent);
	if (rc < 0 || !states->persistent) {
		pm_states_end(states);
		return -1;
	}
	count_states(states, limit);
	return 0;
}

/*
 * Of the values of a word, for state number n of all, or of the random ones: 0 is nothing new, 1
 * everything.
 */
static uint32_t choose_value(const struct pm_states *states, unsigned i, uint64_t *n,
			     struct fth_rng *rng)
{
	uint32_t count = states->choices[i].count, value;

	if (states->complete) {
		value = (uint32_t)(*n % count);
		*n /= count;
		return value;
	}
	if (*n < 2)
		return *n == 0 ? 0 : count - 1;
	/* Near the extremes as often as in the middle: few words lost, few words kept, or any. */
	switch (*n % 3) {
	case 0:
		return fth_rng_below(rng, states->count) < 2 ? (uint32_t)fth_rng_below(rng, count)
							     : count - 1;
	case 1:
		return fth_rng_below(rng, states->count) < 2 ? (uint32_t)fth_rng_below(rng, count)
							     : 0;
	default:
		return (uint32_t)fth_rng_below(rng, count);
	}
}

bool pm_states_next(struct pm_states *states, void *memory)
{
	struct fth_rng rng = {.state = fth_mix64(states->seed + states->next)};
	uint64_t n = states->next;

	if (states->next >= states->total)
		return false;
	memcpy(memory, states->persistent, states->trace->bytes);
	for (unsigned i = 0; i < states->count; i++) {
		const struct pm_choice *c = &states->choices[i];
		uint64_t value = states->pool[c->first + choose_value(states, i, &n, &rng)];

		memcpy((uint8_t *)memory + (uint64_t)c->word * 8, &value, 8);
	}
	states->next++;
	return true;
}

void pm_states_end(struct pm_states *states)
{
	free(states->choices);
	free(states->pool);
	free(states->persistent);
	*states = (struct pm_states){0};
}
