/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clock family: what can be built from a HOT bit per line, a few bits per frame, one hand and
 * a stamp in the word of a line that is not in the cache.
 *
 * Each frame has a distance of 0 to `max` (the re-reference prediction of RRIP: Jaleel et al.,
 * "High performance cache replacement using re-reference interval prediction", ISCA 2010). The
 * hand looks at one frame after another:
 *
 *	HOT			HOT is cleared, the distance becomes 0
 *	distance < max		it grows by one
 *	otherwise		the line goes
 *
 * and policies differ in the distance that a new line begins with, and in where it begins.
 *
 * `trial` policies have a ring of frames on trial beside the hand. A new line takes the next place
 * of the ring; the line that had it has had its trial: if it was used it stays, in the hand's care,
 * and the new line's frame comes from the hand. If not its frame is the new line's; except that one
 * in `keep` stays anyway, so that part of a loop that does not fit comes to stay. This is the small
 * queue of S3-FIFO (policy_queue.c) with the bimodal insertion of BRRIP at its end.
 */
#include "policy.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE	     UINT32_MAX
#define BIMODAL_ONE  32	 /* of so many new lines begins nearer */
#define LEADERS_OF   32	 /* each side of a duel leads one line of so many */
#define DUEL_LIMIT   512 /* of the counter */
#define GHOST_CACHES 1	 /* a line that went at most so many caches' worth of evictions ago */

enum start { AT_MAX, BEFORE_MAX, BIMODAL, DUEL };

struct rules {
	bool use_hot; /* false: use does not matter */
	uint8_t max;
	enum start start;
	bool stay;	/* a frame filled at max distance is the next the hand looks at */
	bool ghost;	/* a line that went recently begins at distance 0, and not on trial */
	unsigned trial; /* one frame of so many is on trial; 0 none */
	unsigned keep;	/* one of so many unused lines stays after its trial */
};

struct frame {
	uint32_t line;
	uint8_t distance;
	bool on_trial;
};

struct clock {
	const struct rules *rules;
	struct frame *frames;
	uint32_t n, used, hand;
	uint32_t *where; /* frame of a line, or NONE */
	uint8_t *hot;	 /* by line */
	uint32_t *gone;	 /* by line: the how manieth eviction it was; 0 none */
	uint32_t evictions;
	uint32_t *ring, places, ticket;
	int duel; /* above 0: lines led by BEFORE_MAX missed more often than those led by BIMODAL */
	struct fth_rng rng;
};

/* Whose side a line leads: 1 BEFORE_MAX, -1 BIMODAL, 0 it follows the winner. */
static int leader_of(uint32_t line)
{
	uint64_t part = fth_mix64(line) % LEADERS_OF;

	return part == 0 ? 1 : part == 1 ? -1 : 0;
}

static void count_duel(struct clock *c, uint32_t line)
{
	int next = c->duel + leader_of(line);

	if (next >= -DUEL_LIMIT && next <= DUEL_LIMIT)
		c->duel = next;
}

static bool is_bimodal(const struct clock *c, uint32_t line)
{
	int leader = leader_of(line);

	if (c->rules->start == DUEL)
		return leader ? leader < 0 : c->duel > 0;
	return c->rules->start == BIMODAL;
}

static uint8_t distance_at_start(struct clock *c, uint32_t line)
{
	const struct rules *rules = c->rules;

	if (rules->start == AT_MAX)
		return rules->max;
	if (is_bimodal(c, line) && fth_rng_below(&c->rng, BIMODAL_ONE))
		return rules->max;
	return rules->max - 1;
}

static bool went_recently(const struct clock *c, uint32_t line)
{
	return c->rules->ghost && c->gone[line] &&
	       c->evictions - c->gone[line] < GHOST_CACHES * c->n;
}

static bool was_used(struct clock *c, const struct frame *frame)
{
	bool hot = c->rules->use_hot && c->hot[frame->line];

	c->hot[frame->line] = 0;
	return hot;
}

static uint32_t turn_hand(struct clock *c)
{
	for (;;) {
		uint32_t i = c->hand;
		struct frame *frame = &c->frames[i];

		c->hand = (c->hand + 1) % c->n;
		if (frame->on_trial)
			continue;
		if (was_used(c, frame))
			frame->distance = 0;
		else if (frame->distance < c->rules->max)
			frame->distance++;
		else
			return i;
	}
}

/* End the trial of whoever has this place of the ring; its frame, or NONE if it stays. */
static uint32_t end_trial(struct clock *c, uint32_t ticket)
{
	uint32_t i = c->ring[ticket % c->places];
	struct frame *frame = &c->frames[i];

	if (i == NONE)
		return NONE;
	frame->on_trial = false;
	frame->distance = 0;
	if (was_used(c, frame) || fth_mix64(ticket) % c->rules->keep == 0)
		return NONE;
	return i;
}

static void evict(struct clock *c, uint32_t i)
{
	uint32_t line = c->frames[i].line;

	c->where[line] = NONE;
	c->gone[line] = ++c->evictions;
}

static void fill(struct clock *c, uint32_t i, uint32_t line, uint8_t distance)
{
	c->frames[i] = (struct frame){.line = line, .distance = distance};
	c->where[line] = i;
	c->hot[line] = 0;
	if (c->rules->stay && distance == c->rules->max)
		c->hand = i;
}

static void miss(struct clock *c, uint32_t line)
{
	bool recent = went_recently(c, line), trial = c->places && !recent;
	uint8_t distance = recent ? 0 : distance_at_start(c, line);
	uint32_t i, ticket = c->ticket;

	count_duel(c, line);
	if (c->used < c->n) {
		fill(c, c->used++, line, distance);
		return;
	}
	i = trial ? end_trial(c, ticket) : NONE;
	if (i == NONE)
		i = turn_hand(c);
	evict(c, i);
	fill(c, i, line, distance);
	if (trial) {
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
	struct clock c = {.rules = policy->rules, .n = trace->frames};
	int64_t hits = -ENOMEM;

	if (c.rules->trial)
		c.places = c.n / c.rules->trial;
	c.frames = calloc(c.n, sizeof(*c.frames));
	c.where = malloc(trace->universe * sizeof(*c.where) + 1);
	c.hot = calloc(trace->universe + 1, sizeof(*c.hot));
	c.gone = calloc(trace->universe + 1, sizeof(*c.gone));
	c.ring = malloc(c.places * sizeof(*c.ring) + 1);
	if (c.frames && c.where && c.hot && c.gone && c.ring)
		hits = count_hits(&c, trace);
	free(c.frames);
	free(c.where);
	free(c.hot);
	free(c.gone);
	free(c.ring);
	return hits;
}

#define CLOCK(name, text, ...)                                          \
	{                                                               \
		name, text, fth_policy_run_clock, &(const struct rules) \
		{                                                       \
			__VA_ARGS__                                     \
		}                                                       \
	}

const struct fth_policy fth_policies[] = {
	{"opt", "Belady's: knows the future", fth_policy_run_opt, NULL},
	{"lru", "least recently used", fth_policy_run_lru, NULL},
	{"s3fifo", "S3-FIFO: small, main and ghost queue", fth_policy_run_s3fifo, NULL},
	{"drrip sets", "DRRIP as published, in sets of 16", fth_policy_run_sets, NULL},
	CLOCK("fifo", "BaM's clock: the next one", .start = AT_MAX),
	CLOCK("clock", "the next one not used since", .use_hot = true, .start = AT_MAX),
	CLOCK("srrip", "new lines one step from going", .use_hot = true, .max = 3,
	      .start = BEFORE_MAX),
	CLOCK("brrip", "only 1 new line in 32 is", .use_hot = true, .max = 3, .start = BIMODAL),
	CLOCK("drrip", "a duel of these two", .use_hot = true, .max = 3, .start = DUEL),
	CLOCK("ghost drrip", "and lines that went recently begin at 0", .use_hot = true, .max = 3,
	      .start = DUEL, .ghost = true),
	CLOCK("brrip stay", "brrip, new lines are looked at first", .use_hot = true, .max = 3,
	      .start = BIMODAL, .stay = true),
	CLOCK("trial", "clock, new lines on trial in 1/16 of it", .use_hot = true, .start = AT_MAX,
	      .trial = 16, .keep = 32),
	CLOCK("trial 1/10", "1/10 of it", .use_hot = true, .start = AT_MAX, .trial = 10,
	      .keep = 32),
	CLOCK("trial rrip", "srrip, new lines on trial in 1/16 of it", .use_hot = true, .max = 3,
	      .start = BEFORE_MAX, .trial = 16, .keep = 32),
	CLOCK("trial ghost", "trial, not for lines that went recently", .use_hot = true,
	      .start = AT_MAX, .trial = 16, .keep = 32, .ghost = true),
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
