/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clocks: a hand goes round the frames and takes the first whose line was not used (HOT) since it last
 * came by; HOT is cleared on the way. BaM's clock does not look at use.
 *
 * With a trial there is a ring of frames on trial beside the hand, a sixteenth of all. A new line takes
 * the next place of the ring; the line that had it has had its trial: if it was used it stays, in the
 * hand's care, and the new line's frame comes from the hand. If not its frame is the new line's; except
 * that one in 32 stays anyway, so that part of a loop that does not fit comes to stay. This is the
 * small queue of S3-FIFO (policy_s3fifo.c) with the bimodal insertion of BRRIP at its end.
 */
#include "policy.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE	    UINT32_MAX
#define TRIAL_SHARE 16 /* one frame of so many is on trial */
#define TRIAL_KEEP  32 /* one of so many unused lines stays after its trial */

struct frame {
	uint32_t line;
	bool on_trial;
};

struct clock {
	bool use_hot;
	struct frame *frames;
	uint32_t n, used, hand;
	uint32_t *where; /* frame of a line, or NONE */
	uint8_t *hot;	 /* by line */
	uint32_t *ring, places, ticket;
};

static bool was_used(struct clock *c, const struct frame *frame)
{
	bool hot = c->use_hot && c->hot[frame->line];

	c->hot[frame->line] = 0;
	return hot;
}

static uint32_t turn_hand(struct clock *c)
{
	for (;;) {
		uint32_t i = c->hand;
		struct frame *frame = &c->frames[i];

		c->hand = (c->hand + 1) % c->n;
		if (!frame->on_trial && !was_used(c, frame))
			return i;
	}
}

/* End the trial of the line in this place of the ring; its frame, or NONE if it stays. */
static uint32_t end_trial(struct clock *c, uint32_t ticket)
{
	uint32_t i = c->ring[ticket % c->places];
	struct frame *frame = &c->frames[i];

	if (i == NONE)
		return NONE;
	frame->on_trial = false;
	if (was_used(c, frame) || fth_mix64(ticket) % TRIAL_KEEP == 0)
		return NONE;
	return i;
}

static void fill(struct clock *c, uint32_t i, uint32_t line)
{
	c->frames[i] = (struct frame){.line = line};
	c->where[line] = i;
	c->hot[line] = 0;
}

static void miss(struct clock *c, uint32_t line)
{
	uint32_t i = NONE, ticket = c->ticket;

	if (c->used < c->n) {
		fill(c, c->used++, line);
		return;
	}
	if (c->places)
		i = end_trial(c, ticket);
	if (i == NONE)
		i = turn_hand(c);
	c->where[c->frames[i].line] = NONE;
	fill(c, i, line);
	if (c->places) {
		c->frames[i].on_trial = true;
		c->ring[ticket % c->places] = i;
		c->ticket++;
	}
}

static int64_t count_hits(struct clock *c, const struct fth_policy_trace *trace)
{
	int64_t hits = 0;

	memset(c->where, 0xff, trace->universe * sizeof(*c->where));
	memset(c->ring, 0xff, c->places * sizeof(*c->ring));
	for (size_t i = 0; i < trace->n; i++) {
		uint32_t line = trace->lines[i];

		if (c->where[line] == NONE) {
			miss(c, line);
		} else {
			hits++;
			c->hot[line] = 1;
		}
	}
	return hits;
}

int64_t fth_policy_run_clock(const struct fth_policy *policy, const struct fth_policy_trace *trace)
{
	struct clock c = {.use_hot = policy->use_hot, .n = trace->frames};
	int64_t hits = -ENOMEM;

	if (policy->trial)
		c.places = c.n / TRIAL_SHARE;
	c.frames = calloc(c.n, sizeof(*c.frames));
	c.where = malloc(trace->universe * sizeof(*c.where) + 1);
	c.hot = calloc(trace->universe + 1, sizeof(*c.hot));
	c.ring = malloc(c.places * sizeof(*c.ring) + 1);
	if (c.frames && c.where && c.hot && c.ring)
		hits = count_hits(&c, trace);
	free(c.frames);
	free(c.where);
	free(c.hot);
	free(c.ring);
	return hits;
}

const struct fth_policy fth_policies[] = {
	{"opt", "Belady's: knows the future", fth_policy_run_opt, false, false},
	{"s3fifo", "S3-FIFO: small, main and ghost queue", fth_policy_run_s3fifo, false, false},
	{"drrip sets", "DRRIP as published, in sets of 16", fth_policy_run_sets, false, false},
	{"fifo", "BaM's clock: the next one", fth_policy_run_clock, false, false},
	{"clock", "the next one not used since", fth_policy_run_clock, true, false},
	{"trial", "ours: clock, new lines on trial in 1/16 of it", fth_policy_run_clock, true,
	 true},
	{0},
};
const unsigned fth_policy_count = sizeof(fth_policies) / sizeof(fth_policies[0]) - 1;

const struct fth_policy *fth_policy_find(const char *name)
{
	for (const struct fth_policy *policy = fth_policies; policy->name; policy++)
		if (strcmp(policy->name, name) == 0)
			return policy;
	return NULL;
}
