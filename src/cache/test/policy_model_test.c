/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache hits exactly as often as a plain model of its policies: a hand that goes round the
 * frames and takes the first whose line was not used (HOT) since it last came by. FIFO does not
 * look at use. With a trial a sixteenth of the frames is a ring: a new line takes the next place
 * there; the line that had the place stays, in the hand's care, if it was used, and one in 32 stays
 * anyway.
 */
#include "model_fixture.h"

#include <stdlib.h>
#include <string.h>

#define FRAMES	    1024u
#define LINES	    (10 * FRAMES)
#define ACCESSES    20000
#define NONE	    UINT32_MAX
#define TRIAL_SHARE 16
#define TRIAL_KEEP  32

struct clock {
	bool use_hot, trial;
	uint32_t line[FRAMES];
	bool on_trial[FRAMES];
	uint32_t used, hand, ticket;
	uint32_t ring[FRAMES / TRIAL_SHARE];
	uint32_t frame[LINES]; /* of a line, or NONE */
	bool hot[LINES];
};

static bool was_used(struct clock *c, uint32_t frame)
{
	bool hot = c->use_hot && c->hot[c->line[frame]];

	c->hot[c->line[frame]] = false;
	return hot;
}

static uint32_t turn_hand(struct clock *c)
{
	for (;;) {
		uint32_t frame = c->hand;

		c->hand = (c->hand + 1) % FRAMES;
		if (!c->on_trial[frame] && !was_used(c, frame))
			return frame;
	}
}

/* The frame of the line whose trial ends, or NONE if the line stays. */
static uint32_t end_trial(struct clock *c)
{
	uint32_t frame = c->ring[c->ticket % (FRAMES / TRIAL_SHARE)];

	if (frame == NONE)
		return NONE;
	c->on_trial[frame] = false;
	return was_used(c, frame) || fth_mix64(c->ticket) % TRIAL_KEEP == 0 ? NONE : frame;
}

static void fill_frame(struct clock *c, uint32_t frame, uint32_t line)
{
	c->line[frame] = line;
	c->frame[line] = frame;
	c->hot[line] = false;
}

static void miss_line(struct clock *c, uint32_t line)
{
	uint32_t frame = NONE;

	if (c->used < FRAMES) {
		fill_frame(c, c->used++, line);
		return;
	}
	if (c->trial)
		frame = end_trial(c);
	if (frame == NONE)
		frame = turn_hand(c);
	c->frame[c->line[frame]] = NONE;
	fill_frame(c, frame, line);
	if (c->trial) {
		c->on_trial[frame] = true;
		c->ring[c->ticket++ % (FRAMES / TRIAL_SHARE)] = frame;
	}
}

static uint64_t hits_of_model(const uint32_t *trace, enum fth_cache_policy policy)
{
	struct clock *c = calloc(1, sizeof(*c));
	uint64_t hits = 0;

	assert_non_null(c);
	c->use_hot = policy != FTH_CACHE_FIFO;
	c->trial = policy == FTH_CACHE_TRIAL;
	memset(c->ring, 0xff, sizeof(c->ring));
	memset(c->frame, 0xff, sizeof(c->frame));
	for (unsigned i = 0; i < ACCESSES; i++) {
		if (c->frame[trace[i]] == NONE) {
			miss_line(c, trace[i]);
		} else {
			hits++;
			c->hot[trace[i]] = true;
		}
	}
	free(c);
	return hits;
}

static uint64_t hits_of_cache(const uint32_t *trace, enum fth_cache_policy policy, bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_dev *dev = model_open_dev("mem:%llu", (unsigned long long)LINES * 512);
	struct fth_cache_range *range;
	uint64_t hits, value;

	options.line = 512;
	options.depth = 1; /* more in flight would mean more frames on trial */
	options.policy = policy;
	options.compact = compact;
	range = model_open_cache(dev, &options, FRAMES);
	for (unsigned i = 0; i < ACCESSES; i++)
		assert_ok(model_get(range, (uint64_t)trace[i] * 64, &value));
	hits = fth_cache_stat(fth_cache_of(range), FTH_CACHE_HITS);
	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
	return hits;
}

enum pattern { POPULAR, LOOP, SCAN, PATTERNS };

/*
 * Few lines are popular; twice the cache, round and round; popular lines between those of a scan.
 */
static void make_trace(uint32_t *trace, enum pattern pattern)
{
	struct fth_rng rng = {7};

	for (unsigned i = 0; i < ACCESSES; i++) {
		uint64_t popular = fth_rng_below(&rng, 1 + fth_rng_below(&rng, LINES));

		trace[i] = (uint32_t)popular;
		if (pattern == LOOP)
			trace[i] = i % (2 * FRAMES);
		else if (pattern == SCAN)
			trace[i] = (uint32_t)(i % 2 ? FRAMES + i / 2 % (8 * FRAMES) : popular / 10);
	}
}

static void the_cache_hits_as_often_as_the_model(void **state)
{
	static uint32_t trace[ACCESSES];

	(void)state;
	for (unsigned pattern = 0; pattern < PATTERNS; pattern++) {
		make_trace(trace, (enum pattern)pattern);
		for (unsigned i = FTH_CACHE_FIFO; i < FTH_CACHE_POLICY_COUNT; i++) {
			enum fth_cache_policy policy = (enum fth_cache_policy)i;

			assert_int_equal(hits_of_cache(trace, policy, i % 2),
					 hits_of_model(trace, policy));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cache_hits_as_often_as_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
